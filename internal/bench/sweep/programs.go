package sweep

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Programs is a Measurer whose server and client are programs (bench.md 3.3). The server
// starts with the first run, so that nothing starts where no run is missing.
type Programs struct {
	Server *Server
	Client []string
	Own    bool          // the client is ossian's: it is told where the server is
	After  []string      // runs after each run of the client; nil = Server.Forget
	Limit  time.Duration // of a run of the client; 0 = none
	Show   bool          // the output of the client
	DryRun bool          // say what would run
	Out    io.Writer     // what is going on

	toldServer bool // what the server is
}

// Measure implements Measurer.
func (p *Programs) Measure(ctx context.Context, bench Object, path string) error {
	command, err := p.command(bench, path)
	if err != nil {
		return err
	}
	if !p.toldServer {
		p.toldServer = true
		fmt.Fprintf(p.Out, "server: %q\n", p.Server.Command)
	}
	fmt.Fprintf(p.Out, "client: %q\n", command)
	if p.DryRun {
		return nil
	}
	if err := p.Server.Start(ctx); err != nil {
		return err
	}
	err = p.runProgram(ctx, command)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if after := p.after(ctx); err == nil {
		err = after
	}
	if err != nil { // a server that dies cuts its connections a little before it is gone
		select {
		case <-p.Server.process.ended:
		case <-time.After(time.Second):
		}
	}
	return cmp.Or(p.Server.Alive(), err)
}

// command is that of the client.
func (p *Programs) command(bench Object, path string) ([]string, error) {
	out := bench.Apply(p.Client)
	named := func(flag string) bool {
		return slices.ContainsFunc(out, func(w string) bool { return w == flag || strings.HasPrefix(w, flag+"=") })
	}
	if p.Own && !named("--base-url") && !named("--base_url") && !named("--host") && !named("--port") {
		base, err := p.Server.URL()
		if err != nil {
			return nil, err
		}
		out = append(out, "--base-url", base)
	}
	return append(out, "--percentile-metrics", "ttft,tpot,itl,e2el", "--save-result", "--result-dir", filepath.Dir(path), "--result-filename", filepath.Base(path)), nil
}

// runProgram runs a program to its end, and no longer than Limit and ctx allow.
func (p *Programs) runProgram(ctx context.Context, command []string) error {
	if p.Limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, p.Limit, fmt.Errorf("%q ran longer than %v, the limit of --run-timeout", command, p.Limit))
		defer cancel()
	}
	cmd := p.Server.Make(command)
	cmd.Stderr = p.Server.Stderr
	if p.Show {
		cmd.Stdout = p.Out
	}
	client, err := start(cmd)
	if err != nil {
		return fmt.Errorf("%q: %w", command, err)
	}
	// A program that is cut off is ended with all that it has started.
	select {
	case <-client.ended:
	case <-ctx.Done():
		client.stop(cmp.Or(p.Server.Grace, 10*time.Second))
		return context.Cause(ctx)
	}
	if client.err != nil {
		return fmt.Errorf("%q: %w", command, client.err)
	}
	return nil
}

// after does what is to be done between two runs.
func (p *Programs) after(ctx context.Context) error {
	if p.After == nil {
		return p.Server.Forget(ctx, p.Out)
	}
	return p.runProgram(ctx, p.After)
}

// Close implements Measurer.
func (p *Programs) Close() { p.Server.Stop() }
