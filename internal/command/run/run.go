// Package run is ossian run: it answers a prompt on the terminal, or chats.
package run

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"ossian/internal/command"
	"ossian/internal/load"
	"ossian/internal/terminal"
)

// options are the flags of ossian run. In a chat /set changes some of them.
type options struct {
	load           load.Options
	sampling       load.Sampling
	raw, quiet     bool
	system, effort string
	max            int // tokens of an answer, 0 = no limit
	ignoreEOS      bool
	noHistory      bool

	model, prompt string // named by flags in place of words
}

// Command returns the command.
func Command() *cobra.Command {
	opts := &options{}
	cmd := &cobra.Command{
		Use:   "run [MODEL] [PROMPT | PROMPT - | -]",
		Short: "Answer a prompt on the terminal, or chat",
		Long: `Answer PROMPT with MODEL: a directory, a GGUF file, or a name already in the cache.
Without MODEL the built-in ossian-tiny answers a quoted PROMPT: it adds, subtracts
and compares numbers, calls tools, answers in JSON, and little else.

The answer appears as it comes; a last line tells what it took. A last "-" stands for
standard input, so that PROMPT can say what to do with it. Without PROMPT the prompt
is read from standard input, or, on a terminal, a chat begins: /? lists its commands
and keys, Ctrl-C stops an answer, Ctrl-D ends it. When the output is not a terminal,
reasoning is left out.

What is typed in chats is kept in a file of yours, for the keys Up and Down, unless
--no-history is given or OSSIAN_NO_HISTORY is set.

-m MODEL, -p PROMPT, -c, -n, -t and --temp are taken as llama.cpp has them.`,
		Example: `  ossian run "12+30"
  ossian run ./SmolLM2-135M-Instruct.gguf "What is the capital of France?"
  git diff | ossian run openai/gpt-oss-20b "Review this change." -
  ossian run openai/gpt-oss-20b`,
		RunE: func(cmd *cobra.Command, args []string) error {
			name, words, err := opts.words(args)
			if err != nil {
				return err
			}
			return opts.run(cmd, name, words)
		},
	}
	opts.addFlags(cmd.Flags())
	return cmd
}

// addFlags adds the flags of the command.
func (o *options) addFlags(flags *pflag.FlagSet) {
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
	flags.BoolVar(&o.noHistory, "no-history", false, "do not keep what is typed in a chat for later ones")
	flags.StringVarP(&o.model, "model", "m", "", "MODEL")
	flags.StringVarP(&o.prompt, "prompt", "p", "", "PROMPT")
	_, _ = flags.MarkHidden("model"), flags.MarkHidden("prompt") // flags that there are
	command.Alias(flags, "max-model-len", "ctx-size", "c")
	command.Alias(flags, "max-tokens", "n-predict", "n")
	command.Alias(flags, "threads", "", "t")
	command.Alias(flags, "temperature", "temp", "")
}

// words takes the name of a model, "" = the built-in one, off the words of the command line.
// Flags may name model and prompt in their place.
func (o *options) words(args []string) (name string, words []string, err error) {
	switch {
	case o.model == "" && namesModel(args):
		name, words = args[0], args[1:]
	default:
		name, words = o.model, args
	}
	if o.prompt != "" && len(words) > 0 {
		return "", nil, fmt.Errorf("one prompt expected, found %.60q behind --prompt and %.60q", o.prompt, words[0])
	}
	if o.prompt != "" {
		words = []string{o.prompt}
	}
	return name, words, nil
}

// run answers the prompt of the words with the model of that name, or chats. What is wrong
// is said as soon as it is known: flags before files, prompts before weights.
func (o *options) run(cmd *cobra.Command, name string, words []string) error {
	ctx := cmd.Context()
	answering := &answerer{o: o, out: cmd.OutOrStdout(), status: cmd.ErrOrStderr()}
	answering.term = terminal.Is(answering.out)
	if o.max < 0 {
		return fmt.Errorf("--max-tokens %d: a number of tokens, or 0 for no limit, expected", o.max)
	}
	if !slices.Contains(efforts, o.effort) {
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
	ids, err := answering.begin(checkpoint, prompt, lines)
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
	run, err := o.load.Runner(ctx, checkpoint, answering.progress())
	if err != nil {
		return err
	}
	defer run.Close()
	answering.loaded = time.Since(began)
	// A prompt is in ids by now; messages of a chat become ids one after the other.
	if err := answering.prepare(checkpoint, run); err != nil {
		return err
	}
	if lines {
		return answering.chat(cmd.InOrStdin(), o.history(cmd.ErrOrStderr()))
	}
	_, err = answering.answer(ctx, ids)
	return err
}

// noHistoryEnv leaves the history off, as --no-history does.
const noHistoryEnv = "OSSIAN_NO_HISTORY"

// history opens what was typed in earlier chats. Without a file, which is said on status
// where it is not wanted so, it lasts as long as the chat.
func (o *options) history(status io.Writer) *terminal.History {
	dir := command.StateDir()
	if o.noHistory || os.Getenv(noHistoryEnv) != "" || dir == "" {
		return &terminal.History{}
	}
	history, err := terminal.OpenHistory(filepath.Join(dir, "chat-history"))
	if err != nil {
		fmt.Fprintf(status, "what is typed is not kept for later chats: %v\n", err)
	}
	return history
}
