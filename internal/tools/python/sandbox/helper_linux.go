//go:build amd64 || arm64

package sandbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The helper is this program once more, started by Start. It runs the steps of confine in their
// order and becomes the interpreter; what cannot be done ends it, and Start returns why. It works
// on one thread alone: what holds a thread holds what that thread executes, and the others end with
// the execution. Nothing of the server is in it but its file.

// helperName is the first argument by which the program knows that it is the helper.
const helperName = "ossian-python-sandbox"

// Descriptors of the helper. The first five are the interpreter's too.
const (
	requestFD = 3
	replyFD   = 4
	faultFD   = 5 // where the helper writes why it cannot go on; closed when the interpreter starts
)

// An order is what the server tells the helper, in JSON as its second argument. It holds no secret:
// everybody may read arguments.
type order struct {
	Run      []string `json:"run"` // the interpreter with its arguments
	Env      []string `json:"env"`
	Reads    []string `json:"reads"`
	Runs     []string `json:"runs"`
	Spaces   bool     `json:"spaces"`
	Landlock int      `json:"landlock"` // version of the interface; 0 = without
	Folder   string   `json:"folder"`   // without namespaces: where the program's own files are
	User     int      `json:"user"`     // whom it becomes; 0 = it stays who it is
	Memory   uint64   `json:"memory"`
	Disk     uint64   `json:"disk"`
	Tasks    uint64   `json:"tasks"` // processes and threads of the user at most
}

// Helper does the helper's work where the program was started as one, which args tell: those behind
// the program's name. It does not return then. Otherwise it returns false at once.
func Helper(args []string) bool {
	if len(args) != 2 || args[0] != helperName {
		return false
	}
	runtime.LockOSThread()
	debug.SetGCPercent(-1) // it lives for some milliseconds, and has no thread to spare later on
	err := confine(args[1])
	_, _ = unix.Write(faultFD, []byte(err.Error()))
	os.Exit(1)
	return true
}

// confine gives up everything, and executes the interpreter. It returns only with an error.
func confine(text string) error {
	var told order
	if err := json.Unmarshal([]byte(text), &told); err != nil {
		return fmt.Errorf("order of the helper: %w", err)
	}
	if len(told.Run) == 0 {
		return errors.New("order of the helper: nothing to run")
	}
	_ = os.WriteFile("/proc/self/oom_score_adj", []byte("1000"), 0) // where memory runs out, sooner this than the server
	unix.CloseOnExec(faultFD)
	if err := unix.CloseRange(faultFD+1, ^uint(0), unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return fmt.Errorf("close_range: %w", err)
	}
	home := told.Folder + "/data"
	if told.Spaces {
		if err := ownRoot(&told); err != nil {
			return err
		}
		home = dataFolder
	}
	rules, err := told.rules()
	if err != nil {
		return err
	}
	// What is executed last is prepared first: from here on there may be no memory.
	program, arguments, environment, err := pointers(told.Run, told.Env)
	if err != nil {
		return err
	}
	held := filter(os.Getpid(), told.Spaces)
	if err := surrender(told.User); err != nil {
		return err
	}
	unix.Umask(0o077)
	if err := os.Chdir(home); err != nil {
		return err
	}
	if err := bound(&told); err != nil {
		return err
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("no_new_privs: %w", err)
	}
	if rules != nil {
		if err := rules.enforce(); err != nil {
			return err
		}
	}
	if err := install(held); err != nil {
		return err
	}
	_, _, errno := unix.RawSyscall(unix.SYS_EXECVE, uintptr(unsafe.Pointer(program)), uintptr(unsafe.Pointer(&arguments[0])), uintptr(unsafe.Pointer(&environment[0])))
	if errno == unix.EACCES && told.User != 0 {
		return fmt.Errorf("executing %s: %w: as root it runs as another user, who must be allowed to read it and what it lies in", told.Run[0], errno)
	}
	return fmt.Errorf("executing %s: %w", told.Run[0], errno)
}

