package command

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"ossian/internal/nearest"
)

// A foreignCommand is a command of another tool, which people try here.
type foreignCommand struct {
	names []string
	does  string // what to do in its place
}

// foreignCommands are those of Ollama, llama.cpp, vLLM, SGLang, LM Studio and the Hugging Face
// tools that have another name here, or no counterpart.
var foreignCommands = []foreignCommand{
	{[]string{"list", "ls", "models"}, "models lie in the cache that is shared with the Hugging Face tools, models--ORG--NAME in HF_HUB_CACHE (~/.cache/huggingface/hub); ossian inspect ORG/NAME tells of one"},
	{[]string{"rm", "remove", "delete", "prune"}, "a model is removed by deleting its folder models--ORG--NAME in HF_HUB_CACHE (~/.cache/huggingface/hub); ossian inspect MODEL --remove-packed removes packed weights"},
	{[]string{"ps", "status"}, "a model is loaded as long as its ossian serve runs; GET /v1/models names it and GET /health tells how it is"},
	{[]string{"stop", "unload", "kill"}, "Ctrl-C or SIGTERM ends an ossian serve, and its model with it"},
	{[]string{"show", "info", "view"}, "it is called ossian inspect MODEL here"},
	{[]string{"chat", "cli", "generate", "complete", "ask", "prompt", "talk", "llama-cli", "llama-run"}, "it is called ossian run [MODEL] [PROMPT] here; without a prompt, on a terminal, it chats"},
	{[]string{"server", "start", "api", "launch", "launch-server", "api-server", "llama-server", "text-generation-launcher"}, "it is called ossian serve [MODEL] here"},
	{[]string{"download", "fetch", "get", "install"}, "it is called ossian pull ORG/NAME here"},
	{[]string{"search"}, "models are looked for at huggingface.co; ossian pull ORG/NAME fetches one"},
	{[]string{"cp", "copy", "tag"}, "ossian serve MODEL --served-model-name NAME gives a model another name"},
	{[]string{"create", "import"}, "there are no Modelfiles: ossian run and ossian serve take a directory or a GGUF file as it is, and settings as flags"},
	{[]string{"push", "upload", "login", "signin", "logout", "signout"}, "Ossian does not publish; HF_TOKEN is the token for fetching"},
	{[]string{"embed", "embedding", "rerank"}, "Ossian generates text; it makes no embeddings and ranks nothing"},
	{[]string{"quantize", "convert", "llama-quantize", "imatrix", "llama-imatrix"}, "checkpoints are read as they are; --cpu-weights q8 of ossian run and ossian serve keeps 16-bit weights in 8 bits"},
	{[]string{"update", "upgrade"}, "Ossian does not update itself: install it again"},
	{[]string{"benchmark", "llama-bench", "bench-one-batch", "bench-latency", "bench-offline-throughput", "text-generation-benchmark"}, "it is called ossian bench here"},
	{[]string{"bench-serving", "benchmark-serving", "llama-batched-bench"}, "it is called ossian bench serve here"},
	{[]string{"llama-perplexity"}, "it is called ossian perplexity here"},
	{[]string{"tokenize", "detokenize", "llama-tokenize"}, "a server does it: ossian serve, and POST /tokenize or /detokenize"},
	{[]string{"load"}, "a model is loaded by what uses it: ossian run MODEL, or ossian serve MODEL"},
	{[]string{"run-batch"}, "there are no batch files: ossian serve takes the requests of one as they are, many at once"},
	{[]string{"verify", "check"}, "ossian inspect MODEL --verify looks for damage"},
	{[]string{"config", "env", "settings"}, "ossian serve --explain prints every setting, its origin and reason"},
	{[]string{"version"}, "ossian --version prints it"},
}

