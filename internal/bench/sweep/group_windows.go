package sweep

import (
	"os"
	"os/exec"
	"syscall"
)

// ownGroup keeps Ctrl-C from a program.
func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP}
}

// terminate ends p, which cannot be asked to.
func terminate(p *os.Process) { _ = p.Kill() }

// kill ends p; what it started goes on.
func kill(p *os.Process) { _ = p.Kill() }

// exitStatus is that of a program that has ended.
func exitStatus(state *os.ProcessState) int { return state.ExitCode() }
