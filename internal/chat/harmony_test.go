package chat_test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	"ossian/internal/chat"
	"ossian/internal/chat/formattest"
	"ossian/internal/token"
)

// sampled returns the ids of an answer, control tokens by name.
func sampled(tok *token.BPE, text string) []int32 {
	p := tok.Prompt()
	p.Markup(text)
	return p.IDs()
}

func harmonyTools(t testing.TB) *chat.Conversation {
	t.Helper()
	return &chat.Conversation{
		Turns:    []chat.Turn{say(chat.User, "Hi")},
		Tools:    []chat.Tool{{Name: "f"}, {Name: "get-weather"}, {Name: "json_tool"}},
		Builtins: []chat.Namespace{namespace(t, "browser"), namespace(t, "python")},
	}
}

func TestHarmonyParse(t *testing.T) {
	t.Parallel()
	tok := harmonyTokens(t)
	f := newFormat(t, chat.Facts{Family: "gpt-oss", Tokenizer: tok})
	long := strings.Repeat(" word", 70)
	// The input follows <|start|>assistant, unless said otherwise.
	tests := []struct{ name, in, want string }{
		// Well-formed.
		{"nothing", "", ""},
		{"answer", "<|channel|>final<|message|>4<|return|>", "content[4] end"},
		{"reasoning and answer", "<|channel|>analysis<|message|>2+2<|end|><|start|>assistant<|channel|>final<|message|>4<|return|>", "reasoning[2+2] content[4] end"},
		{"call, recipient behind the channel", "<|channel|>commentary to=functions.f <|constrain|>json<|message|>{\"a\":1}<|call|>", `call:f[{"a":1}] end`},
		{"call, recipient before the channel", " to=functions.f<|channel|>commentary json<|message|>{}<|call|>", "call:f[{}] end"},
		{"call, constrain glued", " to=functions.f<|channel|>commentary<|constrain|>json<|message|>{}<|call|>", "call:f[{}] end"},
		{"call on analysis", "<|channel|>analysis to=functions.f code<|message|>{}<|call|>", "call:f[{}] end"},
		{"call of a renamed function", "<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>{}<|call|>", "call:get-weather[{}] end"},
		{"call by the declared name", "<|channel|>commentary to=functions.get-weather json<|message|>{}<|call|>", "call:get-weather[{}] end"},
		{"call in other case", "<|channel|>commentary to=functions.Get_Weather json<|message|>{}<|call|>", "call:get-weather[{}] end"},
		{"call without namespace", "<|channel|>commentary to=f<|message|>{}<|call|>", "call:f[{}] end"},
		{"preamble and call", "<|channel|>commentary<|message|>Wait.<|end|><|start|>assistant<|channel|>commentary to=functions.f json<|message|>{}<|call|>", "preamble[Wait.] call:f[{}] end"},
		{"built-in call", "<|channel|>analysis to=browser.search code<|message|>{\"query\":\"x\"}<|call|>", `builtin:browser.search[{"query":"x"}] end`},
		{"built-in call of a namespace", " to=python<|channel|>analysis code<|message|>1+1<|call|>", "builtin:python[1+1] end"},
		{"recipient without to=", "<|channel|>commentary functions.f <|constrain|>json<|message|>{}<|call|>", "call:f[{}] end"},
		{"content type on the answer", "<|channel|>final <|constrain|>json<|message|>{}<|return|>", "content[{}] end"},
		{"plain content type on the answer", "<|channel|>final json<|message|>{}<|return|>", "content[{}] end"},
		{"answer closed by end", "<|channel|>final<|message|>4<|end|>", "content[4] end"},
		{"end of text", "<|channel|>final<|message|>4<|endoftext|>", "content[4] end"},
		{"empty messages", "<|channel|>analysis<|message|><|end|><|start|>assistant<|channel|>final<|message|><|return|>", "reasoning[] content[] end"},
		{"two reasonings", "<|channel|>analysis<|message|>a<|end|><|start|>assistant<|channel|>analysis<|message|>b<|end|>", "reasoning[a] reasoning[\nb]"},
		{"preamble and answer", "<|channel|>commentary<|message|>a<|end|><|start|>assistant<|channel|>final<|message|>b<|return|>", "preamble[a] content[\nb] end"},
		// Cut.
		{"cut in reasoning", "<|channel|>analysis<|message|>2+", "reasoning[2+]~"},
		{"cut in the answer", "<|channel|>final<|message|>4 and", "content[4 and]~"},
		{"cut in a call", "<|channel|>commentary to=functions.f json<|message|>{\"a", `call:f[{"a]~`},
		{"cut in a header", "<|channel|>commentary to=functions", "| S16"},
		{"cut behind a channel", "<|channel|>final", "| S16"},
		{"cut behind start", "<|channel|>analysis<|message|>a<|end|><|start|>", "reasoning[a] | S16"},
		{"cut behind the role", "<|channel|>analysis<|message|>a<|end|><|start|>assistant", "reasoning[a] | S16"},
		{"cut in a recipient", " to", "| S16"},
		// S1, S2, S3: no header.
		{"doubled terminator", "<|channel|>analysis<|message|>a<|end|><|end|><|start|>assistant<|channel|>final<|message|>b<|return|>", "reasoning[a] content[b] end | S1"},
		{"only a terminator", "<|end|>", "| S1"},
		{"only return", "<|return|>", "end"},
		{"channel without start", "<|channel|>analysis<|message|>a<|end|><|channel|>final<|message|>b<|return|>", "reasoning[a] content[b] end | S2"},
		{"message without header", "<|channel|>analysis<|message|>a<|end|><|message|>b<|return|>", "reasoning[a] content[b] end | S2 S7"},
		{"text before a channel", "<|channel|>analysis<|message|>a<|end|>assistant<|channel|>final<|message|>b<|return|>", "reasoning[a] content[b] end | S3"},
		{"channel name without marker", "<|channel|>analysis<|message|>a<|end|>commentary to=functions.f <|constrain|>json<|message|>{}<|call|>", "reasoning[a] call:f[{}] end | S3"},
		{"final without marker", "<|channel|>analysis<|message|>a<|end|>final<|message|>b<|return|>", "reasoning[a] content[b] end | S3"},
		{"text behind reasoning", "<|channel|>analysis<|message|>a<|end|>The answer is 4.<|return|>", "reasoning[a] content[The answer is 4.] end | S7a S3"},
		{"text behind reasoning, cut", "<|channel|>analysis<|message|>a<|end|>The answer", "reasoning[a] content[The answer]~ | S7a S9"},
		{"text between messages", "<|channel|>analysis<|message|>a<|end|>so what<|start|>assistant<|channel|>final<|message|>b<|return|>", "reasoning[a] reasoning[\nso what] content[b] end | S7a S3"},
		{"text that begins like a channel", "<|channel|>analysis<|message|>a<|end|>final words are text<|return|>", "reasoning[a] content[final words are text] end | S7a S3"},
		{"role words only", "<|channel|>analysis<|message|>a<|end|>assistant<|return|>", "reasoning[a] end"},
		{"long text behind reasoning", "<|channel|>analysis<|message|>a<|end|>" + long + "<|return|>", "reasoning[a] content[" + long + "] end | S3"},
		// S4: repeated starts and roles.
		{"doubled start", "<|channel|>analysis<|message|>a<|end|><|start|><|start|>assistant<|channel|>final<|message|>b<|return|>", "reasoning[a] content[b] end | S4"},
		{"start at once", "<|start|>assistant<|channel|>final<|message|>b<|return|>", "content[b] end | S4"},
		{"role twice", "assistant<|channel|>final<|message|>b<|return|>", "content[b] end"},
		{"role glued to a channel name", "assistantanalysis<|message|>b<|return|>", "reasoning[b] end"},
		// S5, S6: channels.
		{"two channels", "<|channel|>commentary to=assistant<|channel|>analysis<|message|>a<|return|>", "reasoning[a] end | S5 S8"},
		{"second channel unknown", "<|channel|>analysis<|channel|>zzz<|message|>a<|return|>", "reasoning[a] end | S6 S5"},
		{"dashes before the channel", "<|channel|>––commentary<|message|>a<|end|>", "preamble[a] | S6"},
		{"longer channel", "<|channel|>finally<|message|>a<|return|>", "content[a] end | S6"},
		{"shorter channel", "<|channel|>comment to=functions.f<|message|>{}<|call|>", "call:f[{}] end | S6"},
		{"upper case", "<|channel|>Final<|message|>a<|return|>", "content[a] end"},
		{"thinking", "<|channel|>thinking<|message|>a<|end|>", "reasoning[a] | S6"},
		{"unknown channel", "<|channel|>zzz<|message|>a<|return|>", "content[a] end | S6 S7"},
		{"recipient glued to the channel", "<|channel|>commentaryto=functions.f<|message|>{}<|call|>", "call:f[{}] end | S6"},
		// S7: no channel.
		{"no channel", "<|message|>a<|return|>", "content[a] end | S7"},
		{"empty channel", "<|channel|><|message|>a<|return|>", "content[a] end | S7"},
		{"recipient without channel", " to=functions.f<|message|>{}<|call|>", "call:f[{}] end | S7"},
		// S8: recipients.
		{"recipient twice", " to=functions.f<|channel|>commentary to=functions.f json<|message|>{}<|call|>", "call:f[{}] end"},
		{"two recipients", " to=functions.f<|channel|>commentary to=functions.g json<|message|>{}<|call|>", "call:f[{}] end | S8"},
		{"to the user", "<|channel|>final to=user<|message|>a<|return|>", "content[a] end"},
		{"to all", "<|channel|>commentary to=all<|message|>a<|end|>", "preamble[a]"},
		{"to itself", "<|channel|>commentary to=assistant<|message|>result<|end|>", "hidden[result] | S8"},
		{"invented result", "<|channel|>analysis<|message|>a<|end|><|start|>functions.f to=assistant<|channel|>commentary<|message|>42<|end|>", "reasoning[a] hidden[42] | S8"},
		{"invented user", "<|channel|>analysis<|message|>a<|end|><|start|>user<|message|>More!<|end|>", "reasoning[a] hidden[More!]"},
		// S9, S10: no <|message|>.
		{"answer without message", "<|channel|>final {\"a\":1}<|return|>", `content[{"a":1}] end | S9`},
		{"answer glued to its channel", "<|channel|>final{\"a\":1}<|return|>", `content[{"a":1}] end | S9`},
		{"call without message", " to=functions.f<|channel|>commentary {\"a\":1}<|call|>", `call:f[{"a":1}] end | S9`},
		{"text instead of a header", "The answer is 4.<|return|>", "content[The answer is 4.] end | S7a S9"},
		{"text instead of a header, closed by end", "I think so.<|end|>", "reasoning[I think so.] | S7a S9"},
		{"text instead of a header, cut", "The answer", "content[The answer]~ | S7a S9"},
		{"text that begins like a role", "assistants help.<|return|>", "content[assistants help.] end | S7a S9"},
		{"long text instead of a header", long, "content[" + strings.TrimPrefix(long, " ") + "]~ | S10"},
		{"long text behind a channel", "<|channel|>analysis" + long + "<|end|>", "reasoning[" + strings.TrimPrefix(long, " ") + "] | S10"},
		{"header without content", "<|channel|>final<|end|>", "| S1"},
		// S11 to S13: markers in the content.
		{"start in the content", "<|channel|>analysis<|message|>a<|start|>assistant<|channel|>final<|message|>b<|return|>", "reasoning[a] content[b] end | S11"},
		{"channel in the content", "<|channel|>analysis<|message|>a<|channel|>final<|message|>b<|return|>", "reasoning[a] content[b] end | S12"},
		{"message in the content", "<|channel|>final<|message|>a<|message|>b<|return|>", "content[ab] end | S13"},
		{"constrain in the content", "<|channel|>final<|message|>a<|constrain|>json<|return|>", "content[ajson] end | S13"},
		{"reserved id in the content", "<|channel|>final<|message|>a<|reserved_200013|>b<|return|>", "content[ab] end | S13"},
		{"reserved id in the header", "<|channel|><|endofprompt|>final<|message|>a<|return|>", "content[a] end | S13"},
		// S14, S15: terminators.
		{"call closed by end", " to=functions.f<|channel|>commentary json<|message|>{}<|end|>", "call:f[{}] end | S14"},
		{"call closed by return", " to=functions.f<|channel|>commentary json<|message|>{}<|return|>", "call:f[{}] end | S14"},
		{"answer closed by call", "<|channel|>final<|message|>a<|call|>", "content[a] end | S15"},
		{"reasoning closed by call", "<|channel|>analysis<|message|>a<|call|>", "reasoning[a] | S15"},
		{"reasoning closed by return", "<|channel|>analysis<|message|>a<|return|>", "reasoning[a] end"},
		// S17: behind the end.
		{"text behind the end", "<|channel|>final<|message|>a<|return|><|start|>user<|message|>b", "content[a] end content[\nuserb] | S17"},
		// Harmony.md 11: tools that nobody offered.
		{"unknown function", " to=functions.zzz<|channel|>commentary json<|message|>{}<|call|>", "hidden:zzz[{}]"},
		{"unknown tool", "<|channel|>commentary to=container.exec <|constrain|>json<|message|>{\"cmd\":1}<|call|>", `hidden:container.exec[{"cmd":1}]`},
		{"unknown content word", "<|channel|>final answer<|message|>a<|return|>", "content[a] end"},
		{"name in two languages", "<|channel|>final 日本<|message|>日本<|return|>", "content[日本] end"},
	}
	c := harmonyTools(t)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			ids := sampled(tok, tt.in)
			if got := formattest.Story(formattest.Parse(f.Parser(c), ids)); got != tt.want {
				t.Errorf("\ngot  %s\nwant %s", got, tt.want)
			}
			if err := formattest.Check(f, c, ids); err != nil {
				t.Error(err)
			}
		})
	}
}

