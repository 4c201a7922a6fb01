// Package trace tells an OpenTelemetry collector what became of requests: spans, and histograms of
// times and tokens. Its users begin spans and end them; they need not know identifiers, sampling,
// OTLP, or what becomes of spans while the collector does not answer (operations.md 9).
//
// Nobody waits for the collector: spans that find no room in the queue are dropped and counted.
// What requests say is in no span, and there is nothing that would put it there.
package trace

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

// A Tracer makes spans and sends those that are sampled. Any number of goroutines may use it.
type Tracer struct {
	cfg   Config
	queue chan *Span
	meter *meter

	exported, dropped atomic.Uint64 // spans

	sender Sender
	stop   chan struct{} // closed by Close
	ended  sync.WaitGroup
	once   sync.Once
}

// Stats are the counters of a tracer.
type Stats struct {
	Exported uint64 // spans that the collector took
	Dropped  uint64 // those that found no room in the queue, or that it did not take
}

const (
	queueSpans = 2048
	batchSpans = 512
	batchEvery = time.Second
)

// A Sender takes bodies to a collector (trace/otlp). The tracer's goroutine calls it.
type Sender interface {
	// Post sends a body to a path below the endpoint, and returns how many of its spans the
	// collector has rejected.
	Post(path string, body []byte) (rejected int, err error)
	// Last says that the process ends: nobody waits for long any more, for a Post that is under way
	// neither. Any goroutine may call it.
	Last()
}

// New returns a tracer that sends until it is closed.
func New(cfg Config, sender Sender) *Tracer {
	t := &Tracer{cfg: cfg, queue: make(chan *Span, queueSpans), meter: newMeter(time.Now()), stop: make(chan struct{}), sender: sender}
	t.ended.Go(t.run)
	return t
}

// Stats returns what was counted.
func (t *Tracer) Stats() Stats { return Stats{t.exported.Load(), t.dropped.Load()} }

// Close sends what is in the queue, which may take as long as a collector takes that answers, and
// a second otherwise.
func (t *Tracer) Close() {
	t.once.Do(func() {
		t.sender.Last()
		close(t.stop)
	})
	t.ended.Wait()
}

// Kind is which side of a request a span is, by OTLP's numbers.
type Kind int

// The kinds.
const (
	Internal Kind = 1
	Server   Kind = 2
)

// A Span is a stretch of time with a name. It belongs to one goroutine at a time; the methods of a
// nil one, which is not sampled, do nothing.
type Span struct {
	tracer     *Tracer
	context    Context
	parent     SpanID // zero = none
	name       string
	kind       Kind
	begin, end time.Time
	attributes []Attribute
	events     []spanEvent
	failed     bool
}

// An Attribute is a name with a value: string, int64, float64, bool, []string.
type Attribute struct {
	Key   string
	Value any
}

type spanEvent struct {
	name string
	at   time.Time
}

const (
	mostAttributes = 64
	mostEvents     = 64
)

// Start begins a span of a request that came with a parent, the zero Context = with none. It is nil
// if the sampler leaves it out.
func (t *Tracer) Start(name string, kind Kind, parent Context, begin time.Time) *Span {
	own := parent
	if parent.Trace == (TraceID{}) {
		own = Context{}
		fill(own.Trace[:])
	}
	if own.Sampled = t.cfg.Sampler.sample(parent, own.Trace); !own.Sampled {
		return nil
	}
	fill(own.Span[:])
	return &Span{tracer: t, context: own, parent: parent.Span, name: name, kind: kind, begin: begin}
}

// fill fills an identifier, which must not be all zeros.
func fill(id []byte) {
	for i := range id {
		id[i] = byte(rand.Uint32())
	}
	id[0] |= 1
}

// Child begins a span within another.
func (s *Span) Child(name string, kind Kind, begin time.Time) *Span {
	if s == nil {
		return nil
	}
	own := s.context
	fill(own.Span[:])
	return &Span{tracer: s.tracer, context: own, parent: s.context.Span, name: name, kind: kind, begin: begin}
}

// Context returns by what others know the span.
func (s *Span) Context() Context {
	if s == nil {
		return Context{}
	}
	return s.context
}

// Rename gives the span another name.
func (s *Span) Rename(name string) {
	if s != nil {
		s.name = name
	}
}

// Set adds an attribute.
func (s *Span) Set(key string, value any) {
	if s != nil && len(s.attributes) < mostAttributes {
		s.attributes = append(s.attributes, Attribute{key, value})
	}
}

// Event adds something that happened at a moment; the zero time did not come.
func (s *Span) Event(name string, at time.Time) {
	if s != nil && !at.IsZero() && len(s.events) < mostEvents {
		s.events = append(s.events, spanEvent{name, at})
	}
}

// Fail says that what the span is of failed by a fault of this side.
func (s *Span) Fail() {
	if s != nil {
		s.failed = true
	}
}

// End ends the span, once: it is sent, or dropped if too many wait.
func (s *Span) End(at time.Time) {
	if s == nil {
		return
	}
	s.end = at
	select {
	case s.tracer.queue <- s:
	default:
		s.tracer.dropped.Add(1)
	}
}

// run sends spans in batches, and histograms from time to time.
func (t *Tracer) run() {
	soon, later := time.NewTicker(batchEvery), time.NewTicker(t.cfg.MetricsEvery)
	defer soon.Stop()
	defer later.Stop()
	var batch []*Span
	for {
		select {
		case span := <-t.queue:
			if batch = append(batch, span); len(batch) >= batchSpans {
				batch = t.send(batch)
			}
		case <-soon.C:
			batch = t.send(batch)
		case <-later.C:
			t.sendMetrics()
		case <-t.stop:
			// The last of all: what is queued is sent in batches like any, and each is tried once.
			for len(t.queue) > 0 {
				batch = append(batch, <-t.queue)
			}
			for len(batch) > 0 {
				n := min(len(batch), batchSpans)
				t.send(batch[:n])
				batch = batch[n:]
			}
			t.sendMetrics()
			return
		}
	}
}

// send sends a batch, and returns its memory.
func (t *Tracer) send(batch []*Span) []*Span {
	if len(batch) == 0 {
		return batch
	}
	rejected, err := t.sender.Post("/v1/traces", encodeSpans(t.cfg.Resource, batch))
	if err != nil {
		rejected = len(batch)
	}
	rejected = min(rejected, len(batch))
	t.dropped.Add(uint64(rejected))
	t.exported.Add(uint64(len(batch) - rejected))
	clear(batch)
	return batch[:0]
}

func (t *Tracer) sendMetrics() {
	if body := t.meter.encode(t.cfg.Resource, time.Now()); body != nil {
		_, _ = t.sender.Post("/v1/metrics", body) // they are cumulative: the next ones say it again
	}
}
