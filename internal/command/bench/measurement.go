package bench

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"ossian/internal/bench"
	"ossian/internal/bench/dataset"
	"ossian/internal/bench/report"
	"ossian/internal/chat"
	"ossian/internal/ckpt"
	"ossian/internal/load"
	"ossian/internal/tiny"
	"ossian/internal/token"
)

// A measurement is a run of `ossian bench serve` with what it needs.
//
// It goes from its settings to the server (serve, connect), the tokenizer and the workload,
// and then makes any number of runs. Variants of a series are copies that share what is
// found out once.
type measurement struct {
	o          *clientOptions
	flags      *pflag.FlagSet
	setup      *bench.Setup
	out, log   io.Writer // reports; what is going on
	local      bool      // the server is in this process
	start      start     // starts it
	terse      bool      // say nothing of stages
	access     bench.Access
	base       string // of the server
	server     *bench.Server
	tok        *token.BPE // nil = none
	checkpoint *ckpt.Model
	legacy     *dataset.Legacy
	work       bench.Workload
}

// run measures and reports. A run whose numbers cannot be trusted is an error.
func (o *clientOptions) run(cmd *cobra.Command, flags *pflag.FlagSet, setup *bench.Setup, here start) (err error) {
	m := &measurement{o: o, flags: flags, setup: setup, start: here, out: cleaner{cmd.OutOrStdout()}, log: cmd.ErrOrStderr(),
		local: !flags.Changed("base-url") && !flags.Changed("host") && !flags.Changed("port")}
	ctx, cancel := context.WithCancel(cmd.Context())
	defer cancel()
	// Folders come before anything that takes long.
	m.sayCommand()
	if o.dryRun {
		return m.dryRun(ctx)
	}
	if err := o.folders(); err != nil {
		return err
	}
	if m.local {
		stop, err := m.serve(ctx)
		if err != nil {
			return err
		}
		defer func() {
			cancel()
			err = errors.Join(err, stop())
		}()
	}
	if err := m.connect(ctx); err != nil {
		return err
	}
	defer m.server.Close()
	if err := m.tokenizer(); err != nil {
		return err
	}
	if m.checkpoint != nil {
		defer m.checkpoint.Close()
	}
	return m.measure(ctx)
}

// serve starts the server in this process. It takes all that is sent: what is asked of
// it is what its user wants to measure.
func (m *measurement) serve(ctx context.Context) (stop func() error, err error) {
	args := []string{"--host", "127.0.0.1", "--port", "0", "--no-access-log", "--log-level", "warn",
		"--max-queue", "1048576", "--limit", "queue-tokens=1099511627776", "--limit", "queue-wait=168h", "--limit", "request-time=168h"}
	if m.o.model != "" {
		args = append([]string{m.o.model}, args...)
	}
	address, ended, err := m.start(ctx, args, m.log)
	if err != nil {
		return nil, err
	}
	m.base = "http://" + address
	stop = func() error { return <-ended }
	// It is ready when its model is.
	for {
		select {
		case err := <-ended:
			return nil, cmp.Or(err, ctx.Err(), errors.New("the server ended before it was ready"))
		case <-time.After(10 * time.Millisecond):
		}
		reply, err := http.Get(m.base + "/ready")
		if err != nil {
			continue
		}
		reply.Body.Close()
		if reply.StatusCode == http.StatusOK {
			return stop, nil
		}
	}
}

