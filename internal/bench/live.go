package bench

import "sync/atomic"

// Live is how far a run has come, for whoever watches it; its fields may be read while
// it runs.
type Live struct {
	Total     atomic.Int64 // queries of the run
	Released  atomic.Int64 // taken up so far
	Sent      atomic.Int64 // written to a connection so far
	Done      atomic.Int64 // ended, failed ones included
	Failed    atomic.Int64
	Tokens    atomic.Int64 // received: as the server counts them, or events with text
	First     atomic.Int64 // requests that have their first token
	FirstTime atomic.Int64 // nanoseconds that these waited for it, in sum
}
