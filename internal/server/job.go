package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"slices"
	"sync"
	"time"

	"ossian/internal/chat"
	"ossian/internal/engine"
	"ossian/internal/grammar"
	"ossian/internal/host"
	"ossian/internal/limits"
	"ossian/internal/metrics"
	"ossian/internal/sched"
	"ossian/internal/wire"
)

// A job is one request while it generates: a stream of the engine and an answer for
// each choice. It belongs to the goroutine of its connection.
type job struct {
	s       *Server
	m       *host.Model
	c       *caller
	w       *reply
	streams []*engine.Stream
	answers []*answer
	prompts []prompt // choice i belongs to prompt i / n
	n       int
	asked   int  // max_tokens, 0 = not given
	mute    bool // max_tokens is 0: there is nothing but the echo
	out     output
	stream  *stream // the same, if the request streams

	many     chan arrival // of several streams
	pumps    sync.WaitGroup
	size     int64 // bytes that the reply takes until it is sent
	booked   int64 // of these, those that Server.replies counts
	silence  time.Duration
	lastSent time.Time // when the client last got something, or was looked for
	lastGot  []time.Time
	err      error
}

// An output says what becomes of answers: events of a stream, or one reply.
type output interface {
	// prepare is called before the tokens that arrived for choice i are read, token
	// after each of them, and sent behind the last. The token of which an answer is
	// done is its last.
	prepare(i int)
	token(i int)
	sent(i int) error
	// silent is called when nothing has been sent for as long as job.silence says.
	silent() error
	// finish is called when all answers are done.
	finish() error
}

// A generation is what both APIs ask for, in the same words.
type generation struct {
	*wire.Sampling
	prompts  [][]int32
	most     *int64   // tokens of output; nil = as many as fit
	logprobs *int64   // alternatives per token; nil = none asked for
	best     int      // choices to generate for each prompt, of which n are kept; 0 = n
	echo     []string // of each prompt; nil = none
	parser   func() chat.Parser
	output   func(j *job) output     // nil = what the API does with Stream and the codec
	held     func() sched.Constraint // to the forms that are asked for; nil = free
}

// A codec writes the replies of one API.
type codec interface {
	encoder
	reply(dst []byte, answers []*answer, choices []choice, usage wire.Usage) []byte
}

// newJob gives a request to the engine.
func (s *Server) newJob(w *reply, r *http.Request, c *caller, m *host.Model, p *plan, g *generation, enc codec) (*job, error) {
	req, err := s.request(m, g.Sampling, c)
	if err != nil {
		return nil, err
	}
	n := int(g.Choices())
	req.Params.Logprobs, req.Params.TopLogprobs = p.logprobs || g.best > n, p.top
	req.Params.PromptLogprobs, req.Params.TopPromptLogprobs = p.scored() >= 0, max(p.scored(), 0)
	j := &job{s: s, m: m, c: c, w: w, n: max(n, g.best), silence: probeInterval, lastSent: time.Now()}
	if g.most != nil {
		j.asked = int(min(*g.most, math.MaxInt32))
		j.mute = j.asked == 0
		req.MaxTokens = max(j.asked, 1) // the engine cannot do without output
	}
	if err := j.addPrompts(p, g, s.lim()[limits.PromptLogprobs]); err != nil {
		return nil, err
	}
	if err := j.fits(g.prompts); err != nil {
		return nil, err
	}
	for range len(j.prompts) * j.n {
		j.answers = append(j.answers, &answer{plan: p, parser: g.parser(), stop: newStopper(g.Stop)})
	}
	switch {
	case g.output != nil:
		j.out = g.output(j)
	case g.Stream:
		j.stream = &stream{j: j, w: w, enc: enc, interval: s.cfg.StreamInterval, choices: make([]pending, len(j.answers)),
			running: g.StreamOptions != nil && g.StreamOptions.ContinuousUsage}
		j.out, j.silence = j.stream, s.lim().Time(limits.PingInterval)
	default:
		j.out = newCollection(j, n, enc)
	}
	err = j.keep(0)
	if err == nil && (!j.mute || p.scored() >= 0) {
		err = j.submit(r.Context(), req, g.prompts, g.Seed != nil || s.cfg.Seed != nil, merge(g.held, badWords(m, g.BadWords)))
	}
	if err != nil {
		j.close()
		return nil, err
	}
	return j, nil
}

