package server

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"ossian/internal/chat"
	"ossian/internal/limits"
	"ossian/internal/runner"
	"ossian/internal/sim"
	"ossian/internal/token"
)

const (
	person     = `{"type":"object","properties":{"name":{"type":"string","maxLength":12},"age":{"type":"integer","minimum":0,"maximum":150},"pets":{"type":"array","items":{"$ref":"#/$defs/pet"},"maxItems":2}},"required":["name","age","pets"],"additionalProperties":false,"$defs":{"pet":{"anyOf":[{"enum":["cat","Hündin"]},{"type":"null"}]}}}`
	weather    = `{"type":"object","properties":{"city":{"enum":["Bern","Paris"]},"days":{"type":"integer","minimum":1,"maximum":9}},"required":["city","days"],"additionalProperties":false}`
	strictTool = `{"type":"function","function":{"name":"get_weather","parameters":` + weather + `,"strict":true}}`
	looseTool  = `{"type":"function","function":{"name":"get-time","parameters":` + weather + `}}`
	bareTool   = `{"type":"function","function":{"name":"get"}}`
	twoTools   = `"tools":[` + strictTool + `,` + looseTool + `,` + bareTool + `]`
	callHeader = `<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>`
)

// jabber is a model that says what begin spells, then ids without sense: only masks
// make something of them.
func jabber(begin []int32) sim.Next {
	hash := sim.Hash(201_088)
	return func(history []int32, step uint64) int32 {
		if step < uint64(len(begin)) {
			return begin[step]
		}
		return hash(history, step)
	}
}

// judge returns what tells whether a text follows a schema. It shares no code with the masks.
func judge(t testing.TB, schema string) func(text string) error {
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
	return func(text string) error {
		v, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
		if err != nil {
			return err
		}
		return s.Validate(v)
	}
}

func matching(pattern string) func(string) error {
	re := regexp.MustCompile(`^(?:` + pattern + `)$`)
	return func(text string) error {
		if !re.MatchString(text) {
			return fmt.Errorf("%q does not match %s", text, re)
		}
		return nil
	}
}

// ask posts a request whole and streamed, which have to be the same, and returns the reply.
func (g *rig) ask(path, body string) *transcript {
	g.t.Helper()
	var both [2]*transcript
	for i, b := range []string{body, strings.TrimSuffix(body, "}") + `,"stream":true,"stream_options":{"include_usage":true}}`} {
		res, err := g.client.Post(g.url+path, "application/json", strings.NewReader(b))
		if err != nil {
			g.t.Fatal(err)
		}
		tr, err := hear(res, stay)
		if err != nil || res.StatusCode != http.StatusOK || !tr.done || tr.code != "" {
			g.t.Fatalf("%s: %d %v %+v", b, res.StatusCode, err, tr)
		}
		both[i] = tr
	}
	if w, s := both[0], both[1]; fmt.Sprint(w.choices) != fmt.Sprint(s.choices) || w.usage.Completion != s.usage.Completion {
		g.t.Errorf("%s:\nwhole    %+v\nstreamed %+v", body, w, s)
	}
	return both[0]
}

