// Package synth is ossian synth: it writes checkpoints of known shapes with random weights.
package synth

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"ossian/internal/command"
	"ossian/internal/synth"
	"ossian/internal/tensor"
	"ossian/internal/terminal"
)

// Command is the command. Its checkpoints answer nothing: they are for tests and measurements.
func Command() *cobra.Command {
	var format, element string
	var layers int
	var shard int64
	options := synth.Options{}
	cmd := &cobra.Command{
		Use:   "synth PRESET OUT",
		Short: "Write a checkpoint with random weights, for tests and measurements",
		Long:  "Write a checkpoint of a known shape with random weights, for tests and measurements.\nPresets: " + strings.Join(synth.Presets(), " "),
		Args:  command.Usage(cobra.ExactArgs(2)),
		RunE: func(cmd *cobra.Command, args []string) error {
			m, err := synth.Preset(args[0])
			if err != nil {
				return err
			}
			options.Model, options.ShardBytes = m.Shorten(layers), shard
			if options.Type, err = typeNamed(element); err != nil {
				return err
			}
			if err := command.OutputFolder("OUT", filepath.Dir(args[1])); err != nil {
				return err
			}
			switch format {
			case "hf":
			case "gguf":
				options.Format = synth.GGUF
			default:
				return fmt.Errorf("format %q: hf or gguf expected", format)
			}
			return write(cmd, args[1], options)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&format, "format", "hf", "hf (a directory) or gguf (one file)")
	flags.StringVar(&element, "type", "bf16", "type of matrices: bf16, f16, f32; in GGUF also q8_0, q4_0, q4_1, q5_0, q5_1, iq4_nl, q4_k, q5_k, q6_k, mxfp4")
	flags.IntVar(&layers, "layers", 0, "write only the first `N` layers")
	flags.Uint64Var(&options.Seed, "seed", 0, "`seed` of the weights")
	flags.Int64Var(&shard, "shard-bytes", 0, "hf: `bytes` per safetensors file, 0 = 5e9")
	return cmd
}

func write(cmd *cobra.Command, out string, options synth.Options) error {
	var size int64
	bar := terminal.NewLateProgress(cmd.ErrOrStderr(), "writing "+out)
	err := synth.Write(cmd.Context(), out, options, func(done, total int64) {
		bar.Report(done, total)
		size = total
	})
	bar.Done()
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: %s, %d bytes of tensors\n", out, options.Model.Name, size)
	return err
}

// typeNamed finds an element type by its name in any case.
func typeNamed(name string) (tensor.DType, error) {
	for t := tensor.F32; t <= tensor.Q6_K; t++ {
		if strings.EqualFold(t.String(), name) {
			return t, nil
		}
	}
	return tensor.Invalid, fmt.Errorf("no element type is called %q", name)
}
