package grammar

import "strings"

// terminals is what Lark has beyond GBNF: terminals, between which %ignore may stand.
type terminals struct {
	inside  bool // inside the definition of a terminal
	ignored []*expr
}

// ignoreRule is the name of the rule for what %ignore says; no user's rule can have it.
const ignoreRule = "%ignore"

// library has the terminals of %import common, from the file of that name in Lark.
var library = map[string]string{
	"DIGIT": `[0-9]`, "HEXDIGIT": `[0-9a-fA-F]`, "INT": `[0-9]+`, "SIGNED_INT": `[+-]?[0-9]+`, "DECIMAL": `[0-9]+\.[0-9]*|\.[0-9]+`,
	"FLOAT":        `[0-9]+[eE][+-]?[0-9]+|(?:[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?`,
	"SIGNED_FLOAT": `[+-]?(?:[0-9]+[eE][+-]?[0-9]+|(?:[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)`,
	"NUMBER":       `(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?`, "SIGNED_NUMBER": `[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?`,
	"ESCAPED_STRING": `"(?:[^"\\\n]|\\.)*"`, "LCASE_LETTER": `[a-z]`, "UCASE_LETTER": `[A-Z]`, "LETTER": `[A-Za-z]`, "WORD": `[A-Za-z]+`,
	"CNAME": `[_A-Za-z][_A-Za-z0-9]*`, "WS_INLINE": `[ \t]+`, "WS": `[ \t\f\r\n]+`, "CR": `\r`, "LF": `\n`, "NEWLINE": `(?:\r?\n)+`,
	"SH_COMMENT": `#[^\n]*`, "CPP_COMMENT": `//[^\n]*`, "C_COMMENT": `/\*(?:[^*]|\*+[^*/])*\*+/`, "SQL_COMMENT": `--[^\n]*`,
}

// lark reads the grammars of Lark as vLLM's users write them. Rules match what their
// text says; between terminals %ignore may match. Nothing prefers the longest
// terminal: a grammar whose meaning depends on that allows more here.
func (s *scanner) lark() {
	s.terminals = &terminals{}
	// What %ignore says may stand at the beginning and behind each terminal (larkPart).
	root := s.rule("%start")
	ignore := s.rule(ignoreRule)
	s.rules[root].body = cat(ref(ignore), ref(s.rule("start")))
	for s.skip(); s.pos < len(s.text) && s.err == nil; s.skip() {
		if s.peek() == '%' {
			s.directive()
			continue
		}
		// Marks for the shape of Lark's tree, and priorities: there is neither here.
		for s.take("?") || s.take("!") {
		}
		name := s.name()
		if s.skip(); s.take(".") { // a priority
			s.bounds(",")
			s.skip()
		}
		if name == "" || !s.take(":") {
			s.fail("NAME: expected, found %.10q", s.text[s.pos:])
			return
		}
		s.terminals.inside = isTerminal(name)
		s.define(name, s.alternatives(s.larkPart))
	}
	s.rules[ignore].body = star(alt(s.terminals.ignored...))
}

// isTerminal reports whether a name is a terminal's: in capitals, perhaps behind _.
func isTerminal(name string) bool {
	name = strings.TrimLeft(name, "_")
	return name != "" && name[0] >= 'A' && name[0] <= 'Z'
}

// directive reads a line that begins with %.
func (s *scanner) directive() {
	switch {
	case s.take("%ignore"):
		s.terminals.inside = true
		s.terminals.ignored = append(s.terminals.ignored, s.alternatives(s.larkPart))
	case s.take("%import"):
		s.importing()
	default:
		s.refuse("%.12q is not supported: %%ignore and %%import common.NAME are", s.text[s.pos:])
	}
}

// importing reads what follows %import: common.NAME, common.NAME -> OTHER, or a list of
// names in parentheses behind common.
func (s *scanner) importing() {
	s.skip()
	switch {
	case s.take("common."):
		name := s.name()
		as := name
		if s.skip(); s.take("->") { // under another name
			s.skip()
			as = s.name()
		}
		s.borrow(name, as)
		return
	case !s.take("common"):
		s.refuse("only %%import common.NAME and %%import common (NAME, NAME) are supported: copy the rules instead")
		return
	}
	if s.skip(); !s.take("(") {
		s.fail("common.NAME or common (NAME, NAME) expected, found %.10q", s.text[s.pos:])
		return
	}
	for s.err == nil {
		s.skip()
		name := s.name()
		s.borrow(name, name)
		if s.skip(); s.take(")") {
			return
		}
		if !s.take(",") {
			s.fail("a comma or ) expected in a list of names, found %.10q", s.text[s.pos:])
		}
	}
}

