package plan

import (
	"strings"
	"testing"
	"testing/fstest"
)

func TestHost(t *testing.T) {
	file := func(s string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(s)} }
	memory := file("MemTotal:       16314488 kB\nMemFree: 1 kB\n")
	for _, c := range []struct {
		name   string
		fsys   fstest.MapFS
		cpu    string
		memory int64
	}{
		{"nothing told", fstest.MapFS{}, "", 0},
		{"x86", fstest.MapFS{"proc/cpuinfo": file("processor\t: 0\nmodel\t\t: 85\nmodel name\t: A Processor @ 2GHz\n\nmodel name\t: B\n"), "proc/meminfo": memory}, "A Processor @ 2GHz", 16314488 << 10},
		{"ARM board", fstest.MapFS{"proc/cpuinfo": file("processor\t: 0\nCPU part\t: 0xd0b\n"), "proc/device-tree/model": file("A Board Rev 1\x00"), "proc/meminfo": memory}, "A Board Rev 1", 16314488 << 10},
	} {
		if cpu, memory := hardwareIn(c.fsys); cpu != c.cpu || memory != c.memory {
			t.Errorf("%s: %q, %d, want %q, %d", c.name, cpu, memory, c.cpu, c.memory)
		}
	}
	if h := ThisHost(); strings.TrimSpace(h.CPU) == "" || h.Threads < 1 || h.Memory < 0 {
		t.Errorf("this host is %+v", h)
	}
}
