//go:build amd64 || arm64

package sandbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A Process is an interpreter. One goroutine at a time uses it.
type Process struct {
	command *exec.Cmd
	ended   chan struct{} // closed when it is gone and has been waited for
	state   string        // how it ended; set before ended is closed
	request int           // descriptors of this end; none of them blocks
	reply   int
	output  int
	errors  int
	folder  *folder  // without namespaces: the program's files; nil = they are in memory
	files   *os.Root // the same, or those in memory
	disk    int64
	user    int
}

// startTime is how long the helper may take. It takes some hundredths of a second; this is for
// machines that are busy.
const startTime = 30 * time.Second

// users are whom programs run as where the server is root, by slot: numbers that no system gives to
// anybody, below those that containers lack.
const (
	firstUser = 60500
	someUsers = 4000
)

// Start starts the program of a Config. It returns when the interpreter has been executed, or with
// the reason why it could not be; in that case nothing is left.
func Start(ctx context.Context, config *Config) (*Process, error) {
	if err := config.Layers.hold(); err != nil {
		return nil, err
	}
	told, folder, err := prepare(config)
	if err != nil {
		return nil, err
	}
	started := &Process{folder: folder, disk: config.Disk, user: told.User, ended: make(chan struct{}), request: -1, reply: -1, output: -1, errors: -1}
	if err := started.start(ctx, told, config.Layers.Spaces); err != nil {
		started.Close()
		return nil, err
	}
	// Seen from outside: through the process's own root, or where the folder lies.
	name := filepath.Join("/proc", strconv.Itoa(started.command.Process.Pid), "root", "mnt")
	if folder != nil {
		name = folder.name
	}
	if started.files, err = os.OpenRoot(name); err != nil {
		started.Close()
		return nil, fmt.Errorf("the program's files: %w", err)
	}
	return started, nil
}

// prepare returns what the helper is told, and the folder that it needs.
func prepare(config *Config) (*order, *folder, error) {
	told := &order{
		Runs: config.Interpreter.Runs, Reads: config.Interpreter.Reads, Spaces: config.Layers.Spaces != NoSpaces,
		Memory: uint64(config.Memory), Disk: uint64(config.Disk), Tasks: uint64(config.Threads),
	}
	if config.Layers.Landlock {
		told.Landlock = landlockVersion()
	}
	if os.Geteuid() == 0 {
		maps, _ := os.ReadFile("/proc/self/uid_map")
		told.User = otherUser(string(maps), firstUser+config.Slot%someUsers)
	}
	home, temporary := dataFolder, temporaryFolder
	var made *folder
	if !told.Spaces {
		if told.Landlock < fullLandlock {
			return nil, nil, fmt.Errorf("without namespaces version %[2]d of Landlock is needed (Linux 6.12), this system has %[1]d", told.Landlock, fullLandlock)
		}
		var err error
		if made, err = newFolder(told.User); err != nil {
			return nil, nil, err
		}
		told.Folder, home, temporary = made.name, made.name+"/data", made.name+"/tmp"
		// Without a user or namespace of its own, all of the user's threads count.
		if told.User == 0 {
			told.Tasks += tasks(os.Getuid())
		}
	}
	told.Env = environment(home, temporary)
	// -I: nothing of the environment or of the user's own packages; -B: no compiled files.
	told.Run = []string{config.Interpreter.Path, "-I", "-B", "-X", "utf8", "-c", `import sys;s=sys.argv.pop();exec(compile(s,"<ossian>","exec"))`, config.Program}
	if !told.Spaces {
		told.Run = append(told.Run[:len(told.Run)-1], home, config.Program)
	}
	return told, made, nil
}

// otherUser returns whom a program of root runs as: user, or 0, as itself, where this root is an
// ordinary user's outside and knows no others, as in containers without privileges. The maps are
// those of /proc/self/uid_map: first number inside, first outside, how many.
func otherUser(maps string, user int) int {
	ordinary := false
	for line := range strings.Lines(maps) {
		var inside, outside, count int64
		if _, err := fmt.Sscan(line, &inside, &outside, &count); err != nil {
			continue
		}
		if int64(user) >= inside && int64(user) < inside+count {
			return user
		}
		ordinary = ordinary || (inside == 0 && outside != 0)
	}
	if ordinary {
		return 0
	}
	return user
}

