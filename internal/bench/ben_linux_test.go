package bench

import (
	"os"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"
)

// pin leaves this process one core until t ends; what it has started keeps its own.
func pin(t *testing.T) {
	t.Helper()
	var all, one unix.CPUSet
	if err := unix.SchedGetaffinity(0, &all); err != nil {
		t.Fatal(err)
	}
	core := 0
	for !all.IsSet(core) {
		core++
	}
	one.Set(core)
	bind(t, &one)
	t.Cleanup(func() { bind(t, &all) })
}

// bind moves all threads of this process to cores. It goes over them twice: one that did
// not exist at first has the cores of the one that made it.
func bind(t *testing.T, cores *unix.CPUSet) {
	t.Helper()
	for range 2 {
		threads, err := os.ReadDir("/proc/self/task")
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range threads {
			id, err := strconv.Atoi(d.Name())
			if err != nil {
				t.Fatal(err)
			}
			if err := unix.SchedSetaffinity(id, cores); err != nil && err != unix.ESRCH { // it has ended
				t.Fatal(err)
			}
		}
	}
}
