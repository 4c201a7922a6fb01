package grammar

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"ossian/internal/token"

	"ossian/internal/grammar/vocab"
)

// small is a vocabulary of all bytes and some longer tokens: what JSON is made of,
// words, tokens that begin or end within a character, and one that is there twice.
var small = sync.OnceValue(func() *Vocabulary {
	var texts []string
	for b := range 256 {
		texts = append(texts, string([]byte{byte(b)}))
	}
	texts = append(texts, "", `{"`, `":`, `": `, `", "`, `","`, `"}`, `"}}`, `"]}`, `}}`, `]]`, `],`, `},{`, `[{"`, `":"`, `": "`, "\n", "\n  ", "    ", "  ",
		"name", "age", "null", "true", "false", "tr", "ue", "12", "123", "0.", ".5", "e+", "-1", "the", " the", "quick", "ab", "abc", "abcd", "a\xc3", "\xa4b", "é", "日本", "\xe6\x97",
		`\n`, `\"`, `\\`, `\u`, `\u00`, "the", "/*", "*/", "xx", "xxx", "xxxx", "xxxxxxxx")
	return vocab.New(texts)
})

var harmony = sync.OnceValue(func() *Vocabulary {
	t, err := token.Harmony()
	if err != nil {
		panic(err)
	}
	return NewVocabulary(t)
})

func compiled(t testing.TB, src Source, v *Vocabulary) *Grammar {
	t.Helper()
	g, err := Compile(context.Background(), src, v)
	if err != nil {
		t.Fatalf("%.300s: %v", src.Text, err)
	}
	return g
}

func (g *Grammar) accepts(text string) bool {
	m := g.Matcher()
	return m.accept(text) == nil && m.Done()
}

// accepting is a row of the tables: texts that a source accepts and refuses.
type accepting struct {
	name    string
	source  string
	yes, no []string
}

func checkAccepting(t *testing.T, kind Kind, rows []accepting) {
	t.Helper()
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			g := compiled(t, Source{Kind: kind, Text: r.source}, small())
			for _, s := range r.yes {
				if !g.accepts(s) {
					t.Errorf("%s refuses %s", r.source, s)
				}
			}
			for _, s := range r.no {
				if g.accepts(s) {
					t.Errorf("%s accepts %s", r.source, s)
				}
			}
		})
	}
}

// checkErrors compiles sources that must fail, with a text that must be in the error.
func checkErrors(t *testing.T, kind Kind, rows []struct{ name, source, want string }) {
	t.Helper()
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			_, err := Compile(context.Background(), Source{Kind: kind, Text: r.source}, small())
			if _, ok := errors.AsType[*Error](err); !ok || !strings.Contains(err.Error(), r.want) {
				t.Errorf("%.100s: got error %v, want one with %q", r.source, err, r.want)
			}
		})
	}
}

func TestChoice(t *testing.T) {
	g := compiled(t, Source{Kind: Choice, Choices: []string{"yes", "no", "yes, please"}}, small())
	for text, want := range map[string]bool{"yes": true, "no": true, "yes, please": true, "yes,": false, "": false, "maybe": false} {
		if got := g.accepts(text); got != want {
			t.Errorf("%q: got %v, want %v", text, got, want)
		}
	}
	for _, choices := range [][]string{nil, {"a", ""}} {
		if _, err := Compile(t.Context(), Source{Kind: Choice, Choices: choices}, small()); err == nil {
			t.Errorf("choices %q: no error", choices)
		}
	}
}

func TestMatcherEnds(t *testing.T) {
	g := compiled(t, Source{Kind: Choice, Choices: []string{"yes", "yes, please", "no"}}, small())
	for _, r := range []struct {
		text           string
		done, finished bool
	}{
		{"", false, false},
		{"y", false, false},
		{"yes", true, false},
		{"yes,", false, false},
		{"no", true, true},
		{"yes, please", true, true},
	} {
		m := g.Matcher()
		if err := m.accept(r.text); err != nil {
			t.Fatal(err)
		}
		if m.Done() != r.done || m.Finished() != r.finished {
			t.Errorf("%q: done %v, finished %v; want %v, %v", r.text, m.Done(), m.Finished(), r.done, r.finished)
		}
	}
}

