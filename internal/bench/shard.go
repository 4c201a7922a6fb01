package bench

import (
	"context"
	"fmt"
	"net/http"
	"time"
)

// A Shard is the part that one client has in a run of several, which begin together and together
// send what one would: each makes the whole workload and all arrivals from the same seed, and
// takes every Of-th query, or conversation, of them. A recording that was put together of all parts
// has Index All.
type Shard struct {
	Index, Of int
	Start     time.Time      `json:",omitzero"`  // by this client's clock; zero = at once
	Clock     *time.Duration `json:",omitempty"` // how far the server's clock is ahead of this client's; nil = it does not say
}

// All is the index of what all shards did together.
const All = -1

// String is how flags have it: 0/4.
func (s *Shard) String() string { return fmt.Sprintf("%d/%d", s.Index, s.Of) }

// sends reports whether a client sends query, or conversation, i.
func (s *Shard) sends(i int) bool { return s == nil || i%s.Of == s.Index }

// share is the part of a bound on all clients that is one's own; 0 is no bound.
func (s *Shard) share(bound int) int {
	if s == nil || bound == 0 {
		return bound
	}
	own := bound / s.Of
	if s.Index < bound%s.Of {
		own++
	}
	return own
}

// await waits until the clients of all shards begin. It fails if that has passed: what would be
// sent too late would not be that run.
func (s *Shard) await(ctx context.Context) error {
	if s == nil || s.Start.IsZero() {
		return ctx.Err()
	}
	left := time.Until(s.Start)
	if left < 0 {
		return fmt.Errorf("shard %v: the run was to begin at %v, which was %v ago; all shards need a later --start-at", s, s.Start.Format(time.RFC3339Nano), -left.Round(time.Millisecond))
	}
	if err := pause(ctx, left-timerSlack/2); err != nil {
		return err
	}
	if left = time.Until(s.Start); left > 0 { // the rest is for nap, which is precise
		nap(left)
	}
	return nil
}

// mine counts the queries that are sent by this client.
func (r *run) mine() (count int) {
	conversation := -1
	for i := range r.workload {
		if r.firstTurns == nil || r.workload[i].Turn == 0 {
			conversation++
		}
		if r.Setup.Shard.sends(conversation) {
			count++
		}
	}
	return count
}

// Now is the time that the server says, to the second it is in; zero where it says none.
func (s *Server) Now(ctx context.Context) time.Time {
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.base+"/v1/models", nil)
	if err != nil {
		return time.Time{}
	}
	for _, header := range s.header {
		request.Header.Set(header.Key, header.Value)
	}
	answer, err := s.client.Do(request)
	if err != nil {
		return time.Time{}
	}
	answer.Body.Close()
	said, _ := http.ParseTime(answer.Header.Get("Date")) // zero with an error
	return said
}
