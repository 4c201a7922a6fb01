package config

import (
	"bytes"
	"errors"
	"flag"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"ossian/internal/limits"
	"ossian/internal/wire"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// load parses a command line in which spaces separate; FILE stands for a YAML file.
func load(args, yaml string, env ...string) (*Config, error) {
	return Load(Source{Args: strings.Fields(args), Env: env, ReadFile: func(string) ([]byte, error) { return []byte(yaml), nil }})
}

func TestDefaults(t *testing.T) {
	c, err := load("", "")
	if err != nil {
		t.Fatal(err)
	}
	want := Settings{Host: "127.0.0.1", Port: 8000, KVCacheDType: "auto", PrefixCaching: true, Overlap: true, Verify: true, StreamInterval: 1,
		CheckpointSampler: true, DrainTimeout: 30 * time.Second, MetricsPrefix: "vllm", LogLevel: "info", LogFormat: "auto", AccessLog: true, Limits: limits.Defaults()}
	if !reflect.DeepEqual(c.Settings, want) {
		t.Errorf("got  %+v\nwant %+v", c.Settings, want)
	}
	if len(c.Notes) != 0 {
		t.Errorf("notes without flags: %q", c.Notes)
	}
}

func TestArguments(t *testing.T) {
	for _, tc := range []struct {
		name, args string
		yaml       string
		env        []string
		is         func(*Config) bool
	}{
		{name: "model", args: "Qwen/Qwen3-0.6B", is: func(c *Config) bool { return c.Model == "Qwen/Qwen3-0.6B" }},
		{name: "model of the file", args: "--config x.yaml", yaml: "model: a", is: func(c *Config) bool { return c.Model == "a" }},
		{name: "model of the command line wins", args: "b --config x.yaml", yaml: "model: a", is: func(c *Config) bool { return c.Model == "b" }},
		{name: "equals sign", args: "--port=9000", is: func(c *Config) bool { return c.Port == 9000 }},
		{name: "underscores", args: "--max_model_len 8k", is: func(c *Config) bool { return c.MaxModelLen == 8000 }},
		{name: "binary size", args: "--max-model-len 8K", is: func(c *Config) bool { return c.MaxModelLen == 8192 }},
		{name: "binary millions", args: "--max-model-len 1M", is: func(c *Config) bool { return c.MaxModelLen == 1<<20 }},
		{name: "fraction", args: "--max-model-len 25.6k", is: func(c *Config) bool { return c.MaxModelLen == 25600 }},
		{name: "automatic", args: "--max-model-len auto", is: func(c *Config) bool { return c.MaxModelLen == 0 }},
		{name: "automatic as -1", args: "--max-model-len -1", is: func(c *Config) bool { return c.MaxModelLen == 0 }},
		{name: "names", args: "--served-model-name a b --port 1", is: func(c *Config) bool { return slices.Equal(c.ServedNames, []string{"a", "b"}) && c.Port == 1 }},
		{name: "names one by one", args: "--served-model-name a --served-model-name b", is: func(c *Config) bool { return slices.Equal(c.ServedNames, []string{"a", "b"}) }},
		{name: "names of the file", args: "--config x.yaml", yaml: "served-model-name: [a, b]", is: func(c *Config) bool { return slices.Equal(c.ServedNames, []string{"a", "b"}) }},
		{name: "command line replaces the file's list", args: "--config x.yaml --served-model-name c", yaml: "served-model-name: [a, b]", is: func(c *Config) bool { return slices.Equal(c.ServedNames, []string{"c"}) }},
		{name: "off", args: "--no-enable-prefix-caching", is: func(c *Config) bool { return !c.PrefixCaching }},
		{name: "on over the file's off", args: "--config x.yaml --enable-prefix-caching", yaml: "no-enable-prefix-caching: true", is: func(c *Config) bool { return c.PrefixCaching }},
		{name: "false in the file", args: "--config x.yaml", yaml: "enable-prefix-caching: false", is: func(c *Config) bool { return !c.PrefixCaching }},
		{name: "no- false in the file is nothing", args: "--config x.yaml", yaml: "no-enable-prefix-caching: false", is: func(c *Config) bool { return c.PrefixCaching }},
		{name: "no-verify", args: "--no-verify", is: func(c *Config) bool { return !c.Verify }},
		{name: "environment", env: []string{"OSSIAN_PORT=9", "OSSIAN_API_KEY=k1 k2", "OSSIAN_UNRELATED=x"}, is: func(c *Config) bool { return c.Port == 9 && slices.Equal(c.APIKeys, []string{"k1", "k2"}) }},
		{name: "environment over the file", args: "--config x.yaml", yaml: "port: 7", env: []string{"OSSIAN_PORT=9"}, is: func(c *Config) bool { return c.Port == 9 }},
		{name: "command line over the environment", args: "--port 5", env: []string{"OSSIAN_PORT=9"}, is: func(c *Config) bool { return c.Port == 5 }},
		{name: "Kubernetes' variable", env: []string{"OSSIAN_PORT=tcp://10.0.0.1:80"}, is: func(c *Config) bool { return c.Port == 8000 && len(c.Notes) == 1 }},
		{name: "key opens", args: "--host 0.0.0.0 --api-key k", is: func(c *Config) bool { return c.Host == "0.0.0.0" && len(c.Notes) == 0 }},
		{name: "insecure opens, with a warning", args: "--host 0.0.0.0 --insecure", is: func(c *Config) bool { return len(c.Notes) == 1 }},
		{name: "loopback of IPv6 in brackets", args: "--host [::1]", is: func(c *Config) bool { return c.Host == "::1" }},
		{name: "queue by its limit", args: "--limit queue=5", is: func(c *Config) bool {
			return c.values["max-queue"].texts[0] == "5" && c.Origin("max-queue") == "command line"
		}},
		{name: "loopback of IPv6", args: "--host ::1", is: func(c *Config) bool { return c.Host == "::1" }},
		{name: "short", args: "-tp 1", is: func(c *Config) bool {
			return len(c.Notes) == 1 && strings.HasPrefix(c.Notes[0], "--tensor-parallel-size 1: ")
		}},
		{name: "dotted JSON", args: "--compilation-config.a.b 1 -cc.a.c+ x,2", is: func(c *Config) bool { return c.values["compilation-config"].texts[0] == `{"a":{"b":1,"c":["x",2]}}` }},
		{name: "queue", args: "--max-queue 5", is: func(c *Config) bool { return c.Limits[limits.Queue] == 5 }},
		{name: "limit", args: "--limit stop_bytes=1Ki messages=9", is: func(c *Config) bool { return c.Limits[limits.StopBytes] == 1024 && c.Limits[limits.Messages] == 9 }},
		{name: "limit of the whole vocabulary", args: "--max-logprobs -1", is: func(c *Config) bool { return c.Limits[limits.TopLogprobs] == limits.TopLogprobs.Info().Max }},
		{name: "seconds", args: "--drain-timeout 5", is: func(c *Config) bool { return c.DrainTimeout == 5*time.Second }},
		{name: "duration", args: "--drain-timeout 2m", is: func(c *Config) bool { return c.DrainTimeout == 2*time.Minute }},
		{name: "dtype spelled in full", args: "--kv-cache-dtype bfloat16", is: func(c *Config) bool { return c.KVCacheDType == "bf16" }},
		{name: "seed", args: "--seed -3", is: func(c *Config) bool { return c.Seed != nil && *c.Seed == -3 }},
		{name: "reasoning field", args: "--reasoning-field both", is: func(c *Config) bool { return c.ReasoningField == wire.FieldBoth }},
		{name: "uvicorn's level", args: "--uvicorn-log-level warning", is: func(c *Config) bool { return c.LogLevel == "warn" && len(c.Notes) == 1 }},
		{name: "uvicorn's access log", args: "--disable-uvicorn-access-log", is: func(c *Config) bool { return !c.AccessLog }},
		{name: "origins as JSON", args: `--allowed-origins ["https://a","*"]`, is: func(c *Config) bool { return slices.Equal(c.AllowedOrigins, []string{"https://a", "*"}) }},
		{name: "last wins with a warning", args: "--port 1 --port 2", is: func(c *Config) bool { return c.Port == 2 && len(c.Notes) == 1 }},
		{name: "memory", args: "--gpu-memory-utilization 0.5", is: func(c *Config) bool { return c.MemoryShare == .5 && len(c.Notes) == 1 }},
		{name: "empty file", args: "--config x.yml", yaml: "# nothing\n", is: func(c *Config) bool { return c.Port == 8000 }},
		{name: "mapping in the file", args: "--config x.yml", yaml: "compilation-config: {a: {b: on, c: [1, x, 1e3]}}", is: func(c *Config) bool {
			return c.values["compilation-config"].texts[0] == `{"a":{"b":true,"c":[1,"x","1e3"]}}`
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c, err := load(tc.args, tc.yaml, tc.env...)
			if err != nil {
				t.Fatal(err)
			}
			if !tc.is(c) {
				t.Errorf("got %+v\nnotes %q", c.Settings, c.Notes)
			}
		})
	}
}

// OPS-3, SEC-1: what is refused, and what the message must say.
func TestRefused(t *testing.T) {
	for _, tc := range []struct{ name, args, yaml, want string }{
		{"unknown flag", "--prot 1", "", "unknown flag --prot; did you mean --port?"},
		{"unknown flag far from all", "--zzzzzzzz", "", "unknown flag --zzzzzzzz"},
		{"misspelt no-", "--no-enable-prefix-cachign", "", "did you mean --no-enable-prefix-caching?"},
		{"single dash", "-port 1", "", "flags begin with --"},
		{"unknown key", "--config a.yaml", "prot: 1", `a.yaml: line 1: unknown key "prot"; did you mean port?`},
		{"unknown limit", "--limit mesages=1", "", "did you mean messages?"},
		{"limit without value", "--limit messages", "", "messages=VALUE"},
		{"limit out of range", "--limit messages=0", "", "outside 1 to"},
		{"two files", "--config a.yaml --config b.yaml", "", "one file expected"},
		{"extension", "--config a.json", "", "*.yaml or *.yml"},
		{"no mapping", "--config a.yaml", "- a", "a mapping of flag names"},
		{"two documents", "--config a.yaml", "port: 1\n---\nport: 2", "one YAML document"},
		{"bad YAML", "--config a.yaml", "port: [", "a.yaml"},
		{"key twice", "--config a.yaml", "port: 1\nport: 2", "line 2: port is given twice, before in line 1"},
		{"key twice in two spellings", "--config a.yaml", "max_model_len: 1\nmax-model-len: 2", "given twice"},
		{"on and off in the file", "--config a.yaml", "enable-prefix-caching: true\nno-enable-prefix-caching: true", "given twice"},
		{"null", "--config a.yaml", "port:", "has no value"},
		{"null item", "--config a.yaml", "served-model-name: [~]", "has no value"},
		{"true for a value", "--config a.yaml", "port: true", "needs a value"},
		{"text for a switch", "--config a.yaml", "exact: maybe", "true or false"},
		{"quoted true for a switch", "--config a.yaml", `exact: "true"`, "true or false"},
		{"list for one value", "--config a.yaml", "port: [1, 2]", "one value expected"},
		{"plain equals sign", "--config a.yaml", "model: =", "quote it"},
		{"tag", "--config a.yaml", "model: !!python/object:os.system x", "tags"},
		{"file in the file", "--config a.yaml", "config: b.yaml", "unknown key"},
		{"bomb", "--config a.yaml", bomb(), "more than 100000 values"},
		{"cycle", "--config a.yaml", "compilation-config: &x {a: *x}", ""},
		{"on and off", "--exact --no-exact", "", "contradict"},
		{"queue twice", "--max-queue 5 --limit queue=6", "", "contradict"},
		{"switch with a value", "--exact=true", "", "takes no value"},
		{"no value", "--port", "", "--port needs a value"},
		{"no value before a flag", "--port --exact", "", "--port needs a value"},
		{"no number", "--port x", "", "--port x (command line): a whole number"},
		{"below", "--port -1", "", "0 to 65535 expected"},
		{"above", "--port 65536", "", "0 to 65535 expected"},
		{"overflow", "--max-model-len 99999999999999999999", "", "whole number"},
		{"overflow by suffix", "--max-model-len 9000000000G", "", "too large"},
		{"interval", "--stream-interval 0", "", "1 to"},
		{"choice", "--kv-cache-dtype int4", "", "auto, bf16"},
		{"share", "--gpu-memory-utilization 1.5", "", "0 to 1 expected"},
		{"NaN", "--gpu-memory-utilization NaN", "", "0 to 1 expected"},
		{"bits", "--activation-bits 4", "", "0, 8 or 16"},
		{"two devices", "--tensor-parallel-size 2", "", "only 1 is possible: there is one device"},
		{"bad JSON", "--compilation-config {", "", "JSON expected"},
		{"dotted JSON of a list", "--compilation-config [] --compilation-config.a 1", "", "no JSON object to add to"},
		{"dotted JSON too deep", "-cc" + strings.Repeat(".a", 17) + " 1", "", "16 levels"},
		{"two models", "a b", "", "one model expected"},
		{"open without a key", "--host 0.0.0.0", "", "--api-key"},
		{"open by name", "--host example.org", "", "--api-key"},
		{"empty host", "--host=", "", "0.0.0.0"},
		{"empty key", "--api-key=", "", "at least one"},
		{"key with a space", "--config a.yaml", "api-key: 'a b'", "visible ASCII"},
		{"control character in a name", "--config a.yaml", `served-model-name: "a\nb"`, "is not a name"},
		{"metrics prefix", "--metrics-prefix a-b", "", "letters, digits"},
		{"time", "--drain-timeout soon", "", "30s"},
		{"time too long", "--drain-timeout 999h", "", "0 to 86400"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := load(tc.args, tc.yaml)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want an error with %q", err, tc.want)
			}
		})
	}
}

