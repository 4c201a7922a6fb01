package grammar

import "errors"

// A budget bounds a compilation (reliability.md GRM-1). One unit is an NFA state, an
// element of a DFA state or a step over one: 20 to 60 ns and at most 24 bytes. The
// first error stays.
type budget struct {
	left int
	stop func() error // of the caller's context
	err  error
}

// checkEvery is how many units may pass between two looks at the context.
const checkEvery = 1 << 12

// spend takes n units and reports whether there is an error.
func (b *budget) spend(n int) bool {
	if b.err != nil {
		return true
	}
	// n need not divide checkEvery: look when a multiple of it is passed.
	if (b.left-n)/checkEvery != b.left/checkEvery {
		b.fail(b.stop())
	}
	if b.left -= n; b.left < 0 {
		b.fail(errTooLarge)
	}
	return b.err != nil
}

func (b *budget) fail(err error) {
	if b.err == nil {
		b.err = err
	}
}

var errTooLarge = errors.New("too large to compile: fewer alternatives, shorter repetitions or smaller bounds are needed")
