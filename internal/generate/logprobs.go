package generate

import (
	"math"
	"strconv"

	"ossian/internal/sample"
	"ossian/internal/wire"
)

// Sizes in memory, in bytes: a list of log probabilities without its elements, one of the
// engine's, one as replies have it, and one of prompt_logprobs.
const (
	logprobsSize      = 24
	logprobSize       = 8
	logprobOutSize    = 64
	promptLogprobSize = 40
)

// entry is the log probability of a token as replies show it.
func (a *Answer) entry(part piece) wire.TokenLogprob {
	all := a.logprobOf[part.token]
	a.logprobOf[part.token] = nil
	a.size -= int64(len(all)) * logprobSize
	entry := wire.TokenLogprob{Token: part.bytes, Bytes: part.bytes}
	if len(all) > 0 {
		if part.hidden {
			entry.Token = a.spec.tok.Text(all[0].ID)
		}
		a.spec.show(&entry, all)
	}
	return entry
}

// show fills in the log probabilities of a token: its own, then those of the likeliest.
func (spec *choiceSpec) show(entry *wire.TokenLogprob, all []sample.Logprob) {
	entry.Logprob = all[0].Logprob
	if spec.tokensAsIDs {
		entry.Token = tokenID(all[0].ID)
	}
	likeliest := all[1:][:min(spec.topLogprobs, len(all)-1)]
	entry.Top = make([]wire.TokenLogprob, 0, len(likeliest)+1) // completions add the token itself
	for _, one := range likeliest {
		text := spec.tok.Text(one.ID)
		top := wire.TokenLogprob{Token: text, Bytes: text, Logprob: one.Logprob}
		if spec.tokensAsIDs {
			top.Token = tokenID(one.ID)
		}
		entry.Top = append(entry.Top, top)
	}
}

// spelled returns the tokens of an echoed prompt with their log probabilities; the
// first has none.
func (spec *choiceSpec) spelled(ids []int32, scores []sample.Score) []wire.TokenLogprob {
	list := make([]wire.TokenLogprob, len(ids))
	for i, id := range ids {
		text := spec.tok.Text(id)
		list[i] = wire.TokenLogprob{Token: text, Bytes: text}
		if i > 0 {
			spec.show(&list[i], scores[i-1].Logprobs)
			continue
		}
		list[i].Logprob = float32(math.NaN())
		if spec.tokensAsIDs {
			list[i].Token = tokenID(id)
		}
	}
	return list
}

// tabled returns what prompt_logprobs asks for: of each prompt token, the first left
// out, its own log probability and those of the likeliest ids.
func (spec *choiceSpec) tabled(scores []sample.Score) [][]wire.PromptLogprob {
	table := make([][]wire.PromptLogprob, 1, 1+len(scores))
	for i := range scores {
		all := scores[i].Logprobs
		own := wire.PromptLogprob{ID: all[0].ID, Token: spec.tok.Text(all[0].ID), Logprob: all[0].Logprob, Rank: scores[i].Rank}
		row := append(make([]wire.PromptLogprob, 0, len(all)), own)
		for k, one := range all[1:][:min(spec.promptTableTop, len(all)-1)] {
			if one.ID != own.ID {
				row = append(row, wire.PromptLogprob{ID: one.ID, Token: spec.tok.Text(one.ID), Logprob: one.Logprob, Rank: k + 1})
			}
		}
		table = append(table, row)
	}
	return table
}

func tokenID(id int32) string { return "token_id:" + strconv.Itoa(int(id)) }
