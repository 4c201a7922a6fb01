package lab_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"ossian/internal/lab"
	"ossian/internal/lab/ledger"
	"ossian/internal/lab/planfile"
	"ossian/internal/lab/report"
	"ossian/internal/lab/simulate"
	"ossian/internal/soak"
)

// cutWorld is the world of the campaigns that are cut here: effects, drift, an engine that fails and
// runs that fail now and then, so that every kind of line is in the ledger.
func cutWorld() simulate.World {
	return simulate.World{Noise: 0.02, Drift: simulate.Drift{Change: -0.05, Over: time.Hour}, Starts: map[string]time.Duration{"a=true": 40 * time.Second, "b=true": 90 * time.Second}, Engines: map[string]simulate.Engine{"other": {Factor: 0.8}}, Effects: map[string]float64{"a=true": 0.07, "b=true": 0.05, "c=true": -0.06},
		Joint:   []simulate.Joint{{Flags: []string{"a=true", "b=true"}, Effect: 0.02}},
		Failing: []simulate.Failing{{Flags: []string{"d=2"}, Reason: "out of memory: 9 GiB"}, {Flags: []string{"c=true"}, Reason: "connection reset", Share: 0.1}}, Changed: []string{"e=true"}}
}

func cutPlan() *planfile.Plan {
	plan := planOf("a", "b", "c", "e")
	plan.Options = append(plan.Options, option("d", "1", "2", "4"))
	plan.Engines = append(plan.Engines, planfile.Engine{Name: "other", Kind: "other"})
	plan.Budget = planfile.Budget{Time: 150 * time.Minute}
	return plan
}

// conclusions are what a campaign came to, as text: standing decisions and the end, without what says
// when they were written.
func conclusions(t *testing.T, lines []ledger.Line) string {
	t.Helper()
	decided := map[string]string{}
	var end string
	for _, line := range lines {
		switch line.Kind {
		case ledger.KindDecision:
			text, err := json.Marshal(line.Decision)
			if err != nil {
				t.Fatal(err)
			}
			id, _, _ := strings.Cut(line.ID, ".")
			decided[id] = string(text)
		case ledger.KindEnd:
			text, err := json.Marshal(line.End)
			if err != nil {
				t.Fatal(err)
			}
			end = string(text)
		}
	}
	var out []string
	for _, id := range slices.Sorted(maps.Keys(decided)) {
		out = append(out, id+" "+decided[id])
	}
	return strings.Join(append(out, end), "\n")
}

// L3: a campaign whose process ended at any byte of its ledger comes to the same conclusions, and
// measures nothing twice but the trial that was under way.
func TestKilledAnywhere(t *testing.T) {
	whole := runs(t, cutPlan(), cutWorld())
	want := conclusions(t, whole.lines)
	text, err := os.ReadFile(filepath.Join(whole.dir, ledger.FileName))
	if err != nil {
		t.Fatal(err)
	}
	dice := rand.New(rand.NewPCG(3, 1))
	for range soak.Cases(t, 20, 500) {
		dir := t.TempDir()
		// What was written before the cut is there; answers and the plan are files of their own.
		if err := os.CopyFS(dir, os.DirFS(whole.dir)); err != nil {
			t.Fatal(err)
		}
		cut := dice.IntN(len(text))
		if err := os.WriteFile(filepath.Join(dir, ledger.FileName), text[:cut], 0o600); err != nil {
			t.Fatal(err)
		}
		s := carriesOut(t, config(cutPlan(), cutWorld(), dir))
		if got := conclusions(t, s.lines); got != want {
			t.Fatalf("cut at byte %d of %d:\n%s\nwant\n%s", cut, len(text), got, want)
		}
		if ended := s.states()[ledger.StateOK]; ended != whole.states()[ledger.StateOK] {
			t.Errorf("cut at byte %d: %d trials that ended well, want %d", cut, ended, whole.states()[ledger.StateOK])
		}
		if repeated := begun(s.lines) - begun(whole.lines); repeated < 0 || repeated > 1 {
			t.Errorf("cut at byte %d: %d trials begun more", cut, repeated)
		}
	}
}

// The report of a campaign that was cut is that of one that was not, but for the notes that say so.
func TestReportOfCut(t *testing.T) {
	whole := runs(t, cutPlan(), cutWorld())
	text, err := os.ReadFile(filepath.Join(whole.dir, ledger.FileName))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, part := range []int{3, 5, 9} { // tenths: each time the campaign has got farther
		if err := os.CopyFS(dir, os.DirFS(whole.dir)); err != nil && part == 3 {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, ledger.FileName), text[:len(text)*part/10], 0o600); err != nil {
			t.Fatal(err)
		}
		carriesOut(t, config(cutPlan(), cutWorld(), dir))
		if got, want := reported(t, dir), reported(t, whole.dir); got != want {
			t.Errorf("cut at %d0 %%: the reports differ:\n%s\n%s", part, got, want)
		}
	}
}

