package sandbox

import (
	"strings"
	"testing"
)

// FuzzAnswer: whatever an interpreter says of itself, what is shown to a program is neither all of
// the system nor a part of it that is nobody's library.
func FuzzAnswer(f *testing.F) {
	f.Add([]byte(`{"path":"/proc/self/exe","implementation":"cpython","version":[3,11,2],"prefixes":["/usr","/"],"folders":["/usr/bin","","lib"]}`))
	f.Add([]byte(`{"path":"/proc/self/exe","implementation":"cpython","version":[3,8,0],"prefixes":["/home","/opt/x/"],"folders":["/etc/../etc","/home/"]}`))
	f.Add([]byte(`{"path":"python"}`))
	f.Add([]byte(`{`))
	f.Fuzz(func(t *testing.T, said []byte) {
		found, err := parse("python3", said)
		if err != nil {
			if !strings.Contains(err.Error(), "python3") && !strings.Contains(err.Error(), "/") {
				t.Errorf("%v does not say of what", err)
			}
			return
		}
		for _, path := range found.Reads {
			switch path {
			case "/", "/usr", "/usr/local", "/usr/bin", "/bin", "/etc", "/home", "/root", "/proc", "/dev", "/sys":
				t.Errorf("%s is shown", path)
			}
		}
	})
}

func TestPresent(t *testing.T) {
	folder := t.TempDir()
	got := present([]string{"/nowhere/at/all", folder + "/", "/proc", "/proc/self", folder})
	if len(got) != 2 || got[0] != "/proc" || got[1] != folder {
		t.Errorf("%q", got)
	}
}
