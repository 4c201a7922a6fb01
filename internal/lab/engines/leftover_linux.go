package engines

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// EndLeftovers ends what servers of an earlier run of this campaign left behind, should the lab have been
// killed: processes that carry its mark. It returns how many there were.
func EndLeftovers(campaign string) (ended int) {
	want := []byte(mark + "=" + campaign)
	files, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, file := range files {
		environ, err := os.ReadFile(file)
		if err != nil { // ended meanwhile, or somebody else's
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if err != nil || pid == os.Getpid() {
			continue
		}
		for variable := range bytes.SplitSeq(environ, []byte{0}) {
			if bytes.Equal(variable, want) {
				if syscall.Kill(pid, syscall.SIGKILL) == nil {
					ended++
				}
				break
			}
		}
	}
	return ended
}
