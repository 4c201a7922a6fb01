package main

import (
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"ossian/internal/command/commandtest"
)

// TestToolsInPod: in a pod that may do nothing (a user that nobody knows, a root that cannot be
// written to, no capability, no namespaces, which the seccomp profile of runtimes refuses) a server
// with tools serves; where Python cannot be held the log says why, and where there is a writable
// /tmp it is held without namespaces.
func TestToolsInPod(t *testing.T) {
	bwrap, err := exec.LookPath("bwrap")
	if err != nil {
		t.Skip("there is no bwrap; Debian has a package bubblewrap")
	}
	if _, err := exec.LookPath("/usr/bin/python3"); err != nil {
		t.Skip("there is no /usr/bin/python3")
	}
	hardened := []string{"--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev", "--unshare-user", "--unshare-pid", "--disable-userns",
		"--uid", "65532", "--gid", "65532", "--cap-drop", "ALL", "--die-with-parent", "--setenv", "PATH", "/usr/bin:/bin", "--unsetenv", "HOME"}
	if text, err := exec.Command(bwrap, append(hardened, "/usr/bin/python3", "-c", "")...).CombinedOutput(); err != nil {
		t.Skipf("bwrap cannot make such a pod here: %s", text)
	}
	for _, test := range []struct {
		name string
		args []string
		says []string
	}{
		{"read-only", []string{"--chdir", "/"}, []string{`msg="tool is off" tool=python`, "user namespaces", "read-only file system"}},
		{"writable /tmp", []string{"--tmpfs", "/tmp", "--chdir", "/tmp"}, []string{`msg="tool works" tool=python`, "Landlock"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := commandtest.Program(t, "serve", "--port", "0", "--store", "memory", "--log-format", "text", "--tool-server", "demo")
			program, err := os.Executable()
			if err != nil {
				t.Fatal(err)
			}
			args := append([]string{bwrap}, hardened...)
			args = append(args, test.args...)
			c.Path, c.Args = bwrap, append(args, "--ro-bind", program, "/tmp/program", "/tmp/program")
			if test.name == "read-only" {
				c.Args = append(args, program)
			}
			p := startProcess(t, c)
			p.ready()
			p.eventually(time.Minute, "it says what became of Python", func() bool { return strings.Contains(p.log.String(), "tool=python") })
			for _, said := range test.says {
				if !strings.Contains(p.log.String(), said) {
					t.Errorf("the log does not say %q:\n%s", said, &p.log)
				}
			}
			if status := p.status("/ready"); status != http.StatusOK {
				t.Errorf("/ready: %d", status)
			}
		})
	}
}
