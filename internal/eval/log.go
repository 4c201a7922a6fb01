package eval

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"ossian/internal/bench/jsonfile"
	"ossian/internal/eval/ask"
	"ossian/internal/eval/task"
	"ossian/internal/store/disk"
)

// Names of the files of a run in its folder.
const (
	logName  = "answers.jsonl"
	textName = "texts.jsonl"
	lockName = "lock"
)

const (
	schema    = 1
	syncEvery = 250 * time.Millisecond // a crash of the machine may lose that; one of the process loses nothing
	maxLine   = 1 << 20
)

// An Asked is what was asked for; it is the same in every part of a run that was cut.
type Asked struct {
	Tasks        []AskedTask `json:"tasks"`
	Models       []string    `json:"models"`
	Efforts      []string    `json:"efforts"`
	API          ask.API     `json:"api"`
	Temperature  float64     `json:"temperature"`
	MaxTokens    int         `json:"max_tokens"`
	Repeats      int         `json:"repeats"`
	Seed         *int64      `json:"seed"`
	Examples     int         `json:"examples"`
	Tools        []string    `json:"tools"`
	CountRefused bool        `json:"count_refused"`
}

// An AskedTask is a task and its data.
type AskedTask struct {
	Name   string `json:"name"`
	Rows   int    `json:"rows"`
	SHA256 string `json:"sha256"`
}

// A header is the first line of a log.
type header struct {
	Schema int       `json:"schema"`
	Began  time.Time `json:"began"`
	Asked  Asked     `json:"asked"`
	Server Server    `json:"server"`
}

// A line is one of a log; one member is set.
type line struct {
	Eval *header `json:"eval,omitempty"`
	Item *Item   `json:"item,omitempty"`
}

// A journal is the log of a run: each answer is written when it comes, before it counts. What was
// written outlives the process at once and the machine soon after. A nil journal keeps nothing.
type journal struct {
	lock  *disk.FileLock // held while the journal is open: one run writes a folder at a time
	mu    sync.Mutex     // guards all below
	file  *os.File
	size  int64 // bytes of whole lines
	dirty bool  // since the last sync
	err   error // why nothing more can be written

	quit chan struct{}
	gone chan struct{}
}

// kept is what a log has.
type kept struct {
	head  header
	items []Item
	size  int64 // bytes of whole lines
}

// begun is the error of a log that a new run would write over.
func (k *kept) begun(path string) error {
	return fmt.Errorf("%s has %d answers of a run begun %s: --resume goes on with it, another --out begins anew", path, len(k.items), k.head.Began.Format(time.DateTime))
}

// Vacant returns why a folder has no place for a new run, if it has one already. Run finds that out,
// too, when there is a server for it.
func Vacant(dir string) error {
	path := filepath.Join(dir, logName)
	if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() {
		return nil // none, or what Run says more of
	}
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	old, err := readLog(file)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if old == nil {
		return nil
	}
	return old.begun(path)
}

// openJournal begins the log of a folder, or goes on with the one that is there. The folder is this
// run's until the journal is closed.
func openJournal(dir string, head header, resume bool) (*journal, *kept, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, nil, err
	}
	lock, got, err := disk.Lock(filepath.Join(dir, lockName), false)
	if err == nil && !got {
		err = fmt.Errorf("%s: another run writes there; let it end, or choose another --out", dir)
	}
	if err != nil {
		return nil, nil, err
	}
	j, old, err := open(dir, head, resume)
	if err != nil {
		return nil, nil, errors.Join(err, lock.Close())
	}
	j.lock = lock
	return j, old, nil
}

