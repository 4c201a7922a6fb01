//go:build unix

package main

import (
	"bufio"
	"io"
	"net/http"
	"os"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"ossian/internal/command/commandtest"
)

// TestHLT4LogReader: a server whose log is a pipe goes on when the reader of it ends, as
// head does, and when it stalls, as a collector that is stopped; what is lost is counted.
func TestHLT4LogReader(t *testing.T) {
	for _, stalls := range []bool{false, true} {
		reader, writer, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		c := commandtest.Program(t, "serve", "--port", "0", "--threads", "1", "--store", "memory")
		c.Stdout, c.Stderr = writer, writer
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		writer.Close()
		lines := bufio.NewReader(reader)
		url := ""
		for url == "" {
			line, err := lines.ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			_, url, _ = strings.Cut(strings.TrimSpace(line), "listening on ")
		}
		if !stalls {
			reader.Close()
		}
		get := func(path string) (int, string) {
			r, err := http.Get(url + path)
			if err != nil {
				t.Fatalf("stalls %v: %v", stalls, err)
			}
			defer r.Body.Close()
			body, _ := io.ReadAll(r.Body)
			return r.StatusCode, string(body)
		}
		for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
			if status, _ := get("/health"); status == http.StatusOK {
				break
			}
			if time.Now().After(end) {
				t.Fatalf("stalls %v: not healthy after a minute", stalls)
			}
		}
		commandtest.Post(t, url+"/v1/completions", `{"prompt":"1","max_tokens":2}`)
		for range 1000 { // more than a pipe holds
			if status, _ := get("/version"); status != http.StatusOK {
				t.Fatalf("stalls %v: status %d", stalls, status)
			}
		}
		_, metrics := get("/metrics")
		lost := regexp.MustCompile(`(?m)^ossian_log_lines_dropped_total (\S+)$`).FindStringSubmatch(metrics)
		if lost == nil || (lost[1] == "0") != stalls { // what stalls may still be read: it is in memory
			t.Errorf("stalls %v: %q lines are counted", stalls, lost)
		}
		_ = c.Process.Signal(syscall.SIGTERM)
		if err := c.Wait(); err != nil {
			t.Errorf("stalls %v: %v", stalls, err)
		}
		reader.Close()
	}
}
