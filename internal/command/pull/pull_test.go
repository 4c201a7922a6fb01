package pull

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"ossian/internal/command"
	"ossian/internal/command/commandtest"
)

func TestPullBadName(t *testing.T) {
	if _, _, err := commandtest.Run(t, root(), "pull", "../../etc"); err == nil || !strings.Contains(err.Error(), "model name") {
		t.Errorf("got %v", err)
	}
}

// What would not be fetched is not asked for in vain.
func TestPullContradictions(t *testing.T) {
	t.Setenv("HF_HUB_OFFLINE", "1")
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"o/m", "--file", "a.gguf", "--include", "*.json"}, "--include: a.gguf alone"},
		{[]string{"o/m/a.gguf", "--file", "b.gguf"}, "the name says a.gguf"},
		{[]string{"o/m:Q8_0", "--file", "b.gguf"}, "the name says Q8_0"},
		{[]string{"o/m:Q8_0", "--include", "*.json"}, "--include: the one file of Q8_0"},
	} {
		if _, _, err := commandtest.Run(t, root(), append([]string{"pull"}, c.args...)...); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, want %q", c.args, err, c.want)
		}
	}
}

func root() *cobra.Command { return command.Root(Command()) }
