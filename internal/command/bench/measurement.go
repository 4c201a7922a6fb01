package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"ossian/internal/bench"
	"ossian/internal/bench/client"
	"ossian/internal/bench/report"
	"ossian/internal/command"
)

// A measurement is a run of `ossian bench serve`: a client with what the command line says
// beside.
//
// Variants of a series are copies with clients of their own, which share server and tokenizer.
type measurement struct {
	*client.Client
	o        *clientOptions
	flags    *pflag.FlagSet
	out, log io.Writer     // reports; what is going on
	start    command.Start // starts a server in this process
}

// run measures and reports. A run whose numbers cannot be trusted is an error.
func (o *clientOptions) run(cmd *cobra.Command, flags *pflag.FlagSet, here command.Start) (err error) {
	measured := &measurement{o: o, flags: flags, start: here, out: cleaner{cmd.OutOrStdout()}, log: cmd.ErrOrStderr()}
	ctx, cancel := context.WithCancel(cmd.Context())
	defer cancel()
	// Where results go comes before anything that takes long.
	measured.sayCommand()
	if o.dryRun {
		return measured.dryRun(ctx)
	}
	if err := o.writable(); err != nil {
		return err
	}
	if o.Local {
		base, stop, err := serveHere(ctx, here, o.Model, o.device, measured.log)
		if err != nil {
			return err
		}
		o.BaseURL = base
		defer func() {
			cancel()
			err = errors.Join(err, stop())
		}()
	}
	if err := measured.client(ctx); err != nil {
		return err
	}
	defer measured.Close()
	if err := measured.Connect(ctx); err != nil {
		return err
	}
	return measured.measure(ctx)
}

// client makes the client, which prints where m does.
func (m *measurement) client(ctx context.Context) (err error) {
	m.listen(ctx)
	m.Client, err = client.New(m.o.Options)
	return err
}

// listen has the client print what its tool does, and the view show how far it is.
func (m *measurement) listen(ctx context.Context) {
	m.o.Out, m.o.Log = m.out, m.log
	m.o.Watch = func(live *bench.Live) (stop func()) { return watch(ctx, live, m.log, !m.o.quiet) }
}

// serveHere starts a server of the model in this process, on a device of that name; "" = what a server
// takes by itself. It takes all that is sent: what is asked of it is what its user wants to measure.
// Stop waits until it has ended, after ctx.
func serveHere(ctx context.Context, here command.Start, model, device string, log io.Writer) (base string, stop func() error, err error) {
	args := slices.Clone(command.Unlimited)
	if model != "" {
		args = append([]string{model}, args...)
	}
	if device != "" {
		args = append(args, "--device", device)
	}
	return here.Ready(ctx, args, log)
}

// dryRun makes the workload and says what it is, in the compiled client's words. Nothing
// is asked of a server.
func (m *measurement) dryRun(ctx context.Context) error {
	if m.o.Tokenizer == "" && m.o.Model == "" && !m.o.Local && !m.o.SkipTokenizer {
		return errors.New("--dry-run asks no server: --model or --tokenizer says whose tokens count")
	}
	if err := m.client(ctx); err != nil {
		return err
	}
	defer m.Close()
	if err := m.OpenTokenizer(); err != nil {
		return err
	}
	// Each variant of a sweep makes its workload as if it were to be sent.
	plan, err := m.o.sweep.plan(m.o)
	if err != nil {
		return err
	}
	var last *measurement
	for _, each := range plan.variants {
		if last, err = m.with(ctx, each, last); err != nil {
			return err
		}
		in, out := last.Totals()
		prompts := float64(len(last.Workload()))
		fmt.Fprintf(m.out, "Dry run stats: %s\n  Total prompts: %.0f\n  Total input tokens: %d\n  Total expected output tokens: %d\n  Avg input tokens: %.1f\n  Avg output tokens: %.1f\n  Workload: %s, %d prompts repeated\n",
			each.title, prompts, in, out, float64(in)/prompts, float64(out)/prompts, last.Setup().Hash, last.Setup().Repeats)
	}
	return nil
}

// once is one run, the first having index 0.
func (m *measurement) once(ctx context.Context, index int) (*bench.Recording, error) {
	log := m.o.log
	if log != "" {
		log = numbered(log, index)
	}
	return m.Record(ctx, index, log)
}

// print writes the report and what it means.
func (m *measurement) print(summary *report.Summary) {
	fmt.Fprint(m.out, summary.Console())
	fmt.Fprint(m.out, summary.OssianConsole())
}