func tokensOf(mask []uint64) (ids []int32) {
	count := 0
	for _, word := range mask {
		count += bits.OnesCount64(word)
	}
	ids = make([]int32, 0, count)
	for i, word := range mask {
		for ; word != 0; word &= word - 1 {
			ids = append(ids, int32(i*64+bits.TrailingZeros64(word)))
		}
	}
	return ids
}

// checkMask compares a mask with what accepting each token says.
func checkMask(t *testing.T, m *Matcher, ids []int32) {
	t.Helper()
	v := m.grammar.masker.vocab
	mask := make([]uint64, v.Words())
	if err := m.Mask(mask); err != nil {
		t.Fatal(err)
	}
	for _, id := range ids {
		want := v.Texts[id] != "" && m.run(&m.at, v.Texts[id]) != nil
		if got := mask[id/64]>>(id%64)&1 == 1; got != want {
			t.Fatalf("token %d %q: in the mask %v, accepted %v", id, v.Texts[id], got, want)
		}
	}
}

// walk lets random tokens follow until the output ends or steps are over, then takes
// the shortest way on. It returns the output, "" if it did not come to an end.
func walk(t *testing.T, g *Grammar, rng *rand.Rand, steps int, each func(*Matcher)) string {
	t.Helper()
	m := g.Matcher()
	v := g.masker.vocab
	mask := make([]uint64, v.Words())
	var out strings.Builder
	for step := range 40 * steps {
		if each != nil {
			each(m)
		}
		if m.Done() && (step > steps || m.Finished() || rng.IntN(8) == 0) {
			return out.String()
		}
		if err := m.Mask(mask); err != nil {
			t.Fatal(err)
		}
		ids := tokensOf(mask)
		if len(ids) == 0 {
			t.Fatalf("dead end after %q", out.String())
		}
		id := ids[rng.IntN(len(ids))]
		if step > steps || rng.IntN(3) == 0 { // towards the end
			id = closing(v, ids, rng)
		}
		if err := m.Accept(id); err != nil {
			t.Fatalf("token %d %q of the mask after %q: %v", id, v.Texts[id], out.String(), err)
		}
		out.WriteString(v.Texts[id])
	}
	return ""
}

// closing prefers tokens that end something.
func closing(v *Vocabulary, ids []int32, rng *rand.Rand) int32 {
	best, score := ids[0], -1
	for range 64 {
		id := ids[rng.IntN(len(ids))]
		s := 0
		for _, c := range v.Texts[id] {
			switch c {
			case '}', ']':
				s += 9
			case '"':
				s += 6
			case '{', '[', ',':
				s -= 6
			}
		}
		if s > score {
			best, score = id, s
		}
	}
	for _, id := range ids {
		if text := v.Texts[id]; text == "}" || text == "]" || text == `"` {
			return id
		}
	}
	return best
}

