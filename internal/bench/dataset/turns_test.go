package dataset

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// What vLLM's compiled client (0.33.0, tokenizer of gpt-oss) sends as turns of the user,
// in the order of conversations and turns: the first digits of SHA-256 over prompt, NUL,
// max_completion_tokens, NUL. conversations.json was made for this.
func TestTurnsRust(t *testing.T) {
	t.Parallel()
	common := func(prompts int, seed int64) Common {
		return Common{Tokenizer: gptOSS(t), Rules: VLLMRust, Prompts: prompts, Seed: seed}
	}
	for _, c := range []struct {
		name, hash string
		turns      int
		o          TurnsOptions
	}{
		{"random", "398f46fe88a77841", 6, TurnsOptions{Common: common(3, 7), Input: 600, Output: 3, Turns: 2}},
		{"lengths", "4efedcf40d3ec8ca", 55, TurnsOptions{Common: common(20, 7), Input: 40, Next: 17, Output: 3, Turns: 3, Least: 2, Most: 4}},
		{"shared", "3bff2a9888eb22f2", 30, TurnsOptions{Common: common(10, 7), Input: 60, Output: 3, Turns: 3, Global: 0.37, Own: 0.25}},
		{"sharegpt", "62354c3c99d4ece0", 60, TurnsOptions{Common: common(30, 3), Path: "testdata/conversations.json", Turns: 3, Most: 3}},
	} {
		queries, err := Turns(c.o)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		h := sha256.New()
		for i, query := range queries {
			fmt.Fprintf(h, "%s\x00%d\x00", query.Prompt, query.Output)
			if want := fmt.Sprintf("%s-turn%d", query.Session, query.Turn); query.ID != want || string(query.Body) != fmt.Sprintf(`{"min_tokens":%d}`, query.Output) {
				t.Errorf("%s: query %d: id %q, body %s", c.name, i, query.ID, query.Body)
			}
			if new := i == 0 || queries[i-1].Session != query.Session; new != (query.Turn == 0) || (!new && query.Turn != queries[i-1].Turn+1) {
				t.Errorf("%s: query %d is turn %d of %s", c.name, i, query.Turn, query.Session)
			}
		}
		if got := hex.EncodeToString(h.Sum(nil))[:16]; got != c.hash || len(queries) != c.turns {
			t.Errorf("%s: %d turns with hash %s, want %d with %s", c.name, len(queries), got, c.turns, c.hash)
		}
	}
}

func TestTurnsOfFiles(t *testing.T) {
	t.Parallel()
	opts := TurnsOptions{Common: Common{Tokenizer: gptOSS(t), Prompts: 50}, Path: "testdata/conversations.json", KeepOrder: true, NoRepeats: true}
	queries, err := Turns(opts)
	if err != nil {
		t.Fatal(err)
	}
	var first []string
	for _, query := range queries {
		if query.Turn == 0 {
			word, _, _ := strings.Cut(query.Prompt, " ")
			first = append(first, word)
		}
	}
	if want := strings.Fields("w1 w101 w102 w5 w5 w112 w120 w121 w122 w124"); !slices.Equal(first, want) {
		t.Errorf("conversations begin with %q, want %q", first, want)
	}
	opts.Least, opts.Output = 3, 9
	if _, err := Turns(opts); err == nil || !strings.Contains(err.Error(), "3 questions") {
		t.Errorf("three turns: %v", err)
	}
}

