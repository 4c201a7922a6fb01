package planfile

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"
)

// Fields reads other small files of the lab with the words of plans: errors name key, line and what belongs
// there, all mistakes at once. What it has complained about it returns as zero.
type Fields struct{ reader }

// Entry is a key with its value, as Fields hands it to who reads it.
type Entry struct{ entry }

// Name is the key's last word.
func (e Entry) Name() string { return e.name }

// Known are the readers of a mapping's values, by key.
type Known map[string]func(Entry)

// ReadFields reads a file, called what in errors, whose top has the keys of known. An empty file has none.
// Its error joins *Error, one for each mistake.
func ReadFields(data []byte, what string, known func(*Fields) Known) error {
	root, err := parse(data, what)
	if errors.Is(err, errEmpty) {
		return nil
	}
	if err != nil {
		return err
	}
	fields := &Fields{}
	fields.Mapping(Entry{entry{node: root, line: root.Line}}, known(fields))
	return fields.err()
}

// Mapping gives the values of a mapping to their readers; other keys are refused.
func (f *Fields) Mapping(e Entry, known Known) {
	inner := map[string]func(entry){}
	for key, read := range known {
		inner[key] = func(e entry) { read(Entry{e}) }
	}
	f.fields(e.key, e.node, "a mapping of names to values", inner)
}

// Names are the entries of a mapping whose keys are names of the user's.
func (f *Fields) Names(e Entry, expected string) (out []Entry) {
	for _, e := range f.entries(e.key, e.node, expected+" expected") {
		out = append(out, Entry{e})
	}
	return out
}

// Items are the elements of a list.
func (f *Fields) Items(e Entry, expected string) (out []Entry) {
	for _, e := range f.items(e.entry, expected) {
		out = append(out, Entry{e})
	}
	return out
}

// Number reads one above low, or low itself where that is allowed, and below high.
func (f *Fields) Number(e Entry, low float64, allowed bool, high float64, expected string) float64 {
	n, err := strconv.ParseFloat(e.node.Value, 64)
	if err != nil || !(n > low || (allowed && n == low)) || !(n < high) {
		f.fail(e.key, e.node, expected+" expected")
		return 0
	}
	return n
}

// Whole reads a number from 0 on.
func (f *Fields) Whole(e Entry) uint64 { return uint64(f.integer(e.entry, 0, math.MaxInt32)) }

// Text reads a word or a sentence.
func (f *Fields) Text(e Entry, expected string) string { return f.text(e.entry, expected) }

// Texts reads a list of texts, or one.
func (f *Fields) Texts(e Entry, expected string) []string { return f.texts(e.entry, expected) }

// Duration reads a time of 0 or more with its unit.
func (f *Fields) Duration(e Entry) time.Duration {
	d, err := time.ParseDuration(e.node.Value)
	if err != nil || d < 0 {
		f.fail(e.key, e.node, "a duration of 0 or more with its unit expected, such as 40s or 2m")
		return 0
	}
	return d
}

// Mistakes is how many there are so far.
func (f *Fields) Mistakes() int { return len(f.errs) }

// Fail complains about an entry that is wrong beside others.
func (f *Fields) Fail(e Entry, format string, values ...any) {
	f.failAt(e.key, e.line, fmt.Sprintf(format, values...), "")
}