func TestMaskIsWhatIsAccepted(t *testing.T) {
	all := make([]int32, len(small().Texts))
	for i := range all {
		all[i] = int32(i)
	}
	sources := []Source{
		{Kind: Object},
		{Kind: Regex, Text: `[a-z ]{0,12}|(ab|a|b)*c|\d+(\.\d+)?`},
		{Kind: Regex, Text: `(?:.|\n)*`},
		{Kind: Regex, Text: `.{0,5}x{3,9}[^a]*`},
		{Kind: Choice, Choices: []string{"the", "the quick", "abc", "abcd", "日本"}},
		{Text: `{"type":"object","properties":{"name":{"type":"string","maxLength":5},"age":{"type":"integer","minimum":3,"maximum":120},"tags":{"type":"array","items":{"enum":["the","quick"]},"maxItems":3}},"required":["name"],"additionalProperties":{"type":"null"}}`},
		{Text: `{"anyOf":[{"type":"string","minLength":3,"maxLength":9},{"type":"string","pattern":"^[a-d]+$"},{"type":"array","items":{"$ref":"#"},"minItems":2}]}`},
		{Kind: Regex, Text: `([a-d]{2,40}|\p{Nd}{20,})é?`},
		{Kind: Regex, Text: `(\w+ ){1,17}the`},
		{Text: `{"type":"array","items":{"type":"string","pattern":"^.{1,20}$"},"minItems":2}`},
		{Text: `{"type":"string","pattern":"^\\p{L}{17,30}$"}`},
		{Text: `{"type":"string","pattern":"^[^a]{16,20}x{16,18}$"}`},
		{Text: `{"anyOf":[{"type":"string","pattern":"^(the |日本|\\\\)*$","minLength":7,"maxLength":12},{"type":"string","pattern":"^[x ]+(é|ab)$","minLength":3,"maxLength":9}]}`},
		{Kind: EBNF, Text: "root ::= expr\nexpr ::= expr \"+\" term | term\nterm ::= term \"*\" atom | atom\natom ::= [0-9]+ | \"(\" expr \")\" | \"xx\" | \"x\""},
		{Kind: EBNF, Text: "start: stmt+\nstmt: NAME \"=\" /[^;\\n]*/ \";\"\nNAME: /[a-z]+/\n%ignore \" \"\n%ignore /\\/\\*.*?\\*\\//"},
	}
	for i, src := range sources {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			g := compiled(t, src, small())
			rng := rand.New(rand.NewPCG(uint64(i), 5))
			for range 6 {
				walk(t, g, rng, 25, func(m *Matcher) { checkMask(t, m, all) })
			}
		})
	}
}

// The same with the real vocabulary and its trees of 200,000 tokens.
func TestMaskWithHarmony(t *testing.T) {
	g := compiled(t, Source{Text: `{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"string","maxLength":20},"c":{"type":"number"},"d":{"type":"array","items":{"type":"string"}}},"required":["a","b","c","d"]}`}, harmony())
	rng := rand.New(rand.NewPCG(3, 3))
	ids := make([]int32, 4000)
	for range 3 {
		walk(t, g, rng, 12, func(m *Matcher) {
			for i := range ids {
				ids[i] = rng.Int32N(int32(len(harmony().Texts)))
			}
			checkMask(t, m, ids)
		})
	}
}

// Where characters of a class lead back to one state, tokens are taken by the groups of their bytes.
func TestMaskOfClasses(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 1))
	ids := make([]int32, 1500)
	for _, source := range []string{
		`{"type":"string","pattern":"^[^/]+/[^a-c]*$"}`, `{"type":"string","pattern":"[0-9]{3}","maxLength":12}`, `{"type":"string","pattern":"^[ -~]+$","minLength":9,"maxLength":30}`,
		`{"type":"string","pattern":"^(?:\\S+\\s+){0,9}\\S+$","maxLength":40}`, `{"type":"string","pattern":"^[^x]{3,}x?$","maxLength":25}`, `{"type":"string","pattern":"^\\w[^é]{20,25}$"}`,
		`{"type":"object","patternProperties":{"é|x":{"type":"string","pattern":"^[\\p{L} ]{2,60}$"}},"minProperties":1}`,
	} {
		g := compiled(t, Source{Text: source}, harmony())
		for range 4 {
			walk(t, g, rng, 8, func(m *Matcher) {
				for i := range ids {
					ids[i] = rng.Int32N(int32(len(harmony().Texts)))
				}
				checkMask(t, m, ids)
			})
		}
	}
}

func TestMaskLengths(t *testing.T) {
	g := compiled(t, Source{Kind: Choice, Choices: []string{"the"}}, small())
	for _, words := range []int{1, small().Words(), small().Words() + 3} {
		mask := make([]uint64, words)
		for i := range mask {
			mask[i] = ^uint64(0)
		}
		if err := g.Matcher().Mask(mask); err != nil {
			t.Fatal(err)
		}
		for _, id := range tokensOf(mask) {
			if !strings.HasPrefix("the", small().Texts[id]) {
				t.Errorf("%d words: token %d %q is allowed", words, id, small().Texts[id])
			}
		}
	}
}

