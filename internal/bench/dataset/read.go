package dataset

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"ossian/internal/bench/jsonfile"
)

// Bounds of the files that workloads are read from. The largest in use has 0.7 GB.
const (
	maxFile = 4 << 30  // bytes
	maxUnit = 64 << 20 // bytes of a line or an entry
)

// bounded is a reader that fails beyond its bounds, so that a file cannot take all memory.
type bounded struct {
	r    io.Reader
	unit int64 // bytes left for the entry that is being read; its reader sets it
	file int64 // bytes left in all
}

func newBounded(r io.Reader) *bounded { return &bounded{r, maxUnit, maxFile} }

// Read implements io.Reader.
func (b *bounded) Read(dst []byte) (int, error) {
	switch {
	case b.unit <= 0:
		return 0, fmt.Errorf("an entry has more than %d bytes", maxUnit)
	case b.file <= 0:
		return 0, fmt.Errorf("there are more than %d bytes; split the file", int64(maxFile))
	}
	size, err := b.r.Read(dst)
	b.unit -= int64(size)
	b.file -= int64(size)
	return size, err
}

// readFile gives the file at path to read; its errors name the file.
func readFile[T any](path, flag string, read func(io.Reader) (T, error)) (T, error) {
	var none T
	if path == "" {
		return none, fmt.Errorf("this data set is read from a file: give it with %s", flag)
	}
	file, err := os.Open(path)
	if err != nil {
		return none, err // names the file
	}
	defer file.Close()
	in := bufio.NewReader(file)
	head, _ := in.Peek(headSize) // what cannot be read is the reader's to say
	if what := foreign(head); what != "" {
		return none, fmt.Errorf("%s: it is %s", path, what)
	}
	out, err := read(in)
	if err != nil {
		return none, fmt.Errorf("%s: %w", path, err)
	}
	return out, nil
}

// headSize is how many bytes of a file tell what it is.
const headSize = 512

// magics are the beginnings of files that no data set has, and what they are.
var magics = []struct{ begin, what string }{
	{"\x1f\x8b", "compressed with gzip; gunzip takes that away"},
	{"\x28\xb5\x2f\xfd", "compressed with zstd; unzstd takes that away"},
	{"\xfd7zXZ", "compressed with xz; unxz takes that away"},
	{"BZh", "compressed with bzip2; bunzip2 takes that away"},
	{"PK\x03\x04", "a zip archive; unzip takes out what is in it"},
	{"PAR1", "a Parquet file, expected text; pandas makes JSON lines of it: read_parquet(A).to_json(B, orient=\"records\", lines=True)"},
	{"\xff\xfe", "in UTF-16, expected UTF-8; iconv -f UTF-16 -t UTF-8 changes that"},
	{"\xfe\xff", "in UTF-16, expected UTF-8; iconv -f UTF-16 -t UTF-8 changes that"},
}

// foreign says what a file is that people have in place of a data set, and how they come by the
// one they meant; "" = it may be one.
func foreign(head []byte) string {
	if bytes.HasPrefix(head, []byte("version https://git-lfs.github.com/spec/")) {
		size := ""
		if _, after, ok := bytes.Cut(head, []byte("\nsize ")); ok {
			digits, _, _ := bytes.Cut(after, []byte("\n"))
			size = fmt.Sprintf(" of %.20s bytes", bytes.TrimSpace(digits))
		}
		return "a Git LFS pointer, which stands for a file" + size + "; git lfs pull in its folder fetches that"
	}
	start := bytes.ToLower(bytes.TrimSpace(head[:min(len(head), 64)]))
	if bytes.HasPrefix(start, []byte("<!doctype html")) || bytes.HasPrefix(start, []byte("<html")) {
		return "a web page, saved in place of the file; at Hugging Face the address of a file has /resolve/ where that of its page has /blob/"
	}
	for _, magic := range magics {
		if bytes.HasPrefix(head, []byte(magic.begin)) {
			return magic.what
		}
	}
	return ""
}

// unmarked skips the byte order mark that some editors put before UTF-8. Python's tools refuse
// such files, so that no published workload depends on it.
func unmarked(src io.Reader) *bufio.Reader {
	in := bufio.NewReader(src)
	if mark, _ := in.Peek(3); string(mark) == "\xef\xbb\xbf" {
		_, _ = in.Discard(len(mark)) // they are there
	}
	return in
}

// eachLine calls do for the lines of src that are not blank until it returns false; errors
// name the line. i counts from 0 and counts blank lines too.
func eachLine(src io.Reader, do func(i int, line []byte) (more bool, err error)) error {
	bounds := newBounded(src)
	lines := bufio.NewScanner(unmarked(bounds))
	lines.Buffer(nil, maxUnit)
	for i := 0; lines.Scan(); i++ {
		// A new line: what it may take begins anew.
		bounds.unit = maxUnit
		if isBlank(lines.Bytes()) {
			continue
		}
		more, err := do(i, lines.Bytes())
		if err != nil {
			return fmt.Errorf("line %d: %w", i+1, err)
		}
		if !more {
			return nil
		}
	}
	if errors.Is(lines.Err(), bufio.ErrTooLong) {
		return fmt.Errorf("a line has more than %d bytes", maxUnit)
	}
	return lines.Err()
}

// isBlank reports whether a line has nothing but space in it.
func isBlank(line []byte) bool {
	for _, c := range line {
		if c != ' ' && c != '\t' && c != '\r' {
			return false
		}
	}
	return true
}

// object reads a line of JSON lines; example is one as it should be.
func object(line []byte, example string) (map[string]json.RawMessage, error) {
	var fields map[string]json.RawMessage
	err := json.Unmarshal(line, &fields)
	if err == nil && fields != nil {
		return fields, nil
	}
	_, other := errors.AsType[*json.UnmarshalTypeError](err)
	switch kind := jsonfile.Kind(line); {
	case kind == "an array" && (other || jsonfile.EndsEarly(err)):
		return nil, fmt.Errorf("expected objects such as %s, each on a line of its own, found an array; jq -c '.[]' FILE makes lines of one", example)
	case kind == "an object" && jsonfile.EndsEarly(err):
		return nil, fmt.Errorf("expected a whole object such as %s, found one that does not end in its line; jq -c . FILE puts each on a line", example)
	case other || err == nil:
		return nil, fmt.Errorf("expected an object such as %s, found %s", example, kind)
	}
	return nil, jsonfile.Explain(err)
}

// wholeNumber returns the field of an object that is a number without a fraction, low to high.
func wholeNumber(field string, fields map[string]json.RawMessage, low, high int) (int, error) {
	raw := fields[field]
	if jsonfile.IsNull(raw) {
		return 0, jsonfile.Missing(field, fields)
	}
	var number float64
	if err := json.Unmarshal(raw, &number); err != nil || number != float64(int(number)) || int(number) < low || int(number) > high {
		return 0, fmt.Errorf("field %q is %.40s, want a whole number from %d to %d", field, raw, low, high)
	}
	return int(number), nil
}
