package generate

import (
	"fmt"
	"unicode/utf8"

	"ossian/internal/limits"
	"ossian/internal/wire"
)

// A prompt is what the choices that continue it have in common: its length, and what
// of it is in the reply, an echo and log probabilities. These the engine reports with
// the first choice of the prompt; the others wait until they are known.
type prompt struct {
	tokens int
	left   int                    // choices that have not begun
	ids    []int32                // the prompt, until its log probabilities are known; nil = not asked for
	known  chan struct{}          // closed when they are; nil = not asked for
	echo   Delta                  // what each choice begins with; no field = nothing
	table  [][]wire.PromptLogprob // prompt_logprobs
}

// addPrompts takes over the prompts of a request, of whose tokens it may report most
// log probabilities.
func (j *Job) addPrompts(gen *Generation, spec *choiceSpec, most int64) error {
	scored, entries := spec.scored(), 0
	for i, ids := range gen.Prompts {
		if len(ids) == 0 {
			return wire.Invalid("prompt", "the prompt has no tokens: it is empty, or truncate_prompt_tokens leaves none")
		}
		shared := prompt{tokens: len(ids), left: j.perPrompt}
		if gen.Echo != nil {
			shared.echo = Delta{Field: Content, Text: gen.Echo[i]}
			j.size += int64(len(gen.Echo[i]))
		}
		if scored >= 0 {
			shared.ids, shared.known = ids, make(chan struct{})
			entries += len(ids) * (1 + scored) * j.perPrompt
		}
		j.prompts = append(j.prompts, shared)
	}
	// One engine pass finds them all, but each choice has them in its reply.
	if int64(entries) > most {
		name := limits.PromptLogprobs.String()
		return &wire.Error{Type: wire.TypeInvalidRequest, Param: "prompt_logprobs", Code: wire.CodeInvalidValue, Limit: name,
			Message: fmt.Sprintf("%d log probabilities of prompt tokens, at most %d are accepted; the server's --limit %s=N allows more", entries, most, name)}
	}
	j.size += int64(entries) * (logprobSize + promptLogprobSize)
	return nil
}

// begin gives a choice what precedes its first token.
func (j *Job) begin(choice int) {
	answer, shared := j.answers[choice], &j.prompts[choice/j.perPrompt]
	if answer.begun {
		return
	}
	answer.begun = true
	if shared.ids != nil { // the choice is the prompt's first: what the engine found out of it is here
		scores := j.streams[choice].Scores()
		if answer.spec.echoLogprobs {
			shared.echo.Logprobs = answer.spec.spelled(shared.ids, scores)
		}
		if answer.spec.promptTable {
			shared.table = answer.spec.tabled(scores)
		}
		shared.ids = nil
		close(shared.known)
	}
	answer.PromptLogprobs = shared.table
	if shared.echo.Field != NoField {
		answer.Deltas = append(answer.Deltas, shared.echo)
		answer.said = answer.said || shared.echo.Text != ""
		if answer.turn != nil && answer.turn.cites != nil {
			answer.turn.cites.count += utf8.RuneCountInString(shared.echo.Text)
		}
	}
	if shared.left--; shared.left == 0 {
		j.size -= int64(len(shared.echo.Text))
		shared.echo = Delta{} // it is large, and a stream may last
	}
}