// environment is all that the program finds of one.
func environment(home, temporary string) []string {
	threads := strconv.Itoa(min(4, runtime.NumCPU()))
	env := []string{
		"PATH=/usr/local/bin:/usr/bin:/bin", "LANG=C.UTF-8", "HOME=" + home, "TMPDIR=" + temporary,
		"MPLBACKEND=Agg", "MPLCONFIGDIR=" + temporary,
		"OPENSSL_CONF=/dev/null",          // else a file that may not be read
		"MALLOC_ARENA_MAX=2",              // each arena takes 64 MiB of the address space
		"OPENBLAS_NUM_THREADS=" + threads, // each thread takes a buffer as large
		"OMP_NUM_THREADS=" + threads, "MKL_NUM_THREADS=" + threads, "NUMEXPR_NUM_THREADS=" + threads,
	}
	return env
}

// start makes the pipes and starts the helper.
func (p *Process) start(ctx context.Context, told *order, spaces Spaces) (err error) {
	text, err := json.Marshal(told)
	if err != nil {
		return err
	}
	var theirs []*os.File // as the descriptors 0 to 5 of the helper
	defer func() {
		for _, file := range theirs {
			file.Close()
		}
	}()
	var input, fault int
	for _, end := range []struct {
		own    *int
		writes bool // this side does
	}{{&input, true}, {&p.output, false}, {&p.errors, false}, {&p.request, true}, {&p.reply, false}, {&fault, false}} {
		file, err := pipe(end.own, end.writes)
		if err != nil {
			return err
		}
		theirs = append(theirs, file)
	}
	unix.Close(input) // there is nothing to read
	trouble := os.NewFile(uintptr(fault), "fault")
	defer trouble.Close()
	p.command = &exec.Cmd{
		Path: "/proc/self/exe", Args: []string{"ossian", helperName, string(text)}, Env: []string{}, Dir: "/",
		Stdin: theirs[0], Stdout: theirs[1], Stderr: theirs[2], ExtraFiles: theirs[3:],
		SysProcAttr: attributes(spaces, told.User),
	}
	if err := starter(p.command); err != nil {
		p.command = nil
		return fmt.Errorf("starting the helper: %w", err)
	}
	go p.wait()
	for _, file := range theirs {
		file.Close()
	}
	theirs = nil
	return p.began(ctx, trouble)
}

// began waits until the helper has become the interpreter, or has said why not.
func (p *Process) began(ctx context.Context, trouble *os.File) error {
	deadline := time.Now().Add(startTime)
	if given, ok := ctx.Deadline(); ok && given.Before(deadline) {
		deadline = given
	}
	if err := trouble.SetReadDeadline(deadline); err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { _ = trouble.SetReadDeadline(time.Now()) })
	defer stop()
	said, err := io.ReadAll(io.LimitReader(trouble, 4096))
	// The pipe closes when the interpreter is executed: nothing in it means that all went well.
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		return fmt.Errorf("the helper does not get on: %w", err)
	case len(said) > 0:
		return errors.New(string(said))
	}
	return nil
}

// pipe makes a pipe, keeps an end that does not block, and returns the other.
func pipe(own *int, writes bool) (*os.File, error) {
	var ends [2]int
	if err := unix.Pipe2(ends[:], unix.O_CLOEXEC); err != nil {
		return nil, os.NewSyscallError("pipe", err)
	}
	mine, other := ends[0], ends[1]
	if writes {
		mine, other = other, mine
	}
	if err := unix.SetNonblock(mine, true); err != nil {
		return nil, os.NewSyscallError("fcntl", err)
	}
	*own = mine
	return os.NewFile(uintptr(other), "pipe"), nil
}

