package check

// What to do about an optimisation that is off, in words and as a command. The words hold whoever
// started the server; the command only where it differs from what runs.

import (
	"maps"
	"slices"
	"strings"

	"ossian/internal/lab/engines"
)

// remedy is a change in words, and the command with it; an empty command: nothing that is known of the
// start would change.
func (s *seen) remedy(change *Change) (do, command string) {
	command = s.command(change)
	if change.Shell != "" {
		return "", command
	}
	if command == s.command(&Change{}) {
		command = ""
	}
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(change.Set)) {
		switch value := change.Set[name]; {
		case s.engine == engines.Ollama:
			parts = append(parts, "set "+name+"="+value)
		case value == "":
			parts = append(parts, "add --"+name)
		default:
			parts = append(parts, "add --"+name+" "+quote(value))
		}
	}
	var drop []string
	for _, name := range change.Remove {
		if _, set := change.Set["no-"+name]; set { // the other flag says it
			continue
		}
		flag := "--" + strings.TrimPrefix(name, "--")
		if yes, known := s.truth(name); known && !yes {
			flag = "--no-" + name
		}
		drop = append(drop, flag)
	}
	switch {
	case len(drop) == 1:
		parts = append(parts, "drop "+drop[0])
	case len(drop) > 1:
		parts = append(parts, "drop "+strings.Join(drop, " and ")+", whichever is given")
	}
	if len(drop) > 0 && command == "" {
		parts[len(parts)-1] += ", or what sets it in the configuration or the environment"
	}
	for _, name := range change.Env {
		parts = append(parts, "unset "+name)
	}
	return strings.Join(parts, "; "), command
}
