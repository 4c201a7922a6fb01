package wire

import (
	"bytes"
	"encoding/json"
	"math"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"
)

var testHead = Head{ID: "chatcmpl-1", Created: 1700000000, Model: "m", Fingerprint: "os-1-2"}

// deltas are one of each kind of chunk.
func deltas() []Delta {
	return []Delta{
		{Index: 1, Role: true, PromptIDs: []int32{1, 2}},
		{Index: 1, Reasoning: "think\n"},
		{Index: 1, Content: "“Hi” \\ \"there\"\u2028", Logprobs: []TokenLogprob{
			{Token: "“Hi”", Bytes: "“Hi”", Logprob: -0.25, Top: []TokenLogprob{{Token: "x", Bytes: "x", Logprob: -1.5}, {Token: "\xff", Bytes: "\xff", Logprob: float32(math.Inf(-1))}}},
			{Token: "token_id:7", Bytes: "", Logprob: 0, Top: []TokenLogprob{}}}},
		{Index: 1, Call: &CallDelta{Index: 0, ID: "call_1", Name: "get-weather"}},
		{Index: 1, Call: &CallDelta{Index: 0, Arguments: `{"city":`}, TokenIDs: []int32{5}},
		{Index: 1, Call: &CallDelta{Index: 1, ID: "call_2", Name: "sh", Custom: true}},
		{Index: 1, Call: &CallDelta{Index: 1, Arguments: "ls \"x\"", Custom: true}},
		{Index: 1, Finish: FinishToolCalls},
		{Index: 1, Content: "end", Finish: FinishStop, Stop: StopReason{Text: "\n\n"}},
		{Index: 1, Finish: FinishStop, Stop: StopReason{ByID: true, Token: 200002}, Logprobs: []TokenLogprob{}},
	}
}

func completions() []CompletionChoice {
	return []CompletionChoice{
		{Text: "a b", Logprobs: &CompletionLogprobs{Tokens: []string{"a", " b"}, Logprob: []float32{float32(math.NaN()), -2},
			Top: [][]TokenLogprob{nil, {{Token: " b", Logprob: -2}, {Token: "�", Logprob: -3}, {Token: "�", Logprob: -4}}}, Offset: []int{0, 1}}, PromptIDs: []int32{},
			PromptLogprobs: [][]PromptLogprob{nil, {{ID: 70, Token: " b", Logprob: -2, Rank: 9}, {ID: 7, Token: "\"\xff", Logprob: float32(math.Inf(-1)), Rank: 1}}}},
		{Text: "", Finish: FinishLength, Empty: EmptyLength, TokenIDs: []int32{1}},
	}
}

const goldenHead = "# Made by: go test ./internal/wire -run TestGolden -update\n"

func TestGoldenStreams(t *testing.T) {
	usage := NewUsage(10, 4, 7, 3)
	var b strings.Builder
	b.WriteString(goldenHead)
	for _, tc := range []struct {
		name  string
		o     *StreamOptions
		field ReasoningField
	}{
		{"plain", nil, FieldReasoning},
		{"usage at the end, reasoning_content", &StreamOptions{IncludeUsage: true}, FieldReasoningContent},
		{"running usage, both reasoning fields", &StreamOptions{IncludeUsage: true, ContinuousUsage: true}, FieldBoth},
	} {
		b.WriteString("\n## chat, " + tc.name + "\n")
		s := NewChatStream(testHead, tc.o, tc.field)
		for _, in := range deltas() {
			b.Write(s.Append(nil, &in, &usage))
		}
		b.Write(s.AppendUsage(nil, &usage))
		b.WriteString(Ping + Done)
		b.WriteString("\n## completion, " + tc.name + "\n")
		c := NewCompletionStream(Head{ID: "cmpl-1", Model: "m\"", Created: 5}, tc.o)
		for i, choice := range completions() {
			b.Write(c.Append(nil, i, &choice, &usage))
		}
		b.Write(c.AppendUsage(nil, &usage))
		b.Write(AppendErrorEvent(nil, &Error{Message: "stalled", Type: TypeServer, Code: CodeInternal}))
		b.WriteString(Done)
	}
	golden(t, "testdata/streams.golden", b.String())
}

