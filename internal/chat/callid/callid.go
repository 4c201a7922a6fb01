// Package callid says which call a result answers where calls of a conversation share an
// id. Who uses it need not know in which ways clients number calls.
package callid

// A Call is whom a call is of.
type Call struct {
	Name    string
	Builtin bool // of a tool that the server runs
}

// Calls are the calls of one id. Ids are not always unique: clients and models number
// the calls of every turn from 0, or give all of a turn the same. The k-th result belongs
// to the k-th call, but not to one before somebody else spoke if there is one since.
type Calls struct {
	calls    []Call // one at least once Add was called
	answered int    // those that have a result, or get none
	spoken   int    // how often others had spoken before the last
}

// Add notes a call; spoken is how many turns so far are neither the
// assistant's nor a tool's.
func (c *Calls) Add(call Call, spoken int) {
	if spoken > c.spoken {
		c.answered = len(c.calls)
	}
	c.calls, c.spoken = append(c.calls, call), spoken
}

// Answer returns the call that the next result is of; the last one
// where a result is told twice. There must have been a call.
func (c *Calls) Answer() Call {
	call := c.calls[min(c.answered, len(c.calls)-1)]
	c.answered = min(c.answered+1, len(c.calls))
	return call
}
