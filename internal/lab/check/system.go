package check

// What files of this machine say of it, where the server runs on this machine. Nothing is set here:
// what could be is a command for somebody with the rights.

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
)

// A Fact is one thing that the system says.
type Fact struct {
	Name   string `json:"name"`
	Value  string `json:"value"`
	Origin string `json:"origin"`          // file PATH, nvidia-smi
	State  State  `json:"state,omitempty"` // "" = it is neither on nor off: something to know
	Note   string `json:"note,omitempty"`
	Fix    string `json:"fix,omitempty"` // a command
}

// system reads what there is to be read of the machine that the server runs on.
func (s *seen) system(options *Options) []Fact {
	if !s.local && options.PID == 0 && options.Root == "" {
		return []Fact{{Name: "machine", Value: "not readable: the server is on another one", Origin: "address " + s.url}}
	}
	root := options.Root
	if root == "" {
		root = "/"
	}
	files := systemFiles{os.DirFS(root)}
	out := []Fact{files.governor(), files.clocks(), files.smt(), files.numa(), files.hugePages(), files.ecc(), files.powerCap()}
	out = append(out, files.load()...)
	if options.PID != 0 {
		out = append(out, files.process(options.PID)...)
	}
	return append(out, s.graphics(options)...)
}

// systemFiles are those of a Linux system; others have none, and say so.
type systemFiles struct{ fs.FS }

// text is a file without the space around; false = there is none.
func (f systemFiles) text(name string) (string, bool) {
	data, err := fs.ReadFile(f, name)
	if err != nil {
		return "", false
	}
	return clip(strings.TrimSpace(string(data))), true
}

// all is the contents of files of a pattern, each value once, sorted.
func (f systemFiles) all(pattern string) (values []string) {
	names, _ := fs.Glob(f, pattern)
	for _, name := range names {
		if value, ok := f.text(name); ok && !slices.Contains(values, value) {
			values = append(values, value)
		}
	}
	slices.Sort(values)
	return values
}

// missing is a fact of a file that is not there.
func missing(name, file string) Fact {
	return Fact{Name: name, Value: "not readable", Origin: "file /" + file, State: Unknown}
}

func (f systemFiles) governor() Fact {
	const file = "sys/devices/system/cpu/cpu*/cpufreq/scaling_governor"
	found := f.all(file)
	if len(found) == 0 {
		return missing("CPU governor performance", file)
	}
	fact := Fact{Name: "CPU governor performance", Value: strings.Join(found, " "), Origin: "file /" + file, State: On}
	if len(found) > 1 || found[0] != "performance" {
		fact.State, fact.Fix = Off, "cpupower frequency-set -g performance"
	}
	return fact
}

// clocks compares the highest clock that is allowed with the highest that there is.
func (f systemFiles) clocks() Fact {
	const file = "sys/devices/system/cpu/cpu*/cpufreq/scaling_max_freq"
	allowed, most := f.all(file), f.all("sys/devices/system/cpu/cpu*/cpufreq/cpuinfo_max_freq")
	if len(allowed) == 0 || len(most) == 0 {
		return missing("CPU clocks unbounded", file)
	}
	fact := Fact{Name: "CPU clocks unbounded", Value: fmt.Sprintf("%s kHz allowed of %s kHz", strings.Join(allowed, " "), strings.Join(most, " ")), Origin: "file /" + file, State: On}
	if !slices.Equal(allowed, most) {
		fact.State, fact.Fix = Off, "cpupower frequency-set -u "+most[len(most)-1]+"kHz"
	}
	return fact
}

func (f systemFiles) smt() Fact {
	const file = "sys/devices/system/cpu/smt/active"
	active, ok := f.text(file)
	if !ok {
		fact := missing("SMT", file)
		fact.State = ""
		return fact
	}
	value := map[string]string{"1": "active: two hardware threads or more to a core", "0": "not active"}[active]
	return Fact{Name: "SMT", Value: value, Origin: "file /" + file}
}

func (f systemFiles) numa() Fact {
	const file = "sys/devices/system/node/online"
	nodes, ok := f.text(file)
	if !ok {
		return missing("memory near its processors (NUMA)", file)
	}
	fact := Fact{Name: "memory near its processors (NUMA)", Value: "numbers of its nodes: " + nodes, Origin: "file /" + file, State: Unknown}
	if nodes == "0" {
		fact.Value, fact.State, fact.Note = "one node", Impossible, "there is one node"
	}
	return fact
}

