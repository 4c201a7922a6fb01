package generate

import (
	"context"
	"errors"
	"time"

	"ossian/internal/chat"
	"ossian/internal/engine"
	"ossian/internal/limits"
	"ossian/internal/metrics"
	"ossian/internal/sched"
	"ossian/internal/tools"
	"ossian/internal/wire"
)

// The loop of answers with built-in tools (tools.md 6). A job's goroutine has the state of all
// its choices and never waits for one of them: tools run in goroutines of their own, and what
// they give arrives like tokens. So pings, other choices and the client's leave go on meanwhile.

const (
	maxMisused       = 3                      // calls in a row that make no sense
	maxUnknown       = 2                      // calls of tools that nobody offered
	answerRoom       = 256                    // tokens that results leave for an answer
	allDay           = 24 * time.Hour         // the wall of answers that nobody waits for
	lostAfter        = 900 * time.Millisecond // behind its context a session counts as lost: a second, less what else takes time
	submitPause      = 50 * time.Millisecond  // between tries to give the engine a step while its queue is full
	declinedText     = "The user declined this tool call."
	noMorePythonText = "Error: no more runs of Python are allowed in this answer. Answer with what is known."
	usedUpText       = "Error: no more tool calls are allowed in this answer. Answer with what is known."
)

// A loop is what the choices of a job with built-in tools have in common.
type loop struct {
	*Builtin
	gen      *Generation
	req      engine.Request // of the first step, without prompt, constraint and seed
	seed     func(choice int) uint64
	deadline time.Time // no call begins behind it
	ctx      context.Context
	cancel   context.CancelFunc
	release  func() // of the engine, which waits for the next step while it drains
}

// startLoop prepares the choices of a job. The engine has nothing to do yet where calls of the
// conversation run first.
func (j *Job) startLoop(gen *Generation, req engine.Request) {
	lim := j.service.cfg.Limits()
	wall := allDay
	if gen.Builtin.Waits {
		wall = lim.Time(limits.ToolWall)
	}
	j.loop = &loop{Builtin: gen.Builtin, gen: gen, req: req, deadline: time.Now().Add(wall)}
	if req.Deadline.Before(j.loop.deadline) {
		j.loop.deadline = req.Deadline
	}
	j.loop.ctx, j.loop.cancel = context.WithCancel(context.Background())
	j.loop.release = j.model.Engine.Hold()
	for i, answer := range j.answers {
		turn := &turn{box: gen.Builtin.Open(i), conv: *gen.Builtin.Conversation, prompt: gen.Prompts[i/j.perPrompt]}
		for k := range turn.box.Offers() {
			if turn.box.Offers()[k].Kind == tools.Browser {
				turn.cites = &citer{links: gen.Builtin.Links, items: gen.Items, find: turn.box.Cite}
			}
		}
		for k := range gen.Builtin.Pending {
			turn.pending, j.prompts[i/j.perPrompt].ids, j.prompts[i/j.perPrompt].known = true, nil, nil // the prompt is another
			turn.calls = append(turn.calls, pendingCall(&gen.Builtin.Pending[k]))
		}
		if most := gen.Builtin.MaxCalls; most != nil && *most <= 0 {
			turn.held = muteBuiltins
		}
		if lim[limits.ToolSteps] <= 1 {
			turn.held = muteAll
		}
		turn.in = turn.held
		answer.turn, answer.Tools, answer.paused = turn, turn.box, turn.pending
		answer.Steps = []Step{{}}
	}
}

func pendingCall(asked *Pending) *stepCall {
	return &stepCall{ToolCall: ToolCall{Recipient: asked.Recipient, Arguments: asked.Arguments, Approval: asked.ID, Declined: asked.Declined}, result: asked.Reason}
}

// act does what comes next for an answer whose step has ended with calls: it runs the next of them
// and those that need not wait for it, takes what they gave, begins the next step, or ends the
// answer.
func (j *Job) act(choice int) error {
	err := j.answerCalls(choice)
	if j.answers[choice].Done {
		j.open--
	}
	return err
}

func (j *Job) answerCalls(choice int) error {
	answer := j.answers[choice]
	turn := answer.turn
	j.out.Open(choice)
	j.begin(choice)
	turn.tell(answer)
	for call := turn.next(); call != nil && !answer.Done; call = turn.next() {
		switch {
		// The call ran already: its result is put in where its turn has come, so that results are
		// in the order of the calls.
		case call.gave != nil:
			turn.answer(answer, call, &call.gave.result)
			call.result = call.gave.text
		case call.started:
			j.runBeside(choice)
			return j.tell(choice)
		default:
			j.answerCall(choice, call)
		}
	}
	if err := j.tell(choice); err != nil || answer.Done {
		return err
	}
	return j.nextStep(choice)
}

// tell passes on the deltas of an answer.
func (j *Job) tell(choice int) error {
	answer := j.answers[choice]
	before := answer.size
	j.out.Token(choice)
	err := j.reserve(answer.size - before)
	if lost := j.out.Flush(choice); err == nil {
		err = lost
	}
	return err
}

