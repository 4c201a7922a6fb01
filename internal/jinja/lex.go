package jinja

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A tokenKind says what a token is.
type tokenKind uint8

const (
	tokEOF   tokenKind = iota
	tokData            // template text between tags
	tokPrint           // {{
	tokBlock           // {%
	tokEnd             // }} or %}
	tokName
	tokString // text is the decoded value
	tokInt
	tokFloat
	tokOp
)

// A token is a piece of a template that the parser takes as a whole.
type token struct {
	kind tokenKind
	text string
	pos  int // byte offset, turned into line and column for messages
	line int
}

// String names the token in messages.
func (tok token) String() string {
	switch tok.kind {
	case tokEOF:
		return "end of template"
	case tokData:
		return "template text"
	case tokPrint:
		return "'{{'"
	case tokBlock:
		return "'{%'"
	case tokEnd:
		return "end of tag"
	case tokString:
		return fmt.Sprintf("string %.40q", tok.text)
	}
	return fmt.Sprintf("'%.40s'", tok.text)
}

// operators, longest first.
var operators = []string{"**", "//", "==", "!=", ">=", "<=", "+", "-", "/", "*", "%", "~",
	"[", "]", "(", ")", "{", "}", ">", "<", "=", ".", ":", "|", ",", ";"}

// lexer turns source into tokens following Jinja's rules for whitespace around
// tags (trim_blocks and lstrip_blocks).
type lexer struct {
	src    string
	pos    int
	line   int // of counted
	at     int // offset up to which line is counted
	tokens []token
	err    error
	// lineStart: the previous tag ended with a line break it swallowed, so what
	// follows is at the start of a line though no line break is left before it.
	lineStart bool
}

func lex(src string) ([]token, error) {
	scan := &lexer{src: src, line: 1, lineStart: true}
	for scan.err == nil && scan.pos < len(src) {
		scan.text()
	}
	scan.add(tokEOF, "", len(src))
	return scan.tokens, scan.err
}

// add appends a token that begins at pos; positions ascend.
func (l *lexer) add(kind tokenKind, text string, pos int) {
	if pos > l.at {
		l.line += strings.Count(l.src[l.at:pos], "\n")
		l.at = pos
	}
	if len(l.tokens) >= maxTokens && l.err == nil {
		l.err = &LimitError{What: "tokens", Max: maxTokens, Line: l.line}
	}
	if l.err == nil {
		l.tokens = append(l.tokens, token{kind, text, pos, l.line})
	}
}

func (l *lexer) fail(pos int, format string, args ...any) {
	if l.err == nil {
		l.err = syntaxError(l.src, pos, fmt.Sprintf(format, args...))
	}
}

func syntaxError(src string, pos int, message string) error {
	line := strings.Count(src[:pos], "\n") + 1
	column := utf8.RuneCountInString(src[strings.LastIndexByte(src[:pos], '\n')+1:pos]) + 1
	return &SyntaxError{Line: line, Column: column, Message: message}
}

// text reads template text and the tag that ends it.
func (l *lexer) text() {
	start := l.pos
	tag := start
	for {
		brace := strings.IndexByte(l.src[tag:], '{')
		if brace < 0 || tag+brace+1 >= len(l.src) {
			l.add(tokData, l.src[start:], start)
			l.pos = len(l.src)
			return
		}
		tag += brace
		if strings.IndexByte("{%#", l.src[tag+1]) >= 0 {
			break
		}
		tag++
	}
	// A sign says what becomes of the white space before the tag.
	kind := l.src[tag+1]
	l.pos = tag + 2
	sign := byte(0)
	if l.pos < len(l.src) && (l.src[l.pos] == '-' || l.src[l.pos] == '+') {
		sign = l.src[l.pos]
		l.pos++
	}
	if data := l.stripBefore(l.src[start:tag], sign, kind); data != "" {
		l.add(tokData, data, start)
	}
	l.lineStart = false
	switch {
	case kind == '#':
		l.comment(tag)
	case kind == '%' && l.rawBlock(tag):
	case kind == '%':
		l.add(tokBlock, "", tag)
		l.expression(tag, "%}")
	default:
		l.add(tokPrint, "", tag)
		l.expression(tag, "}}")
	}
}

