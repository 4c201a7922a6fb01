// Package kvevents tells others which prefixes the KV cache holds, as it changes: routers keep an
// index of it and send requests to where most of their prompt is cached. Its users hand an
// Observer to the engine and a configuration to Open; they need not know ZeroMQ, msgpack, hashes
// of blocks, or what becomes of subscribers that do not read (operations.md 4).
//
//	kv → Observer (the loop: chained hashes, one message for what a step changed)
//	   → journal (the last messages, numbered) → one goroutine for each subscriber, replays
//
// The loop waits for nobody: it appends to the journal, and whoever reads it too slowly misses the
// oldest messages, which shows in the numbers.
package kvevents

import (
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// A Publisher sends events to those who have subscribed, and again to those who missed some. Its
// methods may be called by any goroutine.
type Publisher struct {
	cfg     Config
	log     *slog.Logger
	clock   func() time.Time
	journal *journal
	closers []func() error // of listeners

	mu      sync.Mutex // guards what follows
	current *Observer  // the only one whose events are published
	conns   map[net.Conn]bool
	closed  bool
	done    chan struct{} // closed by Close

	dropped     atomic.Uint64
	subscribers atomic.Int64
	working     sync.WaitGroup
}

// Stats are the counters of a publisher.
type Stats struct {
	Published   uint64 // messages
	Dropped     uint64 // messages that a subscriber did not get because it read too slowly, over all
	Subscribers int    // that listen to the topic
}

// Open listens where cfg says, or begins to connect. Its error names the endpoint. cfg.On must
// hold.
func Open(cfg Config, log *slog.Logger) (*Publisher, error) {
	publisher := &Publisher{cfg: cfg, log: log, clock: time.Now, journal: newJournal(cfg.mostMessages(), journalBytes), conns: map[net.Conn]bool{}, done: make(chan struct{})}
	err := publisher.open(cfg.Endpoint, publisher.serveSubscriber)
	if err == nil && cfg.ReplayEndpoint != "" {
		err = publisher.listen(cfg.ReplayEndpoint, publisher.serveReplay)
	}
	if err != nil {
		publisher.Close()
		return nil, fmt.Errorf("--kv-events-config: %w", err)
	}
	return publisher, nil
}

// journalBytes bounds the messages that are kept, whatever their number.
const journalBytes = 64 << 20

// Observer returns what a loop of the engine tells of its blocks. Whoever has an earlier one is
// not heard any more: what it had cached is gone, and subscribers are told so.
func (p *Publisher) Observer() *Observer {
	observer := newObserver(p)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.current != nil {
		p.append(appendPayload(nil, p.cfg.Format, p.clock(), []event{{kind: allCleared}}))
	}
	p.current = observer
	return observer
}

// Rest says that the loop of the engine has ended, and that there is none until Observer is called
// again: what was cached is gone, and subscribers are told so.
func (p *Publisher) Rest() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.current != nil {
		p.append(appendPayload(nil, p.cfg.Format, p.clock(), []event{{kind: allCleared}}))
	}
	p.current = nil
}

// publish appends what an observer was told, if it is the current one.
func (p *Publisher) publish(from *Observer, events []event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.current == from {
		p.append(appendPayload(nil, p.cfg.Format, p.clock(), events))
	}
}

func (p *Publisher) append(payload []byte) { p.journal.append(payload) }

// Stats returns what was counted.
func (p *Publisher) Stats() Stats {
	return Stats{Published: p.journal.next(), Dropped: p.dropped.Load(), Subscribers: int(p.subscribers.Load())}
}

// Close ends connections and listeners, and waits until nobody works on them. What a subscriber
// has not got by then is lost.
func (p *Publisher) Close() {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return
	}
	p.closed = true
	close(p.done)
	for _, end := range p.closers {
		_ = end() // nobody comes any more, closed or not
	}
	for conn := range p.conns {
		_ = conn.Close()
	}
	p.mu.Unlock()
	p.journal.close()
	p.working.Wait()
}
