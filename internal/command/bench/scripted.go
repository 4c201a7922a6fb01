package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"ossian/internal/bench/scripted"
	"ossian/internal/command"
)

// scriptedCommand is ossian bench scripted: it serves a script, so that any client can be
// measured.
func scriptedCommand() *cobra.Command {
	var host, dialect, fault string
	var port, every int
	var script scripted.Script
	var options scripted.Options
	bad := scripted.Fault{}
	cmd := &cobra.Command{
		Use:   "scripted",
		Short: "Serve prescribed streams that measure a client",
		Long: "Serve prescribed streams of completions, chat and Responses without a model. Every event says in sent_ns when it\n" +
			"was sent; GET /scripted/record has the times of all requests that have ended, as JSON lines.",
		Args: command.Usage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			shape, err := scripted.DialectOf(dialect)
			if err != nil {
				return err
			}
			if every < 1 || every > 1e6 {
				return fmt.Errorf("--fault-every %d: expected 1 to 1000000", every)
			}
			bad.Kind = scripted.FaultKind(fault)
			options.Dialect, options.Scripts = shape, faulty(script, bad, every)
			return serveScripted(cmd.Context(), cmd.OutOrStdout(), net.JoinHostPort(host, strconv.Itoa(port)), options)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&host, "host", "127.0.0.1", "`ADDRESS` to listen on")
	flags.IntVar(&port, "port", 8000, "port to listen on, 0 = a free one")
	flags.StringVar(&options.Model, "model", "scripted", "`NAME` of the model")
	flags.StringVar(&dialect, "dialect", "vllm", strings.Join(scripted.Dialects(), ", "))
	flags.BoolVar(&options.Tokenize, "tokenize", false, "serve /tokenize and /detokenize, with code points as token ids")
	flags.Uint64Var(&options.Seed, "seed", 0, "of the jitter")
	flags.IntVar(&options.Senders, "senders", 1, "goroutines that send")
	flags.DurationVar(&script.TTFT, "ttft", 50*time.Millisecond, "time to the first chunk")
	flags.DurationVar(&script.Gap, "gap", 10*time.Millisecond, "time from chunk to chunk")
	flags.DurationVar(&script.Jitter, "jitter", 0, "chunks come later by up to this")
	flags.DurationVar(&script.Headers, "headers", 0, "time to the head of the answer")
	flags.IntVar(&script.Tokens, "tokens", 0, "of each answer; 0 = as many as a request asks for")
	flags.IntSliceVar(&script.PerChunk, "per-chunk", nil, "tokens in each chunk, in turn; default 1")
	flags.IntVar(&script.Reasoning, "reasoning", 0, "tokens of each answer that are reasoning")
	flags.StringVar(&fault, "fault", "", "what goes wrong: status, refuse, html, nothing, empty, reset, cut, error, garbage or stall")
	flags.IntVar(&bad.Chunk, "fault-chunk", 0, "chunk in whose place it does, from 0")
	flags.IntVar(&bad.Status, "fault-status", 0, "HTTP status; default 500")
	flags.DurationVar(&bad.For, "fault-for", 0, "length of a stall; 0 = without an end")
	flags.IntVar(&every, "fault-every", 1, "one in so many requests is struck, the last of each such row")
	return cmd
}

// faulty are n scripts, the last of which has the fault.
func faulty(s scripted.Script, bad scripted.Fault, n int) []scripted.Script {
	out := make([]scripted.Script, n)
	for i := range out {
		out[i] = s
	}
	out[len(out)-1].Fault = bad
	return out
}

func serveScripted(ctx context.Context, out io.Writer, address string, options scripted.Options) error {
	ln, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	srv, err := scripted.Serve(ctx, ln, options)
	if err != nil {
		return errors.Join(err, ln.Close())
	}
	fmt.Fprintf(out, "listening on %s\n", srv.URL())
	<-ctx.Done()
	return srv.Close()
}
