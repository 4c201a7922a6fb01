package lab

// ossian lab quick: the plan built into the program.

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"ossian/internal/command"
	"ossian/internal/lab"
	"ossian/internal/lab/ledger"
	"ossian/internal/terminal"
	"ossian/internal/tiny"
)

func quickCommand() *cobra.Command {
	var flags campaignFlags
	cmd := &cobra.Command{
		Use:   "quick [MODEL]",
		Short: "Measure in about two minutes whether any of four options serves a model better than the defaults",
		Long: `Carry out the plan built into the program: this program's server at its defaults against four
options, on three short workloads, in 90 s of measuring. Without MODEL the built-in model is
served. Nothing but the servers that it starts is contacted.

"No option is better than the defaults" is a good end.`,
		Args: usage(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			model := tiny.Name
			if len(args) > 0 {
				model = args[0]
			}
			return runQuick(cmd, model, &flags)
		},
	}
	flags.add(cmd)
	return cmd
}

// runQuick makes the plan for this machine, or takes up the one of a directory that was cut, and
// carries it out.
func runQuick(cmd *cobra.Command, model string, flags *campaignFlags) error {
	if flags.out == "" {
		flags.out = quickDir()
	}
	if err := command.OutputFolder("--out", flags.out); err != nil {
		return command.WithStatus(statusUsage, err)
	}
	text, err := os.ReadFile(filepath.Join(flags.out, "plan.yaml"))
	if err != nil {
		if text, err = makeQuick(cmd, model, flags); err != nil {
			return err
		}
	} else {
		flags.set = nil // it holds what they said
	}
	plan, text, err := readPlan(text, "quick", flags)
	if err != nil {
		return command.WithStatus(statusUsage, err)
	}
	config, done, err := configure(plan, text, flags, "")
	if err != nil {
		return command.WithStatus(statusUsage, err)
	}
	defer done()
	return carryOut(cmd, config, flags, lab.QuickTrial)
}

// makeQuick finds out how many requests a run of the wanted length has on this machine.
func makeQuick(cmd *cobra.Command, model string, flags *campaignFlags) ([]byte, error) {
	plan, text, err := readPlan([]byte(lab.QuickPlan(model, nil)), "quick", flags)
	if err != nil {
		return nil, command.WithStatus(statusUsage, err)
	}
	// What the first looks leave is no part of the campaign.
	aside := *flags
	if aside.out, err = os.MkdirTemp("", "ossian-lab-"); err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(aside.out) }()
	config, done, err := configure(plan, text, &aside, "")
	if err != nil {
		return nil, command.WithStatus(statusUsage, err)
	}
	defer done()
	progress := cmd.OutOrStdout()
	if flags.asJSON {
		progress = cmd.ErrOrStderr()
	}
	fmt.Fprintln(progress, strings.Map(terminal.Printable, "a first look at "+model+", for runs of 2 to 4 s"))
	requests, err := lab.QuickRequests(cmd.Context(), config.Measurer, plan)
	if err != nil {
		return nil, err
	}
	return []byte(lab.QuickPlan(model, requests)), nil
}

// quickDir is lab/quick, or the first of lab/quick-2 and so on that holds no campaign that is over: one
// that was cut is taken up.
func quickDir() string {
	for number := 1; ; number++ {
		dir := filepath.Join("lab", "quick")
		if number > 1 {
			dir = fmt.Sprintf("%s-%d", dir, number)
		}
		lines, err := ledger.Read(dir)
		if err != nil || len(lines) == 0 {
			return dir
		}
		if last := lines[len(lines)-1]; last.Kind != ledger.KindEnd || last.End.State == "interrupted" {
			return dir
		}
	}
}