// connect finds the server and the model.
func (m *measurement) connect(ctx context.Context) (err error) {
	if !m.local {
		m.base = strings.TrimRight(m.o.baseURL, "/")
		if strings.HasPrefix(cmp.Or(m.o.endpoint, endpointOf(m.setup.Backend)), "/v1/") {
			m.base = strings.TrimSuffix(m.base, "/v1") // as clients of OpenAI have it
		}
		if m.base == "" {
			m.base = "http://" + net.JoinHostPort(strings.Trim(m.o.host, "[]"), strconv.Itoa(m.o.port))
		}
		m.access.Key, m.access.Proxy = os.Getenv("OPENAI_API_KEY"), http.ProxyFromEnvironment
	}
	m.access.Insecure = m.o.insecure
	if m.access.Header, err = bench.ParsePairs("--header", m.o.headers); err != nil {
		return err
	}
	if m.server, err = bench.NewServer(m.base, m.access); err != nil {
		return err
	}
	// Requests name the model as the server does; its path there, or what it stands for, is
	// where a tokenizer may be.
	name, root := m.o.model, m.o.model
	if name == "" || m.local {
		if m.o.model == "" {
			m.say("Model not specified, fetching first model from server...")
		}
		if name, root, err = m.server.FirstModel(ctx); err != nil {
			return fmt.Errorf("no list of models: %w; --base-url says where the server is, OPENAI_API_KEY in the environment is its key, --model NAME needs no list", err)
		}
		if m.o.model == "" {
			m.say("First model name: %s, first model id: %s", name, root)
		}
	}
	m.setup.Model, m.setup.ModelID = cmp.Or(m.o.served, name), root // as vLLM's client
	if m.local {
		m.setup.ModelID = name
	}
	if m.o.tokenizer == "" {
		m.o.tokenizer = root
		if m.local {
			m.o.tokenizer = cmp.Or(m.o.model, tiny.Name)
		}
	}
	m.address()
	m.setup.Environment = m.environment(ctx)
	return nil
}

// address sets where requests go.
func (m *measurement) address() {
	m.setup.URL = m.base + cmp.Or(m.o.endpoint, endpointOf(m.setup.Backend))
}

// endpointOf is the path of a backend.
func endpointOf(backend string) string {
	switch {
	case strings.HasSuffix(backend, "chat"):
		return "/v1/chat/completions"
	case strings.HasSuffix(backend, "responses"):
		return "/v1/responses"
	}
	return "/v1/completions"
}

// tokenizer finds the tokenizer. That of gpt-oss is built in.
func (m *measurement) tokenizer() error {
	if m.o.skipTokenizer {
		return nil
	}
	name := m.o.tokenizer
	checkpoint, err := load.OpenModel(name)
	switch {
	case err == nil:
		m.checkpoint, m.tok = checkpoint, checkpoint.Tokenizer
	case strings.Contains(strings.ToLower(name), "gpt-oss"): // whatever else is in the name
		if m.tok, err = token.Harmony(); err != nil {
			return err
		}
	default:
		return fmt.Errorf("no tokenizer: %w; --tokenizer MODEL names another model that has it, --skip-tokenizer-init does without", err)
	}
	m.setup.Tokenizer = name
	return nil
}

// render puts a prompt in the model's chat template; nil if there is none.
func (m *measurement) render() renderer {
	if m.checkpoint == nil {
		return nil
	}
	format, err := load.ChatFormat(m.checkpoint, "")
	if err != nil {
		return nil
	}
	return func(prompt string) (string, error) {
		ids := m.tok.Prompt()
		talk := &chat.Conversation{Turns: []chat.Turn{{Role: chat.User, Parts: []string{prompt}}}, Vars: json.RawMessage(m.o.templateVars)}
		if err := format.Render(ids, talk); err != nil {
			return "", err
		}
		return m.tok.Decode(ids.IDs()), nil
	}
}

// dryRun makes the workload and says what it is, in the compiled client's words. Nothing
// is asked of a server.
func (m *measurement) dryRun(ctx context.Context) error {
	if m.o.tokenizer = cmp.Or(m.o.tokenizer, m.o.model); m.local {
		m.o.tokenizer = cmp.Or(m.o.tokenizer, tiny.Name)
	}
	if m.o.tokenizer == "" && !m.o.skipTokenizer {
		return errors.New("--dry-run asks no server: --model or --tokenizer says whose tokens count")
	}
	if err := m.tokenizer(); err != nil {
		return err
	}
	if m.checkpoint != nil {
		defer m.checkpoint.Close()
	}
	// Each variant of a sweep makes its workload as if it were to be sent.
	m.address()
	plan, err := m.o.sweep.plan(m.o)
	if err != nil {
		return err
	}
	var last *measurement
	for _, each := range plan.variants {
		if last, err = m.with(ctx, each, last); err != nil {
			return err
		}
		in, out := last.tokens()
		prompts := float64(len(last.work))
		m.say("Dry run stats: %s\n  Total prompts: %.0f\n  Total input tokens: %d\n  Total expected output tokens: %d\n  Avg input tokens: %.1f\n  Avg output tokens: %.1f\n  Workload: %s, %d prompts repeated",
			each.title, prompts, in, out, float64(in)/prompts, float64(out)/prompts, last.setup.Hash, last.setup.Repeats)
	}
	return nil
}

