package mcp

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestNoProcessOutlivesUs: a process that is a server ends with this program, also when that is
// killed and can close nothing.
func TestNoProcessOutlivesUs(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pid")
	holder := exec.Command(os.Args[0], asServer, "holds", file)
	if err := holder.Start(); err != nil {
		t.Fatal(err)
	}
	pid := pidIn(t, file)
	_ = holder.Process.Kill()
	_ = holder.Wait()
	gone(t, pid)
}

func TestKillAll(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pid")
	start(t, Options{Stdio: true, Address: "stdio:" + os.Args[0] + " " + asServer + " waits " + file})
	pid := pidIn(t, file)
	KillAll()
	gone(t, pid)
}

// pidIn waits for the number that a process writes into a file.
func pidIn(t *testing.T, file string) string {
	t.Helper()
	for range 6000 {
		if text, err := os.ReadFile(file); err == nil {
			return string(text)
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatal("no process was started")
	return ""
}

// gone waits for the end of a process that is perhaps nobody's child any more.
func gone(t *testing.T, pid string) {
	t.Helper()
	for range 6000 {
		stat, err := os.ReadFile("/proc/" + pid + "/stat")
		if _, behind, _ := strings.Cut(string(stat), ") "); err != nil || strings.HasPrefix(behind, "Z") {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Errorf("process %s still runs", pid)
	if number, err := strconv.Atoi(pid); err == nil {
		_ = syscall.Kill(number, syscall.SIGKILL)
	}
}