// forms are requests for text of a form, and what the text has to be.
func forms(t testing.TB) []struct {
	name, body string
	valid      func(string) error
} {
	t.Helper()
	quoted, err := json.Marshal(person)
	if err != nil {
		t.Fatal(err)
	}
	isPerson := judge(t, person)
	return []struct {
		name, body string
		valid      func(string) error
	}{
		{"json_schema", `"response_format":{"type":"json_schema","json_schema":{"name":"person","strict":true,"schema":` + person + `}}`, isPerson},
		{"json_schema, not strict", `"response_format":{"type":"json_schema","json_schema":{"name":"person","schema":` + person + `}}`, isPerson},
		{"json", `"structured_outputs":{"json":` + person + `}`, isPerson},
		{"json in a string", `"guided_json":` + string(quoted), isPerson},
		{"json without space", `"structured_outputs":{"json":` + person + `,"whitespace_pattern":""}`, isPerson},
		{"regex", `"guided_regex":"[a-c]{2,5}-\\d{2}"`, matching(`[a-c]{2,5}-\d{2}`)},
		{"choice", `"structured_outputs":{"choice":["left","right","längs"]}`, matching(`left|right|längs`)},
		{"grammar", `"guided_grammar":"root ::= \"a\" digit{2,4} \"z\"\ndigit ::= [0-9]"`, matching(`a\d{2,4}z`)},
		// By the names of other servers.
		{"schema beside json_object", `"response_format":{"type":"json_object","schema":` + person + `}`, isPerson},
		{"json_schema under json_object", `"response_format":{"type":"json_object","json_schema":{"schema":` + person + `}}`, isPerson},
		{"schema without the inner object", `"response_format":{"type":"json_schema","schema":` + person + `}`, isPerson},
		{"json_schema at the top", `"json_schema":` + person, isPerson},
		{"format", `"format":` + person, isPerson},
		{"regex at the top", `"regex":"a{5}"`, matching(`a{5}`)},
		{"ebnf", `"ebnf":"root ::= \"aaa\""`, matching(`aaa`)},
		{"grammar at the top", `"grammar":"root ::= \"a\"{5,5}"`, matching(`a{5}`)},
		{"Lark grammar", `"guided_grammar":"start: \"a\" D~2..4 \"z\"\nD: /[0-9]/"`, matching(`a\d{2,4}z`)},
	}
}

// TestGRM4Forms: text of a form behind free reasoning, whole and streamed, alone and
// with everything that a request may ask beside it.
func TestGRM4Forms(t *testing.T) {
	g := start(t, setup{next: jabber(said(thinks + "<|channel|>final"))})
	h := start(t, setup{next: jabber(nil)})
	for _, f := range forms(t) {
		t.Run(f.name, func(t *testing.T) {
			for _, more := range []string{"", `,"include_reasoning":false,"reasoning_effort":"high"`, "," + twoTools, `,"logprobs":true,"top_logprobs":2,"n":2`, `,"min_tokens":200`} {
				tr := g.ask("/v1/chat/completions", `{`+hi+`,"return_token_ids":true,`+f.body+more+`}`)
				n := 1
				if strings.Contains(more, `"n"`) {
					n = 2
				}
				for _, c := range tr.choices[:n] {
					if err := f.valid(c.Content); err != nil || c.Finish != "stop" || len(c.Calls) > 0 {
						t.Errorf("%s: %+v: %v", more, c, err)
					}
					if hidden := strings.Contains(more, "include_reasoning"); (c.Reasoning == "Let me think.") == hidden {
						t.Errorf("%s: reasoning %q", more, c.Reasoning)
					}
					if strings.Contains(more, "logprobs") && c.Bytes != c.Content {
						t.Errorf("log probabilities of %q, content %q", c.Bytes, c.Content)
					}
					if c.IDs[len(c.IDs)-1] != 200_002 {
						t.Errorf("the last id is %d", c.IDs[len(c.IDs)-1])
					}
				}
			}
			tr := h.ask("/v1/completions", `{"prompt":"x","max_tokens":200,`+f.body+`}`)
			if err := f.valid(tr.choices[0].Content); err != nil || tr.choices[0].Finish != "stop" {
				t.Errorf("text: %+v: %v", tr.choices[0], err)
			}
		})
	}
	const object = thinks + `<|channel|>final <|constrain|>json<|message|>{"a": [1, {"b": "ü"}]}<|return|>`
	tr := start(t, setup{reply: object}).ask("/v1/chat/completions", `{`+hi+`,"response_format":{"type":"json_object"}}`)
	if c := tr.choices[0]; c.Content != `{"a": [1, {"b": "ü"}]}` || c.Finish != "stop" {
		t.Errorf("json_object: %+v", c)
	}
}

