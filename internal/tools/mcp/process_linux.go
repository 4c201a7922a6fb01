package mcp

import "syscall"

// endWithUs has the kernel end a process with the thread that starts it.
func endWithUs(attributes *syscall.SysProcAttr) { attributes.Pdeathsig = syscall.SIGKILL }