// drive runs a job and sends its answers.
func (j *job) drive(ctx context.Context) (err error) {
	defer j.close()
	if j.streams == nil {
		err = j.echo()
	} else {
		err = j.run(ctx)
	}
	for _, a := range j.answers {
		j.w.tokens += a.tokens
	}
	if err != nil && j.stream != nil {
		return j.stream.fail(err)
	}
	return err
}

// fits refuses what the queue could not hold if nothing else ran: to try again would not
// help.
func (j *job) fits(prompts [][]int32) error {
	n := len(prompts) * j.n
	refuse := func(most int, what string, id limits.ID) error {
		return &wire.Error{Type: wire.TypeInvalidRequest, Param: "prompt", Code: wire.CodeInvalidValue, Limit: id.String(),
			Message: fmt.Sprintf("%d choices (%d prompts, %d of each) at once are more than %d %s: send fewer at a time; the server's --limit %s=N allows more", n, len(prompts), j.n, most, what, id)}
	}
	all, together := j.m.Engine.Places()
	if n > all {
		return refuse(all, "that can run or wait", limits.Queue)
	}
	wait := 0
	for i := together; i < n; i++ {
		wait += len(prompts[i/j.n])
	}
	if most := j.m.Engine.QueueTokens(); most > 0 && wait > most {
		return refuse(most, "tokens of their prompts can wait", limits.QueueTokens)
	}
	return nil
}

// submit gives the choices to the engine; seeded = the seed is not of chance.
func (j *job) submit(ctx context.Context, r engine.Request, prompts [][]int32, seeded bool, constraint func() sched.Constraint) error {
	seed := r.Params.Seed
	for i := range j.answers {
		q := r
		q.Tokens = prompts[i/j.n]
		q.Params.Seed = seed + uint64(i)
		if seeded {
			q.Params.Seed = seed + uint64(i%j.n) // a prompt has the answers that it has alone
		}
		if i%j.n > 0 { // what the prompt's first choice finds is true of all
			q.Params.PromptLogprobs, q.Params.TopPromptLogprobs = false, 0
		}
		q.Constraint = constraint
		st, err := j.m.Engine.Submit(ctx, q)
		if err != nil {
			j.s.rejected(j.m, err)
			return err
		}
		j.streams = append(j.streams, st)
	}
	j.lastGot = make([]time.Time, len(j.answers))
	return nil
}

// close ends what still runs. It is called however the request ends.
func (j *job) close() {
	for _, st := range j.streams {
		st.Stop()
	}
	j.pumps.Wait()
	j.observe()
	_ = j.keep(-j.size) // only more can fail
}

// freeReply is how much of a reply has room in what is planned for its connection: most
// replies need no other.
const freeReply = 16 << 10

// keep accounts for n more bytes of the reply, fewer if n is negative, that stay in memory
// until it is sent: text unless it streams, and log probabilities (ADM-2). Where there is
// no room for them the request ends.
func (j *job) keep(n int64) error {
	j.size += n
	more := max(j.size-freeReply, 0) - j.booked
	if more == 0 {
		return nil
	}
	j.booked += more
	total := j.s.replies.Add(more)
	j.s.metrics.Replies(more)
	lim := j.s.lim()
	switch one := limits.ReplyBody; {
	case more < 0:
	case j.size > min(lim[one], lim[limits.Replies]):
		return &wire.Error{Type: wire.TypeInvalidRequest, Code: wire.CodeInvalidValue, Limit: one.String(), Message: fmt.Sprintf(
			"the reply takes more than %d bytes: stream it, or ask for fewer tokens, choices or log probabilities; the server's --limit %s=N allows more", min(lim[one], lim[limits.Replies]), one)}
	case total > lim[limits.Replies]:
		// Gone at once: others that grow at this moment are to find the room.
		j.s.replies.Add(-j.booked)
		j.s.metrics.Replies(-j.booked)
		j.booked = 0
		return &wire.Error{Message: "too many long replies are put together at once; try again, or stream", Type: wire.TypeOverloaded, Code: wire.CodeOverloaded, Limit: limits.Replies.String()}
	}
	return nil
}