// Answers of a form are cut like others.
func TestFormsAreCut(t *testing.T) {
	const all, header = `{"name":"Ada","age":36,"pets":[]}`, thinks + `<|channel|>final <|constrain|>json<|message|>`
	g := start(t, setup{reply: header + all + "<|return|>"})
	for _, c := range []struct{ name, more, content, finish, stop string }{
		{"in the form", fmt.Sprintf(`"max_tokens":%d`, len(said(header))+3), all, "length", "null"},
		{"in the reasoning", `"max_tokens":3`, "", "length", "null"},
		{"behind the end", `"ignore_eos":true,"max_tokens":60`, all, "length", "null"},
		{"stop string", `"stop":"36"`, `{"name":"Ada","age":`, "stop", `"36"`},
		{"bad word", `"bad_words":["Ada"]`, "", "stop", "null"},
	} {
		got := g.ask("/v1/chat/completions", `{`+hi+`,`+forms(t)[0].body+`,`+c.more+`}`).choices[0]
		if got.Finish != c.finish || got.Stop != c.stop {
			t.Errorf("%s: %+v", c.name, got)
		}
		switch c.name {
		case "in the form":
			if got.Content == "" || got.Content == all || !strings.HasPrefix(all, got.Content) {
				t.Errorf("%s: %+v", c.name, got)
			}
		case "behind the end":
			if !strings.HasPrefix(got.Content, all) {
				t.Errorf("%s: %+v", c.name, got)
			}
		case "bad word":
			if err := judge(t, person)(got.Content); err != nil || strings.Contains(got.Content, "Ada") {
				t.Errorf("%s: %+v: %v", c.name, got, err)
			}
		default:
			if got.Content != c.content {
				t.Errorf("%s: %+v", c.name, got)
			}
		}
	}
}

// TestGRM4Calls: every way to choose tools, whole and streamed.
func TestGRM4Calls(t *testing.T) {
	valid := judge(t, weather)
	const (
		final = thinks + "<|channel|>final<|message|>Hi.<|return|>"
		wild  = thinks + `<|channel|>commentary to=functions.get <|constrain|>json<|message|>{"a":1}<|call|>`
	)
	for _, c := range []struct {
		name, choice, form string
		begin              string // what the model wants to say; then it jabbers
		calls              string // names of tools, "" = none
		finish             string
	}{
		{"auto, answer", `"auto"`, "", final, "", "stop"},
		{"auto, call", `"auto"`, "", thinks + callHeader, "get_weather", "tool_calls"},
		{"auto, preamble and call", `"auto"`, "", thinks + "<|channel|>commentary<|message|>Wait.<|end|><|start|>assistant" + callHeader, "get_weather", "tool_calls"},
		{"auto, call beside a form", `"auto"`, forms(t)[0].body, thinks + callHeader, "get_weather", "tool_calls"},
		{"none", `"none"`, "", thinks + "<|channel|>commentary<|message|>Hi.<|end|><|start|>assistant<|channel|>final<|message|>Hi.<|return|>", "", "stop"},
		{"required, call", `"required"`, "", thinks + callHeader, "get_weather", "tool_calls"},
		{"required, other call", `"required"`, "", thinks + `<|channel|>commentary to=functions.get_time <|constrain|>json<|message|>`, "get-time", "tool_calls"},
		{"required, beside a form", `"required"`, forms(t)[0].body, thinks + callHeader, "get_weather", "tool_calls"},
		{"named", `{"type":"function","function":{"name":"get_weather"}}`, "", thinks + callHeader, "get_weather", "stop"},
		{"named, another wanted", `{"type":"function","function":{"name":"get-time"}}`, "", thinks + " to=functions.get_weather", "get-time", "stop"},
		{"allowed, required", `{"type":"allowed_tools","allowed_tools":{"mode":"required","tools":[{"type":"function","function":{"name":"get"}}]}}`, "", wild, "get", "tool_calls"},
		{"allowed, auto", `{"type":"allowed_tools","allowed_tools":{"mode":"auto","tools":[{"type":"function","function":{"name":"get-time"}}]}}`, "", final, "", "stop"},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := start(t, setup{next: jabber(said(c.begin))})
			for _, more := range []string{"", `,"parallel_tool_calls":false`, `,"stop":"Bern"`} {
				body := `{` + hi + `,"max_tokens":400,` + twoTools + `,"tool_choice":` + c.choice + more
				if c.form != "" {
					body += "," + c.form
				}
				got := g.ask("/v1/chat/completions", body+"}").choices[0]
				name, arguments, _ := strings.Cut(strings.Join(got.Calls, ""), "(")
				if len(got.Calls) > 1 || name != c.calls || got.Finish != c.finish || !strings.HasPrefix(got.Reasoning, "Let me think.") {
					t.Errorf("%s: %+v", more, got)
				}
				switch {
				case name == "get" && !json.Valid([]byte(arguments)):
					t.Errorf("%s: arguments %s", more, arguments)
				case name != "get" && name != "":
					if err := valid(arguments); err != nil {
						t.Errorf("%s: arguments %s: %v", more, arguments, err)
					}
				}
			}
		})
	}
}

