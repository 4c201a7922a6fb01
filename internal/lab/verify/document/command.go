package document

// Commands in documents: how a server was started and how it was loaded, as shell commands
// (in code fences or not), as lists of flags, and as the Namespace(...) line in which
// Python's tools print their arguments.

import (
	"math"
	"strconv"
	"strings"

	"ossian/internal/lazyregexp"
)

// A Command is one command of a document.
type Command struct {
	Line   int
	Text   string // as it stands there, on one line
	Serves bool   // starts a server
	engine string
	Model  string            // "" = not named
	Flags  map[string]string // by name without dashes, _ as -; "true" for flags alone
	Load   *Workload         // of commands that load a server
	fenced bool
}

// maxCommands bounds the commands of one document.
const maxCommands = 5_000

// programs are how commands begin that start or load a server: words in a row.
var programs = []struct {
	words    string
	engine   string
	serves   bool
	measures bool
}{
	{"vllm bench serve", "vllm", false, true},
	{"vllm serve", "vllm", true, false},
	{"vllm.entrypoints.openai.api_server", "vllm", true, false},
	{"sglang.launch_server", "sglang", true, false},
	{"sglang serve", "sglang", true, false},
	{"sglang.bench_serving", "sglang", false, true},
	{"trtllm-serve", "tensorrt-llm", true, false},
	{"lmdeploy serve api_server", "lmdeploy", true, false},
	{"profile_restful_api.py", "lmdeploy", false, true},
	{"benchmark_serving.py", "vllm", false, true},
	{"ossian bench serve", "ossian", false, true},
	{"ossian serve", "ossian", true, false},
	{"llama-server", "llama.cpp", true, false},
	{"ollama run", "ollama", true, false},
	{"guidellm benchmark", "guidellm", false, true},
}

var (
	namespaceLine = lazyregexp.New(`Namespace\((.+)\)\s*$`)
	namespaceItem = lazyregexp.New(`([A-Za-z_][A-Za-z0-9_]*)=('[^']*'|"[^"]*"|\[[^\]]*\]|[^,\s()]+)`)
	flagsOnly     = lazyregexp.New(`^\s*--?[A-Za-z][\w-]*(?:[= ]\S.*)?\\?$`)
	placeholder   = lazyregexp.New(`[$<{}>]|\.\.\.|…`)
)

