package python

import (
	"context"
	"encoding/json"
	"fmt"

	"ossian/internal/limits"
	"ossian/internal/tools"
)

// restarted stands before the first result of an interpreter that took another's place.
const restarted = "[NOTE] The environment was restarted; variables are lost.\n"

// A session is the calls of one answer.
type session struct {
	server *Server
	chain  tools.Chain
	holder *holder // nil = nothing was called yet
	calls  int64
}

// A state is what a response leaves to the next one of its chain.
type state struct {
	Container string `json:"container"`
}

// container returns the one of a state; "" = there is none.
func container(text json.RawMessage) string {
	var stored state
	if json.Unmarshal(text, &stored) != nil {
		return ""
	}
	return stored.Container
}

// State names the interpreter: a later response that does not find it says so.
func (s *session) State() json.RawMessage {
	if s.holder == nil {
		return s.chain.State
	}
	text, _ := json.Marshal(state{s.holder.container}) // of a string
	return text
}

// Close ends the session. The interpreter waits where the chain may go on.
func (s *session) Close() {
	if s.holder != nil {
		s.server.leave(s.holder, s.chain.Kept)
		s.holder = nil
	}
}

// Call runs code.
func (s *session) Call(ctx context.Context, call tools.Call) tools.Result {
	set := s.server.limits()
	if s.calls++; s.calls > set[limits.PythonCalls] {
		return tools.Result{Outcome: tools.Failed, Text: fmt.Sprintf("[ERROR] python was called %d times in this answer, which is all that is allowed.", set[limits.PythonCalls])}
	}
	if s.holder == nil {
		s.holder = s.server.join(&s.chain)
	}
	held := s.holder
	// Another answer of the same conversation may be using the interpreter.
	select {
	case held.turn <- struct{}{}:
		defer func() { <-held.turn }()
	case <-ctx.Done():
		return tools.Result{Outcome: tools.Cancelled, Text: "[ERROR] Execution was cancelled.", Container: held.container}
	}
	result := s.server.call(ctx, held, unwrapped(call.Arguments), set)
	result.Container = held.container
	return result
}

// call runs source in the interpreter of a conversation. The caller has the turn.
func (s *Server) call(ctx context.Context, holder *holder, source string, set *limits.Set) tools.Result {
	if !s.acquire(ctx, holder) {
		if ctx.Err() != nil {
			return tools.Result{Outcome: tools.Cancelled, Text: "[ERROR] Execution was cancelled."}
		}
		return tools.Result{Outcome: tools.Failed, Text: s.full()}
	}
	most := int(set[limits.ToolResultBytes])
	printed, complaints := &capture{most: most}, &capture{most: most}
	lost, err := s.ready(ctx, holder)
	if err == nil {
		limited, cancel := context.WithTimeout(ctx, set.Time(limits.ToolTime))
		err = holder.running.run(limited, source, printed, complaints)
		cancel()
	}
	note, outcome := ended(ctx, err, set)
	if err != nil {
		s.log.Debug("a call of python was ended", "error", err, "outcome", outcome.String())
	}
	// An interpreter that was stopped within a call is in no known state.
	if err != nil || s.backend.keeps() != privateData {
		s.retire(holder, err != nil)
	}
	var notes []string
	if note != "" {
		notes = append(notes, note)
	}
	whole := compose(printed.output(), complaints.output(), notes...)
	before := ""
	if lost {
		before = restarted
	}
	result := tools.Result{Text: before + whole.cut(textHead, textTail), Outcome: outcome}
	// Clients may see more of the output than the model reads.
	if full := before + whole.cut(max(0, most-textTail), textTail); full != result.Text {
		result.Output = full
	}
	return result
}

// ready sees to it that a conversation has an interpreter. It reports whether variables are lost
// that the model may believe in.
func (s *Server) ready(ctx context.Context, holder *holder) (lost bool, err error) {
	if holder.running != nil {
		return false, nil
	}
	running, err := s.backend.start(ctx, holder.slot)
	if err != nil {
		return false, err
	}
	if holder.former != nil {
		if err := running.inherit(holder.former); err != nil {
			s.log.Debug("files of an interpreter were not all kept", "error", err)
		}
		holder.former.close()
	}
	lost = holder.lost
	s.mu.Lock()
	holder.running, holder.former, holder.lost = running, nil, false
	s.mu.Unlock()
	return lost, nil
}

// retire ends the use of an interpreter. Its files are kept for the next one, unless it has
// none of its own.
func (s *Server) retire(holder *holder, failed bool) {
	s.mu.Lock()
	running := holder.running
	holder.running = nil
	keep := running != nil && s.backend.keeps() == privateData
	if keep {
		holder.former = running
	}
	holder.lost = holder.lost || (failed && keep)
	s.mu.Unlock()
	if keep {
		return
	}
	closeAll(running)
	if holder.former == nil {
		s.release(holder)
	}
}
