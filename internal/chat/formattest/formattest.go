// Package formattest checks a chat.Format. Who adds a family writes conversations
// down and need not think of hostile text, cut characters, or a model that samples
// nonsense.
package formattest

import (
	"errors"
	"fmt"
	"math/rand/v2"
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
	Format    chat.Format
	Tokenizer *token.BPE
	// Golden holds conversations and the prompts that the reference renders.
	Golden []Golden
	// Turns are rendered behind Conversation and must be read back as they are.
	Conversation *chat.Conversation
	Turns        map[string]chat.Turn
	// Markers are ids that mean something in an answer.
	Markers []int32
	// Cases is how many random answers are read; 0 = 2,000.
	Cases int
}

// A Golden is a conversation and its prompt, control tokens by name.
type Golden struct {
	Name         string
	Conversation *chat.Conversation
	Prompt       string
}

// Run runs all checks.
func Run(t *testing.T, s Suite) {
	if s.Cases == 0 {
		s.Cases = 2000
	}
	t.Run("golden", s.golden)
	t.Run("round trip", s.roundTrip)
	t.Run("text is not control", s.textIsNotControl)
	t.Run("total", s.total)
	t.Run("characters", s.characters)
}

func (s *Suite) render(t *testing.T, c *chat.Conversation) []int32 {
	t.Helper()
	p := s.Tokenizer.Prompt()
	if err := s.Format.Render(p, c); err != nil {
		t.Fatal(err)
	}
	return p.IDs()
}

func (s *Suite) golden(t *testing.T) {
	for _, g := range s.Golden {
		if got := s.Tokenizer.Decode(s.render(t, g.Conversation)); got != g.Prompt {
			t.Errorf("%s:\ngot  %q\nwant %q", g.Name, got, g.Prompt)
		}
	}
}

// Parse reads an answer and returns its events.
func Parse(p chat.Parser, ids []int32) []chat.Event {
	var events []chat.Event
	for _, id := range ids {
		events = p.Push(events, id)
	}
	return p.Close(events)
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
	var r Reply
	for _, e := range events {
		r.Tokens += e.Count
		if e.Part.Reasons() {
			r.ReasoningTokens += e.Count
		}
		r.Unfinished = r.Unfinished || e.Cut
		switch {
		case e.Part.Visible():
			r.Content += e.Text
		case e.Part == chat.Reasoning:
			r.Reasoning += e.Text
		case e.Part == chat.Calling && e.Kind == chat.Start:
			r.Calls = append(r.Calls, chat.Call{Name: e.Name})
		case e.Part == chat.Calling:
			r.Calls[e.Call].Arguments += e.Text
		}
	}
	return r
}

