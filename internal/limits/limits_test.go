package limits

import (
	"math"
	"strings"
	"testing"
	"time"
)

// Every row is whole: a name that finds it, a range around its default, a metric
// and a purpose, and values that read back as they are written.
func TestTable(t *testing.T) {
	set := Defaults()
	for _, id := range All() {
		l := id.Info()
		if found, ok := Lookup(l.Name); !ok || found != id || l.Name == "" || l.Name != strings.ToLower(l.Name) || strings.Contains(l.Name, "_") || id.String() != l.Name {
			t.Errorf("row %d: name %q", id, l.Name)
		}
		if l.Min > l.Default || l.Default > l.Max || l.Min < 0 || set[id] != l.Default {
			t.Errorf("%s: default %d in %d to %d", id, l.Default, l.Min, l.Max)
		}
		if l.Metric == "" || l.Protects == "" {
			t.Errorf("%s: metric %q, protects %q", id, l.Metric, l.Protects)
		}
		for _, v := range []int64{l.Min, l.Default, l.Max} {
			if err := set.Parse(id, Format(l.Unit, v)); err != nil || set[id] != v {
				t.Errorf("%s: %d is written %s and reads %d, %v", id, v, Format(l.Unit, v), set[id], err)
			}
		}
		before := set[id]
		for _, v := range []int64{l.Min - 1, l.Max + 1} {
			if err := set.Parse(id, Format(l.Unit, v)); err == nil || set[id] != before {
				t.Errorf("%s: %d is accepted", id, v)
			}
		}
	}
	if _, ok := Lookup("nothing"); ok {
		t.Error("an unknown name is found")
	}
	if id, ok := Lookup("request_body"); !ok || id != RequestBody {
		t.Error("underscores are not hyphens")
	}
	if got := Defaults().Time(HeaderRead); got != 5*time.Second {
		t.Errorf("header-read is %v, want 5s", got)
	}
	if err := set.Parse(HeaderRead, "5"); err == nil {
		t.Error("a time without unit is accepted")
	}
	if err := set.Parse(HeaderRead, "1500us"); err == nil {
		t.Error("microseconds are accepted and would be rounded")
	}
}

// The numbers that reliability.md 3.1 and 2 promise; choices are as many as OpenAI takes.
func TestDefaults(t *testing.T) {
	for id, want := range map[ID]string{RequestBody: "32Mi", BodiesInFlight: "256Mi", HeaderBytes: "32Ki", HeaderRead: "5s", BodyRead: "30s", IdleKeepAlive: "2m0s",
		WriteStall: "10s", PingInterval: "15s", PendingOutput: "256Ki", Connections: "16384", Queue: "1024", JSONDepth: "64", Messages: "4096", Tools: "256",
		ToolBytes: "1Mi", SchemaBytes: "256Ki", SchemaDepth: "32", SchemaNodes: "10000", GrammarBytes: "64Ki", PatternBytes: "4Ki", GrammarCache: "256Mi", StopStrings: "16", StopBytes: "256", LogitBias: "1024", Choices: "128",
		TopLogprobs: "20", PromptLogprobs: "262144", MetadataPairs: "16", MetadataKey: "64", MetadataValue: "512", Prompts: "1024", ToolName: "64"} {
		if got := Format(id.Info().Unit, id.Info().Default); got != want {
			t.Errorf("%s: %s, want %s", id, got, want)
		}
	}
}

func TestParseInt(t *testing.T) {
	const bad = math.MinInt64
	for _, tc := range []struct {
		text string
		want int64
	}{
		{"0", 0}, {"-1", -1}, {"1024", 1024}, {"8k", 8000}, {"8K", 8192}, {"1m", 1e6}, {"1M", 1 << 20}, {"2g", 2e9}, {"2G", 2 << 30}, {"1t", 1e12}, {"1T", 1 << 40},
		{"8Ki", 8192}, {"8KiB", 8192}, {"1MiB", 1 << 20}, {"1Gi", 1 << 30}, {"25.6k", 25600}, {"1.5m", 1500000}, {"1.001k", 1001}, {"9223372036854775807", math.MaxInt64},
		{"", bad}, {"k", bad}, {"1.5", bad}, {"1.5K", bad}, {"1.0001k", bad}, {"-1.5k", bad}, {"1e3", bad}, {"0x10", bad}, {"1 k", bad}, {"1kk", bad}, {"1.k5", bad}, {"1.-5k", bad},
		{"9223372036854775808", bad}, {"9223372036854776k", bad}, {"8388608T", bad}, {"99999999999G", bad}, {"-99999999999G", bad}, {"NaN", bad},
	} {
		got, err := ParseInt(tc.text)
		if err != nil {
			got = bad
		}
		if got != tc.want {
			t.Errorf("%q: got %d (%v), want %d", tc.text, got, err, tc.want)
		}
	}
}

// FuzzParseInt: what is read is never the product of an overflow.
func FuzzParseInt(f *testing.F) {
	for _, s := range []string{"8k", "1.5m", "-3K", "9223372036854775807", "9.99t", "1Ti"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		n, err := ParseInt(s)
		if err == nil && (n < 0) != strings.HasPrefix(s, "-") && n != 0 {
			t.Fatalf("%q is %d", s, n)
		}
	})
}