// open is openJournal, the lock held.
func open(dir string, head header, resume bool) (*journal, *kept, error) {
	path := filepath.Join(dir, logName)
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, nil, err
	}
	var old *kept
	info, err := file.Stat()
	if err == nil && info.Mode().IsRegular() { // others, such as pipes, have no run to go on with
		old, err = readLog(file)
	}
	switch {
	case err != nil:
		err = fmt.Errorf("%s: %w", path, err)
	case old != nil && !resume:
		err = old.begun(path)
	case old != nil:
		err = old.head.Asked.same(&head.Asked, path)
	case resume:
		err = fmt.Errorf("%s has no run to go on with; leave out --resume to begin one", dir)
		if info.Size() == 0 {
			os.Remove(path)
		}
	}
	if err != nil {
		return nil, nil, errors.Join(err, file.Close())
	}
	journal := &journal{file: file, quit: make(chan struct{}), gone: make(chan struct{})}
	if old != nil {
		journal.size = old.size
	}
	if err = file.Truncate(journal.size); err == nil || errors.Is(err, os.ErrInvalid) || journal.size == 0 { // devices have no length
		_, err = file.Seek(journal.size, io.SeekStart)
	}
	if err == nil && old == nil {
		err = journal.write(&line{Eval: &head})
	}
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("%s cannot be written: %w; make room, or choose another --out", path, plain(err)), file.Close())
	}
	go journal.syncs()
	return journal, old, nil
}

// plain is an error of a file without its path, which is named before.
func plain(err error) error {
	if failed, ok := errors.AsType[*fs.PathError](err); ok {
		return failed.Err
	}
	return err
}

// same says in what the asked of a log differs from what is asked now.
func (a *Asked) same(now *Asked, path string) error {
	var differ []string
	was, is := reflect.ValueOf(*a), reflect.ValueOf(*now)
	for i := range was.NumField() {
		before, _ := json.Marshal(was.Field(i).Interface())
		after, _ := json.Marshal(is.Field(i).Interface())
		if empty := func(b []byte) bool { return string(b) == "null" || string(b) == "[]" }; !bytes.Equal(before, after) && !(empty(before) && empty(after)) {
			name, _, _ := strings.Cut(was.Type().Field(i).Tag.Get("json"), ",")
			differ = append(differ, fmt.Sprintf("%s %.200s, now %.200s", name, before, after))
		}
	}
	if len(differ) == 0 {
		return nil
	}
	return fmt.Errorf("%s is of a run with other options: %s; say the same to go on with it, or choose another --out", path, strings.Join(differ, "; "))
}

// readLog reads a log; nil of an empty one. A last line that was torn was never acknowledged.
func readLog(src io.Reader) (*kept, error) {
	in := bufio.NewReaderSize(src, maxLine)
	var found *kept
	for number := 1; ; number++ {
		text, err := in.ReadSlice('\n')
		switch {
		case errors.Is(err, io.EOF):
			if found == nil && len(text) > 0 && !bytes.HasPrefix([]byte(`{"eval":`), text[:min(len(text), 8)]) {
				return nil, errors.New("not the log of an evaluation; choose another --out")
			}
			return found, nil
		case errors.Is(err, bufio.ErrBufferFull):
			return nil, fmt.Errorf("line %d is longer than any line of a log", number)
		case err != nil:
			return nil, plain(err)
		}
		var one line
		if err := json.Unmarshal(text, &one); err != nil {
			if _, rest := in.Peek(1); found != nil && errors.Is(rest, io.EOF) {
				return found, nil // torn, though it has an end
			}
			return nil, fmt.Errorf("line %d: %w", number, jsonfile.Explain(err))
		}
		switch {
		case found == nil && one.Eval == nil:
			return nil, errors.New("line 1: not the log of an evaluation; choose another --out")
		case found == nil && one.Eval.Schema != schema:
			return nil, fmt.Errorf("line 1: version %d of the log, expected %d", one.Eval.Schema, schema)
		case found == nil:
			found = &kept{head: *one.Eval}
		case one.Item == nil:
			return nil, fmt.Errorf("line %d: expected an answer", number)
		default:
			found.items = append(found.items, *one.Item)
		}
		found.size += int64(len(text))
	}
}

// append writes an answer. The error is that the disk takes no more, which ends a run.
func (j *journal) append(item *Item) error {
	if j == nil {
		return nil
	}
	return j.write(&line{Item: item})
}

