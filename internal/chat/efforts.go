package chat

import (
	"slices"

	"ossian/internal/token"
)

// Efforts returns which efforts of reasoning make a difference to a model, least first: those of
// which its prompts are not all the same. Of names that mean the same one stands for all, so that
// whoever may choose is not asked in vain. A model that knows no effort has none.
func Efforts(format Format, tok *token.BPE) []string {
	var known []string
	var prompts [][]int32
	for _, effort := range []string{"medium", "low", "high", "none", "minimal", "xhigh", "max"} {
		prompt := tok.Prompt()
		if format.Render(prompt, &Conversation{Turns: []Turn{{Role: User, Parts: []string{"Hi"}}}, Effort: effort}) != nil {
			continue
		}
		ids := prompt.IDs()
		if slices.ContainsFunc(prompts, func(other []int32) bool { return slices.Equal(other, ids) }) {
			continue
		}
		known, prompts = append(known, effort), append(prompts, ids)
	}
	if len(known) < 2 {
		return nil
	}
	slices.SortFunc(known, func(a, b string) int { return slices.Index(efforts, a) - slices.Index(efforts, b) })
	return known
}
