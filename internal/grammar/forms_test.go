package grammar

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"ossian/internal/grammar/ecma"
	"ossian/internal/token"
)

// lines reads a file of testdata, one JSON value a line, into values of one type.
func lines[T any](t *testing.T, name string) (all []T) {
	t.Helper()
	data, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	for scanner := bufio.NewScanner(bytes.NewReader(data)); scanner.Scan(); {
		var one T
		if err := json.Unmarshal(scanner.Bytes(), &one); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		all = append(all, one)
	}
	return all
}

// admits reports whether every token of text is in the mask where it comes, and the text
// is complete behind the last one.
func admits(t *testing.T, g *Grammar, tokens *token.BPE, text string) bool {
	t.Helper()
	m := g.Matcher()
	mask := make([]uint64, g.masker.vocab.Words())
	for _, id := range tokens.Encode(nil, text) {
		if err := m.Mask(mask); err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		if mask[id/64]>>(id%64)&1 == 0 {
			return false
		}
		if err := m.Accept(id); err != nil {
			t.Fatalf("%q: token %q of the mask: %v", text, tokens.Text(id), err)
		}
	}
	return m.Done()
}

var kindNames = map[string]Kind{"schema": Schema, "regex": Regex, "ebnf": EBNF, "lark": Lark}

// Forms that were met outside, token by token with the vocabulary of gpt-oss.
func TestForms(t *testing.T) {
	type form struct {
		Name, Kind, Text string
		Compile          string
		Tests            []struct {
			Text  string
			Valid bool
		}
	}
	tokens, err := token.Harmony()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range lines[form](t, "forms.jsonl") {
		t.Run(f.Name, func(t *testing.T) {
			kind, known := kindNames[f.Kind]
			if !known || f.Compile != "ok" {
				t.Fatalf("kind %q, compile %q", f.Kind, f.Compile)
			}
			g := compiled(t, Source{Kind: kind, Text: f.Text}, harmony())
			for _, test := range f.Tests {
				if got := admits(t, g, tokens, test.Text); got != test.Valid {
					t.Errorf("%.200s: %q admitted %v, want %v", f.Text, test.Text, got, test.Valid)
				}
			}
		})
	}
}

// Schemas as generators write them: all outputs are valid, with formats as annotations,
// and nothing is ignored in those of strict requests.
func TestGeneratedSchemas(t *testing.T) {
	type generated struct {
		Case   string
		Strict bool
		Schema json.RawMessage
	}
	for _, one := range lines[generated](t, "generated.jsonl") {
		t.Run(one.Case, func(t *testing.T) {
			g := compiled(t, Source{Text: string(one.Schema)}, harmony())
			if left := g.Ignored(); one.Strict && len(left) > 0 {
				t.Errorf("ignored: %v", left)
			}
			judge := annotating(t, string(one.Schema))
			ended := 0
			for seed := range uint64(20) {
				out := walk(t, g, rand.New(rand.NewPCG(seed, 21)), 60, nil)
				if out == "" {
					continue
				}
				ended++
				if err := valid(judge, out); err != nil && len(g.Ignored()) == 0 {
					t.Errorf("%s: %v", out, err)
				}
			}
			if ended < 10 {
				t.Errorf("%d of 20 outputs came to an end", ended)
			}
		})
	}
}

// An aheadPattern is a regular expression of ECMA-262, with look-ahead at its beginning,
// matched by Go's.
type aheadPattern struct {
	text   string
	rest   *regexp.Regexp
	must   []*regexp.Regexp
	mustNo []*regexp.Regexp
}

func lookingAhead(text string) (jsonschema.Regexp, error) {
	goText, looks, err := ecma.Translate(text, true)
	if err != nil {
		return nil, err
	}
	p := &aheadPattern{text: text}
	for i, look := range looks {
		if !strings.HasPrefix(text, "^(?") || !strings.HasPrefix(goText, "^(?P<") {
			return nil, fmt.Errorf("%s: look-ahead %d is not at the beginning", text, i)
		}
		inside, _, err := ecma.Translate(look.Text, true)
		if err != nil {
			return nil, err
		}
		at, err := regexp.Compile("^(?:" + inside + ")")
		if err != nil {
			return nil, err
		}
		if look.Negative {
			p.mustNo = append(p.mustNo, at)
		} else {
			p.must = append(p.must, at)
		}
	}
	p.rest, err = regexp.Compile(goText)
	return p, err
}

// String is the expression as it was written.
func (p *aheadPattern) String() string { return p.text }

