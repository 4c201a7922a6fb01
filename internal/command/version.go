package command

import (
	"runtime/debug"
	"strings"
)

// What a release says of itself. The linker writes it (-X), so that a tree without its history
// builds the same program; _tools/release alone sets both.
var (
	version  string // of the tag: v1.2.3
	revision string // of the commit, 40 hexadecimal digits
)

// Version is that of a release, or of the module, or of the commit that it was built from; else
// "dev".
func Version() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		return info.Main.Version
	}
	return "dev"
}

// Revision is the commit that the program was built from, in 40 hexadecimal digits, with "-dirty"
// behind them where files were not as in it; empty where nobody knows.
func Revision() string {
	if revision != "" {
		return revision
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	return stamped(info.Settings)
}

// stamped is the revision that the go command writes into a program.
func stamped(settings []debug.BuildSetting) string {
	var found strings.Builder
	for _, s := range settings { // the revision is told before whether it was modified
		switch {
		case s.Key == "vcs.revision":
			found.WriteString(s.Value)
		case s.Key == "vcs.modified" && s.Value == "true" && found.Len() > 0:
			found.WriteString("-dirty")
		}
	}
	return found.String()
}
