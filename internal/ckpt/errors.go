package ckpt

import (
	"cmp"
	"fmt"
	"strings"
	"unicode"
)

// A Kind says whose fault an Error is, so that nobody is told that a file is
// corrupt when it is merely new to this program (reliability.md CKP-3).
type Kind uint8

const (
	Damaged      Kind = iota // a file contradicts itself, its container format or its seal
	Incomplete               // something the model needs is not there
	Inconsistent             // each part is well-formed, but they disagree
	Unsupported              // well-formed, but this program does not run it
)

// String returns the word that error messages use for k.
func (k Kind) String() string {
	return [...]string{"damaged", "incomplete", "inconsistent", "not supported"}[k]
}

// An Error is the diagnosis of a checkpoint that cannot be used.
type Error struct {
	Kind    Kind
	File    string // path
	Tensor  string // as the file spells it; "" = none in particular
	Offset  int64  // byte in File; -1 = no single place
	Problem string // what was looked at, and what to do about it where that is known
	Want    string // "" = nothing to compare
	Got     string
}

// Error implements error.
func (e *Error) Error() string {
	var out strings.Builder
	fmt.Fprintf(&out, "%s: %v", e.File, e.Kind)
	if e.Offset >= 0 {
		fmt.Fprintf(&out, " at byte %d", e.Offset)
	}
	if e.Tensor != "" {
		fmt.Fprintf(&out, ", tensor %q", clip(e.Tensor))
	}
	out.WriteString(": " + clipTo(e.Problem, maxProblem))
	if e.Want != "" {
		fmt.Fprintf(&out, ": expected %s, found %s", e.Want, cmp.Or(e.Got, "nothing"))
	}
	return clean(out.String())
}

// clip shortens text from a file, which may be megabytes of rubbish.
func clip(s string) string { return clipTo(s, 200) }

// maxProblem is the bytes of a problem that are told: those that list names are long.
const maxProblem = 1500

// clipTo shortens text to at most so many bytes and a mark.
func clipTo(s string, bytes int) string {
	if len(s) <= bytes {
		return s
	}
	return strings.ToValidUTF8(s[:bytes], "") + "…"
}

// clean drops from text of a file what would steer a terminal or begin a line of a log: controls,
// and marks that turn the direction of writing.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t' || r == '\r':
			return ' '
		case unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) || r == '\u2028' || r == '\u2029':
			return -1
		}
		return r
	}, s)
}

func damaged(file string, at int64, problem, want string, got any) error {
	return &Error{Kind: Damaged, File: file, Offset: at, Problem: problem, Want: want, Got: clip(fmt.Sprint(got))}
}

func unsupported(file, problem, want string, got any) error {
	return &Error{Kind: Unsupported, File: file, Offset: -1, Problem: problem, Want: want, Got: clip(fmt.Sprint(got))}
}

func incomplete(file, problem string) error {
	return &Error{Kind: Incomplete, File: file, Offset: -1, Problem: problem}
}
