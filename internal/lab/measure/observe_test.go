package measure

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// put writes a file of a made-up system.
func put(t *testing.T, root, name, text string) {
	t.Helper()
	path := filepath.Join(root, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// Energy is that of all packages, over the point where a counter begins again; parts of packages do not
// count twice.
func TestEnergy(t *testing.T) {
	root := t.TempDir()
	if newMeter(root) != nil {
		t.Error("a machine without counters has a meter")
	}
	set := func(domain, value string) {
		put(t, root, "sys/class/powercap/"+domain+"/energy_uj", value+"\n")
		put(t, root, "sys/class/powercap/"+domain+"/max_energy_range_uj", "10000000\n")
	}
	set("intel-rapl:0", "1000000")
	set("intel-rapl:0:0", "900000")
	set("intel-rapl:1", "9000000")
	m := newMeter(root)
	set("intel-rapl:0", "3000000")
	set("intel-rapl:0:0", "2900000")
	set("intel-rapl:1", "500000") // 9 000 000 → 10 000 000 = 0 → 500 000
	if joules, known := m.joules(); !known || joules != 3.5 {
		t.Errorf("%v J, %v", joules, known)
	}
	if err := os.Remove(filepath.Join(root, "sys/class/powercap/intel-rapl:1/energy_uj")); err != nil {
		t.Fatal(err)
	}
	if _, known := m.joules(); known {
		t.Error("energy is known although a counter went away")
	}
}

// Marks: others' load, stolen time, throttling and a clock that changes; none on a quiet machine.
func TestMarks(t *testing.T) {
	ours := os.Getpid()
	stat := func(root string, user, idle, steal, own int) {
		put(t, root, "proc/stat", fmt.Sprintf("cpu  %d 0 0 %d 0 0 0 %d 0 0\ncpu0 1 2 3\n", user, idle, steal))
		put(t, root, fmt.Sprintf("proc/%d/stat", ours), fmt.Sprintf("%d (a) b) S 1 2 3 4 5 6 7 8 9 10 %d 0 0 0 1 1", ours, own/2))
		put(t, root, "proc/999999/stat", fmt.Sprintf("999999 (server) S %d 2 3 4 5 6 7 8 9 10 %d 0 0 0 1 1", ours, own-own/2))
	}
	for _, c := range []struct {
		name                   string
		user, idle, steal, own int
		throttle               string
		last                   float64 // MHz
		want                   string
	}{
		{"quiet", 800, 180, 20, 780, "5", 3000, ""},
		{"others", 800, 200, 0, 500, "5", 3000, "load: others used 30 %"},
		{"stolen", 500, 200, 300, 500, "5", 3000, "steal: 30 %"},
		{"hot", 800, 200, 0, 800, "6", 3000, "throttled"},
		{"slower", 800, 200, 0, 800, "5", 2000, "clock: changed by -33 %"},
	} {
		root := t.TempDir()
		stat(root, 1000, 1000, 1000, 100)
		put(t, root, "sys/devices/system/cpu/cpu0/thermal_throttle/core_throttle_count", "5")
		o := newObserving(root, true) // nobody samples: clocks are put in by hand
		stat(root, 1000+c.user, 1000+c.idle, 1000+c.steal, 100+c.own)
		put(t, root, "sys/devices/system/cpu/cpu0/thermal_throttle/core_throttle_count", c.throttle)
		close(o.ended)
		for i := range 10 {
			clock := 3000.0
			if i > 5 {
				clock = c.last
			}
			o.clocks = append(o.clocks, clock)
		}
		marks := strings.Join(o.end(), "; ")
		if (c.want == "") != (marks == "") || !strings.Contains(marks, c.want) {
			t.Errorf("%s: marks %q, want %q", c.name, marks, c.want)
		}
	}
}

// A clock that is set, or a machine that slept, marks the run.
func TestClockJumps(t *testing.T) {
	o := newObserving(t.TempDir(), false)
	wall, running, jump := time.Unix(1e9, 0), time.Duration(0), time.Duration(0)
	asked := make(chan bool, 100)
	o.now = func() (time.Time, time.Duration) {
		wall, running = wall.Add(time.Second+jump), running+time.Second
		jump = time.Hour // from the second time on
		asked <- true
		return wall, running
	}
	go o.sample(time.Millisecond)
	for range 3 {
		<-asked
	}
	if marks := strings.Join(o.end(), "; "); marks != "gap: the clock jumped by 1h0m0s" {
		t.Errorf("marks %q", marks)
	}
}

func TestAccelerators(t *testing.T) {
	got := readAccelerators("NVIDIA A100-SXM4-80GB, 81920\nNVIDIA A100-SXM4-80GB, 81920\nnonsense\nNVIDIA L40S, 46068\n")
	if len(got) != 2 || got[0].Count != 2 || got[0].MemoryBytes != 81920<<20 || got[1].Name != "NVIDIA L40S" {
		t.Errorf("%+v", got)
	}
}

// FuzzAccelerators: whatever a tool prints, no panic and no absurd memory.
func FuzzAccelerators(f *testing.F) {
	f.Add("NVIDIA A100, 81920\n")
	f.Add(", -1\n,\n")
	f.Fuzz(func(t *testing.T, text string) {
		for _, card := range readAccelerators(text) {
			if card.Count < 1 || card.MemoryBytes < 0 {
				t.Errorf("%+v", card)
			}
		}
	})
}
