// Package bench is ossian bench: it measures a server the way vllm bench serve does, the
// engine without one, or its kernels, sweeps settings and loads, and reads, compares and
// draws results. Its flags, and what it prints, are those of the tools whose numbers it can
// be asked for.
package bench

import (
	"context"
	"os/signal"
	"syscall"

	"ossian/internal/ckpt"
	"ossian/internal/command"
	"ossian/internal/config"
	"ossian/internal/load"
	"ossian/internal/plan"

	"github.com/spf13/cobra"
)

// Serve is what is measured in this process: what ossian serve would serve.
type Serve struct {
	Start command.Start
	Plan  planner
}

// A planner begins to load a checkpoint, and plans the memory as for a server with the settings.
type planner func(cfg *config.Config, checkpoint *ckpt.Model, note func(string)) (*load.Loading, plan.Plan, error)

// Command returns the command with all that are below it.
func Command(here Serve) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure a server the way vllm bench serve does, the engine without one, or its kernels",
	}
	cmd.AddCommand(serveCommand(here.Start), compareCommand(), summarizeCommand(), mergeCommand(), sweepCommand(here.Start), selftestCommand(), scriptedCommand(), throughputCommand(here.Plan), latencyCommand(here.Plan), kernelsCommand())
	// A terminal that closes interrupts: servers that were started for a measurement are in
	// process groups of their own and would stay, and results would be lost.
	cmd.PersistentPreRun = func(cmd *cobra.Command, _ []string) {
		cmd.SetErr(command.Shared(cmd.ErrOrStderr()))
		if !signal.Ignored(syscall.SIGHUP) {
			ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGHUP)
			context.AfterFunc(ctx, stop)
			cmd.SetContext(ctx)
		}
	}
	return command.Family(cmd)
}