// MatchString reports whether text has a match.
func (p *aheadPattern) MatchString(text string) bool {
	matches := func(re *regexp.Regexp) bool { return re.MatchString(text) }
	return p.rest.MatchString(text) && !slices.ContainsFunc(p.mustNo, matches) &&
		!slices.ContainsFunc(p.must, func(re *regexp.Regexp) bool { return !matches(re) })
}

// annotating is validator with formats as annotations.
func annotating(t *testing.T, text string) *jsonschema.Schema { return judging(t, text, false) }

// Unions whose members begin alike, and grammars with a rule for each character: there are
// many readings at a time, and every mask comes within its bound all the same.
func TestParallelReadings(t *testing.T) {
	tokens, err := token.Harmony()
	if err != nil {
		t.Fatal(err)
	}
	anyOf := func(n int, form string) string {
		return `{"anyOf":[` + strings.TrimSuffix(numbers(n+1, form), ",") + `]}`
	}
	obj := func(name string) string {
		return `{"type":"object","properties":{"name":` + name + `,"type":{"const":"t%[1]d"}},"required":["name","type"],"additionalProperties":false},`
	}
	for _, p := range []struct {
		name, src, text string
		kind            Kind
	}{
		{"differing maxLength", anyOf(12, obj(`{"type":"string","maxLength":1%02[1]d}`)), `{"name": "some text here", "type": "t11"}`, Schema},
		{"differing maxLength 60", anyOf(60, obj(`{"type":"string","maxLength":1%02[1]d}`)), `{"name": "some text here", "type": "t11"}`, Schema},
		{"differing maxLength 400", anyOf(400, obj(`{"type":"string","maxLength":1%03[1]d}`)), `{"name": "some text here", "type": "t11"}`, Schema},
		{"differing patterns", anyOf(12, obj(`{"type":"string","pattern":"^[a-z ]{1,%[1]d}[a-z]{%[1]d}"}`)), `{"name": "some text here", "type": "t3"}`, Schema},
		{"differing objects", anyOf(12, obj(`{"type":"object","properties":{"a":{"type":"string"},"b%[1]d":{"type":"string"}},"required":["a"]}`)), `{"name": {"a": "some text here"}, "type": "t11"}`, Schema},
		{"differing arrays", anyOf(12, obj(`{"type":"array","items":{"type":"string","maxLength":1%02[1]d}}`)), `{"name": ["some text here", "more"], "type": "t11"}`, Schema},
		{"differing numbers", anyOf(12, obj(`{"type":"number","minimum":%[1]d}`)), `{"name": 12345.5, "type": "t11"}`, Schema},
		{"string and maxLength", anyOf(12, obj(`{"type":"string"},"x%[1]d":{"type":"string"}`)), `{"name": "some text here", "x3": "a", "type": "t3"}`, Schema},
		{"recursive", `{"$defs":{"n":{"anyOf":[` + strings.TrimSuffix(numbers(13, `{"type":"object","properties":{"l":{"anyOf":[{"$ref":"#/$defs/n"},{"type":"string","maxLength":3%02[1]d}]},"type":{"const":"t%[1]d"}},"required":["l","type"]},`), ",") + `]}},"$ref":"#/$defs/n"}`, `{"l": {"l": {"l": "some text", "type": "t2"}, "type": "t3"}, "type": "t4"}`, Schema},
		{"words", "root ::= sign+ (gap sign+)*\ngap ::= [ \\t\\n]\nsign ::= upper | lower | number | mark\nupper ::= [A-Z]\nlower ::= [a-z]\nnumber ::= [0-9]\nmark ::= [!-/:-@\\[-`{-~]", "Hello, world! 12 (x)", EBNF},
		{"quoted", "root ::= \"\\\"\" char* \"\\\"\"\nchar ::= [^\"\\\\] | \"\\\\\" esc\nesc ::= [nrt\"\\\\/] | \"u\" hex hex hex hex\nhex ::= [0-9a-fA-F]", `"Hello, world!"`, EBNF},
		{"json", "root   ::= object\nvalue  ::= object | array | string | number | (\"true\" | \"false\" | \"null\") ws\nobject ::= \"{\" ws ( string \":\" ws value (\",\" ws string \":\" ws value)* )? \"}\" ws\narray  ::= \"[\" ws ( value (\",\" ws value)* )? \"]\" ws\nstring ::= \"\\\"\" ( [^\"\\\\\\x7F\\x00-\\x1F] | \"\\\\\" ([\"\\\\bfnrt] | \"u\" [0-9a-fA-F]{4}) )* \"\\\"\" ws\nnumber ::= (\"-\"? ([0-9] | [1-9] [0-9]{0,15})) (\".\" [0-9]+)? ([eE] [-+]? [0-9] [1-9]{0,15})? ws\nws ::= | \" \" | \"\\n\" [ \\t]{0,20}", `{"a": [1, "text and more", true]}`, EBNF},
		{"recursive letters", "root ::= s\ns ::= \"(\" s \")\" | c s | c\nc ::= l | d\nl ::= [a-z]\nd ::= [0-9]", `abc(ab(x))`, EBNF},
	} {
		t.Run(p.name, func(t *testing.T) {
			g := compiled(t, Source{Kind: p.kind, Text: p.src}, harmony())
			if !admits(t, g, tokens, p.text) {
				t.Errorf("%.200s refuses %s", p.src, p.text)
			}
		})
	}
}

