package chat

// How many ids of reasoning an answer may have. What ends the reasoning when they are used
// up is the mask of its constraint: harmony_constraint.go, tags_constraint.go.

import "math"

// unlimited is the budget of reasoning that ends when the model ends it.
const unlimited = math.MaxInt

// budget returns how many ids of reasoning an answer may have. silent says that the
// conversation asks for none.
func (r *Rules) budget(c *Conversation, silent bool) int {
	budget := unlimited
	if r.Thinking != nil {
		budget = *r.Thinking
	}
	c.variable("thinking_budget", &budget)
	switch {
	case silent:
		return 0
	case budget < 0:
		return unlimited
	}
	return budget
}

// holdNothing reports whether there is nothing to hold an answer to, with a budget of reasoning.
func (r *Rules) holdNothing(c *Conversation, budget int) bool {
	return r.Answer == nil && len(c.Tools) == 0 && !r.NoCalls && (budget == unlimited || c.NoPrompt)
}

// thinks reports whether models that either reason or do not are to.
func (c *Conversation) thinks() bool {
	thinking := c.Effort != "none"
	c.variable("enable_thinking", &thinking)
	return thinking
}
