package self

import (
	"cmp"
	"io"
	"os"
	"slices"
	"strings"
)

// A Command is one that may put a model on a GPU, and where it is told on which device.
type Command struct {
	Words       string // the first of its command line: "bench serve"
	Default     string // the device without a word about it
	environment bool   // reads OSSIAN_DEVICE
	file        bool   // reads the key device of the file of --config
}

// Commands are all of them. Others do not start the program's other form.
var Commands = []Command{
	{"serve", "auto", true, true},
	{"run", "auto", false, false},
	{"perplexity", "auto", false, false},
	{"inspect", "cpu", false, false},
	{"bench serve", "auto", false, false},
	{"bench sweep load", "auto", false, false},
	{"bench latency", "auto", false, true},
	{"bench throughput", "auto", false, true},
}

// Device returns the device that a command line asks for, as --device of its command will be read:
// the flag, else the environment, else the file of settings, else the command's default. It is
// "cpu" where the command computes nothing. The other form has to be started before anything else
// has happened, so this looks ahead of the command's own reading. Where the two differ (a file in
// unusual YAML) either the start is some tenths of a second longer than it need be, or the command
// says that there is no CUDA.
func Device(args []string, getenv func(string) string) string {
	words := slices.DeleteFunc(slices.Clone(args), func(word string) bool { return strings.HasPrefix(word, "-") })
	at := slices.IndexFunc(Commands, func(c Command) bool {
		want := strings.Fields(c.Words)
		return len(words) >= len(want) && slices.Equal(words[:len(want)], want)
	})
	if at < 0 || slices.Contains(args, "--help") || slices.Contains(args, "-h") {
		return "cpu"
	}
	command := Commands[at]
	device := value(args, "device")
	if device == "" && command.environment {
		device = getenv("OSSIAN_DEVICE")
	}
	if file := value(args, "config"); device == "" && command.file && file != "" {
		device = deviceInFile(file)
	}
	return strings.ToLower(cmp.Or(device, command.Default))
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
