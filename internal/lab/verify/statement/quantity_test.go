package statement

import (
	"fmt"
	"testing"

	"ossian/internal/lazyregexp"
)

// Figures of prose are read with their units in one base unit, and digits of names are none.
func TestQuantities(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"1.2k tok/s on 8x H100", "1200 tokenRate, 8 devices"},
		{"TTFT of 0.5 s and 250 ms", "500 duration, 250 duration"},
		{"vLLM 0.11.0 on an A100 with Qwen3-8B, p99 at 10:05:00, #1234", ""},
		{"25 tok/s per user, 2,500 tokens/s/GPU", "25 tokenRate user, 2500 tokenRate device"},
		{"1,200 tokens per minute", "20 tokenRate"},
		{"a 20 % gain, 2x faster, 5 percentage points", "20 percent, 2 factor, 5 points"},
		{"about 10,000 req/s, more than 3 TB/s", "10000 requestRate, 3000 bandwidth"},
		{"512 output tokens, 1,000 requests, 64 concurrent users, $2.00", "512 tokens, 1000 requests, 64 users, 2 money"},
	} {
		names := map[kind]string{bare: "bare", percent: "percent", points: "points", factor: "factor", tokenRate: "tokenRate", requestRate: "requestRate", duration: "duration",
			memory: "memory", bandwidth: "bandwidth", compute: "compute", tokens: "tokens", requests: "requests", users: "users", devices: "devices", money: "money"}
		got := ""
		for i, q := range quantitiesIn(c.text) {
			if i > 0 {
				got += ", "
			}
			got += fmt.Sprintf("%g %s", q.number.Value, names[q.kind])
			if q.per != "" {
				got += " " + q.per
			}
		}
		if got != c.want {
			t.Errorf("%q: %q, want %q", c.text, got, c.want)
		}
	}
}

// A whole figure of prose is trusted to three digits, and what calls itself about so much to
// those before its zeros.
func TestRoundingOfProse(t *testing.T) {
	for _, c := range []struct {
		text string
		half float64
	}{
		{"12,000 tok/s", 50}, {"about 12,000 tok/s", 600}, {"100 tok/s", 0.5}, {"1,234 tok/s", 0.5}, {"41.2 tok/s", 0.05}, {"1.2k tok/s", 50},
	} {
		if q := quantitiesIn(c.text); len(q) != 1 || q[0].number.Half < 0.999*c.half || q[0].number.Half > 1.001*c.half {
			t.Errorf("%q: %+v, want half a unit of %g", c.text, q, c.half)
		}
	}
}

// TestExpressions: an expression that is none would end the program at its first use.
func TestExpressions(t *testing.T) {
	if err := lazyregexp.Check(); err != nil {
		t.Error(err)
	}
}
