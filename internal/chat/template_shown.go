package chat

import (
	"slices"
	"strings"
	"time"

	"ossian/internal/chat/fence"
	"ossian/internal/chat/shown"
)

// What a template drops without a word is refused. Templates show tools, calls and results in
// some conversations only, so the conversation itself tells: it is rendered once more with a
// mark in each of them, and a mark that is missing then was dropped.

// A marking is a conversation with marks.
type marking struct {
	conv *Conversation
	at   []*Error // by mark: what is said if it is missing
}

// judge refuses conv, which the template renders as text, if it leaves something out.
func (t *template) judge(conv *Conversation, text string) error {
	marked := marks(conv)
	if len(marked.at) == 0 {
		return nil
	}
	found := fence.Plain(text)
	unnamed := func(tool Tool) bool { return !shown.Named(found, fence.Plain(t.fence.Text(tool.Name))) }
	again, err := t.text(marked.conv)
	if err != nil && (conv.MustCall || !slices.ContainsFunc(conv.offered(), unnamed)) { // the template knows names or texts: those of the conversation are there
		return nil
	}
	again = fence.Plain(again)
	var missing []*Error
	tools := 0 // that are among them
	for n, problem := range marked.at {
		if strings.Contains(again, shown.Mark(n)) && (problem.Tool < 0 || !unnamed(conv.Tools[problem.Tool])) {
			continue
		}
		if missing = append(missing, problem); problem.Tool >= 0 {
			tools++
		}
	}
	switch {
	case len(missing) == 0:
		return nil
	case tools > 0 && tools == conv.declared():
		problem := "the model's chat template has no place for tools"
		if t.shows {
			problem = "the model's chat template shows tools in other conversations, but not in this one"
		}
		return &Error{Turn: -1, Tool: -1, Tools: true, Problem: problem + ": leave them out, choose a template that shows them, or ask for a call"}
	}
	return missing[0]
}

// marks returns conv with a mark in each tool that has to be shown, in each call and in each
// result. Calls of a tool have its new name: templates may look for it.
func marks(conv *Conversation) marking {
	copied := *conv
	out := marking{conv: &copied}
	add := func(turn, tool int, what string) string {
		out.at = append(out.at, &Error{Turn: turn, Tool: tool, Problem: "the model's chat template leaves out " + what})
		return shown.Mark(len(out.at) - 1)
	}
	renamed := map[string]string{}
	// Where the answer must be a call it is held to that, whatever the template shows of tools.
	if copied.Tools = slices.Clone(conv.Tools); !conv.MustCall {
		for i := range conv.offered() {
			tool := &copied.Tools[i]
			if tool.Unshown {
				continue
			}
			renamed[tool.Name] = add(-1, i, "this tool: leave it out, or choose a template that shows it")
			tool.Name, tool.JSON = renamed[tool.Name], nil
		}
	}
	copied.Turns = slices.Clone(conv.Turns)
	for i := range copied.Turns {
		turn := &copied.Turns[i]
		turn.Calls = slices.Clone(turn.Calls)
		for k := range turn.Calls {
			call := &turn.Calls[k]
			mark := add(i, -1, "the calls of this message: write them into its content, or choose a template that shows them")
			if call.Text {
				call.Arguments += mark
			} else {
				call.Arguments = shown.Arguments(call.object(), mark)
			}
			if name := renamed[call.Name]; name != "" {
				call.Name = name
			}
		}
		if turn.Role == ToolRole {
			turn.Parts = append(slices.Clone(turn.Parts), add(i, -1, "the result of this call: send it as a user's message, or choose a template that shows it"))
			if name := renamed[turn.Name]; name != "" {
				turn.Name = name
			}
		}
	}
	return out
}

// usual are conversations as clients have them, by which a template is tried.
func usual() [][]Turn {
	say := func(role Role, text string) Turn { return Turn{Role: role, Parts: []string{text}} }
	hello, instructions, answer := say(User, "Hi"), say(System, "Be kind."), say(Assistant, "Hello.")
	return [][]Turn{{hello}, {instructions, hello}, {hello, answer, hello}, {instructions, hello, answer, hello}}
}

// showsTools reports whether a tool that is offered is in the prompt of some usual
// conversation.
func (t *template) showsTools() bool {
	tools := []Tool{{Name: shown.Mark(0), Description: "Nothing.", Parameters: []byte(`{"type": "object", "properties": {}}`)}}
	return slices.ContainsFunc(usual(), func(turns []Turn) bool {
		text, err := t.text(&Conversation{Turns: turns, Tools: tools, Now: time.Unix(0, 0)})
		return err == nil && strings.Contains(fence.Plain(text), shown.Mark(0))
	})
}
