package chat_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"ossian/internal/chat"
	"ossian/internal/chat/formattest"
	"ossian/internal/ckpt"
	"ossian/internal/grammar"
	"ossian/internal/soak"
	"ossian/internal/tiny"
	"ossian/internal/token"
)

// builtIn is the vocabulary of the model inside the program.
func builtIn(t testing.TB) *token.BPE {
	t.Helper()
	model, err := ckpt.OpenFS(tiny.FS(), tiny.Name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { model.Close() })
	return model.Tokenizer
}

// plainChats are conversations without tools and forms, which leave the model alone.
func plainChats() map[string]*chat.Conversation {
	asked := []chat.Turn{say(chat.User, "7+13")}
	prefix, thought, wait := say(chat.Assistant, "The sum"), chat.Turn{Role: chat.Assistant, Reasoning: "Add"}, say(chat.Assistant, "Wait")
	wait.Preamble = true
	return map[string]*chat.Conversation{
		"plain":                 {Turns: asked},
		"without reasoning":     {Turns: asked, Effort: "none"},
		"without prompt":        {Turns: asked, NoPrompt: true},
		"continued answer":      {Turns: append(asked[:1:1], prefix), Continue: true},
		"continued reasoning":   {Turns: append(asked[:1:1], thought), Continue: true},
		"continued preamble":    {Turns: append(asked[:1:1], wait), Continue: true},
		"tools that are hidden": {Turns: asked, Tools: []chat.Tool{weather}, NoCalls: true},
	}
}

// TestPlainChats lets a model without sense answer plain chats. It chooses evenly among
// what headers allow, where models are free to lose an answer: nothing has to be mended,
// and no answer that ends is without content (harmony.md 10 and 14). A release reads more
// than 10⁶ messages.
func TestPlainChats(t *testing.T) {
	for name, tok := range map[string]*token.BPE{"built-in": builtIn(t), "gpt-oss": harmonyTokens(t)} {
		format := newFormat(t, chat.Facts{Family: "gpt-oss", Tokenizer: tok})
		chats := 240
		if tok.Vocab() > 100_000 { // masks are as slow to look through as they are long
			chats = 60
		}
		ends := ids(t, tok, "<|end|>", "<|return|>", "<|call|>")
		for kind, conv := range plainChats() {
			t.Run(name+"/"+kind, func(t *testing.T) {
				t.Parallel()
				f := held{name: "harmony", tok: tok, format: format, exits: ends}
				ended, messages := 0, 0
				for n := range soak.Cases(t, chats, 10_000) {
					rng := rand.New(rand.NewPCG(uint64(n), 28))
					all, end := f.babble(t, f.constraint(t, conv, &chat.Rules{}), rng)
					events := formattest.Parse(format.Parser(conv), all)
					reply := formattest.Collect(events)
					for _, event := range events {
						if event.Kind == chat.Salvage && (end || event.Rule.String() != "S16") { // cut inside a header
							t.Fatalf("%q: rule %s was needed", tok.Decode(all), event.Rule)
						}
						if event.Kind == chat.Start {
							messages++
						}
						if event.Part == chat.Hidden && event.Kind == chat.Start {
							t.Fatalf("%q has a hidden message", tok.Decode(all))
						}
					}
					if !end {
						continue
					}
					ended++
					if reply.Content == "" && kind != "continued answer" {
						t.Fatalf("%q has no content", tok.Decode(all))
					}
				}
				if ended < chats/2 {
					t.Errorf("%d answers ended", ended)
				}
				t.Logf("%d answers of %d messages ended, all with content, 0 salvaged", ended, messages)
			})
		}
	}
}