// nextStep gives the engine the next step of an answer.
func (j *Job) nextStep(choice int) error {
	answer := j.answers[choice]
	turn := answer.turn
	if turn.function { // that call is the client's to answer
		j.out.Open(choice)
		answer.finish(wire.FinishStop, wire.StopReason{})
		return j.tell(choice)
	}
	steps, lim := len(answer.Steps), j.service.cfg.Limits()
	if int64(steps)+1 >= lim[limits.ToolSteps] || !time.Now().Before(j.loop.deadline) {
		turn.held = muteAll
	} else if turn.held == muteNone && j.usedUp(turn, 0) {
		turn.held = muteBuiltins
	}
	ids, err := j.extend(answer)
	if err != nil {
		return err
	}
	if len(ids) >= j.model.Engine.Capacity() {
		j.out.Open(choice)
		answer.finish(wire.FinishLength, wire.StopReason{})
		return j.tell(choice)
	}
	turn.note(answer)
	turn.prompt = ids
	conv := turn.conv
	conv.Continue, conv.MustCall, conv.NoCalls = false, false, turn.held == muteAll
	answer.step(j.model.Format.Parser(&conv))
	return j.submitStep(choice)
}

// submitStep submits a step, later where the engine's queue is full, or the engine begins anew.
func (j *Job) submitStep(choice int) error {
	answer := j.answers[choice]
	turn := answer.turn
	req, err := j.stepRequest(choice)
	if err != nil {
		return err
	}
	stream, err := j.model.Engine.Submit(j.loop.ctx, req)
	if busy := errors.Is(err, engine.ErrQueueFull) || errors.Is(err, engine.ErrQueueTokens) || errors.Is(err, engine.ErrRestarting); busy && time.Now().Before(j.loop.deadline) {
		// A step in the middle of an answer is not refused as a new request would be: it is tried
		// again until the answer's time is up.
		j.pumps.Go(func() {
			select {
			case <-time.After(submitPause):
			case <-j.loop.ctx.Done():
				return
			}
			select {
			case j.many <- arrival{index: choice, again: true}:
			case <-j.loop.ctx.Done():
			}
		})
		return nil
	}
	if err != nil {
		j.service.Rejected(j.model, err)
		return err
	}
	turn.submitted = true
	j.streams[choice] = stream
	j.listen(j.loop.ctx, choice)
	return nil
}

// stepRequest returns what a step asks of the engine: what the first did, less what earlier
// steps have used. Penalties and bad words count within a step.
func (j *Job) stepRequest(choice int) (engine.Request, error) {
	answer, lim := j.answers[choice], j.service.cfg.Limits()
	turn, now := answer.turn, time.Now()
	req := j.loop.req
	req.Tokens, req.Follows, req.Shown = turn.prompt, true, &j.shown.Sequences[choice]
	req.Params.Seed = stepSeed(j.loop.seed(choice), len(answer.Steps)-1)
	req.Params.PromptLogprobs, req.Params.TopPromptLogprobs = false, 0
	req.MinTokens = max(req.MinTokens-answer.Tokens, 0)
	if j.asked > 0 {
		req.MaxTokens = j.asked - answer.Tokens
	}
	req.StartBy = now.Add(lim.Time(limits.QueueWait))
	var err error
	req.Constraint, req.Allowed, err = j.stepConstraint(turn, len(answer.Steps) == 1)
	return req, err
}

// stepConstraint returns what a step is held to. What the request says of the first call holds
// for the first step; from then on calls are free, or must not be.
func (j *Job) stepConstraint(turn *turn, first bool) (func() sched.Constraint, []uint64, error) {
	gen := *j.loop.gen
	// The grammar made for the request holds for its first step alone; behind it, or where calls
	// are muted, another is made of the rules that are left.
	if !first || turn.held != muteNone {
		rules, conv := j.loop.Rules, turn.conv
		conv.Continue, conv.MustCall, rules.MustCall = first && conv.Continue, false, false
		// Reasoning of all steps together has one budget.
		if rules.Thinking != nil {
			left := max(*rules.Thinking-turn.thought, 0)
			rules.Thinking = &left
		}
		switch turn.held {
		case muteAll:
			rules.Tools, rules.NoCalls, conv.NoCalls = nil, true, true
		case muteBuiltins:
			rules.Builtins = []string{}
		}
		fresh, _, err := j.service.Constrain(j.loop.ctx, j.model, &conv, &rules, j.loop.Places)
		if err != nil {
			return nil, nil, err
		}
		gen.Constraint = fresh
	}
	return j.service.limit(&gen)
}

// stepSeed is the seed of a step, counted from 0. The engine draws by seed and place in the
// output: with the seed of the step before, a step would draw the same numbers again. The
// difference is odd and large, so that no step has the seed of a neighbouring choice.
func stepSeed(seed uint64, step int) uint64 { return seed + uint64(step)*0x9e3779b97f4a7c15 }

