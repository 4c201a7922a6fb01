package generate

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"ossian/internal/limits"
	"ossian/internal/tools"
	"ossian/internal/wire"
)

// The calls of one step. They are answered in their order, whatever their order in time: what a
// model reads and what clients are told does not depend on which tool is the faster one. Only
// calls that are independent of each other run side by side (tools.Box.Independent).

// tell tells of calls of the conversation, as what was sampled tells of its own.
func (t *turn) tell(answer *Answer) {
	if !t.pending || t.told {
		return
	}
	t.told = true
	for _, call := range t.calls {
		if t.begin(answer, call); call.Arguments != "" {
			answer.Deltas = append(answer.Deltas, Delta{Field: ToolArguments, Text: call.Arguments, Tool: call.first})
		}
	}
}

// answerCall answers a call, ends the answer, or runs the call.
func (j *Job) answerCall(choice int, call *stepCall) {
	answer, turn := j.answers[choice], j.answers[choice].turn
	call.id = callID()
	switch {
	case j.asked > 0 && answer.Tokens >= j.asked: // nobody could read what the call gives
		answer.finish(wire.FinishLength, wire.StopReason{})
	case turn.in == muteAll && !turn.pending: // in spite of all that was done against it
		answer.finish(wire.FinishStop, wire.StopReason{})
	case call.Declined:
		turn.answer(answer, call, &tools.Result{Text: strings.TrimSuffix(declinedText+" "+call.result, " "), Outcome: tools.Cancelled})
	case call.unknown:
		if turn.unknown++; turn.unknown > maxUnknown {
			turn.held = muteAll
		}
		turn.answer(answer, call, &tools.Result{Text: fmt.Sprintf("Error: tool %.100s", call.Recipient) + " is not available. Available tools: " + j.offered(), Outcome: tools.Misused})
	case call.asks():
		turn.ask(answer, call)
		answer.finish(wire.FinishStop, wire.StopReason{})
	case j.barred(turn, 0):
		turn.held = max(turn.held, turn.in+1)
		turn.answer(answer, call, &tools.Result{Text: usedUpText, Outcome: tools.Failed})
	case j.pythonUsedUp(turn, call):
		j.service.cfg.Metrics.Refused(limits.PythonCalls.String())
		turn.answer(answer, call, &tools.Result{Text: noMorePythonText, Outcome: tools.Failed})
	default:
		j.runCall(choice, call)
	}
}

// runBeside runs calls behind one that runs which are independent of all before them. Calls of which
// anything else is to be said wait for their turn, and so do all behind them.
func (j *Job) runBeside(choice int) {
	turn := j.answers[choice].turn
	waiting := 0 // calls before that will run
	for i, call := range turn.calls {
		switch most := j.service.cfg.Limits()[limits.ToolParallel]; {
		case call.done || call.started:
		case int64(turn.active) >= most || call.Declined || call.unknown || call.asks() || j.pythonUsedUp(turn, call) || j.barred(turn, waiting):
			return
		case slices.ContainsFunc(turn.calls[:i], func(before *stepCall) bool {
			// A call that depends on one before waits for it, and may run once that has: it counts
			// as one that will, so that no more run than the answer may have.
			return !before.done && before.gave == nil && !turn.box.Independent(before.Recipient, call.Recipient)
		}):
			waiting++
		default:
			call.id = callID()
			j.runCall(choice, call)
		}
	}
}

// asks reports whether the client has to agree to a call, and was not asked.
func (c *stepCall) asks() bool {
	return c.Approval == "" && c.Offer != nil && c.Offer.Approve != nil && c.Offer.Approve(c.Tool)
}

// pythonUsedUp reports whether a call is one of Python, and the answer has had all that it may have.
func (j *Job) pythonUsedUp(t *turn, call *stepCall) bool {
	return call.Offer != nil && call.Offer.Kind == tools.Python && int64(t.python) >= j.service.cfg.Limits()[limits.PythonCalls]
}

// barred reports whether no call may run, some more counted.
func (j *Job) barred(t *turn, more int) bool {
	return t.lost || (!t.pending && (t.in == muteBuiltins || t.held == muteAll || j.usedUp(t, more)))
}

