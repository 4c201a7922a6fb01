package grammar

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"ossian/internal/soak"
)

// TestSizedAhead holds passwords and names to look-ahead and to a number of characters at
// once, as far as the numbers go. A server refused the first and the second.
func TestSizedAhead(t *testing.T) {
	// Strings of random characters that the patterns speak of, mostly about as long as they say.
	draw := func(rng *rand.Rand, least, most int) string {
		var out strings.Builder
		for range max(0, least-2+rng.IntN(most-least+5)) {
			out.WriteRune([]rune("abcABC0123!@#.-_ é😀\"\\\n")[min(rng.IntN(22), rng.IntN(60))])
		}
		return out.String()
	}
	for _, tt := range []struct {
		pattern     string
		beside      string // keywords
		least, most int    // characters
		yes         []string
	}{
		{`^(?=.*[a-z])(?=.*\d)(?=.*[!@#]).{8,64}$`, "", 8, 64, []string{"aaaaaa1!", "😀é aaa1!"}},
		{`^(?=.{1,253}$)([a-z0-9]{1,63}\.)+[a-z]{2,63}$`, "", 4, 253, []string{"a.bc", strings.Repeat(strings.Repeat("a", 61)+".", 4) + "bcdef"}},
		{`^(?=.*[a-z])(?=.*[A-Z])(?=.*\d)(?=.*[!@#])(?=.*\.).{8,200}$`, "", 8, 200, []string{"aB1!.aaa"}},
		{`^(?=.*[a-z])(?=.*[A-Z])(?=.*\d)[a-zA-Z\d!]{8,128}$`, "", 8, 128, []string{"aB1aaaaa"}},
		{`^(?!.*\s)(?=.*[a-z])(?=.*\d).{8,100}$`, "", 8, 100, []string{"aaaaaaa1"}},
		{`^(?=.{8,64}$)(?=.*[a-z])(?=.*\d)(?=.*[!@#]).*$`, "", 8, 64, []string{"aaaaaa1!"}},
		{`^(?=.{8,}$)(?=.{1,30}$)(?=.*\d)[a-z\d]+$`, "", 8, 30, []string{"aaaaaaa1"}},
		{`^(?=.*[a-z])(?=.*\d)(?=.*[!@#]).{8,64}$`, `,"format":"password"`, 8, 64, []string{"aaaaaa1!"}},
		{`^(?=.*[a-z])(?=.*\d).{8,64}$`, `,"minLength":20,"maxLength":22`, 20, 22, []string{"aaaaaaaaaaaaaaaaaaa1"}},
		{`^(?=.*[a-z])(?=.*\d)(?=.*[!@#]).+$`, `,"minLength":8,"maxLength":70`, 8, 70, []string{"aaaaaa1!"}},
		{`^(?=.*[a-z])(?=.*\d)(?=.*[!@#])[A-Z].{6,62}@$`, "", 8, 64, []string{"Aaaaaa1@"}},
		{`^(?=[a-z].{7,63}$)(?=.*\d)(?=.*[!@#]).+$`, "", 8, 64, []string{"aaaaaa1@"}},
		{`^(?=(.*[A-Z]){2})(?=(.*\d){2,}).{12,72}$`, "", 12, 72, []string{"AB12........"}},
	} {
		text, err := json.Marshal(tt.pattern)
		if err != nil {
			t.Fatal(err)
		}
		schema := fmt.Sprintf(`{"type":"string","pattern":%s%s}`, text, tt.beside)
		g, judge := compiled(t, Source{Text: schema}, harmony()), annotating(t, schema)
		check := func(text string, g *Grammar, spelt string) {
			want := valid(judge, `"`+quoted(text)+`"`) == nil
			if got := g.accepts(spelt); got != want {
				t.Errorf("%s: %q: accepted %t, valid %t", schema, text, got, want)
			}
		}
		// The same pattern as all of a text.
		plain := g
		if tt.beside == "" {
			plain = compiled(t, Source{Kind: Regex, Text: tt.pattern}, harmony())
		}
		rng := rand.New(rand.NewPCG(28, 4))
		texts := tt.yes
		for range soak.Cases(t, 300, 20_000) {
			texts = append(texts, draw(rng, tt.least, tt.most))
		}
		for i, text := range texts {
			if check(text, g, `"`+quoted(text)+`"`); i < len(tt.yes) && !g.accepts(`"`+text+`"`) {
				t.Errorf("%s: %q is refused", schema, text)
			}
			if tt.beside == "" {
				check(text, plain, text)
			}
		}
		// What a model may write under the masks ends, and is valid.
		ended := 0
		for seed := range uint64(8) {
			if out := walk(t, g, rand.New(rand.NewPCG(seed, 28)), 60, nil); out != "" {
				ended++
				if err := valid(judge, out); err != nil {
					t.Errorf("%s: %s: %v", schema, out, err)
				}
			}
		}
		if ended < 4 {
			t.Errorf("%s: %d of 8 outputs came to an end", schema, ended)
		}
	}
}

// TestSizedErrors says at what place lengths leave nothing, or too much.
func TestSizedErrors(t *testing.T) {
	checkErrors(t, Schema, []struct{ name, source, want string }{
		{"lengths that exclude each other", `{"properties":{"p":{"type":"string","pattern":"^(?=.*\\d)(?=.{40,50}$).{8,30}$"}},"required":["p"]}`, "#/properties/p/pattern: no string can match"},
		{"too large beside other things", `{"type":"object","properties":{"p":{"type":"string","pattern":"^(?:(?=.*[a-z])(?=.*\\d)(?=.*[!@#]).{8,64}|x)$"}},"required":["p"]}`, "#/properties/p/pattern: too large"},
		{"no text is matched, as all of it is not", `{"allOf":[{"type":"string","pattern":"^(?=.*[a-z])(?=.*\\d)(?=.*[!@#])(?=.{8,64}$)"},{"pattern":"a"}]}`, "too large"},
	})
}
