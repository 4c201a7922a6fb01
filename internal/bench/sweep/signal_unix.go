//go:build unix

package sweep

import (
	"os"
	"syscall"
)

// terminate asks the group of p to end. It may have ended by itself.
func terminate(p *os.Process) { _ = syscall.Kill(-p.Pid, syscall.SIGTERM) }

// kill ends what is left of the group of p.
func kill(p *os.Process) { _ = syscall.Kill(-p.Pid, syscall.SIGKILL) }

// exitStatus is that of a program that has ended; a negative one is the signal that ended it.
func exitStatus(state *os.ProcessState) int {
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return -int(status.Signal())
	}
	return state.ExitCode()
}
