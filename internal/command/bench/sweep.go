package bench

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"ossian/internal/bench/sweep"
	"ossian/internal/command"
	"ossian/internal/self"
)

// sweepCommand is ossian bench sweep.
func sweepCommand(here command.Start) *cobra.Command {
	c := &cobra.Command{
		Use:   "sweep",
		Short: "Measure under many settings, or find the load that is worth offering",
	}
	c.AddCommand(serveSweep(&gridOptions{program: thisProgram}), sweepWorkloadCommand(), sweepSLACommand(), loadCommand(thisProgram, here), plotCommand(), paretoCommand())
	return command.Family(c)
}

// A gridOptions is what the flags of the sweeps that start programs say. Names and
// defaults are vLLM's.
type gridOptions struct {
	// Flags of all of them.
	folderOptions
	serverOptions
	bench, after           string // commands
	serveParams, benchFile string // files of parameters
	links                  string
	runs, warmup           int
	stops                  bool // at the first failure
	clientLimit            int  // seconds

	// Flags of some.
	variable   string
	levels     int
	objectives string // file

	program func(words []string) *exec.Cmd // makes a command

	// What prepare reads from the flags.
	grid       sweep.Grid
	client     []string // words of bench
	experiment *sweep.Experiment
}

// folderOptions say where results go.
type folderOptions struct {
	dir, name      string
	resume, dryRun bool
}

func (o *folderOptions) flags(flags *pflag.FlagSet) {
	flags.StringVarP(&o.dir, "output-dir", "o", "results", "`FOLDER` of experiments")
	flags.StringVarP(&o.name, "experiment-name", "e", "", "`NAME` of the folder in it; default the time")
	flags.BoolVar(&o.resume, "resume", false, "complete the experiment that is there: measure only what is missing")
	flags.BoolVar(&o.dryRun, "dry-run", false, "print what would run, and run nothing")
}

// path is the folder of the experiment, or the error of one that cannot be written to.
func (o *folderOptions) path() (string, error) {
	if o.name == "" {
		o.name = time.Now().Format("20060102_150405")
	}
	path := filepath.Join(o.dir, o.name)
	if o.dryRun {
		return path, nil
	}
	return path, command.OutputFolder("--output-dir", path)
}

// serverOptions say what serves.
type serverOptions struct {
	serve string // command
	ready int    // seconds
	show  bool   // what it prints
}

func (o *serverOptions) flags(flags *pflag.FlagSet) {
	flags.StringVar(&o.serve, "serve-cmd", "", "`COMMAND` that serves; ossian is this program")
	flags.IntVar(&o.ready, "server-ready-timeout", 300, "`SECONDS` that the server may take to be ready")
	flags.BoolVar(&o.show, "show-stdout", false, "show what the programs print")
}

// server is the server of words.
func (o *serverOptions) server(cmd *cobra.Command, words []string, program func([]string) *exec.Cmd) *sweep.Server {
	server := &sweep.Server{Command: words, Make: program, Ready: time.Duration(o.ready) * time.Second, Stderr: cmd.ErrOrStderr()}
	if o.show {
		server.Stdout = cmd.OutOrStdout()
	}
	return server
}

// thisProgram makes the command of words; ossian is the program that runs.
func thisProgram(words []string) *exec.Cmd {
	if program, err := self.Path(); err == nil && words[0] == "ossian" {
		return exec.Command(program, words[1:]...)
	}
	return exec.Command(words[0], words[1:]...)
}

// measuresItself reports whether words run ossian bench, from wherever: ./ossian bench,
// go run ./cmd/ossian bench. Without an address that starts a server of its own.
func measuresItself(words []string) bool {
	for i, word := range words {
		if strings.TrimSuffix(filepath.Base(word), ".exe") == "ossian" && i+1 < len(words) && words[i+1] == "bench" {
			return true
		}
	}
	return false
}

func (o *gridOptions) flags(flags *pflag.FlagSet) {
	flags.SortFlags = false
	flags.SetNormalizeFunc(spelling)
	o.serverOptions.flags(flags)
	flags.StringVar(&o.bench, "bench-cmd", "", "`COMMAND` that measures: ossian bench serve ..., vllm bench serve ...")
	flags.StringVar(&o.after, "after-bench-cmd", "", "`COMMAND` after each run, instead of having the server forget its caches")
	flags.StringVar(&o.serveParams, "serve-params", "", "`FILE.json`: flags of the server to try, a list of objects or an object of them by name")
	flags.StringVar(&o.benchFile, "bench-params", "", "`FILE.json`: flags of the client to try")
	flags.StringVar(&o.links, "link-vars", "", "`A=B,...`: only combinations in which parameter A of the server and B of the client are equal")
	flags.IntVar(&o.runs, "num-runs", 3, "runs of each combination")
	flags.IntVar(&o.warmup, "warmup-num-prompts", 0, "prompts of a run before them that does not count")
	flags.BoolVar(&o.stops, "stop-on-error", false, "end at the first run that fails or is invalid; without it the others are measured, failures named at the end, and the exit status is 1")
	_ = flags.Bool("continue-on-error", true, "accepted, without effect: so it is without --stop-on-error")
	flags.IntVar(&o.clientLimit, "run-timeout", 0, "`SECONDS` after which a run has failed; 0 = never")
	o.folderOptions.flags(flags)
}

