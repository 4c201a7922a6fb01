package bench

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
	"slices"
	"sync"
	"syscall"
	"time"

	"ossian/internal/bench/jsonfile"
)

// An Appender is a file that a run writes to while it goes on.
type Appender interface {
	io.Writer
	Sync() error
}

const (
	logVersion = 1
	maxTurn    = 10_000
	syncEvery  = 250 * time.Millisecond // BEN-4 allows the loss of a second
)

// An entry is a line of a log; one member is set. The first line says what was asked
// for, then samples, probes and steps come as they happen, and the last line is the end.
type entry struct {
	Run      *logHeader    `json:"run,omitempty"`
	Sample   *loggedSample `json:"sample,omitempty"`
	Probe    *Probe        `json:"probe,omitempty"`
	RateStep *RateStep     `json:"rate_step,omitempty"`
	End      *logEnd       `json:"end,omitempty"`
}

// A logHeader is what is known when a run begins.
type logHeader struct {
	Version int                `json:"version"`
	Began   time.Time          `json:"began"`
	Setup   Setup              `json:"setup"`
	Before  map[string]float64 `json:"before"`
	Queries int                `json:"queries,omitempty"`
}

// A logEnd is what is known when it has ended.
type logEnd struct {
	Duration time.Duration      `json:"duration"`
	After    map[string]float64 `json:"after"`
	Client   Client             `json:"client"`
	Cut      bool               `json:"cut,omitempty"`
}

func headerEntry(rec *Recording) entry {
	return entry{Run: &logHeader{logVersion, rec.Began, rec.Setup, rec.Before, rec.Queries}}
}

func endEntry(rec *Recording) entry {
	return entry{End: &logEnd{rec.Duration, rec.After, rec.Client, rec.Cut}}
}

// A loggedSample has its chunks as one list of numbers: of each the nanoseconds since
// the chunk before, Lag, Tokens and Kind.
type loggedSample Sample

type plainSample Sample // without the methods of loggedSample

// MarshalJSON writes s as a line of the log has it.
func (s *loggedSample) MarshalJSON() ([]byte, error) {
	flat := make([]int64, 0, 4*len(s.Chunks))
	var at time.Duration
	for _, chunk := range s.Chunks {
		flat = append(flat, int64(chunk.At-at), int64(chunk.Lag), int64(chunk.Tokens), int64(chunk.Kind))
		at = chunk.At
	}
	return json.Marshal(struct {
		*plainSample
		Chunks []int64
	}{(*plainSample)(s), flat})
}

// UnmarshalJSON reads what MarshalJSON writes.
func (s *loggedSample) UnmarshalJSON(text []byte) error {
	in := struct {
		plainSample
		Chunks []int64
	}{}
	if err := json.Unmarshal(text, &in); err != nil {
		return err
	}
	*s = loggedSample(in.plainSample)
	if len(in.Chunks)%4 != 0 {
		return fmt.Errorf("sample %d: %d numbers of chunks; want four of each", s.Index, len(in.Chunks))
	}
	if s.Index < 0 {
		return fmt.Errorf("sample %d: want an index from 0 on", s.Index)
	}
	if s.Turn < 0 || s.Turn > maxTurn {
		return fmt.Errorf("sample %d: turn %d of a conversation; want 0 to %d", s.Index, s.Turn, maxTurn)
	}
	// Times add up again; what does not fit into a chunk was not written by a run.
	s.Chunks = nil
	var at time.Duration
	for i, numbers := range slices.Collect(slices.Chunk(in.Chunks, 4)) {
		at += time.Duration(numbers[0])
		chunk := Chunk{at, int32(numbers[1]), int16(numbers[2]), Kind(numbers[3])}
		if int64(chunk.Lag) != numbers[1] || int64(chunk.Tokens) != numbers[2] || int64(chunk.Kind) != numbers[3] {
			return fmt.Errorf("sample %d: chunk %d: %v out of range", s.Index, i, numbers)
		}
		s.Chunks = append(s.Chunks, chunk)
	}
	return nil
}

// MarshalJSON writes a; JSON has no infinity, so it is the text "inf".
func (a Arrivals) MarshalJSON() ([]byte, error) {
	type plain Arrivals // without this method
	return json.Marshal(struct {
		plain
		Rate, Burstiness number
	}{plain(a), number(a.Rate), number(a.Burstiness)})
}

