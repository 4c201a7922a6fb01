package jinja

import (
	"fmt"
	"slices"
	"time"
)

// Bounds of one template (CKP-4). The largest published chat templates have
// about 40 KB and 10,000 tokens. A render may use baseSteps and baseMemory plus
// a share proportional to its input, so long conversations render while a
// hostile template ends within 100 ms and 32 MiB.
const (
	maxSource  = 1 << 20 // bytes
	maxTokens  = 60_000
	maxArgs    = 255 // of one macro or call
	maxNesting = 100 // nested blocks, brackets and unary operators in the source

	maxDepth       = 1_000 // nested evaluations, as Python's recursion limit
	maxRange       = 100_000
	baseSteps      = 150_000 // expressions evaluated, items visited, 64-byte pieces read
	stepsPerValue  = 400
	baseMemory     = 4 << 20 // bytes allocated for values and output, freed or not
	memoryPerValue = 512
	memoryPerByte  = 16

	maxJSONBytes = 256 << 20
	maxJSONDepth = 256
	maxIntDigits = 4300 // Python's own limit for integer text
)

// Sizes charged against the memory budget.
const (
	valueBytes = 16 // one Value in a list
	entryBytes = 64 // one dict entry with its share of the index
)

// state is one render. It is used by one goroutine. The first failure stays in
// err; afterwards every evaluation returns at once and its result is ignored,
// so callees need no error returns.
type state struct {
	tmpl     *Template
	vars     *Dict
	now      func() time.Time
	scope    *scope
	out      []byte // output; captures append here and cut their text off again
	line     int    // of the statement being executed
	depth    int
	captured string // input of the filters of a {% set %} or {% filter %} block
	err      error

	steps, maxSteps   int // what is left of the budget, and the budget
	memory, maxMemory int
}

// fail records the first error; its result stands for the value that could not
// be computed.
func (st *state) fail(format string, args ...any) Value {
	if st.err == nil {
		st.err = fmt.Errorf("chat template line %d: "+format, append([]any{st.line}, args...)...)
	}
	return nil
}

// exceed fails because a bound is reached; its result is false.
func (st *state) exceed(what string, limit int) bool {
	if st.err == nil {
		st.err = &LimitError{What: what, Max: limit, Line: st.line}
	}
	return false
}

// work accounts for an operation that reads n bytes or items in one go.
func (st *state) work(n int) bool {
	st.steps -= 1 + n/64
	if st.steps < 0 {
		return st.exceed("steps", st.maxSteps)
	}
	return st.err == nil
}

// charge accounts for size bytes about to be allocated; the caller must not
// allocate when it returns false.
func (st *state) charge(size int) bool {
	if size < 0 || size > st.memory {
		return st.exceed("bytes of memory", st.maxMemory)
	}
	st.memory -= size
	return st.work(size)
}

// enter counts one level of recursion; every true is paired with a leave.
func (st *state) enter() bool {
	if st.depth >= maxDepth {
		return st.exceed("levels of nesting", maxDepth)
	}
	st.depth++
	return st.err == nil
}

func (st *state) leave() { st.depth-- }

// emit appends text to the output.
func (st *state) emit(text string) {
	if !st.charge(len(text)) {
		return
	}
	if cap(st.out)-len(st.out) < len(text) {
		st.out = slices.Grow(st.out, max(len(text), cap(st.out), 1024))
	}
	st.out = append(st.out, text...)
}

// capture runs f and returns what it emitted instead of leaving it in the
// output.
func (st *state) capture(f func()) string {
	mark := len(st.out)
	f()
	text := ""
	if st.charge(len(st.out) - mark) {
		text = string(st.out[mark:])
	}
	st.out = st.out[:mark]
	return text
}
