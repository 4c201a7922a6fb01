package dataset

import (
	"encoding/json"
	"errors"
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
func ShareGPT(o ShareGPTOptions) ([]Query, error) {
	if err := o.check(1024, flag{"--sharegpt-output-len", o.Output, 0}, flag{"--sharegpt-context-len", o.Context, 0}); err != nil {
		return nil, err
	}
	if old := o.Rules == LMDeploy || o.Rules == SGLang; old && o.Output > 0 && o.Output < 4 {
		return nil, fmt.Errorf("--sharegpt-output-len %d: this tool takes 4 or more", o.Output)
	}
	c, err := newCoder(o.Tokenizer)
	if err != nil {
		return nil, err
	}
	list, err := openShareGPT(o.Path, o.Rules)
	if err != nil {
		return nil, err
	}
	swap := func(i, j int) { list[i], list[j] = list[j], list[i] }
	pick, special := NewPython(o.Seed).Below, len(c.begin)
	if o.Rules == VLLMRust { // goes on with one generator and counts bare texts
		g := NewRust(uint64(o.Seed))
		if !o.KeepOrder {
			g.Shuffle(len(list), swap)
		}
		pick, special = g.Below, 0
	} else if !o.KeepOrder {
		NewPython(o.Seed).Shuffle(len(list), swap)
	}
	var queries []Query
	for _, t := range list {
		if len(queries) == o.Prompts {
			return queries, nil
		}
		if o.Render != nil {
			if t.prompt, err = o.Render(t.prompt); err != nil {
				return nil, err
			}
			for _, id := range c.begin { // the server puts them there
				t.prompt = strings.ReplaceAll(t.prompt, c.bpe.Text(id), "")
			}
		}
		in, out := special+len(c.encode(t.prompt)), o.Output
		if out == 0 {
			out = special + len(c.encode(t.answer))
		}
		if o.keeps(in, out) {
			queries = append(queries, Query{Prompt: t.prompt, Input: in, Output: out, ID: o.id(len(queries))})
		}
	}
	if len(queries) == 0 {
		return nil, fmt.Errorf("%s: none of %d conversations has a usable length; see --sharegpt-output-len and --sharegpt-context-len", o.Path, len(list))
	}
	if o.Rules != LMDeploy && o.Rules != SGLang && !o.NoOversample {
		queries = o.oversample(queries, pick)
	}
	return queries, nil
}

// keeps says whether a conversation of these lengths belongs to the workload.
func (o *ShareGPTOptions) keeps(in, out int) bool {
	fixed := o.Output > 0
	switch o.Rules {
	case SGLang:
		return in >= 2 && out >= 2 && (o.Context == 0 || in+out <= o.Context)
	case LMDeploy:
		return in >= 4 && out >= 4 && in <= 1024 && (fixed || in+out <= 2048)
	}
	return in >= 4 && (fixed || out >= 4) && in <= 1024 && in+out <= 2048
}

// turns are the first two of a conversation.
type turns struct{ prompt, answer string }

func openShareGPT(path string, rules Rules) ([]turns, error) {
	return readFile(path, "--dataset-path", func(r io.Reader) ([]turns, error) { return readShareGPT(r, rules) })
}

// readShareGPT reads an array of conversations, one at a time, and keeps those of two
// turns or more.
func readShareGPT(r io.Reader, rules Rules) ([]turns, error) {
	var list []turns
	err := eachConversation(r, func(entry *conversation) error {
		c := entry.Conversations
		if c == nil && (rules == LMDeploy || rules == SGLang) {
			c = entry.Conversation
		}
		if len(c) < 2 {
			return nil
		}
		var t turns
		for k, text := range []*string{&t.prompt, &t.answer} {
			var err error
			if *text, err = c[k].text(k); err != nil {
				return err
			}
		}
		list = append(list, t)
		return nil
	})
	if err != nil {
		return nil, err
	}
	if len(list) == 0 {
		return nil, errors.New("no conversation has two turns")
	}
	return list, nil
}

// A conversation is an entry of ShareGPT's file.
type conversation struct{ Conversations, Conversation []turn }

type turn struct {
	From  json.RawMessage
	Value json.RawMessage
}

// text is what turn number k, from 0, says.
func (t *turn) text(k int) (string, error) {
	text := new(string)
	if err := json.Unmarshal(t.Value, &text); err != nil || text == nil {
		return "", fmt.Errorf("field \"value\" of turn %d is %.40q, want a string", k+1, t.Value)
	}
	return *text, nil
}

// eachConversation reads an array of them, one at a time. Errors say in which entry.
func eachConversation(r io.Reader, do func(*conversation) error) error {
	b := newBounded(r)
	dec := json.NewDecoder(b)
	t, err := dec.Token()
	if err != nil {
		return explain(err)
	}
	if t != json.Delim('[') {
		return fmt.Errorf("it begins with %.40v, want a JSON array of conversations as in ShareGPT_V3_unfiltered_cleaned_split.json", t)
	}
	n := 0
	for ; dec.More(); n++ {
		b.unit = maxUnit
		var entry conversation
		if err = explain(dec.Decode(&entry)); err == nil {
			err = do(&entry)
		}
		if err != nil {
			return fmt.Errorf("entry %d: %w", n+1, err)
		}
	}
	if _, err := dec.Token(); err != nil {
		return fmt.Errorf("after entry %d: %w", n, explain(err))
	}
	return nil
}
