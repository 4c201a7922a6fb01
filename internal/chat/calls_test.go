package chat_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	"ossian/internal/chat"
	"ossian/internal/chat/formattest"
	"ossian/internal/grammar"
	"ossian/internal/soak"
	"ossian/internal/token"
)

// cityWeather offers one tool.
func cityWeather() *chat.Conversation {
	return &chat.Conversation{Turns: []chat.Turn{say(chat.User, "Weather in Oslo?")}, Tools: []chat.Tool{{Name: "get_weather", Parameters: []byte(`{"type":"object","properties":{"city":{"type":"string"}},"required":["city"]}`)}}}
}

// cuts returns the ids of text, its control ids by name, with its other parts cut into
// tokens at every place in turn, and into single bytes.
func cuts(t testing.TB, tok *token.BPE, text string) [][]int32 {
	t.Helper()
	markers := regexp.MustCompile(`<\|\w+\|>`)
	pieces := func(cut func(at int) bool) (all []int32) {
		from := 0
		flush := func(end int) {
			for at := from; at < end; at++ {
				if last := at + 1; last == end || cut(last) {
					all = tok.Encode(all, text[from:last])
					from = last
				}
			}
		}
		for _, m := range markers.FindAllStringIndex(text, -1) {
			id, ok := tok.ID(text[m[0]:m[1]])
			if !ok {
				continue
			}
			flush(m[0])
			all, from = append(all, id), m[1]
		}
		flush(len(text))
		return all
	}
	var all [][]int32
	for at := range len(text) {
		all = append(all, pieces(func(cut int) bool { return cut == at }))
	}
	return append(all, pieces(func(int) bool { return true }))
}

// TestLlamaCalls reads what Llama 3.1 to 3.3 say, for every cut into tokens.
func TestLlamaCalls(t *testing.T) {
	t.Parallel()
	tok := llamaTokens(t)
	formats := map[string]chat.Format{"llama3.1": llamaFormat(t, "llama3.1"), "llama3.2": llamaFormat(t, "llama3.2"),
		"asked in words": newFormat(t, chat.Facts{Family: "llama", Tokenizer: tok, Template: string(readFile(t, "testdata/calls/llama.jinja")), Stops: ids(t, tok, "<|eot_id|>")})}
	cases := 0
	for line := range strings.Lines(string(readFile(t, "testdata/calls/llama.jsonl"))) {
		var row struct {
			Case, Text string
			Expected   struct {
				Content *string
				Calls   []struct{ Name, Arguments string } `json:"tool_calls"`
				Finish  string                             `json:"finish_reason"`
			}
		}
		if err := json.Unmarshal([]byte(line), &row); err != nil {
			t.Fatal(err)
		}
		cases++
		content := !strings.Contains(line, `"content"`) // nothing is said of it: all text is
		want := formattest.Reply{Unfinished: row.Expected.Finish == "length"}
		for _, call := range row.Expected.Calls {
			want.Calls = append(want.Calls, chat.Call{Name: call.Name, Arguments: call.Arguments})
		}
		if row.Expected.Content != nil {
			want.Content = *row.Expected.Content
		} else if content {
			want.Content = strings.TrimSuffix(row.Text, "<|eot_id|>")
		}
		for name, format := range formats {
			for _, ids := range cuts(t, tok, row.Text) {
				got := formattest.Collect(formattest.Parse(format.Parser(cityWeather()), ids))
				got.Tokens, got.ReasoningTokens = 0, 0
				if fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", want) {
					t.Fatalf("%s: %s: %q\ngot  %+v\nwant %+v", name, row.Case, ids, got, want)
				}
				if err := formattest.Check(format, cityWeather(), ids); err != nil {
					t.Fatalf("%s: %s: %v", name, row.Case, err)
				}
			}
		}
	}
	if cases < 9 {
		t.Errorf("%d cases, at least 9 expected", cases)
	}
}

