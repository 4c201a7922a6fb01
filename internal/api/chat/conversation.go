package chat

import (
	"slices"
	"time"

	"ossian/internal/chat"
	"ossian/internal/generate"
	"ossian/internal/wire"
)

// Conversation translates a request that came now.
func Conversation(req *wire.ChatRequest, now time.Time) *chat.Conversation {
	bare := req.AddGenerationPrompt != nil && !*req.AddGenerationPrompt && !req.ContinueFinal
	conv := &chat.Conversation{Effort: req.Effort(), Now: now, Vars: req.TemplateArgs, Continue: req.ContinueFinal, NoCalls: req.ToolChoice.Mode == "none", MustCall: generate.MustCall(&req.ToolChoice),
		NoPrompt: bare, Response: generate.ResponseFormat(&req.Sampling), Tools: generate.Tools(req.Tools)}
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
