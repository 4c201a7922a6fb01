package serve

import (
	"bytes"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"
)

// Who reads the log must not be able to harm the server: a pipe whose reader has ended is a
// signal that ends the process, and one whose reader stalls holds whoever writes. Requests
// write into memory here, and one goroutine waits for the reader.

// A logWriter keeps lines until they are written, a bounded number of bytes of them; what
// does not fit, or cannot be written, is dropped and counted. Write never waits and never
// fails.
type logWriter struct {
	out     io.Writer
	dropped func() // counts a line that is lost

	mu      sync.Mutex // guards waiting, size and ended
	waiting [][]byte
	size    int           // bytes of these
	more    chan struct{} // one element: waiting has grown, or the end has come
	ended   bool
	done    chan struct{} // closed when all is written
}

const (
	mostLog  = 4 << 20     // bytes of lines that wait
	lastLogs = time.Second // for the lines that wait when the server has ended
)

// newLogWriter returns a writer to out that has to be closed.
func newLogWriter(out io.Writer, dropped func()) *logWriter {
	w := &logWriter{out: out, dropped: dropped, more: make(chan struct{}, 1), done: make(chan struct{})}
	go w.run()
	return w
}

// Write implements io.Writer.
func (w *logWriter) Write(line []byte) (int, error) {
	w.mu.Lock()
	fits := !w.ended && w.size+len(line) <= mostLog
	if fits {
		w.waiting, w.size = append(w.waiting, bytes.Clone(line)), w.size+len(line)
	}
	w.mu.Unlock()
	if !fits {
		w.dropped()
		return len(line), nil
	}
	w.wake()
	return len(line), nil
}

func (w *logWriter) wake() {
	select {
	case w.more <- struct{}{}:
	default: // it is awake
	}
}

// run writes the lines until the end.
func (w *logWriter) run() {
	defer close(w.done)
	for range w.more {
		for line := w.take(); line != nil; line = w.take() {
			// A reader that has ended may come back: a terminal, a collector behind a named pipe.
			if _, err := w.out.Write(line); err != nil {
				w.dropped()
			}
			w.mu.Lock()
			w.size -= len(line)
			w.mu.Unlock()
		}
		w.mu.Lock()
		ended := w.ended && len(w.waiting) == 0
		w.mu.Unlock()
		if ended {
			return
		}
	}
}

// take returns the line that waits longest, nil without any.
func (w *logWriter) take() []byte {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.waiting) == 0 {
		return nil
	}
	line := w.waiting[0]
	w.waiting[0] = nil
	w.waiting = w.waiting[1:]
	return line
}

// close lets what waits be written, for a while: a reader that stalls does not keep the
// process.
func (w *logWriter) close() {
	w.mu.Lock()
	w.ended = true
	w.mu.Unlock()
	w.wake()
	select {
	case <-w.done:
	case <-time.After(lastLogs):
	}
}

// outliveReaders makes a write to a standard output or error that nobody reads an error like
// every other, where the process would end by SIGPIPE.
func outliveReaders() {
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
}
