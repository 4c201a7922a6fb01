package sweep

import (
	"os/exec"
	"syscall"
)

// ownGroup gives a program a process group, so that Ctrl-C does not reach it and all that
// it starts can be ended. If this process is killed, the program is as well.
func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
