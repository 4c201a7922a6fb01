package bench

import (
	"encoding/json"
	"strings"
	"testing"

	"ossian/internal/command/commandtest"
	"ossian/internal/cpu/kern"
)

// TestBenchKernels: every line has its figures, in the table and as JSON.
func TestBenchKernels(t *testing.T) {
	out, _, err := commandtest.Run(t, root(), "bench", "kernels", "Q8_0", "keys BF16", "--time", "0s", "--threads", "1", "--json")
	if err != nil {
		t.Fatal(err)
	}
	var r kernelReport
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatal(err)
	}
	lines := 2                            // of portable Go
	lines += (len(kern.Levels()) - 1) * 9 // eight numbers of rows, and keys
	if len(r.Kernels) != lines || r.Threads != 1 || r.CPU == "" {
		t.Errorf("%d lines of %d threads on %q, want %d of 1", len(r.Kernels), r.Threads, r.CPU, lines)
	}
	for _, m := range r.Kernels {
		peak := m.Peak > 0 == (m.ISA != "go")
		if !(m.Bytes > 0 && m.Ops > 0 && m.Read > 0 && m.Share > 0 && peak) || m.Rows < 1 || (m.Kernel != "Q8_0" && m.Kernel != "keys BF16") {
			t.Errorf("%+v", m)
		}
	}
	var b strings.Builder
	for _, m := range r.Kernels {
		b.Reset()
		writeKernel(&b, m)
		if n := len(strings.Fields(strings.Replace(b.String(), "keys BF16", "keys", 1))); n != 9 {
			t.Errorf("%d columns in %q", n, b.String())
		}
	}
	for _, args := range [][]string{{"Q9_0"}, {"--threads", "-1"}, {"--threads", "2000"}, {"--time", "2m"}, {"--time", "-1s"}} {
		if _, _, err := commandtest.Run(t, root(), append([]string{"bench", "kernels"}, args...)...); err == nil {
			t.Errorf("%q was taken", args)
		}
	}
}
