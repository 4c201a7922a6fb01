package bench

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"ossian/internal/bench"
	"ossian/internal/bench/dataset"
)

// turnOptions are the flags of conversations; names and defaults are those of vLLM's
// compiled client.
type turnOptions struct {
	on                 bool
	turns, least, most int
	concurrency, delay int
	next               int
	global, ownShare   float64
}

func (t *turnOptions) flags(f *pflag.FlagSet) {
	f.BoolVar(&t.on, "multi-turn", false, "have conversations: --num-prompts of them, each turn with the history and its real answers")
	f.IntVar(&t.turns, "multi-turn-num-turns", 3, "turns of a conversation of random content")
	f.IntVar(&t.least, "multi-turn-min-turns", 0, "fewest turns; 0 = --multi-turn-num-turns, of ShareGPT 2")
	f.IntVar(&t.most, "multi-turn-max-turns", 0, "most turns; 0 = --multi-turn-num-turns, of ShareGPT no bound")
	f.IntVar(&t.concurrency, "multi-turn-concurrency", 0, "most requests at once; 0 = --max-concurrency")
	f.IntVar(&t.delay, "multi-turn-delay-ms", 0, "from an answer to the next turn")
	f.IntVar(&t.next, "per-turn-input-len", 0, "`TOKENS` of turns behind the first; 0 = as the first")
	f.Float64Var(&t.global, "multi-turn-prefix-global-ratio", 0, "share of every turn that all conversations have; above 0, turns go without the history")
	f.Float64Var(&t.ownShare, "multi-turn-prefix-conversation-ratio", 0, "share that all turns of a conversation have; above 0, turns go without the history")
}

// setup says in s how conversations go.
func (t *turnOptions) setup(s *bench.Setup) error {
	if !t.on {
		return nil
	}
	switch {
	case s.Profile == bench.LMDeploy || s.Profile == bench.SGLang:
		return fmt.Errorf("--multi-turn is vLLM's; --compat %s has no such runs", s.Profile)
	case !strings.HasSuffix(s.Backend, "chat"):
		return fmt.Errorf("--multi-turn needs a backend of chats such as openai-chat, not %s", s.Backend)
	case s.Dataset != "random" && s.Dataset != "sharegpt":
		return fmt.Errorf("--multi-turn is for data sets random and sharegpt, not %s", s.Dataset)
	case t.delay < 0 || t.concurrency < 0:
		return fmt.Errorf("--multi-turn-delay-ms %d and --multi-turn-concurrency %d: want 0 or more", t.delay, t.concurrency)
	}
	if t.concurrency > 0 {
		s.Arrivals.Concurrency = t.concurrency
	}
	s.MultiTurn = &bench.MultiTurn{Turns: t.turns, Delay: time.Duration(t.delay) * time.Millisecond, Global: t.global, Own: t.ownShare}
	return nil
}

// workload makes the conversations.
func (t *turnOptions) workload(d *dataOptions, c dataset.Common) (bench.Workload, error) {
	o := dataset.TurnsOptions{Common: c, Path: d.path, Output: d.sharegptOutput, Turns: t.turns, Least: t.least, Most: t.most,
		Global: t.global, Own: t.ownShare, KeepOrder: d.keepOrder, NoRepeats: d.noOversample}
	o.Prompts = d.prompts
	switch {
	case d.name == "sharegpt" && d.path == "":
		return nil, fmt.Errorf("data set sharegpt needs --dataset-path FILE; random needs none")
	case d.name == "random" && d.path != "":
		return nil, fmt.Errorf("--dataset-path %s: data set random reads no file; --dataset-name sharegpt does", d.path)
	case d.name == "random":
		o.Input, o.Next, o.Output = d.random.input, t.next, d.random.output
		if d.input > 0 {
			o.Input = d.input
		}
	}
	if d.output > 0 {
		o.Output = d.output
	}
	return dataset.Turns(o)
}
