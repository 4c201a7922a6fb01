// Package wasm runs CPython as a program for WebAssembly, on any system. Its users no longer need to
// know how: a process of this very program, the helper, compiles the interpreter's file once,
// executes it and ends with its parent, or when it is killed.
//
// Such a program reaches only what it is given: three streams and one folder. It has no sockets, no
// processes, no signals and no other memory. The folder needs care of our own: the library's would
// let paths lead out of it.
package wasm

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// A Config says what is started.
type Config struct {
	File    string // a CPython built for WASI preview 1, with its library inside
	Cache   string // folder for what it is compiled to
	Program string // Python source
	Memory  int64  // bytes
	Disk    int64  // bytes of all files
}

// Errors of Exchange besides those of its context. Each ends the process.
var ErrDisk = errors.New("its files are larger than allowed")

// An EndedError says that the process ended by itself.
type EndedError struct{ State string }

// Error implements error.
func (e *EndedError) Error() string { return "the interpreter ended: " + e.State }

// A Process is an interpreter. One goroutine at a time uses it.
type Process struct {
	command  *exec.Cmd
	requests io.WriteCloser
	frames   chan frame    // closed when the process is gone
	quit     chan struct{} // closed when nobody reads frames any more
	state    string        // how it ended; set before frames is closed
	folder   string
	disk     int64
}

// A frame is what the helper sends: a kind, a length in 4 bytes (big endian), and bytes.
type frame struct {
	kind byte
	data []byte
}

// The kinds of frames.
const (
	printed    = 'o'
	complained = 'e'
	ready      = 'r' // the program waits for a request
	failed     = 'f' // the helper cannot go on, and why
)

// mostFrame is the largest frame, in bytes.
const mostFrame = 1 << 20

// readFrame reads one. An error means that there are no more.
func readFrame(from io.Reader) (frame, error) {
	var head [5]byte
	if _, err := io.ReadFull(from, head[:]); err != nil {
		return frame{}, err
	}
	size := binary.BigEndian.Uint32(head[1:])
	if size > mostFrame || !strings.ContainsRune(string([]byte{printed, complained, ready, failed}), rune(head[0])) {
		return frame{}, fmt.Errorf("a frame of kind %d with %d bytes", head[0], size)
	}
	data := make([]byte, size)
	_, err := io.ReadFull(from, data)
	return frame{head[0], data}, err
}

// Start starts the program, and returns when it waits for a request. The first time a file is used
// that takes some ten seconds.
func Start(ctx context.Context, config *Config) (*Process, error) {
	folder, err := os.MkdirTemp("", "ossian-wasm-")
	if err != nil {
		return nil, err
	}
	p := &Process{folder: folder, disk: config.Disk, frames: make(chan frame), quit: make(chan struct{})}
	if err := p.start(ctx, config); err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

func (p *Process) start(ctx context.Context, config *Config) error {
	for _, name := range []string{"data", "tmp"} {
		if err := os.Mkdir(filepath.Join(p.folder, name), 0o700); err != nil {
			return err
		}
	}
	text, err := json.Marshal(order{config.File, config.Cache, config.Program, p.folder, config.Memory})
	if err != nil {
		return err
	}
	itself, err := executable()
	if err != nil {
		return err
	}
	command := exec.Command(itself, helperName, string(text))
	command.Env = []string{"GOMAXPROCS=2"}
	if root, ok := os.LookupEnv("SystemRoot"); ok { // Windows starts nothing without it
		command.Env = append(command.Env, "SystemRoot="+root)
	}
	if p.requests, err = command.StdinPipe(); err != nil {
		return err
	}
	out, err := command.StdoutPipe()
	if err != nil {
		return err
	}
	if err := command.Start(); err != nil {
		return err
	}
	p.command = command
	go p.read(out)
	var complaints strings.Builder
	if err := p.Exchange(ctx, nil, io.Discard, &complaints); err != nil {
		return fmt.Errorf("%w %.300s", err, strings.Join(strings.Fields(complaints.String()), " "))
	}
	return nil
}

// read passes frames on, and waits for the process.
func (p *Process) read(out io.Reader) {
	buffered := bufio.NewReader(out)
	why := ""
	for {
		got, err := readFrame(buffered)
		if err != nil {
			break
		}
		if got.kind == failed {
			why = string(got.data)
			continue
		}
		select {
		case p.frames <- got:
		case <-p.quit:
		}
	}
	// Whatever ended the frames, the process is of no use without them.
	_ = p.command.Process.Kill()
	err := p.command.Wait()
	p.state = "exit status 0"
	if err != nil {
		p.state = err.Error()
	}
	if why != "" {
		p.state = why
	}
	close(p.frames)
}

// tick is how often is looked at what files take.
const tick = 100 * time.Millisecond

// Exchange writes a request, and copies what the program prints until it waits for the next one.
// The error is that of ctx or one of this package's; the process is ended then.
func (p *Process) Exchange(ctx context.Context, request []byte, output, complaints io.Writer) error {
	err := p.exchange(ctx, request, output, complaints)
	if err != nil {
		p.kill()
	}
	return err
}

func (p *Process) exchange(ctx context.Context, request []byte, output, complaints io.Writer) error {
	if len(request) > 0 {
		if _, err := p.requests.Write(request); err != nil { // the helper reads at all times
			return &EndedError{err.Error()}
		}
	}
	clock := time.NewTicker(tick)
	defer clock.Stop()
	for {
		select {
		case got, more := <-p.frames:
			switch {
			case !more:
				return &EndedError{p.state}
			case got.kind == ready:
				return nil
			case got.kind == printed:
				_, _ = output.Write(got.data)
			default:
				_, _ = complaints.Write(got.data)
			}
		case <-clock.C:
			if size(p.folder) > p.disk+p.disk/8 {
				return ErrDisk
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// mostFiles is how many files there may be.
const mostFiles = 65536

// size returns how much is in a folder; too many files are too much.
func size(folder string) (total int64) {
	files := 0
	_ = filepath.WalkDir(folder, func(_ string, entry fs.DirEntry, err error) error {
		if files++; files > mostFiles {
			total = 1 << 62
			return fs.SkipAll
		}
		if err != nil {
			return nil
		}
		if info, err := entry.Info(); err == nil {
			total += info.Size()
		}
		return nil
	})
	return total
}

// Inherit takes over the files of a process that is gone, unless they are too large.
func (p *Process) Inherit(before *Process) error {
	own, theirs := filepath.Join(p.folder, "data"), filepath.Join(before.folder, "data")
	if size(theirs) > p.disk {
		return ErrDisk
	}
	if err := os.Remove(own); err != nil {
		return err
	}
	return os.Rename(theirs, own)
}

// kill ends the process and leaves its files.
func (p *Process) kill() {
	if p.command == nil {
		return
	}
	_ = p.command.Process.Kill()
	select {
	case <-p.quit:
	default:
		close(p.quit)
	}
	for range p.frames {
	}
}

// Close ends the process, and removes its files.
func (p *Process) Close() {
	p.kill()
	if p.requests != nil {
		p.requests.Close()
	}
	_ = os.RemoveAll(p.folder)
}
