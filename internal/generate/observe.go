package generate

import (
	"time"

	"ossian/internal/tools"
)

// An Observer is told what becomes of a request, for whoever traces requests. Its methods are
// called by the goroutine that has the job, and must not wait; what they are given is not to be
// kept.
type Observer interface {
	// Started tells that there is a job, which may have been refused in part.
	Started(gen *Generation)
	// Called tells of a call of a tool that has run.
	Called(call *Called)
	// Ended tells how the job ended, and is the last.
	Ended(end *End)
}

// A Called is a call of a tool of the server's that has run.
type Called struct {
	Name, ID     string // what the model called, and by what the conversation knows it
	Began, Ended time.Time
	Problem      string // in a word of tools.Outcome; "" = none
}

// An End is what a job has come to. Times that are zero did not come.
type End struct {
	Err      error    // nil, or why it ended early
	Finishes []string // of each choice that is done

	Input, Cached, Output, Reasoning int // tokens, as the usage of the reply has them

	Queued, Scheduled, First, Last time.Time // of the first choice; the last token of all choices
	Preempted                      []time.Time
}

// tellCalled tells the observer of the call of a choice that has ended now.
func (j *Job) tellCalled(call *stepCall, outcome tools.Outcome) {
	if j.observer != nil && !call.began.IsZero() {
		told := &Called{Name: call.Recipient, ID: call.id, Began: call.began, Ended: time.Now()}
		if outcome != tools.Done {
			told.Problem = outcome.String()
		}
		j.observer.Called(told)
		call.began = time.Time{}
	}
}

// tellEnded tells the observer of calls that nobody waits for any more, and of the end.
func (j *Job) tellEnded() {
	if j.observer == nil {
		return
	}
	end := &End{Err: j.err}
	if len(j.streams) > 0 {
		times := j.times(0)
		end.Queued, end.Scheduled, end.First = times.Queued, times.Scheduled, times.First
	}
	for i, answer := range j.answers {
		if answer.turn != nil {
			for _, call := range answer.turn.calls {
				j.tellCalled(call, tools.Cancelled)
			}
		}
		if answer.Done {
			end.Finishes = append(end.Finishes, answer.Finish)
		}
		if i < len(j.streams) && j.streams[i] != nil {
			_, _, times := j.streams[i].End()
			end.Preempted = append(end.Preempted, times.Preempted...)
		}
		if i < len(j.lastGot) && j.lastGot[i].After(end.Last) {
			end.Last = j.lastGot[i]
		}
	}
	// A job that ended before every answer had a stream has no usage.
	if len(j.streams) == len(j.answers) {
		usage := j.Usage()
		end.Input, end.Output = usage.Prompt, usage.Completion
		end.Cached, end.Reasoning = usage.PromptOf.Cached, usage.Details.Reasoning
	}
	j.observer.Ended(end)
}
