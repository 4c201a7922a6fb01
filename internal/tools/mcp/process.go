package mcp

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// A process is a server that we started, as a stream of lines. It and what it started end with the
// connection. When this program is killed, the kernel ends the process (Linux), or it reads the end
// of its input.
type process struct {
	cmd   *exec.Cmd
	in    io.WriteCloser
	out   *os.File
	said  tail          // on its standard error
	ended chan struct{} // closed when it has
	once  sync.Once
}

// startProcess starts a command and returns the messages to and from it.
func startProcess(conn *connection, command []string) (sdk.Connection, error) {
	started := &process{cmd: exec.Command(command[0], command[1:]...), ended: make(chan struct{})}
	out, theirs, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer theirs.Close()
	started.out, started.cmd.Stdout, started.cmd.Stderr = out, theirs, &started.said
	started.cmd.Env, started.cmd.WaitDelay = environment(os.LookupEnv), time.Second
	// A group of its own, so that what the command starts ends with it.
	ownGroup(started.cmd)
	if started.in, err = started.cmd.StdinPipe(); err == nil {
		err = started.run(conn)
	}
	if err != nil {
		out.Close()
		return nil, &fault{kind: away, text: fmt.Sprintf("its command cannot be started: %v", err)}
	}
	context.AfterFunc(conn.life, started.kill)
	limit := messageBytes(conn.limits)
	lines := &bounded{Reader: &output{out, started.ended}, body: out, limit: limit, per: perLine, over: conn.broke, end: func() {}}
	carrier := &sdk.IOTransport{Reader: lines, Writer: started, MaxLineLength: int(limit) * 2}
	return carrier.Connect(conn.life)
}

// An output is what a command writes. Its end is told when the process has ended, too, or soon after:
// its last words say why, and they are to be known before anybody asks what broke.
type output struct {
	io.Reader
	ended <-chan struct{}
}

// Read implements io.Reader.
func (o *output) Read(b []byte) (int, error) {
	n, err := o.Reader.Read(b)
	if err != nil {
		select {
		case <-o.ended:
		case <-time.After(time.Second / 2):
		}
	}
	return n, err
}

// run starts the command and has it waited for. Both happen on a thread that lives as long as the
// process: the kernel ends a process with the thread that started it.
func (p *process) run(conn *connection) error {
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := p.cmd.Start()
		if err == nil {
			running.Store(p, true)
			defer running.Delete(p)
		}
		if started <- err; err != nil {
			return
		}
		_ = p.cmd.Wait() // how it ended does not matter, its last words may
		kill(p.cmd)      // what it has started
		if last := p.said.last(); last != "" {
			conn.broke(&fault{kind: away, text: "the connection broke", detail: last})
		}
		close(p.ended)
	}()
	return <-started
}

// running are the processes that there are now, for KillAll.
var running sync.Map

// KillAll ends every process that servers are, with all that these started. It is for a program
// that ends at once, and closes nothing.
func KillAll() {
	running.Range(func(p, _ any) bool {
		p.(*process).signal(kill)
		return true
	})
}

// Write implements io.Writer.
func (p *process) Write(b []byte) (int, error) { return p.in.Write(b) }

// Close ends the process: by the end of its input, by a signal, and by force.
func (p *process) Close() error {
	p.once.Do(func() {
		_ = p.in.Close()
		for _, end := range []func(*exec.Cmd){terminate, kill} {
			select {
			case <-p.ended:
				return
			case <-time.After(time.Second / 2):
				p.signal(end)
			}
		}
	})
	return nil
}

// kill ends the process at once.
func (p *process) kill() {
	p.signal(kill)
	_ = p.out.Close()
}

// signal does something to the process unless it has ended: its number may be another's then.
func (p *process) signal(end func(*exec.Cmd)) {
	select {
	case <-p.ended:
	default:
		end(p.cmd)
	}
}

// environment is what a command gets of ours: where things are, and nothing that could be a secret.
func environment(lookup func(string) (string, bool)) (env []string) {
	names := []string{"HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER", "LANG", "TMPDIR"}
	if runtime.GOOS == "windows" {
		names = []string{"APPDATA", "HOMEDRIVE", "HOMEPATH", "LOCALAPPDATA", "PATH", "PATHEXT", "PROCESSOR_ARCHITECTURE", "PROGRAMFILES", "SYSTEMDRIVE", "SYSTEMROOT", "TEMP", "USERNAME", "USERPROFILE"}
	}
	for _, name := range names {
		if value, ok := lookup(name); ok {
			env = append(env, name+"="+value)
		}
	}
	return env
}

// A tail keeps the end of what is written to it.
type tail struct {
	mu   sync.Mutex // guards text
	text []byte
}

// Write implements io.Writer.
func (t *tail) Write(b []byte) (int, error) {
	const most = 4096
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, b[max(0, len(b)-most):]...)
	t.text = append([]byte(nil), t.text[max(0, len(t.text)-most):]...)
	return len(b), nil
}

// last is the last line, in short.
func (t *tail) last() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	text := strings.TrimSpace(string(t.text))
	text = text[strings.LastIndexByte(text, '\n')+1:]
	return fmt.Sprintf("%.200s", oneLine(text, ""))
}
