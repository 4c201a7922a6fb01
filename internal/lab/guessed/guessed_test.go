package guessed

import (
	"math"
	"strings"
	"testing"

	"ossian/internal/lab/check/exposition"
)

// costs are those of a dense model and of a mixture of experts on a CPU, as they were measured.
const (
	dense   = "ossian_speculation_cost_ratio{tokens=\"2\"} 1.26\nossian_speculation_cost_ratio{tokens=\"4\"} 1.2\nossian_speculation_cost_ratio{tokens=\"8\"} 1.54\nossian_speculation_cost_ratio{tokens=\"16\"} 2.1\nossian_speculation_cost_ratio{tokens=\"32\"} 3.4\n"
	mixture = "ossian_speculation_cost_ratio{tokens=\"2\"} 1.54\nossian_speculation_cost_ratio{tokens=\"4\"} 2.4\nossian_speculation_cost_ratio{tokens=\"8\"} 3.88\nossian_speculation_cost_ratio{tokens=\"16\"} 6.5\nossian_speculation_cost_ratio{tokens=\"32\"} 11\n"
)

// counters are those of 1,000 tokens, of which rows with 3 guesses each gave some.
func counters(drafts, accepted string) string {
	return "vllm:spec_decode_num_drafts_total " + drafts + "\nvllm:spec_decode_num_draft_tokens_total " + map[string]string{"0": "0", "100": "300", "250": "750"}[drafts] +
		"\nvllm:spec_decode_num_accepted_tokens_total " + accepted + "\nvllm:generation_tokens_total 1000\n"
}

// What guesses brought follows from tokens and costs; computed by hand.
func TestTimes(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		length     float64
		times      float64 // 0 = not known
		verdict    string
	}{
		{"vLLM tells no costs", counters("250", "500"), 3, 0, ""},
		{"dense, all held", dense + counters("250", "750"), 4, 1000 / (250 * 1.2), "it pays here: answers came 3.33 times as fast as without guesses"},
		{"dense, none held", dense + counters("250", "0"), 1, 1000 / (750 + 250*1.2), "it does not pay here: answers came 0.95 times as fast as without guesses"},
		{"mixture, as many as they cost", mixture + counters("100", "140"), 2.4, 1000 / (760 + 100*2.4), "it neither gains nor costs here: answers came 1.00 times as fast as without guesses"},
		{"mixture, few of them", mixture + counters("100", "150"), 2.5, 1000 / (750 + 100*2.4), "it neither gains nor costs here: answers came 1.01 times as fast as without guesses"},
		{"dense, four at once", dense + counters("250", "500") + "vllm:num_requests_running 4\n", 3, 1000 / (250 + 250*2.1/1.2), "it pays here: answers came 1.45 times as fast as without guesses with 4 at once"},
		{"dense, beyond what is told", dense + counters("250", "500") + "vllm:num_requests_running 32\n", 3, 1000 / (250 + 250*(3.4+96*1.3/16)/3.4), "it does not pay here: answers came 0.93 times as fast as without guesses with 32 at once"},
		{"nothing guessed", dense + counters("0", "0"), 0, 0, "no step has had guesses so far"},
	} {
		c := Read(exposition.Read([]byte(tt.text)), "vllm", "vllm:spec_decode_")
		times, known := c.Times()
		if known != (tt.times > 0) || math.Abs(times-tt.times) > 1e-9 || c.Length() != tt.length || c.Verdict() != tt.verdict {
			t.Errorf("%s: %.3f times, %.2f tokens a row, %q; want %.3f, %.2f, %q", tt.name, times, c.Length(), c.Verdict(), tt.times, tt.length, tt.verdict)
		}
	}
	if c := Read(exposition.Read([]byte("vllm:generation_tokens_total 7")), "vllm", "vllm:spec_decode_"); c != nil {
		t.Errorf("counts of a server that guesses nothing: %+v", c)
	}
}

// Places are in order and of all models together; what is no place is left out.
func TestByPlace(t *testing.T) {
	text := counters("100", "150") + strings.ReplaceAll(`P{position="1",model_name="a"} 30
P{position="0",model_name="a"} 70
P{position="0",model_name="b"} 10
P{position="-1"} 5
P{position="x"} 5
P{position="9999999"} 5
`, "P", "vllm:spec_decode_num_accepted_tokens_per_pos_total")
	if got := Read(exposition.Read([]byte(text)), "vllm", "vllm:spec_decode_").ByPlace(); got != ", by place 80, 30 % of them held" {
		t.Errorf("by place %q", got)
	}
}