// OPS-3: every misspelling of every flag is refused, on the command line and in a
// file, and names a flag that is no further away than the one that was meant.
func TestMisspellings(t *testing.T) {
	known := new(Config)
	known.rows = rows()
	cases := 0
	for _, r := range known.rows {
		n := len(r.name) / 2
		for _, wrong := range []string{r.name[:n] + r.name[n+1:], r.name[:n] + "x" + r.name[n:], r.name[:n-1] + r.name[n:n+1] + r.name[n-1:n] + r.name[n+1:]} {
			if found, _ := known.lookup(wrong); found != nil {
				continue // a letter doubled and swapped
			}
			for _, args := range []string{"--" + wrong + " 1", "--config x.yaml"} {
				cases++
				_, err := load(args, wrong+": 1")
				if err == nil {
					t.Errorf("%s is accepted", wrong)
					continue
				}
				_, meant, _ := strings.Cut(err.Error(), "did you mean ")
				meant = strings.TrimPrefix(strings.TrimSuffix(meant, "?"), "--")
				if got := distance(wrong, meant, 9); got > distance(wrong, r.name, 9) {
					t.Errorf("%s: %v, meant %s", wrong, err, r.name)
				}
			}
		}
	}
	if cases < 300 {
		t.Errorf("%d cases, at least 300 wanted", cases)
	}
}

