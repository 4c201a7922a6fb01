package grammar

import (
	"strings"

	"ossian/internal/grammar/runes"
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
	if pairs = runes.Ordered(pairs); not {
		pairs = runes.Negate(pairs)
	}
	return class(pairs...)
}
