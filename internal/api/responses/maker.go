package responses

import (
	"context"

	"ossian/internal/board"
	"ossian/internal/chat"
	"ossian/internal/generate"
	"ossian/internal/wire"
	"ossian/internal/wire/response"
)

// A maker writes one response (api.Encoder): the events while it is made, and what is
// stored of it. Its object goes queued → in_progress → completed, incomplete, failed or
// cancelled; the first only in the background. One goroutine at a time has it: that of
// the request, which hands it on in the background.
type maker struct {
	h      *Handler
	req    *request
	job    *generate.Job
	object *response.Response
	ids    []int32          // of the output, for prompts that go on from it; nil = not what the text says
	last   *generate.Answer // what it ends with, once that has come
	ended  bool             // no event follows

	// Of tools that the server runs.
	call      *call            // whose item is open; nil = none
	held      []generate.Delta // behind it
	served    []result         // calls that have ended, in order, without what they gave
	asking    bool             // the client has to agree to a call, and to all behind it
	container string           // of the latest code; "" = not known
	trail     trail

	// In the background.
	requestID   string   // for the log
	task        *task    // nil = the client waits for the response
	created     []byte   // the object as it was created
	unsaved     [][]byte // events that the store did not take yet
	unsavedSize int      // of these, in bytes
	changed     bool     // the object, since it was last stored
	found       int      // items of the output that can be found by their ids
}

// maker returns that of a response that nothing is known of yet.
func (h *Handler) maker(req *request) *maker {
	used := h.service.InForce(req.model, &req.Sampling)
	object := response.New(response.Head{ID: h.front.NewID("resp_"), Created: h.front.Clock().Unix(), Model: req.model.Name, Temperature: used.Temperature, TopP: used.TopP, Presence: used.Presence, Frequency: used.Frequency,
		Truncated: req.truncated, Stored: req.store}, req.Request)
	if req.Includes(sealedReasoning) {
		object.Seal = func(text string) string { return h.seal(text, req.owner, req.model.Fingerprint) }
	}
	return &maker{h: h, req: req, object: object, container: req.container, trail: trail{State: req.state, Chain: req.chain(), Print: req.model.Fingerprint}}
}

// start gives the request to the engine.
func (m *maker) start(ctx context.Context) (err error) {
	gen := m.req.generation(m.h.front, m.object.ID)
	gen.ReplyID, gen.ModelName, gen.Observer = m.object.ID, m.req.Model, m.req.caller.Observer
	m.job, err = m.h.service.Start(ctx, gen)
	return err
}

// Begin implements api.Encoder.
func (m *maker) Begin(dst []byte, _ int, _ *wire.Usage) []byte {
	if m.task == nil { // in the background it was told when it was created
		dst = m.object.Tell(dst, "created")
	}
	m.object.Status, m.changed = response.StatusInProgress, true
	return m.listTools(m.object.Tell(dst, "in_progress"))
}

// Chunk implements api.Encoder.
func (m *maker) Chunk(dst []byte, _ int, delta *generate.Delta, ids []int32, usage *wire.Usage) []byte {
	m.ids, m.object.SoFar = append(m.ids, ids...), usage
	if m.holds(delta) {
		return dst
	}
	return m.play(dst, delta)
}

// progress tells how far the prompt is.
func (m *maker) progress(dst []byte, p board.Progress) []byte {
	return m.object.Progress(dst, response.Progress(p))
}

// play appends a delta. A call of a client's tool begins with its name; it ends, like a message,
// with an ItemEnds.
func (m *maker) play(dst []byte, delta *generate.Delta) []byte {
	if delta.Tool != nil {
		return m.tool(dst, delta)
	}
	switch delta.Field {
	case generate.ItemBegins:
		dst = m.object.Begin(dst, m.identified(itemOf(delta.Part)))
	case generate.CallName:
		it := m.identified(m.req.Called(delta.Text))
		it.CallID = m.h.front.NewID("call_")
		dst = m.object.Begin(dst, it)
	case generate.ItemEnds:
		status := response.StatusCompleted
		if delta.Cut {
			status = response.StatusIncomplete
		}
		m.changed = true
		dst = m.object.End(dst, status)
	case generate.Cited:
		cited := delta.Citation
		dst = m.object.Cite(dst, response.Citation{Start: cited.Start, End: cited.End, URL: cited.URL, Title: cited.Title})
	default:
		dst = m.object.Add(dst, delta.Text, delta.Logprobs)
	}
	return dst
}

func itemOf(part chat.Part) response.Item {
	switch part {
	case chat.Reasoning:
		return response.Item{Type: response.ItemReasoning}
	case chat.Preamble:
		return response.Item{Type: response.ItemMessage, Role: "assistant", Phase: response.PhaseCommentary}
	}
	return response.Item{Type: response.ItemMessage, Role: "assistant", Phase: response.PhaseAnswer}
}

func (m *maker) identified(it response.Item) response.Item {
	it.ID = m.h.front.NewID(it.IDPrefix())
	return it
}

// End implements api.Encoder.
func (m *maker) End(dst []byte, _ int, answer *generate.Answer, _ *wire.Usage) []byte {
	m.ids = append(m.ids, answer.NewIDs...)
	if answer.Tools != nil {
		m.trail.Steps, m.ids = trailOf(answer.Steps, m.served)
		m.trail.State = answer.Tools.State()
	}
	if answer.Stop != (wire.StopReason{}) { // the text ends before they do
		m.dropIDs()
	}
	m.last = answer
	if answer.Finish == wire.FinishLength {
		return m.cut(dst, response.StatusIncomplete)
	}
	return m.cut(dst, response.StatusCompleted)
}

// Finish says how the response has ended, and no earlier does its object: what is stored
// before can be read, and a crash takes it back (DUR-1).
func (m *maker) Finish(dst []byte, usage *wire.Usage) []byte {
	if m.object.Usage = usage; m.trail.Asked == nil { // else there is something to answer
		m.object.Empty = m.last.EmptyReason()
	}
	if m.last.Finish == wire.FinishLength {
		m.object.Status, m.object.Incomplete = response.StatusIncomplete, "max_output_tokens"
	} else {
		m.object.Status, m.object.Completed = response.StatusCompleted, m.h.front.Clock().Unix()
	}
	return m.close(dst)
}

// Fail implements api.Encoder.
func (m *maker) Fail(dst []byte, err *wire.Error) []byte {
	code := "server_error"
	switch err.Type {
	case wire.TypeRateLimit:
		code = "rate_limit_exceeded"
	case wire.TypeInvalidRequest:
		code = "invalid_prompt"
	}
	m.object.Status, m.object.Failure = response.StatusFailed, &response.Failure{Code: code, Message: err.Error()}
	m.ids = nil
	return m.close(m.cut(dst, response.StatusIncomplete))
}

// close stores a response that has ended, and tells so: that it is kept is said only
// when it is (DUR-1). One that is made in the background is stored with its last event.
func (m *maker) close(dst []byte) []byte {
	m.ended, m.changed = true, true
	if m.object.Usage == nil {
		u := m.job.Usage()
		m.object.Usage = &u
	}
	if m.task == nil && m.req.store {
		if err := m.save(); err != nil {
			m.h.front.Log.Warn("response was not stored", "response", m.object.ID, "error", err)
			m.object.Stored = false
		}
	}
	return m.object.Tell(dst, m.object.Ending())
}
