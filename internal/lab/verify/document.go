package verify

// Reading a document: which form it has, its lines, and the result blocks in it. Whatever
// cannot be read as text or as a result file is refused here, so that rules see only
// bounded, valid text.

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Limits of a document.
const (
	maxDocument = 256 << 20 // bytes
	maxLines    = 4_000_000
	maxLine     = 64 << 10 // bytes of a line that is looked at; longer ones are passed over
)

// A document is what one input holds.
type document struct {
	name   string
	lines  []string // of a text; none of a JSON or CSV file
	blocks []*block
}

// readDocument reads an input. Errors say what was found and what is expected.
func readDocument(input Input) (*document, error) {
	data := bytes.TrimPrefix(input.Data, []byte("\xef\xbb\xbf"))
	if len(data) > maxDocument {
		return nil, fmt.Errorf("%d bytes, at most %d are read", len(data), maxDocument)
	}
	if len(bytes.TrimSpace(data)) == 0 {
		return nil, errors.New("the file is empty; expected a report, a log or a result file")
	}
	if at := bytes.IndexByte(data, 0); at >= 0 {
		return nil, fmt.Errorf("byte %d is 0; expected text, JSON or CSV, found a binary file", at)
	}
	if at := invalidUTF8(data); at >= 0 {
		return nil, fmt.Errorf("line %d is not UTF-8 (byte %d); expected text, JSON or CSV", 1+bytes.Count(data[:at], []byte("\n")), at)
	}
	doc := &document{name: input.Name}
	isResult, err := doc.readResults(data)
	if err != nil || isResult {
		return doc, err
	}
	if bytes.Count(data, []byte("\n")) > maxLines {
		return nil, fmt.Errorf("more than %d lines", maxLines)
	}
	for line := range strings.Lines(string(data)) {
		if len(line) > maxLine {
			line = ""
		}
		doc.lines = append(doc.lines, strings.TrimRight(line, "\r\n"))
	}
	if err := doc.findBlocks(); err != nil {
		return nil, err
	}
	if len(doc.blocks) == 0 {
		return nil, errors.New("nothing in it can be checked: no result block, table of results, command or claim was found")
	}
	return doc, nil
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
