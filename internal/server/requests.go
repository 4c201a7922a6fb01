package server

// What GET /requests tells, once a second as long as somebody reads: which requests there are,
// and how they are. All watchers share one snapshot, made of what requests have written down for
// that (package board) and of what /metrics shows: watching costs the engine nothing.

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"sync"
	"time"

	"ossian/internal/api"
	"ossian/internal/board"
	"ossian/internal/host"
	"ossian/internal/metrics"
	"ossian/internal/wire"
)

const (
	maxWatchers   = 8           // each has a connection and a second's work
	watchInterval = time.Second // between two snapshots
	maxGoingOn    = 500         // requests of a snapshot that have not ended; the rest is counted
)

// A watching is what the watchers share. The zero value is ready.
type watching struct {
	mu      sync.Mutex // guards what follows; held while a snapshot is made
	count   int
	taken   time.Time // the latest snapshot
	latest  snapshot  // without rows
	entries []board.Entry
	told    map[uint32][]byte // [tenant] the latest snapshot as an event
}

// gauges are of the server as a whole.
type gauges struct {
	Running       int     `json:"running"`        // sequences, as vllm:num_requests_running
	Waiting       int     `json:"waiting"`        // also for a model's turn in memory
	WaitingTokens int64   `json:"waiting_tokens"` // of their prompts
	KVUsage       float64 `json:"kv_usage"`       // 0 to 1
	Load          int64   `json:"load"`           // requests, as /load
}

// add counts another engine. Of their shares of KV blocks the largest is told: that is where it is
// full first.
func (g *gauges) add(stats metrics.Snapshot) {
	g.Running += stats.Running
	g.Waiting += stats.Waiting
	g.WaitingTokens += stats.WaitingTokens
	g.KVUsage = max(g.KVUsage, stats.Usage())
}

// A snapshot is the data of an event.
type snapshot struct {
	Time     float64      `json:"time"`   // unix seconds
	Uptime   float64      `json:"uptime"` // seconds
	Gauges   gauges       `json:"gauges"`
	Requests []requestRow `json:"requests"` // the caller's; those that go on first, then those that ended last
	Others   counts       `json:"others"`   // of other keys
	LeftOut  int          `json:"left_out"` // the caller's that found no place
}

type counts struct {
	Queued  int `json:"queued"`
	Running int `json:"running"`
	Ended   int `json:"ended"` // of the last that ended
}

// A requestRow is a request. Times are in seconds; null = not yet.
type requestRow struct {
	ID     string   `json:"id"`
	Route  string   `json:"route"`
	Model  string   `json:"model"`
	State  string   `json:"state"`
	Prompt int      `json:"prompt_tokens"`
	Done   int      `json:"done_tokens"` // of these, computed or cached
	Cached int      `json:"cached_tokens"`
	Output int      `json:"output_tokens"`
	TTFT   *float64 `json:"ttft"`
	Rate   *float64 `json:"tokens_per_second"` // from the first token on
	Age    float64  `json:"age"`               // until it ended
	End    *string  `json:"end"`
}

// requests answers GET /requests until the client leaves, its key is withdrawn or the server
// drains.
func (s *Server) requests(reply *api.Reply, r *http.Request, caller *api.Caller) error {
	if !s.watching.enter() {
		return &wire.Error{Message: fmt.Sprintf("%d watch already, and no more may; try again", maxWatchers), Type: wire.TypeOverloaded, Code: wire.CodeOverloaded}
	}
	defer s.watching.leave()
	ticker := time.NewTicker(watchInterval)
	defer ticker.Stop()
	for {
		err := reply.Events(s.watching.event(time.Now(), caller.Tenant, s.take))
		if err != nil && api.CutReason(err) == metrics.CutGone {
			return nil // that is how watching ends
		}
		if err != nil {
			return err
		}
		select {
		case <-ticker.C:
		case <-r.Context().Done():
			return nil
		case <-s.leaving:
			return nil
		}
		if reply.Left() || !s.admits(caller.Tenant) {
			return nil
		}
	}
}

// take makes a snapshot.
func (s *Server) take(now time.Time) (snapshot, []board.Entry) {
	taken := snapshot{Time: float64(now.UnixMilli()) / 1000, Uptime: seconds(now.Sub(s.began)), Gauges: gauges{Load: s.load.Load()}}
	leases := s.host.Resident()
	defer release(leases)
	for _, lease := range leases {
		taken.Gauges.add(host.Snapshot(lease.Engine))
	}
	for _, model := range s.host.Models() {
		taken.Gauges.Waiting += model.Waiting
	}
	return taken, s.board.Entries(now)
}

// seconds is a time in seconds, to the millisecond.
func seconds(d time.Duration) float64 { return d.Truncate(time.Millisecond).Seconds() }

// enter takes a watcher's place, if there is one.
func (v *watching) enter() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.count == maxWatchers {
		return false
	}
	v.count++
	return true
}

// leave gives it back, and the last one what was kept for all.
func (v *watching) leave() {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.count--; v.count == 0 {
		v.taken, v.entries, v.told = time.Time{}, nil, nil
	}
}

// event returns the latest snapshot for a tenant. One that is as old as the interval, less what
// timers are late, is taken anew.
func (v *watching) event(now time.Time, tenant uint32, take func(time.Time) (snapshot, []board.Entry)) []byte {
	v.mu.Lock()
	defer v.mu.Unlock()
	if now.Sub(v.taken) >= watchInterval*9/10 {
		v.taken, v.told = now, map[uint32][]byte{}
		v.latest, v.entries = take(now)
	}
	if v.told[tenant] == nil {
		data, _ := json.Marshal(v.latest.of(tenant, v.entries)) // numbers and strings
		v.told[tenant] = append(append([]byte("data: "), data...), "\n\n"...)
	}
	return v.told[tenant]
}

// of returns a snapshot with the rows that a tenant may see: its own, all without keys.
func (taken snapshot) of(tenant uint32, entries []board.Entry) snapshot {
	taken.Requests = []requestRow{}
	for i := range entries {
		entry := &entries[i]
		switch ended := entry.State == board.Ended; {
		case tenant != 0 && entry.Tenant != tenant && ended:
			taken.Others.Ended++
		case tenant != 0 && entry.Tenant != tenant && entry.State == board.Waiting:
			taken.Others.Queued++
		case tenant != 0 && entry.Tenant != tenant:
			taken.Others.Running++
		case len(taken.Requests) >= maxGoingOn && !ended:
			taken.LeftOut++
		default:
			taken.Requests = append(taken.Requests, row(entry))
		}
	}
	return taken
}

// row is an entry as it is sent.
func row(entry *board.Entry) requestRow {
	told := requestRow{ID: entry.ID, Route: entry.Route, Model: entry.Model, State: entry.State, Prompt: entry.Prompt, Done: entry.Done, Cached: entry.Cached,
		Output: entry.Output, Age: seconds(entry.Age)}
	if entry.First > 0 {
		told.TTFT = wire.Ptr(float64(entry.First.Microseconds()) / 1e6)
	}
	if entry.Rate > 0 {
		told.Rate = wire.Ptr(math.Round(entry.Rate*100) / 100)
	}
	if entry.End != "" {
		told.End = &entry.End
	}
	return told
}
