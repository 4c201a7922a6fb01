// Package otlp connects a tracer with a collector: OTLP over HTTP, with bodies in JSON. It is apart
// from package trace, so that what answers requests has nothing in it that could connect to
// anywhere (SEC-8).
package otlp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"ossian/internal/trace"
)

// A sender posts bodies to a collector (trace.Sender). It belongs to the tracer's goroutine. A
// collector that does not take them is logged when that begins, and when it ends.
type sender struct {
	cfg    trace.Config
	log    *slog.Logger
	client *http.Client
	ends   context.Context // until the process ends
	last   context.CancelFunc
	broken bool // the last body was not taken
}

const (
	sendTime  = 10 * time.Second
	lastTime  = time.Second // of each body once the process ends
	mostReply = 64 << 10    // bytes of a reply that are read
)

// New returns a tracer that sends to cfg's endpoint until it is closed.
func New(cfg trace.Config, log *slog.Logger) *trace.Tracer {
	return trace.New(cfg, newSender(cfg, log))
}

func newSender(cfg trace.Config, log *slog.Logger) *sender {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = 1
	made := &sender{cfg: cfg, log: log, client: &http.Client{Transport: transport}}
	made.ends, made.last = context.WithCancel(context.Background())
	return made
}

// Last implements trace.Sender: the process ends, and nobody waits for long any more, for a body
// that is on its way neither.
func (s *sender) Last() { s.last() }

// Post implements trace.Sender.
func (s *sender) Post(path string, body []byte) (rejected int, err error) {
	if s.broken && s.ends.Err() != nil {
		return 0, errNotThere
	}
	rejected, err = s.try(path, body)
	if broken := err != nil; broken != s.broken {
		s.broken = broken
		if broken {
			s.log.Warn("traces are dropped until the collector takes them", "endpoint", s.cfg.Endpoint, "error", err)
		} else {
			s.log.Info("the collector takes traces again", "endpoint", s.cfg.Endpoint)
		}
	}
	return rejected, err
}

var errNotThere = errors.New("trace: the collector was not there before")

func (s *sender) try(path string, body []byte) (rejected int, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), sendTime)
	defer cancel()
	defer context.AfterFunc(s.ends, func() { time.AfterFunc(lastTime, cancel) })()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.cfg.Endpoint+path, bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	for name, value := range s.cfg.Headers {
		req.Header.Set(name, value)
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := s.client.Do(req)
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	reply, err := io.ReadAll(io.LimitReader(res.Body, mostReply))
	if err != nil {
		return 0, err
	}
	if res.StatusCode/100 != 2 {
		return 0, fmt.Errorf("%s: %s", path, res.Status)
	}
	// A collector may take a part of the spans, and says so in a reply of success.
	return partly(reply), nil
}

// partly returns how many spans a reply says were rejected; one that cannot be read says none.
func partly(reply []byte) int {
	var told struct {
		Partial struct {
			Rejected json.RawMessage `json:"rejectedSpans"` // a number of 64 bits: as text
		} `json:"partialSuccess"`
	}
	if json.Unmarshal(reply, &told) != nil {
		return 0
	}
	n, err := strconv.Atoi(string(bytes.Trim(told.Partial.Rejected, `"`)))
	if err != nil {
		return 0
	}
	return max(n, 0)
}
