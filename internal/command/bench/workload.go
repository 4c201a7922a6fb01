package bench

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

// workload makes what is sent.
func (m *measurement) workload(ctx context.Context) (err error) {
	setup := m.setup
	if m.legacy, err = dataset.NewLegacy(m.o.seed); err != nil {
		return err
	}
	// What random generators draw depends on the tool, the seed, and what was drawn before:
	// the order of these steps is part of the workload.
	rules := dataset.Rules(setup.Profile) // both name the same tools in the same order
	chatAPI := !strings.HasSuffix(setup.URL, "/completions") || strings.HasSuffix(setup.URL, "/chat/completions")
	common := dataset.Common{Tokenizer: m.tok, Rules: rules, Seed: m.o.seed, Legacy: m.legacy}
	if setup.MultiTurn != nil {
		m.work, err = m.o.turns.workload(&m.o.data, common)
	} else {
		m.work, err = m.o.data.workload(common, m.render(), chatAPI)
	}
	if err != nil {
		return err
	}
	if err := m.sayGaps(); err != nil {
		return err
	}
	if err := m.shorten(); err != nil {
		return err
	}
	setup.Repeats = report.Repeats(m.work)
	// vLLM's client has its random prompts be as long for the server's tokenizer as for its own.
	if setup.Profile == bench.VLLM && !m.local && m.server != nil && !m.o.data.asID && (setup.Dataset == "random" || setup.Dataset == "prefix_repetition") {
		switch length, cut, err := m.server.Align(ctx, setup.Model, m.work); {
		case err != nil:
			m.say("WARNING: /tokenize unavailable (%v), skipping alignment.", err)
		case length != m.work[0].Input:
			m.say("WARNING: tokenizer mismatch (server=%d, expected=%d), re-aligning prompts.\n%d prompts had more tokens by the server's tokenizer and were cut", length, m.work[0].Input, cut)
		}
	}
	if err := m.adapters(); err != nil {
		return err
	}
	setup.Hash, err = m.work.Hash()
	m.sayWorkload()
	return err
}

// shorten drops the requests that --max-model-len leaves no room for, as the compiled
// client does.
func (m *measurement) shorten() error {
	most := m.o.maxLen
	switch {
	case most == 0:
		return nil
	case most < 0 || m.setup.MultiTurn != nil:
		return fmt.Errorf("--max-model-len %d: want a number above 0, and no --multi-turn", most)
	}
	all := len(m.work)
	m.work = slices.DeleteFunc(m.work, func(q dataset.Query) bool { return q.Input+q.Output > most })
	if len(m.work) == 0 {
		return fmt.Errorf("--max-model-len %d: none of %d requests is that short, prompt and output together", most, all)
	}
	if dropped := all - len(m.work); dropped > 0 {
		fmt.Fprintf(m.log, "--max-model-len %d: %d of %d requests were left out\n", most, dropped, all)
	}
	return nil
}

// adapters has each request, or conversation, ask for one of the LoRA adapters by the name
// that the server has for it. A generator that begins with --seed picks them, as vLLM's
// does where the data set has drawn nothing from it: random prompts.
func (m *measurement) adapters() error {
	names, way := m.o.lora, m.o.loraAssignment
	if way != "random" && way != "round-robin" {
		return fmt.Errorf("--lora-assignment %q: want random or round-robin", way)
	}
	if len(names) == 0 {
		return nil
	}
	if slices.Contains(names, "") {
		return errors.New("--lora-modules: want the names of adapters")
	}
	pick, first := dataset.NewPython(m.o.seed), 0
	var name json.RawMessage
	for i := range m.work {
		query := &m.work[i]
		if query.Turn == 0 {
			which := first % len(names)
			if first++; way == "random" {
				which = pick.Below(len(names))
			}
			name, _ = json.Marshal(names[which]) // a text
		}
		// A data set may have members of its own in a body, and a model among them.
		body := map[string]json.RawMessage{}
		if err := json.Unmarshal([]byte(cmp.Or(string(query.Body), "{}")), &body); err != nil {
			return fmt.Errorf("request %d: %w", i, err)
		}
		if _, own := body["model"]; !own {
			body["model"] = name
		}
		query.Body, _ = json.Marshal(body) // of members that are JSON
	}
	return nil
}

// salted is the workload as the run of that index sends it.
func (m *measurement) salted(index int) (bench.Workload, error) {
	m.setup.Salt = ""
	if m.o.salt == "" {
		return m.work, nil
	}
	m.setup.Salt = fmt.Sprintf("%s/%d", m.o.salt, index)
	work, err := dataset.Salt(m.work, m.tok, m.setup.Salt)
	if err != nil {
		return nil, fmt.Errorf("--salt: %w", err)
	}
	return work, nil
}
