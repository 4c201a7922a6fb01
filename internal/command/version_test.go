package command

import (
	"runtime/debug"
	"testing"
)

func TestStamped(t *testing.T) {
	const commit = "0123456789abcdef0123456789abcdef01234567"
	for want, settings := range map[string][]debug.BuildSetting{
		"":                {{Key: "-trimpath", Value: "true"}, {Key: "vcs.modified", Value: "true"}},
		commit:            {{Key: "vcs", Value: "git"}, {Key: "vcs.revision", Value: commit}, {Key: "vcs.modified", Value: "false"}},
		commit + "-dirty": {{Key: "vcs.revision", Value: commit}, {Key: "vcs.modified", Value: "true"}},
	} {
		if got := stamped(settings); got != want {
			t.Errorf("%v: %q, want %q", settings, got, want)
		}
	}
}
