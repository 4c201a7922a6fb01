package grammar

import (
	"strings"
	"testing"
)

func TestGBNF(t *testing.T) {
	checkAccepting(t, EBNF, []accepting{
		{name: "sequence and choice", source: `root ::= "a" ("b" | "c")+ "d"?`, yes: []string{"ab", "abcbd"}, no: []string{"a", "ad"}},
		{name: "comments and lines", source: "# list\nroot ::= item (\", \" item)* # end\n\nitem ::=\n  \"x\" |\n  \"y\"\n", yes: []string{"x", "x, y"}, no: []string{"x,y"}},
		{name: "classes", source: `root ::= [a-c^-] [^0-9\]] [\x41-\u0043] [\t\n]`, yes: []string{"^xA\n", "-xB\t"}, no: []string{"^]A\n", "d-A\n"}},
		{name: "escapes", source: `root ::= "\"\\\n\x41\u00e9\U0001F600"`, yes: []string{"\"\\\nAé😀"}},
		{name: "repetitions", source: `root ::= "a"{2} "b"{1,} "c"{,2} "d"{0,1}`, yes: []string{"aab", "aabbccd"}, no: []string{"aaab", "aabccc"}},
		{name: "dot", source: `root ::= .{2}`, yes: []string{"日\n"}, no: []string{"a"}},
		{name: "empty alternative", source: `root ::= "a" | `, yes: []string{"", "a"}},
		{name: "recursion to the right", source: "root ::= ws \"x\"\nws ::= ([ \\n] ws)?", yes: []string{"x", "  \n x"}},
		{name: "recursion to the left", source: "root ::= root \"+\" num | num\nnum ::= [0-9]+", yes: []string{"1", "1+22+3"}, no: []string{"+1", "1+"}},
		{name: "hidden recursion to the left", source: "root ::= empty root \"x\" | \"y\"\nempty ::= \"\" | \"z\"", yes: []string{"y", "yx", "yxx", "zyx", "zzyxx"}, no: []string{"zy", "x"}},
		{name: "recursion through others", source: "root ::= a\na ::= b \"1\" | \"s\"\nb ::= a \"2\" | c\nc ::= a \"3\"", yes: []string{"s", "s21", "s3121"}, no: []string{"s2", "s12"}},
		{name: "nested", source: `root ::= "(" root ")" root | ""`, yes: []string{"", "()", "(())()"}, no: []string{"(", "())"}},
		{name: "palindromes", source: `root ::= "a" root "a" | "b" root "b" | "a" | "b" | ""`, yes: []string{"abba", "aba", "babbab"}, no: []string{"ab", "abb"}},
		{name: "ambiguous", source: `root ::= root root | "a"`, yes: []string{"a", "aaaaaaa"}, no: []string{"", "b"}},
		{name: "rule of a rule of itself", source: "root ::= a | \"x\"\na ::= root", yes: []string{"x"}},
		{name: "empty loops", source: `root ::= ("a"* | "")* "b"`, yes: []string{"b", "aab"}},
	})
}

