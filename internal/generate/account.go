package generate

import (
	"fmt"
	"time"

	"ossian/internal/board"
	"ossian/internal/engine"
	"ossian/internal/limits"
	"ossian/internal/metrics"
	"ossian/internal/wire"
)

// freeReply is how much of a reply has room in what is planned for its connection: most
// replies need no other.
const freeReply = 16 << 10

// reserve accounts for n more bytes of the reply, fewer if n is negative, that stay in
// memory until it is sent: text unless it streams, and log probabilities (ADM-2). Where
// there is no room for them the request ends.
func (j *Job) reserve(n int64) error {
	j.size += n
	more := max(j.size-freeReply, 0) - j.booked
	if more == 0 {
		return nil
	}
	j.booked += more
	replies, shown := j.service.cfg.Replies, j.service.cfg.Metrics
	total := replies.Add(more)
	shown.Replies(more)
	lim := j.service.cfg.Limits()
	switch one := limits.ReplyBody; {
	case more < 0:
	case j.size > min(lim[one], lim[limits.Replies]):
		return &wire.Error{Type: wire.TypeInvalidRequest, Code: wire.CodeInvalidValue, Limit: one.String(), Message: fmt.Sprintf(
			"the reply takes more than %d bytes: stream it, or ask for fewer tokens, choices or log probabilities; the server's --limit %s=N allows more", min(lim[one], lim[limits.Replies]), one)}
	case total > lim[limits.Replies]:
		// Gone at once: others that grow at this moment are to find the room.
		replies.Add(-j.booked)
		shown.Replies(-j.booked)
		j.booked = 0
		return &wire.Error{Message: "too many long replies are put together at once; try again, or stream", Type: wire.TypeOverloaded, Code: wire.CodeOverloaded, Limit: limits.Replies.String()}
	}
	return nil
}

// MarkSent says that the client got something now: the next Idle has time.
func (j *Job) MarkSent() { j.lastSent = time.Now() }

// Answers returns the choices, those of the first prompt first.
func (j *Job) Answers() []*Answer { return j.answers }

// Size returns how many bytes the reply takes until it is sent, about.
func (j *Job) Size() int64 { return j.size }

// Tokens returns how many ids the answers have.
func (j *Job) Tokens() (n int) {
	for _, a := range j.answers {
		n += a.Tokens
	}
	return n
}

// Usage adds up what the answers took so far. What was cached is known of streams
// that have ended.
func (j *Job) Usage() (usage wire.Usage) {
	defer func() {
		for _, answer := range j.answers {
			accepted, rejected := answer.predicted.Counts()
			usage.Details.Accepted, usage.Details.Rejected = usage.Details.Accepted+accepted, usage.Details.Rejected+rejected
		}
	}()
	if j.loop != nil {
		return j.stepUsage()
	}
	var prompt, cached, completion, reasoned int
	for i := range j.prompts {
		prompt += j.prompts[i].tokens
	}
	for i, answer := range j.answers {
		// The answers to one prompt share it: what was cached of it counts once, with the first.
		if i%j.perPrompt == 0 && i < len(j.streams) {
			_, usage, _ := j.streams[i].End()
			cached += usage.Cached
		}
		completion += answer.Tokens
		reasoned += answer.Reasoned
	}
	return wire.NewUsage(prompt, cached, completion, reasoned)
}

// arrived observes the times of tokens.
func (j *Job) arrived(choice, count int) {
	now := time.Now()
	last := j.lastGot[choice]
	j.lastGot[choice] = now
	j.shown.Output(count, now)
	if j.model.Metrics == nil {
		return
	}
	if t := j.answers[choice].turn; t != nil && t.fresh { // a tool has run since
		t.fresh = false
		return
	}
	if last.IsZero() {
		j.model.Metrics.FirstToken(now.Sub(j.received))
		return
	}
	j.model.Metrics.InterToken(now.Sub(last) / time.Duration(count))
}

// observe tells the metrics about each sequence of the engine and each prompt.
func (j *Job) observe() {
	if j.model.Metrics == nil {
		return
	}
	for i := range j.streams {
		if t := j.answers[i].turn; t == nil || t.submitted {
			j.settle(i, j.finish(j.answers[i:i+1]))
		}
	}
	if len(j.streams) < len(j.answers) { // refused in part, or nothing to generate
		return
	}
	for p := range j.prompts {
		report := metrics.Request{Received: j.received, N: j.perPrompt, MaxTokens: j.asked}
		for i := p * j.perPrompt; i < (p+1)*j.perPrompt; i++ {
			answer := j.answers[i]
			if i == p*j.perPrompt { // a prompt has the times of its first choice
				times := j.times(i)
				report.Queued, report.Scheduled, report.First = times.Queued, times.Scheduled, times.First
			}
			report.Generated += answer.Tokens
			report.Reasoning += answer.Reasoned
			report.Largest = max(report.Largest, answer.Tokens)
			if j.lastGot[i].After(report.Last) {
				report.Last = j.lastGot[i]
			}
		}
		j.model.Metrics.Finished(&report)
	}
}

// finish is how answers have ended. Of several the worst end counts: one that is not done, then
// one that was too long.
func (j *Job) finish(answers []*Answer) metrics.Finish {
	worst := metrics.FinishStop
	for _, answer := range answers {
		switch {
		case !answer.Done && (j.err == nil || Gone(j.err)):
			worst = metrics.FinishAbort
		case !answer.Done:
			worst = metrics.FinishError
		case answer.Finish == wire.FinishLength && worst == metrics.FinishStop:
			worst = metrics.FinishLength
		}
	}
	return worst
}

// show puts the job among the requests that there are.
func (j *Job) show(gen *Generation) {
	j.shown = j.service.cfg.Board.Add(&board.Request{Label: gen.Label, Tenant: gen.Tenant, Received: j.received,
		Sequences: make([]board.Sequence, len(j.answers)), PerPrompt: j.perPrompt, Tools: j.loop != nil})
}

// hide takes it from there. What was refused has not been there.
func (j *Job) hide() {
	switch {
	case j.shown == nil:
	case len(j.streams) < len(j.answers):
		j.shown.Drop()
	default:
		usage := j.Usage()
		j.shown.End(string(j.finish(j.answers)), usage.Prompt, usage.PromptOf.Cached, usage.Completion, time.Now())
	}
}

// Progress returns how far the prompts are.
func (j *Job) Progress() board.Progress {
	if j.shown == nil {
		return board.Progress{}
	}
	return j.shown.Progress()
}

// settle tells the metrics of the sequence that a choice has in the engine: nothing is counted of
// it from now on.
func (j *Job) settle(choice int, finish metrics.Finish) {
	if j.streams[choice] == nil || j.model.Metrics == nil {
		return
	}
	sequence := metrics.Sequence{Finish: finish}
	if usage := j.streams[choice].Settle(); usage.Completion > 0 {
		sequence.Prompt, sequence.Cached = usage.Prompt, usage.Cached
	}
	_, _, times := j.streams[choice].End()
	sequence.Preemptions = times.Preemptions
	j.model.Metrics.Ended(sequence)
}

// times are those of a choice in the engine: of several steps those of the first, of which the
// stream may be another by now.
func (j *Job) times(choice int) (times engine.Times) {
	if t := j.answers[choice].turn; t != nil && !t.times.Queued.IsZero() {
		return t.times
	}
	if j.streams[choice] != nil {
		_, _, times = j.streams[choice].End()
	}
	return times
}
