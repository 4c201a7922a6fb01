package wire

import (
	"reflect"
	"strings"
	"testing"

	"ossian/internal/limits"
)

// readServerTool reads a tool as the first of a request.
func readServerTool(body string) (tool ServerTool, in *Reader) {
	in = NewReader([]byte(`{"tools":[`+body+`]}`), limits.Defaults())
	in.Object(func(string) bool {
		in.Array(limits.Tools, "tools", func(int) { tool.Read(in) })
		return true
	})
	return tool, in
}

func TestServerTool(t *testing.T) {
	yes := true
	for _, c := range []struct {
		body string
		want ServerTool
	}{
		{`{"type":"web_search"}`, ServerTool{Type: "web_search"}},
		{`{"type":"web_search_preview","search_context_size":"low","user_location":null}`, ServerTool{Type: "web_search_preview"}},
		{`{"type":"code_interpreter","container":{"type":"auto"}}`, ServerTool{Type: "code_interpreter"}},
		{`{"type":"web_search","filters":{"allowed_domains":["Example.COM","a.example.org."]}}`, ServerTool{Type: "web_search", Domains: []string{"example.com", "a.example.org"}}},
		{`{"type":"web_search","filters":{"allowed_domains":[]}}`, ServerTool{Type: "web_search"}},
		{`{"type":"web_search","filters":{"allowed_domains":null}}`, ServerTool{Type: "web_search"}},
		{`{"type":"web_search","filters":null}`, ServerTool{Type: "web_search"}},
		{`{"container":"cntr_1","type":"code_interpreter"}`, ServerTool{Type: "code_interpreter", Container: "cntr_1"}},
		{`{"type":"mcp","server_label":"deep.wiki-2","server_url":"https://example.com/mcp","headers":{"X-Key":"k"},"authorization":"hunter2","require_approval":"never"}`,
			ServerTool{Type: "mcp", Label: "deep.wiki-2", URL: "https://example.com/mcp", Headers: map[string]string{"X-Key": "k"}, Authorization: "hunter2", Approval: Approval{Mode: "never"}}},
		{`{"type":"mcp","server_label":"a","allowed_tools":["b","c"],"server_description":"d"}`, ServerTool{Type: "mcp", Label: "a", Allowed: []string{"b", "c"}}},
		{`{"type":"mcp","server_label":"a","allowed_tools":[]}`, ServerTool{Type: "mcp", Label: "a", Allowed: []string{}}},
		{`{"type":"mcp","server_label":"a","allowed_tools":"*"}`, ServerTool{Type: "mcp", Label: "a"}},
		{`{"type":"mcp","server_label":"a","allowed_tools":["b","*"]}`, ServerTool{Type: "mcp", Label: "a"}},
		{`{"type":"mcp","server_label":"a","allowed_tools":{"tool_names":["b"],"read_only":true}}`, ServerTool{Type: "mcp", Label: "a", Allowed: []string{"b"}, ReadOnly: true}},
		{`{"type":"mcp","server_label":"a","require_approval":{"always":{"tool_names":["b"]},"never":{"read_only":true}}}`,
			ServerTool{Type: "mcp", Label: "a", Approval: Approval{Mode: "filter", Always: &Filter{Names: []string{"b"}}, Never: &Filter{ReadOnly: &yes}}}},
	} {
		c.want.Path = "tools[0]"
		if got, in := readServerTool(c.body); in.Failed() || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s\nread as %+v, %v\nwant    %+v", c.body, got, in.Err(), c.want)
		}
	}
	if _, in := readServerTool(`{"type":"web_search","filters":{"allowed_domains":["a"],"languages":["de"]}}`); !reflect.DeepEqual(in.Ignored(), []string{"tools[0].filters.languages"}) {
		t.Errorf("ignored %v", in.Ignored())
	}
}

