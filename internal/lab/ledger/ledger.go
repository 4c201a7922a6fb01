package ledger

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"ossian/internal/store/disk"
)

// FileName is the ledger's name in the directory of its campaign.
const FileName = "ledger.jsonl"

// lockName is the file whose lock says that a process writes the ledger. It is a file of its own because
// on some systems nobody else could read a locked one, and reports are made while a campaign runs.
const lockName = "ledger.lock"

// maxLine bounds a line that is read, in bytes: a ledger may come from a stranger.
const maxLine = 1 << 20

// ErrInUse: another run of the lab writes this ledger.
var ErrInUse = errors.New("another run of the lab is writing here: let it end, or choose another --out")

// BrokenError: a line that is not what was written, so nothing after it can be believed.
type BrokenError struct {
	File string
	Line int // from 1
	Why  string
}

// Error names the line and says what can be done.
func (e *BrokenError) Error() string {
	return fmt.Sprintf("%s, line %d: %s; what stands before it is whole. "+
		"Keep the file, and begin anew with another --out", e.File, e.Line, e.Why)
}

// Ledger is a ledger that is being written. One process has it at a time.
type Ledger struct {
	mu   sync.Mutex // guards all below: trials end while the sentinel writes notes
	file *os.File
	lock *disk.FileLock
	size int64  // bytes that are known to be on the disk, each line whole
	next int    // number of the next line
	last string // digest of the line before
	err  error  // why no further line can be written
}

// Open takes the ledger in dir for writing, makes it where there is none, and returns the lines that it
// holds. A last line that a crash cut is taken off: its bytes are returned, for a note. A line that is
// broken elsewhere, or does not follow the one before, is a *BrokenError; a ledger in use is ErrInUse.
func Open(dir string) (l *Ledger, lines []Line, torn []byte, err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, nil, nil, err
	}
	lock, got, err := disk.Lock(filepath.Join(dir, lockName), false)
	if err == nil && !got {
		err = ErrInUse
	}
	if err != nil {
		return nil, nil, nil, fmt.Errorf("%s: %w", dir, err)
	}
	if l, lines, torn, err = open(dir); err != nil {
		return nil, nil, nil, errors.Join(err, lock.Close())
	}
	l.lock = lock
	return l, lines, torn, nil
}

// open is Open, the lock held.
func open(dir string) (l *Ledger, lines []Line, torn []byte, err error) {
	file, err := os.OpenFile(filepath.Join(dir, FileName), os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, nil, nil, err
	}
	chain := chain{name: file.Name()}
	lines, torn, err = chain.read(file)
	if err == nil { // what follows the last whole line was never acknowledged
		err = file.Truncate(chain.size)
	}
	if err == nil {
		_, err = file.Seek(chain.size, io.SeekStart)
	}
	if err != nil {
		return nil, nil, nil, errors.Join(err, file.Close())
	}
	return &Ledger{file: file, size: chain.size, next: len(lines) + 1, last: chain.last}, lines, torn, nil
}

// Append writes a line and returns it with its number, time and chain filled in, once it is on the disk.
// A line that cannot be kept is taken off again, so that the ledger stays readable; from then on every
// Append gives the same error, because a campaign must not go on with results that are not kept.
func (l *Ledger) Append(at time.Time, line Line) (Line, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return Line{}, l.err
	}
	line.N, line.At, line.Prev = l.next, at.UTC().Truncate(time.Millisecond), l.last
	text, err := json.Marshal(line)
	if err != nil {
		return Line{}, fmt.Errorf("a line of the ledger: %w", err)
	}
	if len(text) >= maxLine {
		return Line{}, fmt.Errorf("a line of the ledger would take %d bytes: at most %d", len(text), maxLine-1)
	}
	// On the disk before anybody hears of it: what the campaign does next follows from this line.
	_, err = l.file.Write(append(text, '\n'))
	if err == nil {
		err = l.file.Sync()
	}
	if err != nil {
		l.err = fmt.Errorf("%s cannot take the next %d bytes: %w", l.file.Name(), len(text)+1, err)
		_ = l.file.Truncate(l.size)
		return Line{}, l.err
	}
	l.size += int64(len(text)) + 1
	l.next++
	l.last = digest(text)
	return line, nil
}

// Close gives the ledger back.
func (l *Ledger) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return errors.Join(l.file.Close(), l.lock.Close())
}

// Read returns the lines of the ledger in dir, which may be written at this moment: a last line without
// its end is left out. With a *BrokenError come the lines that stand before the broken one.
func Read(dir string) ([]Line, error) {
	file, err := os.Open(filepath.Join(dir, FileName))
	if err != nil {
		return nil, err
	}
	defer file.Close()
	chain := chain{name: file.Name()}
	lines, _, err := chain.read(file)
	return lines, err
}

// chain follows the digests through a file.
type chain struct {
	name string
	size int64  // bytes of whole lines
	last string // digest of the last of them
}

// read returns every line, and the bytes after the last line end.
func (c *chain) read(file io.Reader) (lines []Line, torn []byte, err error) {
	reader := bufio.NewReaderSize(file, maxLine)
	for {
		text, err := reader.ReadSlice('\n')
		switch {
		case errors.Is(err, io.EOF):
			return lines, bytes.Clone(text), nil
		case errors.Is(err, bufio.ErrBufferFull):
			return lines, nil, c.broken(lines, "longer than any line that the lab writes")
		case err != nil:
			return lines, nil, err
		}
		line, why := c.check(bytes.TrimSuffix(text, []byte("\n")), len(lines)+1)
		if why != "" {
			return lines, nil, c.broken(lines, why)
		}
		c.size += int64(len(text))
		lines = append(lines, line)
	}
}

func (c *chain) broken(before []Line, why string) error {
	return &BrokenError{File: c.name, Line: len(before) + 1, Why: why}
}

// check reads a line and says why it cannot be the one with this number.
func (c *chain) check(text []byte, number int) (line Line, why string) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	switch err := decoder.Decode(&line); {
	case err != nil:
		return line, "not a line of a ledger of this version"
	case decoder.More():
		return line, "more than one object"
	case line.N != number:
		return line, fmt.Sprintf("numbered %d instead of %d: lines are missing or out of order", line.N, number)
	case line.Prev != c.last:
		return line, "its prev is not the digest of the line before, which was changed after it was written"
	case !line.whole():
		return line, fmt.Sprintf("kind %q without its facts, or with those of another kind", line.Kind)
	}
	c.last = digest(text)
	return line, ""
}

// whole reports whether exactly the member that the kind names is set.
func (l *Line) whole() bool {
	members := map[Kind]bool{
		KindCampaign: l.Campaign != nil, KindMachine: l.Machine != nil, KindStart: l.Start != nil,
		KindTrial: l.Trial != nil, KindEquality: l.Equality != nil, KindDecision: l.Decision != nil,
		KindNote: l.Note != nil, KindEnd: l.End != nil,
	}
	set := 0
	for _, is := range members {
		if is {
			set++
		}
	}
	return set == 1 && members[l.Kind]
}

func digest(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}
