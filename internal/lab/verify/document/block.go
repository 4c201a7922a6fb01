package document

// Result blocks: console reports of every profile between other text, and the results of
// JSON and CSV files. resultfile knows the forms; what is added here is where each figure
// stands and how many digits of it were printed.

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"ossian/internal/bench/resultfile"
	"ossian/internal/lazyregexp"
)

// Limits of blocks.
const (
	maxBlocks    = 5_000
	maxBlockRows = 400 // lines behind a headline
)

// A Block is one result with its printed figures.
type Block struct {
	number  int    // in the document, from 1
	Name    string // what it is called in findings
	Line    int    // of its headline, from 1; 0 in files without lines
	end     int    // the last line of it
	profile string
	info    map[string]string
	Values  map[string]Number // by the keys of vLLM's JSON (bench.md 1.8)

	Section string   // the heading that it stands under
	label   string   // the comment right above it
	Server  *Command // the last one above it that starts a server or gives its flags
	load    *Loaded  // once it was asked for
	client  *Command // the last one above it that loads a server
	Windows bool     // its tool takes rates over windows of its own: they are not counts by the duration
}

// headline is the first frame of a console report; the title is resultfile's.
const headline = "Serving Benchmark Result"

var (
	closingFrame  = lazyregexp.New(`^[>|\s` + "`" + `]*={10,}\s*\|?\s*$`)
	printedFigure = lazyregexp.New(`:[\s*]*([-+]?[0-9][0-9,]*(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?)\s*(?:[|*` + "`" + `]\s*)*$`)
)

// secondsRow is a latency of all of a request in seconds.
var secondsRow = lazyregexp.New(`(?i)^[>|\s]*(mean|median|p[0-9]+) Latency ?\(s\):`)

// isHeadline reports whether a line begins a report.
func isHeadline(line string) bool {
	return strings.Contains(line, headline) && strings.Contains(line, "==")
}

// same keeps a result as it is.
func same(result *resultfile.Result) (*resultfile.Result, error) { return result, nil }

// findBlocks finds the console reports of a text.
func (d *Document) findBlocks() error {
	for at := 0; at < len(d.Lines); at++ {
		if !isHeadline(d.Lines[at]) {
			continue
		}
		found := d.readBlock(at)
		if found == nil {
			continue // a template, as "xxx.xx" for every figure
		}
		if len(d.Blocks) == maxBlocks {
			return fmt.Errorf("more than %d result blocks", maxBlocks)
		}
		d.Blocks = append(d.Blocks, found)
		found.number = len(d.Blocks)
		found.Name = fmt.Sprintf("block %d", len(d.Blocks))
		at = found.end - 1
	}
	return nil
}

