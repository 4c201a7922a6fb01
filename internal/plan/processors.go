package plan

import (
	"io/fs"
	"math"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
)

// Processors are what threads of this process compute on.
type Processors struct {
	Threads int     // that may run at once: the affinity mask's hardware threads, no more than Quota rounded up
	Cores   int     // whose hardware threads those of the mask are; 0 = not told
	Quota   float64 // processors' worth of time that the control groups grant; 0 = no bound
}

// ThisProcess returns the processors of this process. GOMAXPROCS in the environment bounds
// them too; it is to be called before the program sets it.
func ThisProcess() Processors {
	threads := runtime.NumCPU()
	if os.Getenv("GOMAXPROCS") != "" { // else it is the quota, but never below 2
		threads = min(threads, runtime.GOMAXPROCS(0))
	}
	return processorsIn(os.DirFS("/"), threads)
}

// processorsIn returns what the files of a Linux system below fsys tell of a process that
// may run on n hardware threads; systems without them tell nothing.
func processorsIn(fsys fs.FS, n int) Processors {
	processors := Processors{Threads: n, Quota: quota(fsys)}
	if processors.Quota > 0 && processors.Quota < float64(n) {
		processors.Threads = int(math.Ceil(processors.Quota))
	}
	cores := map[string]bool{}
	for _, cpu := range allowed(fsys) {
		dir := "sys/devices/system/cpu/cpu" + strconv.Itoa(cpu) + "/topology/"
		siblings, err := fs.ReadFile(fsys, dir+"core_cpus_list")
		if err != nil {
			siblings, err = fs.ReadFile(fsys, dir+"thread_siblings_list") // the older name
		}
		if err != nil {
			return processors
		}
		cores[strings.TrimSpace(string(siblings))] = true
	}
	processors.Cores = len(cores)
	return processors
}

// Counts returns the numbers of threads that may be the fastest, the one to prefer first:
// all, one for each core, since hardware threads of a core share what computes, and one
// for every other core, which can be enough to read memory at full speed.
func (p Processors) Counts() []int {
	counts := []int{p.Threads}
	if p.Cores > 0 {
		counts = append(counts, min(p.Cores, p.Threads))
	}
	counts = append(counts, max(counts[len(counts)-1]/2, 1))
	return slices.Compact(counts)
}

// maxCPUs is more than any system has.
const maxCPUs = 1 << 16

// allowed returns the numbers of the hardware threads that the process may run on.
func allowed(fsys fs.FS) (cpus []int) {
	status, _ := fs.ReadFile(fsys, "proc/self/status")
	for line := range strings.Lines(string(status)) {
		list, ok := strings.CutPrefix(line, "Cpus_allowed_list:")
		if !ok {
			continue
		}
		for part := range strings.SplitSeq(strings.TrimSpace(list), ",") {
			from, to, more := strings.Cut(part, "-")
			if !more {
				to = from
			}
			// What does not read as a list of ranges says nothing, rather than a part.
			first, err := strconv.Atoi(from)
			last, err2 := strconv.Atoi(to)
			if err != nil || err2 != nil || first < 0 || last < first || last >= maxCPUs {
				return nil
			}
			for ; first <= last; first++ {
				cpus = append(cpus, first)
			}
		}
	}
	return cpus
}

// quota returns the least that a control group above the process grants of its processors'
// time, 0 = no bound.
func quota(fsys fs.FS) float64 {
	least := math.Inf(1)
	grant := func(share, period string) {
		granted, err := strconv.ParseFloat(share, 64) // "max" and -1 are no bound
		within, err2 := strconv.ParseFloat(period, 64)
		if err == nil && err2 == nil && granted > 0 && within > 0 {
			least = min(least, granted/within)
		}
	}
	for dir := range groupsAbove(fsys, "0::/", "sys/fs/cgroup") {
		text, _ := fs.ReadFile(fsys, dir+"/cpu.max")
		if fields := strings.Fields(string(text)); len(fields) == 2 {
			grant(fields[0], fields[1])
		}
	}
	for _, mark := range []string{":cpu:/", ":cpu,cpuacct:/", ":cpuacct,cpu:/"} {
		for dir := range groupsAbove(fsys, mark, "sys/fs/cgroup/cpu") {
			share, _ := fs.ReadFile(fsys, dir+"/cpu.cfs_quota_us")
			period, _ := fs.ReadFile(fsys, dir+"/cpu.cfs_period_us")
			grant(strings.TrimSpace(string(share)), strings.TrimSpace(string(period)))
		}
	}
	if math.IsInf(least, 1) {
		return 0
	}
	return least
}
