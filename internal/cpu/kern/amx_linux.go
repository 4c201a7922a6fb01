//go:build amd64 && !purego

package kern

import (
	"sync"

	"golang.org/x/sys/cpu"
	"golang.org/x/sys/unix"
)

// Of Linux, arch/x86/include/uapi/asm/prctl.h and the state component of Intel's manual.
const (
	requestPermission = 0x1023 // ARCH_REQ_XCOMP_PERM
	tileData          = 18
)

// hasTiles reports whether the machine has tiles and the operating system lets this process
// use them, which it is asked for once: a kernel before 5.16, or a sandbox, refuses.
var hasTiles = sync.OnceValue(func() bool {
	features := &cpu.X86
	if !features.HasAMXTile || !features.HasAMXBF16 || !features.HasAMXInt8 {
		return false
	}
	_, _, refused := unix.Syscall(unix.SYS_ARCH_PRCTL, requestPermission, tileData, 0)
	return refused == 0
})