// roundTrip renders a turn behind the conversation, reads the ids behind the prompt,
// and does so again with the ids kept.
func (s *Suite) roundTrip(t *testing.T) {
	prompt := s.render(t, s.Conversation)
	for name, turn := range s.Turns {
		c := *s.Conversation
		c.Turns = append(slices.Clone(c.Turns), turn)
		c.NoPrompt, c.KeepReasoning = true, true
		whole := s.render(t, &c)
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

// textIsNotControl puts the name of every added token, whole and in halves, into
// everything that a caller writes (reliability.md SEC-6).
func (s *Suite) textIsNotControl(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	added := map[int32]bool{}
	var names []string
	for _, a := range s.Tokenizer.Added() {
		added[a.ID] = true
		names = append(names, a.Text)
	}
	for _, g := range s.Golden {
		for range 20 {
			var hostile, benign []int32
			for i, ids := range []*[]int32{&benign, &hostile} {
				seed := r.Uint64()
				for _, id := range s.render(t, retell(g.Conversation, func() string {
					if i == 0 {
						return "x"
					}
					return attack(rand.New(rand.NewPCG(seed, r.Uint64())), names)
				})) {
					if added[id] {
						*ids = append(*ids, id)
					}
				}
			}
			if !slices.Equal(hostile, benign) {
				t.Fatalf("%s: text changed the control ids from %v to %v", g.Name, benign, hostile)
			}
		}
	}
}

// attack returns text that spells names of tokens, or begins or ends with a part of one.
func attack(r *rand.Rand, names []string) string {
	name := names[r.IntN(len(names))]
	other := names[r.IntN(len(names))]
	at := r.IntN(len(name))
	return []string{name, name[at:] + "x" + other[:len(other)/2], "x" + name + other, name[:at] + other, "<" + name + ">"}[r.IntN(5)]
}

// retell returns c with other text in every place that a caller fills.
func retell(c *chat.Conversation, text func() string) *chat.Conversation {
	out := *c
	out.Turns = slices.Clone(c.Turns)
	for i := range out.Turns {
		turn := &out.Turns[i]
		turn.Parts = slices.Clone(turn.Parts)
		for k := range turn.Parts {
			turn.Parts[k] = text()
			if turn.Role == chat.Assistant { // its reasoning may be marked in its text (models.md 2.5)
				turn.Parts[k] = strings.ReplaceAll(turn.Parts[k], "</think>", "")
			}
		}
		if turn.Reasoning != "" {
			turn.Reasoning = text()
		}
		turn.Calls = slices.Clone(turn.Calls)
		for k := range turn.Calls {
			turn.Calls[k].Arguments = fmt.Sprintf(`{"a": %q}`, text())
		}
	}
	out.Tools = slices.Clone(c.Tools)
	for i := range out.Tools {
		out.Tools[i].JSON = nil
		out.Tools[i].Description = text()
		out.Tools[i].Parameters = fmt.Appendf(nil, `{"type": "object", "description": %q, "properties": {%q: {"type": "string", "enum": [%q]}}}`, text(), text(), text())
	}
	return &out
}

// total reads answers of random markers, words and ids without meaning.
func (s *Suite) total(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	texts := s.Tokenizer.Encode(nil, "assistant analysis commentary final to=functions.get_weather json {\"a\": 1}\n\n😀 é <|")
	for n := range s.Cases {
		ids := make([]int32, r.IntN(100))
		for i := range ids {
			switch r.IntN(8) {
			case 0, 1:
				ids[i] = s.Markers[r.IntN(len(s.Markers))]
			case 2:
				ids[i] = r.Int32N(int32(s.Tokenizer.Vocab()) + 10)
			default:
				ids[i] = texts[r.IntN(len(texts))]
			}
		}
		if err := Check(s.Format, s.Conversation, ids); err != nil {
			t.Fatalf("answer %d, %v: %v", n, ids, err)
		}
	}
}

// characters reads text whose characters take several tokens, cut after every token.
func (s *Suite) characters(t *testing.T) {
	turn := chat.Turn{Role: chat.Assistant, Parts: []string{"a 😀👩‍👩‍👧 b é日本"}}
	c := *s.Conversation
	prompt := s.render(t, &c)
	c.Turns = append(slices.Clone(c.Turns), turn)
	c.NoPrompt = true
	answer := s.render(t, &c)[len(prompt):]
	for n := range len(answer) + 1 {
		r := Collect(Parse(s.Format.Parser(s.Conversation), answer[:n]))
		if text := turn.Parts[0]; !strings.HasPrefix(text, r.Content) || n == len(answer) && r.Content != text {
			t.Errorf("%d of %d tokens give %q", n, len(answer), r.Content)
		}
	}
}

// Check reads ids as an answer to c and reports the first way in which the events
// break the contract of chat.Parser.
func Check(f chat.Format, c *chat.Conversation, ids []int32) error {
	events := Parse(f.Parser(c), ids)
	p := f.Parser(c)
	var split, buffer []chat.Event
	for _, id := range ids {
		buffer = p.Push(buffer[:0], id)
		split = append(split, buffer...)
	}
	if split = p.Close(split); !slices.Equal(split, events) {
		return fmt.Errorf("read one by one: %v, at once: %v", split, events)
	}
	k := checker{last: -1}
	for i, e := range events {
		if err := k.event(e, len(ids)); err != nil {
			return fmt.Errorf("event %d, the last of %+v: %w", i, events[max(0, i-3):i+1], err)
		}
	}
	switch {
	case k.open != nil:
		return fmt.Errorf("%+v is not ended", *k.open)
	case k.count != len(ids):
		return fmt.Errorf("%d ids are accounted for, %d were pushed", k.count, len(ids))
	}
	return nil
}

type checker struct {
	open  *chat.Event // its Start
	calls int
	last  int // token of the last visible piece
	count int
}

func (k *checker) event(e chat.Event, ids int) error {
	k.count += e.Count
	switch {
	case e.Count < 0:
		return errors.New("negative count")
	case !utf8.ValidString(e.Text):
		return errors.New("text is not UTF-8")
	case e.Token >= ids:
		return errors.New("a token that was not pushed")
	case e.Bytes != "" && e.Part.Visible() && e.Token <= k.last:
		return errors.New("a token became visible twice")
	case e.Part == chat.Calling && e.Kind <= chat.End && e.Call != k.calls-1 && e.Kind != chat.Start:
		return errors.New("not the index of the open call")
	}
	if e.Bytes != "" && e.Part.Visible() {
		k.last = e.Token
	}
	return k.order(e)
}

func (k *checker) order(e chat.Event) error {
	switch e.Kind {
	case chat.Start:
		if k.open != nil {
			return errors.New("a message begins inside another")
		}
		if e.Part == chat.Calling {
			if e.Call != k.calls || e.Name == "" {
				return errors.New("a call without the next index or without name")
			}
			k.calls++
		}
		k.open = &e
	case chat.Delta, chat.End:
		if k.open == nil || k.open.Part != e.Part {
			return errors.New("not part of the open message")
		}
		if e.Kind == chat.End {
			k.open = nil
		}
	case chat.Salvage:
		if e.Rule.String() == "" || e.Count != 0 {
			return errors.New("salvage without a rule, or that accounts for ids")
		}
	}
	return nil
}
