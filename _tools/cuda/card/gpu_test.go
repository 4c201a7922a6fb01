package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The script for a machine with a GPU works from its first phase to its last: packed, and run with
// the emulator in place of a card. Nothing that it measures here means anything.
func TestGPUScript(t *testing.T) {
	if testing.Short() {
		t.Skip("builds three programs and runs them; run without -short")
	}
	for _, tool := range []string{"bash", "tar", "timeout", "git"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("the script needs %s: %v", tool, err)
		}
	}
	folder, out := filepath.Join(t.TempDir(), "pack"), filepath.Join(t.TempDir(), "out")
	if text, err := exec.Command("../gpu.sh", "pack", folder).CombinedOutput(); err != nil {
		t.Fatalf("pack: %v\n%s", err, text)
	}
	run := exec.Command(filepath.Join(folder, "gpu.sh"), "run", out)
	run.Env = append(run.Environ(), "DEVICE=emu", "SIZE=small", "WORK="+t.TempDir())
	table, err := run.CombinedOutput()
	if err != nil {
		t.Errorf("run: %v", err)
	}
	t.Logf("%s", table)
	results := map[string]string{} // by phase
	for line := range strings.Lines(string(table)) {
		if words := strings.Fields(line); len(words) >= 3 {
			results[words[0]] = words[2]
		}
	}
	for _, phase := range []string{"before", "cards", "texts", "tests-1", "tests-2", "golden", "bits", "kernels", "synth-gpt-oss-tiny", "latency-gpt-oss-tiny-1-4-2", "throughput-gpt-oss-tiny-2-4-2", "after"} {
		if results[phase] == "ok" {
			continue
		}
		log, _ := os.ReadFile(filepath.Join(out, phase+".log"))
		t.Errorf("phase %s: %q\n%s", phase, results[phase], log)
	}
	text, err := os.ReadFile(filepath.Join(out, "card.json"))
	if err != nil {
		t.Fatal(err)
	}
	var about report
	if err := json.Unmarshal(text, &about); err != nil || about.Name == "" || about.Major < 8 || len(about.Copies) != 6 || about.Rates["mma_bf16"].TFLOPPer == 0 {
		t.Errorf("card.json: %v, %+v", err, about)
	}
	rows, err := os.ReadFile(filepath.Join(out, "modules-warm.csv"))
	if err != nil || strings.Count(string(rows), "\n") < 10 {
		t.Errorf("modules-warm.csv: %v\n%s", err, rows)
	}
}