// reported is the report of a directory without its notes.
func reported(t *testing.T, dir string) string {
	t.Helper()
	path, err := report.Write(dir)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, there := strings.Cut(string(text), "\nNotes of the campaign:\n")
	if _, after, more := strings.Cut(rest, "\n#"); there && more {
		return before + "\n#" + after
	}
	return before
}

// begun counts trials that began, repeated ones as often as they did.
func begun(lines []ledger.Line) int {
	count := 0
	for _, line := range lines {
		if line.Kind == ledger.KindTrial && line.Trial.State == ledger.StateBegun {
			count++
		}
	}
	return count
}

// A campaign that is interrupted in a trial says so, with status 130, and goes on.
func TestInterrupted(t *testing.T) {
	want := conclusions(t, runs(t, cutPlan(), cutWorld()).lines)
	dir := t.TempDir()
	for number := range 6 {
		ctx, cancel := context.WithCancel(context.Background())
		c := config(cutPlan(), cutWorld(), dir)
		c.Measurer = &interrupter{Measurer: c.Measurer, after: 4 + 4*number, cancel: cancel}
		result, err := lab.Run(ctx, c)
		cancel()
		if !errors.Is(err, context.Canceled) || result.End.Exit != 130 {
			t.Fatalf("%v, %+v", err, result)
		}
	}
	s := carriesOut(t, config(cutPlan(), cutWorld(), dir))
	if got := conclusions(t, s.lines); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}

// A start that is interrupted is no failure of its engine: it is in no ledger, its trial is one that was
// cut, and the campaign that goes on comes to the same end.
func TestInterruptedStart(t *testing.T) {
	want := conclusions(t, runs(t, cutPlan(), cutWorld()).lines)
	dir := t.TempDir()
	for number := range 6 {
		ctx, cancel := context.WithCancel(context.Background())
		c := config(cutPlan(), cutWorld(), dir)
		c.Measurer = &startInterrupter{Measurer: c.Measurer, after: 1 + 3*number, cancel: cancel}
		result, err := lab.Run(ctx, c)
		cancel()
		if !errors.Is(err, context.Canceled) || result.End.Exit != 130 {
			t.Fatalf("%v, %+v", err, result)
		}
	}
	s := carriesOut(t, config(cutPlan(), cutWorld(), dir))
	for _, line := range s.lines {
		if start := line.Start; start != nil && start.State != ledger.StateOK && !strings.HasPrefix(start.Reason, "out of memory") && start.Reason != lab.ReasonBudget {
			t.Errorf("%s: %s, %q", line.ID, start.State, start.Reason)
		}
		if trial := line.Trial; trial != nil && trial.State == ledger.StateFailed && trial.Reason == "" {
			t.Errorf("%s failed without a reason", line.ID)
		}
	}
	if got := conclusions(t, s.lines); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}

// startInterrupter ends the context while a server starts.
type startInterrupter struct {
	lab.Measurer
	after  int
	cancel context.CancelFunc
}

func (i *startInterrupter) Start(ctx context.Context, request lab.Request) (lab.Server, ledger.Start) {
	if i.after--; i.after == 0 {
		i.cancel()
	}
	return i.Measurer.Start(ctx, request)
}

// interrupter ends the context in the middle of a trial.
type interrupter struct {
	lab.Measurer
	after  int
	cancel context.CancelFunc
}

func (i *interrupter) Start(ctx context.Context, request lab.Request) (lab.Server, ledger.Start) {
	server, start := i.Measurer.Start(ctx, request)
	if server == nil {
		return nil, start
	}
	return &interrupted{server, i}, start
}

type interrupted struct {
	lab.Server
	by *interrupter
}

func (i *interrupted) Measure(ctx context.Context, load lab.Load) (ledger.Trial, error) {
	if i.by.after--; i.by.after == 0 {
		i.by.cancel()
	}
	return i.Server.Measure(ctx, load)
}

// The campaign's process is killed for good, several times, by the system.
func TestKilledProcess(t *testing.T) {
	if dir := os.Getenv("LAB_TEST_DIR"); dir != "" { // this is the process that is killed
		c := config(cutPlan(), cutWorld(), dir)
		c.Measurer = &slow{c.Measurer}
		if _, err := lab.Run(context.Background(), c); err != nil {
			t.Fatal(err)
		}
		return
	}
	if testing.Short() {
		t.Skip("starts processes and kills them; run without -short")
	}
	want := conclusions(t, runs(t, cutPlan(), cutWorld()).lines)
	dir, dice := t.TempDir(), rand.New(rand.NewPCG(5, 1))
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for range soak.Cases(t, 3, 20) {
		cmd := exec.Command(program, "-test.run=^TestKilledProcess$")
		cmd.Env = append(os.Environ(), "LAB_TEST_DIR="+dir)
		var output bytes.Buffer
		cmd.Stdout, cmd.Stderr = &output, &output
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Duration(100+dice.IntN(200)) * time.Millisecond)
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait() // it was killed, or was quicker
	}
	s := carriesOut(t, config(cutPlan(), cutWorld(), dir))
	if got := conclusions(t, s.lines); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}

