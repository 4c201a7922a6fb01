package grammar

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"ossian/internal/soak"
)

// A hostility writes sources of one kind that are meant to take for ever, or all
// memory, each time with other sizes.
type hostility struct {
	name  string
	write func(*foe) Source
}

// A foe draws what hostilities are made of.
type foe struct{ *rand.Rand }

// size is a number up to most, as often small as large.
func (f foe) size(most int) int {
	n := 1
	for n < most && f.IntN(6) > 0 {
		n *= 2 + f.IntN(3)
	}
	return min(n, most)
}

func (f foe) pick(s ...string) string { return s[f.IntN(len(s))] }

// list joins n texts.
func (f foe) list(n int, sep string, each func(i int) string) string {
	parts := make([]string, n)
	for i := range parts {
		parts[i] = each(i)
	}
	return strings.Join(parts, sep)
}

// huge is a number that a program might take for a size, or not read at all.
func (f foe) huge() string {
	return f.pick("0", "-1", "1000000000", "2147483647", "2147483648", "9223372036854775808", "99999999999999999999999999999999999999", "1e308", "1e400", "1e-400", "-1e99", "0.1e1", "1.5",
		"0.000000000000000000000000000001", strings.Repeat("9", f.size(4000)), "0."+strings.Repeat("3", f.size(4000)), strconv.Itoa(f.IntN(5000)))
}

// leaf is a small schema.
func (f foe) leaf() string {
	return f.pick(`{}`, `true`, `false`, `{"type":"null"}`, `{"type":"string"}`, `{"type":"integer","minimum":`+strconv.Itoa(f.IntN(99))+`}`, `{"enum":[1,"a",null]}`,
		`{"type":"string","pattern":"^[a-z]{2,9}$"}`, `{"type":"array","items":{"type":"boolean"}}`, `{"$ref":"#"}`, `{"type":"string","maxLength":500}`, `{"type":"string","format":"email"}`)
}

// name is one of few or of very many.
func (f foe) name() string {
	switch f.IntN(8) {
	case 0:
		return strings.Repeat(f.pick("a", "é", "日"), f.size(3000))
	case 1:
		return string(rune(0x80 + f.IntN(0x10000)))
	}
	return "n" + strconv.Itoa(f.IntN(1+f.size(9000)))
}

func quote(s string) string { return encoded(s) }

func schemaSource(text string) Source { return Source{Text: text} }

// pattern is a regular expression that backtracks, counts or branches.
func (f foe) pattern(depth int) string {
	if depth == 0 {
		return f.pick("a", "b", ".", "[a-z]", `\w`, `\d`, `[^a]`, `\p{L}`, "é", "ab", "(a|b)", `[\s\S]`, "", `\u00e9`, `[\u4e00-\u9fff]`)
	}
	x := f.pattern(depth - 1)
	switch f.IntN(10) {
	case 0, 1:
		return "(" + x + ")" + f.pick("*", "+", "*?", "+?")
	case 2:
		return "(" + x + "|" + f.pattern(depth-1) + "|" + x + ")"
	case 3:
		return "(?:" + x + ")" + f.pick("{0,1000}", "{1000}", "{2,30}", "{,5}", "{999,}", "{1001}", "{30}")
	case 4:
		return x + f.pattern(depth-1)
	case 5:
		return "^" + x + f.pick("$", "")
	case 6:
		return "(" + x + ")?" + f.pattern(depth-1) + x
	case 7:
		return "(a|b)*a" + x + strings.Repeat(f.pick("(a|b)", "."), f.size(60))
	case 8:
		return f.pick("(?=", "(?!", "(?<=", "(?i:", "(?:", "(?P<x>") + x + ")"
	}
	return x + f.pick(`\1`, `\b`, "", "", "")
}

// ring is definitions that refer to each other in any way.
func (f foe) ring(n int, bare bool) string {
	to := func() string { return `{"$ref":"#/$defs/d` + strconv.Itoa(f.IntN(n)) + `"}` }
	return `{"$ref":"#/$defs/d0","$defs":{` + f.list(n, ",", func(i int) string {
		body := `{"` + f.pick("anyOf", "allOf", "oneOf") + `":[` + f.list(1+f.IntN(4), ",", func(int) string { return to() }) + `]}`
		if !bare {
			body = f.pick(`{"type":"array","items":`+body+`}`, `{"type":"object","properties":{"a":`+to()+`,"b":`+body+`}}`, `{"prefixItems":[`+to()+`,`+to()+`]}`,
				`{"anyOf":[{"type":"null"},`+to()+`]}`, `{"additionalProperties":`+to()+`}`, `{"type":"object","required":["a"],"properties":{"a":`+to()+`}}`, to())
		}
		return fmt.Sprintf(`"d%d":%s`, i, body)
	}) + `}}`
}

