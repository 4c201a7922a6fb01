package bench

import (
	"context"
	"time"

	"ossian/internal/bench/dataset"
	"ossian/internal/wire"
)

// A MultiTurn says how conversations go (bench.md 1.10). The turns of each stand one
// behind the other in the workload.
type MultiTurn struct {
	Turns       int           // of each, as asked for
	Delay       time.Duration // from an answer to the next turn
	Global, Own float64       // shares of a turn that are alike in all conversations, in all turns of one
}

// History reports whether a turn brings along what was said before; turns with shared
// beginnings go without.
func (m *MultiTurn) History() bool { return m.Global == 0 && m.Own == 0 }

// converse carries on the conversation that begins with query i, until it ends or a turn
// fails. Requests, not conversations, take up slots: while its user thinks, another's
// turn may be sent, as with the compiled client.
func (r *run) converse(ctx context.Context, i int) {
	var said history
	for ; ; i++ { // over the turns
		if !r.Setup.MultiTurn.History() {
			said = history{}
		}
		query, sample := said.ask(r.workload[i]), &r.rec.Samples[i]
		sample.Input = query.Input
		// The slot is for the request alone, not for the user's pause behind it.
		select {
		case r.slots <- struct{}{}:
		case <-ctx.Done():
			return
		}
		r.send(ctx, &query, sample)
		<-r.slots
		if i+1 == len(r.workload) || r.workload[i+1].Turn == 0 {
			return
		}
		if sample.failure() != "" {
			for i++; i < len(r.workload) && r.workload[i].Turn > 0; i++ {
				r.Live.Total.Add(-1) // will not be sent
			}
			return
		}
		said.answer(sample)
		if pause(ctx, r.Setup.MultiTurn.Delay) != nil {
			return
		}
		// The next turn is due a pause after this answer; the arrival process knows first turns only.
		r.takeUp(i+1, sample.Done+r.Setup.MultiTurn.Delay)
	}
}

// A history is what was said in a conversation.
type history struct {
	messages []byte // the array without its end
	tokens   int    // of questions, as the workload counts them, and of answers, as the server does
}

// ask adds a turn and returns it as it is sent, with all before it. The result
// counts until the next call.
func (h *history) ask(query dataset.Query) dataset.Query {
	before := byte('[')
	if len(h.messages) > 0 {
		before = ','
	}
	h.messages = appendUser(append(h.messages, before), query.Prompt, false)
	h.tokens += query.Input
	query.Prompt, query.Messages, query.Input = "", append(h.messages, ']'), h.tokens
	return query
}

// answer adds the answer in a sample, without its reasoning.
func (h *history) answer(sample *Sample) {
	h.messages = append(wire.AppendString(append(h.messages, `,{"role":"assistant","content":`...), sample.Text), '}')
	if sample.Counts.Completion > 0 {
		h.tokens += sample.Counts.Completion
		return
	}
	for _, c := range sample.Chunks {
		if c.Kind&Choices != 0 {
			h.tokens++
		}
	}
}

// appendUser appends a message of the user; plain = its content is a text, not a list of
// parts.
func appendUser(dst []byte, text string, plain bool) []byte {
	if plain {
		return append(wire.AppendString(append(dst, `{"role":"user","content":`...), text), '}')
	}
	return append(wire.AppendString(append(dst, `{"role":"user","content":[{"type":"text","text":`...), text), "}]}"...)
}
