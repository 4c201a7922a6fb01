// Package ask puts one question to an OpenAI-compatible server until it has an outcome: by the
// Responses or the Chat API, with the members that the published evaluation of gpt-oss sends and no
// other, streamed, so that a dead connection is seen. Callers see answers; retries, events and the
// differences between the two APIs stay inside.
package ask

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// An API is one of the two by which the published evaluation asks.
type API string

// The two APIs.
const (
	Responses API = "responses"
	Chat      API = "chat"
)

// A Config says whom to ask, and how.
type Config struct {
	Base        string // address that ends in /v1
	Key         string // "" = none
	API         API
	Model       string
	Effort      string // of reasoning
	Temperature float64
	MaxTokens   int
	Tools       []string      // web_search, code_interpreter, mcp:LABEL
	Timeout     time.Duration // of one try
	Retries     int           // tries beyond the first
	Client      *http.Client
	Sleep       func(context.Context, time.Duration) error // waits before another try; nil = really
}

// An Outcome is what became of a question at the server.
type Outcome string

// The outcomes. Whether an answer is right is not known here.
const (
	Answered  Outcome = "answered"
	Truncated Outcome = "truncated" // it ended at a limit
	Refused   Outcome = "refused"   // the server took the request for a wrong one (400, 422)
	Failed    Outcome = "failed"    // no answer after all retries
)

// An Answer is what came back.
type Answer struct {
	Outcome     Outcome
	Text        string
	Thought     string         // reasoning, where the server shows it
	Error       string         // of Refused and Failed, in one line
	Input       int            // tokens; -1 = not told
	Output      int            // tokens, those of reasoning among them; -1 = not told
	Reasoning   int            // tokens; -1 = not told
	Calls       map[string]int // of tools that the server ran, by type of item
	Fingerprint string         // system_fingerprint; "" = not told
	Tries       int
	First       time.Duration // from the request of the last try to the first text; 0 = none came
	Total       time.Duration // of the last try
}

// A FatalError is an answer that would be the same for every question: a key that is not taken, a
// model that is not there, a route that does not exist.
type FatalError struct{ Text string }

// Error says what the server answered, and what to change.
func (e *FatalError) Error() string { return e.Text }

// Ask asks prompt until it has an outcome. seed is sent where it is not nil. The error is a
// *FatalError, or why ctx ended.
func (c *Config) Ask(ctx context.Context, prompt string, seed *int64) (Answer, error) {
	body, err := c.body(prompt, seed)
	if err != nil {
		return Answer{}, err
	}
	for try := 1; ; try++ {
		answer, again := c.try(ctx, body)
		answer.Tries = try
		if ctx.Err() != nil {
			return answer, context.Cause(ctx)
		}
		if again == nil {
			return answer, nil
		}
		if _, fatal := errors.AsType[*FatalError](again); fatal {
			return answer, again
		}
		if try > c.Retries {
			answer.Outcome, answer.Error = Failed, oneLine(again.Error())
			answer.Text, answer.Thought = "", "" // a part of an answer is none
			return answer, nil
		}
		if err := c.sleep(ctx, wait(try, again)); err != nil {
			return answer, err
		}
	}
}

// body is the request: the members that the published evaluation sends, those of a stream, and what
// was asked for beyond that.
func (c *Config) body(prompt string, seed *int64) ([]byte, error) {
	message := []map[string]string{{"role": "user", "content": prompt}}
	members := map[string]any{"model": c.Model, "temperature": c.Temperature, "stream": true}
	if c.API == Chat {
		members["messages"], members["max_tokens"] = message, c.MaxTokens
		members["stream_options"] = map[string]bool{"include_usage": true}
		members["reasoning_effort"] = c.Effort
	} else {
		members["input"], members["max_output_tokens"] = message, c.MaxTokens
		members["reasoning"] = map[string]string{"effort": c.Effort}
	}
	if seed != nil {
		members["seed"] = *seed
	}
	for _, name := range c.Tools {
		tools, _ := members["tools"].([]any)
		members["tools"] = append(tools, toolEntry(name))
	}
	// HTML in questions is sent as it is: escapes are the same text, and tokens to read.
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(members)
	return out.Bytes(), err
}

// CheckTool says what is wrong with the name of a tool.
func CheckTool(name string) error {
	label, mcp := strings.CutPrefix(name, "mcp:")
	if (mcp && label != "") || name == "web_search" || name == "code_interpreter" {
		return nil
	}
	return fmt.Errorf("%.60q: expected web_search, code_interpreter or mcp:LABEL", name)
}

// toolEntry asks a server to offer a tool of its own.
func toolEntry(name string) any {
	if label, mcp := strings.CutPrefix(name, "mcp:"); mcp {
		return map[string]any{"type": "mcp", "server_label": label, "require_approval": "never"}
	}
	if name == "code_interpreter" {
		return map[string]any{"type": name, "container": map[string]string{"type": "auto"}}
	}
	return map[string]any{"type": name}
}

