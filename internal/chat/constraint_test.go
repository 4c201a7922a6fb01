package chat_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"ossian/internal/chat"
	"ossian/internal/chat/formattest"
	"ossian/internal/grammar"
	"ossian/internal/soak"
	"ossian/internal/token"
)

// compiler compiles for a vocabulary, each source once.
func compiler(tok *token.BPE) chat.Compile {
	words := sync.OnceValue(func() *grammar.Vocabulary { return grammar.NewVocabulary(tok) })
	var known sync.Map
	return func(src grammar.Source) (*grammar.Grammar, error) {
		key, _ := json.Marshal(src)
		if g, ok := known.Load(string(key)); ok {
			return g.(*grammar.Grammar), nil
		}
		g, err := grammar.Compile(context.Background(), src, words())
		if err == nil {
			known.Store(string(key), g)
		}
		return g, err
	}
}

// A held family is a format whose answers are held to rules.
type held struct {
	name    string
	tok     *token.BPE
	format  chat.Format
	compile chat.Compile
	exits   []int32 // what ends something: control ids, tags, brackets and quotes
}

func heldFamilies(t testing.TB) []held {
	t.Helper()
	o200k, qwen, smol, llama := harmonyTokens(t), jsonTokens(t, "qwen3-cut.json"), jsonTokens(t, "smollm2-cut.json"), llamaTokens(t)
	template := func(name string) string { return string(readFile(t, "../jinja/testdata/templates/"+name+".jinja")) }
	ends := ids(t, qwen, "<|im_end|>")
	tags := append(ids(t, qwen, "<think>", "</think>", "<tool_call>", "</tool_call>"), ends...)
	all := []held{
		{"harmony", o200k, newFormat(t, chat.Facts{Family: "gpt-oss", Tokenizer: o200k}), compiler(o200k),
			ids(t, o200k, "<|start|>", "<|end|>", "<|message|>", "<|channel|>", "<|constrain|>", "<|return|>", "<|call|>", "<|endoftext|>")},
		{"qwen3", qwen, newFormat(t, chat.Facts{Family: "qwen3", Tokenizer: qwen, Template: template("qwen3"), Stops: ends}), compiler(qwen), tags},
		{"qwen3 thinking", qwen, newFormat(t, chat.Facts{Family: "qwen3", Tokenizer: qwen, Template: template("qwen3-thinking-2507"), Stops: ends}), compiler(qwen), tags},
		{"template", smol, newFormat(t, chat.Facts{Family: "llama", Tokenizer: smol, Template: template("smollm2"), Stops: ids(t, smol, "<|im_end|>")}), compiler(smol),
			ids(t, smol, "<|im_end|>")},
		{"llama3.2", llama, llamaFormat(t, "llama3.2"), compiler(llama), ids(t, llama, "<|eot_id|>", "<|eom_id|>")},
	}
	for i := range all {
		for _, text := range []string{`"`, "}", "]"} {
			all[i].exits = append(all[i].exits, all[i].tok.Encode(nil, text)...)
		}
	}
	return all
}

const (
	personSchema  = `{"type":"object","properties":{"name":{"type":"string","maxLength":8},"age":{"type":"integer","minimum":0,"maximum":150}},"required":["name","age"],"additionalProperties":false}`
	weatherSchema = `{"type":"object","properties":{"city":{"enum":["Bern","Paris"]},"days":{"type":"array","items":{"type":"integer","minimum":1,"maximum":9},"maxItems":3}},"required":["city","days"],"additionalProperties":false}`
)

// asked offers two tools.
func asked() *chat.Conversation {
	return &chat.Conversation{Turns: []chat.Turn{say(chat.User, "Weather?")}, Tools: []chat.Tool{{Name: "get-weather"}, {Name: "get"}}}
}

// offered are rules for these: the first tool is strict, the other one takes any object.
func offered() []chat.ToolRule {
	return []chat.ToolRule{{Strict: true, Arguments: grammar.Source{Text: weatherSchema}}, {Arguments: grammar.Source{Kind: grammar.Object}}}
}

// constraint makes one constraint.
func (h *held) constraint(t testing.TB, c *chat.Conversation, r *chat.Rules) chat.Constraint {
	t.Helper()
	fresh, err := h.format.Constraint(c, r, h.compile)
	if err != nil {
		t.Fatalf("%s: %v", h.name, err)
	}
	return fresh()
}

