package grammar

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"
)

// fuzzSource compiles a source of anyone's and lets random tokens follow: an error of
// the right type or outputs whose every token the mask allowed; no dead ends.
func fuzzSource(t *testing.T, src Source) {
	g, err := Compile(context.Background(), src, small())
	if err != nil {
		if _, ok := errors.AsType[*Error](err); !ok {
			t.Fatalf("error %v", err)
		}
		return
	}
	m := g.Matcher()
	rng := rand.New(rand.NewPCG(uint64(len(src.Text)), 1))
	mask := make([]uint64, small().Words())
	for range 20 {
		if m.Mask(mask) != nil {
			return // too much work
		}
		ids := tokensOf(mask)
		if len(ids) == 0 {
			if !m.Finished() {
				t.Fatalf("dead end")
			}
			return
		}
		if m.Finished() {
			t.Fatalf("finished, but %d tokens are allowed", len(ids))
		}
		id := ids[rng.IntN(len(ids))]
		other := int32(rng.IntN(256))
		if allowed := mask[other/64]>>(other%64)&1 == 1; allowed != (m.run(&m.at, small().Texts[other]) != nil) {
			t.Fatalf("byte %#x: in the mask %v, but accepting differs", other, allowed)
		}
		if err := m.Accept(id); err != nil {
			t.Fatalf("token %d of the mask: %v", id, err)
		}
	}
}

func FuzzSchema(f *testing.F) {
	for _, src := range hostile() {
		if src.Kind == Schema && len(src.Text) < 2000 {
			f.Add(src.Text)
		}
	}
	f.Add(`{"type":"object","properties":{"a":{"type":"string","pattern":"^x+$"},"b":{"enum":[1,"y",null]}},"required":["a"],"additionalProperties":{"type":"number","minimum":0.5}}`)
	f.Add(`{"anyOf":[{"type":"array","prefixItems":[{"const":1}],"items":{"$ref":"#"},"maxItems":3},{"oneOf":[{"type":"null"},{"type":"boolean"}]}]}`)
	f.Fuzz(func(t *testing.T, text string) { fuzzSource(t, Source{Text: text}) })
}

func FuzzRegex(f *testing.F) {
	for _, text := range []string{`^a[^b-d]+(?:x|y){2,3}$`, `\u00e9\p{L}*\.`, `(?i)stra(ss|ß)e`, `[^]|\d{4}-\d\d`, `(a?){9}a`} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) { fuzzSource(t, Source{Kind: Regex, Text: text}) })
}

func FuzzGrammar(f *testing.F) {
	for _, text := range []string{
		"root ::= (\"a\" | [b-d]{2,3}) root | \"\" # end",
		"root ::= root \"+\" t | t\nt ::= [0-9]+ | \"(\" root \")\"",
		"start: stmt+\nstmt: NAME \"=\" (NUMBER | NAME) \";\"\n%import common.NUMBER\nNAME: /[a-z]+/\n%ignore \" \"",
		"?start: a~2..3 [\"x\"i] -> y\na.2: \"a\"..\"c\" | /d.e/s",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) { fuzzSource(t, Source{Kind: EBNF, Text: text}) })
}