// A busyError is a status that asks to come back.
type busyError struct {
	text  string
	after time.Duration // Retry-After; 0 = not said
}

// Error implements error.
func (e *busyError) Error() string { return e.text }

// try sends the request once. again is why it has to be sent once more, or a *FatalError.
func (c *Config) try(ctx context.Context, body []byte) (answer Answer, again error) {
	answer = Answer{Input: -1, Output: -1, Reasoning: -1}
	if c.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.Timeout)
		defer cancel()
	}
	route := "/responses"
	if c.API == Chat {
		route = "/chat/completions"
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.Base+route, bytes.NewReader(body))
	if err != nil {
		return answer, &FatalError{"the address cannot be asked: " + err.Error()}
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Accept", "text/event-stream")
	if c.Key != "" {
		request.Header.Set("Authorization", "Bearer "+c.Key)
	}
	began := time.Now()
	// The time counts however the answer ends: a late failure is one, too.
	defer func() { answer.Total = time.Since(began) }()
	reply, err := c.Client.Do(request)
	if err != nil {
		return answer, plainError(err)
	}
	defer reply.Body.Close()
	if reply.StatusCode != http.StatusOK {
		return c.status(answer, reply)
	}
	return answer, readAnswer(reply.Body, &answer, began)
}

// status says what a status other than 200 means.
func (c *Config) status(answer Answer, reply *http.Response) (Answer, error) {
	text := fmt.Sprintf("%d %s%s", reply.StatusCode, http.StatusText(reply.StatusCode), complaint(reply.Body))
	switch code := reply.StatusCode; {
	case code == http.StatusBadRequest || code == http.StatusUnprocessableEntity:
		answer.Outcome, answer.Error = Refused, oneLine(text)
		return answer, nil
	case code == http.StatusUnauthorized || code == http.StatusForbidden:
		return answer, &FatalError{"the server answered " + oneLine(text) + "; OPENAI_API_KEY has the key"}
	case code == http.StatusTooManyRequests || code == http.StatusRequestTimeout || code >= 500:
		return answer, &busyError{text, retryAfter(reply.Header.Get("Retry-After"), time.Now())}
	}
	return answer, &FatalError{"the server answered " + oneLine(text) + " to POST " + reply.Request.URL.Path + "; --api chat and --api responses choose the route, --base-url the server"}
}

// maxComplaint is how many bytes of an error are read.
const maxComplaint = 64 << 10

// complaint is what a server says of an error, ": " before it; "" = nothing.
func complaint(body io.Reader) string {
	text, _ := io.ReadAll(io.LimitReader(body, maxComplaint))
	var reply struct {
		Error   json.RawMessage
		Message string
		Detail  any
	}
	if json.Unmarshal(text, &reply) != nil {
		return prefixed(string(text))
	}
	// Servers of different makers put their words in different places.
	var inner struct{ Message string }
	switch {
	case json.Unmarshal(reply.Error, &inner) == nil && inner.Message != "":
		return prefixed(inner.Message)
	case reply.Message != "":
		return prefixed(reply.Message)
	case reply.Detail != nil:
		return prefixed(fmt.Sprint(reply.Detail))
	}
	return prefixed(string(text))
}

func prefixed(text string) string {
	if text = oneLine(text); text == "" {
		return ""
	}
	return ": " + text
}

// maxText is how many bytes of a message are kept.
const maxText = 300

// oneLine is a message without line ends and without what steers a terminal.
func oneLine(text string) string {
	text = strings.Join(strings.FieldsFunc(strings.ToValidUTF8(text, "\uFFFD"), func(char rune) bool { return char <= ' ' || char == 0x7f }), " ")
	if len(text) > maxText {
		text = strings.ToValidUTF8(text[:maxText], "") + "…"
	}
	return text
}

// plainError is a failed request without its address, which may have a user in it.
func plainError(err error) error {
	if inner := errors.Unwrap(err); inner != nil {
		return inner
	}
	return err
}

// Bounds of the waits before another try.
const (
	firstWait = time.Second
	longest   = time.Minute
	mostAsked = 10 * time.Minute // by Retry-After
)

// wait is how long to wait behind a try: as long as the server said, else twice as long each time.
func wait(try int, why error) time.Duration {
	if busy, ok := errors.AsType[*busyError](why); ok && busy.after > 0 {
		return busy.after
	}
	return min(firstWait<<min(try-1, 10), longest)
}

// retryAfter reads seconds or a date (RFC 9110 10.2.3); 0 = none.
func retryAfter(value string, now time.Time) time.Duration {
	if seconds, err := strconv.Atoi(value); err == nil {
		return time.Duration(min(max(seconds, 0), int(mostAsked/time.Second))) * time.Second
	}
	if at, err := http.ParseTime(value); err == nil {
		return min(max(at.Sub(now), 0), mostAsked)
	}
	return 0
}

func (c *Config) sleep(ctx context.Context, d time.Duration) error {
	if c.Sleep != nil {
		return c.Sleep(ctx, d)
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}
