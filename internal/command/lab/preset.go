package lab

// lab predict --preset: settings by an aim.

import (
	"fmt"
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	"ossian/internal/lab/predict"
	"ossian/internal/lab/predict/local"
	"ossian/internal/lab/size"
	"ossian/internal/load"
)

// presetFlags say which preset, and for whom.
type presetFlags struct {
	name    string
	users   int
	most    int
	measure bool
}

func (f *presetFlags) add(c *cobra.Command) {
	flags := c.Flags()
	flags.StringVar(&f.name, "preset", "", "choose settings by an aim: "+strings.Join(size.Aims(), ", ")+" (the knee of tokens/s per user against tokens/s per device, both as logarithms)")
	flags.IntVar(&f.users, "users", size.DefaultUsers, "`N` users at once, of --preset min-latency")
	flags.BoolVar(&f.measure, "measure", false, "confirm a preset by a run on this computer")
	flags.IntVar(&f.most, "max-users", 0, "`N` users at once at most, of the other presets (default 1024)")
}

// confirm measures the choice of a preset, where the machine is this computer.
func confirm(cmd *cobra.Command, name string, scenario predict.Scenario, point size.Point, run local.Run) (string, error) {
	if !scenario.Machine.CPU {
		return fmt.Sprintf("not measured: %s is not this computer; ossian lab run measures servers\n", scenario.Machine.Name), nil
	}
	checkpoint, err := load.OpenModel(name)
	if err != nil {
		return "not measured: " + err.Error() + "\n", nil // a shape without files has nothing to run
	}
	defer func() { _ = checkpoint.Close() }()
	options := load.Options{MaxLen: min(run.Prompt+run.Output+16, checkpoint.Spec.MaxLen), MaxTokens: point.Settings.MaxTokens, KV: "auto", Weights: "auto", Packed: "auto", NoVerify: true, Seqs: point.Settings.MaxSeqs}
	computing, err := options.Runner(cmd.Context(), checkpoint, cmd.ErrOrStderr())
	if err != nil {
		return "", err
	}
	scenario.Settings = point.Settings
	trial, err := local.Confirm(cmd.Context(), computing, scenario, run)
	if err != nil {
		return "", err
	}
	var out strings.Builder
	trialsText(&out, []local.Trial{trial})
	if load := loadAverage(); load != "" {
		fmt.Fprintf(&out, "load average %s\n", load)
	}
	return out.String(), nil
}

// runPreset chooses settings and writes them with the frontier around them.
func runPreset(cmd *cobra.Command, name string, scenario predict.Scenario, place *place, flags *presetFlags, load *loadFlags, asJSON bool) error {
	if flags.users < 1 || flags.users > 1<<16 || flags.most < 0 || flags.most > 1<<16 {
		return fmt.Errorf("--users %d, --max-users %d: 1 to %d expected", flags.users, flags.most, 1<<16)
	}
	if err := load.zeros(); err != nil {
		return err
	}
	wish := size.Wish{Aim: size.Aim(flags.name), Model: scenario.Model, Machine: size.Machine{Machine: scenario.Machine, Calibration: scenario.Calibration},
		Engine: scenario.Engine, Settings: scenario.Settings, Users: flags.users, MostUsers: flags.most, Input: load.input, Output: load.output,
		Chat: !load.completions, Strict: scenario.Strict, Workers: runtime.GOMAXPROCS(0)}
	if load.workload != "" {
		named, err := load.plan()
		if err != nil {
			return err
		}
		if named.InputLen == 0 || named.OutputLen == 0 {
			return fmt.Errorf("--preset with --workload %s: a workload of fixed lengths expected", load.workload)
		}
		wish.Input, wish.Output = named.InputLen, named.OutputLen
	}
	choice, err := size.Preset(cmd.Context(), wish)
	if err != nil {
		return err
	}
	choice.Assumed = place.assume(choice.Assumed)
	// What a choice hangs on is asked only where something of it was assumed: it is a search of its
	// own.
	if len(choice.Unknown) > 0 || place.lender != "" {
		if choice.Depends, err = size.Depends(cmd.Context(), wish, choice, place.lender); err != nil {
			return err
		}
	}
	if asJSON {
		return writeJSON(cmd.OutOrStdout(), choice)
	}
	head := fmt.Sprintf("%s for %s on %s, %s %s", flags.name, scenario.Model.Spec.Name, scenario.Machine.Name, scenario.Engine.Name, scenario.Engine.Version)
	if err := writeText(cmd.OutOrStdout(), head+"\n\n"+choice.Text()); err != nil || !flags.measure {
		return err
	}
	found, err := confirm(cmd, name, scenario, choice.Point, local.Run{Batch: choice.Point.Users, Prompt: choice.Input, Output: choice.Output})
	if err != nil {
		return err
	}
	return writeText(cmd.OutOrStdout(), found)
}
