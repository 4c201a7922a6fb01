//go:build linux

package sandbox

import "golang.org/x/sys/unix"

// arch is how the kernel names this processor's table of calls. Those of 32 bits end the process.
const arch = unix.AUDIT_ARCH_AARCH64

// This processor has no older forms of calls, and no calls of its own that a program needs.
var (
	legacy         []uintptr
	legacyMetadata []uintptr
	archChecks     []check
)
