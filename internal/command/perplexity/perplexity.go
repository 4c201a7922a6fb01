// Package perplexity is ossian perplexity: it measures how well a model predicts a text.
package perplexity

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"

	"github.com/spf13/cobra"

	"ossian/internal/command"
	"ossian/internal/load"
	"ossian/internal/plan"
	"ossian/internal/runner"
	"ossian/internal/sample"
	"ossian/internal/terminal"
)

// scoreRows is how many positions one step of ossian perplexity scores.
const scoreRows = 64

// Command returns the command.
func Command() *cobra.Command {
	options := load.Options{Seqs: scoreRows}
	var limit int
	cmd := &cobra.Command{
		Use:   "perplexity MODEL FILE",
		Short: "Measure how well a model predicts a text",
		Long: `Print the perplexity of MODEL on the text in FILE, exp(-1/(n-1) Σ ln p(token i | all before)).

The text is encoded as it is: control tokens are not recognised and none is added,
unless the tokenizer itself begins every text with one. All of it is one context, so
it must fit. Figures compare only between programs that cut and begin the text alike.`,
		Args: command.Usage(cobra.ExactArgs(2)),
		RunE: func(cmd *cobra.Command, args []string) error {
			return measure(cmd, options, args[0], args[1], limit)
		},
	}
	options.Flags(cmd.Flags())
	cmd.Flags().IntVar(&limit, "tokens", 0, "use the first `N` tokens of the text; 0 = all")
	return cmd
}

// measure prints the perplexity of the model of that name on the text in file.
func measure(cmd *cobra.Command, options load.Options, name, file string, limit int) error {
	switch {
	case limit < 0:
		return fmt.Errorf("--tokens %d: a number of tokens, or 0 for all, expected", limit)
	case options.MaxLen != 0:
		return errors.New("--max-model-len: the context is as long as the text; --tokens N takes the beginning of it")
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	checkpoint, err := load.OpenModel(name)
	if err != nil {
		return err
	}
	defer checkpoint.Close()
	p := checkpoint.Tokenizer.Prompt()
	p.Begin("") // whatever the text, it is text
	p.Text(string(text))
	ids := p.IDs()
	if limit > 0 && limit < len(ids) {
		ids = ids[:limit]
	}
	switch {
	case len(ids) < 2:
		return fmt.Errorf("%s: %d tokens; at least 2 are needed, one to begin with and one to predict", file, len(ids))
	case len(ids) > checkpoint.Spec.MaxLen:
		return fmt.Errorf("%s: %d tokens do not fit into the model's context of %d; --tokens %[3]d takes the beginning", file, len(ids), checkpoint.Spec.MaxLen)
	}
	// Every group keeps all positions, also one with a window: a step has up to scoreRows
	// positions, of which the first still needs what the last would overwrite in a ring.
	options.MaxLen = len(ids)
	windows, _ := checkpoint.Spec.Groups()
	for range windows {
		options.Blocks = append(options.Blocks, (len(ids)+plan.DefaultBlockSize-1)/plan.DefaultBlockSize)
	}
	run, err := options.Runner(cmd.Context(), checkpoint, cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	defer run.Close()
	bar := terminal.NewProgress(cmd.ErrOrStderr(), "scoring", terminal.Tokens, int64(len(ids)))
	loss, err := textLoss(cmd.Context(), run, ids, bar)
	bar.Done()
	if err != nil {
		return err
	}
	mean := loss / float64(len(ids)-1)
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "tokens %d  nll %.4f  nll/token %.6f  perplexity %.4f\n", len(ids), loss, mean, math.Exp(mean))
	return err
}

// textLoss returns -Σ ln p(ids[i] | ids[:i]) for i >= 1, in nats.
//
// Each position is a row of its own, so that each is sampled; all rows share the
// blocks of one sequence, which works because a layer stores the keys and values of
// a whole step before any row attends. The mask forces the choice of the token that
// follows, and log probabilities are those before the mask.
func textLoss(ctx context.Context, run runner.Runner, ids []int32, bar *terminal.Progress) (loss float64, err error) {
	info := run.Info()
	tables := load.Tables(info)
	params := &sample.Params{Logprobs: true}
	for from := 0; from < len(ids)-1; {
		count := min(len(ids)-1-from, info.MaxSeqs, info.MaxTokens)
		// The id that follows is the only one that may be chosen, so its log probability is told.
		rows := make([]runner.Row, count)
		for i := range rows {
			next := ids[from+i+1]
			mask := make([]uint64, (info.Vocab+63)/64)
			mask[next/64] = 1 << (next % 64)
			rows[i] = runner.Row{Slot: i, Start: from + i, Len: 1, Tables: tables, Sample: true, Params: params, Mask: mask}
		}
		if err := run.Launch(&runner.Batch{Tokens: ids[from : from+count], Rows: rows}); err != nil {
			return 0, err
		}
		res, err := run.Collect()
		if err != nil {
			return 0, err
		}
		for i := range rows {
			loss -= float64(res.Logprobs[i][0].Logprob)
		}
		from += count
		bar.Set(int64(from))
		if err := ctx.Err(); err != nil {
			return 0, err
		}
	}
	return loss, nil
}
