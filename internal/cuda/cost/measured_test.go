package cost

import (
	"math"
	"os"
	"testing"
)

// measuredFile reads a committed file of times of an H200 or H100.
func measuredFile(t *testing.T, path, card string, by Products) []Record {
	t.Helper()
	file, err := os.Open("../../../docs/measurements/" + path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	records, err := ReadRecords(file, card, by)
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return records
}

// TestMeasuredFiles: files that cards have made are read whole, and mean what they say.
func TestMeasuredFiles(t *testing.T) {
	wide := Products{Warpgroups: true}
	for _, c := range []struct {
		path string
		by   Products
		rows int // of tiles, without 62 that say again what was chosen then
	}{{"nvidia-h200/kernels.csv", wide, 157}, {"nvidia-h100/first/kernels.csv", Products{}, 88}, {"nvidia-h100/tiles/kernels.csv", wide, 343}} {
		records := measuredFile(t, c.path, "H100-SXM", c.by)
		if len(records) != c.rows {
			t.Errorf("%s: %d rows, want %d", c.path, len(records), c.rows)
		}
	}
	found := map[string]string{}
	for _, r := range measuredFile(t, "nvidia-h100/tiles/kernels.csv", "H100-SXM", wide) {
		for _, w := range r.Works {
			found[r.Kernel+" "+r.Shape+" "+itoa(r.Tokens)] += " " + w.Kernel
		}
	}
	for row, want := range map[string]string{
		"linear gpt-oss o /64 512":          " wgmma_linear_bf16_64",
		"linear gpt-oss o /-1 512":          " linear_bf16_128",
		"linear gpt-oss o 8192":             " wgmma_linear_bf16_128",
		"linear qwen3-8b gate-up q8 /64 32": " linear_q8_32",
		"experts experts /32 256":           " experts_plan experts_gather wgmma_up_mxfp4_32 wgmma_down_mxfp4_32 experts_combine",
		"experts experts /-1 256":           " experts_plan up_mxfp4_32 down_mxfp4_32 experts_combine",
		"attend 64x8x64 1":                  " attend_64_bf16 attend_merge attend_64_bf16 attend_merge attend_64_bf16 attend_merge",
		"experts experts /0 256":            "", // one of the others
	} {
		if found[row] != want {
			t.Errorf("%s:%s, want%s", row, found[row], want)
		}
	}
	rows := map[int]int{}
	for _, r := range measuredFile(t, "nvidia-h200/kernels.csv", "H200", wide) {
		if r.Kernel == "attend" && r.Tokens == 2048 { // 1 × 2048, 4 × 512, 1 × 2048 behind others
			rows[int(r.Works[0].FLOPs/1e9)]++
		}
	}
	if rows[34] != 1 || rows[128] != 1 || rows[1039] != 1 { // the operations that the file states
		t.Errorf("prompts of %v GFLOP", rows)
	}
}

// TestShippedConstants: the constants in the program are what Refit makes of the committed files, and they meet
// times of a card that they were not fitted to.
func TestShippedConstants(t *testing.T) {
	for _, c := range []struct{ card, path, other string }{
		{"H200", "nvidia-h200/kernels.csv", "H100-SXM"}, {"H100-SXM", "nvidia-h100/tiles/kernels.csv", "H200"},
	} {
		card, wide := theCard(t, c.card), Products{Warpgroups: true}
		records := measuredFile(t, c.path, c.card, wide)
		fitted, err := Refit(&card, Assumed(), records)
		if err != nil {
			t.Fatal(err)
		}
		shipped, _ := ConstantsOf(c.card)
		near := fitted.Kernels == shipped.Kernels && math.Abs(fitted.Error/shipped.Error-1) < 1e-6
		for i, share := range fitted.Constants.shares() {
			near = near && math.Abs(share/shipped.Constants.shares()[i]-1) < 1e-6
		}
		if !near {
			t.Errorf("%s: fitted %+v, shipped %+v: go run ./_tools/cuda/refit writes them", c.card, fitted, shipped)
		}
		other, _ := ConstantsOf(c.other)
		left := misses(&card, &other.Constants, records)
		t.Logf("%s: error %.3f, with the constants of %s %.3f", c.card, shipped.Error, c.other, left)
		if left > 0.25 {
			t.Errorf("%s: with the constants of %s the error is %.3f", c.card, c.other, left)
		}
	}
}

// misses is the root mean square of the logarithms of predicted over measured.
func misses(card *Card, constants *Constants, records []Record) float64 {
	sum := 0.0
	for i := range records {
		seconds, _ := records[i].Seconds(card, constants)
		sum += math.Pow(math.Log(seconds*1e6/records[i].Micros), 2)
	}
	return math.Sqrt(sum / float64(len(records)))
}
