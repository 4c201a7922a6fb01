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

// scriptedCommand serves a script, so that any client can be measured.
func scriptedCommand() *cobra.Command {
	var host, dialect, fault string
	var port, every int
	var s scripted.Script
	var o scripted.Options
	bad := scripted.Fault{}
	c := &cobra.Command{
		Use:   "scripted",
		Short: "Serve prescribed streams that measure a client",
		Long: "Serve prescribed streams of completions, chat and Responses without a model. Every event says in sent_ns when it\n" +
			"was sent; GET /scripted/record has the times of all requests that have ended, as JSON lines.",
		Args: command.Usage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			shape, err := scripted.ShapeOf(dialect)
			if err != nil {
				return err
			}
			if every < 1 || every > 1e6 {
				return fmt.Errorf("--fault-every %d: expected 1 to 1000000", every)
			}
			bad.Kind = scripted.FaultKind(fault)
			o.Shape, o.Scripts = shape, faulty(s, bad, every)
			return serveScripted(cmd.Context(), cmd.OutOrStdout(), net.JoinHostPort(host, strconv.Itoa(port)), o)
		},
	}
	f := c.Flags()
	f.StringVar(&host, "host", "127.0.0.1", "`ADDRESS` to listen on")
	f.IntVar(&port, "port", 8000, "port to listen on, 0 = a free one")
	f.StringVar(&o.Model, "model", "scripted", "`NAME` of the model")
	f.StringVar(&dialect, "dialect", "vllm", strings.Join(scripted.Dialects(), ", "))
	f.BoolVar(&o.Tokenize, "tokenize", false, "serve /tokenize and /detokenize, with code points as token ids")
	f.Uint64Var(&o.Seed, "seed", 0, "of the jitter")
	f.IntVar(&o.Senders, "senders", 1, "goroutines that send")
	f.DurationVar(&s.TTFT, "ttft", 50*time.Millisecond, "time to the first chunk")
	f.DurationVar(&s.Gap, "gap", 10*time.Millisecond, "time from chunk to chunk")
	f.DurationVar(&s.Jitter, "jitter", 0, "chunks come later by up to this")
	f.DurationVar(&s.Headers, "headers", 0, "time to the head of the answer")
	f.IntVar(&s.Tokens, "tokens", 0, "of each answer; 0 = as many as a request asks for")
	f.IntSliceVar(&s.PerChunk, "per-chunk", nil, "tokens in each chunk, in turn; default 1")
	f.IntVar(&s.Reasoning, "reasoning", 0, "tokens of each answer that are reasoning")
	f.StringVar(&fault, "fault", "", "what goes wrong: status, refuse, html, nothing, empty, reset, cut, error, garbage or stall")
	f.IntVar(&bad.Chunk, "fault-chunk", 0, "chunk in whose place it does, from 0")
	f.IntVar(&bad.Status, "fault-status", 0, "HTTP status; default 500")
	f.DurationVar(&bad.For, "fault-for", 0, "length of a stall; 0 = without an end")
	f.IntVar(&every, "fault-every", 1, "one in so many requests is struck, the last of each such row")
	return c
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

func serveScripted(ctx context.Context, out io.Writer, address string, o scripted.Options) error {
	ln, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	srv, err := scripted.Serve(ctx, ln, o)
	if err != nil {
		return errors.Join(err, ln.Close())
	}
	fmt.Fprintf(out, "listening on %s\n", srv.URL())
	<-ctx.Done()
	return srv.Close()
}
