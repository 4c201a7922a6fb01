// Serves gpt-oss's formats and the whole API with a model that plays a script, for
// clients that want more of a model than ossian-tiny can do.
//
// usage: scripted FILE [SITE | SERVER...]
//
// FILE has what the model says at each turn, separated by empty lines: harmony markup
// behind <|start|>assistant, in which lines are joined. The turn that is played is the
// number of results of tools behind the last message of the user; {{output}} in it is
// the last line of the last one. A line "? TEXT" begins a script of its own, which is
// played where the user's last message is that text. It serves on a free port of
// 127.0.0.1, which it says on standard error, until it is interrupted.
//
// With SITE it runs tools: a browser of that folder, Python in its sandbox, and a server
// of MCP that is called weather. With addresses of servers of MCP (host:port) it has these.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"ossian/internal/chat"
	"ossian/internal/engine"
	"ossian/internal/host"
	"ossian/internal/metrics"
	"ossian/internal/runner"
	"ossian/internal/sample"
	"ossian/internal/server"
	"ossian/internal/sim"
	"ossian/internal/store"
	"ossian/internal/token"
	"ossian/internal/tools/python"
)

// The server's model. The tools of an agent alone take thousands of tokens.
const (
	name   = "scripted"
	vocab  = 201_088
	maxLen = 65_536
)

func main() {
	python.Helper(os.Args[1:]) // as an interpreter's helper the program does not get further
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: scripted FILE [SITE | SERVER...]")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1], os.Args[2:], os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "scripted:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, file string, tools []string, status io.Writer) error {
	script, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	tok, err := token.Harmony()
	if err != nil {
		return err
	}
	p, err := newPlay(tok, string(script))
	if err != nil {
		return err
	}
	log := slog.New(slog.NewTextHandler(status, nil))
	m, err := p.model(log)
	if err != nil {
		return err
	}
	h, err := host.New(host.Config{}, host.Card{Names: []string{name}, Root: name, Created: time.Now(), MaxLen: maxLen})
	if err != nil {
		return err
	}
	ms := metrics.New(metrics.Config{})
	m.Metrics = ms.Model(metrics.ModelConfig{Name: name, MaxLen: maxLen, BlockSize: 16, Snapshot: func() metrics.Snapshot { return host.Snapshot(m.Engine) }})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	cfg := server.Config{Version: name, DrainTimeout: time.Second, AccessLog: true}
	if cfg.Archive, err = store.NewMemory(store.Config{Bytes: 64 << 20}); err != nil {
		return err
	}
	if len(tools) > 0 {
		box, err := openTools(tools, log)
		if err != nil {
			return err
		}
		defer box.Close()
		cfg.Toolbox = box
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	hosted := make(chan struct{})
	hostCtx, end := context.WithCancel(context.WithoutCancel(ctx)) // answers go on while the server drains
	go func() {
		defer close(hosted)
		if err := h.Run(hostCtx, func(context.Context, *host.Card) (*host.Model, error) { return m, nil }); err != nil && hostCtx.Err() == nil {
			cancel(err)
		}
	}()
	for !h.Available() && ctx.Err() == nil {
		time.Sleep(time.Millisecond)
	}
	fmt.Fprintf(status, "listening on http://%s\nmodel loaded\n", l.Addr())
	err = server.New(cfg, h, log, ms).Serve(ctx, l)
	end()
	<-hosted
	return err
}

// A play is a script and what is needed to find the place in it.
type play struct {
	tok     *token.BPE
	scripts map[string][]string // turns, by the question; "" = any other
	start   int32               // the id that begins a message
}

func newPlay(tok *token.BPE, script string) (*play, error) {
	p := &play{tok: tok, scripts: map[string][]string{}}
	question := ""
	for turn := range strings.SplitSeq(strings.TrimSpace(script), "\n\n") {
		if rest, asked := strings.CutPrefix(strings.TrimSpace(turn), "? "); asked {
			question, turn, _ = strings.Cut(rest, "\n")
		}
		p.scripts[question] = append(p.scripts[question], strings.ReplaceAll(strings.TrimSpace(turn), "\n", ""))
	}
	p.start, _ = tok.ID("<|start|>") // gpt-oss has it
	if strings.TrimSpace(script) == "" {
		return nil, errors.New("the script is empty: at least one turn expected")
	}
	return p, nil
}

// model returns an engine whose runner plays the script, and the format of gpt-oss.
func (p *play) model(log *slog.Logger) (*host.Model, error) {
	f, err := chat.New(chat.Facts{Family: "gpt-oss", Tokenizer: p.tok, Stops: []int32{200_002, 200_012}})
	if err != nil {
		return nil, err
	}
	r, err := sim.NewScript(sim.Config{Info: runner.Info{Vocab: vocab, MaxLen: maxLen, MaxSeqs: 4, MaxTokens: 4096}, Next: sim.Reply(p.reply)})
	if err != nil {
		return nil, err
	}
	e, err := engine.New(r, engine.Config{}, log)
	if err != nil {
		return nil, err
	}
	return &host.Model{Engine: e, Tokenizer: p.tok, Format: f, Stops: f.Stops(), Vocab: vocab, Defaults: sample.Params{Temperature: 1}, Fingerprint: "os-" + name}, nil
}

// reply returns the ids that follow prompt.
func (p *play) reply(prompt []int32) []int32 {
	turn, output, end, script := 0, "", len(prompt), p.scripts[""]
	for at := end - 1; at >= 0; at-- {
		if prompt[at] != p.start {
			continue
		}
		message := p.tok.Decode(prompt[at+1 : end])
		end = at
		if strings.HasPrefix(message, "user") {
			if own := p.scripts[text(message)]; own != nil {
				script = own
			}
			break
		}
		// The rest are results of tools. What an agent says of itself meanwhile is none.
		if of := func(author string) bool { return strings.HasPrefix(message, author) }; !of("assistant") && !of("developer") && !of("system") {
			if turn++; turn == 1 {
				output = lastLine(message)
			}
		}
	}
	if script == nil {
		script = []string{"<|channel|>final<|message|>I do not know.<|return|>"}
	}
	q := p.tok.Prompt()
	q.Markup(strings.ReplaceAll(script[min(turn, len(script)-1)], "{{output}}", output))
	return q.IDs()
}

// text returns what a message says.
func text(message string) string {
	_, message, _ = strings.Cut(message, "<|message|>")
	message, _, _ = strings.Cut(message, "<|end|>")
	return strings.TrimSpace(message)
}

// lastLine returns the last line of a tool's message that has something in it.
func lastLine(message string) string {
	message = text(message)
	return strings.TrimSpace(message[strings.LastIndexByte(message, '\n')+1:])
}
