package python

import (
	"os/exec"
	"runtime"
	"sync"
	"testing"
	"time"
)

// TestThreadsEnd: commands go on while threads of the server end, as they do with goroutines that
// keep theirs. The kernel would end a command with the thread that started it.
func TestThreadsEnd(t *testing.T) {
	if _, err := exec.LookPath("sleep"); err != nil {
		t.Skip("there is no sleep command: ", err)
	}
	var running, ending sync.WaitGroup
	for range 8 {
		running.Go(func() {
			if err := runTogether(exec.CommandContext(t.Context(), "sleep", "0.5")); err != nil {
				t.Errorf("a command was ended: %v", err)
			}
		})
	}
	stop := make(chan struct{})
	go func() {
		running.Wait()
		close(stop)
	}()
	for {
		select {
		case <-stop:
			ending.Wait()
			return
		case <-time.After(time.Millisecond):
			ending.Go(runtime.LockOSThread) // never unlocked: the thread ends with it
		}
	}
}