// unknownCommand is the error for a word that names no command of the program.
func unknownCommand(root *cobra.Command, word string) error {
	var names []string
	for _, sub := range root.Commands() {
		if name := sub.Name(); !sub.Hidden && name != "help" && name != "completion" { // cobra's own
			names = append(names, name)
		}
	}
	spelling := strings.ReplaceAll(strings.ToLower(word), "_", "-") // SGLang writes launch_server
	for _, foreign := range foreignCommands {
		if slices.Contains(foreign.names, spelling) {
			return fmt.Errorf("there is no command %q: %s", word, foreign.does)
		}
	}
	hint := nearest.Of(strings.ToLower(word), names, max(1, len(word)/3))
	if hint != "" {
		return fmt.Errorf("there is no command %.60q; did you mean ossian %s?", word, hint)
	}
	return fmt.Errorf("there is no command %.60q: want one of %s; ossian --help tells of them", word, strings.Join(names, ", "))
}

// Suggest makes the error of parsing flags say what an unknown one is called here, why there
// is none, or which one was probably meant.
func Suggest(flags *pflag.FlagSet, err error) error {
	if invalid, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		return badValue(invalid)
	}
	unknown, ok := errors.AsType[*pflag.NotExistError](err)
	if !ok {
		return err
	}
	var known []string
	flags.VisitAll(func(flag *pflag.Flag) {
		if !flag.Hidden {
			known = append(known, "--"+flag.Name)
		}
	})
	name, hyphens := unknown.GetSpecifiedName(), "--"
	if unknown.GetSpecifiedShortnames() != "" || nearest.OneHyphen(name) {
		hyphens = "-"
	}
	return fmt.Errorf("unknown flag %s%s%s", hyphens, name, nearest.Flag(name, known))
}

// badValue says what a flag expects, where the library shows how Go reads numbers.
func badValue(invalid *pflag.InvalidValueError) error {
	flag := invalid.GetFlag()
	expected := map[string]string{"int": "a whole number", "int64": "a whole number", "uint64": "a whole number of 0 or more", "float32": "a number", "float64": "a number",
		"bool": "true or false", "duration": "a time such as 30s or 2m"}[flag.Value.Type()]
	if expected == "" {
		return fmt.Errorf("--%s %.100q: %w", flag.Name, invalid.GetValue(), errors.Unwrap(invalid))
	}
	if strings.Contains(errors.Unwrap(invalid).Error(), "out of range") {
		expected += " that is not so large"
	}
	return fmt.Errorf("--%s %.100q: %s expected", flag.Name, invalid.GetValue(), expected)
}

// spelled gives flags of several letters that other tools write with one hyphen a second
// one: -ngl would be read as -n with the value gl. A command that parses its flags itself
// knows better.
func spelled(root *cobra.Command, args []string) []string {
	if c, _, err := root.Find(args); err == nil && c.DisableFlagParsing {
		return args
	}
	out := slices.Clone(args)
	for i, arg := range out {
		if arg == "--" {
			break
		}
		word, isFlag := strings.CutPrefix(arg, "-")
		name, _, _ := strings.Cut(word, "=")
		if isFlag && nearest.OneHyphen(name) {
			out[i] = "-" + arg
		}
	}
	return out
}

// Alias gives a flag another tool's name as well, which --help does not list; "" stands for
// no long name or no letter. The flag of that name has to be there.
func Alias(flags *pflag.FlagSet, name, long, letter string) {
	if long == "" {
		long = name + "-" + letter // a flag has a long name, which nobody needs to know
	}
	flags.AddFlag(&pflag.Flag{Name: long, Shorthand: letter, Usage: "as --" + name, Value: flags.Lookup(name).Value, Hidden: true})
}

// StateDir returns the directory for what a user's programs keep between runs
// (XDG base directories: $XDG_STATE_HOME, else ~/.local/state); "" where there is none.
func StateDir() string {
	base := os.Getenv("XDG_STATE_HOME")
	if base == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return ""
		}
		base = filepath.Join(home, ".local", "state")
	}
	if !filepath.IsAbs(base) {
		return ""
	}
	return filepath.Join(base, "ossian")
}
