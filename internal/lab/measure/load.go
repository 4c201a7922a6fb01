package measure

import (
	"cmp"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"ossian/internal/bench"
	"ossian/internal/bench/client"
	"ossian/internal/bench/report"
	"ossian/internal/lab"
	"ossian/internal/lab/engines"
	"ossian/internal/lab/ledger"
	"ossian/internal/lab/planfile"
)

// leastRequests is how many requests a part of a workload has at least.
const leastRequests = 8

// server is a real one. It implements lab.Server.
type server struct {
	m       *Measurer
	engine  planfile.Engine
	setting ledger.Setting
	model   string
	running *engines.Server
	log     string // file of its output below the campaign's directory; empty: none
	devices int
	forgets *bool // whether it empties its prefix cache on request; nil: not asked yet
}

// Stop implements lab.Server.
func (s *server) Stop() {
	s.running.Stop()
	if s.log != "" {
		s.m.keepLog(s.running, s.log)
	}
}

// Measure implements lab.Server.
func (s *server) Measure(ctx context.Context, load lab.Load) (ledger.Trial, error) {
	trial := ledger.Trial{State: ledger.StateOK, Devices: s.devices, Result: filepath.ToSlash(filepath.Join("runs", load.ID+".json"))}
	if load.Limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, load.Limit, errLimit)
		defer cancel()
	}
	options, err := s.clientOptions(ctx, load)
	if err != nil {
		trial.State, trial.Reason = ledger.StateFailed, err.Error()
		return trial, nil
	}
	watch := &watch{server: s, floor: load.Floor, quiet: s.m.Quiet, tokens: float64(load.Workload.OutputLen)}
	ctx, watch.cancel = context.WithCancelCause(ctx)
	defer watch.cancel(nil)
	options.Watch, options.Warming = watch.begin, &watch.warming
	unguard := watch.guard()
	machine := startObserving(s.engine.Container == nil && s.engine.URL == "")
	begun := time.Now()
	requests := filepath.Join(s.m.Dir, "requests", load.ID+".jsonl")
	result, err := client.Measure(ctx, options, client.Files{Result: filepath.Join(s.m.Dir, filepath.FromSlash(trial.Result)), Log: requests})
	unguard()
	trial.Seconds = time.Since(begun).Seconds()
	trial.Marks = machine.end()
	trial.Joules = watch.joules()
	trial.Command = command(&options)
	if result != nil {
		s.fill(&trial, result)
	} else {
		trial.Result = ""
	}
	s.judge(ctx, &trial, err, watch)
	if err := ownFault(err); err != nil {
		return trial, err
	}
	if err := compress(requests); err != nil {
		return trial, fmt.Errorf("the requests of %s could not be kept: %w", load.ID, err)
	}
	return trial, nil
}

// errLimit: the run had no more time.
var errLimit = errors.New(lab.ReasonBudget)

// ownFault is an error of a run that this machine is to blame for: a file that cannot be read or written,
// a disk or a table of the kernel that is full. It says nothing of the server; nil: the error is another.
func ownFault(err error) error {
	var path *fs.PathError
	full := slices.ContainsFunc([]error{syscall.ENOSPC, syscall.EDQUOT, syscall.EROFS, syscall.EMFILE, syscall.ENFILE}, func(code error) bool { return errors.Is(err, code) })
	if errors.As(err, &path) || full {
		return err
	}
	return nil
}

// options are those of the client for a load.
func (s *server) clientOptions(ctx context.Context, load lab.Load) (client.Options, error) {
	workload := load.Workload
	options := client.Defaults(bench.VLLM)
	options.BaseURL, options.Tokens, options.Version, options.Label = s.running.URL, s.m.tokenizer(load.Model), s.m.Version, load.ID
	if s.engine.KeyEnv != "" {
		options.Access.Key = s.m.Environ(s.engine.KeyEnv)
	}
	if workload.Endpoint == "chat" {
		options.Backend = "openai-chat"
	}
	options.Data = client.NewData(cmp.Or(workload.Dataset, "random"))
	options.Data.Path, options.Data.Input, options.Data.Output = workload.Path, workload.InputLen, workload.OutputLen
	if workload.RangeRatio > 0 {
		options.Data.Random.Ratio = strconv.FormatFloat(workload.RangeRatio, 'g', -1, 64)
	}
	options.Data.Prompts = partOf(workload.NumPrompts, load.Share)
	options.Seed = int64(load.Seed)
	options.Arrivals.Concurrency = workload.MaxConcurrency
	if workload.RequestRate > 0 {
		options.Arrivals.Rate = workload.RequestRate
	}
	options.IgnoreEOS = workload.IgnoreEOS
	options.Metrics = []string{"ttft", "tpot", "itl", "e2el"}
	options.Percentiles = []float64{50, 90, 95, 99}
	options.Sampling = []bench.Member{{Name: "temperature", Value: json.RawMessage("0")}}
	options.Warmups = 1
	options.IDPrefix = bench.NoRequestIDs // any engine has to take the requests
	if len(workload.Extra) > 0 {
		text, err := json.Marshal(workload.Extra)
		if err != nil {
			return options, fmt.Errorf("workload %s: extra: %w", workload.Name, err)
		}
		options.Extra = string(text)
	}
	switch {
	case load.Cache == planfile.CacheCarry:
	case load.Cache == planfile.CacheReset && s.canForget(ctx, &options):
		options.ResetCache = true
	default: // the block's salt: its trials have the same prompts, and no other block has them
		options.Salt = fmt.Sprintf("%016x", load.Seed)
	}
	return options, nil
}