// UnmarshalJSON reads what MarshalJSON writes.
func (a *Arrivals) UnmarshalJSON(text []byte) error {
	type plain Arrivals
	in := struct {
		plain
		Rate, Burstiness number
	}{}
	if err := json.Unmarshal(text, &in); err != nil {
		return err
	}
	*a = Arrivals(in.plain)
	a.Rate, a.Burstiness = float64(in.Rate), float64(in.Burstiness)
	return nil
}

// A number may be infinite.
type number float64

// MarshalJSON writes n.
func (n number) MarshalJSON() ([]byte, error) {
	if math.IsInf(float64(n), 1) {
		return []byte(`"inf"`), nil
	}
	return json.Marshal(float64(n))
}

// UnmarshalJSON reads what MarshalJSON writes.
func (n *number) UnmarshalJSON(text []byte) error {
	if string(text) == `"inf"` {
		*n = number(math.Inf(1))
		return nil
	}
	return json.Unmarshal(text, (*float64)(n))
}

// A journal writes a log behind the back of a run: those that append never wait for the
// disk. Its goroutine is the only one that writes to file, until the first error; then the
// journal takes rows and drops them. A nil journal writes nothing.
type journal struct {
	file Appender
	stop chan struct{} // closed when no more rows come
	done chan error    // the first error, or nil, when the goroutine ends

	mu        sync.Mutex // guards unwritten, and is not held while writing
	unwritten []entry
}

// startJournal writes the header of a recording and begins to write what is added, within
// syncEvery and on to the disk. The caller must close it.
func startJournal(file Appender, rec *Recording) *journal {
	if file == nil {
		return nil
	}
	j := &journal{file: file, unwritten: []entry{headerEntry(rec)}, stop: make(chan struct{}), done: make(chan error, 1)}
	go func() { j.done <- j.write() }()
	return j
}

// append takes a row; what it points to may not change any more.
func (j *journal) append(row entry) {
	if j == nil {
		return
	}
	j.mu.Lock()
	j.unwritten = append(j.unwritten, row)
	j.mu.Unlock()
}

// close writes the rest and the end of the recording, and returns the first error.
func (j *journal) close(rec *Recording) error {
	if j == nil {
		return nil
	}
	j.append(endEntry(rec))
	close(j.stop)
	return <-j.done
}

// write writes what comes until stop is closed, and then the rest.
func (j *journal) write() error {
	out := bufio.NewWriterSize(j.file, 64<<10)
	tick := time.NewTicker(syncEvery)
	defer tick.Stop()
	// After an error the loop goes on without writing, so that close need not know of it.
	var failed error
	for last := false; !last; {
		if failed == nil {
			failed = j.flush(out)
		}
		select {
		case <-tick.C:
		case <-j.stop:
			last = true
		}
	}
	if failed == nil {
		failed = j.flush(out)
	}
	if failed != nil {
		return fmt.Errorf("log of the run: %w", failed)
	}
	return nil
}

// flush writes the rows there are and waits for the disk.
func (j *journal) flush(out *bufio.Writer) error {
	j.mu.Lock()
	rows := j.unwritten
	j.unwritten = nil
	j.mu.Unlock()
	if len(rows) == 0 {
		return nil
	}
	lines := json.NewEncoder(out)
	for i := range rows {
		if err := lines.Encode(&rows[i]); err != nil {
			return err
		}
	}
	if err := out.Flush(); err != nil {
		return err
	}
	if err := j.file.Sync(); !errors.Is(err, syscall.EINVAL) { // as pipes and devices say, which have no disk
		return err
	}
	return nil
}

// WriteLog writes a recording as a log, as a run writes it while it goes on; one that was
// interrupted gets no end.
func WriteLog(dst io.Writer, rec *Recording) error {
	rows := []entry{headerEntry(rec)}
	for i := range rec.RateSteps {
		rows = append(rows, entry{RateStep: &rec.RateSteps[i]})
	}
	for i := range rec.Samples {
		rows = append(rows, entry{Sample: (*loggedSample)(&rec.Samples[i])})
	}
	for i := range rec.Probes {
		rows = append(rows, entry{Probe: &rec.Probes[i]})
	}
	out := bufio.NewWriter(dst)
	lines := json.NewEncoder(out)
	if !rec.Interrupted {
		rows = append(rows, endEntry(rec))
	}
	for _, row := range rows {
		if err := lines.Encode(&row); err != nil {
			return err
		}
	}
	return out.Flush()
}