// usedUp reports whether an answer has had all calls that it may have, some more counted.
func (j *Job) usedUp(t *turn, more int) bool {
	most := j.service.cfg.Limits()[limits.ToolCalls]
	if j.loop.MaxCalls != nil {
		most = min(most, *j.loop.MaxCalls)
	}
	return int64(t.run+more) >= most
}

// offered names what may be called, for the model.
func (j *Job) offered() string {
	var names []string
	for _, space := range j.loop.Conversation.Builtins {
		if len(space.Tools) == 0 {
			names = append(names, space.Name)
		}
		for i := range space.Tools {
			names = append(names, space.Name+"."+space.Tools[i].Name)
		}
	}
	for i := range j.loop.Conversation.Tools {
		names = append(names, j.loop.Conversation.Tools[i].Name)
	}
	return strings.Join(names, ", ")
}

var callCount atomic.Uint64

// callID returns an id that no other call of this process has.
func callID() string { return "call-" + strconv.FormatUint(callCount.Add(1), 36) }

// A ran is what a call gave, in the form in which the model gets to read it.
type ran struct {
	call   *stepCall
	result tools.Result
	text   string
	lost   bool // the session did not end in time
}

// runCall runs a call beside the job, which gets an arrival. The call ends with the job and
// with the time that the answer has; of a session that goes on nevertheless nobody waits for
// the end, and whoever has the box then closes it.
func (j *Job) runCall(choice int, call *stepCall) {
	answer, turn := j.answers[choice], j.answers[choice].turn
	turn.run++
	turn.active++
	if call.Offer != nil && call.Offer.Kind == tools.Python {
		turn.python++
	}
	answer.Deltas = append(answer.Deltas, Delta{Field: ToolRuns, Tool: call.told()})
	ctx, cancel := context.WithDeadline(j.loop.ctx, j.loop.deadline)
	ended := make(chan tools.Result, 1)
	call.began, call.started = time.Now(), true
	id, recipient, arguments := call.id, call.Recipient, call.Arguments
	turn.runs.Go(func() { ended <- j.called(ctx, turn.box, id, recipient, arguments) })
	j.pumps.Go(func() {
		defer cancel()
		got := ran{call: call}
		select {
		case got.result = <-ended:
		case <-ctx.Done():
			// Result and deadline may come together: a result that is there counts.
			select {
			case got.result = <-ended:
			case <-j.loop.ctx.Done(): // nobody wants it
				return
			case <-time.After(lostAfter):
				got.result, got.lost = tools.Result{Text: "Error: the tool did not end in time.", Outcome: tools.TimedOut}, true
			}
		}
		got.text = cutResult(j.model.Tokenizer, got.result.Text, int(j.service.cfg.Limits()[limits.ToolResultTokens]))
		if len(got.text) != len(got.result.Text) {
			j.service.cfg.Metrics.ToolResultCut()
		}
		select {
		case j.many <- arrival{index: choice, ran: &got}:
		case <-j.loop.ctx.Done():
		}
	})
}

// called runs a call. A panic of a tool is the end of the call alone.
func (j *Job) called(ctx context.Context, box *tools.Box, id, recipient, arguments string) (result tools.Result) {
	defer func() {
		if fault := recover(); fault != nil {
			j.service.cfg.Log.Error("a tool panicked", "tool", recipient, "panic", fault)
			result = tools.Result{Text: "Error: the tool failed.", Outcome: tools.Broken}
		}
	}()
	return box.Call(ctx, id, recipient, arguments)
}

// gave takes what a call gave. Where its session goes on, nobody touches the box any more.
func (j *Job) gave(choice int, got *ran) error {
	answer, t := j.answers[choice], j.answers[choice].turn
	t.active--
	j.tellCalled(got.call, got.result.Outcome)
	if got.call.gave = got; got.lost {
		t.cites.flush(answer)
		t.lost, t.held, t.cites, answer.Tools = true, muteAll, nil, nil
	}
	return j.act(choice)
}