// What goes on in an answer stays in its channel, and an answer says something.
func TestPlainHeaders(t *testing.T) {
	t.Parallel()
	f := heldFamilies(t)[0]
	chats := plainChats()
	for _, tt := range []struct{ conv, text string }{
		{"plain", "<|channel|>analysis<|message|>Hm<|end|><|start|>assistant<|channel|>final<|message|>20<|return|>"},
		{"plain", "<|channel|>commentary<|message|>Wait<|end|><|start|>assistant<|channel|>final<|message|>20<|return|>"},
		{"plain", "|Hi"},
		{"plain", "|<|return|>"},
		{"plain", "|<|endoftext|>"},
		{"plain", "<|channel|>|thoughts"},
		{"plain", "<|channel|>final| json"},
		{"plain", "<|channel|>analysis|<|channel|>"},
		{"plain", "<|channel|>commentary| to=container.exec"},
		{"plain", "| to=python"},
		{"plain", "<|channel|>final<|message|>|<|return|>"},
		{"plain", "<|channel|>final<|message|>a|<|end|>"},
		{"plain", "<|channel|>final<|message|>a|<|call|>"},
		{"plain", "<|channel|>analysis<|message|>a|<|return|>"},
		{"plain", "<|channel|>analysis<|message|>a<|end|>|assistant"},
		{"plain", "<|channel|>analysis<|message|>a<|end|><|start|>|user"},
		{"without reasoning", "<|channel|>|analysis"},
		{"without prompt", "<|start|>assistant<|channel|>final<|message|>20<|return|>"},
		{"without prompt", "|<|channel|>"},
		{"continued answer", " is 20<|return|>"},
		{"continued answer", "<|return|>"},
		{"continued answer", "|<|channel|>"},
		{"continued answer", " is|<|end|>"},
		{"continued reasoning", " them.<|end|><|start|>assistant<|channel|>final<|message|>20<|return|>"},
		{"continued reasoning", "|<|return|>"},
		{"continued preamble", ".<|end|><|start|>assistant<|channel|>final<|message|>20<|return|>"},
		{"continued preamble", ".|<|return|>"},
	} {
		good, bad := tt.text, ""
		if at := forbidden(tt.text); at >= 0 {
			good, bad = tt.text[:at], tt.text[at+1:]
		}
		c, all := f.constraint(t, chats[tt.conv], &chat.Rules{}), sampled(f.tok, good)
		if n := f.follow(t, c, all); n != len(all) {
			t.Errorf("%s: %q is forbidden behind %q", tt.conv, f.tok.Decode(all[n:]), f.tok.Decode(all[:n]))
		} else if next := sampled(f.tok, bad); len(next) > 0 && f.follow(t, c, next[:1]) != 0 {
			t.Errorf("%s: %q is allowed behind %q", tt.conv, f.tok.Text(next[0]), good)
		}
	}
}

// Built-in tools are called by their names, and only where they are offered.
func TestBuiltinCalls(t *testing.T) {
	t.Parallel()
	f := heldFamilies(t)[0]
	conv := &chat.Conversation{Turns: []chat.Turn{say(chat.User, "Hi")}, Builtins: []chat.Namespace{{Name: "python"}, {Name: "browser", Tools: []chat.Tool{{Name: "search"}, {Name: "open"}}}}}
	for text, calls := range map[string]bool{
		"<|channel|>analysis to=python code<|message|>1+1<|call|>":                                             true,
		"<|channel|>analysis to=browser.search <|constrain|>json<|message|>{}<|call|>":                         true,
		" to=browser.open<|channel|>analysis code<|message|>{}<|call|>":                                        true,
		"<|channel|>analysis to=browser.find code<|message|>1<|call|>":                                         false,
		"<|channel|>analysis to=browser code<|message|>1<|call|>":                                              false,
		"<|channel|>analysis<|message|>a<|end|><|start|>assistant<|channel|>final<|message|>It is 2<|return|>": true,
	} {
		all := sampled(f.tok, text)
		if n := f.follow(t, f.constraint(t, conv, &chat.Rules{}), all); (n == len(all)) != calls {
			t.Errorf("%q: %d of %d ids are allowed", text, n, len(all))
		}
	}
	off := *conv
	off.NoCalls = true
	if all := sampled(f.tok, "<|channel|>analysis to=python"); f.follow(t, f.constraint(t, &off, &chat.Rules{}), all) == len(all) {
		t.Error("a built-in tool may be called that is not offered")
	}
}

