//go:build amd64 || arm64

package sandbox

import (
	"fmt"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The filter is a list of what may be called: whatever is not on it, known today or not, is refused.
// A few calls are looked at more closely (checks): a signal may go to the process itself only, a
// clone must be a thread. The kernel runs it on the number and the arguments of each call; it is a
// program for the machine of classic BPF (the kernel's Documentation/userspace-api/seccomp_filter.rst).

// always are the calls that any program may make, whatever the arguments; those that only some
// processors have are in legacy.
var always = []uintptr{
	// Files that are open, or that Landlock and the mounts let it open.
	unix.SYS_READ, unix.SYS_WRITE, unix.SYS_READV, unix.SYS_WRITEV, unix.SYS_PREAD64, unix.SYS_PWRITE64, unix.SYS_PREADV, unix.SYS_PWRITEV,
	unix.SYS_PREADV2, unix.SYS_PWRITEV2, unix.SYS_OPENAT, unix.SYS_CLOSE, unix.SYS_FSTAT, unix.SYS_NEWFSTATAT, unix.SYS_STATX, unix.SYS_LSEEK,
	unix.SYS_FACCESSAT, unix.SYS_FACCESSAT2, unix.SYS_DUP, unix.SYS_DUP3, unix.SYS_PIPE2, unix.SYS_FLOCK, unix.SYS_FSYNC, unix.SYS_FDATASYNC,
	unix.SYS_TRUNCATE, unix.SYS_FTRUNCATE, unix.SYS_FALLOCATE, unix.SYS_FADVISE64, unix.SYS_GETDENTS64, unix.SYS_GETCWD, unix.SYS_CHDIR,
	unix.SYS_FCHDIR, unix.SYS_RENAMEAT, unix.SYS_RENAMEAT2, unix.SYS_MKDIRAT, unix.SYS_LINKAT, unix.SYS_UNLINKAT, unix.SYS_SYMLINKAT,
	unix.SYS_READLINKAT, unix.SYS_UMASK, unix.SYS_STATFS, unix.SYS_FSTATFS, unix.SYS_SENDFILE, unix.SYS_COPY_FILE_RANGE, unix.SYS_SYNC_FILE_RANGE,
	// Waiting.
	unix.SYS_PPOLL, unix.SYS_PSELECT6, unix.SYS_EPOLL_CREATE1, unix.SYS_EPOLL_CTL, unix.SYS_EPOLL_PWAIT, unix.SYS_EVENTFD2,
	unix.SYS_NANOSLEEP, unix.SYS_CLOCK_NANOSLEEP, unix.SYS_SETITIMER, unix.SYS_GETITIMER,
	// Memory.
	unix.SYS_MMAP, unix.SYS_MPROTECT, unix.SYS_MUNMAP, unix.SYS_BRK, unix.SYS_MREMAP, unix.SYS_MSYNC, unix.SYS_MINCORE, unix.SYS_MADVISE, unix.SYS_MEMBARRIER,
	// Its own signals and threads.
	unix.SYS_RT_SIGACTION, unix.SYS_RT_SIGPROCMASK, unix.SYS_RT_SIGRETURN, unix.SYS_RT_SIGPENDING, unix.SYS_RT_SIGTIMEDWAIT, unix.SYS_RT_SIGSUSPEND,
	unix.SYS_SIGALTSTACK, unix.SYS_RESTART_SYSCALL, unix.SYS_SCHED_YIELD, unix.SYS_SCHED_GETAFFINITY, unix.SYS_SET_TID_ADDRESS, unix.SYS_SET_ROBUST_LIST,
	unix.SYS_RSEQ, unix.SYS_FUTEX, unix.SYS_EXIT, unix.SYS_EXIT_GROUP, unix.SYS_WAIT4, unix.SYS_EXECVE,
	// What it may know.
	unix.SYS_GETPID, unix.SYS_GETPPID, unix.SYS_GETTID, unix.SYS_GETUID, unix.SYS_GETEUID, unix.SYS_GETGID, unix.SYS_GETEGID, unix.SYS_GETGROUPS,
	unix.SYS_GETRESUID, unix.SYS_GETRESGID, unix.SYS_GETPGID, unix.SYS_GETSID, unix.SYS_UNAME, unix.SYS_SYSINFO, unix.SYS_TIMES, unix.SYS_GETTIMEOFDAY,
	unix.SYS_CLOCK_GETTIME, unix.SYS_CLOCK_GETRES, unix.SYS_GETRUSAGE, unix.SYS_GETRLIMIT, unix.SYS_GETCPU, unix.SYS_GETRANDOM, unix.SYS_GETPRIORITY,
}

// metadata are calls that change whom a file belongs to, its mode or times. Landlock does not know
// them: without namespaces they would reach every file of the same user. There they do nothing and
// say that they did, since programs that copy or unpack files fail otherwise.
var metadata = []uintptr{unix.SYS_FCHMOD, unix.SYS_FCHMODAT, unix.SYS_FCHMODAT2, unix.SYS_UTIMENSAT}

// absent are calls for which there is an older way that the C library takes where a kernel does
// not know them, or a lack that programs expect.
var absent = []struct {
	number uintptr
	errno  unix.Errno
}{
	{unix.SYS_CLONE3, unix.ENOSYS}, {unix.SYS_OPENAT2, unix.ENOSYS}, {unix.SYS_CLOSE_RANGE, unix.ENOSYS}, {unix.SYS_EPOLL_PWAIT2, unix.ENOSYS},
	{unix.SYS_SETXATTR, unix.ENOTSUP}, {unix.SYS_LSETXATTR, unix.ENOTSUP}, {unix.SYS_FSETXATTR, unix.ENOTSUP},
	{unix.SYS_GETXATTR, unix.ENOTSUP}, {unix.SYS_LGETXATTR, unix.ENOTSUP}, {unix.SYS_FGETXATTR, unix.ENOTSUP},
	{unix.SYS_LISTXATTR, unix.ENOTSUP}, {unix.SYS_LLISTXATTR, unix.ENOTSUP}, {unix.SYS_FLISTXATTR, unix.ENOTSUP},
	{unix.SYS_SCHED_SETAFFINITY, 0},
}

// Flags of clone: all of a thread's and none that gives it a namespace or lets it be a process.
const (
	cloneLooked = unix.CLONE_THREAD | unix.CLONE_VM | unix.CLONE_SIGHAND | unix.CLONE_VFORK | unix.CLONE_PTRACE | unix.CLONE_PARENT | unix.CLONE_NEWNS |
		unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC | unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_IO | unix.CLONE_PIDFD
	cloneThread = unix.CLONE_THREAD | unix.CLONE_VM | unix.CLONE_SIGHAND
)

// Requests of ioctl, from asm-generic/ioctls.h.
const (
	nonBlocking = 0x5421 // FIONBIO
	keepOnExec  = 0x5450 // FIONCLEX
	closeOnExec = 0x5451 // FIOCLEX
)

// A check looks at an argument: masked, its low half must be one of the values.
type check struct {
	number   uintptr
	argument int
	mask     uint32
	values   []uint32
}

// checks returns the calls whose arguments matter, for a process of a number.
func checks(pid int) []check {
	self := uint32(pid)
	const whole = ^uint32(0)
	return append([]check{
		{unix.SYS_CLONE, 0, cloneLooked, []uint32{cloneThread}},
		{unix.SYS_KILL, 0, whole, []uint32{self}},
		{unix.SYS_TGKILL, 0, whole, []uint32{self}},
		{unix.SYS_PRCTL, 0, whole, []uint32{unix.PR_SET_NAME, unix.PR_GET_NAME, unix.PR_SET_VMA}},
		{unix.SYS_IOCTL, 1, whole, []uint32{unix.TCGETS, unix.TIOCGWINSZ, unix.TIOCINQ, nonBlocking, closeOnExec, keepOnExec}},
		{unix.SYS_FCNTL, 1, whole, []uint32{unix.F_DUPFD, unix.F_DUPFD_CLOEXEC, unix.F_GETFD, unix.F_SETFD, unix.F_GETFL, unix.F_SETFL,
			unix.F_GETLK, unix.F_SETLK, unix.F_SETLKW, unix.F_OFD_GETLK, unix.F_OFD_SETLK, unix.F_OFD_SETLKW, unix.F_GETPIPE_SZ}},
	}, archChecks...)
}

// Where the kernel puts what a filter looks at (struct seccomp_data), little endian.
const (
	atNumber    = 0
	atArch      = 4
	atArguments = 16
)

// statement and branch are the instructions of the filter.
func statement(code uint16, k uint32) unix.SockFilter { return unix.SockFilter{Code: code, K: k} }
func branch(code uint16, k uint32, yes, no int) unix.SockFilter {
	return unix.SockFilter{Code: code, K: k, Jt: uint8(yes), Jf: uint8(no)}
}

const (
	load   = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS
	equal  = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
	give   = unix.BPF_RET | unix.BPF_K
	refuse = unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)
)

