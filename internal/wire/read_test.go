package wire

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"ossian/internal/limits"
)

// events reads a stream to its end.
func events(r io.Reader, most int) (out []string, err error) {
	reader := NewReader(r, most)
	for {
		e, err := reader.Next()
		if err == io.EOF {
			return out, nil
		}
		if err != nil {
			return out, err
		}
		out = append(out, e.Type+"|"+string(e.Data))
	}
}

func TestReader(t *testing.T) {
	for _, tc := range []struct {
		name, stream string
		want         []string
	}{
		{"nothing", "", nil},
		{"one", "data: a\n\n", []string{"|a"}},
		{"several", "data: a\n\ndata: b\n\n", []string{"|a", "|b"}},
		{"CRLF", "data: a\r\n\r\ndata: b\r\n\r\n", []string{"|a", "|b"}},
		{"CR", "data: a\r\rdata: b\r\r", []string{"|a", "|b"}},
		{"mixed ends", "data: a\r\n\ndata: b\n\r", []string{"|a", "|b"}},
		{"comments", ": ping\n\n:\ndata: a\n: x\n\n", []string{"|a"}},
		{"several lines", "data: a\ndata: b\ndata:\n\n", []string{"|a\nb\n"}},
		{"named", "event: response.created\ndata: {}\n\ndata: b\n\n", []string{"response.created|{}", "|b"}},
		{"name without data", "event: x\n\ndata: b\n\n", []string{"|b"}},
		{"no space", "data:a\nevent:x\n\n", []string{"x|a"}},
		{"one space only", "data:  a\n\n", []string{"| a"}},
		{"byte order mark", "\xef\xbb\xbfdata: a\n\n", []string{"|a"}},
		{"fields that do not matter", "id: 1\nretry: 5\nfoo\ndata: a\n\n", []string{"|a"}},
		{"data without colon", "data\n\n", []string{"|"}},
		{"no empty line at the end", "data: a\n", []string{"|a"}},
		{"no line end at the end", "data: [DONE]", []string{"|[DONE]"}},
		{"separators of other formats stay", "data: a\u2028b\u0085c\x0b\n\n", []string{"|a\u2028b\u0085c\x0b"}},
	} {
		for split, r := range map[string]io.Reader{"whole": strings.NewReader(tc.stream), "bytewise": iotest.OneByteReader(strings.NewReader(tc.stream)), "data with the end": iotest.DataErrReader(strings.NewReader(tc.stream))} {
			got, err := events(r, 100)
			if err != nil || !slices.Equal(got, tc.want) {
				t.Errorf("%s, %s: got %q, %v, want %q", tc.name, split, got, err, tc.want)
			}
		}
	}
}

func TestReaderErrors(t *testing.T) {
	for _, stream := range []string{"data: " + strings.Repeat("x", 101) + "\n\n", strings.Repeat("data: 12345678\n", 20) + "\n", strings.Repeat("y", 100000)} {
		if _, err := events(strings.NewReader(stream), 100); !errors.Is(err, ErrLineTooLong) {
			t.Errorf("%.20q…: got %v, want ErrLineTooLong", stream, err)
		}
	}
	broken := errors.New("reset by peer")
	got, err := events(io.MultiReader(strings.NewReader("data: a\n\ndata: b\n"), iotest.ErrReader(broken)), 100)
	if !errors.Is(err, broken) || !slices.Equal(got, []string{"|a"}) {
		t.Errorf("a broken stream: %q, %v", got, err)
	}
	if e := (Event{Data: []byte("[DONE]")}); !e.IsDone() {
		t.Error("the end is not recognised")
	}
}

// A long line costs its length, and an event is there when its last byte is.
func TestReaderDoesNotWait(t *testing.T) {
	r, w := io.Pipe()
	reader := NewReader(r, 1<<26)
	go func() {
		_, _ = w.Write([]byte("data: a\n\n"))
	}()
	if e, err := reader.Next(); err != nil || string(e.Data) != "a" {
		t.Fatalf("%q, %v", e.Data, err)
	}
	long := strings.Repeat("x", 1<<20)
	go func() {
		_, _ = w.Write([]byte("data: " + long + "\n\n"))
		w.Close()
	}()
	if e, err := reader.Next(); err != nil || string(e.Data) != long {
		t.Fatalf("%d bytes, %v", len(e.Data), err)
	}
}

