//go:build amd64 || arm64

package sandbox

import (
	"fmt"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// run is the machine of classic BPF, as far as filters use it: what the kernel would return.
func run(program []unix.SockFilter, arch uint32, number uintptr, arguments ...uint64) (uint32, error) {
	data := map[uint32]uint32{atNumber: uint32(number), atArch: arch}
	for i, value := range arguments {
		data[uint32(atArguments+8*i)], data[uint32(atArguments+8*i+4)] = uint32(value), uint32(value>>32)
	}
	accumulator := uint32(0)
	for at := 0; at < len(program); at++ {
		switch step := program[at]; step.Code {
		case load:
			accumulator = data[step.K]
		case unix.BPF_ALU | unix.BPF_AND | unix.BPF_K:
			accumulator &= step.K
		case equal:
			if accumulator == step.K {
				at += int(step.Jt)
			} else {
				at += int(step.Jf)
			}
		case give:
			return step.K, nil
		default:
			return 0, fmt.Errorf("instruction %d is unknown: %+v", at, step)
		}
	}
	return 0, fmt.Errorf("the program does not end with a verdict")
}

// TestFilter runs the filter for calls of every kind.
func TestFilter(t *testing.T) {
	const pid = 4711
	const allow, deny = unix.SECCOMP_RET_ALLOW, refuse
	for _, c := range []struct {
		name      string
		number    uintptr
		arguments []uint64
		want      uint32
	}{
		{"read", unix.SYS_READ, []uint64{0}, allow},
		{"exit_group", unix.SYS_EXIT_GROUP, nil, allow},
		{"socket", unix.SYS_SOCKET, nil, deny},
		{"io_uring", unix.SYS_IO_URING_SETUP, nil, deny},
		{"memfd", unix.SYS_MEMFD_CREATE, nil, deny},
		{"clone3", unix.SYS_CLONE3, nil, unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)},
		{"a thread of glibc", unix.SYS_CLONE, []uint64{0x3d0f00}, allow},
		{"a thread of musl", unix.SYS_CLONE, []uint64{0x7d0f00}, allow},
		{"a process", unix.SYS_CLONE, []uint64{17}, deny},
		{"a thread in a namespace", unix.SYS_CLONE, []uint64{0x3d0f00 | unix.CLONE_NEWNS}, deny},
		{"kill itself", unix.SYS_KILL, []uint64{pid, 6}, allow},
		{"kill another", unix.SYS_KILL, []uint64{pid + 1, 6}, deny},
		{"kill all", unix.SYS_KILL, []uint64{^uint64(0), 6}, deny},
		{"kill the group", unix.SYS_KILL, []uint64{0, 6}, deny},
		{"tgkill itself", unix.SYS_TGKILL, []uint64{pid, 1, 6}, allow},
		{"tgkill another", unix.SYS_TGKILL, []uint64{1, 1, 6}, deny},
		{"name a thread", unix.SYS_PRCTL, []uint64{unix.PR_SET_NAME}, allow},
		{"outlive the parent", unix.SYS_PRCTL, []uint64{unix.PR_SET_PDEATHSIG}, deny},
		{"is a terminal", unix.SYS_IOCTL, []uint64{1, unix.TCGETS}, allow},
		{"type on a terminal", unix.SYS_IOCTL, []uint64{1, unix.TIOCSTI}, deny},
		{"duplicate", unix.SYS_FCNTL, []uint64{1, unix.F_DUPFD_CLOEXEC}, allow},
		{"owner of signals", unix.SYS_FCNTL, []uint64{1, unix.F_SETOWN, 1}, deny},
		{"read own limits", unix.SYS_PRLIMIT64, []uint64{0, 7, 0, 1 << 40}, allow},
		{"read own limits by number", unix.SYS_PRLIMIT64, []uint64{pid, 7, 0, 1 << 40}, allow},
		{"read another's limits", unix.SYS_PRLIMIT64, []uint64{1, 7, 0, 1 << 40}, deny},
		{"set limits", unix.SYS_PRLIMIT64, []uint64{0, 7, 1 << 20, 0}, deny},
		{"set limits, address in the high half", unix.SYS_PRLIMIT64, []uint64{0, 7, 1 << 32, 0}, deny},
		{"a number that there is not", 4000, nil, deny},
		{"x32", 0x40000000 | unix.SYS_READ, nil, deny},
	} {
		for _, mounts := range []bool{true, false} {
			got, err := run(filter(pid, mounts), arch, c.number, c.arguments...)
			if err != nil || got != c.want {
				t.Errorf("%s: %#x %v, want %#x", c.name, got, err, c.want)
			}
		}
	}
	for mounts, want := range map[bool]uint32{true: allow, false: unix.SECCOMP_RET_ERRNO} {
		if got, err := run(filter(pid, mounts), arch, unix.SYS_FCHMOD); err != nil || got != want {
			t.Errorf("fchmod with mounts %v: %#x %v, want %#x", mounts, got, err, want)
		}
	}
	if got, err := run(filter(pid, true), unix.AUDIT_ARCH_I386, unix.SYS_READ); err != nil || got != unix.SECCOMP_RET_KILL_PROCESS {
		t.Errorf("another table of calls: %#x %v", got, err)
	}
	if n := len(filter(pid, true)); n > 4096 {
		t.Errorf("%d instructions, the kernel takes 4096", n)
	}
}

// TestHold: nothing starts with the filter alone.
func TestHold(t *testing.T) {
	if _, err := Start(t.Context(), &Config{Interpreter: new(Interpreter)}); err == nil {
		t.Error("it starts without Landlock and namespaces")
	}
}

func TestOtherUser(t *testing.T) {
	for _, c := range []struct {
		name, maps string
		want       int
	}{
		{"the system's root", "         0          0 4294967295\n", 60501},
		{"of a container", "0 100000 65536\n", 60501},
		{"an ordinary user's", "0 1000 1\n", 0},
		{"of a container without privileges", "0 1000 1\n1 100000 65536\n", 60501},
		{"of a container that is too small", "0 100000 1000\n", 0},
		{"root alone", "0 0 1\n", 60501}, // which cannot be: the start fails
		{"nothing", "", 60501},
	} {
		if got := otherUser(c.maps, 60501); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}

// TestSweep: folders of servers that are gone are removed, and no others.
func TestSweep(t *testing.T) {
	temporary := t.TempDir()
	t.Setenv("TMPDIR", temporary)
	used, err := newFolder(0)
	if err != nil {
		t.Fatal(err)
	}
	defer used.remove()
	left, err := newFolder(0)
	if err != nil {
		t.Fatal(err)
	}
	left.lock.Close() // as when its server was killed
	if err := os.Mkdir(left.name+"/data/closed", 0); err != nil {
		t.Fatal(err)
	}
	Sweep() // both are too new to be told apart
	old := time.Now().Add(-2 * leftoverAge)
	for _, name := range []string{used.name, left.name} {
		if _, err := os.Stat(name); err != nil {
			t.Errorf("a new one: %v", err)
		}
		if err := os.Chtimes(name, old, old); err != nil {
			t.Fatal(err)
		}
	}
	Sweep()
	if entries, _ := os.ReadDir(temporary); len(entries) != 1 || temporary+"/"+entries[0].Name() != used.name {
		t.Errorf("%v are left, want %s", entries, used.name)
	}
}