// partOf is how many requests a share of a workload has.
func partOf(requests int, share float64) int {
	if share >= 1 {
		return requests
	}
	return min(requests, max(leastRequests, int(math.Ceil(share*float64(requests)))))
}

// canForget asks the server once to empty its prefix cache by vLLM's path.
func (s *server) canForget(ctx context.Context, options *client.Options) bool {
	if s.forgets == nil {
		asked, err := bench.NewServer(options.BaseURL, options.Access)
		can := err == nil && asked.Post(ctx, "/reset_prefix_cache") == nil
		if err == nil {
			asked.Close()
		}
		s.forgets = &can
	}
	return *s.forgets
}

// fill takes figures and findings over.
func (s *server) fill(trial *ledger.Trial, result *client.Result) {
	trial.Metrics = map[string]float64{}
	for name, value := range result.Values {
		if !strings.HasPrefix(name, "steady_") && !math.IsNaN(value) && !math.IsInf(value, 0) {
			trial.Metrics[name] = value
		}
	}
	for _, finding := range result.Findings() {
		if finding.Warning {
			continue
		}
		touched := touches(finding, trial.Metrics)
		if len(touched) > 0 {
			trial.Findings = append(trial.Findings, ledger.Finding{Code: finding.ID, Text: fmt.Sprintf("%.4g %s (bound %.4g)", finding.Measured, finding.What, finding.Bound), Touches: touched})
		}
	}
}

// touches are the metrics of a trial that a finding is about.
func touches(finding report.Finding, metrics map[string]float64) []string {
	var out []string
	for name := range metrics {
		if finding.TouchesMetric(name) {
			out = append(out, name)
		}
	}
	return sorted(out)
}

// judge says how a run ended. The cause of a run that was ended early is the watch's, or the campaign's.
func (s *server) judge(ctx context.Context, trial *ledger.Trial, err error, watch *watch) {
	cause := context.Cause(ctx)
	var early *earlyError
	var hung *hungError
	switch died := s.running.Died(); {
	case died != nil:
		trial.State, trial.Reason = ledger.StateFailed, "the server ended during the run: "+died.Error()
		var why *engines.StartError
		if errors.As(died, &why) && why.Reason == engines.OutOfMemory {
			trial.Reason = died.Error()
		}
	case errors.As(cause, &early):
		trial.State, trial.Reason = ledger.StateEarly, early.Error()
		if trial.Metrics == nil {
			trial.Metrics = map[string]float64{}
		}
		trial.Metrics["request_throughput"] = early.rate
		trial.Findings = nil // that it was ended early is its state
	case errors.Is(cause, errLimit) && err != nil:
		trial.State, trial.Reason = ledger.StateCut, lab.ReasonBudget
	case errors.As(cause, &hung):
		trial.State, trial.Reason = ledger.StateCut, hung.Error()
	case cause != nil && err != nil:
		trial.State, trial.Reason = ledger.StateCut, "interrupted"
	case err != nil:
		trial.State, trial.Reason = ledger.StateFailed, err.Error()
	}
}

// command repeats a trial's client against a running server.
func command(options *client.Options) []string {
	out := []string{"ossian", "bench", "serve", "--base-url", options.BaseURL, "--dataset-name", options.Data.Name, "--num-prompts", strconv.Itoa(options.Data.Prompts), "--seed", strconv.FormatInt(options.Seed, 10), "--temperature", "0", "--num-warmups", strconv.Itoa(options.Warmups)}
	add := func(given bool, words ...string) {
		if given {
			out = append(out, words...)
		}
	}
	add(options.Backend != "", "--backend", options.Backend)
	add(options.Data.Path != "", "--dataset-path", options.Data.Path)
	add(options.Data.Input > 0, "--input-len", strconv.Itoa(options.Data.Input))
	add(options.Data.Output > 0, "--output-len", strconv.Itoa(options.Data.Output))
	add(options.Data.Random.Ratio != "0.0", "--random-range-ratio", options.Data.Random.Ratio)
	add(!math.IsInf(options.Arrivals.Rate, 1), "--request-rate", strconv.FormatFloat(options.Arrivals.Rate, 'g', -1, 64))
	add(options.Arrivals.Concurrency > 0, "--max-concurrency", strconv.Itoa(options.Arrivals.Concurrency))
	add(options.ResetCache, "--reset-prefix-cache")
	add(options.Salt != "", "--salt", options.Salt)
	add(options.Extra != "", "--extra-body", options.Extra)
	if options.IgnoreEOS != nil {
		add(*options.IgnoreEOS, "--ignore-eos")
	}
	return out
}

// compress replaces a log of requests by its gzip file; one that is not there is none.
func compress(path string) (err error) {
	in, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.Create(path + ".gz")
	if err != nil {
		return err
	}
	packed := gzip.NewWriter(out)
	_, err = io.Copy(packed, in)
	if err = errors.Join(err, packed.Close(), out.Close()); err != nil {
		return errors.Join(err, os.Remove(path+".gz"))
	}
	return os.Remove(path)
}
