package predict

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"ossian/internal/cuda/cost"
	"ossian/internal/lab/predict/machine"
)

// onGPU returns a scenario of Ossian on a machine.
func onGPU(t testing.TB, model, on string, load Workload) Scenario {
	t.Helper()
	s := scenario(t, model, "0.11.0", 1, load)
	var err error
	if s.Machine, err = machine.Lookup(on); err != nil {
		t.Fatal(err)
	}
	if s.Engine, err = Engine("ossian", "1.0"); err != nil {
		t.Fatal(err)
	}
	return s
}

// theCounter returns what counts steps of a scenario.
func theCounter(t testing.TB, s *Scenario) *counter {
	t.Helper()
	r, err := s.resolve()
	if err != nil {
		t.Fatal(err)
	}
	c, ok := newCounter(s, r)
	if !ok {
		t.Fatalf("%s on %s is not counted", s.Model.Spec.Name, s.Machine.Name)
	}
	return c
}

// TestPredicted prints what counts and data sheets make of kernels, beside what memory and arithmetic allow
// in any case: go test -v -run Predicted. No kernel may be faster than that.
func TestPredicted(t *testing.T) {
	steps := []struct{ rows, start, length int }{{1, 1000, 1}, {8, 1000, 1}, {32, 1000, 1}, {128, 1000, 1}, {1024, 1000, 1}, {1, 0, 2048}}
	for _, name := range []string{"gpt-oss-20b", "gpt-oss-120b", "Qwen3-8B"} {
		for _, on := range []string{"A100-80G", "H100", "H200"} {
			s := onGPU(t, name, on, Workload{})
			c := theCounter(t, &s)
			constants := &c.fitted.Constants
			for _, shape := range steps {
				if testing.Short() && shape.rows > 32 {
					continue
				}
				step := cost.Step{Sampled: shape.rows}
				for range shape.rows {
					step.Rows = append(step.Rows, cost.Row{Start: shape.start, Len: shape.length})
				}
				for _, chance := range c.chances {
					step.Assigned = append(step.Assigned, chance*float64(shape.rows*shape.length))
				}
				launches := c.model.Launches(step)
				total := constants.Total(&c.card, launches, shape.rows)
				var text strings.Builder
				bounds := 0.0
				for i := range launches {
					one := &launches[i]
					seconds, by := constants.Seconds(&c.card, &one.Work)
					least := one.Bound(&c.card)
					bounds += float64(one.Times) * least
					if seconds < least {
						t.Errorf("%s on %s: %s takes %v s, and its bytes and operations %v s at least", name, on, one.Kernel, seconds, least)
					}
					fmt.Fprintf(&text, "  %-24s %4d × %9.1f µs  %-7s bound %9.1f µs  %8.0f blocks\n", one.Kernel, one.Times, 1e6*seconds, by, 1e6*least, one.Blocks)
				}
				t.Logf("%s on %s, %d rows of %d from %d on: %d kernels, card %.2f ms, launches %.2f ms, host %.2f ms, %.0f tokens/s; bound %.2f ms\n%s", name, c.card.Name,
					shape.rows, shape.length, shape.start, total.Kernels, 1e3*total.Device, 1e3*total.Launched, 1e3*total.Host, float64(shape.rows*shape.length)/total.Seconds(), 1e3*bounds, text.String())
			}
		}
	}
}