// BenchmarkPlainText is what the mask of one id of plain text costs: it must be next to
// nothing beside a step, and allocate nothing. The vocabularies are those of the model
// inside the program and of gpt-oss.
func BenchmarkPlainText(b *testing.B) {
	for name, tok := range map[string]*token.BPE{"built-in": builtIn(b), "gpt-oss": harmonyTokens(b)} {
		b.Run(fmt.Sprintf("%s/%d ids", name, tok.Vocab()), func(b *testing.B) {
			f := held{tok: tok, format: newFormat(b, chat.Facts{Family: "gpt-oss", Tokenizer: tok})}
			c := f.constraint(b, plainChats()["plain"], &chat.Rules{})
			for _, id := range sampled(tok, "<|channel|>analysis<|message|>Hm") {
				if err := c.Accept(id); err != nil {
					b.Fatal(err)
				}
			}
			mask, id := make([]uint64, (tok.Vocab()+63)/64), tok.Encode(nil, "a")[0]
			b.ReportAllocs()
			for b.Loop() {
				if c.Accept(id) != nil || c.Mask(mask) != nil {
					b.Fatal("not allowed")
				}
			}
		})
	}
}

// BenchmarkHeaders is what making the constraint of a request costs, and all headers of
// an answer with reasoning.
func BenchmarkHeaders(b *testing.B) {
	f := heldFamilies(b)[0]
	all := sampled(f.tok, "<|channel|>analysis<|message|><|end|><|start|>assistant<|channel|>final<|message|>")
	mask := make([]uint64, (f.tok.Vocab()+63)/64)
	b.ReportAllocs()
	for b.Loop() {
		c := f.constraint(b, plainChats()["plain"], &chat.Rules{})
		for _, id := range all {
			if c.Mask(mask) != nil || c.Accept(id) != nil {
				b.Fatal("not allowed")
			}
		}
	}
}

// In text nothing is allocated for a mask.
func TestPlainTextAllocates(t *testing.T) {
	f := heldFamilies(t)[0]
	c := f.constraint(t, plainChats()["plain"], &chat.Rules{})
	mask := make([]uint64, (f.tok.Vocab()+63)/64)
	all := sampled(f.tok, "<|channel|>final<|message|>Hi")
	if f.follow(t, c, all) != len(all) {
		t.Fatal("not allowed")
	}
	id := slices.Max(f.tok.Encode(nil, " a"))
	if n := testing.AllocsPerRun(100, func() { _, _ = c.Mask(mask), c.Accept(id) }); n != 0 {
		t.Errorf("%v allocations for an id", n)
	}
}

// Whatever names tools have, a header leads to each of them, and to nothing else.
func TestHeadersOfManyTools(t *testing.T) {
	t.Parallel()
	f := heldFamilies(t)[0]
	conv, rules := asked(), &chat.Rules{}
	conv.Tools = nil
	for _, name := range []string{"get", "get_weather", "get_weather_in", "a", "ab", "a_b", "Ab", "日本", "x1", "x12", "$"} {
		conv.Tools = append(conv.Tools, chat.Tool{Name: name})
		rules.Tools = append(rules.Tools, chat.ToolRule{Arguments: grammar.Source{Kind: grammar.Object}})
	}
	for i, tool := range conv.Tools {
		for _, kind := range []string{"", " json", " code", " <|constrain|>json"} {
			for _, text := range []string{"<|channel|>commentary to=functions." + tool.Name + kind + "<|message|>{", " to=functions." + tool.Name + "<|channel|>commentary" + kind + "<|message|>{"} {
				all := sampled(f.tok, text)
				if n := f.follow(t, f.constraint(t, conv, rules), all); n != len(all) {
					t.Errorf("%q is forbidden behind %q", f.tok.Decode(all[n:]), f.tok.Decode(all[:n]))
				}
			}
		}
		hidden := &chat.Rules{Tools: slices.Clone(rules.Tools)}
		hidden.Tools[i].Hidden = true
		if all := sampled(f.tok, "<|channel|>commentary to=functions."+tool.Name+" json<|message|>"); f.follow(t, f.constraint(t, conv, hidden), all) == len(all) {
			t.Errorf("%s may be called though it is hidden", tool.Name)
		}
	}
}
