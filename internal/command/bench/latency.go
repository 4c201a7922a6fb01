package bench

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"ossian/internal/bench/dataset"
	"ossian/internal/bench/offline"
	"ossian/internal/config"
	"ossian/internal/load"
	"ossian/internal/plan"
	"ossian/internal/terminal"
)

// latencyOptions are the flags of ossian bench latency.
type latencyOptions struct {
	*offlineOptions
	input, output       int // tokens
	batch               int // prompts
	warmups, iterations int // batches
}

// latencyCommand is ossian bench latency.
func latencyCommand(plan planner) *cobra.Command {
	opts := &latencyOptions{offlineOptions: newOfflineOptions("latency", plan)}
	flags := opts.set
	flags.IntVar(&opts.input, "input-len", 32, "prompt `TOKENS`")
	flags.IntVar(&opts.output, "output-len", 128, "output `TOKENS`")
	flags.IntVar(&opts.batch, "batch-size", 8, "prompts that are computed together")
	flags.IntVar(&opts.warmups, "num-iters-warmup", 10, "batches before the measurement")
	flags.IntVar(&opts.iterations, "num-iters", 30, "batches that are measured")
	return opts.command("Measure how long the engine takes for one batch of prompts, without a server",
		`Submit one batch of random prompts to an engine in this process, wait until all answers
are there, and do it again, as vllm bench latency does. Prefix caching is off unless
--enable-prefix-caching is given. Without MODEL the built-in one is measured.`, opts.run)
}

// run opens the engine for one batch and measures.
func (o *latencyOptions) run(cmd *cobra.Command, cfg *config.Config) (err error) {
	const many = 1 << 20
	err = inRange(bound{"input-len", o.input, 1, many}, bound{"output-len", o.output, 1, many}, bound{"batch-size", o.batch, 1, 65536},
		bound{"num-iters-warmup", o.warmups, 0, many}, bound{"num-iters", o.iterations, 1, many})
	if err != nil {
		return err
	}
	if cfg.Origin("enable-prefix-caching") == "default" {
		cfg.PrefixCaching = false // the same prompts come again and again
	}
	need := demand{input: o.input, output: o.output, batch: o.batch * o.n, waiting: o.batch * o.n}
	if cfg.MaxNumSeqs == 0 {
		cfg.MaxNumSeqs = max(need.batch, plan.DefaultServed)
	}
	checkpoint, err := load.OpenModel(cfg.Model)
	if err != nil {
		return err
	}
	defer checkpoint.Close()
	rig, env, err := o.open(cmd, cfg, checkpoint, need)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rig.Close()) }()
	queries, err := offline.Uniform(o.seed, o.batch, o.input, o.output, checkpoint.Spec.Vocab)
	if err != nil {
		return err
	}
	result, err := o.measure(cmd, rig, queries)
	if err != nil {
		return err
	}
	result.Ossian.Environment, result.Ossian.Workload.Dataset = env, "uniform ids"
	return o.report(cmd, result)
}

// measure warms up and measures.
func (o *latencyOptions) measure(cmd *cobra.Command, rig *offline.Rig, queries []dataset.Query) (result *offline.Latency, err error) {
	ctx, status := cmd.Context(), cmd.ErrOrStderr()
	total := (o.warmups + o.iterations) * o.batch * o.n * (o.input + o.output)
	batches := offline.Load{Queries: queries, N: o.n, Seed: o.seed, Temp: o.temp}
	fmt.Fprintln(status, "Warming up...")
	bar := terminal.NewProgress(status, "computing", terminal.Tokens, int64(total))
	defer bar.Done()
	batches.Progress = func(n int) { bar.Add(int64(n)) }
	if _, err := rig.Latency(ctx, batches, o.warmups); err != nil {
		return nil, err
	}
	err = o.profiled(func() (err error) {
		result, err = rig.Latency(ctx, batches, o.iterations)
		return err
	})
	return result, err
}