// rules is a grammar of n rules of few words that refer to each other in any way.
func (f foe) rules(n int, lark bool) string {
	is, first, comment := " ::= ", "root", "# "
	if lark {
		is, first, comment = ": ", "start", "// "
	}
	name := func(i int) string {
		if i == 0 {
			return first
		}
		return "r" + strconv.Itoa(i)
	}
	return comment + "generated\n" + f.list(n, "\n", func(i int) string {
		return name(i) + is + f.list(1+f.IntN(4), " | ", func(int) string {
			if f.IntN(5) == 0 {
				return `""`
			}
			return f.list(1+f.IntN(4), " ", func(int) string {
				switch f.IntN(3) {
				case 0:
					return f.pick(`"a"`, `"b"`, `"aa"`, `"ab"`)
				case 1:
					return "(" + name(f.IntN(n)) + f.pick(" | \"\"", " | \"a\"", "") + ")" + f.pick("*", "+", "?", "")
				}
				return name(f.IntN(n))
			})
		})
	}) + "\n"
}

var hostilities = []hostility{
	{"deep", func(f *foe) Source {
		n := f.size(300)
		if f.IntN(20) == 0 {
			n = 200_000
		}
		open, end := `{"items":`, `}`
		switch f.IntN(5) {
		case 0:
			open, end = `{"anyOf":[{"type":"null"},`, `]}`
		case 1:
			open, end = `{"allOf":[`, `,{"minProperties":1}]}`
		case 2:
			open, end = `{"type":"object","properties":{"a":`, `}}`
		case 3:
			open, end = `[`, `]`
		}
		return schemaSource(strings.Repeat(open, n) + f.leaf() + strings.Repeat(end, n))
	}},
	{"wide", func(f *foe) Source {
		n := f.size(9000)
		more := f.pick("", `,"additionalProperties":true`, `,"additionalProperties":{"$ref":"#"}`, `,"minProperties":`+strconv.Itoa(n/2), `,"maxProperties":`+strconv.Itoa(n/2+1), `,"minProperties":`+f.huge())
		return schemaSource(`{"type":"object","properties":{` + f.list(n, ",", func(i int) string { return quote(f.name()+strconv.Itoa(i)) + ":" + f.leaf() }) + `}` + more + `}`)
	}},
	{"recursive", func(f *foe) Source { return schemaSource(f.ring(f.size(3000), false)) }},
	{"rings", func(f *foe) Source { return schemaSource(f.ring(f.size(3000), true)) }},
	{"huge bounds", func(f *foe) Source {
		keys := []string{"minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"}
		f.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
		return schemaSource(`{` + f.pick(`"type":"string",`, `"type":"number",`, `"type":"integer",`, `"type":"array",`, `"type":"object","additionalProperties":{},`, "") +
			f.list(1+f.IntN(len(keys)), ",", func(i int) string { return quote(keys[i]) + ":" + f.huge() }) + `}`)
	}},
	{"enums", func(f *foe) Source {
		n := f.size(20_000)
		each := f.IntN(5)
		return schemaSource(`{"enum":[` + f.list(n, ",", func(i int) string {
			switch each {
			case 0:
				return strconv.Itoa(i * i)
			case 1:
				return quote(strings.Repeat("ab", i%40) + f.name())
			case 2:
				return `{"a":[` + strconv.Itoa(i) + `,{"b":null}]}`
			case 3:
				return f.huge()
			}
			return quote(strings.Repeat("x", f.size(300)))
		}) + `]` + f.pick("", `,"type":"string"`, `,"pattern":"a.*b"`, `,"maxLength":3`, `,"minimum":1e9`) + `}`)
	}},
	{"patterns in schemas", func(f *foe) Source {
		return schemaSource(`{"type":"string","pattern":` + quote(f.pattern(2+f.IntN(4))) + f.pick("", `,"maxLength":`+strconv.Itoa(f.size(3000)), `,"minLength":`+strconv.Itoa(f.size(900)), `,"format":"uri"`) + `}`)
	}},
	{"patterns together", func(f *foe) Source {
		return schemaSource(`{"allOf":[` + f.list(f.size(40), ",", func(int) string { return `{"pattern":` + quote(f.pattern(f.IntN(3))) + `}` }) + `]}`)
	}},
	{"alternatives that multiply", func(f *foe) Source {
		key, inner := f.pick("anyOf", "oneOf"), f.IntN(5)+1
		return schemaSource(`{"allOf":[` + f.list(f.size(60), ",", func(int) string {
			return `{"` + key + `":[` + f.list(inner, ",", func(int) string { return f.leaf() }) + `]}`
		}) + `]}`)
	}},
	{"doubling", func(f *foe) Source {
		n := f.size(2000)
		return schemaSource(`{"$ref":"#/$defs/d0","$defs":{` + f.list(n, ",", func(i int) string {
			to := fmt.Sprintf(`{"$ref":"#/$defs/d%d"}`, i+1)
			return fmt.Sprintf(`"d%d":`, i) + f.pick(`{"anyOf":[`+to+`,`+to+`]}`, `{"allOf":[`+to+`,`+to+`]}`, `{"type":"object","properties":{"a":`+to+`,"b":`+to+`}}`)
		}) + fmt.Sprintf(`,"d%d":%s}}`, n, f.leaf()))
	}},
	{"oneOf of many", func(f *foe) Source {
		key := f.pick("k", "kind")
		return schemaSource(`{"oneOf":[` + f.list(f.size(600), ",", func(i int) string {
			return f.pick(fmt.Sprintf(`{"type":"object","properties":{"%s":{"const":%d}},"required":["%s"]}`, key, i, key), fmt.Sprintf(`{"type":"object","properties":{"%s":{"pattern":"^%d"},"z":{"$ref":"#"}},"required":["%s"]}`, key, i, key))
		}) + `]}`)
	}},
	{"names by pattern", func(f *foe) Source {
		return schemaSource(`{"type":"object","patternProperties":{` + f.list(1+f.IntN(7), ",", func(i int) string {
			return quote(f.pick("a.{8}b", "^x", "[0-9]+$", f.pattern(2))+f.pick("", "c")+strconv.Itoa(i)) + ":" + f.leaf()
		}) + `},"properties":{` + f.list(f.size(200), ",", func(i int) string { return `"m` + strconv.Itoa(i) + `":` + f.leaf() }) + `},"additionalProperties":` + f.leaf() + f.pick("", `,"propertyNames":{"pattern":"`+"(a|b)*a.{9}"+`"}`) + `}`)
	}},
	{"wrong types", func(f *foe) Source {
		keys := append(slices.Clone(applied), "not", "if", "$dynamicRef", "$id", "$anchor", "$defs")
		return schemaSource(`{` + f.list(1+f.IntN(5), ",", func(i int) string {
			return quote(keys[(f.IntN(8)*5+i)%len(keys)]) + ":" + f.pick(f.huge(), f.leaf(), `null`, `"#"`, `"#/$defs"`, `[]`, `[[]]`, `{"":{}}`, `["a","a"]`, `"`+strings.Repeat("/a", f.size(2000))+`"`)
		}) + `}`)
	}},
	{"tuples", func(f *foe) Source {
		n := f.size(15_000)
		return schemaSource(`{"type":"array","prefixItems":[` + f.list(n, ",", func(int) string { return f.leaf() }) + `],"minItems":` + strconv.Itoa(f.IntN(n+1)) + `}`)
	}},
	{"characters", func(f *foe) Source {
		odd := f.pick("\U0001F600", "\u202e", "e\u0301\u0301\u0301", "\x00", "\xff\xfe", `\ud800`, `\udc00\ud800`, "\ufeff", "\u2028", `\u0000`)
		return schemaSource(`{"type":"object","properties":{"` + strings.Repeat(odd, f.size(500)) + `":{"const":"` + strings.Repeat(odd, f.size(500)) + `"}},"patternProperties":{"^` + odd + `+$":{"pattern":"[` + odd + `-\uffff]{1,90}"}}}`)
	}},
	{"letters of all scripts", func(f *foe) Source {
		return schemaSource(`{"type":"string","pattern":"^[` + f.list(1+f.IntN(5), "", func(int) string { return f.pick(`\\p{L}`, `\\P{L}`, `\\p{Han}`, `\\p{S}`, `\\w`, `\\p{Lu}`, `^`) }) + `]{1,` + strconv.Itoa(f.size(999)) + `}$"}`)
	}},
	{"precise numbers", func(f *foe) Source {
		return schemaSource(`{"type":"` + f.pick("number", "integer") + `","minimum":` + f.huge() + `,"maximum":` + f.huge() + `,"multipleOf":` + f.pick(f.huge(), "0.4096", "4095", "0.0007", "3.0001") + `}`)
	}},
	{"all at once", func(f *foe) Source { // of a thousand well-meant schemas
		g := newWide(f.Uint64())
		return schemaSource(`{"anyOf":[` + f.list(f.size(40), ",", func(int) string { return encoded(g.schema(5)) }) + `]}`)
	}},
	{"backtracking", func(f *foe) Source { return Source{Kind: Regex, Text: f.pattern(2 + f.IntN(6))} }},
	{"counted repetitions", func(f *foe) Source {
		return Source{Kind: Regex, Text: f.list(f.size(30), f.pick("", "|"), func(int) string {
			return fmt.Sprintf("(%s){%d,%d}", f.pattern(f.IntN(2)), f.IntN(40), 40+f.IntN(960))
		})}
	}},
	{"words", func(f *foe) Source {
		return Source{Kind: Regex, Text: f.list(f.size(900), "|", func(int) string { return f.name() }) + f.pick("", "x*")}
	}},
	{"long literals", func(f *foe) Source {
		text := strings.Repeat(f.pick("a", "é", "ab ", `\\`, "\x01"), f.size(40_000))
		return []Source{{Kind: Regex, Text: text}, {Kind: EBNF, Text: `root ::= "` + text + `"`}, {Kind: EBNF, Text: "start: \"" + text + "\"i"}, {Kind: Choice, Choices: []string{text, text + "a"}}, {Text: `{"const":` + quote(text) + `}`}}[f.IntN(5)]
	}},
	{"left recursion", func(f *foe) Source {
		n := f.size(1900)
		at := func(i int) string { return "r" + strconv.Itoa(i%n) }
		return Source{Kind: EBNF, Text: "root ::= r0\n" + f.list(n, "\n", func(i int) string {
			return at(i) + " ::= " + f.pick(at(i)+` "x" | "y"`, at(i+1)+` "x" | "y"`, at(i+7)+` `+at(i)+` | ""`, `("" | "z") `+at(i)+` "x" | `+at(i+1), at(i)+` | "w"`)
		})}
	}},
	{"any rules", func(f *foe) Source { return Source{Kind: EBNF, Text: f.rules(f.size(600), f.IntN(2) == 0)} }},
	{"empty loops", func(f *foe) Source {
		n := f.size(60)
		inner := f.pick(`""`, `"a"*`, `("" | "a")`, `"a"?`, `r`)
		return Source{Kind: EBNF, Text: "root ::= " + strings.Repeat("(", n) + inner + strings.Repeat(f.pick(")*", ")+", ")?", "){0,1000}", "){2,3}"), n) + " \"b\"\nr ::= \"\" | r r | r"}
	}},
	{"classes", func(f *foe) Source {
		return Source{Kind: EBNF, Text: "root ::= (" + f.list(f.size(80), " | ", func(i int) string {
			return fmt.Sprintf("[%s]{%d,%d}", f.pick("a-z", "^a", `\x00-\U0010FFFF`, `^\u0800-\uffff`, "日-語"), f.IntN(9), 9+f.IntN(900))
		}) + ")+"}
	}},
	{"terminals", func(f *foe) Source {
		return Source{Kind: EBNF, Text: "start: (" + f.list(1+f.IntN(20), " | ", func(i int) string { return "T" + strconv.Itoa(i) }) + ")+\n" + f.list(20, "\n", func(i int) string {
			return fmt.Sprintf("T%d.%d: /%s/", i, f.IntN(9), strings.ReplaceAll(strings.NewReplacer("^", "x", "$", "y").Replace(f.pattern(f.IntN(3))), "/", ""))
		}) + "\n" + f.pick("", "%ignore \" \"\n", "%ignore /[ab]*/\n", "%import common.WS\n%ignore WS\n%ignore /\\/\\*.*?\\*\\//\n")}
	}},
	{"choices", func(f *foe) Source {
		shared := strings.Repeat("x", f.size(2000))
		n := f.size(20_000)
		if len(shared) > 100 {
			n = min(n, 500)
		}
		choices := make([]string, n)
		for i := range choices {
			choices[i] = f.pick("", shared) + "c" + f.name()
		}
		return Source{Kind: Choice, Choices: choices}
	}},
}

