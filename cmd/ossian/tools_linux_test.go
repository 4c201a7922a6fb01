package main

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestSecondSignalLeavesNoProcess: what a server of tools has started ends with it, also where a
// second signal lets nothing be closed.
func TestSecondSignalLeavesNoProcess(t *testing.T) {
	dir := t.TempDir()
	script, file := filepath.Join(dir, "server.sh"), filepath.Join(dir, "pid")
	lines := "trap '' TERM\nsleep 300 & echo $! > " + file + ".new\nmv " + file + ".new " + file + "\nwait\n"
	if err := os.WriteFile(script, []byte(lines), 0o600); err != nil {
		t.Fatal(err)
	}
	p := serveProcess(t, "--store", "memory", "--tool-server", "held=stdio:sh "+script)
	var pid string
	p.eventually(time.Minute, "its server runs", func() bool {
		text, err := os.ReadFile(file)
		pid = strings.TrimSpace(string(text))
		return err == nil
	})
	for ended := false; !ended; { // the first may not have been seen yet
		_ = p.Process.Signal(syscall.SIGTERM)
		select {
		case <-p.ended:
			ended = true
		case <-time.After(20 * time.Millisecond):
		}
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		stat, err := os.ReadFile("/proc/" + pid + "/stat")
		if _, behind, _ := strings.Cut(string(stat), ") "); err != nil || strings.HasPrefix(behind, "Z") {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("process %s outlives the server, which ended so: %v\n%s", pid, p.err, &p.log)
		}
	}
}