// TestRequiredIsHonoured: a model that wants to answer has to call (PAR-4).
func TestRequiredIsHonoured(t *testing.T) {
	valid := judge(t, weather)
	g := start(t, setup{reply: "<|channel|>final<|message|>No.<|return|>"})
	got := g.ask("/v1/chat/completions", `{`+hi+`,"tools":[`+strictTool+`],"tool_choice":"required"}`).choices[0]
	if len(got.Calls) != 1 || got.Finish != "tool_calls" || !strings.HasPrefix(got.Calls[0], "get_weather(") {
		t.Fatalf("%+v", got)
	}
	if err := valid(strings.TrimPrefix(got.Calls[0], "get_weather(")); err != nil {
		t.Error(err)
	}
}

// qwen is a server of a model that writes as Qwen3 does and says what begin spells.
func qwen(t *testing.T, begin string) *rig {
	t.Helper()
	data, err := os.ReadFile("../token/testdata/qwen3-cut.json")
	if err != nil {
		t.Fatal(err)
	}
	tok, err := token.FromJSON(data)
	if err != nil {
		t.Fatal(err)
	}
	end, ok := tok.ID("<|im_end|>")
	template, err := os.ReadFile("../jinja/testdata/templates/qwen3.jinja")
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	f, err := chat.New(chat.Facts{Family: "qwen3", Tokenizer: tok, Template: string(template), Stops: []int32{end}})
	if err != nil {
		t.Fatal(err)
	}
	p := tok.Prompt()
	p.Markup(begin)
	ids, hash := p.IDs(), sim.Hash(tok.Vocab())
	return start(t, setup{tokens: tok, format: f, next: func(history []int32, step uint64) int32 {
		if step < uint64(len(ids)) {
			return ids[step]
		}
		return hash(history, step)
	}})
}

// TestGRM4Qwen: forms and calls behind </think>.
func TestGRM4Qwen(t *testing.T) {
	const reason = "<think>\nLet me {think}.\n</think>\n\n"
	valid := judge(t, weather)
	for _, f := range forms(t)[:6] {
		t.Run(f.name, func(t *testing.T) {
			for begin, body := range map[string]string{reason: "", "": `,"reasoning_effort":"none"`} {
				got := qwen(t, begin).ask("/v1/chat/completions", `{`+hi+`,`+f.body+body+`}`).choices[0]
				if err := f.valid(got.Content); err != nil || got.Finish != "stop" || (got.Reasoning == "Let me {think}.") != (begin != "") {
					t.Errorf("%q: %+v: %v", begin, got, err)
				}
			}
		})
	}
	for _, c := range []struct{ choice, begin, finish string }{
		{`"required"`, reason + "Sure!", "tool_calls"},
		{`"required"`, reason + "<tool_call>\n{\"name\": \"get_weather\"", "tool_calls"},
		{`{"type":"function","function":{"name":"get_weather"}}`, reason, "stop"},
		{`"auto"`, reason + "<tool_call>\n{\"name\": \"get_weather\"", "tool_calls"},
	} {
		body := `{` + hi + `,"tools":[` + strictTool + `],"parallel_tool_calls":false,"tool_choice":` + c.choice + `}`
		got := qwen(t, c.begin).ask("/v1/chat/completions", body).choices[0]
		if len(got.Calls) != 1 || got.Finish != c.finish || got.Content != "" {
			t.Errorf("%s: %+v", c.choice, got)
			continue
		}
		if err := valid(strings.TrimPrefix(got.Calls[0], "get_weather(")); err != nil {
			t.Errorf("%s: %+v: %v", c.choice, got, err)
		}
	}
}

