package measure

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"ossian/internal/lab"
	"ossian/internal/lab/ledger"
	"ossian/internal/lab/planfile"
)

// driver puts a tool of the driver first on the path, which says this of each card's power.
func driver(t *testing.T, power string) {
	t.Helper()
	dir := t.TempDir()
	script := "#!/bin/sh\ncase \"$*\" in\n*compute-apps=gpu_uuid*) echo GPU-a ;;\n*power.draw*) printf '" + power + "' ;;\n*name,memory*) echo 'NVIDIA H100 80GB HBM3, 81559' ;;\nesac\n"
	if err := os.WriteFile(filepath.Join(dir, cardsTool), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
}

// The energy of a run on cards is the power of those that compute, over the run alone.
func TestCards(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the tool of the driver is a script of sh here")
	}
	driver(t, `GPU-a, 300.00\nGPU-b, 70.00\n`)
	m := measurer(t)
	m.Power = "nvml"
	machine, err := m.Machine(t.Context())
	if err != nil || machine.Power != "nvidia-smi" || len(machine.Accelerators) != 1 {
		t.Errorf("%v, %+v", err, machine)
	}
	server, _ := starts(t, m, "")
	defer server.Stop()
	load := lab.Load{ID: "race-1", Workload: workload(), Model: "gpt-oss", Seed: 7, Share: 1, Cache: planfile.CacheReset}
	load.Workload.NumPrompts = 200
	trial := measured(t, server, t.Context(), load)
	if trial.State != ledger.StateOK || trial.Joules == nil {
		t.Fatalf("%+v", trial)
	}
	if joules, duration := *trial.Joules, trial.Metrics["duration"]; joules < 300*duration*0.99 || joules > 300*trial.Seconds {
		t.Errorf("%.1f J in %.3f s of %.3f s at 300 W", joules, duration, trial.Seconds)
	}
	// What one card does not tell is not measured, and is not 0.
	driver(t, `GPU-a, [N/A]\nGPU-b, 70.00\n`)
	load.ID = "race-2"
	if trial := measured(t, server, t.Context(), load); trial.Joules != nil {
		t.Errorf("%v J of a card that tells no power", *trial.Joules)
	}
	if words := m.powerWords(t.Context()); words != "not measured: nvidia-smi tells no power of these cards" {
		t.Errorf("%q", words)
	}
}

// Without the tool it is said what is missing.
func TestPowerWords(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	for power, want := range map[string]string{"nvml": "not measured: no nvidia-smi", "off": "not measured: the plan wants none"} {
		m := New(Config{Dir: t.TempDir(), Power: power})
		if words := m.powerWords(t.Context()); words != want {
			t.Errorf("%s: %q", power, words)
		}
		if processors, graphics := m.meters(); processors != nil || graphics != nil {
			t.Errorf("%s measures %v, %v", power, processors, graphics)
		}
	}
	m := New(Config{Dir: t.TempDir(), Power: "auto"})
	if words := m.powerWords(t.Context()); words != "rapl" && !strings.HasSuffix(words, "no nvidia-smi") {
		t.Errorf("%q", words)
	}
}

// Power that changes counts by trapezoids, from the beginning to the end; what was cut by the end of the
// run is no sample.
func TestIntegration(t *testing.T) {
	begun := time.Now().Add(-10 * time.Second)
	c := &cards{begun: begun, cancel: func() {}, ended: make(chan struct{})}
	close(c.ended)
	if _, known := c.end(); known {
		t.Error("energy is known without a sample")
	}
	for _, sample := range []struct{ second, watts float64 }{{1, 100}, {3, 200}, {7, 400}} {
		c.add(begun.Add(time.Duration(sample.second*float64(time.Second))), sample.watts, true)
	}
	if joules, known := c.end(); !known || joules < 100+300+1200+1200-1 || joules > 100+300+1200+1200+400 {
		t.Errorf("%v J, %v; 2800 at 10 s", joules, known)
	}
	for text, want := range map[string]float64{"GPU-a, 10.5\nGPU-b, 20\n": 30.5, "": -1, "GPU-a, [Not Supported]\n": -1, "GPU-a, 1\nGPU-b, nan\n": -1, "no devices\n": -1} {
		if watts, known := readPower(text, nil); known != (want >= 0) || (known && watts != want) {
			t.Errorf("%q: %v, %v", text, watts, known)
		}
	}
}
