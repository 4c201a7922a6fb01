// Package calljson reads the JSON that calls are written in while it comes, and narrows
// the schemas of their arguments to objects. Who uses it need not count brackets, nor
// know in how many ways models begin a call.
package calljson

// A Value is one JSON value that is being read. Its text need not be valid: a value ends
// where its brackets and quotes are balanced, one without any at a brace, a comma or space.
type Value struct {
	Scalar bool // it is neither object nor array nor string
	Ended  bool // it is complete

	depth  int  // open brackets
	quoted bool // inside a string
	escape bool // behind a backslash in it
}

// Inside is the rest of an object whose opening brace was read.
func Inside() Value { return Value{depth: 1} }

// Read returns how many bytes of text belong to the value. Text goes on where the text
// of the call before ended.
func (v *Value) Read(text string) (size int) {
	for at := 0; at < len(text) && !v.Ended; at++ {
		char := text[at]
		if v.Scalar && (char == '}' || char == ',' || IsSpace(char)) {
			v.Ended = true
			return size
		}
		size = at + 1
		v.read(char)
		v.Ended = v.depth <= 0 && !v.quoted && !v.Scalar
	}
	return size
}

// read takes one byte of the value. Brackets count outside of strings alone.
func (v *Value) read(char byte) {
	switch {
	case v.escape:
		v.escape = false
	case v.quoted && char == '\\':
		v.escape = true
	case char == '"':
		v.quoted = !v.quoted
	case v.quoted:
	case char == '{' || char == '[':
		v.depth++
	case char == '}' || char == ']':
		v.depth--
	case v.depth == 0:
		v.Scalar = true
	}
}

// IsSpace reports whether JSON takes char for white space.
func IsSpace(char byte) bool { return char == ' ' || char == '\t' || char == '\r' || char == '\n' }
