package bench

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"ossian/internal/bench/jsonfile"
)

const (
	maxAnswer  = 16 << 20         // bytes of an answer outside the measured part, where it is not known better
	maxVersion = 64 << 10         // bytes of that of GET /version
	maxHeaders = 64 << 10         // bytes of the headers of an answer
	maxName    = 1 << 10          // bytes of the name of a model
	askLimit   = 60 * time.Second // for one question outside the measured part
	traceLimit = 6 * time.Hour    // for a profiler that writes its traces before it answers
	alignBatch = 64               // prompts that are cut at a time (bench.md 1.2)
)

// A Server is what a run asks of a server outside the measured part.
type Server struct {
	base   string
	header []Pair
	client *http.Client
}

// NewServer returns the server at base, an address such as http://127.0.0.1:8000.
func NewServer(base string, access Access) (*Server, error) {
	address, err := parseURL(base)
	if err != nil {
		return nil, err
	}
	header, err := access.headers()
	if err != nil {
		return nil, err
	}
	proxy := access.Proxy
	if proxy == nil {
		proxy = func(*http.Request) (*url.URL, error) { return nil, nil }
	}
	return &Server{base: strings.TrimRight(base, "/"), header: header, client: &http.Client{
		Transport:     &http.Transport{Proxy: proxy, TLSClientConfig: access.tls(address), MaxIdleConnsPerHost: alignBatch, IdleConnTimeout: idleLimit, MaxResponseHeaderBytes: maxHeaders},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

// Close closes the connections that carry no request.
func (s *Server) Close() { s.client.CloseIdleConnections() }

// A question is a request outside the measured part. Nothing of the answer is believed: it may
// be of any server that listens at an address.
type question struct {
	method, path string
	body         any           // sent as JSON; nil = none
	limit        time.Duration // for all of it; 0 = askLimit
	most         int           // bytes of an answer; 0 = maxAnswer
}

// ask sends a question and returns the answer. Errors have what the server said on one line.
func (s *Server) ask(ctx context.Context, asked question) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(asked.limit, askLimit))
	defer cancel()
	method, path, in := asked.method, asked.path, asked.body
	var body io.Reader
	if in != nil {
		text, err := json.Marshal(in)
		if err != nil {
			return nil, err
		}
		body = bytes.NewReader(text)
	}
	request, err := http.NewRequestWithContext(ctx, method, s.base+path, body)
	if err != nil {
		return nil, err
	}
	if in != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	for _, header := range s.header {
		request.Header.Set(header.Key, header.Value)
	}
	answer, err := s.client.Do(request)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	// One byte too many is read, to tell an answer that is cut from one that just fits.
	most := cmp.Or(asked.most, maxAnswer)
	text, err := io.ReadAll(io.LimitReader(answer.Body, int64(most)+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s %s: %w", method, path, err)
	case answer.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("%s %s: %s: %s", method, path, OneLine(brief([]byte(answer.Status))), OneLine(brief(text)))
	case len(text) > most:
		return nil, fmt.Errorf("%s %s: the answer has more than %d bytes", method, path, most)
	}
	return text, nil
}

// Post sends an empty POST: /reset_prefix_cache, /flush_cache.
func (s *Server) Post(ctx context.Context, path string) error {
	_, err := s.ask(ctx, question{method: http.MethodPost, path: path})
	return err
}

// Profile is Post for /start_profile and /stop_profile, which may take long.
func (s *Server) Profile(ctx context.Context, path string) error {
	_, err := s.ask(ctx, question{method: http.MethodPost, path: path, limit: traceLimit})
	return err
}

// FirstModel returns the first model of GET /v1/models: the name to put into requests,
// and what it goes back to (root), which is the same where the server does not say, or says
// what no name is. A name that cannot be printed is an error: sent back it must be as it is.
func (s *Server) FirstModel(ctx context.Context) (name, root string, err error) {
	text, err := s.ask(ctx, question{method: http.MethodGet, path: "/v1/models"})
	if err != nil {
		return "", "", err
	}
	var list struct {
		Data []struct {
			ID   string `json:"id"`
			Root string `json:"root"`
		} `json:"data"`
	}
	if err := json.Unmarshal(text, &list); err != nil {
		return "", "", fmt.Errorf("GET /v1/models: %w", jsonfile.Explain(err))
	}
	if len(list.Data) == 0 || list.Data[0].ID == "" {
		return "", "", errors.New("GET /v1/models: no model listed; name one with --model")
	}
	first := list.Data[0]
	if !isName(first.ID) {
		return "", "", fmt.Errorf("GET /v1/models: the first model is called %.200q, want at most %d bytes that can all be printed; name one with --model", first.ID, maxName)
	}
	if !isName(first.Root) {
		first.Root = first.ID
	}
	return first.ID, first.Root, nil
}

// isName reports whether a server's name of something may go into requests, reports and the
// names of files.
func isName(name string) bool { return name != "" && len(name) <= maxName && OneLine(name) == name }

// Version returns what GET /version says; "" where that is nothing of use.
func (s *Server) Version(ctx context.Context) string {
	text, err := s.ask(ctx, question{method: http.MethodGet, path: "/version", most: maxVersion})
	var in struct{ Version string }
	if err != nil || json.Unmarshal(text, &in) != nil || len(in.Version) > 200 {
		return ""
	}
	return OneLine(in.Version)
}

// counted are the beginnings of the counters that reports use (bench.md 1.6).
var counted = [...]string{"vllm:spec_decode_", "vllm:prefix_cache_", "ossian:prefix_cache_"}

// Counters reads GET /metrics: the counters of speculative decoding and of the prefix
// cache, by series as the server writes it, labels included.
func (s *Server) Counters(ctx context.Context) (map[string]float64, error) {
	text, err := s.ask(ctx, question{method: http.MethodGet, path: "/metrics"})
	if err != nil {
		return nil, err
	}
	return readCounters(text), nil
}

// readCounters reads the text format of Prometheus. Lines that it cannot read, and
// numbers that are not finite, are left out.
func readCounters(text []byte) map[string]float64 {
	out := map[string]float64{}
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, len(text)+1)
	for lines.Scan() {
		line := strings.TrimSpace(lines.Text())
		// A line is NAME{LABELS} NUMBER TIME, where labels and time may be missing and values of
		// labels may hold spaces and braces.
		name := line
		if i := strings.IndexAny(line, "{ \t"); i >= 0 {
			name = line[:i]
		}
		known := false
		for _, prefix := range counted {
			known = known || strings.HasPrefix(name, prefix)
		}
		if !known {
			continue
		}
		series := name
		if i := strings.LastIndexByte(line, '}'); i > len(name) {
			series = line[:i+1]
		}
		fields := strings.Fields(line[len(series):]) // the number, perhaps a time
		if len(fields) == 0 {
			continue
		}
		if value, err := strconv.ParseFloat(fields[0], 64); err == nil && !math.IsInf(value, 0) && !math.IsNaN(value) {
			out[strings.ToValidUTF8(series, "\uFFFD")] = value
		}
	}
	return out
}

// A tokenizeAnswer is one of /tokenize or of /detokenize.
type tokenizeAnswer struct {
	Tokens []int  `json:"tokens"`
	Prompt string `json:"prompt"`
}

// tokenize asks one of the two about a prompt, which bounds the answer: a token has a byte at
// least, its id some ten digits with what is around them, and servers may add its text.
func (s *Server) tokenize(ctx context.Context, path, prompt string, in map[string]any) (*tokenizeAnswer, error) {
	text, err := s.ask(ctx, question{method: http.MethodPost, path: path, body: in, most: 64<<10 + 64*len(prompt)})
	if err != nil {
		return nil, err
	}
	out := new(tokenizeAnswer)
	if err := json.Unmarshal(text, out); err != nil {
		return nil, fmt.Errorf("POST %s: %w", path, jsonfile.Explain(err))
	}
	return out, nil
}

// Align lets the server's tokenizer decide the length of the prompts (bench.md 1.2,
// step 3): if the first query has not the tokens that it should have, every text that
// is too long is cut by the server. It returns how many tokens the first query has there,
// and how many texts were changed. It fails if the server cannot tokenize; a prompt whose
// cutting fails stays as it is.
func (s *Server) Align(ctx context.Context, model string, workload Workload) (tokens, changed int, err error) {
	if len(workload) == 0 {
		return 0, 0, nil
	}
	first, err := s.tokenIDs(ctx, model, workload[0].Prompt)
	if err != nil || len(first) == workload[0].Input {
		return len(first), 0, err
	}
	// A few at a time: each prompt is cut by its own token count, whatever becomes of others.
	texts := make([]string, len(workload)) // "" = stays
	slots := make(chan struct{}, alignBatch)
	var all sync.WaitGroup
	for i := range workload {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			ids, err := s.tokenIDs(ctx, model, workload[i].Prompt)
			if err != nil || len(ids) <= workload[i].Input || workload[i].Input < 0 {
				return
			}
			if cut, err := s.tokenize(ctx, "/detokenize", workload[i].Prompt, map[string]any{"model": model, "tokens": ids[:workload[i].Input]}); err == nil {
				texts[i] = cut.Prompt
			}
		})
	}
	all.Wait()
	for i, text := range texts {
		if text != "" {
			workload[i].Prompt = text
			changed++
		}
	}
	return len(first), changed, ctx.Err()
}

// tokenIDs returns the ids of a text.
func (s *Server) tokenIDs(ctx context.Context, model, prompt string) ([]int, error) {
	answer, err := s.tokenize(ctx, "/tokenize", prompt, map[string]any{"model": model, "prompt": prompt, "add_special_tokens": false})
	if err != nil {
		return nil, err
	}
	return answer.Tokens, nil
}