// attributes say how the kernel makes the helper's process.
func attributes(spaces Spaces, user int) *syscall.SysProcAttr {
	made := &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
	if spaces == NoSpaces {
		return made
	}
	made.Cloneflags = unix.CLONE_NEWPID | unix.CLONE_NEWNS | unix.CLONE_NEWNET | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS
	if spaces == RootSpaces {
		return made
	}
	made.Cloneflags |= unix.CLONE_NEWUSER
	// The helper is root in there, or it would lose its privileges when it is executed.
	made.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}}
	made.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}}
	if user != 0 {
		other := syscall.SysProcIDMap{ContainerID: user, HostID: user, Size: 1}
		made.UidMappings, made.GidMappings = append(made.UidMappings, other), append(made.GidMappings, other)
		made.GidMappingsEnableSetgroups = true
	}
	return made
}

// starting hands commands to the one thread that starts all helpers. The kernel ends a helper with
// the thread that started it, so that must be one that lives as long as the server.
var starting = sync.OnceValue(func() chan func() {
	work := make(chan func())
	go func() {
		runtime.LockOSThread()
		for do := range work {
			do()
		}
	}()
	return work
})

func starter(command *exec.Cmd) error {
	result := make(chan error)
	starting() <- func() { result <- command.Start() }
	return <-result
}

func (p *Process) wait() {
	err := p.command.Wait()
	p.state = "exit status 0"
	if err != nil {
		p.state = err.Error()
	}
	close(p.ended)
}

// Close ends the process, and removes the program's files.
func (p *Process) Close() {
	if p.command != nil {
		_ = p.command.Process.Kill()
		<-p.ended
	}
	for _, fd := range []*int{&p.request, &p.reply, &p.output, &p.errors} {
		if *fd >= 0 {
			unix.Close(*fd)
			*fd = -1
		}
	}
	if p.files != nil {
		p.files.Close()
	}
	p.folder.remove()
}

// Kill ends the process at once and leaves its files, which another can be given (Inherit).
func (p *Process) Kill() {
	_ = p.command.Process.Kill()
	<-p.ended
}

// PID returns the number of the process, for tests.
func (p *Process) PID() int { return p.command.Process.Pid }

// tasks returns how many threads a user has.
func tasks(user int) (count uint64) {
	processes, _ := filepath.Glob("/proc/[0-9]*")
	for _, name := range processes {
		text, err := os.ReadFile(name + "/status")
		// A process may have ended since it was listed.
		if err != nil {
			continue
		}
		threads, same := uint64(0), false
		for line := range strings.Lines(string(text)) {
			words := strings.Fields(line)
			if len(words) > 1 && words[0] == "Uid:" {
				same = words[1] == strconv.Itoa(user)
			}
			if len(words) > 1 && words[0] == "Threads:" {
				threads, _ = strconv.ParseUint(words[1], 10, 32)
			}
		}
		if same {
			count += threads
		}
	}
	return count
}

// Choose finds the strongest layers that this system allows, by starting a program that does
// nothing under each. The error says why none of them works.
func Choose(ctx context.Context, config Config) (Layers, error) {
	landlock := landlockVersion() > 0
	ways := []Layers{{UserSpaces, landlock}, {NoSpaces, landlock}}
	if os.Geteuid() == 0 {
		ways = append([]Layers{{RootSpaces, landlock}}, ways...)
	}
	var failures []error
	for _, way := range ways {
		config.Layers = way
		err := Try(ctx, &config)
		if err == nil {
			return way, nil
		}
		failures = append(failures, fmt.Errorf("%s: %w", [...]string{"without namespaces", "user namespaces", "namespaces"}[way.Spaces], err))
	}
	return Layers{}, errors.Join(failures...)
}

// Try starts a program that says a word and waits, under the layers of a Config, and ends it.
func Try(ctx context.Context, config *Config) error {
	tried := *config
	tried.Program = "import os; os.write(4, b'here'); os.read(3, 1)"
	process, err := Start(ctx, &tried)
	if err != nil {
		return err
	}
	defer process.Close()
	var complaint strings.Builder
	said := ""
	err = process.Exchange(ctx, nil, io.Discard, &complaint, func(part []byte) (bool, error) {
		said += string(part)
		return said == "here", nil
	})
	if err != nil {
		return fmt.Errorf("%w %.300s", err, strings.Join(strings.Fields(complaint.String()), " "))
	}
	return nil
}
