package server

import (
	"net/http"
	"strings"

	"ossian/internal/api"
	"ossian/internal/generate"
	"ossian/internal/wire"
	"ossian/internal/wire/response"
)

// tokenize answers POST /tokenize: the ids that the same text or messages would be.
func (s *Server) tokenize(reply *api.Reply, r *http.Request, caller *api.Caller, body []byte) error {
	req, err := response.DecodeTokenize(body, s.lim(), s.cfg.Toolbox != nil)
	if err != nil {
		return err
	}
	if err := s.front.Unknown(reply, req.Ignored); err != nil {
		return err
	}
	if err := req.Validate(s.lim()); err != nil {
		return err
	}
	model, err := caller.Model(r.Context(), s.service, req.Model)
	if err != nil {
		return err
	}
	// The same stages as those of the API whose request it is, up to the prompt.
	var ids []int32
	switch {
	case req.Response != nil:
		if ids, err = s.responses.PromptIDs(r.Context(), reply, caller, req.Response); err != nil {
			return err
		}
	case req.Chat != nil:
		if ids, err = s.chat.PromptIDs(r.Context(), reply, model, req.Chat); err != nil {
			return err
		}
	default:
		ids = generate.Text(model.Tokenizer, req.Prompt, req.AddSpecial).IDs()
	}
	out := wire.TokenizeReply{MaxModelLen: model.Engine.Capacity(), Tokens: append([]int32{}, ids...)}
	out.Count = len(out.Tokens)
	if req.TokenStrs {
		out.TokenStrs = make([]string, len(out.Tokens))
		for i, id := range out.Tokens {
			out.TokenStrs[i] = strings.ToValidUTF8(model.Tokenizer.Text(id), "\uFFFD")
		}
	}
	return reply.Send(out)
}

// detokenize answers POST /detokenize.
func (s *Server) detokenize(reply *api.Reply, r *http.Request, caller *api.Caller, body []byte) error {
	req, err := wire.DecodeDetokenize(body, s.lim())
	if err != nil {
		return err
	}
	if err := s.front.Unknown(reply, req.Ignored); err != nil {
		return err
	}
	model, err := caller.Model(r.Context(), s.service, req.Model)
	if err != nil {
		return err
	}
	if err := generate.CheckIDs(model, "tokens", req.Tokens); err != nil {
		return err
	}
	return reply.Send(wire.DetokenizeReply{Prompt: model.Tokenizer.Decode(req.Tokens)})
}
