package python

import (
	"os/exec"
	"runtime"
	"syscall"
)

// runTogether runs a command to its end. It ends with all that it started, and with the server: the
// kernel ends it with the thread that started it, which is kept until then.
func runTogether(command *exec.Cmd) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	command.Cancel = func() error { return syscall.Kill(-command.Process.Pid, syscall.SIGKILL) }
	return command.Run()
}