// stripBefore removes the whitespace before a tag that its sign or
// lstrip_blocks asks for.
func (l *lexer) stripBefore(data string, sign, kind byte) string {
	if sign == '-' {
		return strings.TrimRightFunc(data, isSpace)
	}
	if sign == '+' || kind == '{' {
		return data
	}
	lineAt := strings.LastIndexByte(data, '\n') + 1
	if (lineAt > 0 || l.lineStart) && strings.TrimLeftFunc(data[lineAt:], isSpace) == "" {
		return data[:lineAt]
	}
	return data
}

// closeTag consumes the end of a tag at the current position and the
// whitespace it swallows; trim is trim_blocks, which {{ }} does not do.
func (l *lexer) closeTag(end string, trim bool) bool {
	rest := l.src[l.pos:]
	switch {
	case strings.HasPrefix(rest, "-"+end):
		after := strings.TrimLeftFunc(rest[1+len(end):], isSpace)
		l.pos = len(l.src) - len(after)
	case trim && strings.HasPrefix(rest, "+"+end):
		l.pos += 1 + len(end)
	case strings.HasPrefix(rest, end):
		l.pos += len(end)
		if trim && strings.HasPrefix(l.src[l.pos:], "\n") {
			l.pos++
		}
	default:
		return false
	}
	l.lineStart = l.src[l.pos-1] == '\n'
	return true
}

// comment passes over a comment.
func (l *lexer) comment(tag int) {
	size := strings.Index(l.src[l.pos:], "#}")
	if size < 0 {
		l.fail(tag, "comment is not closed; expected '#}'")
		return
	}
	l.pos += size
	if size > 0 && (l.src[l.pos-1] == '-' || l.src[l.pos-1] == '+') {
		l.pos--
	}
	l.closeTag("#}", true)
}

// rawBlock handles {% raw %}, whose content is text. The position is after the
// sign; it does not move if the tag is another one.
func (l *lexer) rawBlock(tag int) bool {
	word, ok := strings.CutPrefix(strings.TrimLeftFunc(l.src[l.pos:], isSpace), "raw")
	word = strings.TrimLeftFunc(word, isSpace)
	if !ok || (!strings.HasPrefix(word, "%}") && !strings.HasPrefix(word, "-%}")) {
		return false
	}
	l.pos = len(l.src) - len(word)
	l.closeTag("%}", false)
	start := l.pos
	for at := start; ; at += 2 { // tags inside are text, too, up to endraw
		next := strings.Index(l.src[at:], "{%")
		if next < 0 {
			l.fail(tag, "raw block is not closed; expected '{%% endraw %%}'")
			return true
		}
		at += next
		rest, sign := l.src[at+2:], byte(0)
		if rest != "" && (rest[0] == '-' || rest[0] == '+') {
			rest, sign = rest[1:], rest[0]
		}
		rest, ok := strings.CutPrefix(strings.TrimLeftFunc(rest, isSpace), "endraw")
		l.pos = len(l.src) - len(strings.TrimLeftFunc(rest, isSpace))
		if ok && l.closeTag("%}", true) {
			lineStart := l.lineStart
			l.lineStart = false
			l.add(tokData, l.stripBefore(l.src[start:at], sign, '%'), start)
			l.lineStart = lineStart
			return true
		}
	}
}

// expression reads the tokens of a tag up to its end. An end inside brackets
// does not count: {{ {'a': {}} }}.
func (l *lexer) expression(tag int, end string) {
	var open []byte // brackets that are to be closed
	for l.err == nil {
		for l.pos < len(l.src) && isSpace(l.peekRune()) {
			l.pos += utf8.RuneLen(l.peekRune())
		}
		at := l.pos
		if at >= len(l.src) {
			l.fail(tag, "tag is not closed; expected '%s'", end)
			return
		}
		if len(open) == 0 && l.closeTag(end, end == "%}") {
			l.add(tokEnd, "", at)
			return
		}
		switch char := l.peekRune(); {
		case char == '"' || char == '\'':
			l.stringLiteral()
		case '0' <= char && char <= '9':
			l.number()
		case char == '_' || unicode.IsLetter(char):
			size := strings.IndexFunc(l.src[at:], func(char rune) bool {
				return char != '_' && !unicode.IsLetter(char) && !unicode.IsDigit(char) && !unicode.IsMark(char)
			})
			if size < 0 {
				size = len(l.src) - at
			}
			l.pos += size
			l.add(tokName, l.src[at:l.pos], at)
		default:
			open = l.operator(open)
		}
	}
}