// borrow defines a terminal of the library under the name as.
func (s *scanner) borrow(name, as string) {
	pattern, ok := library[name]
	if !ok {
		s.refuse("common.%s is not supported: define it", name)
		return
	}
	body, fault := parsePattern(pattern, false)
	if fault != nil {
		s.fail("%s", fault.What)
		return
	}
	s.define(as, body)
}

// larkPart reads one element, with what follows a terminal inside a rule.
func (s *scanner) larkPart() *expr {
	// Inside a terminal, terminals are letters like any others.
	token := func(part *expr) *expr {
		if s.terminals.inside {
			return part
		}
		return cat(part, ref(s.names[ignoreRule]))
	}
	switch next := s.peek(); {
	case next == '"':
		return token(s.larkText())
	case next == '/':
		return token(s.larkRegex())
	case next == '(':
		s.next()
		return s.group(")", s.larkPart)
	case next == '[':
		s.next()
		return opt(s.group("]", s.larkPart))
	case next == '-' && s.take("->"):
		s.skip()
		s.name()
		return empty
	case next == '<' || (next == '%' && !strings.HasPrefix(s.text[s.pos:], "%i")):
		s.refuse("%.12q is not supported here: write what it stands for", s.text[s.pos:])
	case isName(next) || next == '?' || next == '!':
		return s.larkName(token)
	}
	return nil
}

// larkName reads a name, unless it begins the next definition.
func (s *scanner) larkName(token func(*expr) *expr) *expr {
	from := s.pos
	for s.take("?") || s.take("!") {
	}
	name := s.name()
	if name == "" {
		return nil
	}
	// A name in front of a colon, or of a priority and one, begins the next definition.
	end := s.pos
	s.skip()
	if s.take(".") {
		s.bounds(",")
		s.skip()
	}
	if s.peek() == ':' {
		s.pos = from
		return nil
	}
	if s.pos = end; s.peek() == '{' && !strings.ContainsAny(s.text[end:min(end+2, len(s.text))], "0123456789,") {
		s.refuse("templates are not supported: write %s out", name)
	}
	named := ref(s.rule(name))
	if isTerminal(name) {
		return token(named)
	}
	return named
}

// larkText reads "text", "text"i or "a".."z".
func (s *scanner) larkText() *expr {
	text := s.str()
	if s.take("..") {
		if s.peek() != '"' {
			s.fail(`".." and a character expected`)
			return never
		}
		lo, hi := []rune(text), []rune(s.str())
		if len(lo) != 1 || len(hi) != 1 || lo[0] > hi[0] {
			s.fail("a range of two characters expected, the smaller first")
			return never
		}
		return class(lo[0], hi[0])
	}
	if s.peek() == 'i' && (s.pos+1 == len(s.text) || !isName(s.text[s.pos+1])) {
		s.next()
		return folded(text)
	}
	return lit(text)
}

// larkRegex reads /pattern/ with flags.
func (s *scanner) larkRegex() *expr {
	s.next()
	from := s.pos
	// An escaped slash does not end it.
	for s.peek() != '/' {
		if s.peek() == '\\' {
			s.next()
		}
		if s.peek() == '\n' || s.pos >= len(s.text) {
			s.fail("/ expected before the end of the line")
			return never
		}
		s.next()
	}
	pattern := s.text[from:s.pos]
	s.next()
	for flag := s.peek(); flag >= 'a' && flag <= 'z'; flag = s.peek() {
		switch flag {
		case 'i', 's':
			pattern = "(?" + string(flag) + ")" + pattern
		case 'u', 'l':
		default:
			s.refuse("the flag %c of a regular expression is not supported: leave it out", flag)
		}
		s.next()
	}
	body, err := parsePattern(pattern, false)
	if err != nil {
		s.fail("%s", err.What)
		s.err.Unsupported = err.Unsupported
		return never
	}
	if body.has(opAhead, opNotAhead) {
		s.refuse("look-ahead is not supported in a grammar: write the terminal without it")
	}
	if body.anchored() {
		s.refuse("^ and $ have no meaning inside a grammar: leave them out")
	}
	return body
}
