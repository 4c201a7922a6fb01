package measure

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"ossian/internal/bench"
	"ossian/internal/bench/scripted"
	"ossian/internal/lab"
	"ossian/internal/lab/ledger"
	"ossian/internal/lab/planfile"
	"ossian/internal/soak"
)

// serverEnv makes this test's program a server: what its flags say becomes of it.
const serverEnv = "LAB_TEST_SERVER"

func TestMain(m *testing.M) {
	if os.Getenv(serverEnv) != "" {
		os.Exit(serve(os.Args[1:]))
	}
	soak.Abreast(8) // they wait
	code := m.Run()
	if left := below(); len(left) > 0 { // here, for tests beside each other have processes
		fmt.Fprintln(os.Stderr, "processes are left:", left)
		code = 1
	}
	os.Exit(code)
}

// serve is a scripted server with the behaviour of one of the ways to fail.
func serve(args []string) int {
	port, behaviour := args[0], args[1:]
	script := scripted.Script{Gap: 2 * time.Millisecond, TTFT: 2 * time.Millisecond}
	var scripts []scripted.Script // of requests in turn; none: script
	lives := time.Duration(0)
	for _, flag := range behaviour {
		switch flag {
		case "--exits":
			fmt.Fprintln(os.Stderr, "no kernel for this machine")
			return 3
		case "--oom":
			fmt.Fprintln(os.Stderr, "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 9.00 GiB")
			return 1
		case "--unknown":
			fmt.Fprintln(os.Stderr, "server: error: unrecognized arguments: --unknown")
			return 2
		case "--taken": // the first time, as if somebody had been quicker
			if file, err := os.OpenFile(os.Getenv("LAB_TEST_ONCE"), os.O_CREATE|os.O_EXCL, 0o600); err == nil {
				_ = file.Close()
				fmt.Fprintln(os.Stderr, "bind: address already in use")
				return 1
			}
		case "--silent":
			time.Sleep(time.Hour)
		case "--stalls":
			stalled := script
			stalled.Fault = scripted.Fault{Kind: scripted.Stall, Chunk: 3}
			scripts = append(scripts, script, stalled) // not the warm-up, which is request 0 again
		case "--hangs": // from its first request on, which is the warm-up
			script.Fault = scripted.Fault{Kind: scripted.Stall, Chunk: 3}
		case "--slower": // a warm-up lasts longer than Quiet, and has its tokens in time
			script.Gap = 120 * time.Millisecond
		case "--resets":
			scripts = append(scripts, script, script, script, script, scripted.Script{Fault: scripted.Fault{Kind: scripted.Reset, Chunk: 2}})
		case "--slow":
			script.Gap *= 17
		case "--async":
			script.Gap /= 2
		case "--dies":
			lives = 400 * time.Millisecond
		case "--child":
			child := exec.Command("sleep", "1000")
			if err := child.Start(); err != nil {
				return 1
			}
		}
	}
	listener, err := net.Listen("tcp", "127.0.0.1:"+port)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if scripts == nil {
		scripts = []scripted.Script{script}
	}
	server, err := scripted.Serve(context.Background(), listener, scripted.Options{Model: "gpt-oss", Scripts: scripts})
	if err != nil {
		return 1
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if lives > 0 {
		for server.Calls()["POST /v1/completions"] == 0 {
			time.Sleep(10 * time.Millisecond)
		}
		time.Sleep(lives / 4)
		fmt.Fprintln(os.Stderr, "RuntimeError: CUDA error: out of memory")
		return 1
	}
	<-ctx.Done()
	return 0
}

// engine is one whose server is this program.
func engine(name string, flags map[string]string) planfile.Engine {
	program, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return planfile.Engine{Name: name, Kind: "other", Dialect: "sglang", Start: []string{program, "{port}", "{flags}"}, Env: map[string]string{serverEnv: "1"}, Ready: "/health", ReadyTimeout: time.Minute, Flags: flags}
}

func workload() planfile.Workload {
	return planfile.Workload{Name: "chat", Dataset: "random", InputLen: 12, OutputLen: 20, NumPrompts: 40, MaxConcurrency: 8, Endpoint: "completions"}
}

// measurer is one for a directory of its own.
func measurer(t *testing.T) *Measurer {
	t.Helper()
	m := New(Config{Dir: t.TempDir(), Version: "test", Power: "auto"})
	t.Cleanup(m.Close)
	if err := m.Room(); err != nil {
		t.Fatal(err)
	}
	return m
}

// starts starts a server whose flag says how it fails.
func starts(t *testing.T, m *Measurer, flag string) (lab.Server, ledger.Start) {
	t.Helper()
	setting := ledger.Setting{Engine: "double"}
	if flag != "" {
		setting.Flags = map[string]string{flag: "true"}
	}
	e := engine("double", nil)
	if flag == "silent" {
		e.ReadyTimeout = 300 * time.Millisecond
	}
	return m.Start(t.Context(), lab.Request{Engine: e, Setting: setting, Model: "gpt-oss", ID: "start-1"})
}

// measured is a run that this machine is not to blame for.
func measured(t *testing.T, server lab.Server, ctx context.Context, load lab.Load) ledger.Trial {
	t.Helper()
	trial, err := server.Measure(ctx, load)
	if err != nil {
		t.Fatal(err)
	}
	return trial
}

// A run has the figures of its client, files of its own, and a command that repeats it.
func TestMeasure(t *testing.T) {
	m := measurer(t)
	server, start := starts(t, m, "")
	if start.State != ledger.StateOK {
		t.Fatalf("%+v", start)
	}
	trial := measured(t, server, t.Context(), lab.Load{ID: "race-1", Workload: workload(), Model: "gpt-oss", Seed: 7, Share: 1, Cache: planfile.CacheReset})
	if trial.State != ledger.StateOK || trial.Metrics["completed"] != 40 || trial.Metrics["total_output_tokens"] != 800 || trial.Metrics["p99_e2el_ms"] < 38 {
		t.Errorf("%+v", trial)
	}
	for _, name := range []string{trial.Result, "requests/race-1.jsonl.gz"} {
		if info, err := os.Stat(filepath.Join(m.Dir, name)); err != nil || info.Size() == 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
	if words := strings.Join(trial.Command, " "); !strings.Contains(words, "--seed 7") || !strings.Contains(words, "--reset-prefix-cache") {
		t.Errorf("command %s", words)
	}
	part := measured(t, server, t.Context(), lab.Load{ID: "smoke-1", Workload: workload(), Model: "gpt-oss", Seed: 7, Share: 0.05, Cache: planfile.CacheSalt})
	if part.Metrics["completed"] != leastRequests {
		t.Errorf("a part has %v requests", part.Metrics["completed"])
	}
	answers, err := server.Answers(t.Context(), 3, 5)
	if err != nil || len(answers) != 3 || answers[0].Text != strings.Repeat(" tok", 5) {
		t.Errorf("%v %+v", err, answers)
	}
	server.Stop()
	if _, err := os.Stat(filepath.Join(m.Dir, start.Log)); err != nil {
		t.Error(err)
	}
	again := measured(t, server, t.Context(), lab.Load{ID: "race-2", Workload: workload(), Model: "gpt-oss", Seed: 8, Share: 1})
	if again.State != ledger.StateFailed {
		t.Errorf("a stopped server: %+v", again)
	}
}

// A server that runs already is measured too, with a key that is written nowhere (lab.md 10, B2).
func TestAddressAndSecrets(t *testing.T) {
	const key, password = "sk-9f27c1d4e8", "hunter-55217"
	t.Setenv("LAB_TEST_PASSWORD", password)
	dir := t.TempDir()
	m := New(Config{Dir: dir, Version: "test", Environ: func(name string) string { return map[string]string{"LAB_KEY": key}[name] }})
	t.Cleanup(m.Close)
	own := engine("own", nil)
	own.SecretEnv = []string{"LAB_TEST_PASSWORD"}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	there, err := scripted.Serve(t.Context(), listener, scripted.Options{Model: "gpt-oss", Scripts: []scripted.Script{{Gap: 2 * time.Millisecond}}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = there.Close() }()
	plan := &planfile.Plan{Name: "secrets", Models: []string{"gpt-oss"}, Seed: 1, Cache: planfile.CacheReset, Workloads: []planfile.Workload{workload()},
		Objective: planfile.Objective{Metric: "total_token_throughput", Maximize: true, On: "chat"}, Equality: planfile.Equality{Prompts: 1, Tokens: 2}, Budget: planfile.Budget{Trials: 10},
		Engines: []planfile.Engine{own, {Name: "remote", Kind: "other", URL: there.URL(), Ready: "/health", KeyEnv: "LAB_KEY"}}}
	result, err := lab.Run(t.Context(), lab.Config{Plan: plan, PlanText: []byte("secrets\n"), Dir: dir, Measurer: m, Version: "test", Now: time.Now, Say: func(text string) { t.Log(text) }})
	if err != nil || len(result.End.Winner) != 1 {
		t.Fatalf("%v %+v", err, result)
	}
	if there.Calls()["POST /v1/completions"] == 0 {
		t.Error("the address was not measured")
	}
	err = filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		if strings.HasSuffix(path, ".gz") {
			text, err = exec.Command("gzip", "-dc", path).Output()
		}
		if strings.Contains(string(text), key) || strings.Contains(string(text), password) {
			t.Errorf("%s holds a secret", path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// L8: each way in which a server does not come up has its reason, and leaves nothing behind.
func TestStarts(t *testing.T) {
	m := measurer(t)
	for flag, want := range map[string]string{"exits": "start: no kernel for this machine", "oom": "out of memory: ", "unknown": "flag refused: ", "silent": "never ready"} {
		server, start := starts(t, m, flag)
		if server != nil || start.State != ledger.StateFailed || !strings.HasPrefix(start.Reason, want) {
			t.Errorf("%s: %+v", flag, start)
		}
		if flag != "silent" && (start.Exit == nil || *start.Exit == 0 || len(start.Tail) == 0) {
			t.Errorf("%s: exit %v, tail %q", flag, start.Exit, start.Tail)
		}
	}
	t.Setenv("LAB_TEST_ONCE", filepath.Join(m.Dir, "once"))
	server, start := starts(t, m, "taken") // another port does
	if start.State != ledger.StateOK {
		t.Errorf("a port that was taken: %+v", start)
	} else {
		server.Stop()
	}
	missing := engine("none", nil)
	missing.Start[0] = "/nowhere/server"
	if _, start := m.Start(t.Context(), lab.Request{Engine: missing, Setting: ledger.Setting{Engine: "none"}, Model: "gpt-oss", ID: "start-2"}); !strings.HasPrefix(start.Reason, "no such program") {
		t.Errorf("missing: %+v", start)
	}
}

// L8: what goes wrong during a run: the server dies, hangs, resets its connections, is far too slow, or
// the lab itself is interrupted.
func TestRuns(t *testing.T) {
	t.Parallel()
	load := lab.Load{ID: "race-1", Workload: workload(), Model: "gpt-oss", Seed: 7, Share: 1, Cache: planfile.CacheReset}
	for _, c := range []struct{ flag, state, reason string }{
		{"dies", ledger.StateFailed, "out of memory"},
		{"stalls", ledger.StateCut, "hung: no token for"},
		{"hangs", ledger.StateCut, "hung: no token for"},
		{"slower", ledger.StateOK, ""},
		{"resets", ledger.StateOK, ""}, // and 80 % success, which the campaign judges
	} {
		t.Run(c.flag, func(t *testing.T) { // most of the time all wait
			t.Parallel()
			m := measurer(t)
			server, start := starts(t, m, c.flag)
			if start.State != ledger.StateOK {
				t.Fatalf("%+v", start)
			}
			load := load
			switch c.flag {
			case "stalls", "hangs":
				m.Quiet = time.Second
			case "slower":
				load.Share, m.Quiet = 0.05, 2*time.Second
			}
			trial := measured(t, server, t.Context(), load)
			server.Stop()
			if trial.State != c.state || !strings.Contains(trial.Reason, c.reason) {
				t.Errorf("%s, %s", trial.State, trial.Reason)
			}
			if c.flag == "resets" && (trial.Metrics["completed"] != 32 || trial.Metrics["failed"] != 8) {
				t.Errorf("%v", trial.Metrics)
			}
		})
	}
	m := measurer(t)
	server, _ := starts(t, m, "")
	defer server.Stop()
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(100*time.Millisecond, cancel)
	long := load
	long.Workload.NumPrompts = 4000
	if trial := measured(t, server, ctx, long); trial.State != ledger.StateCut {
		t.Errorf("interrupted: %s, %s", trial.State, trial.Reason)
	}
	long.Floor = 1e6 // requests per second
	trial := measured(t, server, t.Context(), long)
	if trial.State != ledger.StateEarly || !(trial.Metrics["request_throughput"] > 0) || trial.Metrics["request_throughput"] > 400 {
		t.Errorf("too slow: %s, %s, %v", trial.State, trial.Reason, trial.Metrics["request_throughput"])
	}
}

// Servers of a campaign that runs are left alone by whoever is refused its directory; those that a
// killed one left end as soon as the directory is free.
func TestLeftoversBehindLock(t *testing.T) {
	if _, err := os.Stat("/proc/self/environ"); err != nil {
		t.Skip("this system does not show environments")
	}
	first := measurer(t)
	held, _, _, err := ledger.Open(first.Dir)
	if err != nil {
		t.Fatal(err)
	}
	running, start := starts(t, first, "")
	if start.State != ledger.StateOK {
		t.Fatalf("%+v", start)
	}
	defer running.Stop()
	plan := &planfile.Plan{Name: "second", Models: []string{"gpt-oss"}, Seed: 1, Cache: planfile.CacheReset, Workloads: []planfile.Workload{workload()},
		Objective: planfile.Objective{Metric: "total_token_throughput", Maximize: true, On: "chat"}, Engines: []planfile.Engine{engine("double", nil)}}
	carryOut := func(ctx context.Context) error {
		second := New(Config{Dir: first.Dir, Version: "test"})
		defer second.Close()
		_, err := lab.Run(ctx, lab.Config{Plan: plan, PlanText: []byte("second\n"), Dir: first.Dir, Measurer: second, Version: "test", Now: time.Now})
		return err
	}
	var refused *lab.UsageError
	if err := carryOut(t.Context()); !errors.As(err, &refused) {
		t.Errorf("a second campaign in the same directory: %v", err)
	}
	load := lab.Load{ID: "race-1", Workload: workload(), Model: "gpt-oss", Seed: 7, Share: 1, Cache: planfile.CacheReset}
	if trial := measured(t, running, t.Context(), load); trial.State != ledger.StateOK {
		t.Errorf("the first campaign's server afterwards: %s, %s", trial.State, trial.Reason)
	}
	if err := held.Close(); err != nil {
		t.Fatal(err)
	}
	// An end at once: nothing but what comes before the first trial is wanted of it.
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := carryOut(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("once the directory is free: %v", err)
	}
	if trial := measured(t, running, t.Context(), load); trial.State != ledger.StateFailed {
		t.Errorf("what was left behind still serves: %s", trial.State)
	}
}

// An interrupt while a server starts ends it, and leaves no failed start or trial in the ledger.
func TestInterruptedStart(t *testing.T) {
	if before := descendants(t); len(before) > 0 {
		t.Fatalf("processes are there already: %v", before)
	}
	m := measurer(t)
	plan := &planfile.Plan{Name: "interrupted", Models: []string{"gpt-oss"}, Seed: 1, Cache: planfile.CacheReset, Workloads: []planfile.Workload{workload()},
		Objective: planfile.Objective{Metric: "total_token_throughput", Maximize: true, On: "chat"}, Engines: []planfile.Engine{engine("double", map[string]string{"silent": "true"})}}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		for len(descendants(t)) == 0 && ctx.Err() == nil {
			time.Sleep(10 * time.Millisecond)
		}
		cancel()
	}()
	if _, err := lab.Run(ctx, lab.Config{Plan: plan, PlanText: []byte("interrupted\n"), Dir: m.Dir, Measurer: m, Version: "test", Now: time.Now}); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	lines, err := ledger.Read(m.Dir)
	if err != nil {
		t.Fatal(err)
	}
	state := ""
	for _, line := range lines {
		if line.Start != nil {
			t.Errorf("%s: %s, %s", line.ID, line.Start.State, line.Start.Reason)
		}
		if line.Trial != nil {
			state = line.Trial.State
		}
	}
	if left := descendants(t); state != ledger.StateCut || len(left) > 0 {
		t.Errorf("the trial is %q, processes left: %v", state, left)
	}
}

// Silence is what it takes for a request under way: 60 s, or 20 steps where those are known, in the
// warm-up as in the run behind it (lab.md 9).
func TestSilence(t *testing.T) {
	begun := time.Now()
	at := func(seconds int) time.Time { return begun.Add(time.Duration(seconds) * time.Second) }
	var warming, live bench.Live
	g := newGaps(begun)
	want := func(when string, now int, silent, limit time.Duration) {
		t.Helper()
		if g.since(at(now)) != silent || g.limit(time.Minute) != limit {
			t.Errorf("%s: silent for %v of %v, want %v of %v", when, g.since(at(now)), g.limit(time.Minute), silent, limit)
		}
	}
	g.see(at(100), &warming)
	want("while prompts are made", 100, 0, time.Minute)
	warming.Released.Add(1)
	g.see(at(150), &warming)
	want("before the first token", 161, 61*time.Second, time.Minute)
	for now := 160; now <= 200; now += 10 {
		warming.Tokens.Add(1)
		g.see(at(now), &warming)
	}
	want("between tokens of 10 s each", 230, 30*time.Second, 200*time.Second)
	warming.Done.Add(1)
	g.see(at(210), &warming)
	g.see(at(400), &warming)
	want("behind the warm-up", 400, 0, 200*time.Second)
	g.again(at(500))
	live.Released.Add(2)
	g.see(at(600), &live)
	want("in the run's first prompts", 600, 100*time.Second, 200*time.Second)
	live.Tokens.Add(1)
	live.Done.Add(1)
	g.see(at(610), &live)
	g.see(at(900), &live)
	want("one of two is stuck", 900, 290*time.Second, 200*time.Second)
	live.Done.Add(1)
	g.see(at(910), &live)
	g.see(at(2000), &live)
	want("until the next one is due", 2000, 0, 200*time.Second)
}

// What a server has started ends with it.
func TestGrandchildren(t *testing.T) {
	m := measurer(t)
	server, start := starts(t, m, "child")
	if start.State != ledger.StateOK {
		t.Fatalf("%+v", start)
	}
	before := descendants(t)
	server.Stop()
	if after := descendants(t); len(before) < 2 || len(after) != 0 {
		t.Errorf("descendants %v, then %v", before, after)
	}
}

// descendants are the processes below this one.
func descendants(t *testing.T) []string {
	t.Helper()
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		t.Skip("no /proc")
	}
	return below()
}

// below is that, of a system without /proc nothing.
func below() []string {
	parents := map[string]string{}
	paths, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range paths {
		_, rest, _ := cutLast(word("", path), ")")
		if fields := strings.Fields(rest); len(fields) > 2 && fields[0] != "Z" {
			parents[filepath.Base(filepath.Dir(path))] = fields[1]
		}
	}
	var out []string
	for pid := range parents {
		for up := parents[pid]; up != "" && up != "0"; up = parents[up] {
			if up == fmt.Sprint(os.Getpid()) {
				out = append(out, pid)
				break
			}
		}
	}
	slices.Sort(out)
	return out
}

// A campaign with real processes: engines of which one is 17 times slower and one does not start, an
// option that is worth much, and one that does not exist (lab.md 10, L2).
func TestCampaign(t *testing.T) {
	t.Parallel() // it waits
	m := measurer(t)
	plan := &planfile.Plan{Name: "doubles", Models: []string{"gpt-oss"}, Seed: 42, Cache: planfile.CacheReset,
		Objective:  planfile.Objective{Metric: "total_token_throughput", Maximize: true, On: "chat"},
		Engines:    []planfile.Engine{engine("fast", nil), engine("slow", map[string]string{"slow": "true"}), engine("broken", map[string]string{"exits": "true"})},
		Options:    []planfile.Option{{Engine: "fast", Name: "async", Flags: []planfile.Flag{{Name: "async", Values: []string{"true"}}}}, {Engine: "fast", Name: "unknown", Flags: []planfile.Flag{{Name: "unknown", Values: []string{"true"}}}}},
		Workloads:  []planfile.Workload{workload(), {Name: "short", Dataset: "random", InputLen: 8, OutputLen: 4, NumPrompts: 40, MaxConcurrency: 8, Endpoint: "completions"}},
		Generalise: []string{"short"}, Equality: planfile.Equality{Prompts: 2, Tokens: 4}, Budget: planfile.Budget{Trials: 26}}
	plan.Workloads[0].NumPrompts = 120
	result, err := lab.Run(t.Context(), lab.Config{Plan: plan, PlanText: []byte("doubles\n"), Dir: m.Dir, Measurer: m, Version: "test", Now: time.Now, Say: func(text string) { t.Log(text) }})
	if err != nil {
		t.Fatal(err)
	}
	lines, err := ledger.Read(m.Dir)
	if err != nil {
		t.Fatal(err)
	}
	verdicts := map[string]string{}
	for _, line := range lines {
		if line.Kind == ledger.KindDecision {
			verdicts[line.Decision.Stage+"/"+line.Decision.Subject] = line.Decision.Verdict
		}
	}
	for key, want := range map[string]string{"engine/fast": ledger.Kept, "engine/slow": ledger.Rejected, "engine/broken": ledger.Rejected, "smoke/unknown: unknown=true": ledger.Rejected, "race/async: async=true": ledger.Kept} {
		if verdicts[key] != want {
			t.Errorf("%s: %q, want %q", key, verdicts[key], want)
		}
	}
	if winner := result.End.Winner["gpt-oss"]; winner.Engine != "fast" || winner.Flags["async"] != "true" {
		t.Errorf("winner %+v", winner)
	}
}

// carriesOut is a campaign of one engine with a flag, within a budget.
func carriesOut(t *testing.T, m *Measurer, flag string, budget time.Duration) ([]ledger.Line, error) {
	t.Helper()
	double := engine("double", map[string]string{flag: "true"})
	plan := &planfile.Plan{Name: "one", Models: []string{"gpt-oss"}, Seed: 1, Cache: planfile.CacheReset, Workloads: []planfile.Workload{workload()}, Budget: planfile.Budget{Time: budget},
		Objective: planfile.Objective{Metric: "total_token_throughput", Maximize: true, On: "chat"}, Engines: []planfile.Engine{double}}
	_, err := lab.Run(t.Context(), lab.Config{Plan: plan, PlanText: []byte("one\n"), Dir: m.Dir, Measurer: m, Version: "test", Now: time.Now})
	lines, read := ledger.Read(m.Dir)
	if read != nil {
		t.Fatal(read)
	}
	return lines, err
}

// A server that hangs, or does not come up, costs no more than the budget has: what is cut says so.
func TestBudgetOfHangs(t *testing.T) {
	t.Parallel()
	for _, flag := range []string{"stalls", "silent"} {
		t.Run(flag, func(t *testing.T) {
			t.Parallel() // it waits
			m := measurer(t)
			m.Quiet = time.Hour
			lines, err := carriesOut(t, m, flag, 2*time.Second)
			if err != nil {
				t.Fatal(err)
			}
			var cut []ledger.Trial
			for _, line := range lines {
				if line.Trial != nil && line.Trial.State != ledger.StateBegun {
					cut = append(cut, *line.Trial)
				}
			}
			if len(cut) != 1 || cut[0].State != ledger.StateCut || cut[0].Reason != "budget ended" {
				t.Errorf("%+v", cut)
			}
		})
	}
}

// A disk that is full is no fault of the server: the campaign stops, the trial is none that failed, and the
// ledger is whole. /dev/full takes no byte.
func TestFullDisk(t *testing.T) {
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip("this system has no /dev/full")
	}
	m := measurer(t)
	server, _ := starts(t, m, "")
	defer server.Stop()
	if err := os.Symlink("/dev/full", filepath.Join(m.Dir, "requests", "race-1.jsonl")); err != nil {
		t.Fatal(err)
	}
	load := lab.Load{ID: "race-1", Workload: workload(), Model: "gpt-oss", Seed: 7, Share: 1, Cache: planfile.CacheReset}
	if trial, err := server.Measure(t.Context(), load); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("%v, %+v", err, trial)
	}
	load.ID = "race-2" // whose result has no place
	if err := os.Mkdir(filepath.Join(m.Dir, "runs", "race-2.json"), 0o700); err != nil {
		t.Fatal(err)
	}
	if trial, err := server.Measure(t.Context(), load); err == nil {
		t.Errorf("a result without a place: %+v", trial)
	}
	load.ID = "race-3"
	if trial := measured(t, server, t.Context(), load); trial.State != ledger.StateOK {
		t.Errorf("afterwards: %s, %s", trial.State, trial.Reason)
	}
}
