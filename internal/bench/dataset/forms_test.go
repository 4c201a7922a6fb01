package dataset

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// written is a file of this text.
func written(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "set")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestTraceOptional: a trace may leave out hashes, times and lengths of outputs, in all rows or
// in some; what it left out is counted.
func TestTraceOptional(t *testing.T) {
	t.Parallel()
	common := Common{Tokenizer: gptOSS(t), Prompts: 3}
	lines := func(rows ...string) string { return written(t, strings.Join(rows, "\n")) }
	for _, c := range []struct {
		name, path string
		gaps       TraceGaps
		in, out    []int
		at         []time.Duration // milliseconds
	}{
		{"no hashes", "testdata/trace-optional.jsonl", TraceGaps{Rows: 3, Hashes: 3}, []int{40, 60, 20}, []int{5, 5, 5}, []time.Duration{0, 100, 250}},
		{"hashes of some", lines(`{"timestamp": 1, "input_length": 16, "output_length": 2, "hash_ids": [7]}`, `{"timestamp": 2, "input_length": 16, "output_length": 3, "hash_ids": null}`, `{"timestamp": 3, "input_length": 16, "output_length": 4, "hash_ids": []}`),
			TraceGaps{Rows: 3, Hashes: 2}, []int{16, 16, 16}, []int{2, 3, 4}, []time.Duration{1, 2, 3}},
		{"no times", lines(`{"input_length": 9, "output_length": 2}`, `{"input_length": 9, "output_length": 2, "timestamp": null}`),
			TraceGaps{Rows: 2, Hashes: 2, Times: 2, FirstTime: 1}, []int{9, 9}, []int{2, 2}, []time.Duration{0, 0}},
		{"times of some", lines(`{"timestamp": 5, "input_length": 9, "output_length": 2}`, "", `{"input_length": 9, "output_length": 2}`),
			TraceGaps{Rows: 2, Hashes: 2, Times: 1, FirstTime: 3}, []int{9, 9}, []int{2, 2}, []time.Duration{5, 0}},
		{"outputs of some", lines(`{"timestamp": 5, "input_length": 9}`, `{"timestamp": 6, "input_length": 9, "output_length": 3}`),
			TraceGaps{Rows: 2, Hashes: 2, Outputs: 1}, []int{9, 9}, []int{77, 3}, []time.Duration{5, 6}},
		{"byte order mark", lines("\xef\xbb\xbf" + `{"timestamp": 5, "input_length": 9, "output_length": 3}`), TraceGaps{Rows: 1, Hashes: 1}, []int{9}, []int{3}, []time.Duration{5}},
	} {
		queries, gaps, err := TimedTrace(TraceOptions{Common: common, Path: c.path, Chunk: 16, Unit: 0.001, Output: 77})
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if gaps != c.gaps {
			t.Errorf("%s: left out %+v, want %+v", c.name, gaps, c.gaps)
		}
		if len(queries) != len(c.in) {
			t.Errorf("%s: %d queries", c.name, len(queries))
			continue
		}
		for i, query := range queries {
			if len(query.IDs) != c.in[i] || query.Input != c.in[i] || query.Output != c.out[i] || query.At != c.at[i]*time.Millisecond {
				t.Errorf("%s: query %d: %d ids, %d in, %d out at %v", c.name, i, len(query.IDs), query.Input, query.Output, query.At)
			}
			if i > 0 && slices.Equal(query.IDs, queries[i-1].IDs) {
				t.Errorf("%s: queries %d and %d are equal, which no hash says", c.name, i-1, i)
			}
		}
		again, _, _ := TimedTrace(TraceOptions{Common: common, Path: c.path, Chunk: 16, Unit: 0.001, Output: 77})
		if Hash(again) != Hash(queries) {
			t.Errorf("%s: another workload the second time", c.name)
		}
	}
}

// TestConversationForms: the same conversations in every form that people have them in are the
// same workload.
func TestConversationForms(t *testing.T) {
	t.Parallel()
	says := func(i int) string { return fmt.Sprintf("Say something about the number %d.", i) }
	const answer = "It is a number like others."
	form := func(begin, between, end string, entry func(i int) string) string {
		entries := make([]string, 4)
		for i := range entries {
			entries[i] = entry(i)
		}
		return written(t, begin+strings.Join(entries, between)+end)
	}
	pair := func(key, who, what, first, second string, i int) string {
		return fmt.Sprintf(`{%q: [{%q: %q, %q: %q}, {%q: %q, %q: %q}]}`, key, who, first, what, says(i), who, second, what, answer)
	}
	var want string
	for _, c := range []struct{ name, path string }{
		{"ShareGPT", form("[", ",", "]", func(i int) string { return pair("conversations", "from", "value", "human", "gpt", i) })},
		{"roles", "testdata/sharegpt-roles.json"},
		{"messages", form("[", ",", "]", func(i int) string { return pair("messages", "role", "content", "user", "assistant", i) })},
		{"JSON lines", form("", "\n", "\n", func(i int) string { return pair("messages", "role", "content", "user", "assistant", i) })},
		{"byte order mark", form("\xef\xbb\xbf", "\n", "", func(i int) string { return pair("conversations", "from", "value", "human", "gpt", i) })},
		{"system", form("[", ",", "]", func(i int) string {
			return fmt.Sprintf(`{"messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": %q}, {"role": "assistant", "content": %q}, 7]}`, says(i), answer)
		})},
		{"parts", form("[", ",", "]", func(i int) string {
			return fmt.Sprintf(`{"messages": [{"role": "user", "content": [{"type": "text", "text": %q}]}, {"role": "assistant", "content": %q, "tool_calls": []}]}`, says(i), answer)
		})},
	} {
		queries, err := ShareGPT(ShareGPTOptions{Common: Common{Tokenizer: gptOSS(t), Prompts: 4}, Path: c.path, KeepOrder: true})
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if len(queries) != 4 || queries[3].Prompt != says(3) || queries[3].Output != len(gptOSS(t).Encode(nil, answer)) {
			t.Errorf("%s: %d queries, the last %+v", c.name, len(queries), queries[len(queries)-1])
		}
		if want == "" {
			want = Hash(queries)
		}
		if got := Hash(queries); got != want {
			t.Errorf("%s: hash %s, want that of ShareGPT's form, %s", c.name, got, want)
		}
	}
}

// TestTurnForms: so it is where conversations are sent whole.
func TestTurnForms(t *testing.T) {
	t.Parallel()
	var hashes []string
	for _, text := range []string{
		`[{"conversations": [{"from": "human", "value": "a"}, {"from": "gpt", "value": "b"}, {"from": "human", "value": "c"}, {"from": "gpt", "value": "d"}]}]`,
		`{"messages": [{"role": "developer", "content": "x"}, {"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}, {"role": "user", "content": "c"}, {"role": "assistant", "content": "d"}]}`,
	} {
		queries, err := Turns(TurnsOptions{Common: Common{Tokenizer: gptOSS(t), Prompts: 1}, Path: written(t, text)})
		if err != nil || len(queries) != 2 {
			t.Fatalf("%s: %d turns, %v", text, len(queries), err)
		}
		hashes = append(hashes, Hash(queries))
	}
	if hashes[0] != hashes[1] {
		t.Errorf("hashes %q differ", hashes)
	}
	_, err := Turns(TurnsOptions{Common: Common{Tokenizer: gptOSS(t), Prompts: 1}, Path: written(t, `[{"messages": [{}, {}, {}, 4]}]`)})
	if err == nil || !strings.Contains(err.Error(), "entry 1: turn 4 is a number, want an object") {
		t.Errorf("a turn that is a number: %v", err)
	}
}
