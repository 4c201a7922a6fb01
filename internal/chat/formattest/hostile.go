package formattest

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"ossian/internal/chat"
	"ossian/internal/soak"
	"ossian/internal/token"
)

// Markers is PAR-3: no control id leaves its name in an answer, and names that the
// model spells as text stay. A release reads 10⁶ answers in five families.
func Markers(t *testing.T, suite Suite) {
	answers := soak.Cases(t, 2000, 200_000)
	babble := newBabbler(&suite, 3)
	names := newNames(suite.Tokenizer)
	spelled := 0
	for answer := range answers {
		ids := babble.answer(nil, babble.random.IntN(40))
		if answer%2 == 0 {
			ids = suite.Tokenizer.Encode(ids, attack(babble.random, names.all))
			ids = babble.answer(ids, babble.random.IntN(40))
		}
		// A name in the answer is fine where ordinary tokens spell it.
		var ordinary strings.Builder
		for _, id := range ids {
			if !suite.Tokenizer.IsControl(id) {
				ordinary.WriteString(suite.Tokenizer.Text(id))
			}
		}
		reply := Collect(Parse(suite.Format.Parser(suite.Conversation), ids))
		out := reply.Content + "\n" + reply.Reasoning
		for _, call := range reply.Calls {
			out += "\n" + call.Name + "\n" + call.Arguments
		}
		got, want := names.count(out), names.count(ordinary.String())
		if spelled += got; got > want {
			t.Fatalf("answer %d, %v: %d names of control tokens in %q, its text spells %d", answer, ids, got, out, want)
		}
		if answer%10 > 0 {
			continue
		}
		// Names that the assistant is made to say come back as they are.
		text := spoken(attack(babble.random, names.all))
		turn := chat.Turn{Role: chat.Assistant, Parts: []string{text}, Reasoning: suite.Turns["answer"].Reasoning}
		if got := Collect(Parse(suite.Format.Parser(suite.Conversation), suite.answer(t, suite.Conversation, turn))); got.Content != text {
			t.Fatalf("answer %d: content %q came back as %q", answer, text, got.Content)
		}
	}
	t.Logf("PAR-3: %s: %d answers, 0 markers in them but %d names that they spell as text", suite.Name, answers, spelled)
}

// names are those of added tokens.
type names struct {
	all     []string
	control []string
	first   string // bytes that names of control tokens begin with
}

func newNames(tok *token.BPE) *names {
	found := &names{}
	for _, added := range tok.Added() {
		found.all = append(found.all, added.Text)
		if added.Control {
			found.control = append(found.control, added.Text)
			found.first += added.Text[:1]
		}
	}
	return found
}

// count returns how many names of control tokens text has.
func (n *names) count(text string) (found int) {
	for at := 0; ; at++ {
		next := strings.IndexAny(text[at:], n.first)
		if next < 0 {
			return found
		}
		at += next
		if slices.ContainsFunc(n.control, func(name string) bool { return strings.HasPrefix(text[at:], name) }) {
			found++
		}
	}
}

// attack returns text that spells names of tokens, or begins or ends with a part of one.
func attack(random *rand.Rand, names []string) string {
	name := names[random.IntN(len(names))]
	other := names[random.IntN(len(names))]
	at := random.IntN(len(name))
	return []string{name, name[at:] + "x" + other[:len(other)/2], "x" + name + other, name[:at] + other, "<" + name + ">"}[random.IntN(5)]
}

// hostile returns an attack, or one with something inside that may be taken out
// again: the marks of a fence, bytes that are no UTF-8, characters that compose.
func hostile(random *rand.Rand, names []string) string {
	text := attack(random, names)
	if random.IntN(4) > 0 {
		return text
	}
	at := random.IntN(len(text) + 1)
	return text[:at] + []string{"\uFDD0", "\uFDD1", "\xff", "\u0338", "\u200b", "\x00", "\n"}[random.IntN(7)] + text[at:]
}

