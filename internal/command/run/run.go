// Package run is ossian run: it answers a prompt on the terminal, or chats.
package run

import (
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"ossian/internal/load"
	"ossian/internal/terminal"
)

// options are the flags of ossian run.
type options struct {
	load           load.Options
	sampling       load.Sampling
	raw, quiet     bool
	system, effort string
	max            int // tokens of an answer, 0 = no limit
	ignoreEOS      bool
}

// Command returns the command.
func Command() *cobra.Command {
	o := &options{}
	c := &cobra.Command{
		Use:   "run [MODEL] [PROMPT | PROMPT - | -]",
		Short: "Answer a prompt on the terminal, or chat",
		Long: `Answer PROMPT with MODEL: a directory, a GGUF file, or a name already in the cache.
Without MODEL the built-in ossian-tiny answers a quoted PROMPT: it adds, subtracts
and compares numbers, calls tools, answers in JSON, and little else.

The answer appears as it comes; a last line tells what it took. A last "-" stands for
standard input, so that PROMPT can say what to do with it. Without PROMPT the prompt
is read from standard input, or, on a terminal, a chat begins: an empty line or
Ctrl-D ends it, Ctrl-C stops an answer. When the output is not a terminal, reasoning
is left out.`,
		Example: `  ossian run "12+30"
  ossian run ./SmolLM2-135M-Instruct.gguf "What is the capital of France?"
  git diff | ossian run openai/gpt-oss-20b "Review this change." -`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if namesModel(args) {
				return o.run(cmd, args[0], args[1:])
			}
			return o.run(cmd, "", args)
		},
	}
	flags := c.Flags()
	o.load.Flags(flags)
	flags.BoolVar(&o.raw, "raw", false, "complete PROMPT as it is: no chat template, names of control tokens in it are control tokens, those in the answer are shown")
	flags.BoolVarP(&o.quiet, "quiet", "q", false, "no progress and no last line")
	flags.StringVar(&o.system, "system", "", "system message `TEXT`")
	flags.StringVar(&o.effort, "reasoning-effort", "", "low, medium or high, or none to answer at once, for models whose template knows it")
	flags.IntVar(&o.max, "max-tokens", 0, "produce at most `N` tokens; 0 = until the context is full")
	flags.Int64Var(&o.sampling.Seed, "seed", -1, "`SEED` of the random draws; -1 = another one each time")
	flags.Float32Var(&o.sampling.Temperature, "temperature", -1, "0 = always the most likely token; -1 = the checkpoint's advice, else 0")
	flags.Float32Var(&o.sampling.TopP, "top-p", -1, "keep the likeliest tokens of that total probability; -1 = the checkpoint's advice")
	flags.IntVar(&o.sampling.TopK, "top-k", -1, "keep the `K` likeliest tokens, 0 = all; -1 = the checkpoint's advice")
	flags.Float32Var(&o.sampling.MinP, "min-p", -1, "drop tokens less likely than this times the likeliest; -1 = the checkpoint's advice")
	flags.Float32Var(&o.sampling.Repetition, "repetition-penalty", -1, "divide the logits of tokens seen before; -1 = the checkpoint's advice")
	flags.Float32Var(&o.sampling.Frequency, "frequency-penalty", 0, "subtract per occurrence in the answer")
	flags.Float32Var(&o.sampling.Presence, "presence-penalty", 0, "subtract once if in the answer")
	flags.BoolVar(&o.ignoreEOS, "ignore-eos", false, "go on after the end of the answer, for measurements")
	return c
}

// run answers the prompt of the words with the model of that name, or chats. What is wrong
// is said as soon as it is known: flags before files, prompts before weights.
func (o *options) run(cmd *cobra.Command, name string, words []string) error {
	ctx := cmd.Context()
	a := &answerer{o: o, out: cmd.OutOrStdout(), status: cmd.ErrOrStderr()}
	if o.quiet {
		a.status = nil
	}
	a.term = terminal.Is(a.out)
	if o.max < 0 {
		return fmt.Errorf("--max-tokens %d: a number of tokens, or 0 for no limit, expected", o.max)
	}
	if !slices.Contains([]string{"", "none", "low", "medium", "high"}, o.effort) {
		return fmt.Errorf("--reasoning-effort %q: none, low, medium or high expected", o.effort)
	}
	checkpoint, err := load.OpenModel(name)
	if err != nil {
		return err
	}
	defer checkpoint.Close()
	prompt, lines, err := promptFrom(ctx, cmd.InOrStdin(), words, checkpoint.Spec.MaxLen)
	if err != nil {
		return err
	}
	ids, err := a.begin(checkpoint, prompt, lines)
	if err != nil {
		return err
	}
	params := o.sampling.Params(checkpoint.Generation)
	if err := params.Validate(checkpoint.Spec.Vocab); err != nil {
		return err
	}
	if lines {
		o.load.Keep = keptAnswer
	}
	began := time.Now()
	run, err := o.load.Runner(ctx, checkpoint, a.status)
	if err != nil {
		return err
	}
	defer run.Close()
	a.loaded = time.Since(began)
	// A prompt is in ids by now; lines become ids one after the other.
	a.prepare(checkpoint, run, params)
	if lines {
		return a.chat(cmd.InOrStdin())
	}
	_, err = a.answer(ctx, ids)
	return err
}