// ReadLog reads a log. A run that was killed leaves one that ends anywhere: a last line
// that was torn is dropped, and complete is false if the end is missing; the recording is
// then marked as interrupted, its duration is the time of the last sample, and whether
// times come from the kernel is told from the samples. Samples come in the order of the
// queries. Lines behind the first that are broken are skipped and counted; an error names
// the line that cannot be in a log.
func ReadLog(src io.Reader) (rec *Recording, complete bool, err error) {
	in := bufio.NewReader(src)
	seen := map[int]bool{} // indices of samples
	for line := 1; ; line++ {
		text, err := in.ReadBytes('\n')
		if err != nil && err != io.EOF {
			return nil, false, fmt.Errorf("line %d: %w", line, err)
		}
		if err == io.EOF { // torn, or nothing
			break
		}
		if complete {
			return nil, false, fmt.Errorf("line %d: more after the end of the run", line)
		}
		// What cannot be parsed is torn if it stands last, else a fault of the disk, which is
		// counted. What can be parsed and does not belong there is an error: that is no log.
		var row entry
		err = parseEntry(text, &row)
		if _, rest := in.Peek(1); err != nil && rest == io.EOF && rec != nil {
			break // torn, though it has an end: a disk may keep the end of a line and lose its middle
		}
		if err != nil && rec != nil {
			rec.Skipped++
			rec.FirstSkipped = cmp.Or(rec.FirstSkipped, fmt.Errorf("line %d: %w", line, err))
			continue
		}
		if err == nil {
			rec, err = addEntry(rec, &row, seen)
		}
		if err != nil {
			return nil, false, fmt.Errorf("line %d: %w", line, err)
		}
		complete = row.End != nil
	}
	if rec == nil {
		return nil, false, errors.New("line 1: no run in this log; was it killed before it began?")
	}
	slices.SortFunc(rec.Samples, func(a, b Sample) int { return a.Index - b.Index })
	if !complete { // what the end would have said follows from the samples, as far as it does
		rec.Interrupted, rec.Client.Kernel = true, kernelTimed(rec.Samples)
		for _, s := range rec.Samples {
			rec.Duration = max(rec.Duration, s.Done)
		}
	}
	return rec, complete, nil
}

// parseEntry reads a line, which must have one member and no more.
func parseEntry(text []byte, row *entry) error {
	if err := json.Unmarshal(text, row); err != nil {
		return jsonfile.Explain(err)
	}
	set := 0
	for v, i := reflect.ValueOf(*row), 0; i < v.NumField(); i++ {
		if !v.Field(i).IsNil() {
			set++
		}
	}
	if set != 1 {
		return errors.New("want an object with one of run, sample, probe, rate_step and end")
	}
	return nil
}

// addEntry adds what a line says to the recording, which the first line makes.
func addEntry(rec *Recording, row *entry, seen map[int]bool) (*Recording, error) {
	switch head := row.Run; {
	case rec == nil && head == nil:
		return nil, errors.New("a log begins with a line of run")
	case rec == nil && head.Version != logVersion:
		return nil, fmt.Errorf("version %d of the log; want %d", head.Version, logVersion)
	case rec == nil:
		return &Recording{Setup: head.Setup, Began: head.Began, Before: head.Before, Queries: head.Queries}, nil
	case head != nil:
		return nil, errors.New("a second run; a log has one")
	case row.Sample != nil && seen[row.Sample.Index]:
		return nil, fmt.Errorf("sample %d a second time", row.Sample.Index)
	case row.Sample != nil:
		seen[row.Sample.Index] = true
		rec.Samples = append(rec.Samples, Sample(*row.Sample))
	case row.Probe != nil:
		rec.Probes = append(rec.Probes, *row.Probe)
	case row.RateStep != nil:
		rec.RateSteps = append(rec.RateSteps, *row.RateStep)
	default:
		rec.Duration, rec.After, rec.Client, rec.Cut = row.End.Duration, row.End.After, row.End.Client, row.End.Cut
	}
	return rec, nil
}
