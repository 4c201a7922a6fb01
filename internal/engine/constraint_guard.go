package engine

import (
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"

	"ossian/internal/sched"
)

// A guard keeps a panic of a constraint from the loop: it ends one request (HLT-4). It also keeps
// masks behind guesses, which nobody has to have, within the time that a step has for them.
type guard struct {
	make       func() sched.Constraint
	constraint sched.Constraint // nil = not made yet
	log        *slog.Logger
	id         uint64 // of the stream

	masks  *maskTime
	lately time.Duration // what a mask behind a guess took, at most; it fades
}

// A maskTime is what the masks behind guesses of a step may still take, all sequences together.
type maskTime struct {
	clock func() time.Time
	left  time.Duration
}

const (
	masksPerStep = 2 * time.Millisecond
	usualMask    = 10 * time.Microsecond // before one has been made
	maskFading   = 64                    // this share of guard.lately is forgotten with each call that it forbids
)

// begin gives the next step its time.
func (t *maskTime) begin() { t.left = masksPerStep }

// Mask implements sched.Constraint.
func (g *guard) Mask(dst []uint64) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = g.report(p)
		}
	}()
	if g.constraint == nil {
		g.constraint = g.make()
	}
	return g.constraint.Mask(dst)
}

// Accept implements sched.Constraint.
func (g *guard) Accept(id int32) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = g.report(p)
		}
	}()
	return g.constraint.Accept(id)
}

// Ahead implements sched.Constraint, for as many guesses as there is time for by what masks took
// lately. What fails costs the guesses, not the request.
func (g *guard) Ahead(guesses []int32, masks [][]uint64) (allowed int) {
	defer func() {
		if p := recover(); p != nil {
			g.report(p)
			allowed = 0
		}
	}()
	most := int(max(g.masks.left, 0) / max(g.lately, usualMask))
	guesses = guesses[:min(len(guesses), most)]
	if len(guesses) == 0 {
		g.lately -= g.lately / maskFading
		return 0
	}
	began := g.masks.clock()
	allowed = g.constraint.Ahead(guesses, masks)
	took := max(g.masks.clock().Sub(began), 0)
	g.masks.left -= took
	g.lately = max(took/time.Duration(allowed+1), g.lately-g.lately/maskFading)
	return allowed
}

func (g *guard) report(p any) error {
	g.log.Error("constraint failed", "req", g.id, "panic", p, "stack", string(debug.Stack()))
	return fmt.Errorf("%w: panic: %v", ErrConstraint, p)
}
