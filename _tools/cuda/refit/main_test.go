package main

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ossian/internal/cuda/cost"
	"ossian/internal/lab/predict/machine"
)

// TestRun: a file of times made from constants becomes the file of these constants.
func TestRun(t *testing.T) {
	known, err := machine.Lookup("H200")
	if err != nil {
		t.Fatal(err)
	}
	card, err := cost.CardOf(known)
	if err != nil {
		t.Fatal(err)
	}
	truth := cost.Assumed()
	truth.Memory, truth.Issue, truth.Trip = 0.75, 0.5, 1e-6
	var records []cost.Record
	add := func(kernel, shape string, tokens int) {
		r := cost.Record{Card: "H200", Kernel: kernel, Shape: shape, Tokens: tokens}
		r.Works = make([]cost.Work, 1)
		if r.Works[0], err = cost.ParseWork(kernel, shape, tokens); err != nil {
			t.Fatal(err)
		}
		seconds, _ := r.Seconds(&card, &truth)
		r.Micros = 1e6 * seconds
		records = append(records, r)
	}
	for _, shape := range []string{"rows=512 cols=2880", "rows=24576 cols=4096", "rows=201088 cols=2880"} {
		for _, tokens := range []int{1, 2, 4} {
			add("linear_bf16_8", shape, tokens)
			add("linear_mxfp4_8", shape, tokens)
		}
		add("linear_bf16_128", shape, 2048)
	}
	for _, tokens := range []int{1, 16, 64} {
		add("add_norm", "width=2880", tokens)
	}
	folder := t.TempDir()
	path := filepath.Join(folder, "kernels.csv")
	var text, report bytes.Buffer
	if err := cost.WriteRecords(&text, &card, &truth, records); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, text.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := run(path, folder, "", true, &report); err != nil {
		t.Fatal(err)
	}
	written, err := os.ReadFile(filepath.Join(folder, "h200.json"))
	if err != nil {
		t.Fatal(err)
	}
	var fitted cost.Fitted
	if err := json.Unmarshal(written, &fitted); err != nil {
		t.Fatal(err)
	}
	if got := fitted.Constants; math.Abs(got.Memory/0.75-1) > 0.03 || math.Abs(got.Trip/1e-6-1) > 0.1 || math.Abs(got.Issue/0.5-1) > 0.03 || fitted.Card != "H200" || fitted.Kernels != len(records) {
		t.Errorf("%+v", fitted)
	}
	if !strings.Contains(report.String(), "H200: 24 kernels") || !strings.Contains(report.String(), "linear_mxfp4_8") {
		t.Errorf("%s", report.String())
	}
}

// TestRunCards: files as cards wrote them are fitted as they are; where nothing says which card it was, one has
// to be named.
func TestRunCards(t *testing.T) {
	const folder = "../../../docs/measurements/"
	for _, c := range []struct {
		path, card, want string
		warpgroups       bool
	}{
		{"nvidia-h200/kernels.csv", "", "H200: 157 kernels", true},
		{"nvidia-h100/first/kernels.csv", "", "H100-SXM: 88 kernels", false},
		{"nvidia-h100/tiles/kernels.csv", "NVIDIA H100 80GB HBM3", "H100-SXM: 343 kernels", true},
	} {
		var report bytes.Buffer
		if err := run(folder+c.path, t.TempDir(), c.card, c.warpgroups, &report); err != nil || !strings.Contains(report.String(), c.want) {
			t.Errorf("%s: %v\n%s", c.path, err, report.String())
		}
	}
	if err := run(folder+"nvidia-h100/tiles/kernels.csv", t.TempDir(), "", true, &bytes.Buffer{}); err == nil || !strings.Contains(err.Error(), "-card NAME") {
		t.Errorf("no card: %v", err)
	}
	if err := run(folder+"nvidia-h200/kernels.csv", t.TempDir(), "Z80", true, &bytes.Buffer{}); err == nil || !strings.Contains(err.Error(), "Z80") {
		t.Errorf("an unknown card: %v", err)
	}
}