// bomb names 10 lists of 10 lists of … : 10^9 values in a few hundred bytes.
func bomb() string {
	var b strings.Builder
	b.WriteString("compilation-config:\n  a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n")
	for i := 1; i < 9; i++ {
		before := "*a" + string(rune('0'+i-1))
		b.WriteString("  a" + string(rune('0'+i)) + ": &a" + string(rune('0'+i)) + " [" + strings.TrimSuffix(strings.Repeat(before+", ", 10), ", ") + "]\n")
	}
	return b.String()
}

func TestKeysAreNotShown(t *testing.T) {
	const secret = "verysecret"
	for _, args := range []string{"--api-key " + secret, "--api-key " + secret + " --port x", "--api-key " + secret + "\x01"} {
		c, err := load(args, "")
		var b bytes.Buffer
		if err != nil {
			b.WriteString(err.Error())
		} else if err := c.Explain(&b); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(b.String(), secret) {
			t.Errorf("%s shows the key:\n%s", args, b.String())
		}
	}
}

func TestHelp(t *testing.T) {
	if _, err := load("--port 1 --help", ""); !errors.Is(err, ErrHelp) {
		t.Errorf("got %v, want ErrHelp", err)
	}
}

func golden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs; got:\n%s", file, got)
	}
}

// The recipe files of vLLM's guide load unchanged.
func TestRecipes(t *testing.T) {
	for _, name := range []string{"hopper", "blackwell"} {
		c, err := Load(Source{Args: []string{"openai/gpt-oss-120b", "--config", "testdata/" + name + ".yaml", "--tensor-parallel-size", "1", "--api-key", "k"}})
		if err != nil {
			t.Fatal(err)
		}
		if c.PrefixCaching || c.MaxBatchTokens != 8192 || c.StreamInterval != 20 || (c.KVCacheDType == "fp8") != (name == "blackwell") {
			t.Errorf("%s: %+v", name, c.Settings)
		}
		c.Resolve("max-model-len", "131072", "the checkpoint's")
		var b bytes.Buffer
		b.WriteString("# Made by: go test ./internal/config -run TestRecipes -update\n")
		for _, n := range c.Notes {
			b.WriteString(n + "\n")
		}
		b.WriteString("\n")
		if err := c.Explain(&b); err != nil {
			t.Fatal(err)
		}
		golden(t, "testdata/"+name+".golden", b.String())
	}
	golden(t, "testdata/usage.golden", Usage())
}

