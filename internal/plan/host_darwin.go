package plan

import "golang.org/x/sys/unix"

func hardware() (cpu string, memory int64) {
	cpu, _ = unix.Sysctl("machdep.cpu.brand_string")
	bytes, _ := unix.SysctlUint64("hw.memsize")
	return cpu, int64(bytes)
}
