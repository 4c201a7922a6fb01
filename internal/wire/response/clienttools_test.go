package response

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"ossian/internal/limits"
	"ossian/internal/wire"
)

// Tools that clients run are functions to the model, and stay what they are to the client.
func TestClientTools(t *testing.T) {
	q := responseOf(t, `{"input":"a","tools":[{"type":"local_shell"},{"type":"shell","environment":{"type":"local","skills":[]},"allowed_callers":["direct"]},
		{"type":"apply_patch","x":1},{"type":"shell","environment":{"type":"container_auto"}},{"type":"computer"}],"tool_choice":{"type":"apply_patch"}}`)
	if want := []string{"tools[1].environment.skills", "tools[1].allowed_callers", "tools[2].x", "tools[3].shell", "tools[4].computer"}; !reflect.DeepEqual(q.Ignored, want) {
		t.Errorf("ignored %q, want %q", q.Ignored, want)
	}
	if want := (wire.ToolChoice{Mode: "named", Name: "apply_patch"}); !reflect.DeepEqual(q.ToolChoice, want) || len(q.Tools) != 3 || len(q.tools) != 3 {
		t.Errorf("choice %+v of %d tools, %d shown", q.ToolChoice, len(q.Tools), len(q.tools))
	}
	for i, name := range []string{"local_shell", "shell", "apply_patch"} {
		tool := q.Tools[i]
		if tool.Name != name || tool.Type != name || !tool.Strict || tool.Description == "" || !json.Valid(tool.Parameters) || !json.Valid(tool.Raw) || q.ToolPath(i) == "" {
			t.Errorf("%+v", tool)
		}
		if it := q.Called(name); it.Type != name+"_call" || it.Name != name || it.IDPrefix() == "" {
			t.Errorf("%s is called as %+v", name, it)
		}
	}
	q = responseOf(t, `{"input":"a","tools":[{"type":"shell"},{"type":"local_shell"},{"type":"function","name":"f"}],"tool_choice":{"type":"allowed_tools","mode":"required","tools":[{"type":"shell"},{"type":"local_shell"},{"type":"function","name":"f"}]}}`)
	if want := []string{"shell", "local_shell", "f"}; !reflect.DeepEqual(q.ToolChoice.Allowed, want) {
		t.Errorf("allowed %q, want %q", q.ToolChoice.Allowed, want)
	}
	for _, tt := range []struct{ name, body, param, code, message string }{
		{"two of one name", `"tools":[{"type":"shell"},{"type":"function","name":"shell"}]`, "tools[1].name", wire.CodeInvalidValue, "twice"},
		{"choice of local_shell", `"tools":[{"type":"local_shell"}],"tool_choice":{"type":"local_shell"}`, "tool_choice.type", wire.CodeUnsupported, "allowed_tools"},
		{"choice of none", `"tools":[{"type":"local_shell"}],"tool_choice":{"type":"shell"}`, "tool_choice", wire.CodeInvalidValue, "no tool is named"},
		{"in a group", `"tools":[{"type":"namespace","name":"n","description":"","tools":[{"type":"shell","name":"x"}]}]`, "tools[0].tools[0].type", wire.CodeUnsupported, ""},
	} {
		q, err := Decode([]byte(`{"input":"a",`+tt.body+`}`), limits.Defaults(), true)
		if err == nil {
			err = q.Validate(limits.Defaults())
		}
		if checkError(t, err, tt.param, tt.code, tt.message); t.Failed() {
			t.Fatal(tt.name)
		}
	}
}

