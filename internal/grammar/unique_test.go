package grammar

import (
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"ossian/internal/grammar/vocab"
)

// uniqueSchemas are lists whose elements must differ, of all kinds of elements. Formats are
// annotations; with few values walks come to where one value is left, or none.
var uniqueSchemas = []string{
	`{"type":"array","items":{"type":"string","maxLength":12},"maxItems":4,"uniqueItems":true}`,
	`{"type":"array","items":{"type":"string","maxLength":1},"minItems":3,"uniqueItems":true}`,
	`{"type":"array","items":{"type":"string","pattern":"^[ab]{1,2}$"},"minItems":6,"uniqueItems":true}`,
	`{"type":"array","items":{"type":"string","pattern":"^(a[0-2]|b+)$"},"minItems":5,"uniqueItems":true}`,
	`{"type":"array","items":{"type":"integer","minimum":8,"maximum":12},"minItems":4,"uniqueItems":true}`,
	`{"type":"array","items":{"type":"number","minimum":0,"maximum":1},"minItems":4,"uniqueItems":true}`,
	`{"type":"array","items":{"type":"number"},"minItems":3,"uniqueItems":true}`,
	`{"type":"array","items":{"enum":[1,1.0,"1",null,[1],[1.0]]},"minItems":4,"uniqueItems":true}`,
	`{"type":"array","items":{"anyOf":[{"const":2.50},{"type":"number","minimum":2,"maximum":3},{"type":"boolean"}]},"minItems":4,"uniqueItems":true}`,
	`{"type":"array","items":{"type":"object","properties":{"a":{"type":"boolean"},"b":{"enum":["x","y"]}},"required":["a"],"additionalProperties":false},"minItems":6,"uniqueItems":true}`,
	`{"type":"array","items":{"anyOf":[{"type":"object","properties":{"a":{"type":"boolean"},"b":{"type":"boolean"}},"required":["a","b"],"additionalProperties":false},{"type":"object","properties":{"b":{"type":"boolean"},"a":{"type":"boolean"}},"required":["a","b"],"additionalProperties":false},{"const":{"b":true,"a":true}}]},"minItems":4,"uniqueItems":true}`,
	`{"type":"array","items":{"type":"array","items":{"type":"boolean"},"maxItems":2,"uniqueItems":true},"minItems":4,"uniqueItems":true}`,
	`{"type":"array","items":{"type":"array","items":{"enum":["a","ab"]},"maxItems":2},"minItems":6,"uniqueItems":true}`,
	`{"type":"array","items":{"$ref":"#/$defs/tree"},"minItems":3,"uniqueItems":true,"$defs":{"tree":{"type":"array","maxItems":2,"items":{"$ref":"#/$defs/tree"}}}}`,
	`{"type":"array","prefixItems":[{"type":"string","maxLength":2},{"type":"integer"}],"items":{"type":["string","boolean"],"maxLength":2},"minItems":4,"uniqueItems":true}`,
	`{"type":"array","items":{"type":"string","format":"date"},"minItems":3,"uniqueItems":true}`,
	`{"anyOf":[{"type":"array","items":{"type":"integer","minimum":1,"maximum":9},"minItems":2,"uniqueItems":true},{"type":"array","items":{"const":1},"maxItems":3}]}`,
	`{"type":"object","properties":{"s":{"type":"array","uniqueItems":true,"items":{"type":"string","pattern":"^[a-c]?$"},"minItems":4},"t":{"type":"array","uniqueItems":true,"items":{"type":"integer","minimum":0,"maximum":120},"minItems":3}},"required":["s","t"],"additionalProperties":false}`,
	`{"type":"array","items":{"type":"string","enum":["a","b","c","d","e","f","g","h","i","j","k"]},"minItems":10,"uniqueItems":true}`,
}

// Whatever tokens are taken, lists come to an end and their elements differ.
func TestUniqueItems(t *testing.T) {
	for _, vocab := range []*Vocabulary{small(), pairs(), harmony()} {
		for _, source := range uniqueSchemas {
			g := compiled(t, Source{Text: source}, vocab)
			if left := g.Ignored(); len(left) > 0 {
				t.Errorf("%s: ignored %v", source, left)
			}
			judge := annotating(t, source)
			ended := 0
			for seed := range uint64(40) {
				out := walk(t, g, rand.New(rand.NewPCG(seed, 5)), 40, nil)
				if out == "" {
					continue
				}
				ended++
				if err := valid(judge, out); err != nil {
					t.Errorf("%s: %s: %v", source, out, err)
				}
			}
			if ended < 20 {
				t.Errorf("%s: %d of 40 outputs came to an end", source, ended)
			}
		}
	}
}

// pairs has tokens that end an element and begin the next ones.
func pairs() *Vocabulary {
	texts := []string{}
	for b := range 128 {
		texts = append(texts, string(rune(b)))
	}
	return vocab.New(append(texts, `","`, `"",`, `",""`, `",""]`, `, "`, `1,1`, `,1`, `1,`, `9,10`, `10`, `11,`, `0.5`, `a",`, `a"`, `a","a`, `a","b","`, `"]`, `],[`, `[],[`, `true,`, `true,false`, `,null`, `{"a":`, `},{"a":true`, `[[`, `]]`, ` "`, `,  `, `a0`, `b","a1`))
}

