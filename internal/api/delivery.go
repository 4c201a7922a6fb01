package api

import (
	"context"
	"math"
	"net/http"
	"time"

	"ossian/internal/generate"
	"ossian/internal/limits"
	"ossian/internal/wire"
)

// A Delivery is a job and where its answers go. While it runs, nothing else of the
// request has to be in memory.
type Delivery struct {
	job  *generate.Job
	out  generate.Output
	w    *Reply        // nil = nobody waits for it
	idle time.Duration // without anything sent, until out.Idle
}

// probeInterval is how often the connection is looked at while a reply is made:
// nothing is sent that would show whether anyone is there.
const probeInterval = time.Second

// Choices delivers the choices of a job as the request asks for them: chunk by chunk, or as one
// reply.
func (f *Front) Choices(reply *Reply, job *generate.Job, codec Codec, asked *wire.Sampling, prompts int) *Delivery {
	if !asked.Stream {
		out := &collection{job: job, w: reply, codec: codec, choices: make([]Choice, len(job.Answers())), prompts: prompts, best: int(asked.Choices())}
		return &Delivery{job, out, reply, probeInterval}
	}
	out := f.stream(reply, job, codec)
	out.running = asked.StreamOptions != nil && asked.StreamOptions.ContinuousUsage
	return &Delivery{job, out, reply, f.pingInterval()}
}

// Events delivers a job of one choice event by event. The encoder keeps what it has
// written, which counts as the reply's memory.
func (f *Front) Events(w *Reply, job *generate.Job, enc Encoder) *Delivery {
	out := f.stream(w, job, enc)
	out.books = true
	return &Delivery{job, out, w, f.pingInterval()}
}

// Record is Events for a sink instead of a client.
func (f *Front) Record(sink func(events []byte) error, job *generate.Job, enc Encoder) *Delivery {
	out := f.stream(nil, job, enc)
	out.books, out.sink = true, sink
	return &Delivery{job, out, nil, f.pingInterval()}
}

// Whole is Events for a client that wants none of them, but the body in the end.
func (f *Front) Whole(w *Reply, job *generate.Job, enc Encoder, body func() []byte) *Delivery {
	out := f.stream(w, job, enc)
	out.books, out.sink, out.interval = true, func([]byte) error { return nil }, math.MaxInt
	return &Delivery{job, &whole{out, body}, w, probeInterval}
}

func (f *Front) stream(w *Reply, job source, enc Encoder) *stream {
	return &stream{front: f, job: job, w: w, enc: enc, interval: f.StreamInterval, choices: make([]pending, len(job.Answers()))}
}

func (f *Front) pingInterval() time.Duration { return f.Limits().Time(limits.PingInterval) }

// A whole reply is sent when it is complete.
type whole struct {
	*stream
	body func() []byte
}

// Idle implements generate.Output.
func (o *whole) Idle() error { return o.w.probe() }

// Finish implements generate.Output.
func (o *whole) Finish() error {
	if err := o.stream.Finish(); err != nil {
		return err
	}
	o.w.JSON(http.StatusOK, o.body())
	return nil
}

// Run runs the job, sends its answers and closes it. Where a stream can tell its client of
// an error, that is done, and nil is returned.
func (d *Delivery) Run(ctx context.Context) error {
	defer d.job.Close()
	err := d.job.Run(ctx, d.out, d.idle)
	if d.w != nil {
		d.w.Tokens += d.job.Tokens()
	}
	if s, ok := d.out.(*stream); ok && err != nil {
		return s.fail(err)
	}
	return err
}

// Close closes the job of a delivery that is not run.
func (d *Delivery) Close() { d.job.Close() }
