package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"ossian/internal/bench"
	"ossian/internal/bench/chart"
	"ossian/internal/bench/client"
	"ossian/internal/bench/report"
	"ossian/internal/bench/sweep"
	"ossian/internal/command"
)

// loadOptions are the flags of `ossian bench sweep load` beside those of the client.
type loadOptions struct {
	folderOptions
	serverOptions
	search        sweep.Search
	variable, sla string
	perLoad       float64
	time          time.Duration
	program       func(words []string) *exec.Cmd
	start         command.Start
}

// loadCommand is ossian bench sweep load.
func loadCommand(program func([]string) *exec.Cmd, here command.Start) *cobra.Command {
	return &cobra.Command{
		Use:   "load [flags]",
		Short: "Find the load that is worth offering to a server",
		Long: `Find the load that is worth offering to a server. Loads double until throughput grows
by less than --gain, an objective of --sla is missed, or the range ends; then the boundary
is located by bisection. Without --serve-cmd, --base-url, --host and --port this process
serves --model (the built-in one if none is named) and measures that.

Each run has prompts of its own, as many as --num-prompts and --prompts-per-load ask for.
Results are in the layout of the other sweeps; load.json says what was found.`,
		DisableFlagParsing: true, // some flags take several words
		RunE: func(cmd *cobra.Command, args []string) error {
			search, own := &loadOptions{program: program, start: here}, &clientOptions{}
			flags := search.flags(own)
			switch err := flags.Parse(spread(args)); {
			case errors.Is(err, pflag.ErrHelp):
				fmt.Fprintf(cmd.OutOrStdout(), "%s\n\nUsage:\n  ossian bench sweep %s\n\nFlags:\n%s", cmd.Long, cmd.Use, flags.FlagUsages())
				return nil
			case err != nil:
				return command.Suggest(flags, err)
			case flags.NArg() > 0:
				return fmt.Errorf("unexpected %q: every value belongs to a flag; the model is --model NAME", flags.Arg(0))
			}
			return search.run(cmd, args, own, flags)
		},
	}
}

// flags are those of the search, and those of the client that have other names.
func (l *loadOptions) flags(own *clientOptions) *pflag.FlagSet {
	flags := pflag.NewFlagSet("bench sweep load", pflag.ContinueOnError)
	flags.SortFlags = false
	flags.Usage = func() {}
	flags.StringVar(&l.variable, "vary", string(sweep.Concurrency), "what the load is: max_concurrency or request_rate")
	flags.Float64Var(&l.search.Min, "min", 1, "smallest load")
	flags.Float64Var(&l.search.Max, "max", 1024, "largest load")
	flags.Float64Var(&l.search.Factor, "factor", 2, "from one load to the next, until something ends the climb")
	flags.Float64Var(&l.search.Gain, "gain", 0.05, "growth of throughput that is worth more load")
	flags.Float64Var(&l.search.Precision, "precision", 0.05, "share of itself to which the limit is located")
	flags.IntVar(&l.search.Points, "max-points", 24, "loads to measure at most")
	flags.DurationVar(&l.time, "max-time", 0, "begin no measurement after this long; 0 = no bound")
	flags.StringVar(&l.sla, "sla", "", "`METRIC<=MS,...`: objectives, by the keys of results, such as p99_ttft_ms<=500")
	flags.Float64Var(&l.perLoad, "prompts-per-load", 8, "requests per unit of load, if that is more than --num-prompts")
	l.folderOptions.flags(flags)
	l.serverOptions.flags(flags)
	// The client's flags behind those of the search, of which two have another default here.
	all := own.flags()
	for name, value := range map[string]string{"num-prompts": "16", "percentile-metrics": "ttft,tpot,itl,e2el"} {
		flag := all.Lookup(name)
		_ = flag.Value.Set(value) // the client's own 1000 prompts are too many for small loads
		flag.DefValue = value
	}
	flags.SetNormalizeFunc(all.GetNormalizeFunc())
	flags.AddFlagSet(all)
	return flags
}