// extend returns the prompt of the next step: the one before, what was sampled, what the calls
// gave. Where that leaves no room for an answer the results are cut, and if that is not enough
// replaced, and the step has to be the answer.
func (j *Job) extend(answer *Answer) ([]int32, error) {
	turn := answer.turn
	capacity := j.model.Engine.Capacity()
	before := turn.conv
	for try := 0; ; try++ {
		turn.conv = before
		turn.said(answer)
		ids, err := j.stepPrompt(answer)
		over := len(ids) + answerRoom - capacity
		if err != nil || over <= 0 || try == 2 {
			return ids, err
		}
		turn.fit(j.model.Tokenizer, over, try)
	}
}

// stepPrompt renders the conversation behind the prompt of the step before.
func (j *Job) stepPrompt(answer *Answer) ([]int32, error) {
	turn := answer.turn
	conv := turn.conv
	conv.Continue, conv.NoPrompt = false, false
	// A call of the conversation ran before anything was sampled: there is no prompt to go on from.
	if turn.pending {
		conv.Since = 0
	}
	prompt := j.model.Tokenizer.Prompt()
	err := j.model.Format.Render(prompt, &conv)
	if err == nil && conv.Since > 0 {
		return append(append(make([]int32, 0, len(turn.prompt)+prompt.AtLeast()), turn.prompt...), prompt.IDs()...), nil
	}
	// The format cannot append to what was sampled: the conversation is rendered whole.
	if errors.Is(err, chat.ErrWhole) {
		conv.Since = 0
		prompt = j.model.Tokenizer.Prompt()
		err = j.model.Format.Render(prompt, &conv)
	}
	if err != nil {
		return nil, err
	}
	return prompt.IDs(), nil
}

// firstStep makes the request of a choice that of a first step, and reports whether calls of
// the conversation come before it.
func (j *Job) firstStep(choice int, req *engine.Request) (hold bool, err error) {
	t := j.answers[choice].turn
	if t.pending {
		return true, nil
	}
	if t.submitted = true; t.held != muteNone {
		req.Constraint, req.Allowed, err = j.stepConstraint(t, true)
	}
	return false, err
}

// beginLoop runs what comes before the first step. ctx is that of the job's reading: tools end
// with it.
func (j *Job) beginLoop(ctx context.Context) error {
	if j.loop == nil {
		return nil
	}
	context.AfterFunc(ctx, j.loop.cancel)
	for i, answer := range j.answers {
		if answer.paused {
			if err := j.act(i); err != nil {
				return err
			}
		}
	}
	return nil
}

// goOn takes what arrives of no stream.
func (j *Job) goOn(got *arrival) error {
	if got.again {
		return j.submitStep(got.index)
	}
	return j.gave(got.index, got.ran)
}

// stepEnded takes down what a step took. The engine knows it once its stream has ended.
func (j *Job) stepEnded(choice int) {
	answer := j.answers[choice]
	turn := answer.turn
	if !turn.submitted {
		return
	}
	_, usage, times := j.streams[choice].End()
	if turn.times.Queued.IsZero() {
		turn.times = times
	}
	turn.used = append(turn.used, stepUsage{prompt: len(turn.prompt), cached: usage.Cached, output: answer.Tokens - answer.base})
	turn.submitted = false
	finish := metrics.FinishStop // for the calls
	if answer.Done {
		finish = j.finish(j.answers[choice : choice+1])
	}
	j.settle(choice, finish)
}

// stepUsage adds up what the steps of all choices took. Choices of one prompt share its tokens.
func (j *Job) stepUsage() wire.Usage {
	var prompt, cached, completion, reasoned int
	all := &wire.ToolUsage{}
	for i, answer := range j.answers {
		before := 0 // tokens of the step before
		for k, step := range answer.turn.usage(answer) {
			if shared := k == 0 && i%j.perPrompt > 0 && len(j.loop.Pending) == 0; !shared {
				prompt, cached = prompt+step.prompt, cached+step.cached
			}
			if k > 0 {
				all.Results += max(step.prompt-before, 0)
			}
			before = step.prompt + step.output
			all.Prompt, all.Cached, all.Completion = append(all.Prompt, step.prompt), append(all.Cached, step.cached), append(all.Completion, step.output)
		}
		completion += answer.Tokens
		reasoned += answer.Reasoned
	}
	usage := wire.NewUsage(prompt, cached, completion, reasoned)
	usage.Tools = all
	return usage
}

// endLoop ends the tools of a job: sessions are closed once their call has ended, here if that
// is soon.
func (j *Job) endLoop() {
	if j.loop == nil {
		return
	}
	j.loop.release()
	closed := make(chan struct{}, len(j.answers))
	for _, answer := range j.answers {
		go func() {
			answer.turn.runs.Wait()
			answer.turn.box.Close()
			closed <- struct{}{}
		}()
	}
	patience := time.After(lostAfter)
	// A call that has not ended by then closes its tools itself, later.
	for range j.answers {
		select {
		case <-closed:
		case <-patience:
			return
		}
	}
}
