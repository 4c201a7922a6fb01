package grammar

import (
	"slices"
	"strings"
)

// gbnf reads the format of llama.cpp: rules NAME ::= ALTERNATIVES, beginning with root.
func (s *scanner) gbnf() {
	s.rule("root")
	for s.skip(); s.pos < len(s.text) && s.err == nil; s.skip() {
		name := s.name()
		if s.skip(); name == "" || !s.take("::=") {
			s.fail("NAME ::= expected, found %.10q", s.text[s.pos:])
			return
		}
		s.define(name, s.alternatives(s.gbnfPart))
	}
}

// gbnfPart reads one element, nil where a rule or a group ends.
func (s *scanner) gbnfPart() *expr {
	switch next := s.peek(); {
	case next == '"':
		return lit(s.str())
	case next == '[':
		return s.gbnfClass()
	case next == '(':
		s.next()
		if s.peek() == '=' || s.peek() == '!' {
			s.refuse("look-ahead is not supported: write the rule without it")
		}
		return s.group(")", s.gbnfPart)
	case next == '.':
		s.next()
		return class(anyRune...)
	case next == '<' || next == '!':
		s.refuse("tokens in grammars are not supported: write their text")
	case isName(next):
		from := s.pos
		name := s.name()
		if s.skip(); strings.HasPrefix(s.text[s.pos:], "::=") { // a name in front of ::= begins the next rule
			s.pos = from
			return nil
		}
		s.pos = from + len(name)
		return ref(s.rule(name))
	}
	return nil
}

// gbnfClass reads [a-z] or [^a-z].
func (s *scanner) gbnfClass() *expr {
	s.next()
	not := s.take("^")
	var pairs []rune
	for s.peek() != ']' {
		lo, ok := s.char()
		// A minus in front of the end is a character.
		hi := lo
		if ok && s.peek() == '-' && !strings.HasPrefix(s.text[s.pos:], "-]") {
			s.next()
			hi, ok = s.char()
		}
		if !ok || hi < lo {
			s.fail("a character class such as [a-z] expected")
			return never
		}
		pairs = append(pairs, lo, hi)
	}
	s.next()
	if pairs = ordered(pairs); not {
		pairs = negate(pairs)
	}
	return class(pairs...)
}

// ordered sorts and merges the pairs of a class.
func ordered(pairs []rune) []rune {
	var all [][2]rune
	for i := 0; i < len(pairs); i += 2 {
		all = append(all, [2]rune{pairs[i], pairs[i+1]})
	}
	slices.SortFunc(all, func(a, b [2]rune) int { return int(a[0] - b[0]) })
	var out []rune
	for _, pair := range all {
		if last := len(out); last > 0 && pair[0] <= out[last-1]+1 {
			out[last-1] = max(out[last-1], pair[1])
		} else {
			out = append(out, pair[0], pair[1])
		}
	}
	return out
}
