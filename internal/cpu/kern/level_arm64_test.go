//go:build linux && !purego

package kern

import (
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestLevels asks the operating system, not the code under test, what the machine has: a level
// that is missing is a failure, not a skipped test. Where somebody knows it, who runs the tests
// on a processor that is emulated, ARM64_FEATURES is the names of Linux for it.
func TestLevels(t *testing.T) {
	const hwcap, hwcap2 = 16, 26
	bits := map[uintptr]uintptr{}
	vector, err := unix.Auxv()
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range vector {
		bits[entry[0]] = entry[1]
	}
	features := []string{}
	for _, feature := range []struct {
		name string
		kind uintptr
		bit  int
	}{{"asimd", hwcap, 1}, {"asimddp", hwcap, 20}, {"i8mm", hwcap2, 13}, {"bf16", hwcap2, 14}} {
		if bits[feature.kind]>>feature.bit&1 == 1 {
			features = append(features, feature.name)
		}
	}
	if known, told := os.LookupEnv("ARM64_FEATURES"); told && known != strings.Join(features, " ") {
		t.Errorf("the system says %q, expected %q", features, known)
	}
	want := []Level{Go}
	for level, feature := range map[Level]string{NEON: "asimd", DotProd: "asimddp", I8MM: "i8mm"} {
		if slices.Contains(features, feature) {
			want = append(want, level)
		}
	}
	slices.Sort(want)
	if got := Levels(); !slices.Equal(got, want) {
		t.Errorf("levels %v, the processor's features promise %v", got, want)
	}
	if has := slices.Contains(features, "bf16"); nativeBF16 != has || I8MM.pairs() != has {
		t.Errorf("products of BF16: %v, the processor's features promise %v", nativeBF16, has)
	}
}