func TestSteadyStateDoesNotAllocate(t *testing.T) {
	g := compiled(t, Source{Kind: Object}, small())
	m := g.Matcher()
	mask := make([]uint64, small().Words())
	if err := m.accept(`{"a":"`); err != nil {
		t.Fatal(err)
	}
	step := func() {
		if err := m.Mask(mask); err != nil {
			t.Fatal(err)
		}
		if err := m.Accept('x'); err != nil {
			t.Fatal(err)
		}
	}
	for range 128 {
		step()
	}
	if n := testing.AllocsPerRun(100, step); n != 0 {
		t.Errorf("a step inside a string allocates %v times", n)
	}
}

// Comments may begin at every place; the readings must not add up.
func TestReadingsDoNotAddUp(t *testing.T) {
	g := compiled(t, Source{Kind: EBNF, Text: "start: /[^;]*/ \";\"\n%ignore \" \"\n%ignore /\\/\\*.*?\\*\\//"}, small())
	m := g.Matcher()
	for range 1000 {
		if err := m.accept("a /* b "); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(m.at.items); n > 16 {
		t.Errorf("%d items", n)
	}
}

// Matchers of one grammar share masks.
func TestConcurrentMatchers(t *testing.T) {
	g := compiled(t, Source{Kind: Object}, small())
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(i), 0))
			for range 10 {
				walk(t, g, rng, 20, nil)
			}
		})
	}
	wg.Wait()
}

func TestCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Compile(ctx, Source{Kind: Object}, small()); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want %v", err, context.Canceled)
	}
}

func TestUnknownTokens(t *testing.T) {
	m := compiled(t, Source{Kind: Object}, small()).Matcher()
	for _, id := range []int32{-1, 256, int32(len(small().Texts)), 'x'} {
		if err := m.Accept(id); err == nil {
			t.Errorf("token %d was accepted", id)
		}
	}
	if err := m.Accept('{'); err != nil {
		t.Errorf("after refused tokens: %v", err)
	}
}

// Tools with the same parameters cost once, and what is left out of them is told of each.
func TestFramesShare(t *testing.T) {
	src := Source{Kind: Framed}
	for i := range 2000 {
		src.Frames = append(src.Frames, Frame{Before: fmt.Sprintf("<%d ", i), JSON: Source{Text: `{"type":"object","properties":{"a":{"type":"integer"}},"odd":1}`}, After: ">"})
	}
	g := compiled(t, src, small())
	if !g.accepts(`<1999 {"a":1}>`) || g.accepts(`<1999 {"a":"1"}>`) {
		t.Error("the last frame is not held to its schema")
	}
	if left := g.Ignored(); len(left) != len(src.Frames) || left[1999].Frame != 2000 {
		t.Errorf("%d left out of %d frames", len(left), len(src.Frames))
	}
}

// References that many alternatives lead through are looked up once.
func TestManyAnchors(t *testing.T) {
	var list, defs []string
	for i := range 250 {
		list = append(list, fmt.Sprintf(`{"$ref":"#a%d"}`, i))
		defs = append(defs, fmt.Sprintf(`"d%d":{"$anchor":"a%d","const":%d}`, i, i, i))
	}
	filler := strings.Repeat("{},", 9000) + "{}"
	g := compiled(t, Source{Text: `{"examples":[` + filler + `],"oneOf":[` + strings.Join(list, ",") + `],"$defs":{` + strings.Join(defs, ",") + `}}`}, small())
	if !g.accepts("249") || g.accepts("250") {
		t.Error("249 and no more are allowed")
	}
}

