package python

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"ossian/internal/limits"
	"ossian/internal/tools"
)

// A Server is the tool. It has the interpreters of all conversations: those of open sessions, and
// those that wait for the next response.
type Server struct {
	backend backend
	limits  func() *limits.Set
	log     *slog.Logger

	mu     sync.Mutex           // guards all below, and what holders say it guards
	kept   map[chainKey]*holder // of chains with an ID
	slots  map[int]*holder      // whose interpreter has which slot
	freed  chan struct{}        // closed, and made anew, when a slot may be free
	closed bool
}

// A chainKey says whose conversation an interpreter belongs to.
type chainKey struct{ owner, id string }

// A holder has the interpreter of one conversation.
type holder struct {
	key       chainKey
	container string
	turn      chan struct{} // holds one value while somebody uses what follows
	running   interpreter   // nil = none
	former    interpreter   // ended by a limit; its files are for the next one. nil = none
	slot      int
	started   bool // it has a slot
	lost      bool // variables that the conversation believes in are not there

	sessions int  // open ones; guarded by Server.mu, as the rest
	ending   bool // its interpreter is being ended, for good
	since    time.Time
	idle     *time.Timer
}

func newServer(chosen backend, opts *Options) *Server {
	return &Server{backend: chosen, limits: opts.Limits, log: opts.Log, kept: map[chainKey]*holder{}, slots: map[int]*holder{}, freed: make(chan struct{})}
}

// Name returns "python".
func (s *Server) Name() string { return "python" }

// Namespace returns what the model is told.
func (s *Server) Namespace(context.Context) (tools.Namespace, error) {
	return tools.Namespace{Name: s.Name(), Description: description(s.backend.keeps(), s.limits().Time(limits.ToolTime))}, nil
}

// Status says which backend there is.
func (s *Server) Status() tools.Status {
	return tools.Status{Name: s.Name(), Kind: "python", Backend: s.backend.detail(), Works: true, Tools: 1}
}

// Open begins a session.
func (s *Server) Open(chain tools.Chain) tools.Session { return &session{server: s, chain: chain} }

// Close ends all interpreters, and those that would be started later. Containers of calls that were
// cut off are gone when it returns.
func (s *Server) Close() error {
	s.mu.Lock()
	s.closed = true
	var idle []*holder
	for _, h := range s.slots {
		if h.sessions == 0 {
			idle = append(idle, h)
		}
	}
	s.mu.Unlock()
	for _, h := range idle {
		s.end(h)
	}
	if ending, ok := s.backend.(interface{ wait() }); ok {
		ending.wait()
	}
	return nil
}

// join returns the holder of a conversation, which a session has from now on.
func (s *Server) join(chain *tools.Chain) *holder {
	key := chainKey{chain.Owner, chain.ID}
	s.mu.Lock()
	defer s.mu.Unlock()
	held := s.kept[key]
	// A conversation without an id cannot go on: its interpreter is for this answer alone.
	if held == nil || chain.ID == "" {
		held = &holder{key: key, container: newContainer(), turn: make(chan struct{}, 1), lost: s.backend.keeps() == privateData && container(chain.State) != ""}
		if chain.ID != "" {
			s.kept[key] = held
		}
	}
	held.sessions++
	if held.idle != nil {
		held.idle.Stop()
	}
	return held
}

// leave ends what a session has of a holder. The interpreter is kept for a while where the
// conversation may go on.
func (s *Server) leave(holder *holder, keep bool) {
	s.mu.Lock()
	holder.sessions--
	holder.since = time.Now()
	last := holder.sessions == 0
	keep = keep && !s.closed && holder.key.id != "" && (holder.running != nil || holder.former != nil)
	if last && keep {
		holder.idle = time.AfterFunc(s.limits().Time(limits.PythonIdle), func() { s.end(holder) })
	}
	s.wake() // there may be one more that can be given up
	s.mu.Unlock()
	if last && !keep {
		s.end(holder)
	}
}

// end ends the interpreter of a conversation without sessions. Does nothing where one has come, or
// where somebody else is about it: its slot is free when the interpreter is gone, and not before.
func (s *Server) end(holder *holder) {
	s.mu.Lock()
	if holder.sessions > 0 || holder.ending {
		s.mu.Unlock()
		return
	}
	holder.ending = true
	if s.kept[holder.key] == holder {
		delete(s.kept, holder.key)
	}
	running, former := holder.running, holder.former
	holder.running, holder.former = nil, nil
	s.mu.Unlock()
	closeAll(running, former)
	s.release(holder)
}

func closeAll(all ...interpreter) {
	for _, one := range all {
		if one != nil {
			one.close()
		}
	}
}

// release gives back a holder's slot.
func (s *Server) release(h *holder) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if h.started {
		delete(s.slots, h.slot)
		h.started = false
		s.wake()
	}
}

// wake tells those who wait for a slot to look again. The caller has the lock.
func (s *Server) wake() {
	close(s.freed)
	s.freed = make(chan struct{})
}

// slotTime is how long a call waits for an interpreter when all are in use.
const slotTime = 10 * time.Second

// acquire gives a holder a slot. Where there is none, the interpreter that has waited longest for
// its conversation to go on makes room; where none waits, the call does. It reports whether there
// was one in time.
func (s *Server) acquire(ctx context.Context, holder *holder) bool {
	timeout := time.NewTimer(s.patience())
	defer timeout.Stop()
	for {
		s.mu.Lock()
		if holder.started {
			s.mu.Unlock()
			return true
		}
		if s.closed {
			s.mu.Unlock()
			return false
		}
		// Limits may be lowered while slots are taken: then there is none until enough are free.
		if len(s.slots) < int(s.limits()[limits.PythonProcesses]) {
			holder.slot, holder.started = s.free(), true
			s.slots[holder.slot] = holder
			s.mu.Unlock()
			return true
		}
		victim, freed := s.longest(), s.freed
		s.mu.Unlock()
		if victim != nil {
			s.end(victim)
			continue
		}
		select {
		case <-freed:
		case <-timeout.C:
			return false
		case <-ctx.Done():
			return false
		}
	}
}

// patience returns slotTime, or what a call may take where that is less.
func (s *Server) patience() time.Duration { return min(slotTime, s.limits().Time(limits.ToolTime)) }

// free returns the smallest slot that nobody has. The caller has the lock.
func (s *Server) free() (slot int) {
	for s.slots[slot] != nil {
		slot++
	}
	return slot
}

// longest returns the holder without sessions that has waited longest and is not being ended; nil =
// there is none. The caller has the lock.
func (s *Server) longest() (found *holder) {
	for _, h := range s.slots {
		if h.sessions == 0 && !h.ending && (found == nil || h.since.Before(found.since)) {
			found = h
		}
	}
	return found
}

// newContainer returns the name by which clients know an interpreter.
func newContainer() string {
	var random [16]byte
	_, _ = rand.Read(random[:]) // it does not fail
	return "cntr_" + hex.EncodeToString(random[:])
}

// full is the result when there was no slot.
func (s *Server) full() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return "[ERROR] The server is ending."
	}
	return fmt.Sprintf("[ERROR] All %d Python interpreters are in use. Try again later.", s.limits()[limits.PythonProcesses])
}
