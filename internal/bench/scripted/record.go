package scripted

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"
)

// A Send is one event of a stream that carries choices, or one delta of Responses; an
// answer that is not streamed is one Send. Times are since the server began.
type Send struct {
	Planned time.Duration // by the script; of a role chunk that comes early: Actual
	Actual  time.Duration // just before it was handed to the kernel; also the sent_ns in the event
	Tokens  int
}

// A Record is what became of one request.
type Record struct {
	ID       string        // x-request-id
	Index    int           // the number at its end; -1 = none
	Path     string        // of the URL
	Turn     int           // which request of its connection, from 0
	Asked    int           // tokens
	Prompt   int           // tokens, as the server counts them
	Received time.Duration // when the whole request had been read
	Ended    time.Duration // when the last byte was handed to the kernel, or the answer was given up
	Fault    FaultKind     // of its script
	Err      string        // why the answer was given up; "" = it was not
	Sends    []Send
}

// TTFT is the time from the receipt of the request to the first event, 0 without one.
func (r *Record) TTFT() time.Duration {
	if len(r.Sends) == 0 {
		return 0
	}
	return r.Sends[0].Actual - r.Received
}

// A Log is what a server keeps: requests that have ended, in the order of their ends.
type Log struct {
	Began   time.Time // wall clock at the zero of the times
	Blocked int64     // writes that the kernel did not take at once, because the client does not read
	Records []Record
}

// Lateness is how much later than planned the events with tokens were sent.
func (l *Log) Lateness() Spread {
	var late []time.Duration
	for i := range l.Records {
		for _, s := range l.Records[i].Sends {
			if s.Tokens > 0 {
				late = append(late, s.Actual-s.Planned)
			}
		}
	}
	return Spreads(late)
}

// A Spread is a distribution in short.
type Spread struct {
	N                   int
	Mean, P50, P99, Max time.Duration
}

// Spreads sorts times and returns its distribution. A percentile is the smallest value that
// at least so many of all do not exceed.
func Spreads(times []time.Duration) Spread {
	if len(times) == 0 {
		return Spread{}
	}
	slices.Sort(times)
	var sum time.Duration
	for _, each := range times {
		sum += each
	}
	at := func(percent int) time.Duration { return times[(len(times)*percent+99)/100-1] }
	return Spread{N: len(times), Mean: sum / time.Duration(len(times)), P50: at(50), P99: at(99), Max: times[len(times)-1]}
}

// A logHead is the first of the JSON lines that the log is sent as; a line per request
// follows.
type logHead struct {
	Began   int64 `json:"began_unix_ns"`
	Blocked int64 `json:"blocked"`
	Records int   `json:"records"`
}

// A logLine is a Record.
type logLine struct {
	ID       string        `json:"id"`
	Index    int           `json:"index"`
	Path     string        `json:"path"`
	Turn     int           `json:"turn"`
	Asked    int           `json:"asked"`
	Prompt   int           `json:"prompt"`
	Received time.Duration `json:"received_ns"`
	Ended    time.Duration `json:"ended_ns"`
	Fault    FaultKind     `json:"fault,omitempty"`
	Err      string        `json:"error,omitempty"`
	Sends    [][3]int64    `json:"sends"` // planned and actual nanoseconds, tokens
}

// write writes what ReadLog reads.
func (l *Log) write(dst io.Writer) error {
	buf := bufio.NewWriter(dst)
	lines := json.NewEncoder(buf)
	if err := lines.Encode(logHead{l.Began.UnixNano(), l.Blocked, len(l.Records)}); err != nil {
		return err
	}
	for i := range l.Records {
		r := &l.Records[i]
		line := logLine{r.ID, r.Index, r.Path, r.Turn, r.Asked, r.Prompt, r.Received, r.Ended, r.Fault, r.Err, make([][3]int64, len(r.Sends))}
		for j, s := range r.Sends {
			line.Sends[j] = [3]int64{int64(s.Planned), int64(s.Actual), int64(s.Tokens)}
		}
		if err := lines.Encode(line); err != nil {
			return err
		}
	}
	return buf.Flush()
}

// ReadLog reads what GET /scripted/record sends.
func ReadLog(src io.Reader) (*Log, error) {
	lines := json.NewDecoder(bufio.NewReader(src))
	var head logHead
	if err := lines.Decode(&head); err != nil {
		return nil, fmt.Errorf("record: %w", err)
	}
	log := &Log{Began: time.Unix(0, head.Began), Blocked: head.Blocked}
	for range head.Records {
		var line logLine
		if err := lines.Decode(&line); err != nil {
			return nil, fmt.Errorf("record: request %d of %d: %w", len(log.Records), head.Records, err)
		}
		rec := Record{line.ID, line.Index, line.Path, line.Turn, line.Asked, line.Prompt, line.Received, line.Ended, line.Fault, line.Err, make([]Send, len(line.Sends))}
		for j, s := range line.Sends {
			rec.Sends[j] = Send{time.Duration(s[0]), time.Duration(s[1]), int(s[2])}
		}
		log.Records = append(log.Records, rec)
	}
	return log, nil
}

// Fetch asks the server at base, such as http://127.0.0.1:8000, for its log.
func Fetch(ctx context.Context, base string) (*Log, error) {
	res, err := request(ctx, http.MethodGet, base)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	return ReadLog(res.Body)
}

// Forget makes the server at base drop its log.
func Forget(ctx context.Context, base string) error {
	res, err := request(ctx, http.MethodDelete, base)
	if err != nil {
		return err
	}
	return res.Body.Close()
}

// request sends a request about the log; the caller closes the body of its answer.
func request(ctx context.Context, method, base string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, strings.TrimSuffix(base, "/")+recordPath, nil)
	if err != nil {
		return nil, err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	if res.StatusCode != http.StatusOK {
		res.Body.Close()
		return nil, fmt.Errorf("%s %s: %s, expected 200; is it a scripted server?", method, req.URL, res.Status)
	}
	return res, nil
}
