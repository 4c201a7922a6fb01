package calibrate

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"ossian/internal/lab/predict"
	"ossian/internal/lab/predict/machine"
)

// planted returns rows that a machine with known parameters would have given, for three models on
// the processors of a computer, and the calibration that they come from.
func planted(t *testing.T) ([]Row, *predict.Calibration) {
	t.Helper()
	truth := Prior("cpu", "ossian", map[string]int{"1.0": 1}).With(map[string]float64{
		"dense/bf16/bandwidth": 0.7, "dense/bf16/compute": 0.5, "experts/mxfp4/bandwidth": 0.4, "experts/mxfp4/compute": 0.25,
		"attention/full/compute": 0.3, "attention/sinks/compute": 0.15, "host/step_ms": 0.8})
	engine, err := predict.Engine("ossian", "1.0")
	if err != nil {
		t.Fatal(err)
	}
	var rows []Row
	for _, name := range []string{"Qwen3-0.6B", "Qwen3-1.7B", "gpt-oss-20b"} {
		counted, err := predict.Model(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, batch := range []int{1, 8, 32} {
			for _, prompt := range []int{64, 1024} {
				load := predict.Random(batch, prompt, 48, 7)
				s := predict.Scenario{Model: counted, Machine: machine.Processors(64e9, 60e9, 2e12), Engine: engine, Workload: load, Calibration: truth}
				p, err := predict.Run(context.Background(), s)
				if err != nil {
					t.Fatal(err)
				}
				metrics := map[string]float64{}
				for key, e := range p.Metrics {
					metrics[key] = e.Value
				}
				rows = append(rows, Measured(fmt.Sprintf("%s/%d/%d", name, batch, prompt), s, metrics))
			}
		}
	}
	return rows, truth
}

// TestPlanted: seven rows of 18 are enough to predict the others within 5 %, and intervals cover
// the truth.
func TestPlanted(t *testing.T) {
	t.Parallel()
	rows, _ := planted(t)
	result, err := Fit(context.Background(), rows, 7)
	if err != nil {
		t.Fatal(err)
	}
	if len(result.Chosen) > 7 || len(result.LeftOut) != len(result.Chosen) || len(result.All) != len(rows) {
		t.Fatalf("%d chosen, %d left out in turn, %d rows", len(result.Chosen), len(result.LeftOut), len(result.All))
	}
	for _, e := range result.All {
		for _, key := range targets {
			if math.Abs(e.Ratio[key]-1) > 0.05 {
				t.Errorf("%s: %s is off by %.1f %%", e.ID, key, 100*(e.Ratio[key]-1))
			}
		}
	}
	// Every need has its example.
	m, err := newModel(context.Background(), rows)
	if err != nil {
		t.Fatal(err)
	}
	var chosen []int
	for _, id := range result.Chosen {
		chosen = append(chosen, slices.IndexFunc(rows, func(row Row) bool { return row.ID == id }))
	}
	if missing := m.missing(chosen); len(missing) > 0 {
		t.Errorf("no example of %v among %v", missing, result.Chosen)
	}
	if text := result.String(); !strings.Contains(text, "not identified") || !strings.Contains(text, result.Chosen[0]) {
		t.Errorf("report:\n%s", text)
	}
	counted := judge(t, result.Calibration, rows, func(*Row) bool { return true })
	if counted.outside > 1 {
		t.Errorf("%d of %d true values lie outside their intervals", counted.outside, counted.outside+counted.inside)
	}
}

// TestVersions: a calibration knows the versions of its rows and no other.
func TestVersions(t *testing.T) {
	t.Parallel()
	rows, _ := planted(t)
	result, err := Fit(context.Background(), rows[:6], 3)
	if err != nil {
		t.Fatal(err)
	}
	c := result.Calibration
	if !c.Covers("cpu", "ossian", "1.0") || c.Covers("cpu", "ossian", "1.1") || c.Covers("cpu", "vllm", "1.0") {
		t.Errorf("covers %v", c.Versions)
	}
	if _, known := c.Value("attention/sinks/compute"); known {
		t.Error("a kernel that no row has is known")
	}
}

func TestRefuses(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	rows := golden(t)
	if _, err := Fit(ctx, nil, 7); err == nil {
		t.Error("no rows were fitted")
	}
	other := rows[0]
	other.Hardware.GPU = "H100"
	if _, err := Fit(ctx, []Row{rows[0], other}, 2); err == nil || !strings.Contains(err.Error(), "one machine") {
		t.Errorf("rows of two machines: %v", err)
	}
	for want, row := range map[string]Row{
		"no shape":   {Model: "nobody/nothing"},
		"not known":  {Model: "Qwen3-8B", Hardware: rows[0].Hardware, Engine: "vllm", EngineVersion: "0.10.1"},
		"no profile": {Model: "Qwen3-8B", Hardware: rows[0].Hardware, Engine: "tgi"},
		"0 prompts":  {Model: "Qwen3-8B", Hardware: rows[0].Hardware, Engine: "vllm", EngineVersion: "0.10.1"},
		"at most":    {Model: "Qwen3-8B", Hardware: rows[0].Hardware, Engine: "vllm", EngineVersion: "0.10.1", Workload: rows[0].Workload},
		"data set":   {Model: "Qwen3-8B", Hardware: rows[0].Hardware, Engine: "vllm", EngineVersion: "0.10.1", Workload: rows[0].Workload},
	} {
		switch want {
		case "not known":
			row.Hardware.GPU = "TPU"
		case "at most":
			row.Workload.Prompts, row.Workload.InputLen = 1e9, 1e9
		case "data set":
			row.Workload.Dataset = "sonnet"
		}
		if _, err := row.Scenario(rows); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, expected one with %q", err, want)
		}
	}
	for _, text := range []string{"", "[]", `{"format":"x"}`} {
		if _, err := Read(strings.NewReader(text)); err == nil {
			t.Errorf("%q was read", text)
		}
	}
}

// TestConformal holds the quantile to its definition.
func TestConformal(t *testing.T) {
	var scores []float64
	for i := range 39 {
		scores = append(scores, float64(39-i))
	}
	if got := conformal(scores); got != 38 {
		t.Errorf("of 1 … 39: %v, expected the 38th", got)
	}
	if got := conformal(scores[:4]); got != 39*5/4. {
		t.Errorf("of four scores up to 39: %v", got)
	}
}

// FuzzRead: what others have written is read or refused.
func FuzzRead(f *testing.F) {
	f.Add([]byte(`{"format":"ossian-seed-results-1","rows":[{"id":"a","engine":"vllm","engine_version":"v0.11.0","model":"openai/gpt-oss-20b","hardware":{"gpu":"A100"},"tp":1,"workload":{"dataset":"random","input_len":10,"output_len":2,"num_prompts":3,"request_rate":"inf"},"metrics":{"total_input_tokens":30,"total_output_tokens":6}}]}`))
	f.Add([]byte(`{"format":"ossian-seed-results-1","rows":[{"workload":{"num_prompts":-1}}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		rows, err := Read(strings.NewReader(string(text)))
		if err != nil {
			return
		}
		for i := range rows {
			if rows[i].Workload.Prompts < 1e6 { // more is refused, or slow to make
				rows[i].Workload.Prompts = min(rows[i].Workload.Prompts, 3)
			}
			_, _ = rows[i].Scenario(rows[:1])
		}
	})
}