// run reads the streams until all have ended. Streams whose answers are done go on
// until their step is over: only then is their usage known.
func (j *job) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // the pumps wait for nothing else
	if len(j.streams) > 1 {
		j.pump(ctx)
	}
	var w wait
	defer w.end()
	for open := len(j.streams); open > 0; {
		i, tokens, err := j.next(w.until(ctx, j.lastSent.Add(j.silence)))
		switch {
		case err == nil:
			err = j.take(i, tokens)
		case ctx.Err() != nil:
			err = ctx.Err()
		case errors.Is(err, context.DeadlineExceeded):
			err = nil
		default:
			open--
			err = j.over(i, err)
		}
		if now := time.Now(); err == nil && now.Sub(j.lastSent) >= j.silence { // also while tokens come that are not shown
			j.lastSent = now
			err = j.out.silent()
		}
		if err != nil {
			j.err = err
			return err
		}
	}
	return j.out.finish()
}

// echo answers without the engine: max_tokens is 0, and nothing is asked about the
// prompt.
func (j *job) echo() error {
	for i, a := range j.answers {
		j.out.prepare(i)
		j.begin(i)
		a.stopAs(wire.FinishLength, wire.StopReason{})
		j.out.token(i)
		err := j.out.sent(i)
		if err == nil {
			err = j.keep(a.size)
		}
		if err != nil {
			return err
		}
	}
	return j.out.finish()
}

// take reads tokens into an answer.
func (j *job) take(i int, tokens []engine.Token) error {
	a := j.answers[i]
	if a.done {
		return nil
	}
	j.arrived(i, len(tokens))
	j.out.prepare(i)
	j.begin(i)
	var err error
	for k := 0; k < len(tokens) && err == nil && !a.done; k++ {
		before := a.size
		if j.mute {
			a.stopAs(wire.FinishLength, wire.StopReason{})
		} else {
			a.push(&tokens[k])
		}
		j.out.token(i)
		err = j.keep(a.size - before)
	}
	if a.done {
		j.streams[i].Stop()
	}
	if lost := j.out.sent(i); err == nil {
		err = lost
	}
	return err
}

// over takes the end of a stream.
func (j *job) over(i int, err error) error {
	a := j.answers[i]
	if a.done {
		return nil
	}
	finish, _, times := j.streams[i].End()
	switch {
	case errors.Is(err, engine.ErrConstraint):
		return err
	case errors.Is(err, grammar.ErrAmbiguous):
		return wire.Invalid("", "the grammar, schema or pattern of the request can be read in too many ways at once: make it less ambiguous")
	case err != io.EOF && finish == sched.FinishError && !errors.Is(err, engine.ErrInterrupted) && !errors.Is(err, engine.ErrStopped):
		return wire.Invalid("", "the constraints of the request leave no token to choose: its schema or grammar, bad_words, allowed_token_ids and min_tokens exclude each other")
	case err != io.EOF:
		return err
	case finish == sched.FinishDeadline && times.Scheduled.IsZero():
		j.s.reject(j.m, metrics.RejectTimeout, limits.QueueWait)
		return errWaited
	case finish == sched.FinishDeadline:
		j.s.metrics.Refused(limits.RequestTime.String())
		return errTooLong
	case finish == sched.FinishAbort:
		return engine.ErrStopped
	}
	j.out.prepare(i)
	a.close(finish)
	j.out.token(i)
	return j.out.sent(i)
}

