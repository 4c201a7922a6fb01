package response

import (
	"errors"
	"strings"
	"testing"

	"ossian/internal/limits"
	"ossian/internal/wire"
)

// A form of the answer is taken under the name that chats have for it, in each of its shapes,
// and what is wrong with it is told with the name that was sent.
func TestChatForm(t *testing.T) {
	const schema = `"schema":{"type":"object"}`
	for _, tt := range []struct{ name, form, kind, schemaName, param string }{
		{"text", `"response_format":{"type":"text"}`, "text", "", ""},
		{"object", `"response_format":{"type":"json_object"}`, "json_object", "", ""},
		{"object with a schema", `"response_format":{"type":"json_object",` + schema + `}`, "json_schema", "response", ""},
		{"flat", `"response_format":{"type":"json_schema",` + schema + `,"name":"n"}`, "json_schema", "n", ""},
		{"flat without a name", `"response_format":{"type":"json_schema",` + schema + `}`, "json_schema", "response", ""},
		{"nested", `"response_format":{"type":"json_schema","json_schema":{"name":"n",` + schema + `}}`, "json_schema", "n", ""},
		{"nested without a name", `"response_format":{"type":"json_schema","json_schema":{` + schema + `}}`, "json_schema", "response", ""},
		{"no type", `"response_format":{}`, "", "", "response_format.type"},
		{"unknown type", `"response_format":{"type":"xml"}`, "", "", "response_format.type"},
		{"nothing nested", `"response_format":{"type":"json_schema"}`, "", "", "response_format.json_schema"},
		{"no schema", `"response_format":{"type":"json_schema","json_schema":{"name":"n"}}`, "", "", "response_format.json_schema.schema"},
		{"schema of text", `"response_format":{"type":"text",` + schema + `}`, "", "", "response_format.schema"},
		{"null", `"response_format":null`, "none", "", ""},
		{"both", `"response_format":{"type":"text"},"text":{"format":{"type":"json_object"}}`, "", "", "text.format"},
		{"both, the other way round", `"text":{"format":{"type":"json_object"}},"response_format":{"type":"text"}`, "", "", "response_format"},
		{"our name", `"text":{"format":{"type":"json_schema",` + schema + `}}`, "", "", "text.format.name"},
	} {
		lim := limits.Defaults()
		r, err := Decode([]byte(`{"input":"Hi",`+tt.form+`}`), lim, true)
		if err == nil {
			err = r.Validate(lim)
		}
		told, _ := errors.AsType[*wire.Error](err)
		switch {
		case tt.param != "":
			if told == nil || told.Param != tt.param {
				t.Errorf("%s: %v, want one of %s", tt.name, err, tt.param)
			}
			continue
		case err != nil:
			t.Errorf("%s: %v", tt.name, err)
			continue
		case tt.kind == "none":
			if r.ResponseFormat != nil {
				t.Errorf("%s: %+v", tt.name, r.ResponseFormat)
			}
			continue
		}
		format := r.ResponseFormat
		if format.Type != tt.kind || (format.JSONSchema == nil) != (tt.schemaName == "") || (format.JSONSchema != nil && format.JSONSchema.Name != tt.schemaName) {
			t.Errorf("%s: %+v", tt.name, format)
		}
		if got := r.FormPlace("response_format.json_schema.schema"); got != "response_format.json_schema.schema" {
			t.Errorf("%s: place %s", tt.name, got)
		}
		if shown := string(r.appendTextOptions(nil)); !strings.Contains(shown, `"type":"`+tt.kind+`"`) || (tt.schemaName != "" && !strings.Contains(shown, `"name":"`+tt.schemaName+`"`)) {
			t.Errorf("%s: shown as %s", tt.name, shown)
		}
	}
}