// Frames are held to their own JSON, and nothing runs over from one to another.
func TestFrames(t *testing.T) {
	frame := func(name, schema string) Frame {
		return Frame{Before: "\n{\"name\": \"" + name + "\", \"arguments\": ", JSON: Source{Text: schema}, After: "}\n"}
	}
	g := compiled(t, Source{Kind: Framed, Frames: []Frame{
		frame("a", `{"type":"object","properties":{"x":{"$ref":"#/$defs/n"}},"required":["x"],"additionalProperties":false,"$defs":{"n":{"type":"integer"}}}`),
		frame("ab", `{"type":"object","properties":{"y":{"$ref":"#/$defs/n"}},"required":["y"],"additionalProperties":false,"$defs":{"n":{"type":"string"}}}`),
		{Before: "<", JSON: Source{Kind: Object}, After: ">"},
		{Before: `r "`, JSON: Source{Kind: Regex, Text: `a"|\n+b`}, After: `"`},
		{Before: `l "`, JSON: Source{Kind: Lark, Text: "start: line+ END\nline: \"x::=\" /[^\\n]*/ NL\nNL: \"\\n\"\nEND: \"\\\"\""}, After: `"`},
		{Before: `g "`, JSON: Source{Kind: EBNF, Text: "root ::= q root q | \"\\\\\"\nq ::= \"\\\"\""}, After: `"`},
		{Before: `one "`, JSON: Source{Kind: Lark, Text: `start: "\n"`}, After: `"`},
	}}, small())
	for text, want := range map[string]bool{
		"\n{\"name\": \"a\", \"arguments\": {\"x\":1}}\n":      true,
		"\n{\"name\": \"ab\", \"arguments\": {\"y\":\"1\"}}\n": true,
		"\n{\"name\": \"a\", \"arguments\": {\"x\":\"1\"}}\n":  false,
		"\n{\"name\": \"ab\", \"arguments\": {\"x\":1}}\n":     false,
		"\n{\"name\": \"a\", \"arguments\": {\"x\":1}}":        false,
		"<{}>":                  true,
		`<{"q":[{}]}>`:          true,
		"<{}":                   false,
		"{}":                    false,
		"<{}>\n":                false,
		`r "a\""`:               true,
		`r "\n\nb"`:             true,
		`r "a"`:                 false,
		`r "a""`:                false,
		"r \"\nb\"":             false,
		`l "x::=é\\\nx::=\n\""`: true,
		`l "x::=\n"`:            false,
		`l "x::=a""`:            false,
		`g "\"\"\\\"\""`:        true,
		`g "\"\\"`:              false,
		`g "\\"`:                true,
		`one "\n"`:              true,
		"one \"\n\"":            false,
	} {
		if got := g.accepts(text); got != want {
			t.Errorf("%q is accepted: %v", text, got)
		}
	}
	_, err := Compile(context.Background(), Source{Kind: Framed, Frames: []Frame{frame("a", `{}`), frame("b", `{"properties":{"x":{"contains":{}}}}`)}}, small())
	if _, err := Compile(t.Context(), Source{Kind: Framed, Frames: []Frame{frame("a", `{}`), frame("b", `{"properties":{"x":false},"required":["x"],"type":"object"}`)}}, small()); err == nil || err.(*Error).Frame != 2 || err.(*Error).Where != "#/required" {
		t.Errorf("got %v, want an error of the second frame, which nothing matches", err)
	}
	e, ok := errors.AsType[*Error](err)
	if !ok || e.Frame != 2 || !e.Unsupported || e.Where != "#/properties/x" {
		t.Errorf("got %v, want an error of the second frame", err)
	}
	for _, src := range []Source{{Kind: Regex, Text: "("}, {Kind: Lark, Text: "start: a"}, {Kind: Lark, Text: `root ::= "a"`}, {Kind: EBNF, Text: "root ::= a"}, {Kind: Choice}} {
		_, err := Compile(context.Background(), Source{Kind: Framed, Frames: []Frame{frame("a", `{}`), {JSON: src}}}, small())
		if e, ok := errors.AsType[*Error](err); !ok || e.Frame != 2 {
			t.Errorf("%+v: got %v, want an error of the second frame", src, err)
		}
	}
}