// Items of client tools are checked, and others are named.
func TestClientItems(t *testing.T) {
	for _, tt := range []struct{ name, item, param, code, message string }{
		{"no action", `{"type":"shell_call","call_id":"c"}`, "input[0].action", wire.CodeMissingParameter, ""},
		{"name for an action", `{"type":"shell_call","call_id":"c","name":"shell"}`, "input[0].action", wire.CodeMissingParameter, ""},
		{"arguments for an action", `{"type":"local_shell_call","call_id":"c","name":"shell","arguments":"{}"}`, "input[0].action", wire.CodeMissingParameter, ""},
		{"content for an output", `{"type":"shell_call_output","call_id":"c","content":[]}`, "input[0].output", wire.CodeMissingParameter, ""},
		{"no operation", `{"type":"apply_patch_call","call_id":"c"}`, "input[0].operation", wire.CodeMissingParameter, ""},
		{"no command", `{"type":"local_shell_call","call_id":"c","action":{"type":"exec","env":{}}}`, "input[0].action.command", wire.CodeMissingParameter, ""},
		{"command as text", `{"type":"local_shell_call","call_id":"c","action":{"type":"exec","command":"ls"}}`, "input[0].action.command", wire.CodeInvalidType, "an array"},
		{"other action", `{"type":"local_shell_call","call_id":"c","action":{"type":"open","command":["ls"]}}`, "input[0].action.type", wire.CodeInvalidValue, "exec expected"},
		{"env of numbers", `{"type":"local_shell_call","call_id":"c","action":{"command":["ls"],"env":{"A":1}}}`, "input[0].action.env.A", wire.CodeInvalidType, "a string"},
		{"time as text", `{"type":"shell_call","call_id":"c","action":{"commands":["ls"],"timeout_ms":"1"}}`, "input[0].action.timeout_ms", wire.CodeInvalidType, "a number"},
		{"operation without diff", `{"type":"apply_patch_call","call_id":"c","operation":{"type":"update_file","path":"a"}}`, "input[0].operation.diff", wire.CodeMissingParameter, ""},
		{"other operation", `{"type":"apply_patch_call","call_id":"c","operation":{"type":"move_file","path":"a"}}`, "input[0].operation.type", wire.CodeInvalidValue, `"move_file"`},
		{"no call", `{"type":"shell_call","action":{"commands":["ls"]}}`, "input[0].call_id", wire.CodeMissingParameter, ""},
		{"result of nothing", `{"type":"local_shell_call_output","output":"x"}`, "input[0].call_id", wire.CodeMissingParameter, ""},
		{"no output", `{"type":"shell_call_output","call_id":"c"}`, "input[0].output", wire.CodeMissingParameter, ""},
		{"output as text", `{"type":"shell_call_output","call_id":"c","output":"x"}`, "input[0].output", wire.CodeInvalidType, "an array"},
		{"no outcome", `{"type":"shell_call_output","call_id":"c","output":[{"stdout":"x","stderr":""}]}`, "input[0].output[0].outcome", wire.CodeMissingParameter, ""},
		{"other outcome", `{"type":"shell_call_output","call_id":"c","output":[{"outcome":{"type":"signal"}}]}`, "input[0].output[0].outcome.type", wire.CodeInvalidValue, `"signal"`},
		{"patch without status", `{"type":"apply_patch_call_output","call_id":"c","output":"x"}`, "input[0].status", wire.CodeMissingParameter, ""},
		{"patch in progress", `{"type":"apply_patch_call_output","call_id":"c","status":"in_progress"}`, "input[0].status", wire.CodeInvalidValue, "completed or failed"},
	} {
		_, err := Decode([]byte(`{"input":[`+tt.item+`]}`), limits.Defaults(), true)
		if checkError(t, err, tt.param, tt.code, tt.message); t.Failed() {
			t.Fatal(tt.name)
		}
	}
	q, err := Decode([]byte(`{"input":[{"type":"web_search_call","id":"ws_1"},{"type":"mcp_call"},{"type":"mcp_call"},{"type":"odd"},{"type":"shell_call","call_id":"c","action":{"commands":["ls"],"shell":"sh"},"environment":{"type":"local"}},
		{"type":"apply_patch_call_output","call_id":"c","status":"failed","output":"no\n"},{"type":"apply_patch_call_output","call_id":"c","status":"completed"},{"type":"local_shell_call_output","id":"lsh_9","output":"x"}]}`), limits.Defaults(), false)
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"input[0].web_search_call", "input[1].mcp_call", "input[3].odd", "input[4].action.shell"}; !reflect.DeepEqual(q.Ignored, want) || len(q.Input) != 4 {
		t.Errorf("%d items, ignored %q, want %q", len(q.Input), q.Ignored, want)
	}
	for i, want := range []string{"", "failed\nno\n", "completed", "x"} {
		if got := strings.Join(q.Input[i].Result(), "|"); i > 0 && got != want {
			t.Errorf("result %d is %q, want %q", i, got, want)
		}
	}
	odd := responseOf(t, `{"input":[{"type":"shell_call","call_id":"c","action":{"commands":["ls"]},"name":"x","namespace":"y","arguments":"z}","input":"w","output":"v"}]}`)
	if got, err := odd.Input[0].MarshalJSON(); err != nil || !json.Valid(got) || !strings.Contains(string(got), `"commands":["ls"]`) || len(odd.Ignored) != 5 {
		t.Errorf("members of other items: %s, %v, ignored %q", got, err, odd.Ignored)
	}
	if got := q.Input[3].CallID; got != "lsh_9" {
		t.Errorf("a result with the id of its call answers %q", got)
	}
}