func TestGoldenReplies(t *testing.T) {
	chat := ChatReply{Head: testHead, Usage: NewUsage(3, 2, 1, 0), Choices: []ChatChoice{
		{Content: "x", Reasoning: "r", Finish: FinishStop, Logprobs: deltas()[2].Logprobs, Stop: StopReason{Text: "END"}},
		{Calls: []ToolCall{{ID: "call_1", Name: "f", Arguments: `{"a": 1}`}, {ID: "call_2", Name: "g", Arguments: "free", Custom: true}}, Finish: FinishToolCalls, TokenIDs: []int32{4, 5}},
	}, PromptIDs: []int32{1}, PromptLogprobs: completions()[0].PromptLogprobs}
	text := CompletionReply{Head: Head{ID: "cmpl-1", Model: "m"}, Usage: NewUsage(3, 0, 1, 0), Choices: completions()}
	var b strings.Builder
	b.WriteString(goldenHead)
	for _, body := range [][]byte{chat.Append(nil), text.Append(nil)} {
		var out bytes.Buffer
		if err := json.Indent(&out, body, "", " "); err != nil {
			t.Fatal(err)
		}
		b.WriteString("\n" + out.String() + "\n")
	}
	golden(t, "testdata/replies.golden", b.String())
}

// A chunk is what a client reads from a chat or completion reply, streamed or not.
// Strings that are null are empty.
type chunk struct {
	ID      string        `json:"id"`
	Model   string        `json:"model"`
	Created int64         `json:"created"`
	Choices []chunkChoice `json:"choices"`
	Usage   *Usage        `json:"usage"`
}

// chunkChoice is a choice of a chunk: of a chat stream (Delta), a chat reply
// (Message) or a completion (Text).
type chunkChoice struct {
	Index        int          `json:"index"`
	Text         string       `json:"text"`
	Delta        *chunkDelta  `json:"delta"`
	Message      *chunkDelta  `json:"message"`
	FinishReason string       `json:"finish_reason"`
	Logprobs     *chunkTokens `json:"logprobs"`
}

// chunkDelta is what a chat chunk adds.
type chunkDelta struct {
	Role             string      `json:"role"`
	Content          string      `json:"content"`
	Reasoning        string      `json:"reasoning"`
	ReasoningContent string      `json:"reasoning_content"`
	ToolCalls        []chunkCall `json:"tool_calls"`
}

// chunkCall is a piece of a tool call.
type chunkCall struct {
	Index    int    `json:"index"`
	ID       string `json:"id"`
	Function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	} `json:"function"`
	Custom struct {
		Name  string `json:"name"`
		Input string `json:"input"`
	} `json:"custom"`
}

// chunkTokens are the log probabilities of a chunk, in the form of chat (Content)
// or of completions.
type chunkTokens struct {
	Content []struct {
		Token   string  `json:"token"`
		Logprob float64 `json:"logprob"`
		Bytes   []int   `json:"bytes"`
	} `json:"content"`
	Tokens        []string   `json:"tokens"`
	TokenLogprobs []*float64 `json:"token_logprobs"`
}

// What is appended is what encoding/json reads and would write.
func TestAgainstEncodingJSON(t *testing.T) {
	usage := NewUsage(10, 4, 7, 3)
	want, err := json.Marshal(&usage)
	if err != nil {
		t.Fatal(err)
	}
	if got := appendUsage(nil, &usage); string(got) != string(want) {
		t.Errorf("usage: got %s, want %s", got, want)
	}
	s := NewChatStream(testHead, &StreamOptions{IncludeUsage: true, ContinuousUsage: true}, FieldBoth)
	for i, in := range deltas() {
		event := s.Append(nil, &in, &usage)
		body, ok := bytes.CutPrefix(event, []byte("data: "))
		body, end := bytes.CutSuffix(body, []byte("\n\n"))
		if !ok || !end || bytes.ContainsAny(body, "\n\r") || !json.Valid(body) {
			t.Fatalf("chunk %d is no event of one line of JSON: %q", i, event)
		}
		var c chunk
		if err := json.Unmarshal(body, &c); err != nil {
			t.Fatal(err)
		}
		got := c.Choices[0]
		if c.ID != testHead.ID || c.Model != testHead.Model || c.Created != testHead.Created || *c.Usage != usage || got.Index != 1 {
			t.Errorf("chunk %d: %+v", i, c)
		}
		call := CallDelta{}
		if len(got.Delta.ToolCalls) == 1 {
			k := got.Delta.ToolCalls[0]
			call = CallDelta{Index: k.Index, ID: k.ID, Name: k.Function.Name + k.Custom.Name, Arguments: k.Function.Arguments + k.Custom.Input,
				Custom: k.Custom.Name+k.Custom.Input != ""}
		}
		wantCall := CallDelta{}
		if in.Call != nil {
			wantCall = *in.Call
		}
		if got.Delta.Content != in.Content || got.Delta.Reasoning != in.Reasoning || got.Delta.ReasoningContent != in.Reasoning || got.FinishReason != in.Finish ||
			(got.Delta.Role == "assistant") != in.Role || !reflect.DeepEqual(call, wantCall) {
			t.Errorf("chunk %d: got %+v, want %+v", i, got, in)
		}
	}
}

