package generate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"sync"
	"time"

	"ossian/internal/board"
	"ossian/internal/engine"
	"ossian/internal/grammar"
	"ossian/internal/host"
	"ossian/internal/limits"
	"ossian/internal/metrics"
	"ossian/internal/sched"
	"ossian/internal/wire"
)

// A Job is one request while it generates: a stream of the engine and an answer for
// each choice. One goroutine at a time has it, that of its connection or, behind Start,
// of a response in the background:
//
//	Start → Run → Close, or Start → Close
type Job struct {
	service   *Service
	model     *host.Model
	received  time.Time
	streams   []*engine.Stream // [choice]; none if the engine has nothing to do
	answers   []*Answer        // [choice]
	prompts   []prompt         // choice i belongs to prompt i / perPrompt
	perPrompt int              // choices
	asked     int              // max_tokens, 0 = not given
	mute      bool             // max_tokens is 0: there is nothing but the echo
	out       Output
	observer  Observer       // nil = nobody is told
	loop      *loop          // of built-in tools; nil = none
	shown     *board.Request // to those who look which requests there are; nil = not yet, or nothing is generated

	many  chan arrival // of several streams, and of tools
	open  int          // choices that go on
	pumps sync.WaitGroup

	size     int64       // bytes that the reply takes until it is sent
	booked   int64       // of these, those that Config.Replies counts
	lastSent time.Time   // when the client last got something, or was looked for
	lastGot  []time.Time // [choice] when its latest tokens came
	err      error       // why Run ended early
}

// An Output says what becomes of answers: events of a stream, or one reply. It may
// return ErrGone where nobody reads it any more. Its methods are called by the job's
// goroutine.
type Output interface {
	// Open is called before the tokens that arrived for choice i are read, Token after
	// each of them, and Flush behind the last. The token of which an answer is done is
	// its last.
	Open(i int)
	Token(i int)
	Flush(i int) error
	// Idle is called when nothing has been sent for a while (Run).
	Idle() error
	// Finish is called when all answers are done.
	Finish() error
}

// Start gives a generation to the engine. Whoever gets the job has to close it.
func (s *Service) Start(ctx context.Context, gen *Generation) (*Job, error) {
	spec := gen.choiceSpec()
	req, err := s.request(gen, spec)
	if err != nil {
		return nil, err
	}
	job := &Job{service: s, model: gen.Model, received: gen.Received, perPrompt: gen.perPrompt(), lastSent: time.Now()}
	if gen.MaxTokens != nil {
		job.asked = int(min(*gen.MaxTokens, math.MaxInt32))
		job.mute = job.asked == 0
		req.MaxTokens = max(job.asked, 1) // the engine cannot do without output
	}
	if err := job.addPrompts(gen, spec, s.cfg.Limits()[limits.PromptLogprobs]); err != nil {
		return nil, err
	}
	if err := job.fits(gen.Prompts); err != nil {
		return nil, err
	}
	for range len(job.prompts) * job.perPrompt {
		job.answers = append(job.answers, gen.answer(spec))
	}
	if gen.Builtin != nil && !job.mute {
		job.startLoop(gen, req)
	}
	if job.observer = gen.Observer; gen.Observer != nil {
		gen.Observer.Started(gen)
	}
	err = job.reserve(0)
	if err == nil && (!job.mute || spec.scored() >= 0) {
		err = job.submit(ctx, req, gen)
	}
	if err != nil {
		job.Close()
		return nil, err
	}
	return job, nil
}

// fits refuses what the queue could not hold if nothing else ran: to try again would not
// help.
func (j *Job) fits(prompts [][]int32) error {
	choices := len(prompts) * j.perPrompt
	refuse := func(most int, what string, id limits.ID) error {
		return &wire.Error{Type: wire.TypeInvalidRequest, Param: "prompt", Code: wire.CodeInvalidValue, Limit: id.String(),
			Message: fmt.Sprintf("%d choices (%d prompts, %d of each) at once are more than %d %s: send fewer at a time; the server's --limit %s=N allows more", choices, len(prompts), j.perPrompt, most, what, id)}
	}
	all, together := j.model.Engine.Places()
	if choices > all {
		return refuse(all, "that can run or wait", limits.Queue)
	}
	waiting := 0 // tokens of the choices that do not run at once
	for i := together; i < choices; i++ {
		waiting += len(prompts[i/j.perPrompt])
	}
	if most := j.model.Engine.QueueTokens(); most > 0 && waiting > most {
		return refuse(most, "tokens of their prompts can wait", limits.QueueTokens)
	}
	return nil
}

// submit gives the choices to the engine.
func (j *Job) submit(ctx context.Context, req engine.Request, gen *Generation) error {
	seed := req.Params.Seed
	given := gen.Seed != nil || j.service.cfg.Seed != nil // not of chance
	seeds := func(i int) uint64 {
		if given {
			i %= j.perPrompt // a prompt has the answers that it has alone
		}
		return seed + uint64(i)
	}
	j.lastGot, j.streams = make([]time.Time, len(j.answers)), make([]*engine.Stream, 0, len(j.answers))
	j.show(gen)
	for i := range j.answers {
		choice := req
		choice.Shown = &j.shown.Sequences[i]
		choice.Tokens = gen.Prompts[i/j.perPrompt]
		choice.Params.Seed = seeds(i)
		if j.loop != nil {
			j.loop.seed = seeds
			if hold, err := j.firstStep(i, &choice); err != nil {
				return err
			} else if hold {
				j.streams = append(j.streams, nil)
				continue
			}
		}
		if i%j.perPrompt > 0 { // what the prompt's first choice finds is true of all
			choice.Params.PromptLogprobs, choice.Params.TopPromptLogprobs = false, 0
		}
		stream, err := j.model.Engine.Submit(ctx, choice)
		if err != nil {
			j.service.Rejected(j.model, err)
			return err
		}
		j.streams = append(j.streams, stream)
	}
	return nil
}

