package simulate

import (
	"context"
	"math"
	"testing"

	"ossian/internal/lab"
	"ossian/internal/lab/ledger"
	"ossian/internal/lab/planfile"
)

// trader predicts that fewer sequences at once give faster tokens and a lower rate, and knows no other
// flag.
type trader struct{}

func (trader) Predict(_ planfile.Engine, setting ledger.Setting, _ string, workload planfile.Workload) lab.Prediction {
	total, tpot, ttft := 4000.0, 40.0, 500.0
	for flag, value := range setting.Flags {
		switch {
		case flag != "seqs":
			return lab.Prediction{}
		case value == "huge":
			return lab.Prediction{Misfit: "9 GiB of 8"}
		}
		total, tpot, ttft = 2000, 10, 900
	}
	requests := float64(workload.NumPrompts)
	duration := 400 * requests / total
	if workload.RequestRate > 0 {
		duration = max(duration, requests/workload.RequestRate+1)
	}
	exactly := func(value float64) ledger.Interval { return ledger.Interval{Value: value, Low: value, High: value} }
	return lab.Prediction{Metrics: map[string]ledger.Interval{"total_token_throughput": exactly(400 * requests / duration), "output_throughput": exactly(200 * requests / duration),
		"request_throughput": exactly(requests / duration), "duration": exactly(duration), "mean_tpot_ms": exactly(tpot), "p99_tpot_ms": exactly(2 * tpot), "mean_ttft_ms": exactly(ttft)}}
}

// measured is a run of a setting in a world without noise.
func measured(t *testing.T, world World, setting map[string]string, workload planfile.Workload) map[string]float64 {
	t.Helper()
	m := &Measurer{World: world, Predictor: trader{}}
	server, start := m.Start(context.Background(), lab.Request{Engine: planfile.Engine{Name: "e"}, Setting: ledger.Setting{Engine: "e", Flags: setting}, Model: "m"})
	if start.State != ledger.StateOK {
		t.Fatalf("%v: %s", setting, start.Reason)
	}
	trial, err := server.Measure(context.Background(), lab.Load{ID: "x", Workload: workload, Share: 1})
	if err != nil {
		t.Fatal(err)
	}
	return trial.Metrics
}

// Every figure is the predictor's own: what it says of times is not derived from a rate.
func TestPredictedFigures(t *testing.T) {
	load := planfile.Workload{Name: "chat", InputLen: 200, OutputLen: 200, NumPrompts: 100}
	many, few := measured(t, World{}, nil, load), measured(t, World{}, map[string]string{"seqs": "8"}, load)
	if many["mean_tpot_ms"] != 40 || few["mean_tpot_ms"] != 10 || few["p99_tpot_ms"] != 20 || many["mean_ttft_ms"] != 500 || few["total_token_throughput"] != 2000 || few["duration"] != 20 {
		t.Errorf("many %v\nfew %v", many, few)
	}
	// A planted effect makes times shorter and rates higher, of flags that nobody predicts too.
	fast := measured(t, World{Effects: map[string]float64{"kernel=new": 0.25}}, map[string]string{"seqs": "8", "kernel": "new"}, load)
	for name, want := range map[string]float64{"mean_tpot_ms": 8, "mean_ttft_ms": 720, "total_token_throughput": 2500, "duration": 16, "request_throughput": 6.25} {
		if math.Abs(fast[name]/want-1) > 1e-12 {
			t.Errorf("%s %v, want %v", name, fast[name], want)
		}
	}
	// Who waits for requests is not faster for being able to be: 100 requests come in 50 s.
	load.RequestRate = 2
	if waiting := measured(t, World{Effects: map[string]float64{"kernel=new": 0.25}}, map[string]string{"kernel": "new"}, load); math.Abs(waiting["duration"]-50.8) > 1e-9 || waiting["mean_tpot_ms"] != 32 {
		t.Errorf("at a rate: %v", waiting)
	}
	// What the rate asks for cannot be kept: all at once take 10 s, and 100 s at a tenth of the speed.
	if late := measured(t, World{Effects: map[string]float64{"kernel=old": -0.9}}, map[string]string{"kernel": "old"}, load); math.Abs(late["duration"]-100) > 1e-9 {
		t.Errorf("too slow for a rate: %v", late)
	}
}

// What does not fit the machine that is predicted does not start.
func TestPredictedMisfit(t *testing.T) {
	m := &Measurer{Predictor: trader{}}
	_, start := m.Start(context.Background(), lab.Request{Engine: planfile.Engine{Name: "e"}, Setting: ledger.Setting{Engine: "e", Flags: map[string]string{"seqs": "huge"}}})
	if start.State != ledger.StateFailed || start.Reason != "out of memory: 9 GiB of 8" {
		t.Errorf("%+v", start)
	}
}
