package engines

import (
	"compress/gzip"
	"fmt"
	"os"
	"strings"
	"sync"

	"ossian/internal/terminal"
)

// maxLog is how much of a server's output is kept: its last MiB (lab.md 3.2).
const maxLog = 1 << 20

// Log keeps the end of what a server and its client print. It is an io.Writer for several programs.
type Log struct {
	mu      sync.Mutex // guards all below: a server's two outputs come from two goroutines
	kept    []byte
	dropped int64 // bytes before kept
}

// Write takes output in; it never fails.
func (l *Log) Write(text []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.kept = append(l.kept, text...)
	if over := len(l.kept) - maxLog; over > maxLog/4 { // move rarely
		l.kept = append(l.kept[:0], l.kept[over:]...)
		l.dropped += int64(over)
	}
	return len(text), nil
}

// end is the last MiB. The caller holds the lock.
func (l *Log) end() []byte { return l.kept[max(0, len(l.kept)-maxLog):] }

// Tail returns the last lines that say something, at most so many, cleaned of what would steer a
// terminal and cut to a readable width.
func (l *Log) Tail(most int) []string {
	l.mu.Lock()
	text := string(l.end())
	l.mu.Unlock()
	var out []string
	for line := range strings.SplitSeq(text, "\n") {
		// A progress bar rewrites its line: what stands at the end is what one would see.
		if _, last, ok := strings.Cut(strings.TrimRight(line, "\r"), "\r"); ok {
			line = last[strings.LastIndexByte(last, '\r')+1:]
		}
		line = strings.Map(terminal.Printable, strings.TrimRight(line, " \r\t"))
		if line == "" {
			continue
		}
		if len(line) > 300 {
			line = strings.ToValidUTF8(line[:300], "") + "…"
		}
		out = append(out, line)
	}
	return out[max(0, len(out)-most):]
}

// Save writes what is kept to a new gzip file.
func (l *Log) Save(path string) (err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	packer := gzip.NewWriter(file)
	if gone := l.dropped + int64(len(l.kept)-len(l.end())); gone > 0 {
		fmt.Fprintf(packer, "[%d bytes before this are not kept]\n", gone)
	}
	_, err = packer.Write(l.end())
	for _, end := range []error{packer.Close(), file.Close()} {
		if err == nil {
			err = end
		}
	}
	return err
}
