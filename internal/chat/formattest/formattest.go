// Package formattest checks a chat.Format. Who adds a family writes conversations
// down and need not think of hostile text, cut characters, or a model that samples
// nonsense.
package formattest

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"ossian/internal/chat"
	"ossian/internal/token"
)

// A Suite is a format and what to check it with.
type Suite struct {
	Name      string
	Format    chat.Format
	Tokenizer *token.BPE
	// Golden holds conversations and the prompts that the reference renders.
	Golden []Golden
	// Turns are rendered behind Conversation and must be read back as they are. The
	// one called answer has no calls.
	Conversation *chat.Conversation
	Turns        map[string]chat.Turn
	// Markers are ids that mean something in an answer.
	Markers []int32
	// Strings are texts in many languages.
	Strings []string
}

// A Golden is a conversation and its prompt, control tokens by name.
type Golden struct {
	Name         string
	Conversation *chat.Conversation
	Prompt       string
}

// Run runs the checks that need no numbers. AnyIDs, Splits, Markers, TextIsText and
// Characters are the others.
func Run(t *testing.T, s Suite) {
	t.Run("golden", s.golden)
	t.Run("round trip", s.roundTrip)
	t.Run("cut", s.cut)
}

func (s *Suite) render(t *testing.T, conv *chat.Conversation) []int32 {
	t.Helper()
	prompt := s.Tokenizer.Prompt()
	if err := s.Format.Render(prompt, conv); err != nil {
		t.Fatal(err)
	}
	return prompt.IDs()
}

func (s *Suite) golden(t *testing.T) {
	for _, g := range s.Golden {
		if got := s.Tokenizer.Decode(s.render(t, g.Conversation)); got != g.Prompt {
			t.Errorf("%s:\ngot  %q\nwant %q", g.Name, got, g.Prompt)
		}
	}
}

// Parse reads an answer and returns its events.
func Parse(parser chat.Parser, ids []int32) []chat.Event {
	var events []chat.Event
	for _, id := range ids {
		events = parser.Push(events, id)
	}
	return parser.Close(events)
}

var partNames = [...]string{chat.Hidden: "hidden", chat.Reasoning: "reasoning", chat.Preamble: "preamble", chat.Content: "content",
	chat.Calling: "call", chat.Builtin: "builtin"}

// Story tells events in one line: part:name[text], ~ behind what was cut, "end" where
// the turn ends, the salvage rules behind a bar. It is the same for other tokens of
// the same text.
func Story(events []chat.Event) string {
	var out, rules []string
	for _, event := range events {
		switch event.Kind {
		case chat.Start:
			name := partNames[event.Part]
			if event.Name != "" {
				name += ":" + event.Name
			}
			out = append(out, name+"["+event.Text)
		case chat.Delta:
			out[len(out)-1] += event.Text
		case chat.End:
			out[len(out)-1] += "]"
			if event.Cut {
				out[len(out)-1] += "~"
			}
		case chat.TurnEnd:
			out = append(out, "end")
		case chat.Salvage:
			rules = append(rules, event.Rule.String())
		}
	}
	if len(rules) > 0 {
		out = append(out, "| "+strings.Join(rules, " "))
	}
	return strings.Join(out, " ")
}

// A Reply is an answer as the Chat API returns it.
type Reply struct {
	Content, Reasoning string
	Calls              []chat.Call // without ids
	Unfinished         bool        // the output ended inside a message
	Tokens             int         // all ids
	ReasoningTokens    int         // those that count as reasoning
}

// Collect returns what the Chat API makes of events.
func Collect(events []chat.Event) Reply {
	var reply Reply
	for _, event := range events {
		// Every kind of event may account for ids.
		reply.Tokens += event.Count
		if event.Part.Reasons() {
			reply.ReasoningTokens += event.Count
		}
		reply.Unfinished = reply.Unfinished || event.Cut
		switch {
		case event.Part.Visible():
			reply.Content += event.Text
		case event.Part == chat.Reasoning:
			reply.Reasoning += event.Text
		case event.Part == chat.Calling && event.Kind == chat.Start:
			reply.Calls = append(reply.Calls, chat.Call{Name: event.Name})
		case event.Part == chat.Calling:
			reply.Calls[event.Call].Arguments += event.Text
		}
	}
	return reply
}

// roundTrip renders a turn behind the conversation, reads the ids behind the prompt,
// and does so again with the ids kept.
func (s *Suite) roundTrip(t *testing.T) {
	prompt := s.render(t, s.Conversation)
	for name, turn := range s.Turns {
		// The ids between the prompt and the end of the rendered turn are the answer.
		conv := *s.Conversation
		conv.Turns = append(slices.Clone(conv.Turns), turn)
		conv.NoPrompt, conv.KeepReasoning = true, true
		whole := s.render(t, &conv)
		if len(whole) < len(prompt) || !slices.Equal(whole[:len(prompt)], prompt) {
			t.Errorf("%s: the turn does not follow the prompt: %q", name, s.Tokenizer.Decode(whole))
			continue
		}
		answer := whole[len(prompt):]
		got := Collect(Parse(s.Format.Parser(s.Conversation), answer))
		want := Reply{Content: strings.Join(turn.Parts, "\n"), Reasoning: turn.Reasoning}
		for _, call := range turn.Calls {
			want.Calls = append(want.Calls, chat.Call{Name: call.Name, Arguments: call.Arguments})
		}
		want.Tokens, want.ReasoningTokens = len(answer), got.ReasoningTokens
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %q\ngot  %+v\nwant %+v", name, s.Tokenizer.Decode(answer), got, want)
		}
		if (turn.Reasoning != "") != (got.ReasoningTokens > 0) && turn.Reasoning != "" {
			t.Errorf("%s: %d reasoning tokens", name, got.ReasoningTokens)
		}
	}
}

