// Package pull is ossian pull: it fetches a model into the cache and seals it.
package pull

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"ossian/internal/ckpt"
	"ossian/internal/command"
	"ossian/internal/hub"
	"ossian/internal/load"
	"ossian/internal/terminal"
)

// Command returns the command.
func Command() *cobra.Command {
	var req hub.Request
	var quiet bool
	cmd := &cobra.Command{
		Use:   "pull ORG/NAME[:QUANTISATION][@REVISION]",
		Short: "Fetch a model from a Hugging Face-compatible endpoint",
		Long: `Fetch what is needed to run a model into the cache, check every digest, and print
where it lies. An interrupted pull continues when the command is run again.

Of a safetensors repository the top-level weights, configuration, tokenizer and
templates are fetched; of a GGUF repository one file, named as ORG/NAME/FILE.gguf, with
--file, or by its quantisation as in ORG/NAME:Q8_0. HF_ENDPOINT, HF_TOKEN, HF_HOME,
HF_HUB_CACHE and HF_HUB_OFFLINE are honoured, and the cache is shared with the reference
client.`,
		Example: `  ossian pull openai/gpt-oss-20b
  ossian pull Qwen/Qwen3-8B-GGUF --file Qwen3-8B-Q4_K_M.gguf`,
		Args: command.Usage(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if req.Name, err = hub.ParseName(args[0]); err != nil {
				return err
			}
			// A file can be named in three ways, and --include chooses files too: no two of them
			// may disagree.
			switch file := cmp.Or(req.File, req.Name.File); {
			case req.File != "" && req.Name.File != "" && req.File != req.Name.File:
				return fmt.Errorf("--file %s: the name says %s", req.File, req.Name.File)
			case req.File != "" && req.Name.Quant != "":
				return fmt.Errorf("--file %s: the name says %s; leave out one of them", req.File, req.Name.Quant)
			case req.Name.Quant != "" && len(req.Include) > 0:
				return fmt.Errorf("--include: the one file of %s is fetched, with the rest of its set; leave out one of them", req.Name.Quant)
			case file != "" && len(req.Include) > 0:
				return fmt.Errorf("--include: %s alone is fetched, with the rest of its set; leave out one of them", file)
			}
			cfg, err := load.HubConfig(os.Getenv)
			if err != nil {
				return err
			}
			var status io.Writer = cmd.ErrOrStderr()
			if quiet {
				status = nil
			}
			return pull(cmd.Context(), cfg, req, cmd.OutOrStdout(), status)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&req.File, "file", "", "GGUF `FILE` of the repository to fetch, with the rest of its set")
	flags.StringArrayVar(&req.Include, "include", nil, "fetch the files that match `GLOB` instead of the needed ones; may be repeated")
	flags.StringArrayVar(&req.Exclude, "exclude", nil, "do not fetch files that match `GLOB`; may be repeated")
	flags.BoolVar(&req.Force, "force", false, "fetch also what is in the cache already, to replace damaged files")
	flags.BoolVarP(&quiet, "quiet", "q", false, "no progress, only the path")
	return cmd
}

// pull fetches, seals and prints the path on out. status is nil or a place for
// progress and a last line.
func pull(ctx context.Context, cfg hub.Config, req hub.Request, out, status io.Writer) error {
	meter := terminal.NewLateProgress(status, "Fetching "+req.Name.String())
	req.Progress = meter.Report
	got, err := hub.Pull(ctx, cfg, req)
	meter.Done()
	if errors.Is(err, hub.ErrOffline) && !req.Force && len(req.Include) == 0 { // what is here already needs no network
		here := req.Name
		here.File = cmp.Or(req.File, here.File)
		if path, missing := hub.Resolve(cfg, here.String()); missing == nil {
			_, err = fmt.Fprintln(out, path)
			return err
		}
	}
	if err != nil {
		return err
	}
	if len(req.Include) == 0 { // a choice of files need not be a model
		if err := seal(ctx, got, terminal.NewLateProgress(status, "Sealing "+req.Name.String())); err != nil {
			return fmt.Errorf("%s is complete, but: %w", got.Path, err)
		}
	}
	if status != nil {
		fmt.Fprintf(status, "%s: %d files, %s, %s of them fetched now, commit %.12s\n", req.Name, got.Files, terminal.FormatBytes(got.Bytes), terminal.FormatBytes(got.Fetched), got.Commit)
	}
	_, err = fmt.Fprintln(out, got.Path)
	return err
}

// seal records what the files of a model are, for later loads. A seal of files that
// were all here before stays: a new one would declare damage since then sound.
func seal(ctx context.Context, got hub.Pulled, meter *terminal.LateProgress) error {
	checkpoint, err := ckpt.Open(got.Path)
	if err != nil {
		return err
	}
	sealed := checkpoint.Sealed
	if err := checkpoint.Close(); err != nil || (sealed && got.Fetched == 0) {
		return err
	}
	defer meter.Done()
	return ckpt.Seal(ctx, got.Path, meter.Report)
}
