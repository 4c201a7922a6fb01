package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// command is a process that ends with ctx, and with it all that it started.
func command(ctx context.Context, name string, args ...string) *exec.Cmd {
	c := exec.CommandContext(ctx, name, args...)
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
	c.WaitDelay = 10 * time.Second
	return c
}

// process does a task that ends by itself.
func (b *bench) process(ctx context.Context, p *program, t task, r *record) error {
	c := command(ctx, p.executable(t.tool), t.args...)
	c.Dir = b.tmp // some leave logs where they run
	var stdout, stderr bytes.Buffer
	c.Stdout, c.Stderr = &stdout, &stderr
	began := time.Now()
	err := c.Run()
	if err != nil {
		return failure(ctx, err, append(stdout.Bytes(), stderr.Bytes()...))
	}
	r.Wall = time.Since(began).Seconds()
	r.CPU, r.Peak = usage(c)
	if m := commit.FindSubmatch(stdout.Bytes()); m != nil {
		r.Commit = string(m[1])
	}
	r.Values, err = t.parse(stdout.Bytes(), stderr.Bytes())
	return err
}

// commit finds what llama-bench says that it was built from.
var commit = regexp.MustCompile(`"build_commit": "(\w+)"`)

// failure says what a process said of errors, and what it said last.
func failure(ctx context.Context, err error, output []byte) error {
	if ctx.Err() != nil {
		err = fmt.Errorf("ended before it was done (-limit %v)", *limit)
	}
	lines := strings.Split(strings.TrimSpace(string(output)), "\n")
	end := max(0, len(lines)-4)
	said := slices.DeleteFunc(slices.Clone(lines[:end]), func(line string) bool { return !complaint.MatchString(line) })
	said = append(said[:min(len(said), 8)], lines[end:]...)
	return fmt.Errorf("%w\n\t%s", err, strings.Join(said, "\n\t"))
}

var complaint = regexp.MustCompile(`(?i)error|invalid|fail|unable`)

// usage is seconds of CPU and most bytes of memory of a process that has ended.
func usage(c *exec.Cmd) (seconds, bytes float64) {
	s := c.ProcessState
	return (s.UserTime() + s.SystemTime()).Seconds(), float64(s.SysUsage().(*syscall.Rusage).Maxrss) * 1024
}

// server starts a server and, for a load, has ossian bench serve measure it.
func (b *bench) server(ctx context.Context, s *subject, p *program, t task, r *record) (err error) {
	began := time.Now()
	up, err := b.start(ctx, p, t, "server.log")
	if err != nil {
		return err
	}
	defer func() {
		if e := stop(up.c, up.ended); err == nil {
			err = e
		}
		if err != nil {
			err = failure(ctx, err, up.words())
			return
		}
		_, r.Peak = usage(up.c)
	}()
	if err := up.ready(ctx); err != nil {
		return err
	}
	r.Wall = time.Since(began).Seconds()
	if r.CPU, err = up.spent(); err != nil || t.part == "ready" {
		r.Values = map[string]float64{readyTime: r.Wall}
		return err
	}
	return b.through(ctx, s, p, t, up, r)
}

// through has the client measure a server.
func (b *bench) through(ctx context.Context, s *subject, p *program, t task, up *standing, r *record) error {
	began := time.Now()
	start, err := up.spent()
	if err != nil {
		return err
	}
	if err := b.client(ctx, s, p, t, up.address, r); err != nil {
		return err
	}
	r.Wall = time.Since(began).Seconds()
	end, err := up.spent()
	r.CPU = end - start
	return err
}

// answers waits until url is answered with success.
func answers(ctx context.Context, url string, ended chan error) error {
	client := &http.Client{Timeout: 5 * time.Second}
	for {
		if r, err := client.Get(url); err == nil {
			r.Body.Close()
			if r.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case err := <-ended:
			ended <- err
			return errors.New("the server ended before it was ready")
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// stop ends a server and waits for that. How it takes the signal is its own affair.
func stop(c *exec.Cmd, ended chan error) error {
	if err := syscall.Kill(-c.Process.Pid, syscall.SIGTERM); err != nil && !errors.Is(err, syscall.ESRCH) {
		return err
	}
	select {
	case <-ended:
	case <-time.After(20 * time.Second):
		if err := c.Cancel(); err != nil {
			return err
		}
		<-ended
	}
	return nil
}

// client sends a load and reads the result.
func (b *bench) client(ctx context.Context, s *subject, p *program, t task, address string, r *record) error {
	dialect := map[string]string{ossian: "ossian", llamaCpp: "llama.cpp", ikLlama: "llama.cpp"}[p.name]
	if dialect == "" {
		dialect = "vllm"
	}
	const result = "served.json"
	c := command(ctx, *bin, "bench", "serve", "--base-url", address, "--dialect", dialect, "--model", servedName,
		"--tokenizer", filepath.Join(*dir, s.base), "--dataset-name", "random", "--prompt-token-ids", "--ignore-eos",
		"--input-len", strconv.Itoa(t.input), "--output-len", strconv.Itoa(t.output), "--num-prompts", strconv.Itoa(t.load.requests),
		"--max-concurrency", strconv.Itoa(t.load.streams), "--save-result", "--save-detailed", "--result-dir", b.tmp, "--result-filename", result)
	output, err := c.CombinedOutput()
	if err != nil {
		return failure(ctx, fmt.Errorf("ossian bench serve: %w", err), output)
	}
	text, err := os.ReadFile(filepath.Join(b.tmp, result))
	if err != nil {
		return err
	}
	if r.Values, err = parseServed(text, t.load.requests, t.output); err != nil {
		return err
	}
	switch t.part { // what other programs have a tool for
	case "prefill":
		r.Values = map[string]float64{t.variant: float64(t.input) / r.Values[ttft]}
	case "decode":
		r.Values = map[string]float64{t.variant: 1000 / r.Values[tpot]}
	}
	return nil
}

// ticks adds up user and system time, in seconds, of a line of /proc/PID/stat (proc(5), fields 14
// and 15); the name in front may contain anything.
func ticks(stat string) (float64, error) {
	f := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	if len(f) < 13 {
		return 0, fmt.Errorf("%q is no line of /proc/PID/stat", stat)
	}
	user, err1 := strconv.ParseFloat(f[11], 64)
	system, err2 := strconv.ParseFloat(f[12], 64)
	return (user + system) / 100, errors.Join(err1, err2) // USER_HZ is 100 on all that Ossian runs on
}

// freePort is a port that nobody listened to a moment ago.
func freePort() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	return port, err
}
