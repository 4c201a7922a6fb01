// Package document reads published benchmark results and reports: result blocks of every
// tool, tables, commands, claims, and what each of them is of. Its users see figures with
// the digits that were printed and the lines where they stand, and need not know Markdown,
// HTML, shells or consoles.
//
// Whatever cannot be read as text or as a result file is refused by Read, so that rules see
// only bounded, valid text.
package document

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"ossian/internal/lazyregexp"
)

// Limits of a document.
const (
	maxDocument = 64 << 20 // bytes
	maxLines    = 1_000_000
	maxLine     = 64 << 10 // bytes of a line that is looked at; longer ones are passed over
)

// A Document is what one input holds.
type Document struct {
	Name   string
	Lines  []string // of a text; none of a JSON or CSV file
	Blocks []*Block

	Fenced   []bool // by line: within a code fence, or a fence
	headings []Heading
	Commands []Command
	Tables   []Table
	lengths  []Lengths
	Claims   []Claim
	Memory   []MemoryClaim
	Statuses []StatusClaim
	Chains   [][]ChainStep

	// What is asked more than once is found once.
	modelKnown, hasModel bool
	model                ModelName
	head                 string
	memoryKnown          bool
	memoryGB             float64
	memoryOf             string

	byKey    map[string]*figureIndex
	inTables figureIndex
}

// Read reads what one input holds; name stands in what is found. Errors say what was found and what is expected.
func Read(name string, content []byte) (*Document, error) {
	data := bytes.TrimPrefix(content, []byte("\xef\xbb\xbf"))
	if len(data) > maxDocument {
		return nil, fmt.Errorf("%d bytes, at most %d are read", len(data), maxDocument)
	}
	if len(bytes.TrimSpace(data)) == 0 {
		return nil, errors.New("the file is empty; expected a report, a log or a result file")
	}
	// What is no text would give findings about noise.
	if at := bytes.IndexByte(data, 0); at >= 0 {
		return nil, fmt.Errorf("byte %d is 0; expected text, JSON or CSV, found a binary file", at)
	}
	if at := invalidUTF8(data); at >= 0 {
		return nil, fmt.Errorf("line %d is not UTF-8 (byte %d); expected text, JSON or CSV", 1+bytes.Count(data[:at], []byte("\n")), at)
	}
	doc := &Document{Name: name}
	isResult, err := doc.readResults(data)
	if err != nil || isResult {
		doc.index()
		return doc, err
	}
	if doc.columns(data) {
		doc.Lines = strings.Split(string(data), "\n")
		doc.Fenced = make([]bool, len(doc.Lines))
		doc.index()
		return doc, nil
	}
	if bytes.Count(data, []byte("\n")) > maxLines {
		return nil, fmt.Errorf("more than %d lines", maxLines)
	}
	for line := range strings.Lines(string(data)) {
		if len(line) > maxLine {
			line = ""
		}
		doc.Lines = append(doc.Lines, strings.TrimRight(line, "\r\n"))
	}
	oneForm(doc.Lines)
	if err := doc.findBlocks(); err != nil {
		return nil, err
	}
	// Later steps use earlier ones: blocks lie under headings and below commands.
	doc.outline()
	doc.findCommands()
	doc.findTables()
	doc.findLengths()
	doc.findClaims()
	doc.placeBlocks()
	doc.index()
	if len(doc.Blocks)+len(doc.Commands)+len(doc.Tables)+len(doc.Claims)+len(doc.Memory) == 0 && !slices.ContainsFunc(doc.Lines, hasFigure) {
		return nil, errors.New("nothing in it can be checked: no result block, table of results, command, claim or figure with a unit was found")
	}
	return doc, nil
}

// unitFigure is a figure with a unit in which results are given.
var unitFigure = lazyregexp.New(`[0-9] ?(?:tok|t/s\b|tps\b|TPS\b|req|rps\b|RPS\b|QPS\b|ms\b|s\b|sec|%|[x×](?:\s|$|[.,)])|Gi?B|TB/s|TFLOP)|[0-9][kKM]? (?:[a-z]+ )?(?:tokens|requests|prompts|GPUs|users)\b|[0-9] ?(?:[kK] ?tok|[µμnu]s\b)|[(](?:ms|s|µs|us|tok/s)[)][^0-9]{0,24}[0-9]`)

// hasFigure reports whether a line states a result: a sentence alone can be checked too.
func hasFigure(line string) bool {
	return len(line) <= maxNames && unitFigure.MatchString(line)
}

// invalidUTF8 is where data stops being UTF-8, or -1.
func invalidUTF8(data []byte) int {
	if utf8.Valid(data) {
		return -1
	}
	for at := 0; at < len(data); {
		r, size := utf8.DecodeRune(data[at:])
		if r == utf8.RuneError && size == 1 {
			return at
		}
		at += size
	}
	return -1
}
