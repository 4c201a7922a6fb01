package wire

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"ossian/internal/limits"
)

// A field of another server that shapes the answer is taken over or refused by name, with
// ours for it. It is never left out: the cases are from reports about llama.cpp, SGLang,
// Ollama, Together, LM Studio and text-generation-webui.
func TestForeignForms(t *testing.T) {
	const schema = `{"type":"object","properties":{"total":{"type":"integer"}}}`
	form := func(r *ChatRequest) string {
		switch o := r.Structured; {
		case r.ResponseFormat != nil:
			if r.ResponseFormat.JSONSchema == nil {
				return r.ResponseFormat.Type
			}
			return fmt.Sprint(r.ResponseFormat.Place, " ", string(r.ResponseFormat.JSONSchema.Schema))
		case o == nil:
			return ""
		case o.JSONObject:
			return o.Place + " object"
		case o.JSON != nil:
			return o.Place + " " + string(o.JSON)
		case o.Regex != nil:
			return o.Place + " regex " + *o.Regex
		case o.Grammar != nil:
			return o.Place + " grammar " + *o.Grammar
		}
		return "?"
	}
	for _, tc := range []struct{ name, more, want, param string }{
		{"schema in json_object", `"response_format":{"type":"json_object","schema":` + schema + `}`, "response_format.schema " + schema, ""},
		{"schema before the type", `"response_format":{"schema":` + schema + `,"type":"json_object"}`, "response_format.schema " + schema, ""},
		{"schema in json_schema", `"response_format":{"type":"json_schema","schema":` + schema + `,"strict":true,"name":"x"}`, "response_format.schema " + schema, ""},
		{"envelope in json_object", `"response_format":{"type":"json_object","json_schema":{"schema":` + schema + `}}`, " " + schema, ""},
		{"in extra_body", `"extra_body":{"top_k":5,"guided_json":` + schema + `}`, "", "extra_body.guided_json"},
		{"in extra_body, ours", `"extra_body":{"structured_outputs":{"choice":["a"]}}`, "", "extra_body.structured_outputs"},
		{"in sampling_params", `"sampling_params":{"regex":"a"}`, "", "sampling_params.regex"},
		{"in options, neutral", `"options":{"num_ctx":5,"grammar":""}`, "", ""},
		{"json", `"json":` + schema, "", "json"},
		{"json_object alone", `"response_format":{"type":"json_object"}`, "json_object", ""},
		{"both schemas", `"response_format":{"type":"json_schema","schema":{},"json_schema":{"schema":{}}}`, "", "response_format.schema"},
		{"schema in text", `"response_format":{"type":"text","schema":{}}`, "", "response_format.schema"},
		{"envelope in text", `"response_format":{"type":"text","json_schema":{"schema":{}}}`, "", "response_format.json_schema"},
		{"schema that is none", `"response_format":{"type":"json_object","schema":123}`, "", "response_format.schema"},
		{"value", `"response_format":{"type":"json_object","value":{}}`, "", "response_format.value"},
		{"pattern", `"response_format":{"type":"regex","pattern":"a"}`, "", "response_format.pattern"},
		{"strict as a word", `"response_format":{"type":"json_schema","json_schema":{"name":"a","strict":"true","schema":{}}}`, "", "response_format.json_schema.strict"},
		{"json_schema", `"json_schema":` + schema, "json_schema " + schema, ""},
		{"json_schema beside json_object", `"response_format":{"type":"json_object"},"json_schema":{}`, "", "json_schema"},
		{"json_schema that is none", `"json_schema":[]`, "", "json_schema"},
		{"regex", `"regex":"a{5}"`, "regex regex a{5}", ""},
		{"ebnf", `"ebnf":"root ::= \"a\""`, `ebnf grammar root ::= "a"`, ""},
		{"grammar", `"grammar":"root ::= \"a\""`, `grammar grammar root ::= "a"`, ""},
		{"grammar by type", `"grammar":{"type":"regex","value":"a"}`, "", "grammar"},
		{"format json", `"format":"json"`, "format object", ""},
		{"format schema", `"format":` + schema, "format " + schema, ""},
		{"format xml", `"format":"xml"`, "", "format"},
		{"format of a number", `"format":7`, "", "format"},
		{"guided_json_object", `"guided_json_object":true`, "guided_json_object object", ""},
		{"two names", `"json_schema":{},"guided_json":{}`, "", "guided_json"},
		{"two names of one", `"guided_json":{},"structured_outputs":{"json":{}}`, "", "structured_outputs.json"},
		{"two forms", `"regex":"a","ebnf":"b"`, "", "ebnf"},
		{"unknown member", `"structured_outputs":{"ebnf":"x"}`, "", "structured_outputs.ebnf"},
		{"a name that nobody knows", `"guided_lark":"start: \"a\""`, "", "guided_lark"},
		{"another", `"jsonSchema":{"type":"object"}`, "", "jsonSchema"},
		{"a field that tunes", `"guided_decoding_backend":"xgrammar"`, "", ""},
		{"text of responses", `"text":{"format":{"type":"json_object"}}`, "", "text"},
		{"defaults of clients", `"grammar":"","regex":"","json_schema":null,"logits_processors":[],"grammar_triggers":[],"banned_tokens":[],"grammar_lazy":false,"use_beam_search":false,"best_of":1,"num_beams":1,"truncation_side":"left","text":{"verbosity":"low"}`, "", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := chat(withUser(tc.more), limits.Defaults())
			if tc.param == "" {
				if err != nil || form(got) != tc.want {
					t.Errorf("%v, got form %q, want %q", err, form(got), tc.want)
				}
				return
			}
			e, ok := errors.AsType[*Error](err)
			if !ok || (e.Param != tc.param && !strings.HasPrefix(e.Error(), tc.param)) {
				if tc.name == "two forms" && ok && e.Param == "ebnf" {
					return
				}
				t.Errorf("got %v, want an error of %s", err, tc.param)
			}
		})
	}
	for field := range refused {
		_, err := chat(withUser(fmt.Sprintf(`%q:{"format":1}`, field)), limits.Defaults())
		if e, ok := errors.AsType[*Error](err); !ok || e.Param != field || e.Code != CodeUnsupported || !strings.Contains(e.Message, " here") {
			t.Errorf("%s: %v", field, err)
		}
	}
}

