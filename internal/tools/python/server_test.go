package python

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"ossian/internal/limits"
	"ossian/internal/tools"
)

// A stubborn interpreter takes until gone to be ended.
type stubborn struct {
	interpreter
	asked, gone chan struct{}
}

func (s *stubborn) close() {
	close(s.asked)
	<-s.gone
}

// TestSlotIsFreeBehindInterpreter: as long as an interpreter is being ended nobody gets its slot, with
// which goes the user that it runs as.
func TestSlotIsFreeBehindInterpreter(t *testing.T) {
	set := limits.Defaults()
	set[limits.PythonProcesses] = 1
	s := newServer(nil, &Options{Limits: func() *limits.Set { return set }})
	slow := &stubborn{asked: make(chan struct{}), gone: make(chan struct{})}
	old, next := &holder{running: slow}, &holder{sessions: 1}
	if !s.acquire(t.Context(), old) {
		t.Fatal("a server has no slot at first")
	}
	ended := make(chan struct{})
	go func() {
		s.end(old)
		close(ended)
	}()
	<-slow.asked
	hurried, cancel := context.WithCancel(t.Context())
	cancel()
	if s.acquire(hurried, next) {
		t.Error("the slot of an interpreter that is being ended was given to another one")
	}
	close(slow.gone)
	<-ended
	if !s.acquire(t.Context(), next) || next.slot != 0 {
		t.Errorf("behind it the slot is not free: %+v", next)
	}
}

// TestDockerEndsWithServer: the container of a call that was cut off is gone when the server is.
func TestDockerEndsWithServer(t *testing.T) {
	folder := program(t, "docker", `[ "$1" = run ] && exec sleep 1000
sleep 0.2
echo gone > "$0.gone"`)
	set := limits.Defaults()
	set[limits.ToolTime] = 50
	server, err := New(Options{Backend: "docker", Limits: func() *limits.Set { return set }})
	if err != nil {
		t.Fatal(err)
	}
	session := server.Open(tools.Chain{})
	if got := session.Call(t.Context(), tools.Call{Arguments: "while True: pass"}); got.Outcome != tools.TimedOut {
		t.Errorf("%v %q", got.Outcome, got.Text)
	}
	session.Close()
	if err := server.(*Server).Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(folder, "docker.gone")); err != nil {
		t.Errorf("the server has ended, its container has not: %v", err)
	}
}

// TestKernelsLine: a call that waits for another one's end in a shared kernel does not outlast its time.
func TestKernelsLine(t *testing.T) {
	shared := &notebook{turn: make(chan struct{}, 1)}
	shared.turn <- struct{}{} // somebody's call runs
	hurried, cancel := context.WithCancel(t.Context())
	cancel()
	if err := (visitor{shared}).run(hurried, "1", nil, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("who waits in line got %v", err)
	}
}
