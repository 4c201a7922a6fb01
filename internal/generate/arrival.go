package generate

import (
	"context"
	"slices"
	"time"

	"ossian/internal/engine"
)

// An arrival is what one of several streams gave.
type arrival struct {
	index  int
	tokens []engine.Token
	err    error
	ran    *ran // of no stream: what a call of a tool gave
	again  bool // of no stream: a step that had to wait can be submitted
}

// pump reads several streams at once, each by a goroutine of its own: that of the first
// choice of a prompt alone until what it knows of the prompt is known.
func (j *Job) pump(ctx context.Context) {
	j.many = make(chan arrival)
	for i := range j.streams {
		j.listen(ctx, i)
	}
}

// listen reads the stream of a choice, if it has one.
func (j *Job) listen(ctx context.Context, i int) {
	stream := j.streams[i]
	if stream == nil {
		return
	}
	j.pumps.Go(func() {
		if known := j.prompts[i/j.perPrompt].known; i%j.perPrompt > 0 && known != nil {
			select {
			case <-known:
			case <-ctx.Done():
				return
			}
		}
		// Recv's slice is its own until it is called again: another goroutine reads a copy.
		for {
			tokens, err := stream.Recv(ctx)
			select {
			case j.many <- arrival{index: i, tokens: slices.Clone(tokens), err: err}:
			case <-ctx.Done():
				return
			}
			if err != nil {
				return
			}
		}
	})
}

// next waits for tokens of any stream, or the end of one. An error of ctx is the
// wait's own.
func (j *Job) next(ctx context.Context) (arrival, error) {
	if j.many == nil {
		tokens, err := j.streams[0].Recv(ctx)
		return arrival{tokens: tokens}, err
	}
	var cut <-chan struct{} // of the engine, which a tool that runs would not notice
	if j.loop != nil {
		cut = j.model.Engine.Ended()
	}
	select {
	case got := <-j.many:
		return got, got.err
	case <-cut:
		return arrival{}, engine.ErrStopped
	case <-ctx.Done():
		return arrival{}, ctx.Err()
	}
}

// A wait is a context that ends when nothing was sent for too long. It is made anew
// only when it has ended, not for every token.
type wait struct {
	ctx    context.Context
	cancel context.CancelFunc
}

func (w *wait) until(parent context.Context, at time.Time) context.Context {
	if w.ctx == nil || w.ctx.Err() != nil {
		w.stop()
		w.ctx, w.cancel = context.WithDeadline(parent, at)
	}
	return w.ctx
}

func (w *wait) stop() {
	if w.cancel != nil {
		w.cancel()
	}
}