// logprobs.content covers the content: its bytes, joined, are the content.
func TestLogprobBytes(t *testing.T) {
	const content = "né\u00a0日本"
	var tokens []TokenLogprob
	for _, part := range []string{content[:2], content[2:3], content[3:8], content[8:]} { // through the middle of characters
		tokens = append(tokens, TokenLogprob{Token: part, Bytes: part, Logprob: -1})
	}
	var got chunkTokens
	if err := json.Unmarshal(appendChatLogprobs(nil, tokens), &got); err != nil {
		t.Fatal(err)
	}
	var joined []byte
	for _, t := range got.Content {
		for _, b := range t.Bytes {
			joined = append(joined, byte(b))
		}
	}
	if string(joined) != content {
		t.Errorf("got %q, want %q", joined, content)
	}
}

func TestLogprobNumbers(t *testing.T) {
	for _, tc := range []struct {
		p    float32
		want string
	}{
		{0, "0"}, {-0.1, "-0.1"}, {float32(math.Inf(-1)), "-9999.0"}, {float32(math.NaN()), "-9999.0"}, {-1e-8, "-1e-08"}, {-10000, "-9999.0"}, {float32(math.Inf(1)), "3.4028235e+38"}, {-9998.5, "-9998.5"},
	} {
		got := string(appendLogprob(nil, tc.p))
		if got != tc.want || !json.Valid([]byte(got)) {
			t.Errorf("%v: got %s, want %s", tc.p, got, tc.want)
		}
	}
}

// The steady state of a stream allocates nothing.
func TestChunksDoNotAllocate(t *testing.T) {
	s := NewChatStream(testHead, &StreamOptions{IncludeUsage: true, ContinuousUsage: true}, FieldReasoning)
	c := NewCompletionStream(testHead, nil)
	usage := NewUsage(1, 0, 1, 0)
	chunks, choices := deltas(), completions()
	dst := make([]byte, 0, 4096)
	if n := testing.AllocsPerRun(100, func() {
		for i := range chunks {
			dst = s.Append(dst[:0], &chunks[i], &usage)
		}
		for i := range choices {
			dst = c.Append(dst[:0], i, &choices[i], nil)
		}
		dst = AppendErrorEvent(s.AppendUsage(dst[:0], &usage), &Error{Message: "m"})
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// FuzzString: what is appended is one line of ASCII-safe JSON that reads back as
// the text, with U+FFFD for what is not UTF-8.
func FuzzString(f *testing.F) {
	for _, s := range []string{"", "plain", "\"\\\b\f\n\r\t\x00\x1f\x7f", "é日本𝄞", "\xff\xc3", "\u0085\u2028\u2029", "<&>", "\xed\xa0\x80", "\ufffd", "a\xf0\x9d\x84"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got := AppendString(nil, s)
		if bytes.ContainsFunc(got, func(r rune) bool { return r < ' ' || r == '\u0085' || r == '\u2028' || r == '\u2029' }) || !utf8.Valid(got) {
			t.Fatalf("%q: %q has the end of a line or is no UTF-8", s, got)
		}
		var back, want string
		if err := json.Unmarshal(got, &back); err != nil {
			t.Fatalf("%q: %v", got, err)
		}
		oracle, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(oracle, &want); err != nil {
			t.Fatal(err)
		}
		if back != want {
			t.Fatalf("got %q, want %q", back, want)
		}
	})
}

func BenchmarkChunk(b *testing.B) {
	s := NewChatStream(testHead, nil, FieldReasoning)
	in := Delta{Content: " token"}
	dst := make([]byte, 0, 1024)
	for b.Loop() {
		dst = s.Append(dst[:0], &in, nil)
	}
	b.SetBytes(int64(len(dst)))
}
