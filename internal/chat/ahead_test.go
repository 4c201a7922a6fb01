package chat_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"ossian/internal/chat"
	"ossian/internal/grammar"
	"ossian/internal/soak"
)

// oneByOne is what Ahead is to give, by its definition: with a constraint that has read all from
// the beginning.
func (h *held) oneByOne(t *testing.T, c chat.Constraint, guesses []int32) (masks [][]uint64) {
	t.Helper()
	for i, id := range guesses {
		if i > 0 && masks[i-1][id/64]>>(id%64)&1 == 0 {
			return masks
		}
		mask := make([]uint64, (h.tok.Vocab()+63)/64)
		if c.Accept(id) != nil || c.Mask(mask) != nil || slices.Max(mask) == 0 {
			return masks
		}
		masks = append(masks, mask)
	}
	return masks
}

// ahead asks c for guesses and compares: with what one by one gives behind read, and c's mask
// before and after.
func (h *held) ahead(t *testing.T, fresh func() chat.Constraint, c chat.Constraint, read, guesses []int32) int {
	t.Helper()
	words := (h.tok.Vocab() + 63) / 64
	before, after := make([]uint64, words), make([]uint64, words)
	masks := make([][]uint64, len(guesses))
	for i := range masks {
		masks[i] = make([]uint64, words)
	}
	if err := c.Mask(before); err != nil {
		t.Fatal(err)
	}
	n := c.Ahead(guesses, masks)
	if err := c.Mask(after); err != nil || !slices.Equal(before, after) {
		t.Fatalf("behind %q: guesses %q changed the mask: %v", h.tok.Decode(read), h.tok.Decode(guesses), err)
	}
	again := fresh()
	for _, id := range read {
		if err := again.Accept(id); err != nil {
			t.Fatal(err)
		}
	}
	want := h.oneByOne(t, again, guesses)
	if n != len(want) {
		t.Fatalf("behind %q: %d of the guesses %q, one by one %d", h.tok.Decode(read), n, h.tok.Decode(guesses), len(want))
	}
	for i := range n {
		if !slices.Equal(masks[i], want[i]) {
			t.Fatalf("behind %q: guesses %q: the mask behind guess %d differs", h.tok.Decode(read), h.tok.Decode(guesses), i)
		}
	}
	return n
}

// SPC-4: while answers come that masks alone hold, guesses that go on with them are all allowed,
// wrong ones as far as one by one, and no answer notices.
func TestSPC4Babble(t *testing.T) {
	three := 3
	rules := map[string]chat.Rules{
		"form": {Answer: &grammar.Source{Text: personSchema}}, "tools": {Tools: offered()}, "required": {Tools: offered(), MustCall: true},
		"form beside tools": {Answer: &grammar.Source{Text: personSchema}, Tools: offered()}, "budget": {Tools: offered(), Thinking: &three},
	}
	for _, f := range heldFamilies(t) {
		for name, r := range rules {
			t.Run(f.name+"/"+name, func(t *testing.T) {
				t.Parallel()
				fresh, err := f.format.Constraint(asked(), &r, f.compile)
				if err != nil {
					t.Fatal(err)
				}
				right, refused := 0, 0
				for n := range soak.Cases(t, 6, 500) {
					rng := rand.New(rand.NewPCG(uint64(n), 29))
					all, end := f.babble(t, fresh(), rng)
					if end {
						all = all[:len(all)-1] // a stop id is not told to constraints
					}
					c := fresh()
					for at, id := range all {
						if rng.IntN(4) == 0 {
							guesses := slices.Clone(all[at:min(at+1+rng.IntN(8), len(all))])
							if n := f.ahead(t, fresh, c, all[:at], guesses); n != len(guesses) {
								t.Fatalf("behind %q: %d of %q, which came", f.tok.Decode(all[:at]), n, f.tok.Decode(guesses))
							}
							right += len(guesses)
							if len(guesses) > 1 {
								guesses[1+rng.IntN(len(guesses)-1)] = rng.Int32N(int32(f.tok.Vocab()))
								refused += len(guesses) - f.ahead(t, fresh, c, all[:at], guesses)
							}
						}
						if err := c.Accept(id); err != nil {
							t.Fatal(err)
						}
					}
				}
				if right == 0 || refused == 0 {
					t.Errorf("%d right guesses, %d refused", right, refused)
				}
			})
		}
	}
}

