package dataset

import (
	"fmt"
	"io"
	"strings"
)

// ShareGPTOptions are the flags of data set sharegpt (bench.md 2.2, 4.1).
type ShareGPTOptions struct {
	Common
	Path         string // --dataset-path: ShareGPT_V3_unfiltered_cleaned_split.json or its like
	Output       int    // --sharegpt-output-len; 0 = as many tokens as the answer in the file
	Context      int    // --sharegpt-context-len: most tokens of both; 0 = no bound; SGLang
	KeepOrder    bool   // --disable-shuffle
	NoOversample bool   // --no-oversample
	// Render puts a prompt in the model's chat template; nil = none (--apply-chat-template).
	Render func(prompt string) (string, error)
}

// ShareGPT returns the first turns of conversations, each with as much output as the
// second turn has. LMDeploy and SGLang return fewer than asked for when the file has
// no more; the others repeat some unless NoOversample is set.
func ShareGPT(opts ShareGPTOptions) ([]Query, error) {
	if err := opts.check(1024, flag{"--sharegpt-output-len", opts.Output, 0}, flag{"--sharegpt-context-len", opts.Context, 0}); err != nil {
		return nil, err
	}
	if old := opts.Rules == LMDeploy || opts.Rules == SGLang; old && opts.Output > 0 && opts.Output < 4 {
		return nil, fmt.Errorf("--sharegpt-output-len %d: this tool takes 4 or more", opts.Output)
	}
	coder, err := newCoder(opts.Tokenizer)
	if err != nil {
		return nil, err
	}
	list, err := openExchanges(opts.Path, opts.Rules)
	if err != nil {
		return nil, err
	}
	swap := func(i, j int) { list[i], list[j] = list[j], list[i] }
	pick, special := NewPython(opts.Seed).Below, len(coder.begin)
	if opts.Rules == VLLMRust { // goes on with one generator and counts bare texts
		rng := NewRust(uint64(opts.Seed))
		if !opts.KeepOrder {
			rng.Shuffle(len(list), swap)
		}
		pick, special = rng.Below, 0
	} else if !opts.KeepOrder {
		NewPython(opts.Seed).Shuffle(len(list), swap)
	}
	// Conversations of other lengths are passed over until there are enough.
	var queries []Query
	for _, talk := range list {
		if len(queries) == opts.Prompts {
			return queries, nil
		}
		if opts.Render != nil {
			if talk.prompt, err = opts.Render(talk.prompt); err != nil {
				return nil, err
			}
			for _, id := range coder.begin { // the server puts them there
				talk.prompt = strings.ReplaceAll(talk.prompt, coder.bpe.Text(id), "")
			}
		}
		in, out := special+len(coder.encode(talk.prompt)), opts.Output
		if out == 0 {
			out = special + len(coder.encode(talk.answer))
		}
		if opts.keeps(in, out) {
			queries = append(queries, Query{Prompt: talk.prompt, Input: in, Output: out, ID: opts.id(len(queries))})
		}
	}
	if len(queries) == 0 {
		return nil, fmt.Errorf("%s: none of %d conversations has a usable length; see --sharegpt-output-len and --sharegpt-context-len", opts.Path, len(list))
	}
	if opts.Rules != LMDeploy && opts.Rules != SGLang && !opts.NoOversample {
		queries = opts.oversample(queries, pick)
	}
	return queries, nil
}

// keeps says whether a conversation of these lengths belongs to the workload.
func (opts *ShareGPTOptions) keeps(in, out int) bool {
	fixed := opts.Output > 0
	switch opts.Rules {
	case SGLang:
		return in >= 2 && out >= 2 && (opts.Context == 0 || in+out <= opts.Context)
	case LMDeploy:
		return in >= 4 && out >= 4 && in <= 1024 && (fixed || in+out <= 2048)
	}
	return in >= 4 && (fixed || out >= 4) && in <= 1024 && in+out <= 2048
}

// An exchange is a prompt and its answer: the first two turns of a conversation, or a later
// pair of them.
type exchange struct{ prompt, answer string }

// openExchanges reads ShareGPT's file at path.
func openExchanges(path string, rules Rules) ([]exchange, error) {
	return readFile(path, "--dataset-path", func(r io.Reader) ([]exchange, error) { return readExchanges(r, rules) })
}

// readExchanges reads conversations, one at a time, and keeps those of two turns or more.
func readExchanges(r io.Reader, rules Rules) ([]exchange, error) {
	var list []exchange
	entries := 0
	err := eachConversation(r, func(entry *conversation) error {
		entries++
		said := entry.said() // some files spell it in the singular, which two tools read
		if said == nil && (rules == LMDeploy || rules == SGLang) {
			said = entry.Conversation
		}
		var texts []string
		for at, raw := range said[:min(len(said), maxLead)] {
			if len(texts) == 2 {
				break
			}
			one, err := readTurn(raw, at+1)
			if err != nil {
				return err
			}
			if one.leads() {
				continue
			}
			text, err := one.text()
			if err != nil {
				return err
			}
			texts = append(texts, text)
		}
		if len(texts) == 2 {
			list = append(list, exchange{texts[0], texts[1]})
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("no conversation has two turns: none of %d entries has an array of them as \"conversations\" or \"messages\"", entries)
	}
	return list, nil
}
