package response

import (
	"slices"
	"sync"

	"ossian/internal/limits"
	"ossian/internal/wire"
)

// TokenizeRequest is POST /tokenize. Chat is set if the request has messages, Response
// if it has input or previous_response_id; then it holds what that endpoint would see.
type TokenizeRequest struct {
	Model      string            `json:"model,omitempty"`
	Prompt     string            `json:"prompt"`
	AddSpecial *bool             `json:"add_special_tokens,omitempty"` // nil = true
	TokenStrs  bool              `json:"return_token_strs,omitempty"`
	Chat       *wire.ChatRequest `json:"-"`
	Response   *Request          `json:"-"`

	Ignored []string `json:"-"`
}

// DecodeTokenize reads the body of a tokenize request; served is as for Decode. The error is an
// *Error.
func DecodeTokenize(body []byte, lim *limits.Set, served bool) (*TokenizeRequest, error) {
	request, prompt := new(TokenizeRequest), false
	chat, response := new(wire.ChatRequest), &Request{served: served}
	asksResponse := sync.OnceValue(func() bool { return hasMember(body, lim, "input", "previous_response_id") })
	in, err := wire.ReadBody(body, lim, func(in *wire.Reader, key string) bool {
		// Members that chats and responses share are read by whichever the body turns out to be.
		switch key {
		case "prompt":
			request.Prompt, prompt = in.Text(), true
		case "return_token_strs":
			request.TokenStrs = in.Boolean()
		case "messages", "add_special_tokens":
			return chat.Field(in, key)
		default:
			if asksResponse() {
				return response.field(in, key)
			}
			return chat.Field(in, key)
		}
		return true
	})
	if err != nil {
		return nil, err
	}
	request.Model, request.AddSpecial, request.Ignored = chat.Model, chat.AddSpecial, in.Ignored()
	if asksResponse() {
		if err := response.chooseFull(); err != nil {
			return nil, err
		}
		request.Model, request.Response = response.Model, response
	}
	switch {
	case (prompt && chat.Messages != nil) || (prompt && request.Response != nil) || (request.Response != nil && chat.Messages != nil):
		return nil, wire.Invalid("prompt", "prompt, messages and input exclude each other")
	case request.Response != nil:
	case chat.Messages != nil:
		wire.LinkLegacyCalls(chat.Messages)
		request.Chat = chat
	case !prompt:
		return nil, wire.Missing("prompt")
	}
	return request, nil
}

// Validate is as for ChatRequest; sampling fields do not matter here.
func (r *TokenizeRequest) Validate(lim *limits.Set) error {
	switch {
	case r.Chat != nil:
		return r.Chat.Validate(lim)
	case r.Response != nil:
		return r.Response.Validate(lim)
	}
	return nil
}

// has reports whether the object that is a body, which is JSON, has one of the members.
func hasMember(body []byte, lim *limits.Set, names ...string) (found bool) {
	in := wire.NewReader(body, lim)
	in.Members(func(key string) {
		found = found || slices.Contains(names, key)
		in.Skip()
	})
	return found
}
