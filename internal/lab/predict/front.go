package predict

import "math"

// A front is what stands between the network and the scheduler: one processor that gives each
// request two stages of half its time, and begins no second stage while a first one waits. So
// requests of a burst reach the scheduler between half and all of n times that time (lab.md 5).
type front struct {
	stage   float64 // seconds of a stage
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

// advance works until a time.
func (f *front) advance(until float64) {
	for len(f.first)+len(f.second) > 0 {
		queue, last := &f.first, false
		start := math.Inf(1)
		if len(f.first) > 0 {
			start = math.Max(f.free, f.first[0].at)
		}
		if len(f.second) > 0 {
			if second := math.Max(f.free, f.second[0].at); second < start {
				start, queue, last = second, &f.second, true
			}
		}
		end := start + f.stage
		if end > until {
			return
		}
		done := queued{(*queue)[0].id, end}
		*queue = (*queue)[1:]
		f.free, f.busy = end, f.busy+f.stage
		if last {
			f.reached = append(f.reached, done)
		} else {
			f.second = append(f.second, done)
		}
	}
}

// next returns when something can happen next; infinity = there is nothing to do.
func (f *front) next() float64 {
	if len(f.reached) > 0 {
		return f.reached[0].at
	}
	next := math.Inf(1)
	if len(f.first) > 0 {
		next = math.Max(f.free, f.first[0].at) + f.stage
	}
	if len(f.second) > 0 {
		next = math.Min(next, math.Max(f.free, f.second[0].at)+f.stage)
	}
	return next
}

// idleAt returns when a first token that is there at some time can leave: behind all work that
// waits then.
func (f *front) idleAt(now float64) float64 {
	work := 0.0
	for _, request := range f.first {
		if request.at > now {
			break
		}
		work += 2 * f.stage
	}
	work += float64(len(f.second)) * f.stage
	if work == 0 {
		return now
	}
	return math.Max(now, f.free+work)
}