// Ways of sampling that are not done are refused, not passed over.
func TestForeignSampling(t *testing.T) {
	for _, tc := range []struct{ more, param string }{
		{`"best_of":2`, "best_of"}, {`"use_beam_search":true`, "use_beam_search"}, {`"num_beams":4`, "num_beams"}, {`"truncation_side":"right"`, "truncation_side"},
		{`"functions":[{"name":"f"}],"tools":[{"type":"function","function":{"name":"g"}}]`, "tools"},
	} {
		_, err := chat(withUser(tc.more), limits.Defaults())
		if e, ok := errors.AsType[*Error](err); !ok || e.Param != tc.param {
			t.Errorf("%s: %v", tc.more, err)
		}
	}
	if _, err := completion(`{"prompt":"a","use_beam_search":true}`, limits.Defaults()); err == nil {
		t.Error("a completion with beam search is accepted")
	}
}

// -1 is no bound, a number in quotes an error that says what to write.
func TestLooseValues(t *testing.T) {
	r, err := chat(withUser(`"max_tokens":-1,"max_completion_tokens":-1,"n":16`), limits.Defaults())
	if err != nil || r.MaxOutput() != nil || r.Choices() != 16 {
		t.Errorf("%+v, %v", r, err)
	}
	c, err := completion(`{"prompt":"a","max_tokens":-1,"min_tokens":50}`, limits.Defaults())
	if err != nil || c.MaxOutput() < 1<<40 {
		t.Errorf("%+v, %v", c, err)
	}
	for more, want := range map[string]string{`"max_tokens":"200"`: "max_tokens: a number expected, found a string: write 200 without quotes",
		`"stream":"true"`: "stream: true or false expected, found a string: write true without quotes", `"temperature":"hot"`: "temperature: a number expected, found a string"} {
		if _, err := chat(withUser(more), limits.Defaults()); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", more, err, want)
		}
	}
}

// Running usage is a way to include usage: vLLM's own tests want none without it.
func TestContinuousUsage(t *testing.T) {
	for options, want := range map[string]bool{`"include_usage":false,"continuous_usage_stats":true`: false, `"continuous_usage_stats":true`: false,
		`"continuous_usage_stats":true,"include_usage":true`: true} {
		r, err := chat(withUser(`"stream":true,"stream_options":{`+options+`}`), limits.Defaults())
		if err != nil || r.StreamOptions.ContinuousUsage != want {
			t.Errorf("%s: %+v, %v", options, r, err)
		}
	}
}