// More ways in which calls without tags are written, and text that only looks like one.
func TestBareCalls(t *testing.T) {
	t.Parallel()
	tok := llamaTokens(t)
	format := llamaFormat(t, "llama3.2")
	const oslo = `{"name": "get_weather", "parameters": {"city": "Oslo"}}`
	const called = `call:get_weather[{"city": "Oslo"}]`
	for _, tt := range []struct{ in, want string }{
		{"", ""},
		{" \n", "content[ \n]~"},
		{"\n\n" + oslo + "\n<|eot_id|>", called + " end"},
		{oslo + ";" + oslo + "<|eot_id|>", called + " " + called + " end"},
		{oslo + "; " + oslo + ";<|eom_id|>", called + " " + called + " end"},
		{oslo + oslo + "<|eot_id|>", called + " " + called + " end"},
		{oslo + "\n" + oslo + "<|eot_id|>", called + " " + called + " end"},
		{"<|python_tag|>" + oslo + "; <|python_tag|>" + oslo + "<|eom_id|>", called + " " + called + " end"},
		{"[" + oslo + ", " + oslo + "]<|eot_id|>", called + " " + called + " end"},
		{"<|python_tag|>[" + oslo + "]\n<|eom_id|>", called + " end"},
		{"[" + oslo + "] and more<|eot_id|>", called + " content[] and more] end"},
		{"[" + oslo + ", 3]<|eot_id|>", called + " content[, 3]] end"},
		{"[1, 2]<|eot_id|>", "content[[1, 2]] end"},
		{`[{"a": 1}]<|eot_id|>`, `content[[{"a": 1}]] end`},
		{oslo + ", " + oslo + "<|eot_id|>", called + " " + called + " end"},
		{oslo + ",\n" + oslo + "\n<|eot_id|>", called + " " + called + " end"},
		{oslo + "]<|eot_id|>", called + " content[]] end"},
		{oslo + ", so it is<|eot_id|>", called + " content[, so it is] end"},
		{`{"id": 3, "name": "get_weather", "parameters": {"city": "Oslo"}}<|eot_id|>`, called + " end"},
		{`{"why": "to \"know\"", "sure": true, "name": "get_weather", "parameters": {"city": "Oslo"}}<|eot_id|>`, called + " end"},
		{`{"city": "Oslo", "wet": null}<|eot_id|>`, `content[{"city": "Oslo", "wet": null}] end`},
		{`{"city": {"name": "get_weather", "parameters": {}}}<|eot_id|>`, `content[{"city": {"name": "get_weather", "parameters": {}}}] end`},
		{`{"type": "function", "function": {"name": "get_weather", "parameters": {"city": "Oslo"}}}<|eot_id|>`, called + " end"},
		{`[{"id": "1", "type": "function", "function": {"name": "get_weather", "arguments": "{\"city\": \"Oslo\"}"}}, ` + oslo + `]<|eot_id|>`, called + " " + called + " end"},
		{`{"type": "function", "function": {"name": "reboot", "parameters": {}}}<|eot_id|>`, `content[{"type": "function", "function": {"name": "reboot", "parameters": {}}}] end`},
		{oslo + "\nDone.<|eot_id|>", called + " content[Done.] end"},
		{oslo + "; so it is<|eot_id|>", called + " content[; so it is] end"},
		{oslo + ` {"a": 1}<|eot_id|>`, called + ` content[ {"a": 1}] end`},
		{"It rains.\n" + oslo + "<|eot_id|>", "content[It rains.\n" + oslo + "] end"},
		{`<|python_tag|>print("x")<|eom_id|>`, `content[print("x")] end`},
		{`{"parameters": {"city": "Oslo"}, "name": "get_weather"}<|eot_id|>`, called + " end"},
		{`{"name": "get_weather", "id": 7, "parameters": {"city": "Oslo"}}<|eot_id|>`, called + " end"},
		{`{"name": "get_weather", "parameters": "{\"city\": \"Oslo\"}"}<|eot_id|>`, called + " end"},
		{`{"name": "get_weather", "parameters": null}<|eot_id|>`, "call:get_weather[{}] end"},
		{`{"name": "get_weather", "parameters": {}, "x": [1, "}"]} <|eot_id|>`, "call:get_weather[{}] end | call"},
		{`{"name": "get_weather", "parameters": {}<|eot_id|>`, "call:get_weather[{}] end"},
		{`{"name": "get_weather", "parameters": 3}<|eot_id|>`, `content[{"name": "get_weather", "parameters": 3}] end`},
		{`{"name": "get_weather", "parameters": "no"}<|eot_id|>`, `content[{"name": "get_weather", "parameters": "no"}] end`},
		{`{"name": "get_weather", "parameters": ["a"]}<|eot_id|>`, `content[{"name": "get_weather", "parameters": ["a"]}] end`},
		{`{"name": "Ada", "parameters": {}}<|eot_id|>`, `content[{"name": "Ada", "parameters": {}}] end`},
		{`{"city": "Oslo"}<|eot_id|>`, `content[{"city": "Oslo"}] end`},
		{`{}<|eot_id|>`, `content[{}] end`},
		{`{<|eot_id|>`, `content[{] end`},
		{`[1]<|eot_id|>`, `content[[1]] end`},
		{`{"name": "get_weather", "para`, "call:get_weather[]~"},
		{`{"name": "get_wea`, `content[{"name": "get_wea]~`},
		{oslo[:len(oslo)-1], called},
		{oslo + `; {"name": "get_weather", "parameters": {"ci`, called + ` call:get_weather[{"ci]~`},
		{oslo + "<|eot_id|>and more", called + " end content[and more]~"},
	} {
		for _, ids := range cuts(t, tok, tt.in) {
			if got := formattest.Story(formattest.Parse(format.Parser(cityWeather()), ids)); got != tt.want {
				t.Errorf("%q as %v\ngot  %s\nwant %s", tt.in, ids, got, tt.want)
				break
			}
			if err := formattest.Check(format, cityWeather(), ids); err != nil {
				t.Errorf("%q: %v", tt.in, err)
			}
		}
	}
	// The tag as text, where the vocabulary lacks it.
	smol := heldFamilies(t)[3]
	all := smol.tok.Encode(nil, "<|python_tag|>"+oslo)
	if got := formattest.Story(formattest.Parse(smol.format.Parser(cityWeather()), all)); got != called {
		t.Errorf("behind a tag of text: %s", got)
	}
	// Nobody sees half of a call that was asked for.
	forced := cityWeather()
	forced.MustCall = true
	if got := formattest.Story(formattest.Parse(format.Parser(forced), sampled(tok, `{"name": "get_wea`))); got != `hidden[{"name": "get_wea]~ | call` {
		t.Errorf("half a call: %s", got)
	}
	// Without tools it is an object.
	none := cityWeather()
	none.NoCalls = true
	if got := formattest.Story(formattest.Parse(format.Parser(none), sampled(tok, oslo+"<|eot_id|>"))); got != "content["+oslo+"] end" {
		t.Errorf("without tools: %s", got)
	}
}

