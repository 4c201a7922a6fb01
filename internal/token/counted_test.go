package token

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"ossian/internal/soak"
)

// TestSEC6Prompt builds prompts of random parts made of control names and pieces
// of them: as many added tokens come out as were put in by Control and Markup.
func TestSEC6Prompt(t *testing.T) {
	t.Parallel()
	cases := soak.Cases(t, 10_000, 1_000_000)
	for name, bpe := range map[string]*BPE{"harmony": mustHarmony(t), "qwen3": mustJSON(t, "qwen3-cut.json"), "smollm2": mustJSON(t, "smollm2-cut.json")} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(5, 6))
			total := 0
			for range cases {
				p, want, log := hostilePrompt(bpe, r)
				got := slices.DeleteFunc(p.IDs(), func(id int32) bool { return bpe.is(id, plain) })
				if !slices.Equal(got, want) {
					t.Fatalf("%q: added tokens %v, want %v", log, got, want)
				}
				total += len(got)
			}
			t.Logf("SEC-6: %s: %d prompts, %d added tokens, 0 from text", name, cases, total)
		})
	}
}

// hostilePrompt returns a prompt, the added tokens that its trusted parts name, and
// all parts.
func hostilePrompt(bpe *BPE, r *rand.Rand) (p *Prompt, want []int32, log []string) {
	p = bpe.Prompt()
	list := bpe.Added()
	hostile := func() string {
		var b strings.Builder
		for range 1 + r.IntN(3) {
			s := list[r.IntN(len(list))].Text
			from := r.IntN(len(s))
			b.WriteString([]string{s, s[:from], s[from:], "x", " ", "\u0338"}[r.IntN(6)])
		}
		return b.String()
	}
	markup := false // the part before is markup, which may continue in this one
	for range 1 + r.IntN(6) {
		id := list[r.IntN(len(list))].ID
		switch kind := r.IntN(3); {
		case kind == 0:
			p.Control(id)
			want, log, markup = append(want, id), append(log, "control"), false
		case kind == 1 && !markup:
			p.Markup(bpe.Text(id))
			want, log, markup = append(want, id), append(log, "markup "+bpe.Text(id)), true
		default:
			s := hostile()
			p.Text(s)
			log, markup = append(log, "text "+s), false
		}
	}
	return p, want, log
}

// TestLIF5Detok cuts 1,000 texts in many languages, and 1,000 that are broken, into
// tokens at every byte and every two bytes.
func TestLIF5Detok(t *testing.T) {
	t.Parallel()
	var texts []string
	for _, row := range rows(t) {
		if len(texts) < 1000 && utf8.RuneCountInString(row.Text) < len(row.Text) && !slices.Contains(texts, row.Text) {
			texts = append(texts, row.Text)
		}
	}
	if len(texts) < 1000 {
		t.Fatalf("%d texts, want 1,000", len(texts))
	}
	r := rand.New(rand.NewPCG(7, 8))
	for _, text := range texts[:1000] {
		at := r.IntN(len(text))
		texts = append(texts, text[:at]+string([]byte{byte(0x80 + r.IntN(0x80))})+text[min(at+r.IntN(2), len(text)):])
	}
	splits, held := 0, 0
	for _, text := range texts {
		for i := range len(text) + 1 {
			last := i + 1 // long texts in two pieces only
			if len(text) <= 32 {
				last = len(text) + 1
			}
			for j := i; j < last; j++ {
				splits++
				held = max(held, detok(t, text, text[:i], text[i:j], text[j:]))
			}
		}
		held = max(held, detok(t, text, strings.Split(text, "")...))
		held = max(held, detok(t, text, bytesOf(text)...))
	}
	if held != utf8.UTFMax-1 {
		t.Errorf("at most %d bytes were held back, want %d", held, utf8.UTFMax-1)
	}
	t.Logf("LIF-5: %d texts, %d splits, 0 differences, at most %d bytes held back", len(texts), splits, held)
}

func bytesOf(text string) []string {
	all := make([]string, len(text))
	for i := range all {
		all[i] = text[i : i+1]
	}
	return all
}

// detok pushes tokens of the given texts and returns how many bytes were held back
// at most.
func detok(t *testing.T, text string, tokens ...string) (held int) {
	t.Helper()
	bpe := &BPE{text: strings.Join(tokens, "")}
	end := 0
	for _, s := range tokens {
		end += len(s)
		bpe.ends = append(bpe.ends, uint32(end))
	}
	d := bpe.Detok()
	var got strings.Builder
	for id := range tokens {
		part := d.Push(int32(id))
		got.WriteString(part)
		held = max(held, len(d.pending))
		if !utf8.ValidString(part) || (len(d.pending) > 0 && utf8.FullRune(d.pending)) {
			t.Fatalf("%q in tokens %q: token %d gave %q, %q held back", text, tokens, id, part, d.pending)
		}
	}
	got.WriteString(d.Flush())
	if want := toValid(text); got.String() != want {
		t.Fatalf("%q in tokens %q: got %q, want %q", text, tokens, got.String(), want)
	}
	return held
}
