package responses

import (
	"encoding/json"

	"ossian/internal/generate"
	"ossian/internal/tools"
	"ossian/internal/wire/response"
)

// What is stored of a response whose answer called tools of the server, besides its object: enough
// to write the prompts that it had once more. Responses of before, and those without such calls,
// have none of it.

// A trail says how an answer came about.
type trail struct {
	Steps []step              `json:"steps,omitempty"`
	Asked map[string]string   `json:"asked,omitempty"` // recipients of calls that wait for the client, by id of the item
	Chain string              `json:"chain,omitempty"` // the first response of the conversation; "" = this one
	State json.RawMessage     `json:"state,omitempty"` // of the tools (tools.Chain)
	Print string              `json:"print,omitempty"` // of the model: for whom its reasoning is sealed
	Shown map[string]withheld `json:"shown,omitempty"` // what calls gave that the request did not include, by id of the item
}

// A withheld is what of a call clients are shown on request.
type withheld struct {
	Logs    *string        `json:"logs,omitempty"` // of code
	Sources []tools.Source `json:"sources,omitempty"`
}

// A step is one turn of the model: what was sampled, then what its calls gave.
type step struct {
	IDs     int      `json:"ids"` // how many of the record's are of it
	Results []result `json:"results,omitempty"`
}

// A result is what the model read of a call.
type result struct {
	Item      string `json:"item"` // of the call; "" = it has none
	Recipient string `json:"to"`
	Text      string `json:"text"`
}

// empty reports whether there is nothing to store.
func (t *trail) empty() bool {
	return len(t.Steps) == 0 && len(t.Asked) == 0 && t.Chain == "" && t.State == nil && t.Print == "" && len(t.Shown) == 0
}

// trailOf returns the steps of an answer, and their ids. Served are its calls that have items, in
// order: calls of tools that nobody offered have results and no items.
func trailOf(steps []generate.Step, served []result) (out []step, ids []int32) {
	called := false
	for i := range steps {
		one := step{IDs: len(steps[i].IDs)}
		for _, gave := range steps[i].Results {
			it := result{Recipient: gave.Recipient, Text: gave.Text}
			if len(served) > 0 && served[0].Recipient == gave.Recipient {
				it.Item, served = served[0].Item, served[1:]
			}
			one.Results, called = append(one.Results, it), true
		}
		out, ids = append(out, one), append(ids, steps[i].IDs...)
	}
	if !called {
		out = nil
	}
	return out, ids
}

// split returns how many of a response's items belong to each step: those up to its last call, in
// the last step all.
func (t *trail) split(output []response.Item) []int {
	counts, at := make([]int, len(t.Steps)), 0
	for i := range t.Steps {
		end := at
		for k := at; k < len(output); k++ {
			for _, gave := range t.Steps[i].Results {
				if gave.Item == output[k].ID && gave.Item != "" {
					end = k + 1
				}
			}
		}
		if i == len(t.Steps)-1 {
			end = len(output)
		}
		counts[i], at = end-at, end
	}
	return counts
}
