package measure

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"ossian/internal/lab/ledger"
	"ossian/internal/plan"
	"ossian/internal/terminal"
)

// sysRoot is where files of the system lie; tests have another.
const sysRoot = "/"

// describe says what machine this is, as far as the system tells.
func describe(ctx context.Context) ledger.Machine {
	host := plan.ThisHost()
	machine := ledger.Machine{CPU: host.CPU, Processors: host.Threads, MemoryBytes: host.Memory, OS: runtime.GOOS + "/" + runtime.GOARCH,
		Accelerators: accelerators(ctx), Governor: word(sysRoot, "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")}
	machine.Load, _ = strconv.ParseFloat(firstField(word(sysRoot, "proc/loadavg")), 64) // 0 where the system does not tell
	sum := sha256.Sum256(fmt.Append(nil, machine.CPU, machine.Processors, machine.MemoryBytes>>20, machine.OS, machine.Accelerators))
	machine.ID = hex.EncodeToString(sum[:6])
	return machine
}

// accelerators asks the driver's own tool, where there is one.
func accelerators(ctx context.Context) []ledger.Accelerator {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	text, err := exec.CommandContext(ctx, "nvidia-smi", "--query-gpu=name,memory.total", "--format=csv,noheader,nounits").Output()
	if err != nil {
		return nil
	}
	return readAccelerators(string(text))
}

// readAccelerators reads lines of a name and mebibytes.
func readAccelerators(text string) []ledger.Accelerator {
	var out []ledger.Accelerator
	for line := range strings.Lines(text) {
		name, memory, ok := strings.Cut(strings.TrimSpace(line), ",")
		mebibytes, err := strconv.ParseInt(strings.TrimSpace(memory), 10, 64)
		if !ok || err != nil || mebibytes < 0 || mebibytes > 1<<30 {
			continue
		}
		if last := len(out) - 1; last >= 0 && out[last].Name == name && out[last].MemoryBytes == mebibytes<<20 {
			out[last].Count++
			continue
		}
		out = append(out, ledger.Accelerator{Name: name, Count: 1, MemoryBytes: mebibytes << 20})
	}
	return out
}

// word is a small file's content without white space around it; empty: it cannot be read.
func word(root, name string) string {
	text, err := os.ReadFile(filepath.Join(root, name))
	if err != nil || len(text) > 1<<20 {
		return ""
	}
	return strings.TrimSpace(string(text))
}

func firstField(text string) string {
	first, _, _ := strings.Cut(text, " ")
	return first
}

// checkCards returns an error if a process that is not ours computes on the cards: its work would be
// measured with the server's.
func checkCards(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	text, err := exec.CommandContext(ctx, "nvidia-smi", "--query-compute-apps=pid,process_name,used_memory", "--format=csv,noheader").Output()
	if err != nil {
		return nil // no such tool, no such cards
	}
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line != "" {
			return fmt.Errorf("another process computes on the cards: %s (pid, program, memory); end it, then run the same command again", strings.Map(terminal.Printable, line))
		}
	}
	return nil
}
