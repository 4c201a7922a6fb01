package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// start runs ossian as a server in a process of its own, with its output in a file of that
// name, and returns its address once it is ready.
func (c *config) start(ctx context.Context, name string, args ...string) (url string, stop func(), err error) {
	log, err := os.Create(filepath.Join(c.dir, name+".log"))
	if err != nil {
		return "", nil, err
	}
	cmd := exec.CommandContext(ctx, filepath.Join(c.dir, "ossian"), args...)
	read, write := io.Pipe()
	cmd.Stdout, cmd.Stderr = write, write
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 20 * time.Second
	if err := cmd.Start(); err != nil {
		return "", nil, err
	}
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait() // how it ends says nothing about the clients
		write.Close()
		close(ended)
	}()
	stop = func() {
		_ = cmd.Cancel()
		<-ended
		log.Close()
	}
	lines := bufio.NewScanner(io.TeeReader(read, log))
	waits := map[string]bool{"listening on ": true}
	if args[0] == "serve" {
		waits["model loaded"] = true
	}
	for len(waits) > 0 && lines.Scan() {
		for w := range waits {
			if strings.Contains(lines.Text(), w) {
				delete(waits, w)
			}
		}
		if rest, ok := strings.CutPrefix(lines.Text(), "listening on "); ok {
			url = strings.TrimSpace(rest)
		}
	}
	if len(waits) > 0 {
		stop()
		return "", nil, fmt.Errorf("ossian %s ended before it was ready; it says why in %s", strings.Join(args, " "), log.Name())
	}
	go func() { _, _ = io.Copy(log, read) }()
	return url, stop, nil
}
