package config

import (
	"strings"
	"testing"
)

// YAML 1.1 scalars as PyYAML 6 resolves and Python 3 prints them.
func TestScalars(t *testing.T) {
	for _, tc := range []struct{ yaml, want string }{
		{"on", "True"}, {"Off", "False"}, {"YES", "True"}, {"no", "False"}, {"y", "y"}, {"n", "n"}, {"oN", "oN"}, {`"on"`, "on"}, {"'no'", "no"},
		{"1e3", "1e3"}, {"1.0e3", "1.0e3"}, {"1.0e+3", "1000.0"}, {"1.5e-7", "1.5e-07"}, {"1.e+20", "1e+20"}, {"1.0e+400", "inf"},
		{"017", "15"}, {"0o17", "0o17"}, {"0x1F", "31"}, {"-0x1f", "-31"}, {"0b101", "5"}, {"1_000", "1000"}, {"1:30", "90"}, {"-1:30", "-90"}, {"1:30.5", "90.5"},
		{".5", "0.5"}, {"1.", "1.0"}, {"+1.5", "1.5"}, {"-.5", "-.5"}, {".inf", "inf"}, {"-.INF", "-inf"}, {".nan", "nan"}, {"08", "08"}, {"-0", "0"}, {"+12", "12"},
		{"123456789012345678901234567890", "123456789012345678901234567890"}, {"0.1", "0.1"}, {"100000000000000000.0", "1e+17"}, {"0.00001", "1e-05"},
		{"2026-01-02", "2026-01-02"}, {"8k", "8k"}, {"!!str 017", "017"}, {"|\n  a\n  b\n", "a\nb\n"}, {"a b", "a b"},
		{"=", "error"}, {"~", "null"}, {"Null", "null"}, {"", "null"}, {"0x_", "error"}, {"!x y", "error"},
	} {
		root, err := parseYAML([]byte("k: " + tc.yaml))
		if err != nil {
			t.Errorf("%q: %v", tc.yaml, err)
			continue
		}
		s := scalarOf(root.Content[1])
		got := s.text
		switch {
		case s.err != nil:
			got = "error"
		case s.null:
			got = "null"
		}
		if got != tc.want {
			t.Errorf("%q: got %q, want %q", tc.yaml, got, tc.want)
		}
	}
}

// FuzzFile: any file gives settings or an error that names it, quickly, and never
// shows a key.
func FuzzFile(f *testing.F) {
	for _, s := range []string{"", "port: 1", "a: &a [*a]", bomb(), "model: =", "<<: {port: 1}", "? [a]\n: b", "port: 1\n---\n", "served-model-name: [a, [b, c], {d: e}]",
		"limit: [messages=3, 'x=y']", "max-model-len: 1_000\nexact: on\nno-verify: off", "\ufeffport: 1", "api-key: \x00", "seed: -0b1_1", "drain-timeout: 1:30", "{port: 1, 'host': ::1}"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := load("--config x.yaml", string(data))
		if err != nil {
			if !strings.HasPrefix(err.Error(), "--") || len(err.Error()) > 4000+len(data) {
				t.Fatalf("error %q", err)
			}
			return
		}
		if c.Port < 0 || c.Port > 65535 || c.StreamInterval < 1 || c.Limits == nil || c.MaxModelLen < 0 {
			t.Fatalf("settings out of range: %+v", c.Settings)
		}
		if err := c.Explain(new(strings.Builder)); err != nil {
			t.Fatal(err)
		}
	})
}

// FuzzArguments: any command line gives settings or an error.
func FuzzArguments(f *testing.F) {
	for _, s := range []string{"", "m --port 1", "-tp 1", "-cc.a+ 1,2", "--compilation-config.a.b.c {}", "--limit queue=1", "--", "-", "--no-no-x", "--=", "-.", "--served-model-name a b -q x", "--a.b=1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, line string) {
		if c, err := load(line, "port: 2"); err == nil && (c.Port < 0 || c.Limits == nil) {
			t.Fatalf("settings out of range: %+v", c.Settings)
		}
	})
}