// Those that are made of others.
func init() {
	hostilities = append(hostilities, []hostility{
		{"cut", func(f *foe) Source {
			text := []byte(hostilities[f.IntN(16)].write(f).Text)
			if len(text) == 0 {
				return Source{}
			}
			for range f.IntN(4) {
				text[f.IntN(len(text))] = byte(f.IntN(256))
			}
			return schemaSource(string(text[:1+f.IntN(len(text))]))
		}},
		{"frames", func(f *foe) Source {
			frames := make([]Frame, f.size(300))
			for i := range frames {
				h := hostilities[f.IntN(16)]
				if i > 3 {
					h.write = func(f *foe) Source { return schemaSource(f.leaf()) }
				}
				frames[i] = Frame{Before: "\n{\"name\": " + quote(f.name()) + ", \"arguments\": ", JSON: h.write(f), After: "}\n"}
			}
			return Source{Kind: Framed, Frames: frames}
		}},
	}...)
}

// corpus is the i-th hostile source.
func corpus(i int) (name string, src Source) {
	h := hostilities[i%len(hostilities)]
	return h.name, h.write(&foe{rand.New(rand.NewPCG(uint64(i), 17))})
}

// threadTime is the processor's time that this goroutine's thread has had, where the
// system tells.
var threadTime = func() time.Duration { return time.Duration(time.Now().UnixNano()) }

