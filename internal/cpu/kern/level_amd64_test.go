//go:build linux && !purego

package kern

import (
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestLevels asks the operating system, not the code under test, what the machine
// has: a level that is missing is a failure, not a skipped test.
func TestLevels(t *testing.T) {
	info, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		t.Fatal(err)
	}
	flags := strings.Fields(string(info))
	has := func(names ...string) bool {
		for _, n := range names {
			found := false
			for _, f := range flags {
				found = found || f == n
			}
			if !found {
				return false
			}
		}
		return true
	}
	want := Go
	if has("avx2", "fma", "f16c") {
		want = AVX2
	}
	if want == AVX2 && has("avx512f", "avx512bw", "avx512vl", "avx512dq", "avx512vbmi", "avx512_vnni") {
		want = AVX512
	}
	if want == AVX512 && has("amx_tile", "amx_bf16", "amx_int8") {
		want = AMX
		if _, _, refused := unix.Syscall(unix.SYS_ARCH_PRCTL, 0x1023, 18, 0); refused != 0 { // ARCH_REQ_XCOMP_PERM for tiles
			t.Logf("the operating system does not let this process use tiles: %v", refused)
			want = AVX512
		}
	}
	if got := Detect(); got != want {
		t.Errorf("Detect() = %v, the processor's flags promise %v", got, want)
	}
	for l := Go; l <= want; l++ {
		if !l.Available() {
			t.Errorf("%v is not available", l)
		}
	}
}
