package predict

import "math"

// A front is what stands between the network and the scheduler: one processor that takes each
// request through two stages, rendering and handing over, and begins no second stage while a first
// one waits. So of a burst none reaches the scheduler before all are rendered (lab.md 5: chats of
// gpt-oss, whose stages take as long as each other, reach it between half and all of the time).
type front struct {
	render  float64 // seconds of the first stage
	hand    float64 // and of the second
	free    float64 // when the work that has begun is done
	first   []queued
	second  []queued
	reached []queued // through both, in order, not yet taken
	busy    float64  // seconds of work so far
}

// queued is a request and when it can go on.
type queued struct {
	id int
	at float64
}

// add hands in a request at its time; times do not fall.
func (f *front) add(id int, at float64) { f.first = append(f.first, queued{id, at}) }

// choose returns the work that comes next: whose it is, whether it is the second stage, and when
// it ends; ok = there is some.
func (f *front) choose() (request queued, second bool, end float64, ok bool) {
	begin := math.Inf(1)
	if len(f.first) > 0 {
		begin = math.Max(f.free, f.first[0].at)
		request, end, ok = f.first[0], begin+f.render, true
	}
	if len(f.second) > 0 {
		if later := math.Max(f.free, f.second[0].at); later < begin {
			return f.second[0], true, later + f.hand, true
		}
	}
	return request, false, end, ok
}

// advance works until a time.
func (f *front) advance(until float64) {
	for {
		request, second, end, ok := f.choose()
		if !ok || end > until {
			return
		}
		done := queued{request.id, end}
		if second {
			f.busy += f.hand
			f.second, f.reached = f.second[1:], append(f.reached, done)
		} else {
			f.busy += f.render
			f.first, f.second = f.first[1:], append(f.second, done)
		}
		f.free = end
	}
}

// next returns when something can happen next; infinity = there is nothing to do.
func (f *front) next() float64 {
	if len(f.reached) > 0 {
		return f.reached[0].at
	}
	if _, _, end, ok := f.choose(); ok {
		return end
	}
	return math.Inf(1)
}

// idleAt returns when a first token that is there at some time can leave: behind all work that
// waits then.
func (f *front) idleAt(now float64) float64 {
	work := 0.0
	for _, request := range f.first {
		if request.at > now {
			break
		}
		work += f.render + f.hand
	}
	work += float64(len(f.second)) * f.hand
	if work == 0 {
		return now
	}
	return math.Max(now, f.free+work)
}
