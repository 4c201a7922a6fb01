// Package client measures a server as `ossian bench serve` does, without a command line: it makes
// the workload, sends it, and gives the numbers with what speaks against them.
//
//	options := client.Defaults(bench.VLLM)     // of a profile: whose numbers
//	options.BaseURL = "http://127.0.0.1:8000"
//	options.Data.Prompts = 500                 // of NewData("random"), or of another data set
//	options.Salt = client.RandomSalt           // or ResetCache, against a warm prefix cache
//	result, err := client.Measure(ctx, options, client.Files{Result: "run.json", Log: "run.jsonl"})
//	result.Values["mean_ttft_ms"]              // by the keys of bench.md 1.8
//	result.Stands("total_token_throughput")    // whether a finding touches it
//
// Measure is one run. For several, New checks the options, Connect finds server, model and
// tokenizer, Prepare makes the workload, Run makes a run (Record one without numbers), Close
// ends. With gives a client of other options for the same server; Tokens, a tokenizer that is
// opened once, is shared by setting Options.Tokens.
//
// Nothing is read from the environment and nothing is printed unless Options say where to.
package client

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"ossian/internal/bench"
	"ossian/internal/bench/dataset"
	"ossian/internal/bench/report"
	"ossian/internal/tiny"
)

// A Client measures one server with one workload. It goes from its options to the server
// (Connect) and the workload (Prepare), and then makes any number of runs, one at a time.
type Client struct {
	Options
	setup  *bench.Setup // as it is recorded; grows until the workload is made
	server *bench.Server
	shared bool // server and tokenizer are those of another client, which closes them
	tokens *Tokens
	legacy *dataset.Legacy
	work   bench.Workload
}

