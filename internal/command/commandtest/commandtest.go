// Package commandtest is what tests of commands share: commands run within the test, the
// program as a process of its own, servers, consoles, and models with random weights.
package commandtest

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"ossian/internal/soak"
	"ossian/internal/synth"
)

// argsEnv makes the test binary the program: its arguments, one a line.
const argsEnv = "TEST_OSSIAN_ARGS"

// Main runs the tests of m, or, in a process that Program has made, the program. It does
// not return.
func Main(m *testing.M, program func()) {
	if args, ok := os.LookupEnv(argsEnv); ok {
		os.Args = append(os.Args[:1], strings.Split(args, "\n")...)
		program()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// Program returns a command that is this program, without settings from outside, in an
// empty folder. TestMain of the test must call Main.
func Program(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	for _, variable := range os.Environ() {
		if !strings.HasPrefix(variable, "OSSIAN_") && !strings.HasPrefix(variable, "HF_") {
			cmd.Env = append(cmd.Env, variable)
		}
	}
	cmd.Dir = t.TempDir()
	cmd.Env = append(cmd.Env, "HF_HOME="+cmd.Dir, argsEnv+"="+strings.Join(args, "\n"))
	return cmd
}

// Soaking reports whether figures are taken, on a quiet machine: times are those of
// reliability.md.
func Soaking() bool { return os.Getenv(soak.Env) != "" }

// Run runs c with the arguments and returns what it has written.
func Run(t *testing.T, c *cobra.Command, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	var out, status bytes.Buffer
	c.SetOut(&out)
	c.SetErr(&status)
	c.SetArgs(args)
	err = c.ExecuteContext(t.Context())
	return out.String(), status.String(), err
}

// Serve runs the serve of root on a free port and returns its address; the server
// has to end without an error with the test.
func Serve(t *testing.T, root *cobra.Command, args ...string) string {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	status := &Console{}
	root.SetOut(status)
	root.SetErr(status)
	root.SetArgs(append([]string{"serve", "--port", "0", "--threads", "1", "--max-num-seqs", "4"}, args...))
	ended := make(chan error, 1)
	go func() { ended <- root.ExecuteContext(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("serve: %v\n%s", err, status)
		} else if t.Failed() {
			t.Logf("what the server said:\n%s", status) // why it failed a request, say
		}
	})
	// It is ready when its model is; until then it may end with an error.
	deadline := time.Now().Add(time.Minute)
	for time.Now().Before(deadline) {
		if _, after, ok := strings.Cut(status.String(), "listening on "); ok {
			url, _, done := strings.Cut(after, "\n")
			if r, err := http.Get(url + "/ready"); done && err == nil {
				r.Body.Close()
				if r.StatusCode == http.StatusOK {
					return url
				}
			}
		}
		select {
		case err := <-ended:
			ended <- err
			t.Fatalf("serve: %v\n%s", err, status)
		case <-time.After(10 * time.Millisecond):
		}
	}
	t.Fatalf("not ready after a minute:\n%s", status)
	return ""
}

// Post sends a body of JSON; the reply has to be 200.
func Post(t *testing.T, url, body string) *http.Response {
	t.Helper()
	reply, err := http.Post(url, "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { reply.Body.Close() })
	if reply.StatusCode != http.StatusOK {
		b, _ := io.ReadAll(reply.Body)
		t.Fatalf("%s: %s", reply.Status, b)
	}
	return reply
}

// A Console is what a command writes, for tests that read while it runs.
type Console struct {
	mu   sync.Mutex // guards text
	text bytes.Buffer
}

// Write implements io.Writer.
func (c *Console) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.text.Write(b)
}

// String returns what has been written so far.
func (c *Console) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.text.String()
}

// WriteModel writes a tiny model of a preset in the working directory.
func WriteModel(t *testing.T, preset, name string, options synth.Options) {
	t.Helper()
	m, err := synth.Preset(preset)
	if err != nil {
		t.Fatal(err)
	}
	options.Model = m
	if err := synth.Write(t.Context(), name, options, nil); err != nil {
		t.Fatal(err)
	}
}