func (f systemFiles) hugePages() Fact {
	const file = "sys/kernel/mm/transparent_hugepage/enabled"
	setting, ok := f.text(file)
	if !ok {
		return missing("huge pages", file)
	}
	fact := Fact{Name: "huge pages", Value: setting, Origin: "file /" + file}
	switch {
	case strings.Contains(setting, "[always]"):
		fact.State = On
	case strings.Contains(setting, "[never]"):
		fact.State, fact.Fix = Off, "sh -c 'echo madvise > /"+file+"'"
	default: // for who asks: whether the server does is not told
		fact.State = Unknown
	}
	return fact
}

func (f systemFiles) ecc() Fact {
	const dir = "sys/devices/system/edac/mc"
	controllers, _ := fs.Glob(f, dir+"/mc*")
	fact := Fact{Name: "memory ECC", Value: "no controller reports errors", Origin: "file /" + dir}
	if len(controllers) > 0 {
		errors := f.all(dir + "/mc*/ue_count")
		fact.Value = fmt.Sprintf("%d controllers, errors not corrected: %s", len(controllers), strings.Join(errors, " "))
	}
	return fact
}

// powerCap compares the power limit of a package with the highest that it may have.
func (f systemFiles) powerCap() Fact {
	const dir = "sys/class/powercap/intel-rapl:0"
	limit, ok := f.microwatts(dir + "/constraint_0_power_limit_uw")
	if !ok {
		return missing("CPU power cap at its maximum", dir+"/constraint_0_power_limit_uw")
	}
	fact := Fact{Name: "CPU power cap at its maximum", Value: formatNumber(limit) + " W", Origin: "file /" + dir + "/constraint_0_power_limit_uw", State: Unknown}
	if most, ok := f.microwatts(dir + "/constraint_0_max_power_uw"); ok && most > 0 {
		fact.Value += " of " + formatNumber(most) + " W"
		fact.State = On
		if limit < most {
			fact.State = Off
		}
	}
	return fact
}

func (f systemFiles) microwatts(name string) (watts float64, ok bool) {
	text, found := f.text(name)
	value, err := strconv.ParseFloat(text, 64)
	return digits(value/1e6, 4), found && err == nil
}

// load says what else the machine does, and what was taken from it.
func (f systemFiles) load() (out []Fact) {
	if text, ok := f.text("proc/loadavg"); ok {
		if fields := strings.Fields(text); len(fields) > 2 {
			out = append(out, Fact{Name: "load", Value: strings.Join(fields[:3], " ") + " in 1, 5 and 15 minutes", Origin: "file /proc/loadavg"})
		}
	}
	if text, ok := f.text("proc/stat"); ok {
		fields := strings.Fields(text)
		if len(fields) > 8 && fields[0] == "cpu" {
			var all, steal float64
			for i, field := range fields[1:9] {
				value, _ := strconv.ParseFloat(field, 64)
				all += value
				if i == 7 {
					steal = value
				}
			}
			if all > 0 {
				out = append(out, Fact{Name: "time taken by other guests", Value: formatNumber(digits(100*steal/all, 2)) + " % since the start of the machine", Origin: "file /proc/stat"})
			}
		}
	}
	for _, name := range []string{"package_throttle_count", "core_throttle_count"} {
		pattern := "sys/devices/system/cpu/cpu*/thermal_throttle/" + name
		if counts := f.all(pattern); len(counts) > 0 {
			out = append(out, Fact{Name: "thermal throttling", Value: strings.Join(counts, " ") + " times", Origin: "file /" + pattern})
			break
		}
	}
	return out
}

// process says what a process may use, and what of it is not in memory.
func (f systemFiles) process(pid int) (out []Fact) {
	file := path.Join("proc", strconv.Itoa(pid), "status")
	data, err := fs.ReadFile(f, file)
	if err != nil {
		return nil
	}
	for line := range strings.Lines(string(data)) {
		name, value, _ := strings.Cut(line, ":")
		value = clip(strings.TrimSpace(value))
		switch name {
		case "Cpus_allowed_list":
			out = append(out, Fact{Name: "processors of the server", Value: value, Origin: "file /" + file})
		case "VmSwap":
			fact := Fact{Name: "server in memory", Value: value + " swapped out", Origin: "file /" + file, State: On}
			if !strings.HasPrefix(value, "0 ") {
				fact.State, fact.Note = Off, "what is swapped out is read back at each step that needs it"
			}
			out = append(out, fact)
		}
	}
	return out
}
