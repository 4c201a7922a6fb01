package chat_test

import (
	"flag"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"ossian/internal/chat"
	"ossian/internal/chat/formattest"
	"ossian/internal/token"
)

var update = flag.Bool("update", false, "rewrite testdata/malformed.golden")

const malformedHeader = `# Made by: go test ./internal/chat -run PAR1Malformed -update
# Answers that break their format, and what the parser makes of each: see Story of package formattest.
# What harmony answers follow is <|start|>assistant. A line break is written \n.
`

// Well-formed answers, from which malformed makes others.
var (
	harmonyAnswers = []string{
		`<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>final<|message|>yes<|return|>`,
		`<|channel|>commentary to=functions.f <|constrain|>json<|message|>{"a":1}<|call|>`,
		`<|channel|>commentary<|message|>wait<|end|><|start|>assistant to=functions.f<|channel|>commentary json<|message|>{}<|call|>`,
		`<|channel|>analysis to=python code<|message|>1+1<|call|>`,
	}
	harmonyMarkers = []string{"<|start|>", "<|end|>", "<|message|>", "<|channel|>", "<|constrain|>", "<|return|>", "<|call|>", "<|reserved_200013|>"}
	qwenAnswers    = []string{
		"<think>\nhm\n</think>\n\nyes<|im_end|>",
		"wait\n<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": \"}\"}}\n</tool_call><|im_end|>",
		"<think>hm</think>\n<tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call>\n<tool_call>{\"name\": \"zzz\"}</tool_call><|im_end|>",
	}
	qwenMarkers = []string{"<|im_start|>", "<|im_end|>", "<think>", "</think>", "<tool_call>", "</tool_call>"}
)

// malformed returns answers that differ from a well-formed one in one place: a
// marker or text is missing, doubled, in another's place, another one, or the end.
func malformed(answer string, markers []string) []string {
	var parts []string
	at := 0
	for _, m := range regexp.MustCompile(`<\|\w+\|>|</?\w+>`).FindAllStringIndex(answer, -1) {
		if m[0] > at {
			parts = append(parts, answer[at:m[0]])
		}
		parts = append(parts, answer[m[0]:m[1]])
		at = m[1]
	}
	var all []string
	add := func(parts ...string) { all = append(all, strings.Join(parts, "")) }
	for i, part := range parts {
		before, behind := strings.Join(parts[:i], ""), strings.Join(parts[i+1:], "")
		add(before, behind)
		add(before, part, part, behind)
		add(before)
		if i+1 < len(parts) {
			add(before, parts[i+1], part, strings.Join(parts[i+2:], ""))
		}
		for _, m := range markers {
			add(before, m, part, behind)
			add(before, m, behind)
		}
		for _, text := range []string{"so", " to=functions.zzz", " to=assistant ", "––final"} {
			add(before, text, part, behind)
		}
		if strings.HasPrefix(part, "<") {
			continue
		}
		for _, text := range []string{"zzz", strings.ToUpper(part), part[:len(part)/2]} {
			add(before, text, behind)
		}
		for k := 0; k < len(part) && strings.Contains(part, `"a"`); k++ { // a call: each byte missing, and each place to stop at
			add(before, part[:k], part[k+1:], behind)
			add(before, part[:k])
		}
	}
	return all
}

// TestPAR1Malformed reads more than 1,000 answers that break their format.
func TestPAR1Malformed(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	out.WriteString(malformedHeader)
	answers := 0
	read := func(name string, tok *token.BPE, f chat.Format, c *chat.Conversation, well, markers []string) {
		var all []string
		for _, answer := range well {
			all = append(all, malformed(answer, markers)...)
		}
		slices.Sort(all)
		out.WriteString("\n" + name + "\n")
		for _, answer := range slices.Compact(all) {
			ids := sampled(tok, answer)
			events := formattest.Parse(f.Parser(c), ids)
			if err := formattest.Check(f, c, ids); err != nil {
				t.Errorf("%q: %v", answer, err)
			}
			answers++
			out.WriteString(strings.ReplaceAll(answer+"\t"+formattest.Story(events), "\n", `\n`) + "\n")
		}
	}
	o200k, qwen := harmonyTokens(t), jsonTokens(t, "qwen3-cut.json")
	read("harmony", o200k, newFormat(t, chat.Facts{Family: "gpt-oss", Tokenizer: o200k}), harmonyTools(t), harmonyAnswers, harmonyMarkers)
	read("qwen3", qwen, qwenFormat(t, "qwen3"), harmonyTools(t), qwenAnswers, qwenMarkers)
	if answers < 1000 {
		t.Errorf("%d answers, at least 1,000 expected", answers)
	}
	const file = "testdata/malformed.golden"
	if *update {
		if err := os.WriteFile(file, []byte(out.String()), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	got, want := strings.Split(out.String(), "\n"), strings.Split(string(readFile(t, file)), "\n")
	if len(got) != len(want) {
		t.Fatalf("%s has %d lines, want %d", file, len(want), len(got))
	}
	differences := 0
	for i := range got {
		if got[i] != want[i] {
			differences++
			t.Errorf("line %d:\ngot  %s\nwant %s", i+1, got[i], want[i])
		}
	}
	t.Logf("PAR-1: %d malformed answers, all well-formed events, %d differences from the file", answers, differences)
}