// TestCountedClock: the clock meets what was counted, at any number of tokens.
func TestCountedClock(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"gpt-oss-20b", "gpt-oss-120b", "Qwen3-8B", "Llama-3.2-1B"} {
		for _, on := range []string{"A100-80G", "H100", "H200", "B200", "RTX-PRO-6000"} {
			s := onGPU(t, name, on, Workload{})
			clock, unknown, err := NewClock(s)
			note := "no card has been measured"
			if on == "H100" || on == "H200" {
				note = "constants fitted to"
			}
			if err != nil || len(unknown) > 0 || !strings.Contains(clock.Note(), note) {
				t.Fatalf("%s on %s: unknown %v, note %q, error %v", name, on, unknown, clock.Note(), err)
			}
			c := theCounter(t, &s)
			for _, shape := range [][3]int{{1, 1000, 1}, {8, 1000, 1}, {32, 1000, 1}, {128, 1000, 1}, {256, 500, 1}, {1, 0, 512}, {1, 0, 2048}} {
				counted := c.step(shape[0], shape[1], shape[2]).total.Seconds()
				ratio := clock.StepTime(alike(shape[0], shape[1], shape[2])).Seconds() / counted
				t.Logf("%-13s %-13s %v: counted %.2f ms, clock × %.2f", name, on, shape, 1e3*counted, ratio)
				most := 1.25
				if shape[0] == 1 && shape[2] == 1 {
					most = 1.05
				}
				if ratio > most || ratio < 1/most {
					t.Errorf("%s on %s, %v: the clock says %.2f times what was counted", name, on, shape, ratio)
				}
			}
		}
	}
}

// TestCounted: a prediction for Ossian on a GPU is marked, its interval goes from the bound to what is
// much slower, and what package cuda has no kernels for stays unknown.
func TestCounted(t *testing.T) {
	t.Parallel()
	s := onGPU(t, "gpt-oss-20b", "A100-80G", Random(40, 300, 40, 1))
	s.Strict = true
	p := predicted(t, s)
	if len(p.Unknown) > 0 || !strings.Contains(strings.Join(p.Assumptions, "\n"), "no card has been measured") {
		t.Errorf("unknown %v, assumptions %q", p.Unknown, p.Assumptions)
	}
	slow := p.Metrics["duration_s"]
	s.Strict, s.Calibration = false, &Calibration{} // covers nothing
	least := predicted(t, s).Metrics["duration_s"].Value
	if math.Abs(slow.Low/least-1) > 0.1 || math.Abs(slow.High/slow.Value-countedSlower) > 1e-9 || slow.Value <= least {
		t.Errorf("duration %+v, the bound is %v", slow, least)
	}
	if rate := p.Metrics["output_throughput"]; rate.Low >= rate.Value || rate.High <= rate.Value {
		t.Errorf("throughput %+v", rate)
	}
	if count := p.Metrics["completed"]; count.Low != count.High {
		t.Errorf("completed %+v: a count has no interval", count)
	}
	s = onGPU(t, "gpt-oss-20b", "H200", Random(40, 300, 40, 1))
	p = predicted(t, s)
	if d := p.Metrics["duration_s"]; !strings.Contains(strings.Join(p.Assumptions, "\n"), "constants fitted to") || math.Abs(d.High/d.Value-fittedWithin) > 1e-9 || math.Abs(d.Value/d.Low-fittedWithin) > 1e-9 {
		t.Errorf("on a card whose kernels were measured: %+v, assumptions %q", d, p.Assumptions)
	}
	for what, change := range map[string]func(*Scenario){
		"several cards":           func(s *Scenario) { s.Settings.TP = 2 },
		"no CUDA":                 func(s *Scenario) { s.Machine, _ = machine.Lookup("MI300X") },
		"unknown multiprocessors": func(s *Scenario) { s.Machine, _ = machine.Lookup("H20") },
		"another engine":          func(s *Scenario) { s.Engine, _ = Engine("vllm", "0.12.0") },
	} {
		s := onGPU(t, "gpt-oss-20b", "H100", Random(4, 30, 4, 1))
		change(&s)
		if p := predicted(t, s); len(p.Unknown) == 0 {
			t.Errorf("%s: nothing is unknown", what)
		}
		s.Strict = true
		if _, err := Run(context.Background(), s); !errors.Is(err, ErrUnknownKernel) {
			t.Errorf("%s, strict: %v", what, err)
		}
	}
}

func BenchmarkCounted(b *testing.B) {
	s := onGPU(b, "gpt-oss-120b", "H100", Workload{})
	r, err := s.resolve()
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if s.counted(r) == nil {
			b.Fatal("not counted")
		}
	}
}