// TestDET1Forms: what answers of a form say depends on the request alone, not on who
// else is there, how prompts are cut or what is computed again.
func TestDET1Forms(t *testing.T) {
	u := setup{next: jabber(said(thinks + "<|channel|>final"))}
	g := start(t, u)
	u.info.MaxSeqs, u.info.MaxTokens, u.info.MaxLen, u.info.Groups, u.info.Depth = 8, 24, 400, []runner.Group{{Blocks: 40}}, 2
	crowded := start(t, u)
	all := forms(t)
	post := func(g *rig, i int) heard {
		body := fmt.Sprintf(`{"messages":[{"role":"user","content":"question %d"}],"max_tokens":150,"return_token_ids":true,%s}`, i, all[i%len(all)].body)
		if i%4 == 3 {
			body = fmt.Sprintf(`{"messages":[{"role":"user","content":"question %d"}],"max_tokens":20}`, i)
		}
		res, err := g.client.Post(g.url+"/v1/chat/completions", "application/json", strings.NewReader(body))
		if err != nil {
			t.Error(err)
			return heard{}
		}
		tr, err := hear(res, stay)
		if err != nil || tr.code != "" {
			t.Errorf("%s: %v %s", body, err, tr.code)
		}
		return tr.choices[0]
	}
	const n = 40
	var want [n]heard
	for i := range n {
		want[i] = post(g, i)
	}
	together(n, 16, func(i int) {
		if got := post(crowded, i); fmt.Sprint(got) != fmt.Sprint(want[i]) {
			t.Errorf("question %d:\ntogether %+v\nalone    %+v", i, got, want[i])
		}
	})
}

// TestGRM1Refused: what output cannot be held to is refused with what is wrong and
// where, and disturbs nothing else.
func TestGRM1Refused(t *testing.T) {
	g := start(t, setup{reply: hello})
	format := func(schema string) string {
		return `"response_format":{"type":"json_schema","json_schema":{"name":"x","schema":` + schema + `}}`
	}
	const at = "response_format.json_schema.schema"
	for _, c := range []struct{ name, body, code, param, says string }{
		{"keyword", format(`{"properties":{"a":{"contains":{}}}}`), "unsupported_schema", at, "#/properties/a"},
		{"reference", format(`{"$ref":"#/$defs/x"}`), "invalid_json_schema", at, "points to nothing"},
		{"type", format(`{"type":"strnig"}`), "invalid_json_schema", at, "#: type"},
		{"impossible", format(`{"type":"object","properties":{"a":{"type":"string","minLength":9,"maxLength":3}},"required":["a"]}`), "invalid_json_schema", at, "#/properties/a/minLength: no value can match: minLength 9 is above maxLength 3"},
		{"JSON in a string", `"guided_json":"{"`, "invalid_json_schema", "guided_json", "not JSON"},
		{"JSON in a string, as it is now", `"structured_outputs":{"json":"{"}`, "invalid_json_schema", "structured_outputs.json", "not JSON"},
		{"regex", `"guided_regex":"(a"`, "invalid_value", "guided_regex", ""},
		{"back reference", `"structured_outputs":{"regex":"(a)\\1"}`, "unsupported_parameter", "structured_outputs.regex", ""},
		{"grammar", `"guided_grammar":"root ::= x"`, "invalid_value", "guided_grammar", ""},
		{"empty choice", `"guided_choice":["a",""]`, "invalid_value", "guided_choice", "choice 1"},
		{"structural tags", `"response_format":{"type":"structural_tag","structures":[],"triggers":[]}`, "unsupported_parameter", "response_format.type", ""},
		{"member twice", format(`{"properties":{"a":{},"a":{}}}`), "invalid_value", at, "a"},
		{"strict tool", `"tools":[` + bareTool + `,{"type":"function","function":{"name":"f","strict":true,"parameters":{"properties":{"a":{"contains":{}}}}}}]`, "unsupported_schema", "tools[1].function.parameters", "#/properties/a"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := g.post("/v1/chat/completions", `{`+hi+`,`+c.body+`}`)
			wantError(t, r, 400, "invalid_request_error", c.code, c.param)
			if !strings.Contains(r.body, c.says) {
				t.Errorf("%q is missing: %s", c.says, r.body)
			}
		})
	}
	if r := g.post("/v1/chat/completions", `{`+hi+`}`); r.status != 200 {
		t.Errorf("afterwards: %d %s", r.status, r.body)
	}
	r := g.post("/v1/responses", `{"input":"Hi","store":false,"text":{"format":{"type":"json_schema","name":"x","schema":{"properties":{"a":{},"a":{}}}}}}`)
	wantError(t, r, 400, "invalid_request_error", "invalid_value", "text.format.schema")
	slow := start(t, setup{reply: hello, limits: map[limits.ID]int64{limits.CompileTime: 0}})
	r = slow.post("/v1/chat/completions", `{`+hi+`,`+format(person)+`}`)
	wantError(t, r, 400, "invalid_request_error", "unsupported_schema", at)
	if !strings.Contains(r.body, "compile-time") {
		t.Errorf("%s", r.body)
	}
}