// findCommands finds the commands of a text.
func (d *Document) findCommands() {
	for i := 0; i < len(d.Lines) && len(d.Commands) < maxCommands; i++ {
		line := d.Lines[i]
		if match := namespaceLine.FindStringSubmatch(line); match != nil {
			d.Commands = append(d.Commands, namespaceCommand(match[1], i+1))
			continue
		}
		at, program := commandStart(line)
		if at < 0 {
			if d.Fenced[i] && flagsOnly.MatchString(line) && (i == 0 || !flagsOnly.MatchString(d.Lines[i-1])) {
				d.flagList(i)
			}
			continue
		}
		// A command in prose is one only between code ticks.
		if !d.Fenced[i] && !strings.Contains(line[:at], "`") && strings.TrimLeft(line[:at], " \t$>") != "" {
			continue
		}
		text, first := line[at:], i
		for strings.HasSuffix(strings.TrimSpace(text), `\`) && i+1 < len(d.Lines) && i-first < 60 {
			i++
			text = strings.TrimSuffix(strings.TrimSpace(text), `\`) + " " + strings.TrimSpace(d.Lines[i])
		}
		text, _, _ = strings.Cut(text, "`")
		command := parseCommand(text, programs[program].words)
		command.Line, command.engine, command.Serves, command.fenced = first+1, programs[program].engine, programs[program].serves, d.Fenced[first]
		if programs[program].measures {
			command.Load = command.workload()
		}
		d.Commands = append(d.Commands, command)
	}
}

// commandStart is where in a line which program is started; -1 for none.
func commandStart(line string) (at, program int) {
	if trimmed := strings.TrimSpace(line); strings.HasPrefix(trimmed, "|") || strings.HasPrefix(trimmed, "#") {
		return -1, 0
	}
	for i := range programs {
		if at := strings.Index(line, programs[i].words); at >= 0 {
			rest := line[at+len(programs[i].words):]
			if rest == "" || rest[0] == ' ' || rest[0] == '\t' || rest[0] == '\\' {
				return at, i
			}
		}
	}
	return -1, 0
}

// flagList reads flags alone, one a line, as some documents give a server's settings.
func (d *Document) flagList(first int) {
	var text []string
	for i := first; i < len(d.Lines) && flagsOnly.MatchString(d.Lines[i]); i++ {
		text = append(text, strings.TrimSuffix(strings.TrimSpace(d.Lines[i]), `\`))
	}
	c := parseCommand(strings.Join(text, " "), "")
	c.Line, c.Serves, c.fenced = first+1, true, true
	d.Commands = append(d.Commands, c)
}

// parseCommand reads the words behind a program.
func parseCommand(text, program string) Command {
	command := Command{Text: strings.TrimSpace(text), Flags: map[string]string{}}
	words := strings.Fields(strings.TrimPrefix(command.Text, program))
	for i := 0; i < len(words); i++ {
		word := strings.Trim(words[i], `'"`)
		switch {
		case word == "&" || word == "|" || word == ";" || word == "&&" || strings.HasPrefix(word, ">"):
			return command.named()
		case strings.HasPrefix(word, "#") && i > 0:
			return command.named()
		case len(word) > 1 && word[0] == '-' && (word[1] == '-' || word[1] > '9'):
			name, value, joined := strings.Cut(strings.TrimLeft(word, "-"), "=")
			if !joined && i+1 < len(words) && isValue(words[i+1]) {
				i++
				value, joined = words[i], true
			}
			if !joined {
				value = "true"
			}
			command.Flags[flagName(name)] = strings.Trim(value, `'"`)
		case i == 0:
			command.Model = word
		}
	}
	return command.named()
}

// isValue reports whether a word is the value of the flag before it.
func isValue(word string) bool {
	if word == "" || word == "&" || word == "|" || word == ";" {
		return false
	}
	return word[0] != '-' || (len(word) > 1 && word[1] >= '0' && word[1] <= '9')
}

// flagNames are short and foreign names of flags by the long ones.
var flagNames = map[string]string{"tp": "tensor-parallel-size", "tp-size": "tensor-parallel-size", "pp": "pipeline-parallel-size",
	"pp-size": "pipeline-parallel-size", "dp": "data-parallel-size", "dp-size": "data-parallel-size", "model-path": "model",
	"m": "model", "model-name": "model"}

// flagName is the name of a flag in one spelling.
func flagName(name string) string {
	name = strings.ReplaceAll(strings.ToLower(name), "_", "-")
	if long, ok := flagNames[name]; ok {
		return long
	}
	return name
}

// named settles which model a command names; placeholders name none.
func (c Command) named() Command {
	if model, ok := c.Flags["model"]; ok {
		c.Model = model
	}
	if placeholder.MatchString(c.Model) {
		c.Model = ""
	}
	return c
}

// namespaceCommand reads the arguments of a Namespace line.
func namespaceCommand(text string, line int) Command {
	command := Command{Line: line, Text: "Namespace(" + text + ")", Flags: map[string]string{}}
	for _, item := range namespaceItem.FindAllStringSubmatch(text, 400) {
		if value := strings.Trim(item[2], `'"`); value != "None" && value != "False" {
			command.Flags[flagName(item[1])] = value
		}
	}
	command.engine = command.Flags["backend"]
	command = command.named()
	command.Load = command.workload()
	return command
}

// Integer is a flag as a whole number; false where it is none.
func (c *Command) Integer(names ...string) (int, bool) {
	for _, name := range names {
		if value, err := strconv.Atoi(c.Flags[name]); err == nil {
			return value, true
		}
	}
	return 0, false
}

// workload is the load that a command puts on a server. Without a rate all requests are
// sent at once: that is the default of every tool whose commands are known here.
func (c *Command) workload() *Workload {
	load := &Workload{Dataset: strings.ToLower(c.Flags["dataset-name"]), Rate: math.Inf(1)}
	if count, ok := c.Integer("num-prompts", "max-requests"); ok {
		load.Count = count
	}
	if limit, ok := c.Integer("max-concurrency", "concurrency"); ok {
		load.Limit = max(limit, 0)
	}
	if shared, ok := c.Integer("random-prefix-len", "prefix-len"); ok && shared > 0 {
		load.Prefix = float64(shared)
	}
	if rate, err := strconv.ParseFloat(c.Flags["request-rate"], 64); err == nil && rate > 0 {
		load.Rate = rate
	}
	if seed, ok := c.Integer("seed"); ok {
		load.Seed = &seed
	}
	if input, ok := c.Integer("random-input-len", "input-len"); ok {
		load.Input = float64(input)
	}
	if output, ok := c.Integer("random-output-len", "output-len"); ok {
		load.Output = float64(output)
	}
	return load
}

// Devices is how many devices a serve command takes at least.
func (c *Command) Devices() int {
	count := 1
	for _, name := range []string{"tensor-parallel-size", "pipeline-parallel-size"} {
		if n, ok := c.Integer(name); ok && n > 0 && n <= 1024 {
			count *= n
		}
	}
	return count
}