// arrived observes the times of tokens.
func (j *job) arrived(i, n int) {
	now := time.Now()
	last := j.lastGot[i]
	j.lastGot[i] = now
	if j.m.Metrics == nil {
		return
	}
	if last.IsZero() {
		j.m.Metrics.FirstToken(now.Sub(j.c.received))
		return
	}
	j.m.Metrics.InterToken(now.Sub(last) / time.Duration(n))
}

// usage adds up what the answers took so far. What was cached is known of streams
// that have ended.
func (j *job) usage() wire.Usage {
	var prompt, cached, completion, reasoned int
	for i := range j.prompts {
		prompt += j.prompts[i].n
	}
	for i, a := range j.answers {
		if i%j.n == 0 && i < len(j.streams) {
			_, u, _ := j.streams[i].End()
			cached += u.Cached
		}
		completion += a.tokens
		reasoned += a.reasoned
	}
	return wire.NewUsage(prompt, cached, completion, reasoned)
}

// observe tells the metrics about each prompt.
func (j *job) observe() {
	if len(j.streams) < len(j.answers) || j.m.Metrics == nil { // refused in part, or nothing to generate
		return
	}
	for p := range j.prompts {
		r := metrics.Request{Received: j.c.received, N: j.n, MaxTokens: j.asked, Finish: metrics.FinishStop}
		for i := p * j.n; i < (p+1)*j.n; i++ {
			a := j.answers[i]
			_, u, t := j.streams[i].End()
			if i == p*j.n {
				r.Queued, r.Scheduled, r.First, r.Prompt, r.Cached = t.Queued, t.Scheduled, t.First, u.Prompt, u.Cached
			}
			r.Generated += a.tokens
			r.Reasoning += a.reasoned
			r.Largest = max(r.Largest, a.tokens)
			if j.lastGot[i].After(r.Last) {
				r.Last = j.lastGot[i]
			}
			switch {
			case !a.done && (j.err == nil || gone(j.err)):
				r.Finish = metrics.FinishAbort
			case !a.done:
				r.Finish = metrics.FinishError
			case a.finish == wire.FinishLength && r.Finish == metrics.FinishStop:
				r.Finish = metrics.FinishLength
			}
		}
		j.m.Metrics.Finished(&r)
	}
}

// An arrival is what one of several streams gave.
type arrival struct {
	index  int
	tokens []engine.Token
	err    error
}

// pump reads several streams at once, each by a goroutine of its own: that of the first
// choice of a prompt alone until what it knows of the prompt is known.
func (j *job) pump(ctx context.Context) {
	j.many = make(chan arrival)
	for i, st := range j.streams {
		j.pumps.Go(func() {
			if known := j.prompts[i/j.n].known; i%j.n > 0 && known != nil {
				select {
				case <-known:
				case <-ctx.Done():
					return
				}
			}
			for {
				tokens, err := st.Recv(ctx)
				select {
				case j.many <- arrival{i, slices.Clone(tokens), err}:
				case <-ctx.Done():
					return
				}
				if err != nil {
					return
				}
			}
		})
	}
}

// next waits for tokens of any stream, or the end of one. An error of ctx is the
// wait's own.
func (j *job) next(ctx context.Context) (int, []engine.Token, error) {
	if j.many == nil {
		tokens, err := j.streams[0].Recv(ctx)
		return 0, tokens, err
	}
	select {
	case got := <-j.many:
		return got.index, got.tokens, got.err
	case <-ctx.Done():
		return 0, nil, ctx.Err()
	}
}

// A wait is a context that ends when silence has lasted too long. It is made anew
// only when it has ended, not for every token.
type wait struct {
	ctx    context.Context
	cancel context.CancelFunc
}

func (w *wait) until(parent context.Context, at time.Time) context.Context {
	if w.ctx == nil || w.ctx.Err() != nil {
		w.end()
		w.ctx, w.cancel = context.WithDeadline(parent, at)
	}
	return w.ctx
}

func (w *wait) end() {
	if w.cancel != nil {
		w.cancel()
	}
}