// run checks what was asked for and searches.
func (l *loadOptions) run(cmd *cobra.Command, args []string, own *clientOptions, flags *pflag.FlagSet) error {
	if err := own.complete(flags, args); err != nil {
		return err
	}
	var err error
	search := sweep.LoadSearch{Search: l.search, Prompts: own.Data.Prompts, PerLoad: l.perLoad, Seed: own.Seed}
	if search.Variable, err = sweep.ParseVariable(l.variable); err != nil {
		return fmt.Errorf("--vary: %w", err)
	}
	search.Whole = search.Variable == sweep.Concurrency
	if l.sla != "" {
		if search.SLA, err = sweep.ParseSLA(l.sla); err != nil {
			return fmt.Errorf("--sla: %w", err)
		}
	}
	// What the search sets, or what is about one run, cannot be given.
	switch name := strings.ReplaceAll(string(search.Variable), "_", "-"); {
	case flags.Changed(name):
		return fmt.Errorf("--%s: that is searched for; --min and --max bound it", name)
	case search.Whole && flags.Changed("multi-turn-concurrency"):
		return errors.New("--multi-turn-concurrency: that is what max_concurrency would set, which is searched for; --min and --max bound it")
	case !search.Whole && flags.Lookup("dataset-name").Value.String() == "timed_trace" && !flags.Changed("no-self-timed"):
		return errTimed
	case own.runs < 1 || own.runs > 1000:
		return fmt.Errorf("--num-runs %d: want 1 to 1000", own.runs)
	case !(l.perLoad >= 0 && l.perLoad <= 1e6):
		return fmt.Errorf("--prompts-per-load %v: want 0 to 1e6", l.perLoad)
	}
	for _, name := range []string{"save-result", "append-result", "result-dir", "result-filename", "output-file", "log", "plot-timeline", "plot-dataset-stats",
		"compare", "sweep-max-concurrency", "sweep-request-rate", "multi", "preset"} {
		if flags.Changed(name) {
			return fmt.Errorf("--%s: not in a search for the load; results of all runs go to --output-dir", name)
		}
	}
	measurer := &bencher{cmd: cmd, args: args, html: own.html, start: l.start}
	if l.serve != "" {
		if flags.Changed("base-url") || flags.Changed("host") || flags.Changed("port") {
			return errors.New("--serve-cmd says where the server is: leave out --base-url, --host and --port")
		}
		serving, err := words("--serve-cmd", l.serve)
		if err != nil {
			return err
		}
		measurer.server = l.server(cmd, serving, l.program)
	}
	defer measurer.Close()
	return l.find(cmd, measurer, search, own.runs)
}

// find searches and reports.
func (l *loadOptions) find(cmd *cobra.Command, measurer *bencher, search sweep.LoadSearch, runs int) error {
	dir, err := l.path()
	if err = cmp.Or(err, command.OutputFile("--html", measurer.html)); err != nil {
		return err
	}
	experiment := &sweep.Experiment{Dir: dir, Resume: l.resume, Runs: runs, DryRun: l.dryRun, Out: cleaner{cmd.ErrOrStderr()}}
	began := time.Now()
	search.Expired = func() bool { return l.time > 0 && time.Since(began) > l.time }
	out := cleaner{cmd.OutOrStdout()}
	// The table grows while the search goes on: a row for each load, under one head.
	head := true
	search.Measured = func(point sweep.Point, runs []sweep.Object) {
		if head {
			fmt.Fprintf(out, "%16s", search.Variable)
			for _, column := range loadColumns {
				fmt.Fprintf(out, " %13s", column.title)
			}
			fmt.Fprintln(out)
		}
		head = false
		fmt.Fprintf(out, "%16.4g", point.Load)
		for _, column := range loadColumns {
			cell := "-"
			if mean, err := sweep.Mean(runs, column.key); err == nil {
				cell = strconv.FormatFloat(mean, 'f', 2, 64)
			}
			fmt.Fprintf(out, " %13s", cell)
		}
		switch {
		case point.Untrusted != "":
			fmt.Fprintf(out, "  untrusted: %s", point.Untrusted)
		case point.Margin > 0:
			fmt.Fprintf(out, "  misses %s", l.sla)
		}
		fmt.Fprintln(out)
	}
	conclusion, err := experiment.Load(cmd.Context(), measurer, search)
	if err != nil || l.dryRun {
		return err
	}
	fmt.Fprintf(out, "\n%s", conclusion)
	return measurer.report()
}