// New checks the options. It asks nothing of anybody.
func New(options Options) (*Client, error) {
	made := &Client{Options: options, tokens: options.Tokens}
	if made.Log == nil {
		made.Log = io.Discard
	}
	var err error
	if made.setup, err = made.Options.setup(); err != nil {
		return nil, err
	}
	made.BaseURL = strings.TrimRight(made.BaseURL, "/")
	if strings.HasPrefix(cmp.Or(made.Endpoint, endpointOf(made.setup.Backend)), "/v1/") {
		made.BaseURL = strings.TrimSuffix(made.BaseURL, "/v1") // as clients of OpenAI have it
	}
	made.setup.URL = made.BaseURL + cmp.Or(made.Endpoint, endpointOf(made.setup.Backend))
	return made, nil
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

// Connect finds the server, the model and the tokenizer.
func (c *Client) Connect(ctx context.Context) (err error) {
	if c.server, err = bench.NewServer(c.BaseURL, c.Access); err != nil {
		return err
	}
	// Requests name the model as the server does; its path there, or what it stands for, is
	// where a tokenizer may be.
	name, root := c.Model, c.Model
	if name == "" || c.Local {
		if c.Model == "" {
			c.say("Model not specified, fetching first model from server...")
		}
		if name, root, err = c.server.FirstModel(ctx); err != nil {
			return fmt.Errorf("no list of models: %w; --base-url says where the server is, OPENAI_API_KEY in the environment is its key, --model NAME needs no list", err)
		}
		if c.Model == "" {
			c.say("First model name: %s, first model id: %s", name, root)
		}
	}
	c.setup.Model, c.setup.ModelID = cmp.Or(c.Served, name), root // as vLLM's client
	if c.Local {
		c.setup.ModelID = name
	}
	if c.Tokenizer == "" {
		c.Tokenizer = root
		if c.Local {
			c.Tokenizer = cmp.Or(c.Model, tiny.Name)
		}
	}
	c.setup.Environment = c.environment(ctx)
	if err := c.OpenTokenizer(); err != nil {
		return err
	}
	c.compareClocks(ctx)
	return c.chooseCache(ctx)
}

// chooseCache finds out what CacheAuto stands for, and says so.
func (c *Client) chooseCache(ctx context.Context) error {
	if c.Cache != CacheAuto {
		return nil
	}
	// What the server has in its cache now would be emptied before the first run anyway.
	_, err := c.emptyCache(ctx)
	switch {
	case err == nil:
		c.Cache = CacheReset
		fmt.Fprintln(c.Log, "Prefix cache: the server empties it before each run; --cache carry leaves it.")
	case ctx.Err() != nil:
		return ctx.Err()
	case c.tokens == nil:
		return fmt.Errorf("the server does not empty its prefix cache (%w), and prompts cannot be salted without a tokenizer; --cache carry measures all the same", err)
	default:
		c.Cache = CacheSalt
		fmt.Fprintf(c.Log, "Prefix cache: prompts are salted, as the server does not empty it (%v); --cache carry leaves them as they are.\n", err)
	}
	return c.checkCache(c.setup)
}

// emptyCache has the server empty its prefix cache, by vLLM's path or else by sglang's, and says
// which.
func (c *Client) emptyCache(ctx context.Context) (path string, err error) {
	const vllm, sglang = "/reset_prefix_cache", "/flush_cache"
	if err = c.server.Post(ctx, vllm); err == nil {
		return vllm, nil
	}
	if c.server.Post(ctx, sglang) == nil {
		return sglang, nil
	}
	return "", err
}

// OpenTokenizer opens the tokenizer, which Connect does too: it is for workloads that are made
// without a server.
func (c *Client) OpenTokenizer() (err error) {
	if c.SkipTokenizer {
		return nil
	}
	if c.tokens == nil {
		name := c.Tokenizer
		if name == "" && c.Local {
			name = cmp.Or(c.Model, tiny.Name)
		}
		if c.tokens, err = OpenTokens(cmp.Or(name, c.Model)); err != nil {
			return err
		}
	}
	c.setup.Tokenizer = c.tokens.Name
	return nil
}

// With returns a client with other options for the same server, model and tokenizer, which stay
// those of c. It needs a workload: Prepare makes one, Adopt takes another's.
func (c *Client) With(options Options) (*Client, error) {
	options.BaseURL, options.Access, options.Local = c.BaseURL, c.Access, c.Local
	if options.Cache == CacheAuto {
		options.Cache = c.Cache // which is known since Connect
	}
	other, err := New(options)
	if err != nil {
		return nil, err
	}
	other.server, other.tokens, other.shared = c.server, c.tokens, true
	other.setup.Model, other.setup.ModelID, other.setup.Tokenizer, other.setup.Environment = c.setup.Model, c.setup.ModelID, c.setup.Tokenizer, c.setup.Environment
	return other, nil
}

// Adopt takes the workload of another client, and goes on with its generator of arrivals.
func (c *Client) Adopt(other *Client) {
	c.work, c.legacy = other.work, other.legacy
	c.setup.Hash, c.setup.Repeats = other.setup.Hash, other.setup.Repeats
	c.setup.Arrivals.Timed = other.setup.Arrivals.Timed // as far as the trace has times
}

// Close ends connections and closes the tokenizer, unless these are another's.
func (c *Client) Close() {
	if c.shared {
		return
	}
	if c.server != nil {
		c.server.Close()
	}
	if c.Options.Tokens == nil {
		c.tokens.Close()
	}
}

// KeepTokens returns the tokenizer, nil if there is none, and leaves it to the caller to close it.
func (c *Client) KeepTokens() *Tokens {
	c.Options.Tokens = c.tokens
	return c.tokens
}

// Setup is what reports say of runs of c; it is c's own.
func (c *Client) Setup() *bench.Setup { return c.setup }

// Workload is what is sent, before a salt; it is c's own.
func (c *Client) Workload() bench.Workload { return c.work }

// Count counts the tokens of a text; nil if there is no tokenizer.
func (c *Client) Count() func(string) int { return c.tokens.Count() }

// sends reports whether requests have a member of sampling.
func (c *Client) sends(name string) bool {
	for _, member := range c.Sampling {
		if member.Name == name {
			return true
		}
	}
	return false
}

// target is the server as a run sends to it.
func (c *Client) target() (*bench.HTTP, error) {
	cfg := bench.HTTPConfig{Access: c.Access, Setup: c.setup, Sampling: c.Sampling, IDPrefix: c.IDPrefix, Logprobs: c.Logprobs}
	if cfg.IDPrefix == "" {
		cfg.IDPrefix = fmt.Sprintf("bench-%08x-", rand.Uint32())
	}
	if c.Extra != "" {
		cfg.Extra = json.RawMessage(c.Extra)
	}
	return bench.NewHTTP(cfg)
}

// options are those of the run.
func (c *Client) options(live *bench.Live) bench.Options {
	options := bench.Options{Setup: *c.setup, Gamma: c.legacy.Gamma, Shared: c.Local, Ready: c.Ready, Warmups: c.Warmups,
		ProbeRate: c.ProbeRate, ReadCounters: c.server.Counters, Live: live, Warming: c.Warming, Start: c.begin}
	// These tools wait after warming up; sglang's warm-ups are short.
	switch {
	case c.setup.Profile == bench.LMDeploy && options.Warmups > 0:
		options.Settle = 1500 * time.Millisecond
	case c.setup.Profile == bench.SGLang:
		options.WarmupOutput, options.Settle = 32, time.Second
	}
	if c.Profiler {
		options.Stop = func(ctx context.Context) error { return c.profiler(ctx, "Stopping", "/stop_profile", "stopped") }
	}
	return options
}

// begin asks of the server what it has to do just before the measurement, behind the
// warm-ups, which leave a prompt in its cache.
func (c *Client) begin(ctx context.Context) error {
	c.sayMain()
	path := ""
	switch {
	case c.Cache == CacheReset && !c.FlushCache: // by whichever path the server has
		if _, err := c.emptyCache(ctx); err != nil {
			return notEmptied(err, "--cache salt")
		}
	case c.FlushCache && !strings.HasPrefix(c.setup.Backend, "vllm"):
		path = "/flush_cache"
	case c.FlushCache || c.ResetCache:
		path = "/reset_prefix_cache"
	}
	if path != "" {
		if err := c.server.Post(ctx, path); err != nil {
			return notEmptied(err, "--salt")
		}
	}
	if c.Profiler {
		return c.profiler(ctx, "Starting", "/start_profile", "started")
	}
	return nil
}

// notEmptied says that a server kept its prefix cache, and what to do if that is because it cannot empty
// it: one that was not reached has said nothing of that, and no other way would reach it either.
func notEmptied(err error, other string) error {
	if _, unreached := errors.AsType[*url.Error](err); unreached {
		return fmt.Errorf("the server did not empty its prefix cache: %w", err)
	}
	return fmt.Errorf("the server did not empty its prefix cache: %w; vLLM does with VLLM_SERVER_DEV_MODE=1, and %s needs nothing of the server", err, other)
}

// profiler starts or stops that of the server.
func (c *Client) profiler(ctx context.Context, doing, path, done string) error {
	c.say("%s profiler...", doing)
	if err := c.server.Profile(ctx, path); err != nil {
		return err
	}
	c.say("Profiler %s", done)
	return nil
}

// Record makes one run, the first having index 0: with a salt, each index has other prompts.
// Requests are written to the log as they end; "" = none. If ctx ends it returns what there is,
// with the error.
func (c *Client) Record(ctx context.Context, index int, log string) (*bench.Recording, error) {
	work, err := c.salted(index)
	if err != nil {
		return nil, err
	}
	target, err := c.target()
	if err != nil {
		return nil, err
	}
	defer target.Close()
	// The log is written while requests end; who watches reads counters of the same run.
	live := new(bench.Live)
	options := c.options(live)
	if log != "" {
		file, err := create(log)
		if err != nil {
			return nil, err
		}
		defer file.Close()
		options.LogTo = file
	}
	c.sayFirst()
	endWatch := func() {}
	options.OnStage = func(stage bench.Stage, spent time.Duration) {
		if c.stage(stage, spent); stage == bench.Measuring && c.Watch != nil {
			endWatch = c.Watch(live)
		}
		if stage == bench.Measured {
			endWatch()
		}
	}
	return bench.Run(ctx, target, work, options)
}

// create makes a file and its folder.
func create(path string) (*os.File, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		return nil, err
	}
	return os.Create(path)
}

