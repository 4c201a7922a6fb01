package engine

import (
	"fmt"
	"log/slog"
	"runtime/debug"

	"ossian/internal/sched"
)

// A guard keeps a panic of a constraint from the loop: it ends one request (HLT-4).
type guard struct {
	make       func() sched.Constraint
	constraint sched.Constraint // nil = not made yet
	log        *slog.Logger
	id         uint64 // of the stream
}

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

func (g *guard) report(p any) error {
	g.log.Error("constraint failed", "req", g.id, "panic", p, "stack", string(debug.Stack()))
	return fmt.Errorf("%w: panic: %v", ErrConstraint, p)
}
