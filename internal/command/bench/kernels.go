package bench

import (
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"ossian/internal/command"
	"ossian/internal/cpu/measure"
	"ossian/internal/plan"
)

// kernelReport is what `bench kernels --json` prints.
type kernelReport struct {
	CPU     string                `json:"cpu"`
	Version string                `json:"version"`
	Threads int                   `json:"threads"`
	Kernels []measure.Measurement `json:"kernels"`
}

// kernelsCommand is ossian bench kernels.
func kernelsCommand() *cobra.Command {
	var threads int
	var each time.Duration
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "kernels [KERNEL…]",
		Short: "Measure the arithmetic of each type of weights against the machine",
		Long: `Measure products of weights with activations, and of queries with cached keys and
values, on every instruction set. Between any two runs of a kernel the machine's limits
are measured: plain reading of memory, and multiply-adds within registers. Close to one
of the two is as fast as it gets. Nothing else should run meanwhile.

Kernels: ` + strings.Join(measure.Kernels(), ", "),
		RunE: func(cmd *cobra.Command, args []string) error {
			if threads < 0 || threads > 1<<10 {
				return fmt.Errorf("--threads %d: expected 0 to 1024", threads)
			}
			if each < 0 || each > time.Minute {
				return fmt.Errorf("--time %v: expected 0 to 1m", each)
			}
			report := kernelReport{CPU: plan.ThisHost().CPU, Version: "ossian " + command.Version() + ", " + runtime.Version(), Threads: threads}
			if threads == 0 {
				report.Threads = plan.ThisProcess().Threads
			}
			if len(args) == 0 {
				args = measure.Kernels()
			}
			out := cmd.OutOrStdout()
			defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(report.Threads + 1)) // the workers spin
			if !asJSON {
				writeKernelHead(out, report)
			}
			err := measure.Run(cmd.Context(), args, report.Threads, each, func(m measure.Measurement) {
				report.Kernels = append(report.Kernels, m)
				if !asJSON {
					writeKernel(out, m)
				}
			})
			if err != nil || !asJSON {
				return err
			}
			encoder := json.NewEncoder(out)
			encoder.SetIndent("", "  ")
			return encoder.Encode(report)
		},
	}
	flags := cmd.Flags()
	flags.IntVar(&threads, "threads", 0, "compute with `N` threads; 0 = all")
	flags.DurationVar(&each, "time", 100*time.Millisecond, "spend about this `TIME` on each line, and at least three runs")
	flags.BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func writeKernelHead(out io.Writer, r kernelReport) {
	fmt.Fprintf(out, "%s, %d threads, %s\n", r.CPU, r.Threads, r.Version)
	fmt.Fprintf(out, "medians; %% of what reading memory and multiply-adds in registers reached in between\n\n")
	fmt.Fprintf(out, "%-14s %-7s %4s  %8s %7s %6s  %9s %9s %6s\n", "kernel", "isa", "rows", "GB/s", "limit", "%", "Gop/s", "limit", "%")
}

func writeKernel(out io.Writer, measured measure.Measurement) {
	fmt.Fprintf(out, "%-14s %-7s %4d  %8.1f %7.1f %6.0f  %9.1f ", measured.Kernel, measured.ISA, measured.Rows, measured.Bytes/1e9, measured.Read/1e9, 100*measured.Bytes/measured.Read, measured.Ops/1e9)
	if measured.Peak == 0 { // portable Go
		fmt.Fprintf(out, "%9s %6s\n", "–", "–")
		return
	}
	fmt.Fprintf(out, "%9.0f %6.0f\n", measured.Peak/1e9, 100*measured.Ops/measured.Peak)
}
