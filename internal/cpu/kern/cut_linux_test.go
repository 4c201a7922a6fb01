package kern

import (
	"os"
	"path/filepath"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// A mapped file that is cut under a job is a panic of Run, which its caller can recover
// from, on whatever worker the page was read, and in generated code as well.
func TestPoolCutFile(t *testing.T) {
	const size = 1 << 20
	path := filepath.Join(t.TempDir(), "weights")
	if err := os.WriteFile(path, make([]byte, size), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b, err := unix.Mmap(int(f.Fd()), 0, size, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Munmap(b) }()
	if err := os.Truncate(path, 4096); err != nil {
		t.Fatal(err)
	}
	p := NewPool(3)
	defer p.Close()
	var into [3][4096]byte
	for _, read := range map[string]func(w, c int){
		"Go":           func(w, c int) { into[w][0] += b[(c+1)*4096] },
		"memory moved": func(w, c int) { copy(into[w][:], b[(c+1)*4096:]) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Error("the pages behind the end were read")
				}
			}()
			struck := make(chan struct{})
			strike := sync.OnceFunc(func() { close(struck) })
			p.Run(200, func(w, c int) {
				if w == 0 { // the test's own goroutine is not prepared
					<-struck
					return
				}
				strike()
				read(w, c)
			})
		}()
	}
}
