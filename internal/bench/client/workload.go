package client

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"ossian/internal/bench"
	"ossian/internal/bench/dataset"
	"ossian/internal/bench/report"
)

// Prepare makes what is sent.
func (c *Client) Prepare(ctx context.Context) (err error) {
	setup := c.setup
	if c.legacy, err = dataset.NewLegacy(c.Seed); err != nil {
		return err
	}
	// What random generators draw depends on the tool, the seed, and what was drawn before:
	// the order of these steps is part of the workload.
	rules := dataset.Rules(setup.Profile) // both name the same tools in the same order
	chatAPI := !strings.HasSuffix(setup.URL, "/completions") || strings.HasSuffix(setup.URL, "/chat/completions")
	common := dataset.Common{Tokenizer: c.tokens.bpe(), Rules: rules, Seed: c.Seed, Legacy: c.legacy}
	if setup.MultiTurn != nil {
		c.work, err = c.Conversations.workload(&c.Data, common)
	} else {
		c.work, err = c.Data.Workload(common, c.tokens.Renderer(c.TemplateVars), chatAPI)
	}
	if err != nil {
		return err
	}
	if err := c.sayGaps(); err != nil {
		return err
	}
	if err := c.shorten(); err != nil {
		return err
	}
	setup.Repeats = report.Repeats(c.work)
	// vLLM's client has its random prompts be as long for the server's tokenizer as for its own.
	if setup.Profile == bench.VLLM && !c.Local && c.server != nil && !c.Data.IDs && (setup.Dataset == "random" || setup.Dataset == "prefix_repetition") {
		switch length, cut, err := c.server.Align(ctx, setup.Model, c.work); {
		case err != nil:
			c.say("WARNING: /tokenize unavailable (%v), skipping alignment.", err)
		case length != c.work[0].Input:
			c.say("WARNING: tokenizer mismatch (server=%d, expected=%d), re-aligning prompts.\n%d prompts had more tokens by the server's tokenizer and were cut", length, c.work[0].Input, cut)
		}
	}
	if err := c.adapters(); err != nil {
		return err
	}
	setup.Hash, err = c.work.Hash()
	c.sayWorkload()
	return err
}

// shorten drops the requests that --max-model-len leaves no room for, as the compiled
// client does.
func (c *Client) shorten() error {
	most := c.MaxLen
	switch {
	case most == 0:
		return nil
	case most < 0 || c.setup.MultiTurn != nil:
		return fmt.Errorf("--max-model-len %d: want a number above 0, and no --multi-turn", most)
	}
	all := len(c.work)
	c.work = slices.DeleteFunc(c.work, func(q dataset.Query) bool { return q.Input+q.Output > most })
	if len(c.work) == 0 {
		return fmt.Errorf("--max-model-len %d: none of %d requests is that short, prompt and output together", most, all)
	}
	if dropped := all - len(c.work); dropped > 0 {
		fmt.Fprintf(c.Log, "--max-model-len %d: %d of %d requests were left out\n", most, dropped, all)
	}
	return nil
}

// adapters has each request, or conversation, ask for one of the LoRA adapters by the name
// that the server has for it. A generator that begins with --seed picks them, as vLLM's
// does where the data set has drawn nothing from it: random prompts.
func (c *Client) adapters() error {
	names, way := c.LoRA, c.LoRAAssignment
	if way != "random" && way != "round-robin" {
		return fmt.Errorf("--lora-assignment %q: want random or round-robin", way)
	}
	if len(names) == 0 {
		return nil
	}
	if slices.Contains(names, "") {
		return errors.New("--lora-modules: want the names of adapters")
	}
	pick, first := dataset.NewPython(c.Seed), 0
	var name json.RawMessage
	for i := range c.work {
		query := &c.work[i]
		if query.Turn == 0 {
			which := first % len(names)
			if first++; way == "random" {
				which = pick.Below(len(names))
			}
			name, _ = json.Marshal(names[which]) // a text
		}
		var err error
		if query.Body, err = withModel(query.Body, name); err != nil {
			return fmt.Errorf("request %d: %w", i, err)
		}
	}
	return nil
}

// withModel is the members that a data set has for a body ("" = none) with a model among them,
// unless they have one.
func withModel(members, model json.RawMessage) (json.RawMessage, error) {
	body := map[string]json.RawMessage{}
	if err := json.Unmarshal([]byte(cmp.Or(string(members), "{}")), &body); err != nil {
		return nil, err
	}
	if body == nil { // the members were null
		return nil, errors.New("the members of the body are null, want an object")
	}
	if _, own := body["model"]; !own {
		body["model"] = model
	}
	return json.Marshal(body)
}

// salted is the workload as the run of that index sends it.
func (c *Client) salted(index int) (bench.Workload, error) {
	c.setup.Salt = ""
	if c.Salt == "" {
		return c.work, nil
	}
	c.setup.Salt = fmt.Sprintf("%s/%d", c.Salt, index)
	work, err := dataset.Salt(c.work, c.tokens.bpe(), c.setup.Salt)
	if err != nil {
		return nil, fmt.Errorf("--salt: %w", err)
	}
	return work, nil
}
