package verify

// Result blocks: console reports of every profile between other text, and the results of
// JSON and CSV files. resultfile knows the forms; what is added here is where each figure
// stands and how many digits of it were printed.

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"ossian/internal/bench/resultfile"
)

// Limits of blocks.
const (
	maxBlocks    = 20_000
	maxBlockRows = 400 // lines behind a headline
)

// A block is one result with its printed figures.
type block struct {
	name    string // what it is called in findings
	line    int    // of its headline, from 1; 0 in files without lines
	end     int    // the last line of it
	profile string
	info    map[string]string
	values  map[string]number // by the keys of vLLM's JSON (bench.md 1.8)
}

// headline is the first frame of a console report; the title is resultfile's.
const headline = "Serving Benchmark Result"

var (
	closingFrame  = regexp.MustCompile(`^[>|\s` + "`" + `]*={10,}\s*\|?\s*$`)
	printedFigure = regexp.MustCompile(`:[\s*]*([-+]?[0-9][0-9,]*(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?)\s*(?:[|*` + "`" + `]\s*)*$`)
)

// isHeadline reports whether a line begins a report.
func isHeadline(line string) bool {
	return strings.Contains(line, headline) && strings.Contains(line, "==")
}

// same keeps a result as it is.
func same(result *resultfile.Result) (*resultfile.Result, error) { return result, nil }

// findBlocks finds the console reports of a text.
func (d *document) findBlocks() error {
	for at := 0; at < len(d.lines); at++ {
		if !isHeadline(d.lines[at]) {
			continue
		}
		found := d.readBlock(at)
		if found == nil {
			continue // a template, as "xxx.xx" for every figure
		}
		if len(d.blocks) == maxBlocks {
			return fmt.Errorf("more than %d result blocks", maxBlocks)
		}
		d.blocks = append(d.blocks, found)
		found.name = fmt.Sprintf("block %d", len(d.blocks))
		at = found.end - 1
	}
	return nil
}

// readBlock reads the report whose headline is line at, counted from 0; nil where no row of
// it has a figure.
func (d *document) readBlock(at int) *block {
	found := &block{line: at + 1, end: at + 1, values: map[string]number{}, info: map[string]string{}}
	prefix, open := "", true
	kept := []string{d.lines[at]}
	for i := at + 1; i < min(len(d.lines), at+maxBlockRows); i++ {
		line := d.lines[i]
		steady := strings.Contains(line, "Steady-State Metrics")
		if isHeadline(line) || (!open && !steady) {
			break
		}
		found.end = i + 1
		switch {
		case steady:
			prefix, open = "steady_", true
			kept = append(kept, line)
		case closingFrame.MatchString(line):
			// Behind the last frame only a steady state can follow, at once.
			open = i+1 < len(d.lines) && strings.Contains(d.lines[i+1], "Steady-State Metrics")
			if !open {
				i = len(d.lines)
			}
		default:
			if key, figure, ok := readRow(line); ok {
				figure.line = i + 1
				if _, known := found.values[prefix+key]; !known {
					found.values[prefix+key] = figure
				}
				kept = append(kept, line)
			} else if strings.Contains(line, ":") && readable(line) {
				kept = append(kept, line)
			}
		}
	}
	if len(found.values) == 0 {
		return nil
	}
	// The whole block once more: which tool printed it follows from all its rows together.
	if results, err := resultfile.Read([]byte(strings.Join(kept, "\n")), same); err == nil && len(results) > 0 {
		found.profile, found.info = results[0].Profile, results[0].Info
	}
	return found
}

// frame is a headline of the usual width, for reading one row by itself.
const frame = "============ " + headline + " ============\n"

// readRow reads one row of a report: its key and its figure as printed.
func readRow(line string) (string, number, bool) {
	match := printedFigure.FindStringSubmatch(line)
	if match == nil {
		return "", number{}, false
	}
	figure, ok := parseNumber(match[1])
	if !ok {
		return "", number{}, false
	}
	results, err := resultfile.Read([]byte(frame+line), same)
	if err != nil || len(results) != 1 || len(results[0].Values) != 1 {
		return "", number{}, false
	}
	for key := range results[0].Values {
		return key, figure, true
	}
	return "", number{}, false
}

// readable reports whether a row without a figure is one that a report may have.
func readable(line string) bool {
	_, err := resultfile.Read([]byte(frame+"Successful requests: 1\n"+line), same)
	return err == nil
}

// readResults reads a file that is JSON or CSV; false for text.
func (d *document) readResults(data []byte) (bool, error) {
	text := bytes.TrimSpace(data)
	isJSON := text[0] == '{' || text[0] == '['
	if !isJSON && !bytes.HasPrefix(text, []byte("backend,")) {
		return false, nil
	}
	results, err := resultfile.Read(data, same)
	if err != nil {
		if isJSON && bytes.Contains(text, []byte(headline)) {
			return false, nil // a log whose first line begins with a bracket
		}
		return false, err
	}
	for i, result := range results {
		found := &block{name: fmt.Sprintf("result %d", i+1), profile: result.Profile, info: result.Info, values: map[string]number{}}
		for key, value := range result.Values {
			found.values[key] = exactNumber(value, result.Members[key])
		}
		if len(found.values) > 0 && found.has("duration") {
			d.blocks = append(d.blocks, found)
		}
	}
	if len(d.blocks) == 0 {
		return false, errors.New(`no result in it has a "duration"; this is no result of a serving benchmark`)
	}
	return true, nil
}

// exactNumber is a figure of a file, with the digits that the file gives.
func exactNumber(value float64, raw json.RawMessage) number {
	if read, ok := parseNumber(string(raw)); ok {
		return read
	}
	return number{text: figure(value), value: value, half: halfUnit(fmt.Sprint(value), value)}
}

// has reports whether a block has all of the keys.
func (b *block) has(keys ...string) bool {
	for _, key := range keys {
		if _, ok := b.values[key]; !ok {
			return false
		}
	}
	return true
}

// value is the value of a key, 0 where there is none.
func (b *block) value(key string) float64 { return b.values[key].value }

// lineOf is where a key stands: its own line, else that of the block.
func (b *block) lineOf(key string) int {
	if figure, ok := b.values[key]; ok && figure.line > 0 {
		return figure.line
	}
	return b.line
}