// loadColumns are the columns of the table of loads; times are milliseconds.
var loadColumns = [...]struct{ title, key string }{{"req/s", "request_throughput"}, {"output tok/s", "output_throughput"}, {"mean TTFT", "mean_ttft_ms"},
	{"p99 TTFT", "p99_ttft_ms"}, {"mean TPOT", "mean_tpot_ms"}, {"mean E2EL", "mean_e2el_ms"}, {"p99 E2EL", "p99_e2el_ms"}}

// A bencher measures with this program's own client. Server and tokenizer are those of the
// first run.
type bencher struct {
	cmd    *cobra.Command
	args   []string      // the command line
	html   string        // file of the report; "" = none
	server *sweep.Server // nil = this process serves, or somebody else
	start  command.Start // serves in this process
	base   string        // of the server in this process; "" = there is none yet
	end    func() error  // ends it

	tokens *client.Tokens // nil = not looked for yet, or none wanted
	title  string
	runs   []chart.Run // for the report
}

// Measure implements sweep.Measurer.
func (b *bencher) Measure(ctx context.Context, setting sweep.Object, path string) error {
	// The server, whoever has it, is started for the first measurement and stays.
	opts, err := b.options(setting)
	if err != nil {
		return err
	}
	if b.server != nil {
		if err := b.server.Start(ctx); err != nil {
			return err
		}
		if opts.BaseURL, err = b.server.URL(); err != nil {
			return err
		}
	}
	if opts.Local {
		if b.end == nil {
			if err := b.serve(ctx, opts.Model, opts.device); err != nil {
				return err
			}
		}
		opts.BaseURL = b.base
	}
	status := b.cmd.ErrOrStderr()
	opts.Log, opts.Tokens = status, b.tokens // a table is printed, and nothing of stages
	opts.Watch = func(live *bench.Live) (stop func()) { return watch(ctx, live, status, !opts.quiet) }
	one, err := client.New(opts.Options)
	if err != nil {
		return err
	}
	defer one.Close()
	if err := one.Connect(ctx); err != nil {
		return err
	}
	b.tokens = one.KeepTokens()
	if err := one.Prepare(ctx); err != nil {
		return err
	}
	recording, err := one.Record(ctx, 0, "")
	if err != nil {
		return err
	}
	summary := report.Summarize(recording, one.Count())
	if b.title = one.Setup().Model + ", " + one.Setup().Dataset; b.html != "" {
		b.runs = append(b.runs, chart.Run{Summary: summary, Recording: recording})
	}
	text, err := summary.JSON(opts.detailed)
	if err != nil {
		return err
	}
	// The file comes last: what is there was measured whole.
	if b.server != nil {
		if err := b.server.Forget(ctx, status); err != nil {
			return err
		}
	}
	return os.WriteFile(path, text, 0o666)
}

// options are those that bench serve would have with the arguments and the setting.
func (b *bencher) options(setting sweep.Object) (*clientOptions, error) {
	search, opts := &loadOptions{}, &clientOptions{}
	flags := search.flags(opts)
	args := setting.Apply(spread(b.args))
	if err := flags.Parse(args); err != nil {
		return nil, command.Suggest(flags, err)
	}
	if err := opts.complete(flags, args); err != nil {
		return nil, err
	}
	if b.server != nil {
		opts.elsewhere()
	}
	return opts, nil
}

// serve starts the server in this process.
func (b *bencher) serve(ctx context.Context, model, device string) error {
	ctx, cancel := context.WithCancel(ctx)
	base, stop, err := serveHere(ctx, b.start, model, device, b.cmd.ErrOrStderr())
	if err != nil {
		cancel()
		return err
	}
	b.base = base
	b.end = func() error {
		cancel()
		return stop()
	}
	return nil
}

// report writes the report with plots of what was measured now.
func (b *bencher) report() error {
	if b.html == "" {
		return nil
	}
	if len(b.runs) == 0 {
		return fmt.Errorf("--html %s: every result was there already; a report needs what is only known while measuring", b.html)
	}
	return writeTo(b.html, func(w io.Writer) error { return chart.HTML(w, b.title, b.runs) })
}

// Close implements sweep.Measurer.
func (b *bencher) Close() {
	if b.server != nil {
		b.server.Stop()
	}
	if b.end != nil {
		if err := b.end(); err != nil {
			fmt.Fprintln(cleaner{b.cmd.ErrOrStderr()}, err)
		}
	}
	b.tokens.Close()
}
