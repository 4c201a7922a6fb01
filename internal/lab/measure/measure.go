// Package measure has real servers for a campaign: processes, or addresses that answer already, under
// the load of the client behind ossian bench, with what happened to the machine meanwhile (lab.md 3.2,
// 4.4, 9).
package measure

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"ossian/internal/bench/client"
	"ossian/internal/lab"
	"ossian/internal/lab/engines"
	"ossian/internal/lab/ledger"
	"ossian/internal/lab/planfile"
)

// leastRoom is how many bytes have to be free before a trial: those of its files, of a large one.
const leastRoom = 64 << 20

// Config is how a Measurer measures.
type Config struct {
	Dir     string // of the campaign
	Version string // of this program
	Power   string // planfile.Machine's: auto, rapl, nvml, off
	Price   float64
	Quiet   time.Duration // a run without a token for so long is hung; 0: 60 s (lab.md 9)
	Environ func(name string) string
}

// A Measurer measures with real servers. It implements lab.Measurer and lab.Tidier.
type Measurer struct {
	Config
	mark     string // of what it starts
	tokens   map[string]*client.Tokens
	versions map[string]string
}

// New returns a Measurer. It touches nothing: another campaign may be running in the same directory.
func New(config Config) *Measurer {
	config.Quiet = cmp.Or(config.Quiet, time.Minute)
	if config.Environ == nil {
		config.Environ = os.Getenv
	}
	absolute, err := filepath.Abs(config.Dir)
	if err != nil {
		absolute = config.Dir
	}
	sum := sha256.Sum256([]byte(absolute))
	return &Measurer{Config: config, mark: hex.EncodeToString(sum[:6]), tokens: map[string]*client.Tokens{}, versions: map[string]string{}}
}

// Tidy implements lab.Tidier.
func (m *Measurer) Tidy() { engines.EndLeftovers(m.mark) }

// Close closes tokenizers.
func (m *Measurer) Close() {
	for _, tokens := range m.tokens {
		tokens.Close()
	}
}

// Machine implements lab.Measurer.
func (m *Measurer) Machine(ctx context.Context) (ledger.Machine, error) {
	if err := checkCards(ctx); err != nil {
		return ledger.Machine{}, err
	}
	machine := describe(ctx)
	machine.PricePerHour = m.Price
	machine.Power = m.powerWords(ctx)
	return machine, nil
}

// Identify implements lab.Measurer.
func (m *Measurer) Identify(ctx context.Context, request lab.Request) (lab.Identity, error) {
	engine := request.Engine
	version, known := m.versions[engine.Name]
	if !known {
		server := engines.Server{Engine: &engine, URL: engine.URL}
		version = server.Version(ctx)
		if engine.Container != nil {
			version = engine.Container.Image
		}
		if ctx.Err() != nil {
			return lab.Identity{}, ctx.Err()
		}
		m.versions[engine.Name] = version
	}
	if engine.URL != "" {
		return lab.Identity{Version: version, Argv: []string{engine.URL}}, nil
	}
	argv, env := engines.Command(&engine, request.Model, 0, request.Setting.Flags)
	return lab.Identity{Version: version, Argv: argv, Env: variables(engine, env)}, nil
}

// variables are those of a server as they may be written: of secrets the name alone.
func variables(engine planfile.Engine, env map[string]string) []string {
	out := slices.Clone(engine.SecretEnv)
	for name, value := range env {
		out = append(out, name+"="+value)
	}
	slices.Sort(out)
	return out
}

