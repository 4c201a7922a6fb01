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

func (t *turnOptions) flags(flags *pflag.FlagSet) {
	flags.BoolVar(&t.on, "multi-turn", false, "have conversations: --num-prompts of them, each turn with the history and its real answers")
	flags.IntVar(&t.turns, "multi-turn-num-turns", 3, "turns of a conversation of random content")
	flags.IntVar(&t.least, "multi-turn-min-turns", 0, "fewest turns; 0 = --multi-turn-num-turns, of ShareGPT 2")
	flags.IntVar(&t.most, "multi-turn-max-turns", 0, "most turns; 0 = --multi-turn-num-turns, of ShareGPT no bound")
	flags.IntVar(&t.concurrency, "multi-turn-concurrency", 0, "most requests at once; 0 = --max-concurrency")
	flags.IntVar(&t.delay, "multi-turn-delay-ms", 0, "from an answer to the next turn")
	flags.IntVar(&t.next, "per-turn-input-len", 0, "`TOKENS` of turns behind the first; 0 = as the first")
	flags.Float64Var(&t.global, "multi-turn-prefix-global-ratio", 0, "share of every turn that all conversations have; above 0, turns go without the history")
	flags.Float64Var(&t.ownShare, "multi-turn-prefix-conversation-ratio", 0, "share that all turns of a conversation have; above 0, turns go without the history")
}

// setup says in a setup how conversations go.
func (t *turnOptions) setup(setup *bench.Setup) error {
	if !t.on {
		return nil
	}
	switch {
	case setup.Profile == bench.LMDeploy || setup.Profile == bench.SGLang:
		return fmt.Errorf("--multi-turn is vLLM's; --compat %s has no such runs", setup.Profile)
	case !strings.HasSuffix(setup.Backend, "chat"):
		return fmt.Errorf("--multi-turn needs a backend of chats such as openai-chat, not %s", setup.Backend)
	case setup.Dataset != "random" && setup.Dataset != "sharegpt":
		return fmt.Errorf("--multi-turn is for data sets random and sharegpt, not %s", setup.Dataset)
	case t.delay < 0 || t.concurrency < 0:
		return fmt.Errorf("--multi-turn-delay-ms %d and --multi-turn-concurrency %d: want 0 or more", t.delay, t.concurrency)
	}
	if t.concurrency > 0 {
		setup.Arrivals.Concurrency = t.concurrency
	}
	setup.MultiTurn = &bench.MultiTurn{Turns: t.turns, Delay: time.Duration(t.delay) * time.Millisecond, Global: t.global, Own: t.ownShare}
	return nil
}

// workload makes the conversations.
func (t *turnOptions) workload(data *dataOptions, c dataset.Common) (bench.Workload, error) {
	options := dataset.TurnsOptions{Common: c, Path: data.path, Output: data.sharegptOutput, Turns: t.turns, Least: t.least, Most: t.most,
		Global: t.global, Own: t.ownShare, KeepOrder: data.keepOrder, NoRepeats: data.noOversample}
	options.Prompts = data.prompts
	switch {
	case data.name == "sharegpt" && data.path == "":
		return nil, fmt.Errorf("data set sharegpt needs --dataset-path FILE; random needs none")
	case data.name == "random" && data.path != "":
		return nil, fmt.Errorf("--dataset-path %s: data set random reads no file; --dataset-name sharegpt does", data.path)
	case data.name == "random":
		options.Input, options.Next, options.Output = data.random.input, t.next, data.random.output
		if data.input > 0 {
			options.Input = data.input
		}
	}
	if data.output > 0 {
		options.Output = data.output
	}
	return dataset.Turns(options)
}
