package cuda

// Operations that wait for the next one. A small kernel takes a card longer to begin and to end than to
// compute, so three operations of a decoder are not launched when they are asked for: if the next
// operation is the one that follows in a decoder, one kernel does both. Whatever else is asked for
// launches the waiting one first (settle), so that nobody can see it wait; bits are the same.

// A waiting operation can be launched alone.
type waiting interface{ run(d *Device) }

// settle launches what waits.
func (d *Device) settle() {
	if w := d.waiting; w != nil {
		d.waiting = nil
		w.run(d)
	}
}

// A turning is Rotate, which Store of its keys takes along.
type turning struct {
	rotation
	keys *buffer
}

func (t *turning) run(d *Device) { d.queue.rotate(t.rotation, &d.heads, &d.step.arrays) }

// run is Route alone, which Experts takes along where tokens are few.
func (r *routing) run(d *Device) { d.queue.route(r) }

// A joining is the sum over the experts of tokens, the end of Experts, which AddNorm takes along.
type joining struct {
	*combineArgs
	dst *buffer
}

func (j *joining) run(d *Device) { d.queue.combine(j.combineArgs, j.dst.rows) }