// prepare reads what the flags name.
func (o *gridOptions) prepare(cmd *cobra.Command) (err error) {
	var server []string
	if server, err = words("--serve-cmd", o.serve); err != nil {
		return err
	}
	if o.client, err = words("--bench-cmd", o.bench); err != nil {
		return err
	}
	var after []string
	if o.after != "" {
		if after, err = words("--after-bench-cmd", o.after); err != nil {
			return err
		}
	}
	// A grid is opened once for each setting of the server, which is started when it is first
	// needed.
	grid := &o.grid
	if grid.Serve, err = sweep.ReadParams(o.serveParams); err != nil {
		return fmt.Errorf("--serve-params: %w", err)
	}
	if grid.Bench, err = sweep.ReadParams(o.benchFile); err != nil {
		return fmt.Errorf("--bench-params: %w", err)
	}
	if grid.Links, err = sweep.ParseLinks(o.links); err != nil {
		return fmt.Errorf("--link-vars: %w", err)
	}
	grid.Open = func(serve sweep.Object) (sweep.Measurer, error) {
		return &sweep.Programs{Server: o.server(cmd, serve.Apply(server), o.program), Client: o.client, Own: measuresItself(o.client), After: after,
			Limit: time.Duration(o.clientLimit) * time.Second, Show: o.show, DryRun: o.dryRun, Out: cmd.OutOrStdout()}, nil
	}
	o.experiment = &sweep.Experiment{Resume: o.resume, Runs: o.runs, Warmup: o.warmup, Continue: !o.stops, DryRun: o.dryRun, Out: cleaner{cmd.OutOrStdout()}}
	o.experiment.Dir, err = o.path()
	return err
}

// words splits a command.
func words(flag, command string) ([]string, error) {
	if command == "" {
		return nil, fmt.Errorf("%s COMMAND is needed", flag)
	}
	out, err := sweep.Split(command)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", flag, err)
	}
	return out, nil
}

// numPrompts is how many requests the client sends when nothing else is said.
func (o *gridOptions) numPrompts() (int, error) {
	text := "1000"
	for i, word := range o.client {
		if value, ok := strings.CutPrefix(word, "--num-prompts="); ok {
			text = value
		} else if word == "--num-prompts" && i+1 < len(o.client) {
			text = o.client[i+1]
		}
	}
	count, err := strconv.Atoi(text)
	if err != nil || count < 1 {
		return 0, fmt.Errorf("--bench-cmd: --num-prompts %q: want a number above 0", text)
	}
	return count, nil
}

const sweepHelp = `
The server of --serve-cmd is started for each of its settings, unless all results are
there; it is ready when GET /health says so. The client of --bench-cmd then runs for each
of its own. Parameters replace flags of the commands, or are added to them: _ and - are
the same, true is --x, false --no-x, and objects are JSON.

Results are run=N.json and summary.json of each combination, and summary.csv of all.`

// command is a sweep, of which cmd says the rest.
func (o *gridOptions) command(cmd cobra.Command, run func(ctx context.Context) error) *cobra.Command {
	cmd.Long += "\n" + sweepHelp
	cmd.Args = command.Usage(cobra.NoArgs)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := o.prepare(cmd); err != nil {
			return err
		}
		return run(cmd.Context())
	}
	o.flags(cmd.Flags())
	return &cmd
}

func serveSweep(o *gridOptions) *cobra.Command {
	return o.command(cobra.Command{
		Use:   "serve --serve-cmd COMMAND --bench-cmd COMMAND [flags]",
		Short: "Measure every combination of settings of a server and of the client",
		Long:  "Measure every combination of settings of a server and of the client.",
	}, func(ctx context.Context) error { return o.experiment.Serve(ctx, o.grid) })
}

func sweepWorkloadCommand() *cobra.Command {
	opts := &gridOptions{program: thisProgram}
	cmd := opts.command(cobra.Command{
		Use:     "serve-workload --serve-cmd COMMAND --bench-cmd COMMAND [flags]",
		Aliases: []string{"serve_workload"},
		Short:   "Measure a server at loads from serial to batch inference",
		Long:    "Measure a server at loads from serial to batch inference.",
	}, func(ctx context.Context) error {
		variable, err := sweep.ParseVariable(opts.variable)
		if err != nil {
			return fmt.Errorf("--workload-var: %w", err)
		}
		prompts, err := opts.numPrompts()
		if err != nil {
			return err
		}
		return opts.experiment.Workload(ctx, opts.grid, sweep.Workload{Variable: variable, Levels: opts.levels, Prompts: prompts})
	})
	cmd.Flags().StringVar(&opts.variable, "workload-var", string(sweep.Rate), "what changes: request_rate or max_concurrency")
	cmd.Flags().IntVar(&opts.levels, "workload-iters", 10, "levels, with the two from which the others follow")
	return cmd
}

func sweepSLACommand() *cobra.Command {
	opts := &gridOptions{program: thisProgram}
	cmd := opts.command(cobra.Command{
		Use:     "serve-sla --serve-cmd COMMAND --bench-cmd COMMAND --sla-params FILE [flags]",
		Aliases: []string{"serve_sla"},
		Short:   "Find the largest load that keeps objectives, as vLLM did until 2026",
		Long: `Find the largest load that keeps objectives, as vLLM did until 2026: it begins with
65536 and with 1. ossian bench sweep load needs fewer runs, and says more.`,
	}, func(ctx context.Context) error {
		variable, err := sweep.ParseVariable(opts.variable)
		if err != nil {
			return fmt.Errorf("--sla-variable: %w", err)
		}
		objectives, err := sweep.ReadSLAs(opts.objectives)
		if err != nil {
			return fmt.Errorf("--sla-params: %w", err)
		}
		return opts.experiment.SLA(ctx, opts.grid, variable, objectives)
	})
	cmd.Flags().StringVar(&opts.objectives, "sla-params", "", "`FILE.json`: a list of objectives such as {\"p99_e2el_ms\": \"<=500\"}")
	cmd.Flags().StringVar(&opts.variable, "sla-variable", string(sweep.Rate), "what changes: request_rate or max_concurrency")
	return cmd
}