// TestGRM4Responses: the same through the Responses API.
func TestGRM4Responses(t *testing.T) {
	g := start(t, setup{next: jabber(said(thinks + "<|channel|>final"))})
	caller := start(t, setup{next: jabber(said(thinks + callHeader))})
	post := func(g *rig, body string) (text, name, arguments string) {
		t.Helper()
		r := g.post("/v1/responses", `{"input":"Hi","store":false,`+body+`}`)
		var reply struct {
			Status string
			Output []struct {
				Type, Name, Arguments string
				Content               []struct{ Text string }
			}
		}
		if err := json.Unmarshal([]byte(r.body), &reply); err != nil || r.status != http.StatusOK || reply.Status != "completed" {
			t.Fatalf("%d %s: %v", r.status, r.body, err)
		}
		for _, item := range reply.Output {
			switch item.Type {
			case "message":
				text += item.Content[0].Text
			case "function_call":
				name, arguments = name+item.Name, item.Arguments
			}
		}
		return text, name, arguments
	}
	const format = `"text":{"format":{"type":"json_schema","name":"person","strict":true,"schema":`
	if text, _, _ := post(g, format+person+`}}`); judge(t, person)(text) != nil {
		t.Errorf("text %q", text)
	}
	const tool = `"tools":[{"type":"function","name":"get_weather","strict":true,"parameters":` + weather + `}]`
	for _, choice := range []string{`"required"`, `{"type":"function","name":"get_weather"}`} {
		if _, name, arguments := post(caller, tool+`,"tool_choice":`+choice); name != "get_weather" || judge(t, weather)(arguments) != nil {
			t.Errorf("%s: %s(%s)", choice, name, arguments)
		}
	}
	bad := `{"properties":{"a":{"contains":{}}}}`
	wantError(t, g.post("/v1/responses", `{"input":"Hi","store":false,`+format+bad+`}}}`), 400, "invalid_request_error", "unsupported_schema", "text.format.schema")
	// Under the name that chats have for it, it is named by that.
	const chatForm = `"response_format":{"type":"json_object","schema":`
	if text, _, _ := post(g, chatForm+person+`}`); judge(t, person)(text) != nil {
		t.Errorf("as chats have it: text %q", text)
	}
	strict := strings.Replace(chatForm, `{"type"`, `{"strict":true,"type"`, 1)
	wantError(t, g.post("/v1/responses", `{"input":"Hi","store":false,`+strict+bad+`}}`), 400, "invalid_request_error", "unsupported_schema", "response_format.schema")
	r := g.post("/v1/responses", `{"input":"Hi","store":false,`+strings.Replace(tool, weather, bad, 1)+`}`)
	wantError(t, r, 400, "invalid_request_error", "unsupported_schema", "tools[0].parameters")
}

