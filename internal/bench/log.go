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
	"time"
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

type logHeader struct {
	Version int                `json:"version"`
	Began   time.Time          `json:"began"`
	Setup   Setup              `json:"setup"`
	Before  map[string]float64 `json:"before"`
	Queries int                `json:"queries,omitempty"`
}

type logEnd struct {
	Duration time.Duration      `json:"duration"`
	After    map[string]float64 `json:"after"`
	Client   Client             `json:"client"`
	Cut      bool               `json:"cut,omitempty"`
}

func header(r *Recording) entry {
	return entry{Run: &logHeader{logVersion, r.Began, r.Setup, r.Before, r.Queries}}
}

func end(r *Recording) entry { return entry{End: &logEnd{r.Duration, r.After, r.Client, r.Cut}} }

// A loggedSample has its chunks as one list of numbers: of each the nanoseconds since
// the chunk before, Lag, Tokens and Kind.
type loggedSample Sample

type plainSample Sample

// MarshalJSON writes s as a line of the log has it.
func (s *loggedSample) MarshalJSON() ([]byte, error) {
	flat := make([]int64, 0, 4*len(s.Chunks))
	var at time.Duration
	for _, c := range s.Chunks {
		flat = append(flat, int64(c.At-at), int64(c.Lag), int64(c.Tokens), int64(c.Kind))
		at = c.At
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
	s.Chunks = nil
	var at time.Duration
	for i, c := range slices.Collect(slices.Chunk(in.Chunks, 4)) {
		at += time.Duration(c[0])
		n := Chunk{at, int32(c[1]), int16(c[2]), Kind(c[3])}
		if int64(n.Lag) != c[1] || int64(n.Tokens) != c[2] || int64(n.Kind) != c[3] {
			return fmt.Errorf("sample %d: chunk %d: %v out of range", s.Index, i, c)
		}
		s.Chunks = append(s.Chunks, n)
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

// A journal writes a log behind the back of a run. A nil journal writes nothing.
type journal struct {
	file Appender
	mu   sync.Mutex
	rows []entry // not written yet
	stop chan struct{}
	done chan error
}

// startJournal writes the header of r and begins to write what is added, within
// syncEvery and on to the disk. The caller must close it.
func startJournal(file Appender, r *Recording) *journal {
	if file == nil {
		return nil
	}
	j := &journal{file: file, rows: []entry{header(r)}, stop: make(chan struct{}), done: make(chan error, 1)}
	go func() { j.done <- j.write() }()
	return j
}

// add takes a row; what it points to may not change any more.
func (j *journal) add(e entry) {
	if j == nil {
		return
	}
	j.mu.Lock()
	j.rows = append(j.rows, e)
	j.mu.Unlock()
}

// close writes the rest and the end of r, and returns the first error.
func (j *journal) close(r *Recording) error {
	if j == nil {
		return nil
	}
	j.add(end(r))
	close(j.stop)
	return <-j.done
}

func (j *journal) write() error {
	out := bufio.NewWriterSize(j.file, 64<<10)
	tick := time.NewTicker(syncEvery)
	defer tick.Stop()
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
	rows := j.rows
	j.rows = nil
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
	return j.file.Sync()
}

// WriteLog writes r as a log, as a run writes it while it goes on; one that was
// interrupted gets no end.
func WriteLog(w io.Writer, r *Recording) error {
	rows := []entry{header(r)}
	for i := range r.RateSteps {
		rows = append(rows, entry{RateStep: &r.RateSteps[i]})
	}
	for i := range r.Samples {
		rows = append(rows, entry{Sample: (*loggedSample)(&r.Samples[i])})
	}
	for i := range r.Probes {
		rows = append(rows, entry{Probe: &r.Probes[i]})
	}
	out := bufio.NewWriter(w)
	lines := json.NewEncoder(out)
	if !r.Interrupted {
		rows = append(rows, end(r))
	}
	for _, e := range rows {
		if err := lines.Encode(&e); err != nil {
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
func ReadLog(r io.Reader) (rec *Recording, complete bool, err error) {
	in := bufio.NewReader(r)
	seen := map[int]bool{}
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
		var e entry
		err = parseEntry(text, &e)
		if _, rest := in.Peek(1); err != nil && rest == io.EOF && rec != nil {
			break // torn, though it has an end: a disk may keep the end of a line and lose its middle
		}
		if err != nil && rec != nil {
			rec.Skipped++
			rec.FirstSkipped = cmp.Or(rec.FirstSkipped, fmt.Errorf("line %d: %w", line, err))
			continue
		}
		if err == nil {
			rec, err = addEntry(rec, &e, seen)
		}
		if err != nil {
			return nil, false, fmt.Errorf("line %d: %w", line, err)
		}
		complete = e.End != nil
	}
	if rec == nil {
		return nil, false, errors.New("line 1: no run in this log; was it killed before it began?")
	}
	slices.SortFunc(rec.Samples, func(a, b Sample) int { return a.Index - b.Index })
	if !complete {
		rec.Interrupted, rec.Client.Kernel = true, stamped(rec.Samples)
		for _, s := range rec.Samples {
			rec.Duration = max(rec.Duration, s.Done)
		}
	}
	return rec, complete, nil
}

func parseEntry(text []byte, e *entry) error {
	if err := json.Unmarshal(text, e); err != nil {
		return err
	}
	set := 0
	for v, i := reflect.ValueOf(*e), 0; i < v.NumField(); i++ {
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
func addEntry(rec *Recording, e *entry, seen map[int]bool) (*Recording, error) {
	switch h := e.Run; {
	case rec == nil && h == nil:
		return nil, errors.New("a log begins with a line of run")
	case rec == nil && h.Version != logVersion:
		return nil, fmt.Errorf("version %d of the log; want %d", h.Version, logVersion)
	case rec == nil:
		return &Recording{Setup: h.Setup, Began: h.Began, Before: h.Before, Queries: h.Queries}, nil
	case h != nil:
		return nil, errors.New("a second run; a log has one")
	case e.Sample != nil && seen[e.Sample.Index]:
		return nil, fmt.Errorf("sample %d a second time", e.Sample.Index)
	case e.Sample != nil:
		seen[e.Sample.Index] = true
		rec.Samples = append(rec.Samples, Sample(*e.Sample))
	case e.Probe != nil:
		rec.Probes = append(rec.Probes, *e.Probe)
	case e.RateStep != nil:
		rec.RateSteps = append(rec.RateSteps, *e.RateStep)
	default:
		rec.Duration, rec.After, rec.Client, rec.Cut = e.End.Duration, e.End.After, e.End.Client, e.End.Cut
	}
	return rec, nil
}