// A call is given when it is known what is to be done; half of one as what it is.
func TestClientCallEvents(t *testing.T) {
	for _, tt := range []struct{ text, status, item string }{
		{`{"commands": ["ls"], "timeout_ms": 5}`, StatusCompleted, `{"id":"x","type":"shell_call","status":"completed","call_id":"c","action":{"commands":["ls"],"timeout_ms":5,"max_output_length":null},"environment":null}`},
		{`{"commands": ["l`, StatusIncomplete, `{"id":"x","type":"function_call","status":"incomplete","call_id":"c","name":"shell","arguments":"{\"commands\": [\"l"}`},
		{`{"commands": ["ls"]}`, StatusIncomplete, `{"id":"x","type":"function_call","status":"incomplete","call_id":"c","name":"shell","arguments":"{\"commands\": [\"ls\"]}"}`},
		{`{"command": "ls"}`, StatusCompleted, `{"id":"x","type":"function_call","status":"completed","call_id":"c","name":"shell","arguments":"{\"command\": \"ls\"}"}`},
		{`{"commands": ["ls"], "commands": []}`, StatusCompleted, `{"id":"x","type":"function_call","status":"completed","call_id":"c","name":"shell","arguments":"{\"commands\": [\"ls\"], \"commands\": []}"}`},
	} {
		r := New(Head{ID: "resp_1", Model: "m"}, responseOf(t, `{"input":"a","tools":[{"type":"shell"}]}`))
		dst := r.Begin(nil, Item{Type: "shell_call", ID: "x", CallID: "c", Name: "shell"})
		for _, c := range tt.text {
			dst = r.Add(dst, string(c), nil)
		}
		if len(dst) > 0 {
			t.Errorf("%s: an event before it is known: %s", tt.text, dst)
		}
		dst = r.End(dst, tt.status)
		if got := string(r.Output[0].append(nil)); got != tt.item || len(r.Output) != 1 {
			t.Errorf("%s:\ngot  %s\nwant %s", tt.text, got, tt.item)
		}
		if n := bytes.Count(dst, []byte("event: response.output_item.")); n != 2 || !bytes.Contains(dst, []byte(`,"item":`+tt.item+"}\n\n")) {
			t.Errorf("%s: %d events of items in %s", tt.text, n, dst)
		}
		object := r.Append(nil)
		again, err := Parse(object, limits.Defaults())
		if err != nil {
			t.Fatal(err)
		}
		if got := again.Append(nil); !bytes.Equal(got, object) {
			t.Errorf("read back\n%s\nwant\n%s", got, object)
		}
		if replay := again.Replay(nil); !bytes.Contains(replay, []byte(tt.item)) {
			t.Errorf("%s is not in %s", tt.item, replay)
		}
	}
}