func (l *lexer) peekRune() rune {
	r, _ := utf8.DecodeRuneInString(l.src[l.pos:])
	return r
}

// operator reads one operator and keeps the stack of open brackets.
func (l *lexer) operator(open []byte) []byte {
	for _, op := range operators {
		if !strings.HasPrefix(l.src[l.pos:], op) {
			continue
		}
		l.add(tokOp, op, l.pos)
		// The longest operator; brackets must match.
		if i := strings.Index("([{", op); i >= 0 {
			open = append(open, ")]}"[i])
			if len(open) > maxNesting {
				l.err = &LimitError{What: "open brackets", Max: maxNesting, Line: l.line}
			}
		} else if strings.Contains(")]}", op) {
			if len(open) == 0 || open[len(open)-1] != op[0] {
				l.fail(l.pos, "unexpected '%s' without an opening bracket", op)
				return open
			}
			open = open[:len(open)-1]
		}
		l.pos += len(op)
		return open
	}
	l.fail(l.pos, "unexpected character %q", l.peekRune())
	return open
}

// numberText matches integers (decimal, 0x, 0o, 0b) and, with a group, floats;
// digits may be grouped by underscores.
var numberText = regexp.MustCompile(`^(?:0[xX](?:_?[0-9a-fA-F])+|0[oO](?:_?[0-7])+|0[bB](?:_?[01])+|` +
	`[0-9]+(?:_[0-9]+)*(\.[0-9]+(?:_[0-9]+)*(?:[eE][+-]?[0-9]+)?|[eE][+-]?[0-9]+)?)`)

// number reads an integer or a float.
func (l *lexer) number() {
	// The matcher's cost grows with the text it is given, so first try a little.
	const short = 32
	rest := l.src[l.pos:]
	match := numberText.FindStringSubmatch(rest[:min(short, len(rest))])
	if len(match[0]) > short-4 { // it may go on behind the cut: "_1", ".1", "e+1"
		match = numberText.FindStringSubmatch(rest[:min(maxIntDigits+1, len(rest))])
	}
	text, kind := match[0], tokInt
	if match[1] != "" {
		text, kind = strings.ReplaceAll(text, "_", ""), tokFloat
	}
	switch {
	case len(match[0]) > maxIntDigits:
		l.fail(l.pos, "number of %d characters; expected at most %d", len(match[0]), maxIntDigits)
	case kind == tokInt && len(text) > 1 && text[0] == '0' && text[1] <= '9' && strings.Trim(text, "0_") != "":
		l.fail(l.pos, "integer %s has a leading zero", text)
	}
	l.add(kind, text, l.pos)
	l.pos += len(match[0])
}

// stringLiteral reads a quoted string with Python's escapes.
func (l *lexer) stringLiteral() {
	at, quote := l.pos, l.src[l.pos]
	end := at + 1
	for end < len(l.src) && l.src[end] != quote {
		if l.src[end] == '\\' {
			end++
		}
		end++
	}
	if end >= len(l.src) {
		l.fail(at, "string is not closed; expected %c", quote)
		return
	}
	l.pos = end + 1
	text := l.src[at+1 : end]
	if strings.IndexByte(text, '\\') >= 0 {
		text = unescape(text)
	}
	l.add(tokString, text, at)
}

// unescape decodes Python's string escapes; what is none stays as it is.
func unescape(text string) string {
	var out strings.Builder
	for text != "" {
		if len(text) > 1 && text[0] == '\\' && strings.IndexByte("\n'\"", text[1]) >= 0 {
			out.WriteString(strings.TrimPrefix(text[1:2], "\n"))
			text = text[2:]
			continue
		}
		char, _, rest, err := strconv.UnquoteChar(text, 0)
		if err != nil {
			char, rest = '\\', text[1:]
		}
		out.WriteRune(char)
		text = rest
	}
	return out.String()
}

// isSpace is Python's str.isspace for one character: Unicode white space and
// the four information separators.
func isSpace(r rune) bool {
	return unicode.IsSpace(r) || (0x1c <= r && r <= 0x1f)
}
