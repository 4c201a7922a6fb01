package command

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"sync"
	"time"
)

// A Start serves in this process, as ossian serve would with the arguments, until ctx ends.
// It returns the address when the port is open and the model not yet loaded; ended gets how
// the server ends.
type Start func(ctx context.Context, args []string, log io.Writer) (address string, ended <-chan error, err error)

// Unlimited are arguments for a server in this process that is there for one client: it takes all
// that is sent, and says nothing but warnings.
var Unlimited = []string{"--host", "127.0.0.1", "--port", "0", "--no-access-log", "--log-level", "warn",
	"--max-queue", "1048576", "--limit", "queue-tokens=1099511627776", "--limit", "queue-wait=168h", "--limit", "request-time=168h"}

// Ready starts a server and waits until its model is there. Stop waits until it has ended, after ctx.
func (start Start) Ready(ctx context.Context, args []string, log io.Writer) (base string, stop func() error, err error) {
	address, ended, err := start(ctx, args, log)
	if err != nil {
		return "", nil, err
	}
	base = "http://" + address
	stop = func() error { return <-ended }
	for {
		select {
		case err := <-ended:
			return "", nil, cmp.Or(err, ctx.Err(), errors.New("the server ended before it was ready"))
		// Loading may take minutes: only the end of the server or of ctx, which it obeys, ends the
		// wait.
		case <-time.After(10 * time.Millisecond):
		}
		reply, err := http.Get(base + "/ready")
		if err != nil {
			continue
		}
		reply.Body.Close()
		if reply.StatusCode == http.StatusOK {
			return base, stop, nil
		}
	}
}

// A sharedWriter lets several goroutines write: a server in this process logs where its client
// writes.
type sharedWriter struct {
	mu sync.Mutex // held while to is written to
	to io.Writer
}

// Shared returns a writer that several goroutines may use. Files can be used so anyway, and
// what is a terminal has to stay one.
func Shared(to io.Writer) io.Writer {
	if _, file := to.(*os.File); file {
		return to
	}
	return &sharedWriter{to: to}
}

// Write implements io.Writer.
func (w *sharedWriter) Write(text []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.to.Write(text)
}