// follow reads ids up to the first that c does not allow, and returns how many it read.
func (h *held) follow(t testing.TB, c chat.Constraint, ids []int32) int {
	t.Helper()
	mask := make([]uint64, h.tok.Vocab()/64+3) // longer than needed: models pad their vocabulary
	for i, id := range ids {
		c.Mask(mask)
		if mask[id/64]>>(id%64)&1 == 0 {
			return i
		}
		if err := c.Accept(id); err != nil {
			t.Fatalf("%q: %v", h.tok.Text(id), err)
		}
	}
	return len(ids)
}

// Answers are allowed, or forbidden from the token after a | on.
func TestConstraints(t *testing.T) {
	t.Parallel()
	person := &grammar.Source{Text: personSchema}
	const (
		thinks = "<|channel|>analysis<|message|>Let me {think}.<|end|><|start|>assistant"
		final  = "<|channel|>final <|constrain|>json<|message|>"
		call   = "<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>"
		bern   = `{"city":"Bern","days":[1]}`
		ada    = `{"name": "Ada", "age": 36}`
		bare   = `{"name": "get-weather", "parameters": `
		qcall  = "<tool_call>\n{\"name\": \"get-weather\", \"arguments\": " + bern + "}\n</tool_call>"
	)
	form, tools := chat.Rules{Answer: person}, chat.Rules{Tools: offered()}
	both := chat.Rules{Answer: person, Tools: offered()}
	must := chat.Rules{Tools: offered(), MustCall: true}
	named := chat.Rules{Tools: slices.Clone(offered()), MustCall: true, OneCall: true}
	named.Tools[1].Hidden = true
	word := chat.Rules{Answer: &grammar.Source{Kind: grammar.Choice, Choices: []string{"yes", "no"}}}
	none := chat.Rules{}
	loose := slices.Clone(offered())
	loose[0].Strict = false
	object := chat.Rules{Answer: person, Tools: loose}
	said := chat.Rules{Answer: &grammar.Source{Kind: grammar.Choice, Choices: []string{bare + bern + "}"}}, Tools: loose}
	for _, f := range heldFamilies(t) {
		rows := map[string][]struct {
			name  string
			rules chat.Rules
			text  string
		}{
			"harmony": {
				{"form", form, thinks + final + ada + "<|return|>"},
				{"form without reasoning", form, final + ada + "<|return|>"},
				{"form, bare header", form, "<|channel|>final|<|message|>"},
				{"form, other member", form, final + `{"name": "Ada", "|sex`},
				{"form, end too early", form, final + `{"name": "Ada"|<|return|>`},
				{"form, closed by end", form, final + ada + "|<|end|>"},
				{"form, text behind", form, final + ada + "|!"},
				{"form, end in the reasoning", form, "<|channel|>analysis<|message|>Hm|<|return|>"},
				{"form, preamble", form, "<|channel|>|commentary"},
				{"form, call", form, "|to"},
				{"choice", word, "<|channel|>final<|message|>no<|return|>"},
				{"choice, content type", word, "<|channel|>final| <|constrain|>json"},
				{"choice, other", word, "<|channel|>final<|message|>|maybe"},
				{"answer beside tools", tools, thinks + "<|channel|>final<|message|>It is {sunny}.<|return|>"},
				{"preamble and call", tools, "<|channel|>commentary<|message|>Wait.<|end|><|start|>assistant" + call + bern + "<|call|>"},
				{"recipient before the channel", tools, " to=functions.get_weather<|channel|>commentary json<|message|>" + bern + "<|call|>"},
				{"call on analysis", tools, "<|channel|>analysis to=functions.get code<|message|>{\"a\": [1, {}]}<|call|>"},
				{"bare header of a call", tools, "<|channel|>commentary to=functions.get<|message|>{}<|call|>"},
				{"strict arguments", tools, call + `{"city":"|Rome`},
				{"arguments of another tool", tools, "<|channel|>commentary to=functions.get <|constrain|>json<|message|>" + bern + "<|call|>"},
				{"arguments that are no object", tools, "<|channel|>commentary to=functions.get <|constrain|>json<|message|>|["},
				{"call closed by return", tools, call + bern + "|<|return|>"},
				{"unknown tool", tools, "<|channel|>commentary to=|container.exec"},
				{"constrain twice", tools, call[:len(call)-len("<|message|>")] + "|<|constrain|>"},
				{"answer closed by call", tools, "<|channel|>final<|message|>Hi|<|call|>"},
				{"marker in the text", tools, "<|channel|>final<|message|>Hi|<|channel|>"},
				{"form beside tools", both, thinks + final + ada + "<|return|>"},
				{"call beside a form", both, thinks + call + bern + "<|call|>"},
				{"required", must, thinks + call + bern + "<|call|>"},
				{"required, preamble", must, thinks + "<|channel|>commentary<|message|>Wait.<|end|><|start|>assistant" + call + bern + "<|call|>"},
				{"required, thought about twice", must, thinks + "<|channel|>|analysis"},
				{"form, thought about twice", form, thinks + "<|channel|>|analysis"},
				{"answer, thought about twice", tools, thinks + thinks + "<|channel|>final<|message|>Hi<|return|>"},
				{"required, preamble", must, "<|channel|>commentary<|message|>Wait.<|end|><|start|>assistant" + call + bern + "<|call|>"},
				{"required, second preamble", must, "<|channel|>commentary<|message|>Wait.<|end|><|start|>assistant<|channel|>commentary|<|message|>"},
				{"required, answer", must, "<|channel|>|final"},
				{"named", named, call + bern + "<|call|>"},
				{"named, other", named, "<|channel|>commentary to=functions.get|<|message|>"},
				{"none", none, "<|channel|>final<|message|>Hi<|return|>"},
				{"none, call", none, "<|channel|>commentary| to"},
				{"behind the end", form, final + ada + "<|return|>anything<|start|>"},
			},
			"qwen3": {
				{"form", form, "<think>\nLet me {think}.\n</think>\n\n" + ada + "<|im_end|>"},
				{"form without reasoning", form, ada + "<|im_end|>"},
				{"form, end in the reasoning", form, "<think>\nHm|<|im_end|>"},
				{"form, line breaks without end", form, "<think>\nHm\n</think>\n\n|\n\n"},
				{"form, call", form, "|<tool_call>"},
				{"form, text behind", form, ada + "|!"},
				{"choice", word, "<think>Hm</think>\n\nno<|im_end|>"},
				{"choice, other", word, "|maybe"},
				{"text", tools, "<think>\nHm\n</think>\n\nIt is {sunny}.<|im_end|>"},
				{"text and call", tools, "<think>\nHm\n</think>\n\nWait.\n" + qcall + "<|im_end|>"},
				{"two calls", tools, qcall + "\n" + qcall + "<|im_end|>"},
				{"text behind a call", tools, qcall + "|Done"},
				{"strict arguments", tools, "<tool_call>\n{\"name\": \"get-weather\", \"arguments\": {\"city\":\"|Rome"},
				{"unknown tool", tools, "<tool_call>\n{\"name\": \"|container"},
				{"open call", tools, "<tool_call>\n{\"name\": \"get\", \"arguments\": {}|<|im_end|>"},
				{"call beside a form", both, "<think>\nHm\n</think>\n\n" + qcall + "<|im_end|>"},
				{"form beside tools", both, "<think>\nHm\n</think>\n\n" + ada + "<|im_end|>"},
				{"call in a form", both, `{"name|<tool_call>`},
				{"required", must, "<think>\nHm\n</think>\n\n" + qcall + "<|im_end|>"},
				{"required, text", must, "<think>\nHm\n</think>\n\n|Hi"},
				{"required, nothing", must, "<think>\nHm\n</think>\n\n|<|im_end|>"},
				{"named, second call", named, qcall + "|\n"},
			},
			"qwen3 thinking": {
				{"form", form, "Hm\n</think>\n\n" + ada + "<|im_end|>"},
				{"required", must, "Hm\n</think>\n\n" + qcall + "<|im_end|>"},
				{"end in the reasoning", tools, "Hm|<|im_end|>"},
			},
			"template": {
				{"form", form, ada + "<|im_end|>"},
				{"form, text", form, "|Hi"},
				{"form, end", form, "|<|im_end|>"},
				{"required", must, `{"name": "get-weather", "arguments": ` + bern + "}<|im_end|>"},
				{"required, text", must, "|Hi"},
			},
			"llama3.2": {
				{"form", form, ada + "<|eot_id|>"},
				{"text", tools, "It is {sunny}.<|eot_id|>"},
				{"text, call later", tools, `So: {"name": "container"`},
				{"call", tools, bare + bern + "}<|eot_id|>"},
				{"call, other end", tools, bare + bern + "}<|eom_id|>"},
				{"strict arguments", tools, bare + `{"city":"|Rome`},
				{"unknown tool", tools, `{"name": "|container`},
				{"object that is no call", tools, `{"|a": 1}`},
				{"object behind space", tools, "|\n{"},
				{"text behind a call", tools, bare + bern + "}|."},
				{"open call", tools, bare + bern + "|<|eot_id|>"},
				{"call beside a form", both, bare + bern + "}<|eot_id|>"},
				{"form beside tools", both, ada + "<|eot_id|>"},
				{"neither", both, "|Hi"},
				{"call beside an object", object, `{"name": "get", "parameters": {"a": [1]}}<|eot_id|>`},
				{"choice that is a call", said, bare + bern + "}<|eot_id|>"},
				{"choice, other call", said, bare + `{"city":"|Paris`},
				{"required", must, bare + bern + "}<|eot_id|>"},
				{"required, text", must, "|Hi"},
				{"required, nothing", must, "|<|eot_id|>"},
				{"named, other", named, `{"name": "get|"`},
			},
		}[f.name]
		for _, row := range rows {
			t.Run(f.name+"/"+row.name, func(t *testing.T) {
				t.Parallel()
				good, bad := row.text, ""
				if at := forbidden(row.text); at >= 0 {
					good, bad = row.text[:at], row.text[at+1:]
				}
				all := sampled(f.tok, good)
				c := f.constraint(t, asked(), &row.rules)
				if n := f.follow(t, c, all); n != len(all) {
					t.Fatalf("%q is forbidden behind %q", f.tok.Decode(all[n:]), f.tok.Decode(all[:n]))
				}
				if next := sampled(f.tok, bad); len(next) > 0 && f.follow(t, c, next[:1]) != 0 {
					t.Errorf("%q is allowed behind %q", f.tok.Text(next[0]), good)
				}
			})
		}
	}
}

