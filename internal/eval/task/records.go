package task

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"ossian/internal/bench/jsonfile"
)

// Bounds of what data is read from. Data sets of questions have at most a few megabytes.
const (
	maxFile = 64 << 20 // bytes, also once unpacked
	maxRows = 1_000_000
)

// A record is a row of a data set: its fields by name, and where it stands.
type record struct {
	fields map[string]string
	where  string // "row 7 (line 12)"
}

// parse reads a data set: CSV, JSON lines or a JSON array, packed with gzip or not. name decides
// between them by its ending, the content where that says nothing.
func parse(name string, data []byte) ([]record, error) {
	if bytes.HasPrefix(data, []byte("\x1f\x8b")) {
		unpacked, err := unpack(data)
		if err != nil {
			return nil, err
		}
		data, name = unpacked, strings.TrimSuffix(name, filepath.Ext(name))
	}
	// Editors put a byte order mark before UTF-8.
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	if what := foreign(data); what != "" {
		return nil, errors.New(what)
	}
	if err := plain(data); err != nil {
		return nil, err
	}
	var rows []record
	var err error
	switch first := bytes.TrimLeft(data, " \t\r\n"); {
	case bytes.HasPrefix(first, []byte("[")) && filepath.Ext(name) != ".csv":
		rows, err = readArray(data)
	case bytes.HasPrefix(first, []byte("{")) && filepath.Ext(name) != ".csv":
		rows, err = readLines(data)
	default:
		rows, err = readCSV(data)
	}
	if err == nil && len(rows) == 0 {
		err = errors.New("no rows")
	}
	return rows, err
}

// unpack undoes gzip.
func unpack(data []byte) ([]byte, error) {
	packed, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("gzip: %w", err)
	}
	data, err = io.ReadAll(io.LimitReader(packed, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("gzip: %w; the file is damaged or cut, fetch it again", err)
	}
	if len(data) > maxFile {
		return nil, fmt.Errorf("more than %d MiB once unpacked; data sets of questions are smaller", maxFile>>20)
	}
	return data, nil
}

// foreign says what a file is that people have in place of the one they meant; "" = it may be one.
func foreign(data []byte) string {
	start := bytes.ToLower(bytes.TrimSpace(data[:min(len(data), 64)]))
	switch {
	case bytes.HasPrefix(data, []byte("PAR1")):
		return "a Parquet file; give the CSV or JSON lines of the data set, such as gpqa_diamond.csv or aime2025-I.jsonl"
	case bytes.HasPrefix(data, []byte("PK\x03\x04")):
		return "a zip archive; unpack it and give the CSV in it"
	case bytes.HasPrefix(data, []byte("version https://git-lfs.github.com/spec/")):
		return "a Git LFS pointer, which stands for a file; git lfs pull in its folder fetches that"
	case bytes.HasPrefix(data, []byte("\xff\xfe")) || bytes.HasPrefix(data, []byte("\xfe\xff")):
		return "in UTF-16; iconv -f UTF-16 -t UTF-8 makes UTF-8 of it"
	case bytes.HasPrefix(start, []byte("<!doctype html")) || bytes.HasPrefix(start, []byte("<html")):
		return "a web page in place of the file; at Hugging Face the address of a file has /resolve/ where that of its page has /blob/"
	}
	return ""
}

// plain refuses what is no text: bytes of 0, and what is not UTF-8.
func plain(data []byte) error {
	if at := bytes.IndexByte(data, 0); at >= 0 {
		return fmt.Errorf("line %d: a byte of 0, which no text has; the file is damaged, or no text", 1+bytes.Count(data[:at], []byte("\n")))
	}
	for line, rest := 1, data; len(rest) > 0; line++ {
		text, after, _ := bytes.Cut(rest, []byte("\n"))
		if !utf8.Valid(text) {
			return fmt.Errorf("line %d: not UTF-8; iconv makes UTF-8 of other encodings", line)
		}
		rest = after
	}
	return nil
}

// readArray reads a JSON array of objects.
func readArray(data []byte) (rows []record, err error) {
	var elements []json.RawMessage
	if err := json.Unmarshal(data, &elements); err != nil {
		return nil, jsonfile.ExplainIn(data, err)
	}
	for i, element := range elements {
		row, err := object(element, fmt.Sprintf("row %d", i+1))
		if err != nil {
			return nil, err
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// readLines reads JSON lines; blank ones are passed over.
func readLines(data []byte) (rows []record, err error) {
	line := 0
	for text := range bytes.Lines(data) {
		line++
		if len(bytes.TrimSpace(text)) == 0 {
			continue
		}
		row, err := object(text, fmt.Sprintf("row %d (line %d)", len(rows)+1, line))
		if err != nil {
			return nil, err
		}
		if rows = append(rows, row); len(rows) > maxRows {
			return nil, fmt.Errorf("more than %d rows", maxRows)
		}
	}
	return rows, nil
}

// object reads a row of JSON. Text is taken as it is, other plain values as they are written; null
// is as if the field were not there.
func object(text []byte, where string) (record, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(text, &members); err != nil || members == nil {
		if err == nil {
			err = fmt.Errorf("expected an object, found %s", jsonfile.Kind(text))
		}
		return record{}, fmt.Errorf("%s: %w", where, jsonfile.Explain(err))
	}
	row := record{fields: map[string]string{}, where: where}
	for name, raw := range members {
		if jsonfile.IsNull(raw) {
			continue
		}
		var value string
		// What is no text keeps its spelling, so that 1.0 is not asked as 1.
		if json.Unmarshal(raw, &value) != nil {
			value = string(raw)
		}
		row.fields[name] = value
	}
	return row, nil
}