// TestServerToolErrors: each says where, and none repeats what may be a secret.
func TestServerToolErrors(t *testing.T) {
	for _, c := range []struct{ body, param, code string }{
		{`{"type":"mcp"}`, "tools[0].server_label", CodeMissingParameter},
		{`{"type":"web_search","filters":{"allowed_domains":["a.example","https://b.example"]}}`, "tools[0].filters.allowed_domains[1]", CodeInvalidValue},
		{`{"type":"web_search","filters":{"allowed_domains":["a.example/x"]}}`, "tools[0].filters.allowed_domains[0]", CodeInvalidValue},
		{`{"type":"web_search","filters":{"allowed_domains":["a.example:8"]}}`, "tools[0].filters.allowed_domains[0]", CodeInvalidValue},
		{`{"type":"web_search","filters":{"allowed_domains":["u@a.example"]}}`, "tools[0].filters.allowed_domains[0]", CodeInvalidValue},
		{`{"type":"web_search","filters":{"allowed_domains":["*.example"]}}`, "tools[0].filters.allowed_domains[0]", CodeInvalidValue},
		{`{"type":"web_search","filters":{"allowed_domains":[""]}}`, "tools[0].filters.allowed_domains[0]", CodeInvalidValue},
		{`{"type":"web_search","filters":{"allowed_domains":"a.example"}}`, "tools[0].filters.allowed_domains", CodeInvalidType},
		{`{"type":"web_search","filters":[]}`, "tools[0].filters", CodeInvalidType},
		{`{"type":"mcp","server_label":""}`, "tools[0].server_label", CodeMissingParameter},
		{`{"type":"mcp","server_label":"a b"}`, "tools[0].server_label", CodeInvalidValue},
		{`{"type":"mcp","server_label":"` + strings.Repeat("a", 65) + `"}`, "tools[0].server_label", CodeInvalidValue},
		{`{"type":"mcp","server_label":5}`, "tools[0].server_label", CodeInvalidType},
		{`{"type":"mcp","server_label":"a","server_url":"file:///etc/x"}`, "tools[0].server_url", CodeInvalidValue},
		{`{"type":"mcp","server_label":"a","server_url":"https://"}`, "tools[0].server_url", CodeInvalidValue},
		{`{"type":"mcp","server_label":"a","server_url":"http://[::1"}`, "tools[0].server_url", CodeInvalidValue},
		{`{"type":"mcp","server_label":"a","server_url":"https://me:hunter2@example.com/"}`, "tools[0].server_url", CodeInvalidValue},
		{`{"type":"mcp","server_label":"a","server_url":"https://e.com/` + strings.Repeat("x", 2048) + `"}`, "tools[0].server_url", CodeInvalidValue},
		{`{"type":"mcp","server_label":"a","connector_id":"connector_dropbox"}`, "tools[0].connector_id", CodeUnsupported},
		{`{"type":"mcp","server_label":"a","server_url":"https://e.com","headers":{"X":"hunter2\r\nY: z"}}`, "tools[0].headers.X", CodeInvalidValue},
		{`{"type":"mcp","server_label":"a","server_url":"https://e.com","headers":{"X\n":"hunter2"}}`, "tools[0].headers.X\n", CodeInvalidValue},
		{`{"type":"mcp","server_label":"a","server_url":"https://e.com","headers":{"":"hunter2"}}`, "tools[0].headers.", CodeInvalidValue},
		{`{"type":"mcp","server_label":"a","server_url":"https://e.com","headers":{"x":"1","X":"hunter2"}}`, "tools[0].headers.X", CodeInvalidValue},
		{`{"type":"mcp","server_label":"a","server_url":"https://e.com","headers":{"host":"hunter2"}}`, "tools[0].headers.host", CodeInvalidValue},
		{`{"type":"mcp","server_label":"a","server_url":"https://e.com","headers":{"x":1}}`, "tools[0].headers.x", CodeInvalidType},
		{`{"type":"mcp","server_label":"a","server_url":"https://e.com","authorization":"hunter2\n"}`, "tools[0].authorization", CodeInvalidValue},
		{`{"type":"mcp","server_label":"a","server_url":"https://e.com","authorization":"hunter2","headers":{"AUTHORIZATION":"hunter2"}}`, "tools[0].authorization", CodeInvalidValue},
		{`{"type":"mcp","server_label":"a","headers":{"x":"hunter2"}}`, "tools[0].headers", CodeInvalidValue},
		{`{"type":"mcp","server_label":"a","authorization":"hunter2"}`, "tools[0].authorization", CodeInvalidValue},
		{`{"type":"mcp","server_label":"a","allowed_tools":"all"}`, "tools[0].allowed_tools", CodeInvalidValue},
		{`{"type":"mcp","server_label":"a","allowed_tools":[1]}`, "tools[0].allowed_tools[0]", CodeInvalidType},
		{`{"type":"mcp","server_label":"a","allowed_tools":7}`, "tools[0].allowed_tools", CodeInvalidType},
		{`{"type":"mcp","server_label":"a","require_approval":"sometimes"}`, "tools[0].require_approval", CodeInvalidValue},
		{`{"type":"mcp","server_label":"a","require_approval":{"often":{}}}`, "tools[0].require_approval.often", CodeInvalidValue},
		{`{"type":"mcp","server_label":"a","require_approval":true}`, "tools[0].require_approval", CodeInvalidType},
		{`{"type":"code_interpreter","container":7}`, "tools[0].container", CodeInvalidType},
		{`{"type":"code_interpreter","container":{"type":"own"}}`, "tools[0].container.type", CodeInvalidValue},
	} {
		_, in := readServerTool(c.body)
		err := in.Err()
		if err == nil || err.Param != c.param || err.Code != c.code {
			t.Errorf("%.200s: %+v, want %s at %s", c.body, err, c.code, c.param)
		} else if strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%.200s: %v repeats a secret", c.body, err)
		}
	}
}