// Close ends what still runs. It is called once, however the request ends.
func (j *Job) Close() {
	if j.loop != nil {
		j.loop.cancel()
	}
	for _, stream := range j.streams {
		if stream != nil {
			stream.Stop()
		}
	}
	j.pumps.Wait()
	j.tellEnded()
	j.endLoop()
	j.observe()
	j.hide()
	_ = j.reserve(-j.size) // only more can fail
}

// Run reads answers until all have ended and tells out of them; after interval without
// anything sent it calls out.Idle.
func (j *Job) Run(ctx context.Context, out Output, interval time.Duration) error {
	j.out = out
	if j.streams == nil {
		return j.echo()
	}
	return j.read(ctx, interval)
}

// read reads the streams until all have ended. Streams whose answers are done go on
// until their step is over: only then is their usage known.
func (j *Job) read(ctx context.Context, interval time.Duration) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // the pumps wait for nothing else
	j.open = len(j.streams)
	if j.open > 1 || j.loop != nil {
		j.pump(ctx)
	}
	if err := j.beginLoop(ctx); err != nil {
		j.err = err
		return err
	}
	var w wait
	defer w.stop()
	for j.open > 0 {
		got, err := j.next(w.until(ctx, j.lastSent.Add(interval)))
		switch {
		case err == nil && j.loop != nil && (got.ran != nil || got.again):
			err = j.goOn(&got)
		case err == nil:
			err = j.take(got.index, got.tokens)
		case ctx.Err() != nil:
			err = ctx.Err()
		case errors.Is(err, context.DeadlineExceeded): // of the wait
			err = nil
		case j.loop != nil && errors.Is(err, engine.ErrStopped): // of the engine as a whole
		default:
			err = j.ended(got.index, err)
		}
		if now := time.Now(); err == nil && now.Sub(j.lastSent) >= interval { // also while tokens come that are not shown
			j.lastSent = now
			err = j.out.Idle()
		}
		if err != nil {
			j.err = err
			return err
		}
	}
	return j.out.Finish()
}

// echo answers without the engine: max_tokens is 0, and nothing is asked about the
// prompt.
func (j *Job) echo() error {
	for i, answer := range j.answers {
		j.out.Open(i)
		j.begin(i)
		answer.finish(wire.FinishLength, wire.StopReason{})
		j.out.Token(i)
		err := j.out.Flush(i)
		if err == nil {
			err = j.reserve(answer.size)
		}
		if err != nil {
			return err
		}
	}
	return j.out.Finish()
}

// take reads tokens into an answer. Once it is done its stream is stopped: the engine may
// have gone further.
func (j *Job) take(choice int, tokens []engine.Token) error {
	answer := j.answers[choice]
	if answer.Done || answer.paused {
		return nil
	}
	j.arrived(choice, len(tokens))
	j.out.Open(choice)
	j.begin(choice)
	// The answer may be done before the tokens are all read: what is left is not its own.
	var err error
	for k := 0; k < len(tokens) && err == nil && !answer.Done && !answer.paused; k++ {
		before := answer.size
		if j.mute {
			answer.finish(wire.FinishLength, wire.StopReason{})
		} else {
			answer.Push(&tokens[k])
		}
		// The last text goes with the reason that there is no more, as the limit is no surprise.
		if j.loop == nil && j.streams[choice].Ends(answer.Tokens) == sched.FinishLength {
			answer.Close(sched.FinishLength)
		}
		j.out.Token(choice)
		err = j.reserve(answer.size - before)
	}
	if answer.Done || answer.paused {
		j.streams[choice].Stop()
	}
	if lost := j.out.Flush(choice); err == nil {
		err = lost
	}
	return err
}

// ended takes the end of a stream, of an answer or of a step of it.
func (j *Job) ended(choice int, end error) error {
	answer := j.answers[choice]
	var err error
	if !answer.Done && !answer.paused {
		err = j.broken(choice, end)
	}
	if j.loop != nil && err == nil {
		if j.stepEnded(choice); answer.paused {
			return j.act(choice)
		}
	}
	j.open--
	return err
}

// broken takes the end of a stream whose answer goes on: the answer's own, or why there is no
// more of it.
func (j *Job) broken(choice int, err error) error {
	answer := j.answers[choice]
	finish, _, times := j.streams[choice].End()
	ofEngine := errors.Is(err, engine.ErrInterrupted) || errors.Is(err, engine.ErrStopped)
	// Errors first: the request's fault, the engine's, then deadlines, which are no errors of
	// the stream.
	switch {
	case errors.Is(err, engine.ErrConstraint):
		return err
	case errors.Is(err, grammar.ErrAmbiguous):
		return wire.Invalid("", "the grammar, schema or pattern of the request can be read in too many ways at once: make it less ambiguous")
	case err != io.EOF && finish == sched.FinishError && !ofEngine:
		return wire.Invalid("", "the constraints of the request leave no token to choose: its schema or grammar, bad_words, allowed_token_ids and min_tokens exclude each other")
	case err != io.EOF:
		return err
	case finish == sched.FinishDeadline && times.Scheduled.IsZero():
		j.service.reject(j.model, metrics.RejectTimeout, limits.QueueWait)
		return ErrWaited
	case finish == sched.FinishDeadline:
		j.service.cfg.Metrics.Refused(limits.RequestTime.String())
		return ErrTooLong
	case finish == sched.FinishAbort: // the request's context has ended: the engine may know before the job does
		return ErrGone
	}
	j.out.Open(choice)
	answer.Close(finish)
	j.out.Token(choice)
	return j.out.Flush(choice)
}