func TestLark(t *testing.T) {
	checkAccepting(t, EBNF, []accepting{
		{name: "rules and terminals", source: "start: greeting NAME\ngreeting: \"Hello \" | \"Hi \"\nNAME: /[A-Z][a-z]+/", yes: []string{"Hello Ada", "Hi Bob"}, no: []string{"Hello ada", "HelloAda"}},
		{name: "ignored between terminals", source: "start: \"a\" WORD+\nWORD: /[a-z]+/\n%ignore / +/", yes: []string{"a b", " a  b c ", "ab"}, no: []string{"a"}},
		{name: "nothing ignored inside terminals", source: "start: AB \"c\"\nAB: \"a\" \"b\"\n%ignore \" \"", yes: []string{"ab c", "abc"}, no: []string{"a bc"}},
		{name: "imports", source: "start: SIGNED_NUMBER (\"+\" N)*\n%import common.SIGNED_NUMBER\n%import common.INT -> N\n%import common.WS\n%ignore WS", yes: []string{"-1.5e3", "2 + 3\n+ 4"}, no: []string{"a", "1 + -1"}},
		{name: "left recursion", source: "?start: sum\n?sum: product | sum \"+\" product -> add\n?product: atom | product \"*\" atom\n?atom: /[0-9]+/ -> number | \"-\" atom | \"(\" sum \")\"\n%ignore \" \"", yes: []string{"1+2*3", "(1 + -2) * 3"}, no: []string{"1+", "()"}},
		{name: "optional and repeated", source: "start: [\"a\"] \"b\"~2 \"c\"~1..3 (\"d\" | \"e\")?", yes: []string{"bbc", "abbcccd"}, no: []string{"bc", "bbcccc"}},
		{name: "ranges and flags", source: "start: \"a\"..\"c\" \"yes\"i /x.y/s", yes: []string{"bYeSx\ny"}, no: []string{"dyesxay"}},
		{name: "priorities and comments", source: "// first\nstart.2: A // why\n  | B\nA: \"a\"\nB.3: \"b\"", yes: []string{"a", "b"}},
		{name: "kept names", source: "!start: _sep \"x\"\n_sep: \",\"", yes: []string{",x"}},
		{name: "a patch", source: "start: \"*** Begin\" LF change+ \"*** End\" LF?\nchange: (\"+ \" | \"- \") NAME LF line*\nline: (\"@\" | \" \") /(.*)/ LF -> line\nNAME: /(.+)/\n%import common.LF",
			yes: []string{"*** Begin\n+ a.go\n@x\n \n*** End", "*** Begin\n- b c\n*** End\n"}, no: []string{"*** Begin\n*** End", "*** Begin\n+ a.go\n#x\n*** End"}},
		{name: "SQL", source: "start: \"SELECT\" columns \"FROM\" NAME\ncolumns: \"*\" | NAME (\",\" NAME)*\nNAME: /[a-z_]+/\n%import common.WS\n%ignore WS", yes: []string{"SELECT a, b FROM t", "SELECT * FROM t"}, no: []string{"SELECT FROM t", "SELECT a b FROM t"}},
	})
}

func TestGrammarErrors(t *testing.T) {
	checkErrors(t, EBNF, []struct{ name, source, want string }{
		{"undefined", "root ::= a\n", "line 1: rule a is not defined"},
		{"no root", "a ::= \"x\"", "rule root is not defined"},
		{"no start", "a: \"x\"", "rule start is not defined"},
		{"twice", "root ::= \"a\"\nroot ::= \"b\"", "line 2: rule root is defined twice"},
		{"open group", `root ::= ("a"`, `")" expected`},
		{"open text", "root ::= \"a\n", "expected before the end of the line"},
		{"open class", "root ::= [a", "character class"},
		{"class backwards", "root ::= [z-a]", "character class"},
		{"bad escape", `root ::= "\q"`, `\q is no escape`},
		{"bad hexadecimal", `root ::= "\xg0"`, "hexadecimal"},
		{"repetition", `root ::= "b" "a"{2000}`, "line 1: a repetition of more than 1000 times"},
		{"backwards", `root ::= "a"{3,2}`, "smaller number comes first"},
		{"no end", `root ::= "a" root`, "rule root: no text can match: it asks for itself without end"},
		{"no end of a needed rule", "root ::= \"x\" a\na ::= b\nb ::= b \"c\" | c\nc ::= \"d\" b\n", "rule c: no text can match"},
		{"look-ahead", `root ::= "a" (="b")`, "look-ahead"},
		{"token", `root ::= <think>`, "tokens in grammars"},
		{"deep", "root ::= " + strings.Repeat("(", 70) + `"a"` + strings.Repeat(")", 70), "nested deeper"},
		{"many rules", "root ::= " + manyNames(2100), "more than 2000 rules"},
		{"long", "root ::= " + strings.Repeat(" ", maxText), "bytes"},
		{"no rule", "what is this", "NAME:"},
		{"empty", "", "start is not defined"},
		{"template", "start: a{B}\nB: \"x\"", "templates"},
		{"unknown import", "start: X\n%import common.NOTHING -> X", "common.NOTHING"},
		{"other import", "start: X\n%import python.X", "common.NAME"},
		{"directive", "%declare X\nstart: X", "not supported"},
		{"embedded", "start: %json {}", "not supported"},
		{"regex anchors", "start: /^a$/", "^ and $"},
		{"regex flags", "start: /a/x", "flag x"},
		{"regex look-ahead", "start: /a(?=b)/", "line 1: look-ahead is not supported in a grammar"},
		{"range", `start: "ab".."c"`, "two characters"},
	})
}

func manyNames(n int) string {
	var s strings.Builder
	for i := range n {
		s.WriteString(" r" + strings.Repeat("x", i%50) + string(rune('a'+i/50%26)) + string(rune('a'+i/1300)))
	}
	return s.String()
}