// cut reads text whose characters take several tokens, cut after every token.
func (s *Suite) cut(t *testing.T) {
	turn := chat.Turn{Role: chat.Assistant, Parts: []string{"a 😀👩‍👩‍👧 b é日本"}}
	conv := *s.Conversation
	prompt := s.render(t, &conv)
	conv.Turns = append(slices.Clone(conv.Turns), turn)
	conv.NoPrompt = true
	answer := s.render(t, &conv)[len(prompt):]
	text := turn.Parts[0]
	at := strings.Index(s.Tokenizer.Decode(answer), text)
	for cut := range len(answer) + 1 {
		want := s.Tokenizer.Decode(answer[:cut]) // U+FFFD for what is not all there
		if want = want[min(at, len(want)):]; strings.HasPrefix(want, text) {
			want = text
		}
		if reply := Collect(Parse(s.Format.Parser(s.Conversation), answer[:cut])); reply.Content != want {
			t.Errorf("%d of %d tokens give %q, want %q", cut, len(answer), reply.Content, want)
		}
	}
}

// Check reads ids as an answer to conv and reports the first way in which the events
// break the contract of chat.Parser.
func Check(format chat.Format, conv *chat.Conversation, ids []int32) error {
	events := Parse(format.Parser(conv), ids)
	parser := format.Parser(conv)
	var split, buffer []chat.Event
	for _, id := range ids {
		buffer = parser.Push(buffer[:0], id)
		split = append(split, buffer...)
	}
	if split = parser.Close(split); !slices.Equal(split, events) {
		return fmt.Errorf("read one by one: %v, at once: %v", split, events)
	}
	check := checker{last: -1}
	for i, e := range events {
		if err := check.event(&e, len(ids)); err != nil {
			return fmt.Errorf("event %d, the last of %+v: %w", i, events[max(0, i-3):i+1], err)
		}
	}
	return check.end(len(ids))
}

// A checker reads the events of one answer as they come, and reports the first that
// breaks the contract of chat.Parser.
type checker struct {
	open  bool
	part  chat.Part // of the open message
	text  []byte    // of its Deltas
	bytes []byte    // the same
	calls int
	last  int // token of the last visible piece
	count int
}

// event checks the next event of an answer of which so many ids have been pushed.
func (k *checker) event(event *chat.Event, ids int) error {
	k.count += event.Count
	// Ids may be accounted for late, never twice; text and bytes belong to one token each.
	switch {
	case event.Count < 0:
		return errors.New("negative count")
	case k.count > ids:
		return errors.New("more ids accounted for than pushed")
	case !utf8.ValidString(event.Text):
		return errors.New("text is not UTF-8")
	case event.Token >= ids:
		return errors.New("a token that was not pushed")
	case event.Bytes != "" && event.Part.Visible() && event.Token <= k.last:
		return errors.New("a token became visible twice")
	case event.Part == chat.Calling && event.Kind <= chat.End && event.Call != k.calls-1 && event.Kind != chat.Start:
		return errors.New("not the index of the open call")
	}
	if event.Bytes != "" && event.Part.Visible() {
		k.last = event.Token
	}
	return k.order(event)
}

// order checks that messages follow one another: Start, Deltas, End.
func (k *checker) order(event *chat.Event) error {
	switch event.Kind {
	case chat.Start:
		if k.open {
			return errors.New("a message begins inside another")
		}
		if event.Part == chat.Calling {
			if event.Call != k.calls || event.Name == "" {
				return errors.New("a call without the next index or without name")
			}
			k.calls++
		}
		k.open, k.part, k.text, k.bytes = true, event.Part, k.text[:0], k.bytes[:0]
	case chat.Delta, chat.End:
		if !k.open || k.part != event.Part {
			return errors.New("not part of the open message")
		}
		k.open = event.Kind == chat.Delta
		k.text, k.bytes = append(k.text, event.Text...), append(k.bytes, event.Bytes...)
		// Events may cut characters between Text and Bytes, whole messages may not.
		if !k.open && !spells(k.bytes, k.text) {
			return fmt.Errorf("text %q of bytes %q", k.text, k.bytes)
		}
	case chat.Salvage:
		if event.Rule.String() == "" || event.Count != 0 {
			return errors.New("salvage without a rule, or that accounts for ids")
		}
	}
	return nil
}

// spells reports whether text is what raw spells, with U+FFFD for what is no UTF-8; how
// many in a row does not matter here.
func spells(raw, text []byte) bool {
	const none = "\uFFFD"
	squeeze := func(b []byte) string {
		s := strings.ToValidUTF8(string(b), none)
		for strings.Contains(s, none+none) {
			s = strings.ReplaceAll(s, none+none, none)
		}
		return s
	}
	return bytes.Equal(raw, text) || squeeze(raw) == squeeze(text)
}

// end checks what must be true behind the last event.
func (k *checker) end(ids int) error {
	switch {
	case k.open:
		return errors.New("a message is not ended")
	case k.count != ids:
		return fmt.Errorf("%d ids are accounted for, %d were pushed", k.count, ids)
	}
	return nil
}
