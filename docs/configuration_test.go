package docs_test

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"ossian/internal/config"
	"ossian/internal/limits"
)

var update = flag.Bool("update", false, "write docs/use/configuration.md anew")

const configurationFile = "use/configuration.md"

// TestConfiguration: the page of the settings is what the program's tables make it.
func TestConfiguration(t *testing.T) {
	want, err := configuration()
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(configurationFile, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(configurationFile)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("docs/%s is not what internal/config and internal/limits say: go test ./docs -run Configuration -update", configurationFile)
	}
}

const configurationHead = `<!-- Written by "go test ./docs -run Configuration -update" from internal/config and
     internal/limits: change it there, or in docs/configuration_test.go. -->

# Configuration

Every setting of ` + "`ossian serve`" + `. This is what to set first:

| to | flag |
|---|---|
| bound conversations and users | ` + "`--max-model-len`, `--max-num-seqs`" + `: [memory](memory.md) |
| let other machines in | ` + "`--host`, `--api-key-file`" + `: [deployment](deployment.md) |
| leave memory to others | ` + "`--gpu-memory-utilization`" + ` |

## Where settings come from

` + "```sh" + `
cat > ossian.yaml <<'END'
max-model-len: 2048
max-num-seqs: 8
END
OSSIAN_MAX_NUM_SEQS=4 ossian serve --config ossian.yaml --log-level warn --explain |
  grep -E '^(max-model-len|max-num-seqs|log-level) '
` + "```" + `

` + "```text numbers" + `
log-level      warn  command line                     what is logged
max-model-len  2048  file ossian.yaml                 of 4096, what was asked for or fits into memory
max-num-seqs   4     environment OSSIAN_MAX_NUM_SEQS  rows of a step
` + "```" + `

The command line wins, then the environment, then the file, then the default.

* **Command line**: ` + "`--name value` or `--name=value`; `--name` and `--no-name`" + ` for switches. Names
  are vLLM's where vLLM has one. An unknown name is refused, and the nearest one is named. Of a flag
  that is given twice the last one counts; lists add up, and two models without names are refused.
* **Environment**: ` + "`OSSIAN_`" + ` and the name in capitals, with ` + "`_` for `-`" + `.
* **File**: ` + "`--config FILE.yaml`" + `, with names as keys.

` + "`--explain`" + ` prints every setting with its value, origin and reason, and ends.

Numbers may end in ` + "`k` (1,000), `K` or `Ki` (1,024), `m`, `M`, `Mi`, `g`, `G`, `Gi`" + `; times are such
as ` + "`500ms`, `30s`, `2m`" + `. SIGHUP reads keys, log level, certificates and limits again.

`

var (
	flagLine    = regexp.MustCompile(`^  --(\S+)(?: (\S.*?))?  +(\S.*)$`)
	defaultNote = regexp.MustCompile(` \(default (.*)\)$`)
	gap         = regexp.MustCompile(`  +`)
)

// configuration makes the page out of what the program says of itself.
func configuration() ([]byte, error) {
	var b bytes.Buffer
	b.WriteString(configurationHead)
	own, accepted, ok := strings.Cut(config.Usage(), "\nAccepted as vLLM has them")
	if !ok {
		return nil, errors.New("config.Usage has no list of accepted flags")
	}
	reasons, err := defaultReasons()
	if err != nil {
		return nil, err
	}
	b.WriteString("## Settings\n\n| flag | value | default | what it is | why the default |\n|---|---|---|---|---|\n")
	for line := range strings.Lines(own) {
		m := flagLine.FindStringSubmatch(strings.TrimRight(line, "\n"))
		if m == nil {
			return nil, fmt.Errorf("config.Usage: no flag in %q", line)
		}
		name, value, help := m[1], m[2], m[3]
		def := ""
		if d := defaultNote.FindStringSubmatch(help); d != nil {
			def, help = d[1], strings.TrimSuffix(help, d[0])
		}
		why := reasons[strings.TrimPrefix(name, "[no-]")]
		if why == help {
			why = ""
		}
		if strings.Contains(value, "|") {
			value = "`" + strings.ReplaceAll(value, "|", "`, `") + "`"
		}
		fmt.Fprintf(&b, "| `--%s` | %s | %s | %s | %s |\n", name, value, quoted(def), escaped(help), escaped(why))
	}
	b.WriteString("\n## Limits\n\n" + limitsHead)
	for _, id := range limits.All() {
		l := id.Info()
		live := "restart"
		if id.Live() {
			live = "SIGHUP"
		}
		show := func(v int64) string { return "`" + limits.Format(l.Unit, v) + "`" }
		fmt.Fprintf(&b, "| `%s` | %s | %s to %s | %s | %s |\n", l.Name, show(l.Default), show(l.Min), show(l.Max), escaped(l.Protects), live)
	}
	b.WriteString("\n## Accepted as vLLM has them\n\nThese are flags of recipes for vLLM. They are checked, and have no effect of their own; the server\nprints what each means here.\n\n| flag | here |\n|---|---|\n")
	for _, name := range strings.Fields(accepted) {
		if !strings.HasPrefix(name, "--") {
			continue
		}
		note, err := noteOf(name)
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&b, "| `%s` | %s |\n", name, escaped(note))
	}
	return b.Bytes(), nil
}

const limitsHead = "What a stranger may ask of the server. `--limit NAME=VALUE` sets one, and may be repeated. A request\n" +
	"that is refused because of one names it in the log and in the metric `ossian_limit_refusals_total`.\n" +
	"The last column says when a new value counts.\n\n" +
	"| limit | default | from, to | protects | counts at |\n|---|---|---|---|---|\n"

func escaped(s string) string { return strings.ReplaceAll(s, "|", `\|`) }

func quoted(s string) string {
	if s == "" || s == "on" {
		return s
	}
	return "`" + s + "`"
}

// defaultReasons returns the reason of each default, as --explain gives it.
func defaultReasons() (map[string]string, error) {
	c, err := config.Load(config.Source{})
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	if err := c.Explain(&b); err != nil {
		return nil, err
	}
	reasons := map[string]string{}
	for line := range strings.Lines(b.String()) {
		if f := gap.Split(strings.TrimSpace(line), 4); len(f) == 4 {
			reasons[f[0]] = f[3]
		}
	}
	return reasons, nil
}

// noteOf returns what an accepted flag means, as the server prints it.
func noteOf(name string) (string, error) {
	var c *config.Config
	var err error
	for _, value := range [][]string{{}, {"1"}, {"0"}, {"info"}} { // a switch, a number or text, one of some words
		if c, err = config.Load(config.Source{Args: append([]string{name}, value...)}); err == nil && len(c.Notes) == 1 {
			_, note, _ := strings.Cut(c.Notes[0], ": ")
			return note, nil
		}
	}
	return "", fmt.Errorf("%s: no value is accepted: %w", name, err)
}
