package bench

import (
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"
)

// offline is a target that is never connected.
func offline(t testing.TB, setup Setup) *HTTP {
	t.Helper()
	setup.URL, setup.Model = "http://127.0.0.1:9/v1/x", "m"
	h, err := NewHTTP(HTTPConfig{Setup: &setup})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// play hands the pieces of a response to an exchange of h and returns the sample, and
// whether the connection may be used again. The server closes after the last piece.
func play(h *HTTP, pieces ...string) (*Sample, bool) {
	x := h.exchanges.Get().(*exchange)
	s := new(Sample)
	x.begin(s, time.Now(), new(Live))
	done, err := false, error(nil)
	for _, p := range pieces {
		if done, err = x.received([]byte(p), 5); err != nil {
			break
		}
	}
	if !done && err == nil {
		err = x.ended(io.EOF)
	}
	s.Err = x.finish(err)
	return s, x.response.Keep
}

func kinds(s *Sample) []Kind {
	var out []Kind
	for _, c := range s.Chunks {
		out = append(out, c.Kind)
	}
	return out
}

func counts(s *Sample) []int16 {
	var out []int16
	for _, c := range s.Chunks {
		out = append(out, c.Tokens)
	}
	return out
}

// chunked wraps events in the framing of HTTP/1.1, each in a chunk of its own.
func chunked(events ...string) string {
	var b strings.Builder
	b.WriteString("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
	const hex = "0123456789abcdef"
	for _, e := range events {
		n := len(e)
		b.WriteString(string([]byte{hex[n>>8], hex[n>>4&15], hex[n&15]}) + "\r\n" + e + "\r\n")
	}
	return b.String() + "0\r\n\r\n"
}

const (
	okHead = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
	textA  = `{"choices":[{"text":"a\u00e9","finish_reason":null}]}`
	textB  = `{"choices":[{"text":"é","finish_reason":"length"}]}`
	usage2 = `{"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":2}}`
)

const (
	both    = Choices | Text | Output
	thought = Choices | Reasoning | Output
)

type streamCase struct {
	name     string
	setup    Setup
	response string
	kinds    []Kind
	want     Sample // Status, Text, Thought, Finish, Counts (zero = unknown), Err as a beginning
	tokens   []int16
	reuse    bool
}

var streaming = Setup{Backend: "openai", Stream: true}

var streamCases = []streamCase{
	{name: "completions", setup: streaming, reuse: true,
		response: chunked("data: "+textA+"\n\n", "data: "+textB+"\n\n", "data: "+usage2+"\n\n", "data: [DONE]\n\n"),
		kinds:    []Kind{both, both, Usage, Done}, tokens: []int16{-1, -1, -1, -1},
		want: Sample{Status: 200, Text: "aéé", Finish: "length", Counts: Counts{7, 2, -1, -1}}},
	{name: "to the end of the connection, CRLF, comments, fields", setup: streaming,
		response: okHead + ": hello\r\n\r\nid: 7\r\nevent: x\r\ndata:" + textA + "\r\nretry: 5\r\n\r\n:\r\n\r\ndata: " + textB + "\r\n\r\n",
		kinds:    []Kind{both, both}, want: Sample{Status: 200, Text: "aéé", Finish: "length"}},
	{name: "no end behind the last event", setup: streaming, response: okHead + "data: " + textA + "\n\ndata: " + textB,
		kinds: []Kind{both, both}, want: Sample{Status: 200, Text: "aéé", Finish: "length"}},
	{name: "content-length, two events in one line's time", setup: streaming, reuse: true,
		response: "HTTP/1.1 200 OK\r\ncontent-length: 27\r\n\r\ndata: [DONE]\n\ndata: [DONE]\n", kinds: []Kind{Done, Done},
		want: Sample{Status: 200}},
	{name: "several lines of data", setup: streaming, response: okHead + "data: {\"choices\":\ndata: [{\"text\":\"x\"}]}\n\n",
		kinds: []Kind{both}, want: Sample{Status: 200, Text: "x"}},
	{name: "events cut by chunks", setup: streaming, reuse: true,
		response: chunked("data: {\"choi", "ces\":[{\"te", "xt\":\"\xc3", "\xa9\"}]}\n", "\nda", "ta: [DONE]\n\n"),
		kinds:    []Kind{both, Done}, want: Sample{Status: 200, Text: "é"}},
	{name: "chat: role, reasoning, content, finish", setup: Setup{Backend: "openai-chat", Stream: true}, reuse: true,
		response: chunked(`data: {"choices":[{"delta":{"role":"assistant","content":""}}]}`+"\n\n", `data: {"choices":[{"delta":{"reasoning_content":"hm"}}]}`+"\n\n",
			`data: {"choices":[{"delta":{"content":"x","reasoning":"!"}}]}`+"\n\n", `data: {"choices":[{"delta":{},"finish_reason":"stop"}]}`+"\n\n"),
		kinds: []Kind{Choices, thought, both | Reasoning, Choices}, want: Sample{Status: 200, Text: "x", Thought: "hm!", Finish: "stop"}},
	{name: "token ids", setup: streaming, response: okHead + `data: {"choices":[{"text":"a","token_ids":[1,2,3]}]}` + "\n\n" + `data: {"choices":[{"text":"b","token_ids":[]}]}` + "\n\n",
		kinds: []Kind{both, both}, tokens: []int16{3, 0}, want: Sample{Status: 200, Text: "ab"}},
	{name: "running usage", setup: streaming, response: okHead + `data: {"choices":[{"text":"a"}],"usage":{"completion_tokens":2}}` + "\n\n" +
		`data: {"choices":[{"text":"b"}],"usage":{"completion_tokens":5}}` + "\n\n" + usageLine(5),
		kinds: []Kind{both | Usage, both | Usage, Usage}, tokens: []int16{2, 3, -1}, want: Sample{Status: 200, Text: "ab", Counts: Counts{-1, 5, -1, -1}}},
	{name: "usage with the last chunk only is of the whole", setup: streaming, response: okHead + "data: " + textA + "\n\n" + `data: {"choices":[{"text":"b"}],"usage":{"completion_tokens":5}}` + "\n\n",
		kinds: []Kind{both, both | Usage}, tokens: []int16{-1, -1}, want: Sample{Status: 200, Text: "aéb", Counts: Counts{-1, 5, -1, -1}}},
	{name: "error in the stream", setup: streaming, reuse: true, response: chunked("data: "+textA+"\n\n", `data: {"error":{"message":"boom"}}`+"\n\n", "data: [DONE]\n\n"),
		kinds: []Kind{both, 0, Done}, want: Sample{Status: 200, Text: "aé", Err: `error in the stream: {"message":"boom"}`}},
	{name: "error line", setup: streaming, response: okHead + "data: " + textA + "\n\nerror: {\"code\":500}\n\n",
		kinds: []Kind{both}, want: Sample{Status: 200, Text: "aé", Err: `error in the stream: {"code":500}`}},
	{name: "not JSON", setup: streaming, response: okHead + "data: {nonsense}\n\n", want: Sample{Status: 200, Err: "event 0 of the stream is not JSON: {nonsense}"}},
	{name: "half an event", setup: streaming, response: okHead + "data: {\"choices\":[\n\n", want: Sample{Status: 200, Err: "event 0 of the stream is not JSON: {\"choices\":["}},
	{name: "ends within an event", setup: streaming, response: okHead + "data: {\"choices\":[", want: Sample{Status: 200, Err: "event 0 of the stream is not JSON: {\"choices\":["}},
	{name: "ends behind the first line of an event", setup: streaming, response: okHead + "data: {\"choices\":\n", want: Sample{Status: 200, Err: "event 0 of the stream is not JSON: {\"choices\":"}},
	{name: "ends within a word", setup: streaming, response: okHead + "data: [DONE", want: Sample{Status: 200, Err: "event 0 of the stream is not JSON: [DONE"}},
	{name: "closed within a chunk", setup: streaming, response: strings.TrimSuffix(chunked("data: "+textA+"\n\n"), "\r\n0\r\n\r\n"),
		kinds: []Kind{both}, want: Sample{Status: 200, Text: "aé", Err: "the connection was closed within the response"}},
	{name: "closed before anything", setup: streaming, want: Sample{Err: "the connection was closed before a response"}},
	{name: "nothing in it", setup: streaming, reuse: true, response: chunked("data: [DONE]\n\n"), kinds: []Kind{Done}, want: Sample{Status: 200}},
	{name: "tool calls, and a token without text", setup: Setup{Backend: "openai-chat", Stream: true}, reuse: true,
		response: chunked(`data: {"choices":[{"delta":{"tool_calls":[{"index":0}]}}]}`+"\n\n", `data: {"choices":[{"delta":{"content":""}}]}`+"\n\n",
			`data: {"choices":[{"delta":{"content":null,"tool_calls":[]}}]}`+"\n\n"),
		kinds: []Kind{Choices | Output, Choices | Output, Choices}, want: Sample{Status: 200}},
	{name: "refused", setup: streaming, reuse: true, response: "HTTP/1.1 429 \r\nContent-Length: 9\r\n\r\nslow down", want: Sample{Status: 429, Err: "429 Too Many Requests: slow down"}},
	{name: "long refusal", setup: streaming, reuse: true, response: "HTTP/1.1 500 Oh No\r\nContent-Length: 400\r\n\r\n" + strings.Repeat("x", 400),
		want: Sample{Status: 500, Err: "500 Oh No: " + strings.Repeat("x", 300)}},
	{name: "redirect", setup: streaming, reuse: true, response: "HTTP/1.1 307 Temporary Redirect\r\nLocation: /y\r\nContent-Length: 0\r\n\r\n", want: Sample{Status: 307, Err: "307 Temporary Redirect"}},
	{name: "hints before the answer", setup: streaming, reuse: true, response: "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + chunked("data: "+textA+"\n\n"),
		kinds: []Kind{both}, want: Sample{Status: 200, Text: "aé"}},
	{name: "chunk extensions and trailers", setup: streaming, reuse: true, response: "HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\nC;x=y\r\ndata: [DONE]\r\n0\r\nT: u\r\n\r\n",
		kinds: []Kind{Done}, want: Sample{Status: 200}},
	{name: "HTTP/1.0", setup: streaming, response: "HTTP/1.0 200 OK\r\nContent-Length: 12\r\n\r\ndata: [DONE]", kinds: []Kind{Done}, want: Sample{Status: 200}},
	{name: "connection: close", setup: streaming, response: "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 12\r\n\r\ndata: [DONE]", kinds: []Kind{Done}, want: Sample{Status: 200}},
	{name: "more than the length", setup: streaming, response: "HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\ndata: [DONE]x", kinds: []Kind{Done}, want: Sample{Status: 200}},
	{name: "no HTTP", setup: streaming, response: "SSH-2.0-x\r\n", want: Sample{Err: `"SSH-2.0-x": want a response of HTTP/1.1`}},
	{name: "bad length", setup: streaming, response: "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", want: Sample{Status: 200, Err: `content-length "-1"`}},
	{name: "two lengths", setup: streaming, response: "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", want: Sample{Status: 200, Err: `content-length "2"`}},
	{name: "bad chunk", setup: streaming, response: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", want: Sample{Status: 200, Err: `"zz": want the size of a chunk`}},
	{name: "chunk too long", setup: streaming, response: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab\r\n", want: Sample{Status: 200, Err: `"b" behind a chunk`}},
	{name: "compressed", setup: streaming, response: "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n", want: Sample{Status: 200, Err: `content-encoding "gzip"`}},
	{name: "no stream", setup: Setup{Backend: "openai-chat"}, reuse: true,
		response: "HTTP/1.1 200 OK\r\nContent-Length: 112\r\n\r\n" + `{"choices":[{"message":{"content":"x","reasoning":"y"},"finish_reason":"stop"}],"usage":{"completion_tokens":2}}`,
		kinds:    []Kind{both | Reasoning | Usage}, tokens: []int16{2}, want: Sample{Status: 200, Text: "x", Thought: "y", Finish: "stop", Counts: Counts{-1, 2, -1, -1}}},
	{name: "no stream, no JSON", setup: Setup{Backend: "openai"}, response: okHead + "oops", want: Sample{Status: 200, Err: "the response is not JSON: oops"}},
	{name: "Responses", setup: Setup{Backend: "openai-responses", Stream: true}, reuse: true,
		response: chunked(`event: response.created`+"\n"+`data: {"type":"response.created","response":{"usage":null,"error":null}}`+"\n\n",
			`data: {"type":"response.reasoning_text.delta","delta":"hm"}`+"\n\n", `data: {"type":"response.output_text.delta","delta":"x"}`+"\n\n",
			`data: {"type":"response.incomplete","response":{"status":"incomplete","usage":{"input_tokens":3,"output_tokens":4,"output_tokens_details":{"reasoning_tokens":1}}}}`+"\n\n"),
		kinds: []Kind{0, thought, both, Done | Usage}, want: Sample{Status: 200, Text: "x", Thought: "hm", Finish: "incomplete", Counts: Counts{3, 4, -1, 1}}},
	{name: "Responses without end", setup: Setup{Backend: "openai-responses", Stream: true}, response: okHead + `data: {"type":"response.output_text.delta","delta":"x"}` + "\n\n",
		kinds: []Kind{both}, want: Sample{Status: 200, Text: "x", Err: "the stream ended without response.completed"}},
	{name: "Responses failed", setup: Setup{Backend: "openai-responses", Stream: true}, response: okHead + `data: {"type":"error","message":"boom"}` + "\n\n",
		kinds: []Kind{0}, want: Sample{Status: 200, Err: `error in the stream: {"type":"error","message":"boom"}`}},
	{name: "Responses, no stream", setup: Setup{Backend: "openai-responses"}, response: okHead +
		`{"output":[{"content":[{"type":"reasoning_text","text":"hm"}]},{"content":[{"type":"output_text","text":"x"}]}],"usage":{"output_tokens":2}}`,
		kinds: []Kind{both | Reasoning | Usage}, tokens: []int16{2}, want: Sample{Status: 200, Text: "x", Thought: "hm", Counts: Counts{-1, 2, -1, -1}}},
}

func usageLine(n byte) string {
	return `data: {"choices":[],"usage":{"completion_tokens":` + string('0'+n) + `}}` + "\n\n"
}

func (c *streamCase) check(t *testing.T, s *Sample, reuse bool, how string) {
	t.Helper()
	want := c.want
	if want.Counts == (Counts{}) {
		want.Counts = unknownCounts
	}
	if !slices.Equal(kinds(s), c.kinds) || (c.tokens != nil && !slices.Equal(counts(s), c.tokens)) {
		t.Fatalf("%s: chunks of kinds %v with tokens %v, want %v, %v", how, kinds(s), counts(s), c.kinds, c.tokens)
	}
	if s.Status != want.Status || s.Text != want.Text || s.Thought != want.Thought || s.Finish != want.Finish || s.Counts != want.Counts {
		t.Fatalf("%s:\n got %+v\nwant %+v", how, *s, want)
	}
	if (s.Err == "") != (want.Err == "") || !strings.HasPrefix(s.Err, want.Err) {
		t.Fatalf("%s: error %q, want %q", how, s.Err, want.Err)
	}
	if reuse != c.reuse && s.Err == "" {
		t.Fatalf("%s: connection used again: %v, want %v", how, reuse, c.reuse)
	}
	last := time.Duration(0)
	for i, k := range s.Chunks {
		if k.At < last || k.Lag < 5 {
			t.Fatalf("%s: chunk %d at %v with lag %d behind %v", how, i, k.At, k.Lag, last)
		}
		last = k.At
	}
}

// Every response reads the same however its bytes are cut.
func TestStreams(t *testing.T) {
	for _, c := range streamCases {
		t.Run(c.name, func(t *testing.T) {
			h := offline(t, c.setup)
			s, reuse := play(h, c.response)
			c.check(t, s, reuse, "whole")
			if len(c.response) < 2 {
				return
			}
			for i := range len(c.response) - 1 {
				s, reuse = play(h, c.response[:i+1], c.response[i+1:])
				c.check(t, s, reuse, "cut at "+c.response[:i+1])
			}
			s, reuse = play(h, strings.Split(c.response, "")...)
			c.check(t, s, reuse, "in characters")
		})
	}
}

// A message is stamped when its JSON is complete, not when the blank line behind it
// comes (bench.md 1.5).
func TestStreamEarly(t *testing.T) {
	h := offline(t, streaming)
	for _, message := range []string{textA, "[DONE]", "{\"choices\":[{\"text\":\"}\"}]}"} {
		x := newExchange(h)
		s := new(Sample)
		x.begin(s, time.Now(), new(Live))
		for _, p := range []string{okHead, "data: " + message[:len(message)-1], message[len(message)-1:]} {
			if len(s.Chunks) != 0 {
				t.Errorf("%s: taken before it was complete", message)
			}
			if _, err := x.received([]byte(p), -1); err != nil {
				t.Fatal(err)
			}
		}
		if len(s.Chunks) != 1 || s.Chunks[0].Lag != -1 {
			t.Errorf("%s: chunks %v, want one at once, its lag not known", message, s.Chunks)
		}
		if _, err := x.received([]byte("\r\n\r\n"), -1); err != nil || len(s.Chunks) != 1 {
			t.Errorf("%s: %v, chunks %v after the blank line, want one", message, err, s.Chunks)
		}
	}
}

// Live counts what the streams bring.
func TestStreamLive(t *testing.T) {
	h := offline(t, streaming)
	var live Live
	x := newExchange(h)
	x.begin(new(Sample), time.Now().Add(-time.Second), &live)
	body := okHead + "data: " + textA + "\n\n" + `data: {"choices":[{"text":""}]}` + "\n\n" + `data: {"choices":[{"text":"b","token_ids":[1,2]}]}` + "\n\n"
	if _, err := x.received([]byte(body), -1); err != nil {
		t.Fatal(err)
	}
	if live.Tokens.Load() != 3 || live.First.Load() != 1 || live.FirstTime.Load() < int64(time.Second) {
		t.Errorf("tokens %d, first %d after %d ns; want 3, 1, 1 s or more", live.Tokens.Load(), live.First.Load(), live.FirstTime.Load())
	}
}

// An event is never longer than maxEvent, whatever the server sends.
func TestStreamBounds(t *testing.T) {
	x := newExchange(offline(t, streaming))
	x.begin(new(Sample), time.Now(), new(Live))
	piece := []byte(okHead + "data: " + strings.Repeat(" ", 1<<20))
	for range maxEvent>>20 + 1 {
		if _, err := x.received(piece, -1); err != nil {
			if !strings.Contains(err.Error(), "more than 67108864 bytes") {
				t.Errorf("got %v", err)
			}
			return
		}
		piece = piece[len(piece)-1<<20:]
	}
	t.Error("an event without end was accepted")
}

// A response without end in its head is refused too.
func TestHeadBounds(t *testing.T) {
	s, _ := play(offline(t, streaming), "HTTP/1.1 200 OK\r\n"+strings.Repeat("a: b\r\n", 20000))
	if !strings.Contains(s.Err, "head of the response") {
		t.Errorf("got %q", s.Err)
	}
}

// Any bytes at any cut give the same sample. Only where something stands behind an
// event on its line does it matter whether that came in time to spoil the event.
func FuzzStream(f *testing.F) {
	for i, c := range streamCases {
		f.Add(c.response, uint16(i), i%3 == 0)
	}
	f.Add("HTTP/1.1 200 OK\r\nContent-Length: 21\r\n\r\ndata: [DONE]x", uint16(51), false)
	f.Fuzz(func(t *testing.T, response string, at uint16, responses bool) {
		setup := streaming
		if responses {
			setup.Backend = "openai-responses"
		}
		h := offline(t, setup)
		x := newExchange(h)
		x.begin(new(Sample), time.Now(), new(Live))
		_, err := x.received([]byte(response), 5)
		if err = errors.Join(err, x.stream.end()); err != nil && strings.Contains(err.Error(), "is not JSON") {
			return
		}
		a, keepA := play(h, response)
		i := min(int(at), len(response))
		b, keepB := play(h, response[:i], response[i:])
		if !slices.Equal(kinds(a), kinds(b)) || !slices.Equal(counts(a), counts(b)) || a.Text != b.Text || a.Thought != b.Thought ||
			a.Finish != b.Finish || a.Err != b.Err || a.Status != b.Status || a.Counts != b.Counts || (keepA != keepB && a.Err == "") {
			t.Fatalf("%q cut at %d:\n%+v %v\n%+v %v", response, i, *a, keepA, *b, keepB)
		}
	})
}
