package server

import (
	"net/http"
	"strings"

	"ossian/internal/wire"
	"ossian/internal/wire/response"
)

// tokenize answers POST /tokenize: the ids that the same text or messages would be.
func (s *Server) tokenize(w *reply, _ *http.Request, c *caller, body []byte) error {
	q, err := response.DecodeTokenize(body, s.lim())
	if err != nil {
		return err
	}
	if err := s.ignored(w, q.Ignored); err != nil {
		return err
	}
	if err := q.Validate(s.lim()); err != nil {
		return err
	}
	m, err := s.find(q.Model)
	if err != nil {
		return err
	}
	var ids []int32
	switch {
	case q.Response != nil:
		a, err := s.prepare(w, c, q.Response)
		if err != nil {
			return err
		}
		ids = a.ids
	case q.Chat != nil:
		prompt, _, err := s.render(m, q.Chat)
		if err != nil {
			return err
		}
		ids = prompt.IDs()
	default:
		ids = promptText(m.Tokenizer, q.Prompt, q.AddSpecial).IDs()
	}
	out := wire.TokenizeReply{MaxModelLen: m.Engine.Capacity(), Tokens: append([]int32{}, ids...)}
	out.Count = len(out.Tokens)
	if q.TokenStrs {
		out.TokenStrs = make([]string, len(out.Tokens))
		for i, id := range out.Tokens {
			out.TokenStrs[i] = strings.ToValidUTF8(m.Tokenizer.Text(id), "\uFFFD")
		}
	}
	return sendJSON(w, out)
}

// detokenize answers POST /detokenize.
func (s *Server) detokenize(w *reply, _ *http.Request, _ *caller, body []byte) error {
	q, err := wire.DecodeDetokenize(body, s.lim())
	if err != nil {
		return err
	}
	if err := s.ignored(w, q.Ignored); err != nil {
		return err
	}
	m, err := s.find(q.Model)
	if err != nil {
		return err
	}
	if err := inVocab(m, "tokens", q.Tokens); err != nil {
		return err
	}
	return sendJSON(w, wire.DetokenizeReply{Prompt: m.Tokenizer.Decode(q.Tokens)})
}
