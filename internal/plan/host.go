package plan

import (
	"io/fs"
	"runtime"
	"strings"
)

// A Host is the machine that this process runs on.
type Host struct {
	CPU     string // as the system calls it; the architecture where it does not
	Threads int    // that run at once, by affinity mask and control group
	Memory  int64  // bytes that are built in; 0 = the system does not tell
}

// ThisHost returns the machine that this process runs on.
func ThisHost() Host {
	host := Host{CPU: runtime.GOARCH, Threads: ThisProcess().Threads}
	name, memory := hardware()
	if name != "" {
		host.CPU = name
	}
	host.Memory = memory
	return host
}

// hardwareIn reads the processor's name and the bytes of memory from the files of a Linux
// system below fsys; "" and 0 = not told. Many ARM boards name only the whole.
func hardwareIn(fsys fs.FS) (cpu string, memory int64) {
	info, _ := fs.ReadFile(fsys, "proc/cpuinfo")
	for line := range strings.Lines(string(info)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			cpu = strings.TrimSpace(value)
			break
		}
	}
	if cpu == "" {
		board, _ := fs.ReadFile(fsys, "proc/device-tree/model")
		cpu = strings.Trim(string(board), "\x00 \n")
	}
	kb, _ := field(fsys, "proc/meminfo", "MemTotal:")
	return cpu, kb << 10
}
