package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// A standing is a server that runs. One that takes minutes to start goes on for all runs, and is stopped
// while others are measured: what its threads do while they wait for work would be in the others' figures.
type standing struct {
	c       *exec.Cmd
	ended   chan error
	address string
	probe   string
	log     string
}

// start starts a server, whose words go to a file of that name.
func (b *bench) start(ctx context.Context, p *program, t task, name string) (*standing, error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	said, err := os.Create(filepath.Join(b.tmp, name))
	if err != nil {
		return nil, err
	}
	defer said.Close()
	c := command(ctx, p.executable(t.tool), append(t.args[:len(t.args):len(t.args)], port)...)
	c.Dir, c.Env = b.tmp, append(os.Environ(), t.env...)
	c.Stdout, c.Stderr = said, said
	if err := c.Start(); err != nil {
		return nil, err
	}
	up := &standing{c: c, ended: make(chan error, 1), address: "http://127.0.0.1:" + port, probe: "/health", log: said.Name()}
	if p.name == ossian {
		up.probe = "/ready" // as its /health, 503 while it loads, and a token has gone through the engine
	}
	go func() { up.ended <- c.Wait() }()
	return up, nil
}

// ready waits until the server is.
func (up *standing) ready(ctx context.Context) error {
	return answers(ctx, up.address+up.probe, up.ended)
}

// words are what the server has said.
func (up *standing) words() []byte {
	text, _ := os.ReadFile(up.log)
	return text
}

// signal sends a signal to all processes of the server.
func (up *standing) signal(s syscall.Signal) error { return syscall.Kill(-up.c.Process.Pid, s) }

// spent is the seconds of CPU of the server and of all that it has started.
func (up *standing) spent() (seconds float64, err error) {
	all, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return 0, err
	}
	for _, name := range all {
		text, err := os.ReadFile(name)
		if err != nil || groupOf(string(text)) != up.c.Process.Pid {
			continue // it has ended, or is another's
		}
		of, err := ticks(string(text))
		if err != nil {
			return 0, err
		}
		seconds += of
	}
	return seconds, nil
}

// groupOf is the process group in a line of /proc/PID/stat, 0 if it is none.
func groupOf(stat string) int {
	fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	if len(fields) < 3 {
		return 0
	}
	group, _ := strconv.Atoi(fields[2])
	return group
}

// loaded measures a program by a server that goes on. The first load of a server is one that nobody sees:
// kernels are made for the first shapes that come.
func (b *bench) loaded(ctx context.Context, s *subject, p *program, t task, r *record) (err error) {
	up := b.standing[p.name]
	if up == nil {
		// It outlives the task, and ends with the measurement.
		if up, err = b.start(b.ctx, p, t, "standing-"+strings.ReplaceAll(p.name, " ", "-")+".log"); err != nil {
			return err
		}
		b.standing[p.name] = up
		if err := up.ready(ctx); err != nil {
			delete(b.standing, p.name)
			return failure(ctx, err, append(up.words(), fmt.Sprint(stop(up.c, up.ended))...))
		}
		unseen, first := *r, t
		first.load = load{streams: t.load.streams, requests: t.load.streams}
		if err := b.client(ctx, s, p, first, up.address, &unseen); err != nil {
			return err
		}
	}
	if err := up.signal(syscall.SIGCONT); err != nil {
		return err
	}
	time.Sleep(100 * time.Millisecond) // what was overdue
	if err := b.through(ctx, s, p, t, up, r); err != nil {
		return err
	}
	return up.signal(syscall.SIGSTOP)
}

// stopAll ends all servers that stand.
func (b *bench) stopAll() {
	for name, up := range b.standing {
		_ = up.signal(syscall.SIGCONT)
		_ = stop(up.c, up.ended)
		delete(b.standing, name)
	}
}