// Arguments come as they are said, each part with the id that brought it.
func TestBareCallsStream(t *testing.T) {
	t.Parallel()
	tok := llamaTokens(t)
	parser := llamaFormat(t, "llama3.2").Parser(cityWeather())
	var parts []string
	for _, id := range sampled(tok, `{"name": "get_weather", "parameters": {"city": "Oslo and Bergen", "days": [1, 2, 3]}}<|eot_id|>`) {
		text := ""
		for _, event := range parser.Push(nil, id) {
			text += event.Text
		}
		if text != "" {
			parts = append(parts, text)
		}
	}
	if len(parts) < 12 || strings.Join(parts, "") != `{"city": "Oslo and Bergen", "days": [1, 2, 3]}` {
		t.Errorf("%d parts: %q", len(parts), parts)
	}
}

// Whatever models write that looks like calls, events are well-formed, no id is lost, and
// other tokens of the same text give the same.
func TestBareCallsOfAnyKind(t *testing.T) {
	t.Parallel()
	tok := llamaTokens(t)
	format := llamaFormat(t, "llama3.1")
	respell := formattest.Respeller(tok)
	pieces := []string{`{`, `}`, `"name": "get_weather"`, `"name": "x"`, `"parameters": {`, `"arguments": `, `, `, `: `, `"`, `\`, `"type": "function"`, ";", "\n", " ", "é", "😀", "null", "[1]", "<|python_tag|>", "<|eot_id|>", `{"name": "get_weather", "parameters": {"a": 1}}`}
	for n := range soak.Cases(t, 2000, 1_000_000) {
		rng := rand.New(rand.NewPCG(uint64(n), 29))
		text := ""
		if rng.IntN(2) == 0 {
			text = `{"name": "get_weather", "parameters": {`
		}
		for range rng.IntN(10) {
			text += pieces[rng.IntN(len(pieces))]
		}
		whole := sampled(tok, text)
		if err := formattest.Check(format, cityWeather(), whole); err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		want := formattest.Story(formattest.Parse(format.Parser(cityWeather()), whole))
		for _, ids := range respell(whole, rng, 3) {
			if got := formattest.Story(formattest.Parse(format.Parser(cityWeather()), ids)); got != want {
				t.Fatalf("%q as %v\ngot  %s\nwant %s", text, ids, got, want)
			}
		}
	}
}

// TestCallsOneByOne shows calls of one turn as turns to templates that refuse several, as
// those of Llama do: models make several all the same.
func TestCallsOneByOne(t *testing.T) {
	t.Parallel()
	tok := llamaTokens(t)
	call := func(id, city string) chat.Call {
		return chat.Call{ID: id, Name: "get_weather", Arguments: `{"city": "` + city + `"}`}
	}
	result := func(id, text string) chat.Turn {
		return chat.Turn{Role: chat.ToolRole, CallID: id, Parts: []string{text}}
	}
	several := cityWeather()
	several.Now = dated
	apart := *several
	several.Turns = append(several.Turns, chat.Turn{Role: chat.Assistant, Calls: []chat.Call{call("a", "Oslo"), call("b", "Bergen"), call("b", "Moss")}}, result("b", "rain"), result("b", "snow"), result("a", "sun"))
	for i, city := range []string{"Oslo", "Bergen", "Moss"} {
		apart.Turns = append(apart.Turns, chat.Turn{Role: chat.Assistant, Calls: []chat.Call{call(city, city)}}, result(city, []string{"sun", "rain", "snow"}[i]))
	}
	for _, name := range []string{"llama3.1", "llama3.2"} {
		format := llamaFormat(t, name)
		got, want := tok.Decode(render(t, format, tok, several)), tok.Decode(render(t, format, tok, &apart))
		if got != want || strings.Count(got, `{"name": "get_weather", "parameters": {"city":`) != 3 {
			t.Errorf("%s:\ngot  %q\nwant %q", name, got, want)
		}
	}
}

// TestUnknownForm makes models call whose template says nothing of calls, and not of
// tools either: then only an answer that must be a call may be asked for.
func TestUnknownForm(t *testing.T) {
	t.Parallel()
	f := heldFamilies(t)[3]
	schema := string(cityWeather().Tools[0].Parameters)
	must := &chat.Rules{MustCall: true, OneCall: true, Tools: []chat.ToolRule{{Strict: true, Arguments: grammar.Source{Text: schema}}}}
	conv := cityWeather()
	conv.MustCall = true
	judge := validator(t, schema)
	for n := range soak.Cases(t, 50, 5000) {
		all, end := f.babble(t, f.constraint(t, conv, must), rand.New(rand.NewPCG(uint64(n), 30)))
		reply := formattest.Collect(formattest.Parse(f.format.Parser(conv), all))
		if reply.Content != "" || (end && len(reply.Calls) != 1) {
			t.Fatalf("%q: %+v", f.tok.Decode(all), reply)
		}
		if end {
			if err := check(judge, reply.Calls[0].Arguments); err != nil || reply.Calls[0].Name != "get_weather" {
				t.Fatalf("%q: %v", f.tok.Decode(all), err)
			}
		}
	}
	if err := f.format.Render(f.tok.Prompt(), conv); err != nil {
		t.Errorf("a call that is asked for: %v", err)
	}
}

// TestStrictBegin keeps text that may be read as a call, alone or in a list, to the calls
// that strict tools may have.
func TestStrictBegin(t *testing.T) {
	t.Parallel()
	tok := llamaTokens(t)
	f := held{tok: tok, format: llamaFormat(t, "llama3.2"), compile: compiler(tok)}
	rules := &chat.Rules{Tools: []chat.ToolRule{{Strict: true, Arguments: grammar.Source{Text: string(cityWeather().Tools[0].Parameters)}}}}
	for text, whole := range map[string]bool{"It rains.<|eot_id|>": true, `{"name": "get_weather", "parameters": {"city": "Oslo"}}<|eot_id|>`: true,
		`[{"name": "get_weather", "parameters": {"town": "Oslo"}}]<|eot_id|>`: false, `{"why": "", "name": "get_weather", "parameters": {"town": "Oslo"}}<|eot_id|>`: false} {
		all := sampled(tok, text)
		if got := f.follow(t, f.constraint(t, cityWeather(), rules), all); (got == len(all)) != whole {
			t.Errorf("%s: %d of %d ids may come", text, got, len(all))
		}
	}
}

// TestToolsThatAreNotShown refuses what a template would drop without a word.
func TestToolsThatAreNotShown(t *testing.T) {
	t.Parallel()
	tok := jsonTokens(t, "qwen3-cut.json")
	for name, shows := range map[string]bool{"testdata/calls/no-tools.jinja": false, "testdata/calls/llama.jinja": true, "../jinja/testdata/templates/smollm2.jinja": false,
		"../jinja/testdata/templates/llama3.1.jinja": true, "../jinja/testdata/templates/llama3.2.jinja": true, "../jinja/testdata/templates/qwen3.jinja": true} {
		format := newFormat(t, chat.Facts{Family: "llama", Tokenizer: tok, Template: string(readFile(t, name)), Special: map[string]string{"bos_token": ""}})
		conv := cityWeather()
		conv.Now = dated
		err := format.Render(tok.Prompt(), conv)
		fault, refused := errors.AsType[*chat.Error](err)
		if format.Tools() != shows || refused == shows || (refused && !fault.Tools) {
			t.Errorf("%s: shows tools: %t, error %v", name, format.Tools(), err)
		}
		if conv.NoCalls = true; format.Render(tok.Prompt(), conv) != nil {
			t.Errorf("%s: tools that must not be called are refused", name)
		}
	}
	if !heldFamilies(t)[0].format.Tools() || !heldFamilies(t)[1].format.Tools() {
		t.Error("gpt-oss and Qwen3 show tools")
	}
}

// TestNamedTemplates takes the template that is for tools where a request has some.
func TestNamedTemplates(t *testing.T) {
	t.Parallel()
	tok := jsonTokens(t, "qwen3-cut.json")
	var config struct {
		Templates []struct{ Name, Template string } `json:"chat_template"`
	}
	if err := json.Unmarshal(readFile(t, "testdata/calls/named.json"), &config); err != nil {
		t.Fatal(err)
	}
	named := map[string]string{}
	for _, one := range config.Templates {
		named[one.Name] = one.Template
	}
	plain := cityWeather()
	plain.Tools = nil
	for _, facts := range []chat.Facts{{Template: named["default"], Named: named}, {Named: named}} {
		facts.Family, facts.Tokenizer = "qwen3", tok
		format := newFormat(t, facts)
		if got := tok.Decode(render(t, format, tok, cityWeather())); !strings.HasPrefix(got, `TOOLS [{"type": "function"`) {
			t.Errorf("with tools: %q", got)
		}
		if got := tok.Decode(render(t, format, tok, plain)); !strings.HasPrefix(got, "<|im_start|>user") {
			t.Errorf("without tools: %q", got)
		}
		if !format.Tools() {
			t.Error("the template of tools shows tools")
		}
	}
	// It says how calls are written, too.
	llama := llamaTokens(t)
	calling := newFormat(t, chat.Facts{Family: "llama", Tokenizer: llama, Template: named["default"], Named: map[string]string{"tool_use": string(readFile(t, "testdata/calls/llama.jinja"))}})
	f := held{tok: llama, format: calling, compile: compiler(llama)}
	must := &chat.Rules{MustCall: true, Tools: []chat.ToolRule{{Arguments: grammar.Source{Kind: grammar.Object}}}}
	if all := sampled(llama, `{"name": "get_weather", "parameters": {}}<|eot_id|>`); f.follow(t, f.constraint(t, cityWeather(), must), all) != len(all) {
		t.Error("the template of tools writes parameters")
	}
	chosen := newFormat(t, chat.Facts{Family: "qwen3", Tokenizer: tok, Template: named["default"], Named: named, Chosen: true})
	if chosen.Tools() {
		t.Error("somebody wants another template")
	}
	if _, err := chat.New(chat.Facts{Family: "qwen3", Tokenizer: tok, Template: named["default"], Named: map[string]string{"tool_use": "{% if %}"}}); err == nil || !strings.Contains(err.Error(), "tool_use") {
		t.Errorf("a broken template: %v", err)
	}
}

// TestToolArguments holds arguments to objects whatever schemas leave out, strict or not.
func TestToolArguments(t *testing.T) {
	t.Parallel()
	object, families := validator(t, `{"type":"object"}`), heldFamilies(t)
	for _, schema := range []string{`{"properties": {"a": {"type": "string"}}}`, `{}`, `true`, `{"description": "takes nothing in particular"}`,
		`{"properties": {"a": {"type": "integer"}}, "required": ["a"], "additionalProperties": false}`, `{"type": ["object", "null"]}`, `{"nullable": true, "type": "object"}`,
		`{"$ref": "#/$defs/A", "$defs": {"A": {"properties": {"x": {"type": "integer"}}}}}`, `{"anyOf": [{"required": ["x"], "properties": {"x": {"const": 1}}}, {"type": "string"}]}`,
		`{"enum": [3, {"a": 1}]}`, `{"type": "string"}`, `{"type": ["string", "null"]}`, `false`, `{"const": 3}`} {
		judge := validator(t, schema)
		for _, f := range families {
			for _, strict := range []bool{false, true} {
				conv := &chat.Conversation{Turns: []chat.Turn{say(chat.User, "Add 12 and 30.")}, Tools: []chat.Tool{{Name: "f"}}, MustCall: true}
				rules := &chat.Rules{MustCall: true, OneCall: true, Tools: []chat.ToolRule{{Strict: strict, Arguments: grammar.Source{Text: schema}}}}
				fresh, err := f.format.Constraint(conv, rules, f.compile)
				if fault, ok := errors.AsType[*chat.FormError](err); ok && strict && fault.Tool == 0 && slices.Contains([]string{`{"type": "string"}`, `{"type": ["string", "null"]}`, `false`, `{"const": 3}`}, schema) {
					continue // no object can be what it asks for
				}
				if err != nil {
					t.Errorf("%s, %s, strict %t: %v", f.name, schema, strict, err)
					continue
				}
				ended := 0
				for n := range soak.Cases(t, 5, 200) {
					all, end := f.babble(t, fresh(), rand.New(rand.NewPCG(uint64(n), 31)))
					if !end {
						continue
					}
					ended++
					calls := formattest.Collect(formattest.Parse(f.format.Parser(conv), all)).Calls
					if len(calls) != 1 || check(object, calls[0].Arguments) != nil || (strict && check(judge, calls[0].Arguments) != nil) {
						t.Fatalf("%s, %s, strict %t: %+v", f.name, schema, strict, calls)
					}
				}
				if ended == 0 {
					t.Errorf("%s, %s, strict %t: no answer ended", f.name, schema, strict)
				}
			}
		}
	}
}

// TestDuplicateCallIDs gives the k-th result of an id to its k-th call.
func TestDuplicateCallIDs(t *testing.T) {
	t.Parallel()
	tok := harmonyTokens(t)
	format := newFormat(t, chat.Facts{Family: "gpt-oss", Tokenizer: tok})
	call := func(names ...string) chat.Turn {
		turn := chat.Turn{Role: chat.Assistant}
		for _, name := range names {
			turn.Calls = append(turn.Calls, chat.Call{ID: "call_0", Name: name, Arguments: "{}"})
		}
		return turn
	}
	result := func(text string) chat.Turn {
		return chat.Turn{Role: chat.ToolRole, CallID: "call_0", Parts: []string{text}}
	}
	hi := say(chat.User, "Go.")
	for name, tt := range map[string]struct {
		turns []chat.Turn
		want  []string // author and text of each result
	}{
		"in one turn":           {[]chat.Turn{hi, call("look", "add"), result("seen"), result("42")}, []string{"look seen", "add 42"}},
		"in turns":              {[]chat.Turn{hi, call("look"), result("seen"), call("add"), result("42")}, []string{"look seen", "add 42"}},
		"in turns, later":       {[]chat.Turn{hi, call("look"), call("add"), result("seen"), result("42")}, []string{"look seen", "add 42"}},
		"in conversations":      {[]chat.Turn{hi, call("look"), result("seen"), hi, call("add"), result("42")}, []string{"look seen", "add 42"}},
		"one has no result":     {[]chat.Turn{hi, call("look"), hi, call("add"), result("42")}, []string{"add 42"}},
		"the user between":      {[]chat.Turn{hi, call("look", "add"), result("seen"), hi, result("42")}, []string{"look seen", "add 42"}},
		"one result told twice": {[]chat.Turn{hi, call("look"), result("seen"), result("seen"), call("add"), result("42")}, []string{"look seen", "look seen", "add 42"}},
		"the same function":     {[]chat.Turn{hi, call("add", "add"), result("1"), result("2")}, []string{"add 1", "add 2"}},
		"three, one result":     {[]chat.Turn{hi, call("look", "add", "see"), result("1")}, []string{"look 1"}},
	} {
		prompt := tok.Decode(render(t, format, tok, &chat.Conversation{Turns: tt.turns, Tools: []chat.Tool{{Name: "look"}, {Name: "add"}, {Name: "see"}}}))
		var got []string
		for _, m := range regexp.MustCompile(`<\|start\|>functions\.(\w+) to=assistant<\|channel\|>commentary<\|message\|>(\w+)<\|end\|>`).FindAllStringSubmatch(prompt, -1) {
			got = append(got, m[1]+" "+m[2])
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}