// Formats take in what their standards do, and nothing else.
func TestFormats(t *testing.T) {
	for name, texts := range map[string]struct{ yes, no []string }{
		"hostname":      {[]string{"a", "1host", "h0st-n4me.example", strings.Repeat("a", 63) + ".com"}, []string{"", ".", "a.", "-a", "a-", "a_b", "xn--X", "XN--aa", strings.Repeat("a", 64), strings.Repeat("a.", 126) + "abcd"}},
		"email":         {[]string{"te~st@example.com", `"joe bloggs"@example.com`, "joe@[127.0.0.1]", "joe@[IPv6:::1]", strings.Repeat("a", 64) + "@b.c"}, []string{".a@b", "a.@b", "a..b@c", "joe@[127.0.0.300]", "joe@in=valid", "2962", strings.Repeat("a", 65) + "@b.c"}},
		"idn-hostname":  {[]string{"실례.테스트", "ß་〇", "l·l", "α͵β", "א׳ב", "・ぁ", "丈・", "a。b", "münchen.de", "بي", "ب٠ب"}, []string{"〮실례", "-a", "a·l", "l·", "α͵", "A׳ב", "def・abc", "ـ", "́hello", "XN--aa", "。"}},
		"idn-email":     {[]string{"실례@실례.테스트", "a@b", "用户@例子.公司"}, []string{"실례", "@실례", "a b@c"}},
		"uri":           {[]string{"http://-.~_!$&'()*+,;=:%40:80%2f::::::@example.com", "ldap://[2001:db8::7]/c=GB?objectClass?one", "urn:a:b", "file:///a", "x:", "tel:+1", "http://h:80?q#f"}, []string{"//a", "/abc", "a b:c", "http:// x", "bar,baz:foo", "http://[::1", "http://a:b/", `a:\`}},
		"iri":           {[]string{"http://ƒøø.ßår/?∂éœ=πîx#πîüx", "http://[2001:0db8:85a3:0000:0000:8a2e:0370:7334]"}, []string{"/abc", "âππ", "http://2001:0db8:85a3:0000:0000:8a2e:0370:7334"}},
		"uri-reference": {[]string{"//example.com/x", "/a", "a/b:c", "", "?q", "#f", "http://a"}, []string{"a b", `\\a`, "1:b", "%zz"}},
		"time":          {[]string{"08:30:06Z", "08:30:06z", "23:59:60Z", "23:59:60.5+00:00", "08:30:06.283185+05:30"}, []string{"24:00:00Z", "22:59:60Z", "23:59:60+01:00", "08:30:06", "08:30:06+24:00"}},
		"date-time":     {[]string{"1963-06-19t08:30:06.283185z", "2024-02-29T00:00:00Z"}, []string{"1963-06-19 08:30:06Z", "2023-02-29T00:00:00Z"}},
		"ipv6":          {[]string{"::", "::1", "1:2:3:4:5:6:7:8", "::ffff:192.168.0.1", "1::d6:192.168.0.1", "1:2:3:4:5:6:1.2.3.4", "1:2:3:4:5:6:7::"}, []string{"1:2:3:4:5:6:7:8:9", ":2:3:4:5:6:7:8", "1:2::3:4::5", "1:2:3:4:5:1.2.3.4", "::1.2.3.256", "12345::"}},
	} {
		t.Run(name, func(t *testing.T) {
			g := compiled(t, Source{Text: `{"type":"string","format":"` + name + `"}`}, small())
			for _, text := range texts.yes {
				if !g.accepts(`"` + quoted(text) + `"`) {
					t.Errorf("refuses %q", text)
				}
			}
			for _, text := range texts.no {
				if g.accepts(`"` + quoted(text) + `"`) {
					t.Errorf("accepts %q", text)
				}
			}
			for _, bounds := range []string{`"maxLength":254`, `"minLength":3,"maxLength":1024`, `"maxLength":40`} {
				compiled(t, Source{Text: `{"type":"string","format":"` + name + `",` + bounds + `}`}, small())
			}
		})
	}
}
