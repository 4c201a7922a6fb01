package dataset

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
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
	out, err := read(file)
	if err != nil {
		return none, fmt.Errorf("%s: %w", path, err)
	}
	return out, nil
}

// eachLine calls do for the lines of src that are not blank until it returns false; errors
// name the line. i counts from 0 and counts blank lines too.
func eachLine(src io.Reader, do func(i int, line []byte) (more bool, err error)) error {
	bounds := newBounded(src)
	lines := bufio.NewScanner(bounds)
	lines.Buffer(nil, maxUnit)
	for i := 0; lines.Scan(); i++ {
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

// parse decodes one JSON value into v; errors say in the words of JSON what is wrong.
func parse(data []byte, v any) error { return explain(json.Unmarshal(data, v)) }

// explain puts an error of package json in the words of whoever wrote the file.
func explain(err error) error {
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok && wrong.Field != "" {
		return fmt.Errorf("field %q is a JSON %s, which does not belong there", wrong.Field, wrong.Value)
	}
	if err == io.EOF || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("the JSON ends early: the file is not complete")
	}
	return err
}

// wholeNumber returns a JSON number that has no fraction and is low to high.
func wholeNumber(field string, raw json.RawMessage, low, high int) (int, error) {
	var number float64
	if len(raw) == 0 {
		return 0, fmt.Errorf("field %q is missing", field)
	}
	if err := json.Unmarshal(raw, &number); err != nil || number != float64(int(number)) || int(number) < low || int(number) > high {
		return 0, fmt.Errorf("field %q is %.40s, want a whole number from %d to %d", field, raw, low, high)
	}
	return int(number), nil
}
