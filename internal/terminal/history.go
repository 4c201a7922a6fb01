package terminal

import (
	"bufio"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

const (
	maxEntries = 1000     // that a history keeps
	maxEntry   = 64 << 10 // bytes of one in the file; longer ones are forgotten with the process
)

// A History is what was typed before, oldest first. Its file, if it has one, holds an entry
// a line, as a JSON string, and belongs to its user alone: what people ask is private. It
// never holds more than twice the entries that are kept. The zero value is empty and has no
// file. One goroutine uses it; several processes may write to one file.
type History struct {
	entries []string
	path    string
}

// OpenHistory reads the history in the file of that path, or an empty one where there is
// none. With an error the history that is returned has no file.
func OpenHistory(path string) (*History, error) {
	history := &History{}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return history, err
	}
	lines := 0
	switch file, err := os.Open(path); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return history, err
	default:
		defer file.Close()
		lines = history.scan(file)
	}
	history.path = path
	// Lines are only appended: the file is written anew when half of it is too old to be kept.
	if lines < 2*maxEntries {
		return history, nil
	}
	if err := history.rewrite(); err != nil {
		history.path = ""
		return history, err
	}
	return history, nil
}

// scan takes the entries of a file and returns how many lines it has. What is no entry,
// such as half a line after a crash, is passed over.
func (h *History) scan(file *os.File) (lines int) {
	scanner := bufio.NewScanner(file)
	scanner.Buffer(nil, 8*maxEntry)
	for ; scanner.Scan(); lines++ {
		var entry string
		if json.Unmarshal(scanner.Bytes(), &entry) == nil && entry != "" {
			h.keep(entry)
		}
	}
	if scanner.Err() != nil { // a line that is none of ours: the file is to be written anew
		return 2 * maxEntries
	}
	return lines
}

// keep adds an entry, unless it repeats the last one.
func (h *History) keep(entry string) bool {
	if n := len(h.entries); n > 0 && h.entries[n-1] == entry {
		return false
	}
	h.entries = append(h.entries, entry)
	if len(h.entries) > maxEntries {
		h.entries = slices.Delete(h.entries, 0, len(h.entries)-maxEntries)
	}
	return true
}

// Add adds what was typed, in the file, too. After an error, which Add returns once, the
// history goes on without a file.
func (h *History) Add(entry string) error {
	if strings.TrimSpace(entry) == "" || !h.keep(entry) || h.path == "" || len(entry) > maxEntry {
		return nil
	}
	line, err := json.Marshal(entry)
	if err == nil {
		err = h.append(append(line, '\n'))
	}
	if err != nil {
		h.path = ""
	}
	return err
}

// append adds a line to the file in one write, so that several processes do not mix theirs.
func (h *History) append(line []byte) error {
	file, err := os.OpenFile(h.path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(line)
	return errors.Join(err, file.Chmod(0o600), file.Close()) // of a file that others could read, too
}

// rewrite puts what is kept in the place of the file.
func (h *History) rewrite() error {
	var text []byte
	for _, entry := range h.entries {
		line, err := json.Marshal(entry)
		if err != nil {
			return err
		}
		text = append(append(text, line...), '\n')
	}
	file, err := os.CreateTemp(filepath.Dir(h.path), ".history-*") // 0600
	if err != nil {
		return err
	}
	_, err = file.Write(text)
	if err = errors.Join(err, file.Close()); err == nil {
		err = os.Rename(file.Name(), h.path)
	}
	if err != nil {
		_ = os.Remove(file.Name())
	}
	return err
}
