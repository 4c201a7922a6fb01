package server

import (
	"fmt"
	"math"

	"ossian/internal/limits"
	"ossian/internal/sample"
	"ossian/internal/wire"
)

// A prompt is what the choices that continue it have in common.
type prompt struct {
	n     int                    // tokens
	left  int                    // choices that have not begun
	ids   []int32                // the same, until their log probabilities are known; nil = not asked for
	known chan struct{}          // closed when they are
	echo  delta                  // what each choice begins with; no field = nothing
	table [][]wire.PromptLogprob // prompt_logprobs
}

// scored returns how many alternatives of each prompt token the engine has to report;
// -1 = no log probabilities of the prompt are asked for.
func (p *plan) scored() int {
	n := -1
	if p.table {
		n = p.tableTop
	}
	if p.echoed {
		n = max(n, p.top)
	}
	return n
}

// addPrompts takes over the prompts of a request, of whose tokens it may report most
// log probabilities.
func (j *job) addPrompts(p *plan, g *generation, most int64) error {
	entries := 0
	for i, ids := range g.prompts {
		if len(ids) == 0 {
			return wire.Invalid("prompt", "the prompt has no tokens: it is empty, or truncate_prompt_tokens leaves none")
		}
		q := prompt{n: len(ids), left: j.n}
		if g.echo != nil {
			q.echo = delta{field: content, text: g.echo[i]}
			j.size += int64(len(g.echo[i]))
		}
		if p.scored() >= 0 {
			q.ids, q.known = ids, make(chan struct{})
			entries += len(ids) * (1 + p.scored()) * j.n
		}
		j.prompts = append(j.prompts, q)
	}
	if int64(entries) > most {
		name := limits.PromptLogprobs.String()
		return &wire.Error{Type: wire.TypeInvalidRequest, Param: "prompt_logprobs", Code: wire.CodeInvalidValue, Limit: name,
			Message: fmt.Sprintf("%d log probabilities of prompt tokens, at most %d are accepted; the server's --limit %s=N allows more", entries, most, name)}
	}
	j.size += int64(entries) * (logprobSize + promptLogprobSize)
	return nil
}

// promptLogprobSize is the size of a wire.PromptLogprob in memory, in bytes.
const promptLogprobSize = 40

// begin gives choice i what precedes its first token.
func (j *job) begin(i int) {
	a, p := j.answers[i], &j.prompts[i/j.n]
	if a.begun {
		return
	}
	a.begun = true
	if p.ids != nil { // the choice is the prompt's first
		scores := j.streams[i].Scores()
		if a.echoed {
			p.echo.logprobs = a.spelled(p.ids, scores)
		}
		if a.table {
			p.table = a.tabled(scores)
		}
		p.ids = nil
		close(p.known)
	}
	a.prompt = p.table
	if p.echo.field != noField {
		a.deltas = append(a.deltas, p.echo)
		a.said = a.said || p.echo.text != ""
	}
	if p.left--; p.left == 0 {
		j.size -= int64(len(p.echo.text))
		p.echo = delta{} // it is large, and a stream may last
	}
}

// spelled returns the tokens of an echoed prompt with their log probabilities; the
// first has none.
func (p *plan) spelled(ids []int32, scores []sample.Score) []wire.TokenLogprob {
	list := make([]wire.TokenLogprob, len(ids))
	for i, id := range ids {
		text := p.tok.Text(id)
		list[i] = wire.TokenLogprob{Token: text, Bytes: text}
		if i > 0 {
			p.show(&list[i], scores[i-1].Logprobs)
			continue
		}
		list[i].Logprob = float32(math.NaN())
		if p.asIDs {
			list[i].Token = tokenID(id)
		}
	}
	return list
}

// tabled returns what prompt_logprobs asks for: of each prompt token, the first left
// out, its own log probability and those of the likeliest ids.
func (p *plan) tabled(scores []sample.Score) [][]wire.PromptLogprob {
	table := make([][]wire.PromptLogprob, 1, 1+len(scores))
	for i := range scores {
		all := scores[i].Logprobs
		own := wire.PromptLogprob{ID: all[0].ID, Token: p.tok.Text(all[0].ID), Logprob: all[0].Logprob, Rank: scores[i].Rank}
		row := append(make([]wire.PromptLogprob, 0, len(all)), own)
		for k, l := range all[1:][:min(p.tableTop, len(all)-1)] {
			if l.ID != own.ID {
				row = append(row, wire.PromptLogprob{ID: l.ID, Token: p.tok.Text(l.ID), Logprob: l.Logprob, Rank: k + 1})
			}
		}
		table = append(table, row)
	}
	return table
}