// slow gives the process that is killed some time in its trials.
type slow struct{ lab.Measurer }

func (s *slow) Room() error { time.Sleep(3 * time.Millisecond); return s.Measurer.Room() }

// A plan that has changed is shown as a difference and needs a word; trials that still apply are kept.
func TestChangedPlan(t *testing.T) {
	dir := t.TempDir()
	plan, world := planOf("a"), simulate.World{Noise: 0.01, Effects: map[string]float64{"a=true": 0.06, "b=true": 0.09}}
	before := carriesOut(t, config(plan, world, dir))
	changed := planOf("a", "b")
	_, err := lab.Run(context.Background(), config(changed, world, dir))
	if is, ok := errors.AsType[*lab.ChangedError](err); !ok || !strings.Contains(is.Diff, `+    "Name": "b"`) || strings.Contains(is.Diff, `"Models"`) {
		t.Fatalf("%v", err)
	}
	c := config(changed, world, dir)
	c.Changed = true
	after := carriesOut(t, c)
	after.wants(map[string]string{"race/a: a=true": ledger.Kept, "race/b: b=true": ledger.Kept})
	again := 0
	seen := map[string]bool{}
	for _, line := range after.lines {
		if line.Kind == ledger.KindTrial && line.Trial.State == ledger.StateOK {
			if seen[line.Key] {
				again++
			}
			seen[line.Key] = true
		}
	}
	if again > 0 || len(seen) <= before.states()[ledger.StateOK] {
		t.Errorf("%d keys were measured twice; %d trials, before %d", again, len(seen), before.states()[ledger.StateOK])
	}
}

// Measured and simulated trials never stand in one ledger.
func TestOtherKind(t *testing.T) {
	dir := t.TempDir()
	plan, world := planOf("a"), simulate.World{Noise: 0.01}
	carriesOut(t, config(plan, world, dir))
	before, err := os.ReadFile(filepath.Join(dir, ledger.FileName))
	if err != nil {
		t.Fatal(err)
	}
	c := config(plan, world, dir)
	c.Simulated, c.Changed = false, true
	_, err = lab.Run(context.Background(), c)
	if _, is := errors.AsType[*lab.UsageError](err); !is || !strings.Contains(err.Error(), "holds a simulated campaign") {
		t.Errorf("%v", err)
	}
	if after, err := os.ReadFile(filepath.Join(dir, ledger.FileName)); err != nil || string(after) != string(before) {
		t.Errorf("the ledger was changed: %v", err)
	}
}

// A ledger that is in use, or broken in the middle, is left alone.
func TestLedgerRefused(t *testing.T) {
	dir := t.TempDir()
	file, _, _, err := ledger.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	var usage *lab.UsageError
	if _, err := lab.Run(context.Background(), config(planOf(), simulate.World{}, dir)); !errors.As(err, &usage) {
		t.Errorf("in use: %v", err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	s := carriesOut(t, config(planOf("a"), simulate.World{Noise: 0.01}, dir))
	path := filepath.Join(s.dir, ledger.FileName)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	text = bytes.Replace(text, []byte(`"role":"smoke"`), []byte(`"role":"smoky"`), 1)
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	var broken *ledger.BrokenError
	if _, err := lab.Run(context.Background(), config(planOf("a"), simulate.World{Noise: 0.01}, dir)); !errors.As(err, &broken) {
		t.Errorf("broken: %v", err)
	}
}

// A campaign that has ended is read again without a trial, and says the same.
func TestRunAgain(t *testing.T) {
	first := runs(t, cutPlan(), cutWorld())
	second := carriesOut(t, config(cutPlan(), cutWorld(), first.dir))
	if begun(second.lines) != begun(first.lines) || conclusions(t, second.lines) != conclusions(t, first.lines) {
		t.Errorf("%d trials begun, want %d", begun(second.lines), begun(first.lines))
	}
}

// full has no room for the next trial's files.
type full struct {
	lab.Measurer
	trials int
}

func (f *full) Room() error {
	if f.trials--; f.trials < 0 {
		return errors.New("0 bytes free, and a trial may need 67108864")
	}
	return nil
}

// A disk without room ends the campaign before a trial whose result could not be kept.
func TestFullDisk(t *testing.T) {
	dir := t.TempDir()
	c := config(planOf("a"), simulate.World{Noise: 0.01, Effects: map[string]float64{"a=true": 0.06}}, dir)
	roomy := c.Measurer
	c.Measurer = &full{Measurer: roomy, trials: 5}
	if _, err := lab.Run(context.Background(), c); err == nil || !strings.Contains(err.Error(), "67108864") {
		t.Fatalf("%v", err)
	}
	lines, err := ledger.Read(dir)
	if err != nil || begun(lines) != 5 {
		t.Errorf("%v, %d trials begun", err, begun(lines))
	}
	s := carriesOut(t, config(planOf("a"), simulate.World{Noise: 0.01, Effects: map[string]float64{"a=true": 0.06}}, dir))
	s.wants(map[string]string{"race/a: a=true": ledger.Kept})
}