// Files are those that a run writes; "" = not that one.
type Files struct {
	Result   string // JSON as that of the profile's tool, with the member ossian
	Detailed bool   // it has the times and texts of every request
	Log      string // every request as it ends: what ossian bench summarize reads
}

// A Result is a run in numbers. Its Values are by the keys of bench.md 1.8, as those of a result
// file; Findings speak against it, or against some of them (Stands, Against).
type Result struct {
	report.Result
	Summary   *report.Summary
	Recording *bench.Recording
}

// Run makes one run, the first having index 0, and writes its files. A run that is cut by ctx gives
// what there is, with the error; a run with findings is no error.
func (c *Client) Run(ctx context.Context, index int, files Files) (*Result, error) {
	recording, cut := c.Record(ctx, index, files.Log)
	if recording == nil {
		return nil, cut
	}
	summary := report.Summarize(recording, c.Count())
	if files.Result != "" {
		if err := summary.WriteFile(files.Result, files.Detailed, false); err != nil {
			return nil, errors.Join(cut, err)
		}
	}
	numbers, err := summary.Result(cmp.Or(files.Result, c.setup.Label, c.setup.Dataset))
	if err != nil {
		return nil, errors.Join(cut, err)
	}
	return &Result{Result: numbers, Summary: summary, Recording: recording}, cut
}

// Measure makes one run with the options and gives its numbers.
func Measure(ctx context.Context, options Options, files Files) (*Result, error) {
	client, err := New(options)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	if err := client.Connect(ctx); err != nil {
		return nil, err
	}
	if err := client.Prepare(ctx); err != nil {
		return nil, err
	}
	return client.Run(ctx, 0, files)
}
