package self

import (
	"io"
	"os"
	"slices"
	"strings"
)

// Commands are those that put a model on a device, as the first words of their command lines.
var Commands = []string{"serve", "run", "perplexity", "bench serve", "bench latency", "bench throughput"}

// Device returns the device that a command line asks for, as --device of its command will be read:
// the flag, else OSSIAN_DEVICE, else the key device of the file that --config names, else auto. It
// is "cpu" where the command computes nothing. The other form has to be started before anything
// else has happened, so this looks ahead of the command's own reading, and where the two differ (a
// file in unusual YAML) only the start is longer than it need be, or the line of the command says
// that there is no CUDA.
func Device(args []string, getenv func(string) string) string {
	words := slices.DeleteFunc(slices.Clone(args), func(word string) bool { return strings.HasPrefix(word, "-") })
	named := func(command string) bool {
		length := strings.Count(command, " ") + 1
		return len(words) >= length && strings.Join(words[:length], " ") == command
	}
	if !slices.ContainsFunc(Commands, named) || slices.Contains(args, "--help") || slices.Contains(args, "-h") {
		return "cpu"
	}
	device := value(args, "device")
	if device == "" {
		device = getenv("OSSIAN_DEVICE")
	}
	if device == "" && words[0] == "serve" {
		if file := value(args, "config"); file != "" {
			device = deviceInFile(file)
		}
	}
	if device == "" {
		return "auto"
	}
	return strings.ToLower(device)
}

// value returns what a flag is given last: --name value or --name=value.
func value(args []string, name string) (found string) {
	for i, arg := range args {
		if given, ok := strings.CutPrefix(arg, "--"+name+"="); ok {
			found = given
		} else if arg == "--"+name && i+1 < len(args) {
			found = args[i+1]
		}
	}
	return found
}

// deviceInFile returns the value of the key device in a file of settings; "" where there is none.
func deviceInFile(name string) (found string) {
	file, err := os.Open(name)
	if err != nil {
		return "" // the command will say so
	}
	defer file.Close()
	text, _ := io.ReadAll(io.LimitReader(file, 1<<20)) // as much as the command reads
	for line := range strings.Lines(string(text)) {
		if given, ok := strings.CutPrefix(line, "device:"); ok {
			given, _, _ = strings.Cut(given, " #")
			found = strings.Trim(strings.TrimSpace(given), `"'`)
		}
	}
	return found
}