// TestGRM1Ignored: what schemas ask for and output is not held to is named in a header,
// and refused where a schema, or the server, is strict.
func TestGRM1Ignored(t *testing.T) {
	const (
		odd     = `{"type":"object","properties":{"a,b":{"type":"string","maxLenght":3,"format":"emial"}},"required":["a,b"],"additionalProperties":false}`
		first   = "#/properties/a%2Cb/maxLenght"
		second  = "#/properties/a%2Cb/format"
		hard    = `{"type":"object","properties":{"a":{"contains":{}}},"required":["a"]}`
		chat    = "/v1/chat/completions"
		text    = "/v1/completions"
		answers = "/v1/responses"
		input   = `"input":"Hi"`
	)
	format := func(strict, schema string) string {
		return `"response_format":{"type":"json_schema","json_schema":{"name":"x","strict":` + strict + `,"schema":` + schema + `}}`
	}
	flatFormat := func(strict, schema string) string {
		return `"text":{"format":{"type":"json_schema","name":"x","strict":` + strict + `,"schema":` + schema + `}}`
	}
	tool := func(strict, schema string) string {
		return `{"type":"function","function":{"name":"f","strict":` + strict + `,"parameters":` + schema + `}}`
	}
	flatTool := func(strict, schema string) string {
		return `{"type":"function","name":"f","strict":` + strict + `,"parameters":` + schema + `}`
	}
	const forced = `,"tool_choice":{"type":"function","function":{"name":"f"}}`
	g := start(t, inMemory(t, setup{reply: hello}))
	u := setup{reply: hello}
	u.cfg.Strict = true
	strict, thinking := start(t, u), qwen(t, "")
	for _, c := range []struct {
		name, path, body string
		g                *rig
		ignored          []string // where an answer comes
		param, says      string   // where none does
	}{
		{name: "chat", path: chat, body: hi + `,` + format("false", odd), ignored: []string{"response_format.json_schema.schema" + first, "response_format.json_schema.schema" + second}},
		{name: "beside other members", path: chat, body: hi + `,"chat_id":1,"structured_outputs":{"json":` + odd + `}`, ignored: []string{"chat_id", "structured_outputs.json" + first, "structured_outputs.json" + second}},
		{name: "completions", path: text, body: `"prompt":"x",` + format("false", odd), ignored: []string{"response_format.json_schema.schema" + first, "response_format.json_schema.schema" + second}},
		{name: "responses", path: answers, body: input + `,` + flatFormat("false", odd), ignored: []string{"text.format.schema" + first, "text.format.schema" + second}},
		{name: "in the background", path: answers, body: input + `,"background":true,` + flatFormat("false", odd), ignored: []string{"text.format.schema" + first, "text.format.schema" + second}},
		{name: "forced tool", path: chat, body: hi + `,"tools":[` + bareTool + `,` + tool("false", odd) + `]` + forced, ignored: []string{"tools[1].function.parameters" + first, "tools[1].function.parameters" + second}},
		{name: "forced tool that any object will do for", path: chat, body: hi + `,"tools":[` + bareTool + `,` + tool("false", hard) + `]` + forced, ignored: []string{"tools[1].function.parameters#/properties/a"}},
		{name: "forced tool between tags", path: chat, g: thinking, body: hi + `,"tools":[` + bareTool + `,` + tool("false", odd) + `],"tool_choice":"required"`,
			ignored: []string{"tools[1].function.parameters" + first, "tools[1].function.parameters" + second}},
		{name: "any object between tags", path: chat, g: thinking, body: hi + `,"tools":[` + bareTool + `,` + tool("false", hard) + `],"tool_choice":"required"`,
			ignored: []string{"tools[1].function.parameters#/properties/a"}},
		{name: "tool of a group", path: answers, body: input + `,"tools":[{"type":"namespace","name":"n","description":"","tools":[{"type":"custom","name":"c"},` + flatTool("false", odd) + `]}],"tool_choice":"required"`,
			ignored: []string{"tools[0].tools[1].parameters" + first, "tools[0].tools[1].parameters" + second}},
		{name: "tool that is free", path: chat, body: hi + `,"tools":[` + tool("false", odd) + `]`},
		{name: "annotations", path: chat, body: hi + `,` + format("true", `{"type":"object","title":"T","$comment":"c","x-y":1,"properties":{},"additionalProperties":false}`)},
		{name: "strict form", path: chat, body: hi + `,` + format("true", odd), param: "response_format.json_schema.schema", says: "#/properties/a,b/maxLenght: "},
		{name: "strict form of a response", path: answers, body: input + `,` + flatFormat("true", odd), param: "text.format.schema", says: "#/properties/a,b/maxLenght: "},
		{name: "strict form in the background", path: answers, body: input + `,"background":true,` + flatFormat("true", odd), param: "text.format.schema", says: "#/properties/a,b/maxLenght: "},
		{name: "strict form of a text", path: text, body: `"prompt":"x",` + format("true", odd), param: "response_format.json_schema.schema", says: "#/properties/a,b/maxLenght: "},
		{name: "strict tool", path: chat, body: hi + `,"tools":[` + bareTool + `,` + tool("true", odd) + `]`, param: "tools[1].function.parameters", says: "#/properties/a,b/maxLenght: "},
		{name: "strict tool between tags", path: chat, g: thinking, body: hi + `,"tools":[` + bareTool + `,` + tool("true", odd) + `]`, param: "tools[1].function.parameters", says: "#/properties/a,b/maxLenght: "},
		{name: "strict tool of a group", path: answers, body: input + `,"tools":[{"type":"namespace","name":"n","description":"","tools":[{"type":"custom","name":"c"},` + flatTool("true", odd) + `]}]`,
			param: "tools[0].tools[1].parameters", says: "#/properties/a,b/maxLenght: "},
		{name: "strict server", path: chat, g: strict, body: hi + `,` + format("false", odd), param: "response_format.json_schema.schema", says: "#/properties/a,b/maxLenght: "},
		{name: "forced tool of a strict server", path: chat, g: strict, body: hi + `,"tools":[` + tool("false", hard) + `]` + forced, param: "tools[0].function.parameters", says: "#/properties/a: contains is not supported"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.g == nil {
				c.g = g
			}
			most := `,"max_tokens":2}`
			if c.path == answers {
				most = `,"max_output_tokens":2}`
			}
			r := c.g.post(c.path, `{`+c.body+most)
			if c.param != "" {
				wantError(t, r, 400, "invalid_request_error", "unsupported_schema", c.param)
				if !strings.Contains(r.body, c.says) {
					t.Errorf("%q is missing: %s", c.says, r.body)
				}
				return
			}
			if got, want := r.header.Get("x-ossian-ignored"), strings.Join(c.ignored, ", "); r.status != 200 || got != want {
				t.Errorf("%d %s\nignored %s\nwant    %s", r.status, r.body, got, want)
			}
		})
	}
	const mostIgnored = 2 << 10 // bytes of x-ossian-ignored, about
	var long strings.Builder
	for i := range 200 {
		fmt.Fprintf(&long, `,"odd %d %s":1`, i, strings.Repeat("x", 50))
	}
	r := g.post(chat, `{`+hi+`,"max_tokens":2,`+format("false", strings.Replace(odd, `,"format"`, long.String()+`,"format"`, 1))+`}`)
	if got := r.header.Get("x-ossian-ignored"); r.status != 200 || len(got) > mostIgnored+8 || len(got) < mostIgnored/2 {
		t.Errorf("%d: %d bytes of header", r.status, len(got))
	}
}
