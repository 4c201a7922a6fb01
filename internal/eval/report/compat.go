package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"html"
	"strings"

	"ossian/internal/bench/jsonstyle"
	"ossian/internal/eval"
	"ossian/internal/stat"
)

// A File is one to be written.
type File struct {
	Name string
	Data []byte
}

// number is a float as Python's json writes it.
func number(value float64) json.RawMessage { return json.RawMessage(jsonstyle.PyFloat(value)) }

// A message is one of a conversation in the files of the published evaluation.
type message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// allResults is the larger of its files.
type allResults struct {
	Score    json.RawMessage            `json:"score"`
	Metrics  map[string]json.RawMessage `json:"metrics"`
	HTMLs    []string                   `json:"htmls"`
	Convos   [][]message                `json:"convos"`
	Metadata struct {
		Example []any `json:"example_level_metadata"`
	} `json:"metadata"`
}

// Texts gives the prompt, the answer and what is right of an item; false where they were not kept.
type Texts func(run *eval.RunResult, item *eval.Item) (prompt, answer, right string, ok bool)

// Compat returns the files that the published evaluation (gpt_oss.evals 0.0.9) would have written of a
// run, with the names that it gives them. Conversations are in them where texts has them.
func Compat(out *eval.Result, run *eval.RunResult, texts Texts) ([]File, error) {
	var right, chars []float64
	all := allResults{HTMLs: []string{}, Convos: [][]message{}}
	for i := range run.Items {
		item := &run.Items[i]
		// A request that failed has no answer to be judged.
		if item.Outcome == eval.Failed {
			continue
		}
		right = append(right, 0)
		if item.ReferenceRight {
			right[len(right)-1] = 1
		}
		chars = append(chars, float64(item.Chars))
		all.Metadata.Example = append(all.Metadata.Example, nil)
		if prompt, answer, correct, ok := texts(run, item); ok {
			all.Convos = append(all.Convos, []message{{"user", prompt}, {"assistant", answer}})
			all.HTMLs = append(all.HTMLs, fragment(prompt, answer, correct, item.Reference, right[len(right)-1]))
		}
	}
	if len(right) == 0 {
		return nil, nil
	}
	all.Score = number(stat.Mean(right))
	all.Metrics = map[string]json.RawMessage{"chars": number(stat.Mean(chars)), "chars:std": number(stat.Std(chars)), "score:std": number(stat.Std(right))}
	short := map[string]json.RawMessage{"score": all.Score}
	for name, value := range all.Metrics {
		short[name] = value
	}
	stem := fmt.Sprintf("%s_%s-%s_temp%s_%s", run.Task, strings.ReplaceAll(run.Model, "/", "__"), run.Effort,
		jsonstyle.PyFloat(out.Asked.Temperature), out.Began.Format("20060102_150405"))
	if len(run.Tools) > 0 {
		stem += "_tools"
	}
	var files []File
	for _, each := range []struct {
		name  string
		value any
	}{{stem + ".json", short}, {stem + "_allresults.json", all}} {
		text, err := indented(each.value)
		if err != nil {
			return nil, err
		}
		files = append(files, File{fileName(each.name), text})
	}
	return files, nil
}

// fileName is a name without what leads out of a folder: models are called as servers please.
func fileName(name string) string {
	return strings.Map(func(char rune) rune {
		if char < ' ' || strings.ContainsRune(`/\:*?"<>|`, char) {
			return '_'
		}
		return char
	}, name)
}

// indented is JSON with two spaces of indentation, as there.
func indented(value any) ([]byte, error) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	err := encoder.Encode(value)
	return bytes.TrimRight(out.Bytes(), "\n"), err
}

// fragment is a conversation as the published evaluation shows one.
func fragment(prompt, answer, correct, extracted string, score float64) string {
	box := func(role, content string) string {
		return fmt.Sprintf("\n<div class=\"message %s\">\n    <div class=\"role\">\n    %s\n    \n    </div>\n    <div class=\"content\">\n    <pre>%s</pre>\n    </div>\n</div>\n", role, role, html.EscapeString(content))
	}
	return fmt.Sprintf("\n<h3>Prompt conversation</h3>\n\n%s\n\n<h3>Sampled message</h3>\n%s\n<h3>Results</h3>\n<p>Correct Answer: %s</p>\n<p>Extracted Answer: %s</p>\n<p>Score: %s</p>",
		box("user", prompt), box("assistant", answer), html.EscapeString(correct), html.EscapeString(extracted), jsonstyle.PyFloat(score))
}
