package grammar

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
	"time"

	"ossian/internal/soak"
)

// hostile sources are meant to take for ever, or all memory.
func hostile() map[string]Source {
	repeated := func(n int, format string) string {
		var s strings.Builder
		for i := range n {
			fmt.Fprintf(&s, format, i)
		}
		return s.String()
	}
	nested := func(n int, open, middle, end string) string {
		return strings.Repeat(open, n) + middle + strings.Repeat(end, n)
	}
	doubled := func(n int) string { // each definition holds two of the next one
		return `{"$ref":"#/$defs/d0","$defs":{` + strings.TrimSuffix(repeated(n, `"d%d":{"anyOf":[{"$ref":"#/$defs/x"},{"$ref":"#/$defs/x"}]},`), ",") + `,"x":{"type":"null"}}}`
	}
	chain := func(n int) string {
		var s strings.Builder
		for i := range n {
			fmt.Fprintf(&s, `"d%d":{"type":"object","properties":{"a":{"$ref":"#/$defs/d%d"},"b":{"$ref":"#/$defs/d%d"}}},`, i, (i+1)%n, (i*7+3)%n)
		}
		return `{"$ref":"#/$defs/d0","$defs":{` + strings.TrimSuffix(s.String(), ",") + `}}`
	}
	return map[string]Source{
		"long enum":              {Text: `{"enum":[` + strings.TrimSuffix(repeated(9000, `"value number %d",`), ",") + `]}`},
		"many members":           {Text: `{"type":"object","properties":{` + strings.TrimSuffix(repeated(4000, `"member%d":{"type":"string"},`), ",") + `},"additionalProperties":true}`},
		"many counted members":   {Text: `{"type":"object","minProperties":900,"maxProperties":1800,"properties":{` + strings.TrimSuffix(repeated(2000, `"m%d":{},`), ",") + `}}`},
		"giant lengths":          {Text: `{"type":"array","minItems":1000000000,"maxItems":2000000000,"items":{"type":"string","minLength":1000000000,"maxLength":99999999999999999999}}`},
		"giant members":          {Text: `{"type":"object","additionalProperties":{},"maxProperties":1000000000}`},
		"deep":                   {Text: nested(60, `{"items":`, "{}", "}")},
		"very deep":              {Text: nested(100_000, `{"items":`, "{}", "}")},
		"deep anyOf":             {Text: nested(30, `{"anyOf":[{"type":"null"},`, "{}", "]}")},
		"reference to itself":    {Text: `{"$ref":"#"}`},
		"references in a ring":   {Text: `{"$ref":"#/$defs/a","$defs":{"a":{"$ref":"#/$defs/b"},"b":{"allOf":[{"$ref":"#/$defs/a"}]}}}`},
		"anyOf of itself":        {Text: `{"anyOf":[{"$ref":"#"},{"$ref":"#"}]}`},
		"doubled":                {Text: doubled(2000)},
		"chain":                  {Text: chain(2000)},
		"combinations":           {Text: `{"allOf":[` + strings.TrimSuffix(strings.Repeat(`{"anyOf":[{"minimum":1},{"maximum":5},{"type":"string"}]},`, 20), ",") + `]}`},
		"oneOf of many":          {Text: `{"oneOf":[` + strings.TrimSuffix(repeated(400, `{"type":"object","properties":{"k":{"const":%d}},"required":["k"]},`), ",") + `]}`},
		"oneOf of references":    {Text: `{"oneOf":[{"$ref":"#/$defs/a"},{"$ref":"#/$defs/b"}],"$defs":{"a":{"oneOf":[{"$ref":"#/$defs/b"},{"type":"null"}]},"b":{"oneOf":[{"$ref":"#/$defs/a"},{"type":"null"}]}}}`},
		"exponential pattern":    {Text: `{"type":"string","pattern":"(a|b)*a(a|b){30}$"}`},
		"patterns together":      {Text: `{"allOf":[` + strings.TrimSuffix(repeated(30, `{"type":"string","pattern":"a.{%d}b"},`), ",") + `]}`},
		"patterns of names":      {Text: `{"type":"object","patternProperties":{"a.{8}b":{},"b.{9}c":{},"c.{7}d":{},"d.{9}e":{},"e.{9}f":{}}}`},
		"pattern with lengths":   {Text: `{"type":"string","pattern":"^(\\w+ )+$","minLength":400,"maxLength":500}`},
		"letters":                {Text: `{"type":"string","pattern":"^[\\p{L}\\p{N}\\p{S}]{1,300}$"}`},
		"long tuple":             {Text: `{"type":"array","prefixItems":[` + strings.TrimSuffix(strings.Repeat("true,", 9000), ",") + `]}`},
		"precise bounds":         {Text: `{"type":"number","minimum":0.00000000000000000001,"maximum":99999999999999999999,"multipleOf":0.4096}`},
		"huge exponent":          {Text: `{"type":"number","minimum":1e400,"multipleOf":1e-400}`},
		"nested quantifiers":     {Kind: Regex, Text: `((((a*)*)*)*)*((b+)+)+c`},
		"long repetition":        {Kind: Regex, Text: `(abcdefghij){1000}`},
		"overlapping branches":   {Kind: Regex, Text: `(a?){500}(a){500}`},
		"many branches":          {Kind: Regex, Text: strings.TrimSuffix(repeated(500, "word%d|"), "|")},
		"classes":                {Kind: Regex, Text: `(\p{L}{1,9}\P{L}{1,9}){1,50}`},
		"choices":                {Kind: Choice, Choices: strings.Split(strings.TrimSuffix(repeated(50_000, "choice %d,"), ","), ",")},
		"ambiguous":              {Kind: EBNF, Text: "root ::= root root root | root root | \"a\" | \"aa\" | \"\""},
		"ambiguous words":        {Kind: EBNF, Text: "root ::= w*\nw ::= " + strings.TrimSuffix(repeated(300, `[a-z]{%d} | `), "| ")},
		"deep repetitions":       {Kind: EBNF, Text: "root ::= " + nested(30, "(", `"a"`, "){0,1000}")},
		"chain of rules":         {Kind: EBNF, Text: "root ::= r0\n" + repeated(1500, "r%[1]d ::= r%[1]d \"x\" | \"y\"\n")},
		"recursion to all sides": {Kind: EBNF, Text: "root ::= a b a | \"x\"\na ::= b root b | \"\"\nb ::= root a root | \"\" | a"},
	}
}

