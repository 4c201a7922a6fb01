package measure

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"ossian/internal/cpu/kern"
)

// TestRun: every kernel is reported once for each level and number of rows, with
// figures that make sense together.
func TestRun(t *testing.T) {
	seen := make(map[string]int)
	m := meter{ctx: t.Context(), size: 1 << 20, out: 32, in: 512, report: func(k Measurement) {
		seen[fmt.Sprintf("%s/%s/%d", k.Kernel, k.ISA, k.Rows)]++
		if share := k.Bytes / k.Read; !(k.Bytes > 0 && k.Ops > 0 && k.Share >= share) || (k.Peak > 0 && k.Share < k.Ops/k.Peak) {
			t.Errorf("%+v", k)
		}
	}}
	if err := m.all(Kernels(), 2); err != nil {
		t.Fatal(err)
	}
	want := 0
	for _, l := range kern.Levels() {
		for _, n := range Kernels() {
			rows := rowsOf(l)
			if strings.HasPrefix(n, "keys ") || strings.HasPrefix(n, "values ") {
				rows = []int{8}
			}
			for _, r := range rows {
				want++
				if k := fmt.Sprintf("%s/%v/%d", n, l, r); seen[k] != 1 {
					t.Errorf("%s was reported %d times", k, seen[k])
				}
			}
		}
	}
	if len(seen) != want {
		t.Errorf("%d lines, want %d", len(seen), want)
	}
}

func TestRunRefuses(t *testing.T) {
	ended, end := context.WithCancel(t.Context())
	end()
	m := meter{ctx: ended, size: 1 << 20, out: 32, in: 512, report: func(k Measurement) { t.Errorf("%+v", k) }}
	if err := m.all([]string{"Q8_0"}, 1); err != context.Canceled {
		t.Errorf("after the end of its context: %v", err)
	}
	if err := m.all([]string{"MXFP4", "Q9"}, 1); err == nil {
		t.Error("an unknown kernel was measured")
	}
}
