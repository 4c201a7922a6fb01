//go:build !purego

package kern

import "golang.org/x/sys/unix"

// hasBF16 asks for what package cpu of x/sys does not tell.
func hasBF16() bool {
	has, err := unix.SysctlUint32("hw.optional.arm.FEAT_BF16")
	return err == nil && has == 1
}
