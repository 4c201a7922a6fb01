package server

import (
	"fmt"
	"net/http"

	"ossian/internal/chat"
	"ossian/internal/host"
	"ossian/internal/wire"
)

// completions answers POST /v1/completions: text in, text out.
func (s *Server) completions(w *reply, r *http.Request, c *caller, body []byte) error {
	j, err := s.textJob(w, r, c, body)
	if err != nil {
		return err
	}
	s.release(c)
	return j.drive(r.Context())
}

func (s *Server) textJob(w *reply, r *http.Request, c *caller, body []byte) (*job, error) {
	q, err := wire.DecodeCompletion(body, s.lim())
	if err != nil {
		return nil, err
	}
	if err := s.ignored(w, q.Ignored); err != nil {
		return nil, err
	}
	if err := q.Validate(s.lim()); err != nil {
		return nil, err
	}
	m, err := s.find(q.Model)
	if err != nil {
		return nil, err
	}
	if err := later(&q.Sampling); err != nil {
		return nil, err
	}
	most := q.MaxOutput()
	g := &generation{Sampling: &q.Sampling, most: &most, logprobs: q.Logprobs}
	if q.BestOf != nil {
		g.best = int(*q.BestOf)
	}
	for i := range q.Prompts {
		ids, err := s.promptIDs(w, m, q, i)
		if err != nil {
			return nil, err
		}
		g.prompts = append(g.prompts, ids)
		if q.Echo {
			g.echo = append(g.echo, m.Tokenizer.Decode(ids))
		}
	}
	answer, at, err := form(&q.Sampling)
	if err != nil {
		return nil, err
	}
	if g.held, err = s.constrainText(r.Context(), w, m, answer, at); err != nil {
		return nil, err
	}
	p := s.plan(m, g.Sampling, g.logprobs)
	p.every, p.echoed = p.logprobs, p.logprobs && q.Echo
	g.parser = func() chat.Parser {
		return &raw{tok: m.Tokenizer, detok: m.Tokenizer.Detok(), hide: q.SkipSpecial == nil || *q.SkipSpecial, stops: p.stops}
	}
	enc := &textEncoder{head: s.head("cmpl-", q.RequestID, m), n: int(q.Choices()), logprobs: q.Logprobs != nil, offsets: make([]int, len(g.prompts)*int(q.Choices()))}
	if q.ReturnTokenIDs {
		for i := range enc.offsets {
			enc.promptIDs = append(enc.promptIDs, g.prompts[i/enc.n])
		}
	}
	enc.stream = wire.NewCompletionStream(enc.head, q.StreamOptions)
	return s.newJob(w, r, c, m, p, g, enc)
}

// promptIDs returns the ids of prompt i.
func (s *Server) promptIDs(w *reply, m *host.Model, q *wire.CompletionRequest, i int) ([]int32, error) {
	p, most := &q.Prompts[i], q.MaxOutput()
	param := "prompt"
	if len(q.Prompts) > 1 {
		param = fmt.Sprintf("prompt[%d]", i)
	}
	if p.IDs == nil {
		return s.encode(w, m, param, promptText(m.Tokenizer, p.Text, q.AddSpecial), q.TruncatePrompt, &most)
	}
	if err := inVocab(m, param, p.IDs); err != nil {
		return nil, err
	}
	return s.fit(w, m, param, p.IDs, q.TruncatePrompt, &most)
}

// textEncoder writes completion replies.
type textEncoder struct {
	head      wire.Head
	stream    *wire.CompletionStream
	n         int
	logprobs  bool
	promptIDs [][]int32 // of each choice, until they are sent; nil = not asked for
	offsets   []int     // code points that each choice has had
	c         wire.CompletionChoice
}

func (e *textEncoder) begin(dst []byte, _ int, _ *wire.Usage) []byte { return dst }

func (e *textEncoder) chunk(dst []byte, i int, d *delta, ids []int32, usage *wire.Usage) []byte {
	e.c = wire.CompletionChoice{Text: d.text, TokenIDs: ids, PromptIDs: e.prompt(i), Logprobs: e.lists(i, d.logprobs)}
	return e.stream.Append(dst, i, &e.c, usage)
}

func (e *textEncoder) end(dst []byte, i int, a *answer, usage *wire.Usage) []byte {
	e.c = wire.CompletionChoice{Finish: a.finish, Stop: a.reason, Empty: a.silence(), TokenIDs: a.newIDs, PromptIDs: e.prompt(i)}
	return e.stream.Append(dst, i, &e.c, usage)
}

// prompt returns the ids of a choice's prompt for its first chunk.
func (e *textEncoder) prompt(i int) []int32 {
	if e.promptIDs == nil {
		return nil
	}
	ids := e.promptIDs[i]
	e.promptIDs[i] = nil
	return ids
}

func (e *textEncoder) finish(dst []byte, u *wire.Usage) []byte {
	return append(e.stream.AppendUsage(dst, u), wire.Done...)
}

func (e *textEncoder) fail(dst []byte, err *wire.Error) []byte {
	return append(wire.AppendErrorEvent(dst, err), wire.Done...)
}

func (e *textEncoder) reply(dst []byte, answers []*answer, choices []choice, usage wire.Usage) []byte {
	r := wire.CompletionReply{Head: e.head, Usage: usage}
	for i := range choices {
		c, a := &choices[i], answers[i]
		r.Choices = append(r.Choices, wire.CompletionChoice{Text: c.content.String(), Logprobs: e.lists(i, c.logprobs), Finish: a.finish, Stop: a.reason,
			Empty: a.silence(), TokenIDs: a.newIDs, PromptIDs: e.prompt(i), PromptLogprobs: a.prompt})
	}
	return r.Append(dst)
}

// lists turns entries into the parallel lists of this API, one entry for each token of
// the text and for those that are not shown: evaluations count on that. The chosen
// token is always among its alternatives; what has no log probability has none.
func (e *textEncoder) lists(i int, entries []wire.TokenLogprob) *wire.CompletionLogprobs {
	if !e.logprobs {
		return nil
	}
	l := &wire.CompletionLogprobs{}
	for k := range entries {
		t := &entries[k]
		l.Tokens = append(l.Tokens, t.Token)
		l.Logprob = append(l.Logprob, t.Logprob)
		top := append(t.Top, wire.TokenLogprob{Token: t.Token, Logprob: t.Logprob})
		if t.Logprob != t.Logprob {
			top = nil
		}
		l.Top = append(l.Top, top)
		l.Offset = append(l.Offset, e.offsets[i])
		for _, b := range []byte(t.Bytes) {
			if b&0xc0 != 0x80 { // the first byte of a character
				e.offsets[i]++
			}
		}
	}
	return l
}
