package chat

import (
	"slices"
	"time"

	"ossian/internal/api"
	"ossian/internal/chat"
	"ossian/internal/generate"
	"ossian/internal/tools"
	"ossian/internal/wire"
)

// Conversation translates a request that came now, in which the server runs nothing.
func Conversation(req *wire.ChatRequest, now time.Time) *chat.Conversation {
	return conversation(req, now, nil)
}

// conversation translates a request that gets some of the server's tools.
func conversation(req *wire.ChatRequest, now time.Time, offers []tools.Offer) *chat.Conversation {
	bare := req.AddGenerationPrompt != nil && !*req.AddGenerationPrompt && !req.ContinueFinal
	conv := &chat.Conversation{Effort: req.Effort(), Now: now, Vars: req.TemplateArgs, Continue: req.ContinueFinal, NoCalls: req.ToolChoice.Mode == "none", MustCall: generate.MustCall(&req.ToolChoice),
		NoPrompt: bare, Response: generate.ResponseFormat(&req.Sampling), Tools: generate.Tools(req.Tools), Builtins: api.Namespaces(offers)}
	for i := range req.Messages {
		msg := &req.Messages[i]
		turn := chat.Turn{Role: generate.Roles[msg.Role], Name: msg.Name, Parts: msg.Content, Reasoning: msg.Reasoning, CallID: msg.ToolCallID}
		if msg.Refusal != "" {
			turn.Parts = append(slices.Clone(turn.Parts), msg.Refusal)
		}
		for _, call := range msg.ToolCalls {
			turn.Calls = append(turn.Calls, chat.Call{ID: call.ID, Name: call.Name, Arguments: call.Arguments, Text: call.Custom})
		}
		conv.Turns = append(conv.Turns, turn)
	}
	return conv
}
