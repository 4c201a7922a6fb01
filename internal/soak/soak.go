// Package soak says how many cases a counted test runs: a few with every change,
// the number that docs/evidence/reliability.md promises when OSSIAN_SOAK asks for it.
package soak

import (
	"flag"
	"os"
	"strconv"
	"testing"
)

// Env is the environment variable that asks for more: 1 is the number of a
// release, 0.1 a tenth of it.
const Env = "OSSIAN_SOAK"

// Cases is how many cases t runs: change with every change, release times Env when
// that is set and gives more. It fails t when Env is not a positive number.
func Cases(t testing.TB, change, release int) int {
	t.Helper()
	text := os.Getenv(Env)
	if text == "" {
		return change
	}
	share, err := strconv.ParseFloat(text, 64)
	if err != nil || !(share > 0 && share <= 1000) {
		t.Fatalf("%s=%q: want a number above 0, 1 for the counts of a release", Env, text)
	}
	return max(change, int(float64(release)*share))
}

// Abreast lets n tests that call t.Parallel run at a time, however few processors there are: for
// packages whose tests wait more than they compute. TestMain calls it before m.Run. -parallel
// says otherwise, and so does Env: times are figures then.
func Abreast(n int) {
	if os.Getenv(Env) == "" {
		_ = flag.Set("test.parallel", strconv.Itoa(n)) // testing has registered it
	}
}

// Beside runs t beside others, as t.Parallel does, except where counts of a release are run: then
// it has the machine to itself.
func Beside(t *testing.T) {
	if os.Getenv(Env) == "" {
		t.Parallel()
	}
}