// Hash implements lab.Measurer. Prompts are a function of what it covers: the workload's words, its
// file, the model's tokenizer, the seed and the client's version, which is part of every key.
func (m *Measurer) Hash(_ context.Context, workload planfile.Workload, model string, seed uint64) (string, error) {
	sum := sha256.New()
	fmt.Fprintf(sum, "%q %q %d %d %d %g %g %d %q %q %d", workload.Dataset, workload.Path, workload.InputLen, workload.OutputLen, workload.NumPrompts,
		workload.RangeRatio, workload.RequestRate, workload.MaxConcurrency, workload.Endpoint, model, seed)
	if workload.IgnoreEOS != nil {
		fmt.Fprintf(sum, " eos %v", *workload.IgnoreEOS)
	}
	if workload.Seed != nil {
		fmt.Fprintf(sum, " seed %d", *workload.Seed)
	}
	for _, key := range slices.Sorted(maps.Keys(workload.Extra)) {
		fmt.Fprintf(sum, " %q=%q", key, fmt.Sprint(workload.Extra[key]))
	}
	if workload.Path != "" {
		file, err := os.Open(workload.Path)
		if err != nil {
			return "", err
		}
		defer file.Close()
		if _, err := io.Copy(sum, file); err != nil {
			return "", err
		}
	}
	return hex.EncodeToString(sum.Sum(nil)[:16]), nil
}

// Room implements lab.Measurer.
func (m *Measurer) Room() error {
	free := freeBytes(m.Dir)
	if free >= 0 && free < leastRoom {
		return fmt.Errorf("%s has %d bytes free, and the results of a trial may need %d: make room, then run the same command again", m.Dir, free, leastRoom)
	}
	for _, dir := range []string{"runs", "requests", "equality"} {
		if err := os.MkdirAll(filepath.Join(m.Dir, dir), 0o755); err != nil {
			return err
		}
	}
	return nil
}

// Start implements lab.Measurer.
func (m *Measurer) Start(ctx context.Context, request lab.Request) (lab.Server, ledger.Start) {
	engine := request.Engine
	var running *engines.Server
	var err error
	starting, cancel := ctx, func() {}
	if request.Limit > 0 {
		starting, cancel = context.WithTimeoutCause(ctx, request.Limit, errLimit)
	}
	defer cancel()
	for range 3 { // a port that was free may have been taken since
		running, err = engines.Start(starting, &engine, request.Model, request.Setting.Flags, m.mark)
		var failed *engines.StartError
		if !errors.As(err, &failed) || failed.Reason != engines.PortTaken {
			break
		}
	}
	start := ledger.Start{Argv: running.Argv, Env: running.Env, Version: m.versions[engine.Name], State: ledger.StateOK, Seconds: running.Seconds,
		Devices: engines.Devices(&engine, request.Setting.Flags), Log: logFile(request.ID)}
	if engine.URL != "" {
		start.Log = ""
	}
	if err == nil {
		if start.Version == "" {
			start.Version = running.Version(ctx)
		}
		return &server{m: m, engine: engine, setting: request.Setting, model: request.Model, running: running, log: start.Log, devices: start.Devices}, start
	}
	start.State, start.Reason = ledger.StateFailed, err.Error()
	if ctx.Err() == nil && errors.Is(context.Cause(starting), errLimit) && errors.Is(err, starting.Err()) {
		start.Reason = lab.ReasonBudget
	}
	var failed *engines.StartError
	if errors.As(err, &failed) {
		start.Exit, start.Tail = failed.Exit, failed.Tail
	}
	if start.Log != "" {
		m.keepLog(running, start.Log)
	}
	return nil, start
}

// logFile is where a start's output is kept, below the campaign's directory.
func logFile(id string) string { return filepath.ToSlash(filepath.Join("runs", id+".log.gz")) }

// keepLog writes what a server printed. A log that cannot be kept is no reason to end a campaign: what
// matters of it is in the ledger.
func (m *Measurer) keepLog(running *engines.Server, name string) {
	path := filepath.Join(m.Dir, filepath.FromSlash(name))
	if os.MkdirAll(filepath.Dir(path), 0o755) == nil {
		_ = os.Remove(path)
		_ = running.Log.Save(path)
	}
}

// tokenizer opens that of a model once; nil if it is not at hand, so that the server's name for the
// model decides.
func (m *Measurer) tokenizer(model string) *client.Tokens {
	if tokens, known := m.tokens[model]; known {
		return tokens
	}
	tokens, err := client.OpenTokens(model)
	if err != nil {
		tokens = nil
	}
	m.tokens[model] = tokens
	return tokens
}
