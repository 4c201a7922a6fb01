package forecast

import (
	"context"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"ossian/internal/lab/predict"
	"ossian/internal/lab/predict/calibrate"
)

// TestRankings is what there is of lab.md 10, P4: published rows that no calibration of at most seven
// was fitted to, in the order of their throughput of a device and in the predicted order. Kendall's τ
// is the share of pairs in the same order less that of pairs in the other. testdata/h100-seven.json
// was made of the published rows by: ossian lab calibrate --rows public.json --only H100 -o FILE.
func TestRankings(t *testing.T) {
	const from = "../predict/calibrate/testdata/"
	calibrations := map[string]*predict.Calibration{"A100": calibrationOf(t, from+"seven.json"), "H100": calibrationOf(t, "testdata/h100-seven.json")}
	var all []ranked
	for _, name := range []string{"rows.json", "public.json"} {
		rows := rowsOf(t, from+name)
		for i := range rows {
			row := &rows[i]
			c := calibrations[row.Hardware.GPU[:4]] // A100-SXM4-80GB and its like
			// One row of each workload and machine with every change; all of them with OSSIAN_SOAK=1.
			if row.Engine != "vllm" || slices.Contains(c.Rows, row.ID) || (os.Getenv("OSSIAN_SOAK") == "" && row.Workload.Dataset != "sharegpt") {
				continue
			}
			s, err := row.Scenario(rows)
			if err != nil {
				t.Fatal(err)
			}
			s.Calibration = c
			p, err := predict.Run(context.Background(), s)
			if err != nil {
				t.Fatalf("row %s: %v", row.ID, err)
			}
			if len(p.Unknown) > 0 {
				continue
			}
			load := fmt.Sprint(row.Workload.Dataset, row.Workload.InputLen, row.Workload.OutputLen, row.Workload.Most)
			measured := (row.Metrics["total_input_tokens"] + row.Metrics["total_output_tokens"]) / row.Metrics["duration_s"]
			all = append(all, ranked{row.Hardware.GPU[:4], load, measured / float64(row.TP), p.Metrics["total_token_throughput"].Value / float64(row.TP)})
		}
	}
	whole, pairs := kendall(all, func(a, b ranked) bool { return true })
	within, same := kendall(all, func(a, b ranked) bool { return a.load == b.load })
	for _, gpu := range []string{"A100", "H100"} {
		on, pairs := kendall(all, func(a, b ranked) bool { return a.gpu == gpu && b.gpu == gpu })
		alike, same := kendall(all, func(a, b ranked) bool { return a.gpu == gpu && b.gpu == gpu && a.load == b.load })
		t.Logf("%s: τ %.3f over %d pairs; %.3f over the %d pairs of one workload", gpu, on, pairs, alike, same)
	}
	t.Logf("%d rows: τ %.3f over all %d pairs; %.3f over the %d pairs of one workload", len(all), whole, pairs, within, same)
	if len(all) < 20 || whole < 0.9 || within < 0.9 {
		t.Errorf("τ %.3f, %.3f within a workload, of %d rows: 0.9 expected", whole, within, len(all))
	}
}

// A ranked row has its measured and its predicted tokens per second of a device.
type ranked struct {
	gpu, load           string
	measured, predicted float64
}

// kendall returns τ over the pairs that count; pairs within 2 %, the noise of a run, do not.
func kendall(rows []ranked, counts func(a, b ranked) bool) (tau float64, pairs int) {
	sum := 0
	for i, a := range rows {
		for _, b := range rows[:i] {
			if !counts(a, b) || math.Abs(math.Log(a.measured/b.measured)) < 0.02 {
				continue
			}
			pairs++
			if (a.measured > b.measured) == (a.predicted > b.predicted) {
				sum++
			} else {
				sum--
			}
		}
	}
	return float64(sum) / float64(pairs), pairs
}

func calibrationOf(t *testing.T, path string) *predict.Calibration {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	c, err := predict.ReadCalibration(strings.NewReader(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func rowsOf(t *testing.T, path string) []calibrate.Row {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	rows, err := calibrate.Read(file)
	if err != nil {
		t.Fatal(err)
	}
	return rows
}