// pointers returns the arguments of execve.
func pointers(run, env []string) (program *byte, arguments, environment []*byte, err error) {
	if program, err = unix.BytePtrFromString(run[0]); err != nil {
		return nil, nil, nil, err
	}
	if arguments, err = syscall.SlicePtrFromStrings(run); err != nil {
		return nil, nil, nil, err
	}
	environment, err = syscall.SlicePtrFromStrings(env)
	return program, arguments, environment, err
}

// rules returns what Landlock is to allow; nil without Landlock.
func (o *order) rules() (*ruleset, error) {
	if o.Landlock == 0 {
		return nil, nil
	}
	rules, err := newRuleset(o.Landlock)
	if err != nil {
		return nil, err
	}
	// With namespaces of its own the folder is mounted under fixed names.
	own := []string{o.Folder + "/data", o.Folder + "/tmp"}
	if o.Spaces {
		own = []string{dataFolder, temporaryFolder}
	}
	for rights, paths := range map[uint64][]string{reading: append([]string{"/dev/urandom"}, o.Reads...), running: o.Runs, using: {"/dev/null"}, owning: own} {
		for _, path := range paths {
			if err := rules.allow(path, rights); err != nil {
				return nil, err
			}
		}
	}
	return rules, nil
}

// surrender gives up all privileges for good, and the user's name where another was made for it.
func surrender(user int) error {
	for capability := uintptr(0); ; capability++ {
		// Those who may not drop them do not have them, and cannot get them back.
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, capability, 0, 0, 0); errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EPERM) {
			break
		}
	}
	if user != 0 {
		if _, _, errno := unix.RawSyscall(unix.SYS_SETGROUPS, 0, 0, 0); errno != 0 {
			return fmt.Errorf("setgroups: %w", errno)
		}
		if _, _, errno := unix.RawSyscall(unix.SYS_SETRESGID, uintptr(user), uintptr(user), uintptr(user)); errno != 0 {
			return fmt.Errorf("setresgid: %w", errno)
		}
		if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, uintptr(user), uintptr(user), uintptr(user)); errno != 0 {
			return fmt.Errorf("setresuid: %w", errno)
		}
	}
	_ = unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) // kernels without have none
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData
	if err := unix.Capset(&header, &none[0]); err != nil {
		return fmt.Errorf("capset: %w", err)
	}
	// The kernel forgot who is waited for when the user changed. A server that is gone by now has
	// left nobody at the other end of the requests.
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
		return fmt.Errorf("parent-death signal: %w", err)
	}
	ends := []unix.PollFd{{Fd: requestFD}}
	if _, err := unix.Poll(ends, 0); err != nil || ends[0].Revents&(unix.POLLHUP|unix.POLLERR|unix.POLLNVAL) != 0 {
		return errors.New("the server is gone")
	}
	return nil
}

// Bounds that nobody sets: descriptors, stacks, and what is not used at all.
const (
	openFiles = 256
	stackSize = 8 << 20
)

// bound sets what the kernel is asked to count. Memory comes last.
func bound(told *order) error {
	for _, limit := range []struct {
		resource int
		most     uint64
	}{
		{unix.RLIMIT_CORE, 0}, {unix.RLIMIT_FSIZE, told.Disk}, {unix.RLIMIT_NOFILE, openFiles}, {unix.RLIMIT_NPROC, told.Tasks}, {unix.RLIMIT_STACK, stackSize},
		{unix.RLIMIT_MEMLOCK, 0}, {unix.RLIMIT_MSGQUEUE, 0}, {unix.RLIMIT_RTPRIO, 0}, {unix.RLIMIT_NICE, 0}, {unix.RLIMIT_SIGPENDING, 64}, {unix.RLIMIT_AS, told.Memory},
	} {
		asked := unix.Rlimit{Cur: limit.most, Max: limit.most}
		var now unix.Rlimit
		if err := unix.Prlimit(0, limit.resource, nil, &now); err == nil {
			asked.Max = min(asked.Max, now.Max)
			asked.Cur = min(asked.Cur, asked.Max)
		}
		if err := unix.Prlimit(0, limit.resource, &asked, nil); err != nil {
			return fmt.Errorf("limit %d of %d: %w", limit.resource, limit.most, err)
		}
	}
	return nil
}