// A hostile source is refused or compiled in bounded time and memory, and masks of
// what was compiled come or fail in bounded time (reliability.md GRM-1, GRM-3). The
// bounds here are many times the promised ones, for busy machines; cost in units,
// which does not depend on the machine, is held to by the budget.
func TestHostile(t *testing.T) {
	for name, src := range hostile() {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			from := time.Now()
			g, err := Compile(context.Background(), src, small())
			took := time.Since(from)
			runtime.ReadMemStats(&after)
			t.Logf("%v, %d MB allocated, error %v", took, (after.TotalAlloc-before.TotalAlloc)>>20, err)
			if allocated := after.TotalAlloc - before.TotalAlloc; allocated > 256<<20 {
				t.Errorf("allocated %d MB", allocated>>20)
			}
			if err != nil {
				if _, ok := errors.AsType[*Error](err); !ok {
					t.Errorf("error %v", err)
				}
				return
			}
			m := g.Matcher()
			mask := make([]uint64, small().Words())
			rng := rand.New(rand.NewPCG(1, 1))
			for range 60 {
				if m.Mask(mask) != nil {
					return
				}
				ids := tokensOf(mask)
				if len(ids) == 0 {
					return
				}
				if m.Accept(ids[rng.IntN(len(ids))]) != nil {
					return
				}
			}
		})
	}
}

// Random pieces of schemas, patterns and grammars, put together without sense.
func TestRandomSources(t *testing.T) {
	pieces := map[Kind][]string{
		Schema: {`{`, `}`, `[`, `]`, `,`, `:`, `"type"`, `"object"`, `"string"`, `"array"`, `"properties"`, `"items"`, `"$ref"`, `"#"`, `"#/$defs/a"`, `"$defs"`, `"anyOf"`, `"allOf"`, `"oneOf"`, `"enum"`,
			`"pattern"`, `"^a.*"`, `"minimum"`, `"maxLength"`, `1e9`, `-1`, `3`, `true`, `null`, `"required"`, `"a"`, `{"type":"string"}`, `{"$ref":"#"}`, `"additionalProperties"`, `"prefixItems"`, `"multipleOf"`, `0.1`},
		Regex: {"a", "[", "]", "(", ")", "*", "+", "?", "{3}", "{0,900}", "|", `\`, "^", "$", ".", `\p{L}`, "[^", "-", `\u00e`, "(?:", "(?=", `\1`, "é", "(?i)", `\d`},
		EBNF:  {"root", "::=", "start", ":", "|", "(", ")", "*", "+", "{2,3}", "\"a\"", "/b+/", "[a-z]", "\n", "NAME", "%ignore", "%import common.WS", "~3", "..", "->", "?", "\"", "/", "root ::= ", "start: ", "x", " "},
	}
	rng := rand.New(rand.NewPCG(9, 9))
	for range soak.Cases(t, 2000, 200_000) {
		kind := []Kind{Schema, Regex, EBNF}[rng.IntN(3)]
		text := randomText(rng, pieces[kind], 30)
		if kind == Schema && rng.IntN(2) == 0 {
			text = `{"type":` + text + `}`
		}
		from := time.Now()
		_, err := Compile(context.Background(), Source{Kind: kind, Text: text}, small())
		if _, ok := errors.AsType[*Error](err); err != nil && !ok {
			t.Fatalf("%q: error %v", text, err)
		}
		if took := time.Since(from); took > 20*time.Second {
			t.Errorf("%q took %v", text, took)
		}
	}
}

// Patterns that take backtracking matchers for ever read 100 kB at the pace of any
// other (reliability.md GRM-5).
func TestPathologicalPatterns(t *testing.T) {
	patterns := []string{`(a+)+b`, `(a*)*b`, `(a|a)*b`, `(a|aa)+b`, `(.*)*b`, `(x+x+)+y`, `([a-z]+)*1`, `(a?){30}a{30}b`, `^(\w+\s?)*$`, `(.*a){10}b`}
	text := strings.Repeat("a", 100_000)
	for _, p := range patterns {
		g := compiled(t, Source{Kind: Regex, Text: p}, small())
		m := g.Matcher()
		for i := 0; i < len(text) && m.accept(text[i:i+100]) == nil; i += 100 {
			if m.parser.work > 4000 {
				t.Fatalf("%s: %d items for 100 bytes", p, m.parser.work)
			}
		}
	}
}