func TestApprovalNeeds(t *testing.T) {
	yes, no := true, false
	filters := Approval{Mode: "filter", Always: &Filter{Names: []string{"drop"}}, Never: &Filter{ReadOnly: &yes}}
	for _, c := range []struct {
		of                     Approval
		name                   string
		readOnly, absent, want bool
	}{
		{Approval{}, "x", false, true, true},
		{Approval{}, "x", true, false, false},
		{Approval{Mode: "never"}, "x", false, true, false},
		{Approval{Mode: "always"}, "x", true, false, true},
		{filters, "drop", true, false, true},
		{filters, "read", true, true, false},
		{filters, "write", false, true, true},
		{filters, "write", false, false, false},
		{Approval{Mode: "filter", Always: &Filter{}}, "x", true, false, false},
		{Approval{Mode: "filter", Never: &Filter{Names: []string{"x"}, ReadOnly: &no}}, "x", true, true, true},
	} {
		if got := c.of.Needs(c.name, c.readOnly, c.absent); got != c.want {
			t.Errorf("%+v of %s, read only %v, else %v: %v", c.of, c.name, c.readOnly, c.absent, got)
		}
	}
}

// FuzzServerTool: whatever a request says of a tool is read or refused, and what is read can be
// sent in headers.
func FuzzServerTool(f *testing.F) {
	f.Add([]byte(`{"type":"mcp","server_label":"a","server_url":"https://e.com","headers":{"x":"y"},"require_approval":{"never":{"tool_names":["a"]}}}`))
	f.Add([]byte(`{"type":"code_interpreter","container":{"type":"auto","file_ids":[]}}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		lim := limits.Defaults()
		var tool ServerTool
		_, err := ReadBody([]byte(`{"tools":[`+string(body)+`]}`), lim, func(in *Reader, key string) bool {
			in.Array(limits.Tools, "tools", func(int) { tool = ServerTool{}; tool.Read(in) })
			return key == "tools"
		})
		if err != nil {
			return
		}
		for name, value := range tool.Headers {
			if strings.ContainsAny(name+value, "\r\n\x00") {
				t.Errorf("header %q: %q", name, value)
			}
		}
		if tool.Type == "mcp" && tool.Label == "" {
			t.Errorf("no label: %s", body)
		}
	})
}

// TestTakeServed: tools of the server are taken out of a chat's, and those that are left keep
// their places.
func TestTakeServed(t *testing.T) {
	lim := limits.Defaults()
	decode := func(members string) *ChatRequest {
		r, err := DecodeChat([]byte(`{"messages":[{"role":"user","content":"x"}],`+members+`}`), lim)
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Validate(lim); err != nil {
			t.Fatal(err)
		}
		return r
	}
	r := decode(`"tools":[{"type":"web_search","filters":{"x":1}},{"type":"function","function":{"name":"f"}},{"type":"mcp","server_label":"a"},{"type":"file_search"}],"tool_choice":{"type":"mcp","server_label":"a","name":"t"}`)
	asked, err := r.TakeServed(lim)
	if err != nil || len(asked) != 2 || asked[0].Path != "tools[0]" || asked[1].Label != "a" || asked[1].Path != "tools[2]" {
		t.Fatalf("%+v, %v", asked, err)
	}
	if len(r.Tools) != 2 || r.ToolField(0, "name") != "tools[1].function.name" || r.ToolPlace(1) != "tools[3]" {
		t.Errorf("left %+v", r.Tools)
	}
	if !reflect.DeepEqual(r.Ignored, []string{"tools[0].filters.x"}) {
		t.Errorf("ignored %q", r.Ignored)
	}
	if want := (ToolChoice{Mode: "named", Served: []ServerChoice{{"mcp", "a", "t"}}}); !reflect.DeepEqual(r.ToolChoice, want) {
		t.Errorf("choice %+v", r.ToolChoice)
	}
	for members, want := range map[string]int{`"model":""`: -1, `"tools":null`: -1, `"tools":[]`: 0, `"web_search_options":{}`: 1, `"tools":[{"type":"code_interpreter"}],"tool_choice":"required"`: 1, `"web_search_options":{},"tool_choice":"required"`: 1,
		`"tools":[{"type":"web_search"},{"type":"function","function":{"name":"f"}}],"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"required","tools":[{"type":"web_search"}]}}`: 1} {
		if got, err := decode(members).TakeServed(lim); err != nil || (got == nil) != (want < 0) || len(got) != max(want, 0) {
			t.Errorf("%s: %+v, %v", members, got, err)
		}
	}
	if _, err := decode(`"tools":[{"type":"mcp"}]`).TakeServed(lim); err == nil || err.(*Error).Param != "tools[0].server_label" {
		t.Errorf("without a label: %v", err)
	}
}