// FuzzReader: any split of any bytes gives the same events, and what the encoders
// write reads back.
func FuzzReader(f *testing.F) {
	for _, s := range []string{"data: a\n\n", "data: a\r\n\r\n: x\r\rdata", "event: e\ndata: b\ndata: c\n\n", "\xef\xbb\xbf\n\r\n", "data", ":", "\r", "data:\r\n\n"} {
		f.Add([]byte(s), "text\n\r\u2028")
	}
	f.Fuzz(func(t *testing.T, stream []byte, text string) {
		whole, err1 := events(bytes.NewReader(stream), 1<<16)
		split, err2 := events(iotest.OneByteReader(bytes.NewReader(stream)), 1<<16)
		if !slices.Equal(whole, split) || (err1 == nil) != (err2 == nil) {
			t.Fatalf("whole %q, %v; split %q, %v", whole, err1, split, err2)
		}
		s := NewChatStream(Head{ID: text, Model: text}, nil, FieldReasoning)
		out := s.Append([]byte(Ping), &Delta{Content: text}, nil)
		out = append(s.Append(out, &Delta{Reasoning: text, Finish: text}, nil), Done...)
		got, err := events(bytes.NewReader(out), 1<<20)
		if err != nil || len(got) != 3 || got[2] != "|[DONE]" {
			t.Fatalf("%q reads back as %q, %v", out, got, err)
		}
	})
}

// FuzzDecode: any body gives a request or an *Error; a request encodes again to one
// that decodes to the same.
func FuzzDecode(f *testing.F) {
	for _, s := range []string{``, `{}`, withUser(``), withUser(`"tools":[{"type":"function","function":{"name":"f","parameters":{"a":[1,{}]}}},{"type":"mcp"}],"tool_choice":"auto"`),
		`{"messages":[{"role":"assistant","content":[{"type":"refusal","refusal":"x"}],"tool_calls":[{"id":"a","function":{"name":"f","arguments":{}}}],"reasoning_details":[{"text":"a"}]}]}`,
		withUser(`"functions":[{"name":"f"}],"function_call":{"name":"f"},"logit_bias":{"1":2},"metadata":{"a":"b"},"stop":["a"]`),
		withUser(`"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"auto","tools":[]}},"response_format":{"type":"structural_tag","triggers":[1]}`),
		withUser(`"guided_json":"{}","guided_choice":["a"],"stream_options":{"x":1},"reasoning":{"enabled":false},"seed":1e3`),
		`{"prompt":[[1,2],[3]],"logprobs":3,"echo":true,"max_tokens":0}`, `{"prompt":"a","n":1.0}`, `{"tokens":[1]}`, `{"a":[[[[]]]],"a":1}`, `{"messages":[{"role":"\ud800","content":"\u0000"}]}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		lim := limits.Defaults()
		lim[limits.JSONDepth] = 20
		r, err := DecodeChat(body, lim)
		sane(t, err)
		if err == nil {
			_ = r.Validate(lim)
			same(t, r, func(b []byte) (any, error) { return DecodeChat(b, lim) })
		}
		c, err := DecodeCompletion(body, lim)
		sane(t, err)
		if err == nil {
			valid := c.Validate(lim)
			sane(t, valid)
			if valid == nil {
				same(t, c, func(b []byte) (any, error) { return DecodeCompletion(b, lim) })
			}
		}
		k, err := DecodeTokenize(body, lim)
		sane(t, err)
		if err == nil {
			sane(t, k.Validate(lim))
		}
		_, err = DecodeDetokenize(body, lim)
		sane(t, err)
		ParseError(body)
	})
}

// sane requires an *Error whose body is one line of JSON of bounded length.
func sane(t *testing.T, err error) {
	t.Helper()
	if err == nil {
		return
	}
	e, ok := errors.AsType[*Error](err)
	if !ok || e.Type != TypeInvalidRequest || e.Code == "" || len(e.Param) > 20000 || len(e.Message) > 1000 {
		t.Fatalf("error %+v", err)
	}
	if body := AppendError(nil, e); !valid(body) || bytes.ContainsAny(body, "\r\n") {
		t.Fatalf("error body %q", body)
	}
}

func same(t *testing.T, r any, decode func([]byte) (any, error)) {
	t.Helper()
	first := encoded(t, r)
	again, err := decode([]byte(first))
	if err != nil {
		t.Fatalf("%s: %v", first, err)
	}
	if second := encoded(t, again); second != first {
		t.Fatalf("first  %s\nsecond %s", first, second)
	}
}
