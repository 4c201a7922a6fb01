package measure

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// changed is the share by which a machine may change during a run without a mark (lab.md 4.4).
const changed = 0.10

// observing looks at the machine during a run, and says at its end what happened to it.
type observing struct {
	root   string
	load   bool // whether others' use of the processors can be told from the server's
	before usage
	quit   chan struct{}
	ended  chan struct{}
	clocks []float64     // MHz, means over processors, by sample
	gap    time.Duration // the longest by which the wall clock ran away from the monotonic one
	slowed float64       // how often processors had been throttled before
	now    func() (wall time.Time, running time.Duration)
}

// usage is what processors have done, in ticks.
type usage struct {
	total, idle, steal, ours float64
	known                    bool
}

// startObserving begins. load says whether the server is a descendant of this process.
func startObserving(load bool) *observing {
	o := newObserving(sysRoot, load)
	go o.sample(time.Second)
	return o
}

func newObserving(root string, load bool) *observing {
	begun := time.Now()
	o := &observing{root: root, load: load, before: readUsage(root), slowed: throttled(root), now: func() (time.Time, time.Duration) { return time.Now().Round(0), time.Since(begun) }, quit: make(chan struct{}), ended: make(chan struct{})}
	return o
}

// sample reads clocks until the run is over.
func (o *observing) sample(every time.Duration) {
	defer close(o.ended)
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	wall, running := o.now()
	for {
		select {
		case <-o.quit:
			return
		case <-ticker.C:
			// A suspended machine stops the monotonic clock alone; a set clock moves the wall's alone.
			nextWall, nextRunning := o.now()
			apart := nextWall.Sub(wall) - (nextRunning - running)
			o.gap = max(o.gap, apart, -apart)
			wall, running = nextWall, nextRunning
			if clock := meanClock(o.root); clock > 0 {
				o.clocks = append(o.clocks, clock)
			}
		}
	}
}

// end stops observing and returns the marks.
func (o *observing) end() []string {
	close(o.quit)
	<-o.ended
	var marks []string
	after := readUsage(o.root)
	if total := after.total - o.before.total; o.before.known && after.known && total > 0 {
		busy := (total - (after.idle - o.before.idle)) / total
		ours, steal := (after.ours-o.before.ours)/total, (after.steal-o.before.steal)/total
		if others := busy - ours - steal; o.load && others > changed {
			marks = append(marks, fmt.Sprintf("load: others used %.0f %% of the processors", 100*others))
		}
		if steal > changed {
			marks = append(marks, fmt.Sprintf("steal: %.0f %% of the time went to other machines", 100*steal))
		}
	}
	if change := clockChange(o.clocks); math.Abs(change) > changed {
		marks = append(marks, fmt.Sprintf("clock: changed by %+.0f %%", 100*change))
	}
	if throttled(o.root) > o.slowed {
		marks = append(marks, "throttled")
	}
	if o.gap > time.Second {
		marks = append(marks, fmt.Sprintf("gap: the clock jumped by %v", o.gap.Round(time.Second)))
	}
	return marks
}

// clockChange compares the last third of samples with the first one under load. The very first sample
// may be of a processor that was still asleep.
func clockChange(clocks []float64) float64 {
	if len(clocks) < 7 {
		return 0
	}
	clocks = clocks[1:]
	third := len(clocks) / 3
	first, last := 0.0, 0.0
	for i := range third {
		first += clocks[i]
		last += clocks[len(clocks)-1-i]
	}
	return last/first - 1
}

// meanClock is the processors' present clock, MHz; 0: the system does not tell.
func meanClock(root string) float64 {
	paths, _ := filepath.Glob(filepath.Join(root, "sys/devices/system/cpu/cpu[0-9]*/cpufreq/scaling_cur_freq")) // the pattern is well formed
	sum, count := 0.0, 0.0
	for _, path := range paths {
		if kilohertz, err := strconv.ParseFloat(word("", path), 64); err == nil {
			sum, count = sum+kilohertz/1000, count+1
		}
	}
	if count == 0 {
		return 0
	}
	return sum / count
}

// throttled counts how often processors slowed down for their temperature.
func throttled(root string) float64 {
	paths, _ := filepath.Glob(filepath.Join(root, "sys/devices/system/cpu/cpu[0-9]*/thermal_throttle/*_throttle_count")) // the pattern is well formed
	sum := 0.0
	for _, path := range paths {
		count, _ := strconv.ParseFloat(word("", path), 64) // 0 where it cannot be read
		sum += count
	}
	return sum
}

// readUsage reads what all processors have done, and what this process and its descendants have.
func readUsage(root string) usage {
	first, _, _ := strings.Cut(word(root, "proc/stat"), "\n")
	fields := strings.Fields(first) // cpu user nice system idle iowait irq softirq steal guest guest_nice
	if len(fields) < 9 || fields[0] != "cpu" {
		return usage{}
	}
	var out usage
	for i, field := range fields[1:9] { // guests are part of user and nice already
		ticks, err := strconv.ParseFloat(field, 64)
		if err != nil {
			return usage{}
		}
		out.total += ticks
		switch i {
		case 3, 4:
			out.idle += ticks
		case 7:
			out.steal = ticks
		}
	}
	out.ours, out.known = familyTicks(root, os.Getpid()), true
	return out
}

// familyTicks is what a process, its descendants and those of them that have ended used of the
// processors.
func familyTicks(root string, pid int) float64 {
	paths, _ := filepath.Glob(filepath.Join(root, "proc/[0-9]*/stat")) // the pattern is well formed
	parent, ticks := map[int]int{}, map[int]float64{}
	for _, path := range paths {
		text := word("", path)
		// The name may hold anything, brackets too: fields are counted from the last one.
		_, rest, ok := cutLast(text, ")")
		fields := strings.Fields(rest) // state ppid pgrp … utime(11) stime cutime cstime
		id, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if !ok || err != nil || len(fields) < 15 {
			continue
		}
		parent[id], _ = strconv.Atoi(fields[1]) // a number, as the kernel writes it
		for _, field := range fields[11:15] {
			used, _ := strconv.ParseFloat(field, 64)
			ticks[id] += used
		}
	}
	sum := 0.0
	for id := range ticks {
		for up, steps := id, 0; up > 0 && steps < 64; up, steps = parent[up], steps+1 {
			if up == pid {
				sum += ticks[id]
				break
			}
		}
	}
	return sum
}

func cutLast(text, mark string) (before, after string, found bool) {
	at := strings.LastIndex(text, mark)
	if at < 0 {
		return text, "", false
	}
	return text[:at], text[at+len(mark):], true
}