// target is the server as a run sends to it.
func (m *measurement) target() (*bench.HTTP, error) {
	cfg := bench.HTTPConfig{Access: m.access, Setup: m.setup, Sampling: m.o.members(m.flags), IDPrefix: m.o.idPrefix}
	if cfg.IDPrefix == "" {
		cfg.IDPrefix = fmt.Sprintf("bench-%08x-", rand.Uint32())
	}
	if m.flags.Changed("logprobs") {
		cfg.Logprobs = &m.o.logprobs
	}
	if m.o.extra != "" {
		cfg.Extra = json.RawMessage(m.o.extra)
	}
	return bench.NewHTTP(cfg)
}

// options are those of the run.
func (m *measurement) options(live *bench.Live) bench.Options {
	options := bench.Options{Setup: *m.setup, Gamma: m.legacy.Gamma, Shared: m.local, Ready: time.Duration(m.o.ready * float64(time.Second)), Warmups: m.o.warmups,
		ProbeRate: m.o.probeRate, OnStage: m.stage, ReadCounters: m.server.Counters, Live: live, Start: m.begin}
	// These tools wait after warming up; sglang's warm-ups are short.
	switch {
	case m.setup.Profile == bench.LMDeploy && options.Warmups > 0:
		options.Settle = 1500 * time.Millisecond
	case m.setup.Profile == bench.SGLang:
		options.WarmupOutput, options.Settle = 32, time.Second
	}
	if m.o.profile {
		options.Stop = func(ctx context.Context) error { return m.profiler(ctx, "Stopping", "/stop_profile", "stopped") }
	}
	return options
}

// begin asks of the server what it has to do just before the measurement, behind the
// warm-ups, which leave a prompt in its cache.
func (m *measurement) begin(ctx context.Context) error {
	m.sayMain()
	path := ""
	switch {
	case m.o.flushCache && !strings.HasPrefix(m.setup.Backend, "vllm"):
		path = "/flush_cache"
	case m.o.flushCache || m.o.resetCache:
		path = "/reset_prefix_cache"
	}
	if path != "" {
		if err := m.server.Post(ctx, path); err != nil {
			return fmt.Errorf("the server did not empty its prefix cache: %w; vLLM does with VLLM_SERVER_DEV_MODE=1, and --salt needs nothing of the server", err)
		}
	}
	if m.o.profile {
		return m.profiler(ctx, "Starting", "/start_profile", "started")
	}
	return nil
}

// profiler starts or stops that of the server.
func (m *measurement) profiler(ctx context.Context, doing, path, done string) error {
	m.say("%s profiler...", doing)
	if err := m.server.Profile(ctx, path); err != nil {
		return err
	}
	m.say("Profiler %s", done)
	return nil
}

// once is one run, the first having index 0.
func (m *measurement) once(ctx context.Context, index int) (*bench.Recording, error) {
	work, err := m.salted(index)
	if err != nil {
		return nil, err
	}
	target, err := m.target()
	if err != nil {
		return nil, err
	}
	defer target.Close()
	// The log is written while requests end; the view reads counters of the same run.
	live := new(bench.Live)
	options := m.options(live)
	if m.o.log != "" {
		file, err := os.Create(numbered(m.o.log, index))
		if err != nil {
			return nil, err
		}
		defer file.Close()
		options.LogTo = file
	}
	m.sayFirst()
	endView := func() {}
	options.OnStage = func(stage bench.Stage, spent time.Duration) {
		if m.stage(stage, spent); stage == bench.Measuring {
			endView = watch(ctx, live, m.log, !m.o.quiet)
		}
		if stage == bench.Measured {
			endView()
		}
	}
	return bench.Run(ctx, target, work, options)
}

// count counts the tokens of a text; nil if there is no tokenizer.
func (m *measurement) count() func(string) int {
	if m.tok == nil {
		return nil
	}
	return func(text string) int { return len(m.tok.Encode(nil, text)) }
}

// print writes the report and what it means.
func (m *measurement) print(summary *report.Summary) {
	fmt.Fprint(m.out, summary.Console())
	fmt.Fprint(m.out, summary.OssianConsole())
}
