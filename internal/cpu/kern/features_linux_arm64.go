//go:build !purego

package kern

import "golang.org/x/sys/unix"

// hasBF16 reads what package cpu of x/sys does not tell: bit 14 of AT_HWCAP2 (Linux,
// arch/arm64/include/uapi/asm/hwcap.h). A kernel that hides its vector has no such products.
func hasBF16() bool {
	const hwcap2, bf16 = 26, 1 << 14
	vector, err := unix.Auxv()
	if err != nil {
		return false
	}
	for _, entry := range vector {
		if entry[0] == hwcap2 {
			return entry[1]&bf16 != 0
		}
	}
	return false
}
