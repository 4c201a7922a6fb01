package lab_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"ossian/internal/lab"
	"ossian/internal/lab/ledger"
	"ossian/internal/lab/planfile"
	"ossian/internal/lab/simulate"
	"ossian/internal/soak"
)

// hangs is a world in which an option is a thousand times slower.
func hangs() simulate.World {
	return simulate.World{Noise: 0.01, Effects: map[string]float64{"hangs=true": -0.999, "gain=true": 0.1}}
}

// The budget's time bounds a trial that runs: what it cuts is a row that says so, nothing more is begun, and
// nothing is held against what was cut or not reached.
func TestBudgetCutsTrial(t *testing.T) {
	plan := planOf("null", "hangs", "gain")
	plan.Budget.Time = 5 * time.Minute
	s := runs(t, plan, hangs())
	var seconds float64
	var last ledger.Trial
	for _, line := range s.lines {
		if line.Trial != nil && line.Trial.State != ledger.StateBegun {
			seconds, last = seconds+line.Trial.Seconds, *line.Trial
		}
		if line.Start != nil {
			seconds += line.Start.Seconds
		}
	}
	if last.State != ledger.StateCut || last.Reason != "budget ended" || last.Setting.Flags["hangs"] != "true" || seconds > 300.001 || seconds < 299 {
		t.Errorf("%.3f s of trials and starts, the last one %+v", seconds, last)
	}
	s.wants(map[string]string{"smoke/null: null=true": ledger.Works, "smoke/hangs: hangs=true": ledger.NotDecided, "smoke/gain: gain=true": ledger.NotDecided})
	for subject, want := range map[string]string{"hangs: hangs=true": "spent during its first run", "gain: gain=true": "spent before it was tried"} {
		if reason := s.decisions()["smoke/"+subject].Reason; !strings.Contains(reason, want) {
			t.Errorf("%s: %s, want %s", subject, reason, want)
		}
	}
	if s.result.End.State != "budget" || s.result.End.Exit != 1 || s.winner() != "" {
		t.Errorf("%+v", s.result.End)
	}
	if reason := s.decisions()["winner/ossian at its defaults"].Reason; !strings.Contains(reason, "before all were tried") {
		t.Errorf("winner: %s", reason)
	}
	// The same command measures nothing more, and a larger budget goes on with what was cut.
	again := carriesOut(t, config(plan, hangs(), s.dir))
	if begun(again.lines) != begun(s.lines) {
		t.Errorf("%d trials begun, then %d", begun(s.lines), begun(again.lines))
	}
	plan.Budget.Time = 3 * time.Hour
	larger := config(plan, hangs(), s.dir)
	larger.Changed = true
	again = carriesOut(t, larger)
	again.wants(map[string]string{"smoke/hangs: hangs=true": ledger.Rejected, "race/gain: gain=true": ledger.Kept})
}

// A start that takes longer than what is left ends with the budget as well.
func TestBudgetCutsStart(t *testing.T) {
	plan := planOf("slow")
	plan.Budget.Time = time.Minute
	s := runs(t, plan, simulate.World{Starts: map[string]time.Duration{"slow=true": time.Hour}})
	s.wants(map[string]string{"smoke/slow: slow=true": ledger.NotDecided})
	cut := 0
	for _, line := range s.lines {
		if line.Trial != nil && line.Trial.State == ledger.StateCut && line.Trial.Reason == "budget ended" && line.Trial.Seconds < 60 {
			cut++
		}
	}
	if cut != 1 {
		t.Errorf("%d trials were cut by the budget", cut)
	}
}

// Wherever the budget ends a campaign, one that was killed on the way there comes to the same.
func TestBudgetAndKills(t *testing.T) {
	dice := rand.New(rand.NewPCG(8, 1))
	for range soak.Cases(t, 12, 300) {
		plan := cutPlan()
		plan.Budget = planfile.Budget{Time: time.Duration(dice.IntN(3600)) * time.Second}
		if plan.Budget.Time == 0 {
			continue
		}
		whole := runs(t, plan, cutWorld())
		want := conclusions(t, whole.lines)
		text, err := os.ReadFile(filepath.Join(whole.dir, ledger.FileName))
		if err != nil {
			t.Fatal(err)
		}
		dir := t.TempDir()
		if err := os.CopyFS(dir, os.DirFS(whole.dir)); err != nil {
			t.Fatal(err)
		}
		cut := dice.IntN(len(text))
		if err := os.WriteFile(filepath.Join(dir, ledger.FileName), text[:cut], 0o600); err != nil {
			t.Fatal(err)
		}
		if s := carriesOut(t, config(plan, cutWorld(), dir)); conclusions(t, s.lines) != want {
			t.Fatalf("a budget of %v, cut at byte %d of %d:\n%s\nwant\n%s", plan.Budget.Time, cut, len(text), conclusions(t, s.lines), want)
		}
	}
}

// broken is a machine whose disk is full once: a trial cannot be kept, or fails and there is no room.
type broken struct {
	lab.Measurer
	after int
	full  bool // and then
	fails bool // the trial fails as its server does, and that there is no room says why
}

func (b *broken) Room() error {
	if b.full && b.fails {
		return syscall.ENOSPC
	}
	return b.Measurer.Room()
}

func (b *broken) Start(ctx context.Context, request lab.Request) (lab.Server, ledger.Start) {
	server, start := b.Measurer.Start(ctx, request)
	if server == nil {
		return nil, start
	}
	return &brokenServer{server, b}, start
}

type brokenServer struct {
	lab.Server
	by *broken
}

func (s *brokenServer) Measure(ctx context.Context, load lab.Load) (ledger.Trial, error) {
	if s.by.after--; s.by.after != 0 {
		return s.Server.Measure(ctx, load)
	}
	s.by.full = true
	if s.by.fails {
		return ledger.Trial{State: ledger.StateFailed, Reason: "the server ended during the run"}, nil
	}
	return ledger.Trial{State: ledger.StateOK}, &os.PathError{Op: "write", Path: "requests", Err: syscall.ENOSPC}
}

// A failure of the lab's own machine stops the campaign and counts against nobody: the same command goes on
// with that trial, and comes to what it would have come to.
func TestOwnFailure(t *testing.T) {
	want := conclusions(t, runs(t, cutPlan(), cutWorld()).lines)
	for _, fails := range []bool{false, true} {
		for _, after := range []int{1, 5, 23} {
			dir := t.TempDir()
			c := config(cutPlan(), cutWorld(), dir)
			c.Measurer = &broken{Measurer: c.Measurer, after: after, fails: fails}
			_, err := lab.Run(context.Background(), c)
			var own *lab.MachineError
			if !errors.As(err, &own) || !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), "run the same command again") {
				t.Errorf("trial %d: %v", after, err)
			}
			lines, err := ledger.Read(dir)
			if err != nil {
				t.Fatal(err)
			}
			if last := lines[len(lines)-1].Trial; last == nil || last.State != ledger.StateCut || !strings.Contains(last.Reason, "the lab's own machine") {
				t.Errorf("trial %d: the last line is %+v", after, lines[len(lines)-1])
			}
			if s := carriesOut(t, config(cutPlan(), cutWorld(), dir)); conclusions(t, s.lines) != want {
				t.Errorf("trial %d: it comes to\n%s\nwant\n%s", after, conclusions(t, s.lines), want)
			}
		}
	}
}
