package host

import (
	"time"

	"ossian/internal/chat"
)

// A State is where a model stands:
//
//	Unloaded → Loading → Loaded → Leaving → Unloaded, or withdrawn
//
// Loading may fail, which is Unloaded again. Leaving begins when the model makes room, or
// when its engine has ended; it lasts until nobody holds the model.
type State uint8

// The states.
const (
	Unloaded State = iota
	Loading
	Loaded
	Leaving
)

// String is the state in the words of the list of models.
func (s State) String() string {
	return [...]string{Unloaded: "unloaded", Loading: "loading", Loaded: "loaded", Leaving: "unloading"}[s]
}

// An entry is a model of the host, in memory or not. Host.mu guards it.
type entry struct {
	Card
	first bool // it is loaded without having been asked for

	state   State
	model   *Model
	noted   chan struct{} // closed when what its engine ended with is noted
	leases  int           // of model
	waiting []*waiter     // in the order in which they came

	since time.Time     // it has been in memory, or was last
	took  time.Duration // to load it
	used  time.Time     // when it was last given back

	failures    int       // since it last worked
	retry       time.Time // when it may be tried again
	checked     time.Time // when Config.Check last found nothing wrong
	withdrawn   *WithdrawnError
	fingerprint string // of the first time
	facts       Facts
	chat, tools bool // as its files show, false as long as nobody has looked
}

// A waiter is a request that waits for a model.
type waiter struct {
	since time.Time
	done  chan struct{} // closed when it has a lease or an error
	lease *Lease
	err   error
}

// leastRetry and mostRetry bound the time after which a model that has failed is tried again:
// it doubles with each failure.
const (
	leastRetry = time.Second
	mostRetry  = time.Minute
)

// backOff notes a failure, and returns what requests are told until it is over.
func (e *entry) backOff(now time.Time) *LoadError {
	if !e.since.IsZero() && now.Sub(e.since) > mostRetry {
		e.failures = 0 // it has worked meanwhile
	}
	wait := min(leastRetry<<min(e.failures, 16), mostRetry)
	e.failures++
	e.retry = now.Add(wait)
	return &LoadError{Name: e.Names[0], Retry: wait}
}

// refusal returns why nobody may wait for the model now; nil = they may.
func (e *entry) refusal(now time.Time) error {
	switch {
	case e.withdrawn != nil:
		return e.withdrawn
	case now.Before(e.retry):
		return &LoadError{Name: e.Names[0], Retry: e.retry.Sub(now)}
	}
	return nil
}

// mayGo returns when a model that nobody holds may make room: it stays for as long as loading it
// took, so that no more than half of the time goes into that, but not for longer than a turn.
func (e *entry) mayGo(turn time.Duration) time.Time { return e.since.Add(min(e.took, turn)) }

// show notes how conversations with the model are written; nil = it has no chat.
func (e *entry) show(format chat.Format) {
	e.chat = format != nil
	e.tools = e.chat && format.Tools()
}

// info returns what clients may know.
func (e *entry) info() Info {
	return Info{Card: e.Card, State: e.state, Failed: e.withdrawn != nil || (e.failures > 0 && e.state != Loaded), Loaded: e.fingerprint != "", Facts: e.facts, Chat: e.chat, Tools: e.tools, Waiting: len(e.waiting)}
}