// readBlock reads the report whose headline is line at, counted from 0; nil where no row of
// it has a figure.
func (d *Document) readBlock(at int) *Block {
	found := &Block{Line: at + 1, end: at + 1, Values: map[string]Number{}, info: map[string]string{}}
	prefix, open := "", true
	kept := []string{d.Lines[at]}
	for i := at + 1; i < min(len(d.Lines), at+maxBlockRows); i++ {
		line := d.Lines[i]
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
			open = i+1 < len(d.Lines) && strings.Contains(d.Lines[i+1], "Steady-State Metrics")
			if !open {
				i = len(d.Lines)
			}
		default:
			if key, figure, ok := readRow(line); ok {
				found.Windows = found.Windows || secondsRow.MatchString(line)
				figure.Line = i + 1
				if _, known := found.Values[prefix+key]; !known {
					found.Values[prefix+key] = figure
				}
				kept = append(kept, line)
			} else if strings.Contains(line, ":") && readable(line) {
				kept = append(kept, line)
			}
		}
	}
	if len(found.Values) == 0 {
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
func readRow(line string) (string, Number, bool) {
	match := printedFigure.FindStringSubmatch(line)
	if match == nil {
		return "", Number{}, false
	}
	figure, ok := ParseNumber(match[1])
	if !ok {
		return "", Number{}, false
	}
	// guidellm's wrapper prints latencies in seconds, in a row that no other tool has.
	if name := secondsRow.FindStringSubmatch(line); name != nil {
		figure.Value, figure.Half = figure.Value*1000, figure.Half*1000
		return strings.ToLower(name[1]) + "_e2el_ms", figure, true
	}
	results, err := resultfile.Read([]byte(frame+line), same)
	if err != nil || len(results) != 1 || len(results[0].Values) != 1 {
		return "", Number{}, false
	}
	for key := range results[0].Values {
		return key, figure, true
	}
	return "", Number{}, false
}

// readable reports whether a row without a figure is one that a report may have.
func readable(line string) bool {
	_, err := resultfile.Read([]byte(frame+"Successful requests: 1\n"+line), same)
	return err == nil
}

// readResults reads a file that is JSON or CSV; false for text.
func (d *Document) readResults(data []byte) (bool, error) {
	text := bytes.TrimSpace(data)
	isJSON := text[0] == '{' || text[0] == '['
	if !isJSON && !bytes.HasPrefix(text, []byte("backend,")) {
		return false, nil
	}
	// A result at the top of the file, as every tool writes it; else one anywhere within.
	results, err := resultfile.Read(data, same)
	if isJSON && err != nil && bytes.Contains(text, []byte(headline)) {
		return false, nil // a log whose first line begins with a bracket
	}
	if err != nil {
		return false, err
	}
	for i, result := range results {
		found := &Block{number: i + 1, Name: fmt.Sprintf("result %d", i+1), profile: result.Profile, info: result.Info, Values: map[string]Number{}}
		for key, value := range result.Values {
			found.Values[key] = exactNumber(value, result.Members[key])
		}
		if len(found.Values) > 0 && found.Has("duration") {
			d.Blocks = append(d.Blocks, found)
		}
	}
	if len(d.Blocks) == 0 && isJSON {
		if err := d.nestedResults(resultfile.PlainJSON(data)); err != nil {
			return false, err
		}
	}
	if len(d.Blocks)+len(d.Tables) == 0 {
		return false, errors.New(`no result in it has a "duration"; this is no result of a serving benchmark`)
	}
	return true, nil
}

// exactNumber is a figure of a file, with the digits that the file gives.
func exactNumber(value float64, raw json.RawMessage) Number {
	if read, ok := ParseNumber(string(raw)); ok {
		return read
	}
	return Number{Text: Figure(value), Value: value, Half: halfUnit(fmt.Sprint(value), value)}
}

// Has reports whether a block has all of the keys.
func (b *Block) Has(keys ...string) bool {
	for _, key := range keys {
		if _, ok := b.Values[key]; !ok {
			return false
		}
	}
	return true
}

// Figure is the figure of a key; the total rate of a tool that prints its parts alone is
// their sum. False where there is none.
func (b *Block) Figure(key string) (Number, bool) {
	if figure, ok := b.Values[key]; ok {
		return figure, true
	}
	if key != "total_token_throughput" || !b.Has("input_throughput", "output_throughput") {
		return Number{}, false
	}
	input, output := b.Values["input_throughput"], b.Values["output_throughput"]
	sum := Number{Value: input.Value + output.Value, Half: input.Half + output.Half, Line: output.Line}
	sum.Text = strconv.FormatFloat(sum.Value, 'f', 2, 64)
	return sum, true
}

// Value is the value of a key, 0 where there is none.
func (b *Block) Value(key string) float64 { return b.Values[key].Value }

// Number is which block of its document it is, from 1.
func (b *Block) Number() int { return b.number }

// LineOf is where a key stands: its own line, else that of the block.
func (b *Block) LineOf(key string) int {
	if figure, ok := b.Values[key]; ok && figure.Line > 0 {
		return figure.Line
	}
	return b.Line
}
