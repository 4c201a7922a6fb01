package bench

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"ossian/internal/bench/client"
	"ossian/internal/bench/dataset"
	"ossian/internal/bench/offline"
	"ossian/internal/chat"
	"ossian/internal/ckpt"
	"ossian/internal/config"
	"ossian/internal/load"
	"ossian/internal/terminal"
)

// throughputOptions are the flags of ossian bench throughput.
type throughputOptions struct {
	*offlineOptions
	data    client.Data
	backend string
	prefix  int // tokens
}

// throughputCommand is ossian bench throughput.
func throughputCommand(plan planner) *cobra.Command {
	opts := &throughputOptions{offlineOptions: newOfflineOptions("throughput", plan)}
	flags := opts.set
	flags.StringVar(&opts.backend, "backend", "vllm", "how prompts get to the engine: vllm = as they are, vllm-chat = in the chat template")
	dataFlags(&opts.data, flags)
	flags.Lookup("dataset-name").Usage = "as in ossian bench serve; default: sharegpt, without --dataset-path random"
	flags.IntVar(&opts.prefix, "prefix-len", 0, "random and sonnet: `TOKENS` that all prompts begin with")
	for _, name := range []string{"async-engine", "disable-frontend-multiprocessing"} {
		_ = flags.Bool(name, false, "accepted, without effect: there is one engine, in this process")
	}
	return opts.command("Measure how many tokens a second the engine computes, without a server",
		`Submit a whole workload at once to an engine in this process and report how fast it is
done, as vllm bench throughput does. Data set random needs --input-len. Without MODEL
the built-in one gets 100 prompts of 64 tokens with 64 of output, unless flags say else.`, opts.run)
}

// complete fills in what was not given.
func (o *throughputOptions) complete(cfg *config.Config) error {
	if o.backend != "vllm" && o.backend != "vllm-chat" {
		return fmt.Errorf("--backend %q: want vllm (prompts as they are) or vllm-chat (in the chat template); either measures Ossian's engine", o.backend)
	}
	data, given, tiny := &o.data, o.set.Changed, load.BuiltIn(cfg.Model)
	if data.Name == "" {
		data.Name = "sharegpt"
		if data.Path == "" {
			data.Name = "random"
		}
	}
	if given("prefix-len") {
		data.Random.Prefix, data.Sonnet.Prefix = o.prefix, o.prefix
	}
	data.Sonnet.Input, data.Sonnet.Output = cmp.Or(data.Input, data.Sonnet.Input), cmp.Or(data.Output, data.Sonnet.Output)
	data.SkipTemplate = data.SkipTemplate || o.backend == "vllm-chat" // which renders all
	if tiny && !given("num-prompts") {
		data.Prompts = 100
	}
	// How long random prompts are, vLLM wants to be told; the built-in model, whose context is
	// short, has a default.
	if !strings.HasPrefix(data.Name, "random") || given("input-len") || given("random-input-len") {
		return nil
	}
	if !tiny {
		return fmt.Errorf("data set %s needs --input-len TOKENS (--output-len is %d unless given); --dataset-path FILE names a file of ShareGPT instead", data.Name, data.Random.Output)
	}
	data.Input = 64
	if !given("output-len") && !given("random-output-len") {
		data.Output = 64
	}
	return nil
}

// queries makes the workload.
func (o *throughputOptions) queries(checkpoint *ckpt.Model) ([]dataset.Query, error) {
	render := client.TokensOf(checkpoint).Renderer("")
	return o.data.Workload(dataset.Common{Tokenizer: checkpoint.Tokenizer, Rules: dataset.VLLM, Seed: o.seed}, render, o.backend == "vllm-chat")
}

// encoder returns what makes ids of a prompt.
func (o *throughputOptions) encoder(cfg *config.Config, checkpoint *ckpt.Model) (func(*dataset.Query) ([]int32, error), error) {
	if o.backend == "vllm" {
		return func(query *dataset.Query) ([]int32, error) {
			if query.IDs != nil {
				return query.IDs, nil
			}
			return load.Completion(checkpoint.Tokenizer, query.Prompt), nil
		}, nil
	}
	format, err := load.ChatFormat(checkpoint, cfg.Template)
	if err != nil {
		return nil, fmt.Errorf("--backend vllm-chat: %w", err)
	}
	now := time.Now() // the same date in all prompts
	return func(query *dataset.Query) ([]int32, error) {
		if query.IDs != nil {
			return nil, errors.New("--backend vllm-chat renders text, and this prompt is token ids: drop --prompt-token-ids, or use --backend vllm")
		}
		prompt := checkpoint.Tokenizer.Prompt()
		err := format.Render(prompt, &chat.Conversation{Now: now, Turns: []chat.Turn{{Role: chat.User, Parts: []string{query.Prompt}}}})
		return prompt.IDs(), err
	}, nil
}

// run makes the workload, opens the engine for the longest of it, and measures.
func (o *throughputOptions) run(cmd *cobra.Command, cfg *config.Config) (err error) {
	if err := o.complete(cfg); err != nil {
		return err
	}
	checkpoint, err := load.OpenModel(cfg.Model)
	if err != nil {
		return err
	}
	defer checkpoint.Close()
	encode, err := o.encoder(cfg, checkpoint)
	if err != nil {
		return err
	}
	queries, err := o.queries(checkpoint)
	if err != nil {
		return err
	}
	need, total := demand{waiting: len(queries) * o.n}, 0
	for i := range queries {
		query := &queries[i]
		total += (query.Input + query.Output) * o.n
		if query.Input+query.Output > need.input+need.output {
			need.input, need.output = query.Input, query.Output
		}
	}
	rig, env, err := o.open(cmd, cfg, checkpoint, need)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rig.Close()) }()
	// Prompts and answers are what is computed; answers are as long as asked for.
	bar := terminal.NewProgress(cmd.ErrOrStderr(), "computing", terminal.Tokens, int64(total))
	defer bar.Done()
	var result *offline.Throughput
	err = o.profiled(func() (err error) {
		result, err = rig.Throughput(cmd.Context(), offline.Load{Queries: queries, IDs: encode, N: o.n, Seed: o.seed, Temp: o.temp, Progress: func(n int) { bar.Add(int64(n)) }})
		return err
	})
	bar.Done()
	if err != nil {
		return err
	}
	result.Ossian.Environment, result.Ossian.Workload.Dataset = env, o.data.Name
	return o.report(cmd, result)
}