// write writes a whole line, or takes off what the disk took of it.
func (j *journal) write(one *line) error {
	text, err := json.Marshal(one)
	if err != nil {
		return err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.err != nil {
		return j.err
	}
	if _, err := j.file.Write(append(text, '\n')); err != nil {
		j.err = fmt.Errorf("%s takes no more answers: %w; make room, then --resume goes on", j.file.Name(), plain(err))
		_ = j.file.Truncate(j.size)
		return j.err
	}
	j.size += int64(len(text)) + 1
	j.dirty = true
	return nil
}

// syncs brings what was written to the disk.
func (j *journal) syncs() {
	defer close(j.gone)
	tick := time.NewTicker(syncEvery)
	defer tick.Stop()
	for {
		select {
		case <-j.quit:
			return
		case <-tick.C:
			j.sync()
		}
	}
}

func (j *journal) sync() {
	j.mu.Lock()
	dirty, file := j.dirty, j.file
	j.dirty = false
	j.mu.Unlock()
	if dirty {
		if err := file.Sync(); err != nil {
			j.mu.Lock()
			j.err = errors.Join(j.err, err)
			j.mu.Unlock()
		}
	}
}

// close brings the rest to the disk. An error of a write was returned by append already.
func (j *journal) close() error {
	close(j.quit)
	<-j.gone
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.err != nil {
		return errors.Join(j.file.Close(), j.lock.Close())
	}
	return errors.Join(j.file.Sync(), j.file.Close(), j.lock.Close())
}

// A textFile has prompts and answers. A nil one keeps nothing.
type textFile struct {
	mu   sync.Mutex // guards file
	file *os.File
}

// notice is the first line of what holds texts.
const notice = "Questions of published data sets: please do not publish this file. Texts that are in the open become training data, and the questions worthless."

// A text is a line of the file.
type text struct {
	Task    string `json:"task"`
	Model   string `json:"model"`
	Effort  string `json:"effort"`
	Item    int    `json:"question"`
	Repeat  int    `json:"repeat"`
	Prompt  string `json:"prompt"`
	Thought string `json:"reasoning,omitempty"`
	Answer  string `json:"answer"`
	Right   string `json:"right"`
}

// openTexts opens the file of texts, for its owner alone.
func openTexts(dir string) (*textFile, error) {
	file, err := os.OpenFile(filepath.Join(dir, textName), os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	if err := file.Chmod(0o600); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	begin, _ := json.Marshal(map[string]string{"notice": notice})
	if info, err := file.Stat(); err == nil && info.Size() > 0 {
		begin = nil // but for the end of a line that a crash has torn
	}
	if _, err := file.Write(append(begin, '\n')); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return &textFile{file: file}, nil
}

// write adds a prompt and its answer. They come before the answer counts: a crash between the two
// leaves a text twice and no answer without one.
func (f *textFile) write(plan *plannedRun, entry *task.Entry, answer *ask.Answer) error {
	if f == nil {
		return nil
	}
	one, err := json.Marshal(text{plan.set.Task.Name, plan.model, plan.effort, entry.Question, entry.Repeat, entry.Prompt, answer.Thought, answer.Text, entry.Right})
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	_, err = f.file.Write(append(one, '\n'))
	return err
}

func (f *textFile) close() error {
	if f == nil {
		return nil
	}
	return errors.Join(f.file.Sync(), f.file.Close())
}

// A textKey is what a text is of.
type textKey struct {
	task, model, effort string
	question, repeat    int
}

// readTexts returns the texts of a folder; of several of one answer the last counts. Lines that a
// crash has torn are passed over.
func readTexts(dir string) (map[textKey]text, error) {
	data, err := os.ReadFile(filepath.Join(dir, textName))
	if err != nil {
		return nil, err
	}
	all := map[textKey]text{}
	for line := range bytes.Lines(data) {
		var one text
		if json.Unmarshal(line, &one) == nil && one.Task != "" {
			all[textKey{one.Task, one.Model, one.Effort, one.Item, one.Repeat}] = one
		}
	}
	return all, nil
}

// sorted brings items into the order in which they are asked.
func sorted(items []Item) []Item {
	slices.SortStableFunc(items, func(a, b Item) int {
		if a.Repeat != b.Repeat {
			return a.Repeat - b.Repeat
		}
		return a.Question - b.Question
	})
	return items
}

// Texts reads the texts that --keep-text has left in a folder, and returns what gives those of an
// item of a result; ok is false where they are not there.
func Texts(dir string) func(run *RunResult, item *Item) (prompt, answer, right string, ok bool) {
	all, _ := readTexts(dir) // without the file there are none
	return func(run *RunResult, item *Item) (prompt, answer, right string, ok bool) {
		one, ok := all[textKey{run.Task, run.Model, run.Effort, item.Question, item.Repeat}]
		return one.Prompt, one.Answer, one.Right, ok
	}
}
