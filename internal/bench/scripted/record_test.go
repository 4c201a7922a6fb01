package scripted

import (
	"bytes"
	"reflect"
	"testing"
	"time"
)

const ms = time.Millisecond

func TestSpreads(t *testing.T) {
	hundred := make([]time.Duration, 100)
	for i := range hundred {
		hundred[i] = time.Duration(100-i) * ms
	}
	for _, tt := range []struct {
		name string
		d    []time.Duration
		want Spread
	}{
		{"nothing", nil, Spread{}},
		{"one", []time.Duration{3}, Spread{1, 3, 3, 3, 3}},
		{"two", []time.Duration{4, 2}, Spread{2, 3, 2, 4, 4}},
		{"1 to 100", hundred, Spread{100, 50500 * time.Microsecond, 50 * ms, 99 * ms, 100 * ms}},
	} {
		if got := Spreads(tt.d); got != tt.want {
			t.Errorf("%s: %+v, want %+v", tt.name, got, tt.want)
		}
	}
}

// Worked by hand.
func TestCompare(t *testing.T) {
	l := &Log{Records: []Record{
		{Index: 0, Received: 100 * ms, Sends: []Send{{Actual: 150 * ms}, {Actual: 160 * ms}, {Actual: 171 * ms}}},
		{Index: 1, Received: 100 * ms, Sends: []Send{{Actual: 120 * ms}}},
		{Index: 2, Sends: []Send{{}, {}}}, // the client lost an event
		{Index: 3},                        // no answer, and the client says nothing
		{Index: -1, Sends: []Send{{}}},    // a warm-up
	}}
	got := l.Compare([]Seen{
		{Index: 0, TTFT: 52 * ms, Gaps: []time.Duration{13 * ms, 10 * ms}}, // gaps 10 and 11
		{Index: 1, TTFT: 26 * ms},
		{Index: 2, TTFT: ms},
		{Index: 9, TTFT: ms}, // never came
	})
	want := Errors{Requests: 2, Missed: 3, Events: 4,
		TTFT: Spread{2, 4 * ms, 2 * ms, 6 * ms, 6 * ms},
		Gap:  Spread{2, 2 * ms, 1 * ms, 3 * ms, 3 * ms}}
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestLateness(t *testing.T) {
	l := &Log{Records: []Record{{Sends: []Send{{Planned: 1, Actual: 3, Tokens: 1}, {Planned: 1, Actual: 9}, {Planned: 5, Actual: 5, Tokens: 2}}}}}
	if got, want := l.Lateness(), (Spread{2, 1, 0, 2, 2}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

var example = &Log{Began: time.Unix(0, 1767225600123456789), Blocked: 2, Records: []Record{
	{ID: "bench-1", Index: 1, Path: "/v1/completions", Turn: 3, Asked: 2, Prompt: 4, Received: 5, Ended: 60, Sends: []Send{{6, 7, 1}, {8, 9, 2}}},
	{ID: "x", Index: -1, Path: "/v1/responses", Asked: 16, Fault: Reset, Err: "broken pipe", Sends: []Send{}},
}}

func TestLogIsReadBack(t *testing.T) {
	var b bytes.Buffer
	if err := example.write(&b); err != nil {
		t.Fatal(err)
	}
	got, err := ReadLog(&b)
	if err != nil || !got.Began.Equal(example.Began) {
		t.Fatalf("began %v, want %v; %v", got.Began, example.Began, err)
	}
	got.Began = example.Began
	if !reflect.DeepEqual(got, example) {
		t.Errorf("got %+v, want %+v", got, example)
	}
}

// A log that can be read is written back as the same one.
func FuzzReadLog(f *testing.F) {
	var b bytes.Buffer
	if err := example.write(&b); err != nil {
		f.Fatal(err)
	}
	f.Add(b.Bytes())
	f.Add([]byte(`{"records":-1}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		first, err := ReadLog(bytes.NewReader(text))
		if err != nil {
			return
		}
		var b bytes.Buffer
		if err := first.write(&b); err != nil {
			t.Fatal(err)
		}
		second, err := ReadLog(&b)
		if err != nil || !reflect.DeepEqual(first, second) {
			t.Errorf("%v: %+v became %+v", err, first, second)
		}
	})
}

// No body makes the server panic, and what it accepts it can play.
func FuzzAsk(f *testing.F) {
	for _, seed := range []string{`{}`, `{"prompt":[1,2],"max_tokens":3}`, `{"messages":[{"role":"user","content":[{"type":"text","text":"hi"}]}]}`,
		`{"input":"x","max_output_tokens":-1}`, `{"stream_options":null,"max_tokens":null}`, `{"prompt":{"content":{"text":["a",7]}}}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		a, err := parseAsk(text)
		if err != nil {
			return
		}
		if n := a.tokens(); n < 1 || n > maxTokens || a.prompt() < 0 || a.prompt() > len(text) {
			t.Errorf("%d tokens asked for, %d in the prompt of %d bytes", n, a.prompt(), len(text))
		}
	})
}

func TestPromptTokens(t *testing.T) {
	for body, want := range map[string]int{
		`{"prompt":"aé🌍"}`:     3,
		`{"prompt":[5,6,7,8]}`: 4,
		`{"messages":[{"role":"user","content":"ab"},{"role":"user","content":[{"type":"text","text":"cde"}]}]}`: 5,
		`{"input":"four"}`:                           4,
		`{"input":[{"role":"user","content":"xy"}]}`: 2,
		`{}`: 0,
	} {
		a, err := parseAsk([]byte(body))
		if err != nil {
			t.Fatal(err)
		}
		if got := a.prompt(); got != want {
			t.Errorf("%s: %d tokens, want %d", body, got, want)
		}
	}
}

// The steady state does not allocate.
func TestTurnDoesNotAllocate(t *testing.T) {
	for api := range paths {
		s, buf := endless(api)
		if n := testing.AllocsPerRun(100, func() { turn(s, buf) }); n != 0 {
			t.Errorf("%s: an event allocates %v times", paths[api], n)
		}
	}
}

// endless is a stream that has begun and has no end.
func endless(api api) (*stream, *eventBuffer) {
	s := &stream{script: &Script{}, words: (&Script{}).words(), shape: &Dialect{}, api: api, id: "1", model: []byte(`"m"`), ask: &ask{}, tokens: 1 << 60}
	s.makeItems()
	s.form = formOf("", api, s.id, "m")
	s.record.Sends = make([]Send, 0, 4)
	buf := &eventBuffer{}
	turn(s, buf)
	return s, buf
}

func turn(s *stream, buf *eventBuffer) {
	buf.out = buf.out[:0]
	s.record.Sends = s.record.Sends[:0]
	s.advance(buf, 123456789)
}

func BenchmarkTurn(b *testing.B) {
	s, buf := endless(chat)
	for b.Loop() {
		turn(s, buf)
	}
	b.SetBytes(int64(len(buf.out)))
}