// Every row can be found, explains itself, and has a default that it accepts.
func TestRows(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range rows() {
		if seen[r.name] || strings.Contains(r.name, "_") {
			t.Errorf("%s: twice, or with an underscore", r.name)
		}
		seen[r.name] = true
		if r.accepted && r.note == "" || !r.accepted && r.help == "" {
			t.Errorf("%s says nothing", r.name)
		}
		if _, err := r.parse(r.def); err != nil {
			t.Errorf("%s: default %q: %v", r.name, r.def, err)
		}
		if !r.accepted && !r.command && r.set == nil {
			t.Errorf("%s sets nothing", r.name)
		}
	}
	for short, name := range aliases {
		if !seen[name] {
			t.Errorf("%s stands for %s, which does not exist", short, name)
		}
	}
}

// Each flag of the table, as vLLM users would give it, is accepted.
func TestEveryFlagIsAccepted(t *testing.T) {
	example := map[kind]string{text: "x", integer: "1", float: "0.5", list: "x", duration: "1s", object: "{}"}
	special := map[string]string{"host": "127.0.0.1", "config": "x.yaml", "limit": "messages=1", "activation-bits": "8", "uvicorn-log-level": "info"}
	for _, r := range rows() {
		args := []string{"--" + r.name}
		switch {
		case r.kind == boolean:
		case special[r.name] != "":
			args = append(args, special[r.name])
		case r.kind == text && r.values != nil:
			args = append(args, r.values[0])
		default:
			args = append(args, example[r.kind])
		}
		c, err := Load(Source{Args: args, ReadFile: func(string) ([]byte, error) { return nil, nil }})
		if err != nil {
			t.Errorf("%q: %v", args, err)
			continue
		}
		if r.accepted && len(c.Notes) != 1 {
			t.Errorf("%q: notes %q, want one", args, c.Notes)
		}
		if !r.command && c.Origin(r.name) != "command line" {
			t.Errorf("%q: origin %q", args, c.Origin(r.name))
		}
	}
}