// forbidden returns where a | stands that is no part of a marker, or -1.
func forbidden(text string) int {
	for i := range len(text) {
		if text[i] == '|' && (i == 0 || text[i-1] != '<') && (i == len(text)-1 || text[i+1] != '>') {
			return i
		}
	}
	return -1
}

// A validator is independent of package grammar.
func validator(t testing.TB, schema string) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(schema))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("mem:s", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("mem:s")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func check(s *jsonschema.Schema, text string) error {
	v, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err != nil {
		return err
	}
	return s.Validate(v)
}

// TestGRM2Answers lets models babble that only their masks hold: every answer that ends
// is well-formed, nothing in it has to be mended, and texts and arguments are valid for
// a validator that shares no code with the masks.
func TestGRM2Answers(t *testing.T) {
	judges := map[string]*jsonschema.Schema{"": validator(t, personSchema), "get-weather": validator(t, weatherSchema), "get": validator(t, `{"type":"object"}`)}
	rules := map[string]*chat.Rules{
		"form": {Answer: &grammar.Source{Text: personSchema}}, "tools": {Tools: offered()}, "required": {Tools: offered(), MustCall: true},
		"form beside tools": {Answer: &grammar.Source{Text: personSchema}, Tools: offered()}, "one call": {Tools: offered(), MustCall: true, OneCall: true},
	}
	for _, f := range heldFamilies(t) {
		for name, r := range rules {
			t.Run(f.name+"/"+name, func(t *testing.T) {
				t.Parallel()
				ended, messages, last := 0, 0, ""
				for n := range soak.Cases(t, 20, 20_000) {
					rng := rand.New(rand.NewPCG(uint64(n), 13))
					all, end := f.babble(t, f.constraint(t, asked(), r), rng)
					events := formattest.Parse(f.format.Parser(asked()), all)
					m := heard(t, events, f.tok.Decode(all), end)
					messages += len(m.calls) + 1
					if !end {
						last = f.tok.Decode(all)
						continue
					}
					ended++
					switch {
					case (r.MustCall && len(m.calls) == 0) || (r.OneCall && len(m.calls) != 1):
						t.Fatalf("%d calls in %q", len(m.calls), f.tok.Decode(all))
					case r.Answer != nil && len(m.calls) == 0:
						if err := check(judges[""], m.text); err != nil {
							t.Fatalf("%q: %v", f.tok.Decode(all), err)
						}
					}
					for _, c := range m.calls {
						if err := check(judges[c.name], c.arguments); err != nil {
							t.Fatalf("%q: %v", f.tok.Decode(all), err)
						}
					}
				}
				if ended == 0 {
					t.Errorf("no answer ended: %q", last)
				}
				t.Logf("%d messages, %d answers ended, all valid", messages, ended)
			})
		}
	}
}

// babble samples among what c allows, exits more often than text, until the answer ends
// or has become long.
func (h *held) babble(t *testing.T, c chat.Constraint, rng *rand.Rand) (all []int32, ended bool) {
	t.Helper()
	mask := make([]uint64, (h.tok.Vocab()+63)/64)
	stops := h.format.Stops()
	for len(all) < 500 {
		c.Mask(mask)
		id := h.pick(mask, rng)
		if id < 0 {
			t.Fatalf("nothing may follow %q", h.tok.Decode(all))
		}
		all = append(all, id)
		if slices.Contains(stops, id) {
			return all, true
		}
		if err := c.Accept(id); err != nil {
			t.Fatalf("%q behind %q: %v", h.tok.Text(id), h.tok.Decode(all), err)
		}
	}
	return all, false
}

func (h *held) pick(mask []uint64, rng *rand.Rand) int32 {
	allowed := func(id int32) bool { return mask[id/64]>>(id%64)&1 == 1 }
	var exits []int32
	for _, id := range h.exits {
		if allowed(id) {
			exits = append(exits, id)
		}
	}
	if len(exits) > 0 && rng.IntN(3) == 0 {
		return exits[rng.IntN(len(exits))]
	}
	n := int32(h.tok.Vocab())
	from := rng.Int32N(n)
	if id := firstOf(mask, from, n); id >= 0 {
		return id
	}
	return firstOf(mask, 0, from)
}

// firstOf returns the first token of a mask from an id on and before another, or -1.
func firstOf(mask []uint64, from, before int32) int32 {
	for id := from; id < before; id = id/64*64 + 64 {
		if rest := mask[id/64] >> (id % 64); rest != 0 {
			if id += int32(bits.TrailingZeros64(rest)); id < before {
				return id
			}
			return -1
		}
	}
	return -1
}

type spoken struct {
	text  string
	calls []struct{ name, arguments string }
}

// heard collects what events say. Nothing may have been mended but a cut header.
func heard(t *testing.T, events []chat.Event, said string, ended bool) (m spoken) {
	t.Helper()
	for _, e := range events {
		switch {
		case e.Kind == chat.Salvage && ended:
			t.Fatalf("%q: rule %s was needed", said, e.Rule)
		case e.Part == chat.Hidden && e.Kind == chat.Start:
			t.Fatalf("%q has a hidden message", said)
		case e.Part == chat.Content && e.Kind == chat.Delta:
			m.text += e.Text
		case e.Part == chat.Calling && e.Kind == chat.Start:
			m.calls = append(m.calls, struct{ name, arguments string }{name: e.Name})
		case e.Part == chat.Calling && e.Kind == chat.Delta:
			m.calls[len(m.calls)-1].arguments += e.Text
		}
	}
	return m
}

// What cannot be held to is an error that says which form it is.
func TestFormErrors(t *testing.T) {
	t.Parallel()
	bad := grammar.Source{Text: `{"properties":{"x":{"contains":{}}}}`}
	for _, f := range heldFamilies(t) {
		_, err := f.format.Constraint(asked(), &chat.Rules{Answer: &bad}, f.compile)
		if e, ok := errors.AsType[*chat.FormError](err); !ok || e.Tool != -1 || !e.Err.Unsupported || !strings.Contains(err.Error(), "#/properties/x") {
			t.Errorf("%s: answer: %v", f.name, err)
		}
		r := &chat.Rules{Tools: offered()}
		r.Tools[1].Arguments = bad
		_, err = f.format.Constraint(asked(), r, f.compile)
		if err != nil {
			t.Errorf("%s: a tool that is not strict: %v", f.name, err)
		}
		r.Tools[1].Strict = true
		_, err = f.format.Constraint(asked(), r, f.compile)
		if e, ok := errors.AsType[*chat.FormError](err); !ok || e.Tool != 1 {
			t.Errorf("%s: a strict tool: %v", f.name, err)
		}
		gone := errors.New("gone")
		if _, err := f.format.Constraint(asked(), r, func(grammar.Source) (*grammar.Grammar, error) { return nil, gone }); err != gone {
			t.Errorf("%s: %v", f.name, err)
		}
	}
}

// Where calls have no tags and none is strict, nothing stands in their way.
func TestUnknownCalls(t *testing.T) {
	t.Parallel()
	f := heldFamilies(t)[3]
	r := &chat.Rules{Tools: []chat.ToolRule{{}, {}}}
	if fresh, err := f.format.Constraint(asked(), r, f.compile); fresh != nil || err != nil {
		t.Errorf("a constraint, %v", err)
	}
}

// Masks in a text of any form cost nothing but their copy.
func BenchmarkConstraint(b *testing.B) {
	f := heldFamilies(b)[0]
	c := f.constraint(b, asked(), &chat.Rules{Answer: &grammar.Source{Text: personSchema}})
	mask := make([]uint64, f.tok.Vocab()/64+1)
	for _, id := range sampled(f.tok, "<|channel|>analysis<|message|>Hm") {
		if err := c.Accept(id); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		c.Mask(mask)
	}
}

// Tools that no grammar has room for are refused together: none of them is at fault.
// Harmony has a header for each.
func TestToolsErrors(t *testing.T) {
	t.Parallel()
	c, r := asked(), &chat.Rules{MustCall: true}
	for i := range 2000 {
		c.Tools = append(c.Tools, chat.Tool{Name: fmt.Sprintf("tool_%040d", i)})
	}
	for range c.Tools {
		r.Tools = append(r.Tools, chat.ToolRule{Arguments: grammar.Source{Kind: grammar.Object}})
	}
	tooMuch := &grammar.Error{What: "too much"}
	for _, f := range heldFamilies(t) {
		compile := func(src grammar.Source) (*grammar.Grammar, error) {
			if len(src.Frames) > 1000 {
				return nil, tooMuch
			}
			return f.compile(src)
		}
		_, err := f.format.Constraint(c, r, compile)
		if e, ok := errors.AsType[*chat.ToolsError](err); ok == (f.name == "harmony") || (ok && e.Err != tooMuch) || (!ok && err != nil) {
			t.Errorf("%s: %v", f.name, err)
		}
	}
}

// Text that goes on cannot become a call, but for one between tags behind it.
func TestTextThatMustCall(t *testing.T) {
	t.Parallel()
	for _, f := range heldFamilies(t) {
		conv := asked()
		conv.Turns, conv.Continue, conv.MustCall = append(conv.Turns, say(chat.Assistant, "The")), true, true
		_, err := f.format.Constraint(conv, &chat.Rules{MustCall: true, Tools: offered()}, f.compile)
		fault, refused := errors.AsType[chat.NoCallsError](err) // the request to call is at fault, no turn
		if refused == strings.HasPrefix(f.name, "qwen3") || (refused && !strings.Contains(fault.Why, "continued")) || (!refused && err != nil) {
			t.Errorf("%s: %v", f.name, err)
		}
	}
}

// An answer that has to be a call, and may call nothing, is refused.
func TestNoCalls(t *testing.T) {
	t.Parallel()
	for _, f := range heldFamilies(t) {
		r := &chat.Rules{MustCall: true, Tools: []chat.ToolRule{{Hidden: true}}}
		if _, err := f.format.Constraint(asked(), r, f.compile); !errors.As(err, new(chat.NoCallsError)) {
			t.Errorf("%s: %v", f.name, err)
		}
	}
}
