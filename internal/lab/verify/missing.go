package verify

// V-MISSING: what one would need to repeat a measurement and a document does not say.

import (
	"strings"

	"ossian/internal/lab/verify/document"
	"ossian/internal/lazyregexp"
)

var (
	versionText  = lazyregexp.New(`(?i)(?:vllm|sglang|tensorrt-llm|trt-llm|trtllm|lmdeploy|llama\.cpp|ollama|ossian|mindie|tgi)["*` + "`" + `'() :=]{0,12}(?:version)?[ :=]{0,4}(?:v|b|==)?([0-9]+\.[0-9]+[0-9.a-z]*|[0-9a-f]{7,40}\b)`)
	memoryText   = lazyregexp.New(`(?i)\b[0-9]{2,3}\s?Gi?B\b`)
	countText    = lazyregexp.New(`(?i)(?:\b(?:single|one|two|four|eight|[0-9]+)[- ]?(?:[x×]\s?)?(?:NVIDIA|AMD|GPU|GPUs|device|card|H100|H200|A100|B200|RTX)|[0-9]\s?[x×]\s?|[x×]\s?[0-9]+\b|\b[0-9]+ (?:GPUs?|cards|devices)\b)`)
	seedText     = lazyregexp.New(`(?i)\bseed\b`)
	samplingText = lazyregexp.New(`(?i)temperature|top[-_ ]?p\b|top[-_ ]?k\b|greedy|ignore[-_]eos|sampling`)
	coresText    = lazyregexp.New(`(?i)\b[0-9]+ (?:cores|vcpus?|cpus?|threads)\b`)
	intervalText = lazyregexp.New(`\[\s?[-+\x{2212}]?[0-9]+(?:\.[0-9]+\s?%?|\s?%)\s?(?:,|to|…|\.\.|–)\s?[-+\x{2212}]?[0-9]+(?:\.[0-9]+|\s?%)|[0-9]\s?±\s?[0-9]`)
)

// missing is V-MISSING. Only texts with results are judged: result files say what their tool
// writes.
func (j *judge) missing() {
	if len(j.doc.Blocks) == 0 || len(j.doc.Lines) == 0 {
		return
	}
	// Blocks state none of it, and their labels would be taken for statements.
	inBlock := j.doc.BlockLines()
	var text []string
	for i, line := range j.doc.Lines {
		if !inBlock[i+1] {
			text = append(text, line)
		}
	}
	all := strings.Join(text, "\n")
	at := j.doc.Blocks[0].Line
	say := func(what, why string) {
		j.find(Caution, at, "document", "not stated: "+what, "the figures cannot be placed or repeated", why)
	}
	j.missingHardware(all, say)
	serves, loads, seeds := false, false, seedText.MatchString(all)
	for i := range j.doc.Commands {
		serves = serves || j.doc.Commands[i].Serves
		loads = loads || j.doc.Commands[i].Load != nil
	}
	if !versionText.MatchString(all) {
		say("engine version", "engines change within weeks")
	}
	if !serves {
		say("command of the server", "limits and defaults follow from it")
	}
	if !loads {
		say("command of the load", "data set, lengths and rate follow from it")
	}
	if !seeds {
		say("seed of the prompts", "other prompts have other lengths and share other prefixes")
	}
	if !samplingText.MatchString(all) {
		say("sampling", "temperature and stopping decide how much is written")
	}
}

// missingHardware says what is missing about the hardware.
func (j *judge) missingHardware(all string, say func(what, why string)) {
	devices := document.DevicesIn(all)
	if len(devices) == 0 {
		say("hardware", "a rate is one of a machine")
		j.placeHardware()
		return
	}
	// Where the hardware is described: lines that name a device, and their neighbours.
	var near []string
	lines := strings.Split(all, "\n")
	fixed := true // all named devices have one memory size only
	for _, device := range devices {
		fixed = fixed && (device.Memory > 0 || device.Bandwidth == 0)
	}
	for i, line := range lines {
		if len(document.DevicesIn(line)) > 0 {
			near = append(near, lines[max(0, i-1):min(len(lines), i+4)]...)
		}
	}
	about := strings.Join(near, "\n")
	var lacks []string
	if !fixed && !memoryText.MatchString(about) {
		lacks = append(lacks, "memory")
	}
	if !countText.MatchString(withoutCommands(about)) && !coresText.MatchString(about) {
		lacks = append(lacks, "number")
	}
	if len(lacks) > 0 {
		say("hardware: "+strings.Join(lacks, " and ")+" of "+devices[0].Text+"s", "a card is sold with several sizes of memory, and alone or several")
	}
}

// withoutCommands is a text without its lines of flags, whose numbers are no counts.
func withoutCommands(text string) string {
	var out []string
	for line := range strings.Lines(text) {
		if !strings.Contains(line, "--") && !strings.Contains(line, "![") {
			out = append(out, line)
		}
	}
	return strings.Join(out, "")
}