// Hostile sources are refused or compiled within the budget, and masks of what was
// compiled come or fail within theirs. Times are logged; what is judged does not depend
// on the machine. 3,000 sources with a release, all for the vocabulary of gpt-oss.
func TestGRM1Corpus(t *testing.T) {
	n := soak.Cases(t, 150, 3000)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var compiled, tooLarge, refused, dear, masks int
	var times []time.Duration
	var units, slowest int
	var most, kept uint64
	for i := range n {
		name, src := corpus(i)
		v := small()
		if n > 1000 {
			v = harmony()
		}
		var before, after runtime.MemStats
		b := &budget{left: maxUnits, stop: t.Context().Err}
		runtime.ReadMemStats(&before)
		from := threadTime()
		g, err := compileWithin(b, src, v)
		took := threadTime() - from
		runtime.ReadMemStats(&after)
		if times = append(times, took); took >= slices.Max(times) {
			slowest = i
		}
		if took > time.Second {
			t.Logf("source %d (%s): %v", i, name, took)
		}
		used, allocated := maxUnits-b.left, after.TotalAlloc-before.TotalAlloc
		units, most = max(units, used), max(most, allocated)
		if used > maxUnits+maxText || allocated > 256<<20 {
			t.Errorf("source %d (%s): %d units of work, %d MB allocated", i, name, used, allocated>>20)
		}
		e, ok := errors.AsType[*Error](err)
		switch {
		case err == nil:
			compiled++
			failed, asked := follow(t, i, g)
			dear, masks = dear+failed, masks+asked
			kept = max(kept, uint64(g.Bytes()))
		case !ok || e.What == "" || len(e.Error()) > 2000:
			t.Errorf("source %d (%s): error of %d bytes, %T %.200v", i, name, len(err.Error()), err, err)
		case strings.Contains(e.What, errTooLarge.Error()):
			tooLarge++
		default:
			refused++
		}
	}
	name, _ := corpus(slowest)
	slices.Sort(times)
	t.Logf("GRM-1: %d hostile sources of %d families: %d compiled, %d too large, %d refused; %d of %d units of work and %d MB allocated at most, %d MB kept; compiled in p50 %v, p99 %v, %v at most (%d, %s); %d masks, %d of them given up",
		n, len(hostilities), compiled, tooLarge, refused, units, maxUnits, most>>20, kept>>20, times[n/2].Round(time.Microsecond), times[n*99/100].Round(time.Millisecond), times[n-1].Round(time.Millisecond), slowest, name, masks, dear)
	if kept > maxCache*3/2 {
		t.Errorf("a grammar holds %d MB", kept>>20)
	}
	if compiled < n/5 || tooLarge == 0 || refused < n/20 {
		t.Error("the corpus does not come to all ends")
	}
}