// A marker that the model spells in ordinary tokens is text.
func TestHarmonyMarkersAsText(t *testing.T) {
	t.Parallel()
	tok := harmonyTokens(t)
	f := newFormat(t, chat.Facts{Family: "gpt-oss", Tokenizer: tok})
	p := tok.Prompt()
	p.Markup("<|channel|>final<|message|>")
	p.Text("say <|end|> or <|channel|>analysis")
	p.Markup("<|return|>")
	const want = "content[say <|end|> or <|channel|>analysis] end"
	if got := formattest.Story(formattest.Parse(f.Parser(harmonyTools(t)), p.IDs())); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// Tools count only where they are offered.
func TestHarmonyParseWithoutTools(t *testing.T) {
	t.Parallel()
	tok := harmonyTokens(t)
	f := newFormat(t, chat.Facts{Family: "gpt-oss", Tokenizer: tok})
	c := harmonyTools(t)
	c.NoCalls = true
	for in, want := range map[string]string{
		" to=functions.f<|channel|>commentary json<|message|>{}<|call|>": "hidden:f[{}]",
		" to=python<|channel|>analysis code<|message|>1<|call|>":         "hidden:python[1]",
	} {
		if got := formattest.Story(formattest.Parse(f.Parser(c), sampled(tok, in))); got != want {
			t.Errorf("%s: got %s, want %s", in, got, want)
		}
	}
}

func TestHarmonyContinue(t *testing.T) {
	t.Parallel()
	tok := harmonyTokens(t)
	f := newFormat(t, chat.Facts{Family: "gpt-oss", Tokenizer: tok})
	open := say(chat.Assistant, "1, 2,")
	reasoning := chat.Turn{Role: chat.Assistant, Reasoning: "First"}
	for _, tt := range []struct {
		turn     chat.Turn
		in, want string
	}{
		{open, " 3<|return|>", "content[ 3] end"},
		{reasoning, " this<|end|><|start|>assistant<|channel|>final<|message|>4<|return|>", "reasoning[ this] content[4] end"},
	} {
		c := &chat.Conversation{Turns: []chat.Turn{say(chat.User, "Count."), tt.turn}, Continue: true}
		if got := formattest.Story(formattest.Parse(f.Parser(c), sampled(tok, tt.in))); got != tt.want {
			t.Errorf("got %s, want %s", got, tt.want)
		}
	}
}

// Ids that were sampled are repeated as they are, apart from what the prompt never
// has; what is not well-formed is written again.
func TestHarmonyRecorded(t *testing.T) {
	t.Parallel()
	tok := harmonyTokens(t)
	f := newFormat(t, chat.Facts{Family: "gpt-oss", Tokenizer: tok})
	call := chat.Turn{Role: chat.Assistant, Reasoning: "Call it.", Calls: []chat.Call{{ID: "1", Name: "get_weather", Arguments: "{}"}}}
	call.Output = sampled(tok, "<|channel|>analysis<|message|>Call it.<|end|><|start|>assistant<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>{}<|call|>")
	result := chat.Turn{Role: chat.ToolRole, CallID: "1", Parts: []string{"rain"}}
	answer := say(chat.Assistant, "Rain.")
	answer.Reasoning = "So."
	answer.Output = sampled(tok, "<|channel|>analysis<|message|>So.<|end|><|start|>assistant<|channel|>final<|message|>Rain.<|return|>")
	broken := answer
	broken.Output = sampled(tok, "<|channel|>analysis<|message|>So.<|end|><|channel|>final<|message|>Rain.<|return|>")
	misplaced := call
	misplaced.Output = sampled(tok, "<|channel|>analysis to=functions.get_weather<|message|>{}<|call|>")
	const (
		asked   = "<|start|>user<|message|>Weather?<|end|>"
		called  = "<|start|>assistant<|channel|>analysis<|message|>Call it.<|end|><|start|>assistant<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>{}<|call|>"
		result_ = "<|start|>functions.get_weather to=assistant<|channel|>commentary<|message|>rain<|end|>"
		next    = "<|start|>user<|message|>Thanks<|end|>"
		prompt  = "<|start|>assistant"
	)
	thanks := say(chat.User, "Thanks")
	for _, tt := range []struct {
		name  string
		turns []chat.Turn
		want  string
	}{
		{"inside the turn", []chat.Turn{call, result}, asked + called + result_ + prompt},
		{"reasoning before the last answer goes", []chat.Turn{call, result, answer, thanks}, asked + strings.TrimPrefix(called, "<|start|>assistant<|channel|>analysis<|message|>Call it.<|end|>") +
			result_ + "<|start|>assistant<|channel|>final<|message|>Rain.<|end|>" + next + prompt},
		{"not well-formed", []chat.Turn{broken, thanks}, asked + "<|start|>assistant<|channel|>final<|message|>Rain.<|end|>" + next + prompt},
		{"call on analysis", []chat.Turn{misplaced, result}, asked + "<|start|>assistant<|channel|>analysis<|message|>Call it.<|end|>" +
			"<|start|>assistant to=functions.get_weather<|channel|>commentary json<|message|>{}<|call|>" + result_ + prompt},
	} {
		c := &chat.Conversation{Turns: append([]chat.Turn{say(chat.User, "Weather?")}, tt.turns...), Tools: []chat.Tool{weather}}
		ids := render(t, f, tok, c)
		_, got, _ := strings.Cut(tok.Decode(ids), "namespace functions<|end|>")
		if got != tt.want {
			t.Errorf("%s:\ngot  %s\nwant %s", tt.name, got, tt.want)
		}
		if tt.name == "inside the turn" {
			prompt := render(t, f, tok, &chat.Conversation{Turns: c.Turns[:1], Tools: c.Tools})
			if want := append(prompt, call.Output...); !slices.Equal(ids[:len(want)], want) {
				t.Errorf("the second prompt does not begin with the first and its answer")
			}
		}
	}
}

// Tokens of an answer belong to what they are part of (harmony.md 13).
func TestHarmonyCounts(t *testing.T) {
	t.Parallel()
	tok := harmonyTokens(t)
	f := newFormat(t, chat.Facts{Family: "gpt-oss", Tokenizer: tok})
	for in, want := range map[string][2]int{ // reasoning, all
		"<|channel|>analysis<|message|>a b<|end|><|start|>assistant<|channel|>final<|message|>c<|return|>": {6, 13},
		"<|channel|>final<|message|>c<|return|>":                                                           {0, 5},
		"<|channel|>analysis to=python code<|message|>1<|call|>":                                           {9, 9},
		" to=functions.f<|channel|>commentary json<|message|>{}<|call|>":                                   {0, 11},
		"<|end|><|end|>": {2, 2},
	} {
		ids := sampled(tok, in)
		r := formattest.Collect(formattest.Parse(f.Parser(harmonyTools(t)), ids))
		if r.Tokens != len(ids) || r.ReasoningTokens != want[0] || len(ids) != want[1] {
			t.Errorf("%s: %d of %d tokens reason, want %v", in, r.ReasoningTokens, r.Tokens, want)
		}
	}
}

// The bytes of the visible tokens are the content, to the byte (api.md 2.2).
func TestVisibleBytes(t *testing.T) {
	t.Parallel()
	tok := harmonyTokens(t)
	f := newFormat(t, chat.Facts{Family: "gpt-oss", Tokenizer: tok})
	ids := sampled(tok, "<|channel|>analysis<|message|>x😀<|end|><|start|>assistant<|channel|>final<|message|>a 😀👩‍👩‍👧 é日本<|return|>")
	var text, bytes string
	var tokens []string
	for _, e := range formattest.Parse(f.Parser(harmonyTools(t)), ids) {
		if e.Part.Visible() && e.Kind == chat.Delta {
			text += e.Text
			bytes += e.Bytes
			tokens = append(tokens, fmt.Sprint(e.Bytes == tok.Text(ids[e.Token])))
		}
	}
	if text != "a 😀👩‍👩‍👧 é日本" || bytes != text || slices.Contains(tokens, "false") || len(tokens) < 8 {
		t.Errorf("text %q, bytes %q, %d tokens %v", text, bytes, len(tokens), tokens)
	}
}

// What is left of a character where the answer is cut off, or its message ends, is shown
// as U+FFFD, and its bytes are those of its tokens.
func TestCutCharacters(t *testing.T) {
	t.Parallel()
	tok := harmonyTokens(t)
	f := newFormat(t, chat.Facts{Family: "gpt-oss", Tokenizer: tok})
	whole := tok.Encode(nil, " 🌍")
	if len(whole) != 2 || tok.Text(whole[0]) != " \xf0\x9f\x8c" {
		t.Fatalf("%v has other tokens than this test needs", whole)
	}
	for _, c := range []struct {
		begin, part, behind string
	}{
		{"<|channel|>final<|message|>a", "content[", "]~"},
		{"<|channel|>analysis<|message|>a", "reasoning[", "]~"},
		{"<|channel|>commentary to=functions.f json<|message|>a", "call:f[", "]~"},
		{"<|channel|>analysis<|message|>a<|end|>a", "reasoning[a] content[", "]~ | S7a S9"},
	} {
		ids := append(sampled(tok, c.begin), whole[0])
		events := formattest.Parse(f.Parser(harmonyTools(t)), ids)
		if got, want := formattest.Story(events), c.part+"a \uFFFD"+c.behind; got != want {
			t.Errorf("%s, cut in a character: %s, want %s", c.begin, got, want)
		}
		if err := formattest.Check(f, harmonyTools(t), ids); err != nil {
			t.Errorf("%s: %v", c.begin, err)
		}
		last := ""
		for _, e := range events {
			last = cmp.Or(e.Bytes, last)
		}
		if last != tok.Text(whole[0]) {
			t.Errorf("%s: the last bytes are %q", c.begin, last)
		}
	}
}

// Tokens of o200k that end one letter of Georgian and begin the next give a letter
// each, however many there are.
func TestCharactersBetweenTokens(t *testing.T) {
	t.Parallel()
	tok := harmonyTokens(t)
	f := newFormat(t, chat.Facts{Family: "gpt-oss", Tokenizer: tok})
	const between = 2121
	if tok.Text(between) != "\xa0\xe1\x83" {
		t.Fatalf("token %d is %q", between, tok.Text(between))
	}
	p := f.Parser(question())
	var events []chat.Event
	for _, id := range sampled(tok, "<|channel|>final<|message|>a") {
		events = p.Push(events[:0], id)
	}
	text := ""
	for n := range 30 {
		events = p.Push(events[:0], between)
		for _, e := range events {
			text += e.Text
		}
		if want := "\uFFFD" + strings.Repeat("რ", n); text != want {
			t.Fatalf("after %d tokens: %q, want %q", n+1, text, want)
		}
	}
}