func TestTurnsErrors(t *testing.T) {
	t.Parallel()
	ok := TurnsOptions{Common: Common{Tokenizer: gptOSS(t), Prompts: 2}, Input: 10, Output: 2, Turns: 3}
	for _, c := range []struct {
		name, want string
		change     func(opts *TurnsOptions)
	}{
		{"none", "--multi-turn-min-turns 0", func(opts *TurnsOptions) { opts.Turns = 0 }},
		{"crossed", "--multi-turn-max-turns 2: want 5", func(opts *TurnsOptions) { opts.Least, opts.Most = 5, 2 }},
		{"many", "at most 10000", func(opts *TurnsOptions) { opts.Most = 1 << 40 }},
		{"many in all", "20000 conversations of up to 10000 turns", func(opts *TurnsOptions) { opts.Prompts, opts.Most, opts.Input, opts.Next = 20_000, 10_000, 1, 1 }},
		{"ratios", "together less than 1", func(opts *TurnsOptions) { opts.Global, opts.Own = 0.5, 0.5 }},
		{"negative", "want 0 or more", func(opts *TurnsOptions) { opts.Own = -0.1 }},
		{"nothing new", "raise --random-input-len", func(opts *TurnsOptions) { opts.Global, opts.Next = 0.5, 5 }},
		{"no file", "no such file", func(opts *TurnsOptions) { opts.Path = t.TempDir() + "/none.json" }},
		{"short talks", "none of", func(opts *TurnsOptions) { opts.Path, opts.Least = "testdata/sharegpt.json", 9 }},
		{"bound", "--multi-turn-max-turns 1", func(opts *TurnsOptions) { opts.Path, opts.Most = "testdata/conversations.json", 1 }},
		{"shared file", "random only", func(opts *TurnsOptions) { opts.Path, opts.Own = "testdata/conversations.json", 0.1 }},
		{"no tokenizer", "--tokenizer", func(opts *TurnsOptions) { opts.Tokenizer = nil }},
	} {
		opts := ok
		c.change(&opts)
		if _, err := Turns(opts); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

func FuzzTurns(f *testing.F) {
	f.Add(`[{"conversations": [{"from": "human", "value": "a"}, {"from": "gpt", "value": "b"}, {"from": 1}, {"from": "gpt"}]}]`)
	f.Add(`[{"conversations": [{"from": "human", "value": 1}, {"from": "gpt", "value": "b"}, {}, {}]}, 7]`)
	f.Fuzz(func(t *testing.T, text string) {
		list, err := readConversations(strings.NewReader(text))
		for _, talk := range list {
			for _, pair := range talk {
				if err == nil && pair.prompt == "" {
					t.Error("a question of nothing")
				}
			}
		}
	})
}

// A salt makes prompts new, keeps their lengths, and those that began alike still do.
func TestSalt(t *testing.T) {
	t.Parallel()
	bpe := gptOSS(t)
	c, err := newCoder(bpe)
	if err != nil {
		t.Fatal(err)
	}
	random, err := Random(RandomOptions{Common: Common{Tokenizer: bpe, Prompts: 50}, Input: 100, Output: 2})
	if err != nil {
		t.Fatal(err)
	}
	ids, err := Random(RandomOptions{Common: Common{Tokenizer: bpe, Prompts: 5}, Input: 100, Output: 2, IDs: true})
	if err != nil {
		t.Fatal(err)
	}
	queries := append(append(random, ids...), Query{Prompt: random[0].Prompt + " and more", Input: 102}, Query{Prompt: "Hi", Input: 1})
	before := slices.Clone(queries)
	one, err := Salt(queries, bpe, "one")
	if err != nil {
		t.Fatal(err)
	}
	again, _ := Salt(queries, bpe, "one")
	two, err := Salt(queries, bpe, "two")
	if err != nil {
		t.Fatal(err)
	}
	for i := range queries {
		if queries[i].Prompt != before[i].Prompt || !slices.Equal(queries[i].IDs, before[i].IDs) {
			t.Errorf("query %d itself was changed", i)
		}
		if one[i].Prompt != again[i].Prompt || !slices.Equal(one[i].IDs, again[i].IDs) {
			t.Errorf("query %d: the same salt gave something else", i)
		}
		a, b, old := c.promptIDs(&one[i]), c.promptIDs(&two[i]), c.promptIDs(&queries[i])
		if len(a) != len(old) || one[i].Input != queries[i].Input || len(b) != len(old) {
			t.Errorf("query %d: %d and %d tokens (Input %d), before it were %d", i, len(a), len(b), one[i].Input, len(old))
		}
		if a[0] == old[0] || a[0] == b[0] {
			t.Errorf("query %d begins with %q, %q with another salt and %q without", i, bpe.Text(a[0]), bpe.Text(b[0]), bpe.Text(old[0]))
		}
	}
	if a, b := c.promptIDs(&one[0]), c.promptIDs(&one[55]); !slices.Equal(a[:90], b[:90]) {
		t.Error("prompts that began alike do not any more")
	}
	for name, query := range map[string]Query{"template": {Prompt: "<|start|>user"}, "messages": {Messages: []byte("[]")}} {
		if _, err := Salt([]Query{query}, bpe, "one"); err == nil || !strings.Contains(err.Error(), "query 0") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := Salt(queries, nil, "one"); err == nil {
		t.Error("salted without a tokenizer")
	}
}

// Prompts in a template are counted as they are sent.
func TestShareGPTTemplate(t *testing.T) {
	t.Parallel()
	opts := ShareGPTOptions{Common: Common{Tokenizer: gptOSS(t), Rules: SGLang, Prompts: 5}, Path: "testdata/sharegpt.json", KeepOrder: true}
	plain, err := ShareGPT(opts)
	if err != nil {
		t.Fatal(err)
	}
	opts.Render = func(prompt string) (string, error) { return "<|start|>user<|message|>" + prompt + "<|end|>", nil }
	queries, err := ShareGPT(opts)
	if err != nil {
		t.Fatal(err)
	}
	for i, query := range queries {
		if want := "<|start|>user<|message|>" + plain[i].Prompt + "<|end|>"; query.Prompt != want || query.Input != plain[i].Input+4 || query.Output != plain[i].Output {
			t.Errorf("query %d: %d tokens (%d without), %q", i, query.Input, plain[i].Input, query.Prompt)
		}
	}
	opts.Render = func(string) (string, error) { return "", errors.New("no such role") }
	if _, err := ShareGPT(opts); err == nil || !strings.Contains(err.Error(), "no such role") {
		t.Errorf("got %v", err)
	}
}
