package client

import (
	"fmt"
	"strings"
	"time"

	"ossian/internal/bench"
	"ossian/internal/bench/dataset"
)

// Conversations are runs of several turns (bench.md 1.10); their number is Data.Prompts. Names
// are those of the flags of vLLM's compiled client.
type Conversations struct {
	On          bool
	Turns       int // of a conversation of random content
	Least, Most int // turns; 0 = Turns, of ShareGPT 2 and no bound
	Concurrency int // most requests at once; 0 = Arrivals.Concurrency
	Delay       time.Duration
	Next        int     // tokens of turns behind the first; 0 = as the first
	Global, Own float64 // shares of a turn that all conversations, all turns of one, begin with; above 0, turns go without the history
}

// setup says in a setup how conversations go.
func (t *Conversations) setup(setup *bench.Setup) error {
	if !t.On {
		return nil
	}
	switch {
	case setup.Profile == bench.LMDeploy || setup.Profile == bench.SGLang:
		return fmt.Errorf("--multi-turn is vLLM's; --compat %s has no such runs", setup.Profile)
	case !strings.HasSuffix(setup.Backend, "chat"):
		return fmt.Errorf("--multi-turn needs a backend of chats such as openai-chat, not %s", setup.Backend)
	case setup.Dataset != "random" && setup.Dataset != "sharegpt":
		return fmt.Errorf("--multi-turn is for data sets random and sharegpt, not %s", setup.Dataset)
	case t.Delay < 0 || t.Concurrency < 0:
		return fmt.Errorf("--multi-turn-delay-ms %d and --multi-turn-concurrency %d: want 0 or more", t.Delay.Milliseconds(), t.Concurrency)
	}
	if t.Concurrency > 0 {
		setup.Arrivals.Concurrency = t.Concurrency
	}
	setup.MultiTurn = &bench.MultiTurn{Turns: t.Turns, Delay: t.Delay, Global: t.Global, Own: t.Own}
	return nil
}

// workload makes the conversations.
func (t *Conversations) workload(data *Data, c dataset.Common) (bench.Workload, error) {
	options := dataset.TurnsOptions{Common: c, Path: data.Path, Output: data.ShareGPTOutput, Turns: t.Turns, Least: t.Least, Most: t.Most,
		Global: t.Global, Own: t.Own, KeepOrder: data.KeepOrder, NoRepeats: data.NoOversample}
	options.Prompts = data.Prompts
	switch {
	case data.Name == "sharegpt" && data.Path == "":
		return nil, fmt.Errorf("data set sharegpt needs --dataset-path FILE; random needs none")
	case data.Name == "random" && data.Path != "":
		return nil, fmt.Errorf("--dataset-path %s: data set random reads no file; --dataset-name sharegpt does", data.Path)
	case data.Name == "random":
		options.Input, options.Next, options.Output = data.Random.Input, t.Next, data.Random.Output
		if data.Input > 0 {
			options.Input = data.Input
		}
	}
	if data.Output > 0 {
		options.Output = data.Output
	}
	return dataset.Turns(options)
}