// TextIsText is SEC-6: names of added tokens, whole and in halves, in everything that
// a caller writes, leave the ids that mean something as they are. A release renders
// 10⁶ conversations in each family.
func TextIsText(t *testing.T, suite Suite) {
	cases := soak.Cases(t, 500, 1_000_000)
	random := rand.New(rand.NewPCG(6, 0))
	names := newNames(suite.Tokenizer).all
	added := newSpeller(suite.Tokenizer).added
	ids := func(conv *chat.Conversation) []int32 {
		return slices.DeleteFunc(suite.render(t, conv), func(id int32) bool { return !added[id] })
	}
	// The ids that mean something must be those of the same conversation with tame text.
	benign := make([][]int32, len(suite.Golden))
	for golden, g := range suite.Golden {
		benign[golden] = ids(retell(g.Conversation, func() string { return "x" }))
	}
	total := 0
	for number := range cases {
		golden := random.IntN(len(suite.Golden))
		conv := retell(suite.Golden[golden].Conversation, func() string { return hostile(random, names) })
		got := ids(conv)
		if !slices.Equal(got, benign[golden]) {
			t.Fatalf("case %d, %s: text changed the control ids from %v to %v: %+v", number, suite.Golden[golden].Name, benign[golden], got, conv)
		}
		total += len(got)
	}
	t.Logf("SEC-6: %s: %d conversations, %d control ids, 0 from text", suite.Name, cases, total)
}

// retell returns conv with other text in every place that a caller fills.
func retell(conv *chat.Conversation, text func() string) *chat.Conversation {
	out := *conv
	if conv.Identity != "" {
		out.Identity = text()
	}
	if conv.Response != nil {
		out.Response = &chat.ResponseFormat{Name: text(), Description: text(), Schema: schema(text)}
	}
	calls := map[string]string{"": ""} // ids
	out.Turns = slices.Clone(conv.Turns)
	for i := range out.Turns {
		turn := &out.Turns[i]
		turn.Parts = slices.Clone(turn.Parts)
		for at := range turn.Parts {
			turn.Parts[at] = text()
			switch turn.Role {
			case chat.Assistant:
				turn.Parts[at] = spoken(turn.Parts[at])
			case chat.User: // one that is a tool's response asks nothing (models.md 2.5)
				if strings.HasPrefix(turn.Parts[at], "<tool_response>") {
					turn.Parts[at] = "x" + turn.Parts[at]
				}
			}
		}
		if turn.Reasoning != "" {
			turn.Reasoning = text()
		}
		if turn.Name != "" && (turn.Role != chat.ToolRole || turn.CallID != "") {
			turn.Name = text()
		}
		turn.Calls = slices.Clone(turn.Calls)
		for at := range turn.Calls {
			retellCall(&turn.Calls[at], calls, len(conv.Builtins) > 0, text)
		}
		turn.CallID = calls[turn.CallID]
	}
	out.Tools = slices.Clone(conv.Tools)
	for i := range out.Tools {
		out.Tools[i] = chat.Tool{Name: text(), Description: text(), Parameters: schema(text)}
	}
	return &out
}

// spoken takes from an assistant's text what marks reasoning in it (models.md 2.5).
func spoken(text string) string { return strings.ReplaceAll(text, "</think>", "x") }

// retellCall changes a call; ids has the new id of each old one. Calls of built-in
// tools are known by their names.
func retellCall(call *chat.Call, ids map[string]string, builtin bool, text func() string) {
	ids[call.ID] = fmt.Sprintf("%s%d", text(), len(ids))
	call.ID = ids[call.ID]
	if !builtin {
		call.Name = text()
	}
	if call.Arguments = text(); len(ids)%2 == 0 {
		call.Arguments = fmt.Sprintf(`{%s: %s}`, quoted(text()), quoted(text()))
	}
}

// schema returns parameters of a tool.
func schema(text func() string) json.RawMessage {
	return fmt.Appendf(nil, `{"type": "object", "title": %s, "description": %s, "properties": {%s: {"type": "string", "enum": [%s], "default": %s}}}`,
		quoted(text()), quoted(text()), quoted(text()), quoted(text()), quoted(text()))
}

func quoted(text string) []byte {
	b, err := json.Marshal(text)
	if err != nil {
		panic(err) // strings have a JSON form
	}
	return b
}