// SPC-4: guesses that leave the reasoning, enter a call and leave it, begin at every place. The
// text behind | is guessed too, and refused where it begins.
func TestSPC4Borders(t *testing.T) {
	two := 2
	tools, form := chat.Rules{Tools: offered()}, chat.Rules{Answer: &grammar.Source{Text: personSchema}}
	budget := chat.Rules{Tools: offered(), Thinking: &two}
	const bern = `{"city":"Bern","days":[1]}`
	for _, f := range heldFamilies(t) {
		for _, row := range map[string][]struct {
			rules chat.Rules
			text  string
		}{
			"harmony": {
				{tools, "<|channel|>analysis<|message|>Hm<|end|><|start|>assistant<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>" + bern + "|<|return|>"},
				{form, `<|channel|>analysis<|message|>Hm<|end|><|start|>assistant<|channel|>final <|constrain|>json<|message|>{"name": "Ada", "age": 36}| and`},
				{budget, "<|channel|>analysis<|message|>a b| c"},
				{budget, "<|channel|>analysis<|message|>a b<|end|><|start|>assistant<|channel|>commentary to=functions.get<|message|>{}"},
			},
			"qwen3": {
				{tools, "<think>\nHm\n</think>\n\n<tool_call>\n{\"name\": \"get-weather\", \"arguments\": " + bern + "}\n</tool_call>\n<tool_call>\n{\"name\": \"get\", \"arguments\": {}}\n</tool_call>|<think>"},
				{form, "<think>\nHm\n</think>\n\n{\"name\": \"Ada\", \"age\": 36}|!"},
				{budget, "<think>a b| c"},
			},
			"llama3.2": {{tools, `{"name": "get-weather", "parameters": ` + bern + "}|."}},
		}[f.name] {
			fresh, err := f.format.Constraint(asked(), &row.rules, f.compile)
			if err != nil {
				t.Fatal(err)
			}
			good, bad := row.text, ""
			if at := forbidden(row.text); at >= 0 {
				good, bad = row.text[:at], row.text[at+1:]
			}
			ids, wrong := sampled(f.tok, good), sampled(f.tok, bad)
			c := fresh()
			for at, id := range ids {
				guesses := slices.Concat(ids[at:], wrong)
				if n := f.ahead(t, fresh, c, ids[:at], guesses); n != len(ids)-at {
					t.Errorf("%s: %q: %d of the guesses behind %q allowed, want %d", f.name, row.text, n, f.tok.Decode(ids[:at]), len(ids)-at)
				}
				if err := c.Accept(id); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}

// What guesses cost in the arguments of a call.
func BenchmarkAhead(b *testing.B) {
	f := heldFamilies(b)[0]
	c := f.constraint(b, asked(), &chat.Rules{Tools: offered()})
	for _, id := range sampled(f.tok, `<|channel|>commentary to=functions.get <|constrain|>json<|message|>{"a": [`) {
		if err := c.Accept(id); err != nil {
			b.Fatal(err)
		}
	}
	guesses := sampled(f.tok, `{"name": "Ada", "age": 36}`)
	masks := make([][]uint64, len(guesses))
	for i := range masks {
		masks[i] = make([]uint64, f.tok.Vocab()/64+1)
	}
	b.ReportAllocs()
	for b.Loop() {
		if n := c.Ahead(guesses, masks); n != len(guesses) {
			b.Fatal(n)
		}
	}
	b.ReportMetric(float64(len(guesses)), "guesses")
}