// The mask of a list has a token exactly if something can follow it: tried with all texts.
func TestUniqueItemsMask(t *testing.T) {
	vocab := pairs()
	mask := make([]uint64, vocab.Words())
	for _, source := range uniqueSchemas {
		g := compiled(t, Source{Text: source}, vocab)
		walk(t, g, rand.New(rand.NewPCG(3, 9)), 30, func(m *Matcher) {
			if err := m.Mask(mask); err != nil {
				t.Fatal(err)
			}
			for id, text := range vocab.Texts {
				has := mask[id/64]>>(id%64)&1 == 1
				if can := m.run(&m.at, text) != nil; !can && has {
					t.Errorf("%s: %q is in the mask behind %q", source, text, m.parser.past.Accepted())
				} else if can && !has {
					// Then all that follows it ends in an element that was there.
					if end := m.goesOn(t, text, 4000); end != "" {
						t.Errorf("%s: %q is not in the mask behind %q, and %q may follow", source, text, m.parser.past.Accepted(), end)
					}
				}
			}
		})
	}
}

// goesOn looks for text behind next that no element of the list that is open now has, in so many tries.
func (m *Matcher) goesOn(t *testing.T, next string, tries int) string {
	t.Helper()
	base := m.parser.past.Accepted()
	todo := []string{next}
	for ; len(todo) > 0 && tries > 0; tries-- {
		text := todo[0]
		todo = todo[1:]
		for b := byte(' '); b < 127; b++ {
			longer := text + string(rune(b))
			if to := m.run(&m.at, longer); to != nil {
				// Another element is finished, or the output.
				whole, another := strings.CutSuffix(base+longer, ",")
				if to.exit || (another && len(longer) > len(next) && json.Valid([]byte(whole+"]"))) {
					return longer
				}
				todo = append(todo, longer)
			}
		}
	}
	if len(todo) > 0 {
		t.Logf("%q behind %q: not all looked at", next, base)
	}
	return ""
}

// Lists of more elements than there are values are refused before anything is generated.
func TestUniqueItemsTooFew(t *testing.T) {
	for source, want := range map[string]string{
		`{"type":"array","items":{"type":"string","pattern":"^[ab]$"},"minItems":3,"uniqueItems":true}`:                                              "minItems is 3, and with uniqueItems only 2",
		`{"type":"array","items":{"type":"string","maxLength":0},"minItems":2,"uniqueItems":true}`:                                                   "only 1 elements",
		`{"type":"array","items":{"type":"string","pattern":"^a{1,20}$"},"minItems":21,"uniqueItems":true}`:                                          "only 20 elements",
		`{"type":"array","items":{"type":"number","multipleOf":0.5,"minimum":0,"maximum":1},"minItems":4,"uniqueItems":true}`:                        "only 3 elements",
		`{"type":"array","items":{"type":"array","items":{"type":"boolean"},"maxItems":1},"minItems":4,"uniqueItems":true}`:                          "only 3 elements",
		`{"type":"array","items":{"enum":[1,1.0,"a"]},"minItems":3,"uniqueItems":true}`:                                                              "only 2 elements",
		`{"type":"array","items":{"const":{"a":1}},"minItems":2,"uniqueItems":true}`:                                                                 "only 1 elements",
		`{"type":"array","items":{"type":"object","properties":{"a":{"type":"null"}},"additionalProperties":false},"minItems":3,"uniqueItems":true}`: "only 2 elements",
	} {
		_, err := Compile(context.Background(), Source{Text: source}, small())
		fault, ok := errors.AsType[*Error](err)
		if !ok || fault.Where != "#/minItems" || !strings.Contains(fault.What, want) {
			t.Errorf("%s: %v, want %q", source, err, want)
		}
	}
	// What is optional is left out.
	g := compiled(t, Source{Text: `{"anyOf":[{"type":"array","items":{"type":"boolean"},"minItems":3,"uniqueItems":true},{"type":"null"}]}`}, small())
	if !g.accepts("null") || g.accepts("[true,false,true]") {
		t.Error("want null alone")
	}
}

// What cannot be compared by its text is named.
func TestUniqueItemsIgnored(t *testing.T) {
	for _, source := range []string{
		`{"type":"array","items":{"type":"object","additionalProperties":{"type":"boolean"}},"uniqueItems":true}`,
		`{"type":"array","uniqueItems":true}`,
		`{"type":"array","prefixItems":[{"const":1},{"const":1}],"minItems":2,"uniqueItems":true}`,
	} {
		if left := compiled(t, Source{Text: source}, small()).Ignored(); len(left) != 1 || left[0].Where != "#/uniqueItems" || !strings.Contains(left[0].What, "cannot be held to") {
			t.Errorf("%s: ignored %v", source, left)
		}
	}
}
