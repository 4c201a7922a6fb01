package api

import (
	"cmp"
	"net/http"
	"slices"
	"strings"

	"ossian/internal/generate"
	"ossian/internal/wire"
)

// A Codec writes the replies of one API.
type Codec interface {
	Encoder
	// Reply appends the whole reply: choices, and the answers that they were made of.
	Reply(dst []byte, answers []*generate.Answer, choices []Choice, usage wire.Usage) []byte
}

// A Choice collects the deltas of an answer that is not streamed.
type Choice struct {
	Content, Reasoning strings.Builder
	Calls              []wire.ToolCall // without ids and arguments
	Arguments          []*strings.Builder
	Logprobs           []wire.TokenLogprob
	Citations          []generate.Citation
}

func (c *Choice) add(delta *generate.Delta) {
	switch delta.Field {
	case generate.Content:
		c.Content.WriteString(delta.Text)
		c.Logprobs = append(c.Logprobs, delta.Logprobs...)
	case generate.Reasoning:
		c.Reasoning.WriteString(delta.Text)
	case generate.CallName:
		c.Calls = append(c.Calls, wire.ToolCall{Name: delta.Text, Custom: delta.Custom})
		c.Arguments = append(c.Arguments, new(strings.Builder))
	case generate.CallArguments:
		c.Arguments[delta.Call].WriteString(delta.Text)
	case generate.Cited:
		c.Citations = append(c.Citations, *delta.Citation)
	}
}

// A collection keeps answers until all have ended, then sends them as one reply
// (generate.Output).
type collection struct {
	job     source
	w       *Reply
	codec   Codec
	choices []Choice
	prompts int
	best    int // of the choices of each prompt, how many are in the reply
}

// Idle implements generate.Output.
func (c *collection) Idle() error { return c.w.probe() }

// Open implements generate.Output.
func (c *collection) Open(int) {}

// Token implements generate.Output.
func (c *collection) Token(choice int) {
	answer := c.job.Answers()[choice]
	answer.Book(8) // the id, and lists that have grown beyond their end
	for k := range answer.Deltas {
		c.choices[choice].add(&answer.Deltas[k])
		answer.Book(answer.Deltas[k].Size())
	}
	answer.Taken()
}

// Flush implements generate.Output.
func (c *collection) Flush(int) error { return nil }

// Finish implements generate.Output.
func (c *collection) Finish() error {
	usage := c.job.Usage() // of all, also of those that are not in the reply
	answers, choices := c.chosen()
	c.w.JSON(http.StatusOK, c.codec.Reply(make([]byte, 0, 1024+c.job.Size()*3/2), answers, choices, usage)) // JSON is a little longer: it does not have to grow
	return nil
}

// chosen returns the choices for the reply: of each prompt those whose tokens have the
// highest mean log probability.
func (c *collection) chosen() ([]*generate.Answer, []Choice) {
	all := c.job.Answers()
	perPrompt := len(all) / c.prompts
	if c.best == perPrompt {
		return all, c.choices
	}
	var answers []*generate.Answer
	var choices []Choice
	for first := 0; first < len(all); first += perPrompt {
		order := make([]int, perPrompt)
		for i := range order {
			order[i] = first + i
		}
		slices.SortStableFunc(order, func(x, y int) int { return cmp.Compare(all[y].Mean(), all[x].Mean()) })
		for _, i := range order[:c.best] {
			answers, choices = append(answers, all[i]), append(choices, c.choices[i])
		}
	}
	return answers, choices
}
