package serve

import "testing"

// What a start would have chosen is all threads; of large models it is measured, so that fewer that were
// given may be what it would have chosen, too.
func TestThreadsAlone(t *testing.T) {
	for _, c := range []struct {
		measures bool
		counts   []int
		given    int
		want     string
	}{
		{false, []int{16, 8, 4}, 8, "16"},
		{true, []int{16, 8, 4}, 8, "16 or 8"},
		{true, []int{16, 8, 4}, 6, "16"},
		{true, []int{16, 8, 4}, 16, "16"},
		{true, []int{2, 1}, 4, "2"},
	} {
		made := choice{measures: c.measures}
		if got := made.alone(c.counts, c.given); got != c.want {
			t.Errorf("%+v: %q", c, got)
		}
	}
}