// filter returns the program for a process of a number. With mounts that are read only, changing
// the modes of files is left to them.
func filter(pid int, mounts bool) []unix.SockFilter {
	program := []unix.SockFilter{
		// Numbers of calls differ between architectures: one that is not this machine's ends the
		// process.
		statement(load, atArch), branch(equal, arch, 1, 0), statement(give, unix.SECCOMP_RET_KILL_PROCESS),
		statement(load, atNumber),
	}
	verdict := func(number uintptr, what uint32) {
		program = append(program, branch(equal, uint32(number), 0, 1), statement(give, what))
	}
	for _, number := range slices.Concat(always, legacy) {
		verdict(number, unix.SECCOMP_RET_ALLOW)
	}
	for _, number := range slices.Concat(metadata, legacyMetadata) {
		if mounts {
			verdict(number, unix.SECCOMP_RET_ALLOW)
		} else {
			verdict(number, unix.SECCOMP_RET_ERRNO)
		}
	}
	for _, call := range absent {
		verdict(call.number, unix.SECCOMP_RET_ERRNO|uint32(call.errno))
	}
	for _, looked := range checks(pid) {
		program = append(program, looked.program()...)
	}
	program = append(program, limitsRead(pid)...)
	return append(program, statement(give, refuse))
}

// limitsRead returns the instructions by which a process may read its own limits, and set none: the
// address of new ones must be none, in both halves.
func limitsRead(pid int) []unix.SockFilter {
	body := []unix.SockFilter{
		statement(load, atArguments), branch(equal, 0, 1, 0), branch(equal, uint32(pid), 0, 5),
		statement(load, atArguments+16), branch(equal, 0, 0, 3), statement(load, atArguments+20), branch(equal, 0, 0, 1),
		statement(give, unix.SECCOMP_RET_ALLOW), statement(give, refuse),
	}
	return append([]unix.SockFilter{branch(equal, unix.SYS_PRLIMIT64, 0, len(body))}, body...)
}

// program returns the instructions of a check; what another call does goes on behind them.
func (c check) program() []unix.SockFilter {
	body := []unix.SockFilter{statement(load, uint32(atArguments+8*c.argument)), statement(unix.BPF_ALU|unix.BPF_AND|unix.BPF_K, c.mask)}
	for i, value := range c.values {
		body = append(body, branch(equal, value, len(c.values)-i, 0)) // to what allows, behind what refuses
	}
	body = append(body, statement(give, refuse), statement(give, unix.SECCOMP_RET_ALLOW))
	return append([]unix.SockFilter{branch(equal, uint32(c.number), 0, len(body))}, body...)
}

// install holds this thread, and what it becomes, to a filter.
func install(program []unix.SockFilter) error {
	loaded := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	if _, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&loaded))); errno != 0 {
		return fmt.Errorf("seccomp: %w", errno)
	}
	return nil
}