// follow takes random tokens that the masks allow, and returns how many masks were given
// up and how many asked for.
func follow(t *testing.T, i int, g *Grammar) (failed, asked int) {
	m := g.Matcher()
	mask := make([]uint64, g.masker.vocab.Words())
	rng := rand.New(rand.NewPCG(uint64(i), 18))
	for range 30 {
		err := m.Mask(mask)
		asked++
		if work := g.masker.parser.work; work > 2*maxWork {
			t.Errorf("source %d: %d items looked at for one mask", i, work)
		}
		if err != nil {
			return 1, asked
		}
		ids := tokensOf(mask)
		if len(ids) == 0 {
			if !m.Finished() {
				t.Errorf("source %d: dead end", i)
			}
			return 0, asked
		}
		if id := ids[rng.IntN(len(ids))]; m.Accept(id) != nil {
			return 1, asked
		}
	}
	return 0, asked
}

// Others do not wait for a compilation: a loop that makes masks, as the engine's does,
// beside hostile sources compiled one after the other. The times are logged, not judged.
func TestGRM1Stalls(t *testing.T) {
	n := soak.Cases(t, 30, 3000)
	v := small()
	if n > 1000 {
		v = harmony()
	}
	g := compiled(t, Source{Kind: Object}, v)
	var stop atomic.Bool
	var late, alone []time.Duration
	steps := func(count int, done func() bool) (late []time.Duration) {
		m := g.Matcher()
		mask := make([]uint64, v.Words())
		rng := rand.New(rand.NewPCG(1, 19))
		for i := 0; i < count && !done(); i++ {
			from := time.Now()
			time.Sleep(time.Millisecond)
			if err := m.Mask(mask); err != nil {
				t.Error(err)
			}
			ids := tokensOf(mask)
			if len(ids) == 0 {
				m = g.Matcher()
				continue
			}
			if err := m.Accept(ids[rng.IntN(len(ids))]); err != nil {
				t.Error(err)
			}
			late = append(late, time.Since(from)-time.Millisecond)
		}
		return late
	}
	alone = steps(min(n, 1000), func() bool { return false })
	var wg sync.WaitGroup
	wg.Go(func() { late = steps(1<<30, stop.Load) })
	for i := range n {
		_, src := corpus(i)
		if _, err := Compile(t.Context(), src, v); err != nil {
			if _, ok := errors.AsType[*Error](err); !ok {
				t.Errorf("source %d: %v", i, err)
			}
		}
	}
	stop.Store(true)
	wg.Wait()
	slices.Sort(late)
	slices.Sort(alone)
	at := func(all []time.Duration, share float64) time.Duration {
		return all[int(float64(len(all)-1)*share)].Round(10 * time.Microsecond)
	}
	if len(late) == 0 {
		t.Fatal("the loop made no step beside the compilations")
	}
	over := 0
	for _, d := range late {
		if d > 50*time.Millisecond {
			over++
		}
	}
	t.Logf("GRM-1: %d steps beside %d compilations: late p50 %v, p99 %v, p99.9 %v, %v at most, %d of them over 50 ms; %d steps alone: p99 %v, %v at most",
		len(late), n, at(late, 0.5), at(late, 0.99), at(late, 0.999), at(late, 1), over, len(alone), at(alone, 0.99), at(alone, 1))
}

// Sources are the same in every run.
func TestCorpusIsFixed(t *testing.T) {
	for i := range hostilities {
		name, a := corpus(i)
		_, b := corpus(i)
		if x, y := fmt.Sprint(a), fmt.Sprint(b); x != y {
			t.Errorf("%s: %.200s, then %.200s", name, x, y)
		}
		if a.Kind == Schema && name != "cut" && name != "characters" && name != "deep" && !json.Valid([]byte(a.Text)) {
			t.Errorf("%s: no JSON: %.200s", name, a.Text)
		}
	}
}
