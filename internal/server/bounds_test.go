package server

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"ossian/internal/wire"
	"ossian/internal/wire/response"
)

// A member of the wire schema: where it is, what it takes.
type member struct {
	path []string // [reasoning max_tokens]; "0" steps into the first element
	kind string
}

func (f member) String() string { return strings.Join(f.path, ".") }

// kinds are the JSON values that a type takes, by their first characters: an array's are
// those of it and of its first element. "0" is a whole number, "." one with a fraction.
var kinds = map[reflect.Type]string{
	reflect.TypeFor[string](): `"`, reflect.TypeFor[bool](): "tf", reflect.TypeFor[int64](): "0", reflect.TypeFor[float64](): "0.",
	reflect.TypeFor[[]string](): `" [ ["`, reflect.TypeFor[[]int32](): "[ [0", reflect.TypeFor[map[int32]float64](): "{", reflect.TypeFor[map[string]string](): "{",
	reflect.TypeFor[json.RawMessage](): "{", reflect.TypeFor[wire.Content](): `" [ [{`, reflect.TypeFor[[]wire.Message](): "[ [{", reflect.TypeFor[[]wire.Tool](): "[ [{",
	reflect.TypeFor[[]wire.ToolCall](): "[ [{", reflect.TypeFor[wire.ToolChoice](): `" {`, reflect.TypeFor[[]wire.Prompt](): `" [ [" [0 [[`,
}

// exceptions are fields that take more than their type says.
var exceptions = map[string]string{"structured_outputs.json": `" {`, "structured_outputs.structural_tag": "any"}

// unnamed are spellings that decode into fields of other names.
var unnamed = []member{{[]string{"functions"}, "[ [{"}, {[]string{"function_call"}, `" {`}, {[]string{"guided_json"}, `" {`}, {[]string{"guided_regex"}, `"`},
	{[]string{"guided_choice"}, `" [ ["`}, {[]string{"guided_grammar"}, `"`}, {[]string{"store"}, "tf"}, {[]string{"verbosity"}, `"`}, {[]string{"safety_identifier"}, `"`},
	{[]string{"prompt_cache_key"}, `"`}, {[]string{"messages", "0", "thinking"}, `"`}, {[]string{"messages", "0", "reasoning_content"}, `"`}, {[]string{"stream_options", "include_obfuscation"}, "tf"}}

// fields lists what a request type has, with its parts.
func fields(t *testing.T, of reflect.Type, at []string) (all []member) {
	for i := range of.NumField() {
		f := of.Field(i)
		if f.Anonymous {
			all = append(all, fields(t, f.Type, at)...)
			continue
		}
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "-" || name == "" {
			continue
		}
		typ, path := f.Type, append(slices.Clip(at), name)
		if typ.Kind() == reflect.Pointer {
			typ = typ.Elem()
		}
		kind, known := kinds[typ]
		if more := exceptions[strings.Join(path, ".")]; more != "" {
			kind = more
		}
		switch {
		case typ == reflect.TypeFor[[]wire.Message]():
			all = append(all, fields(t, typ.Elem(), append(slices.Clip(path), "0"))...)
		case !known && typ.Kind() == reflect.Struct:
			kind = "{"
			all = append(all, fields(t, typ, path)...)
		case !known:
			t.Fatalf("%s has type %v, of which this test does not know what it takes", path, typ)
		}
		all = append(all, member{path, kind})
	}
	return all
}

// bounds are the ranges of numbers. Every number of the schema has to be here.
var bounds = map[string][2]float64{
	"temperature": {0, 2}, "top_p": {0, 1}, "top_k": {-1, math.MaxInt32}, "min_p": {0, 1}, "frequency_penalty": {-2, 2}, "presence_penalty": {-2, 2},
	"repetition_penalty": {math.SmallestNonzeroFloat64, 1000}, "seed": {math.MinInt64, math.MaxInt64}, "n": {1, 128}, "best_of": {1, 128}, "min_tokens": {0, math.MaxInt64},
	"prompt_logprobs": {-1, 20}, "top_logprobs": {-1, 20}, "logprobs": {-1, 20}, "truncate_prompt_tokens": {-1, math.MaxInt32}, "priority": {math.MinInt32, math.MaxInt32},
	"max_tokens": {-1, math.MaxInt64}, "max_completion_tokens": {-1, math.MaxInt64}, "thinking_token_budget": {0, math.MaxInt32}, "reasoning.max_tokens": {0, math.MaxInt32},
}

// values are what every field is given, besides the ends of its range.
var values = []string{"-1", "0", "1", "2147483648", "-2147483649", "9223372036854775808", "1e308", "-1e308", "1e999", "0.5", "1e-400", strings.Repeat("9", 5000),
	"true", "false", "null", `""`, `"x"`, `"` + strings.Repeat("é", 100_000) + `"`, `"\u0000"`, "[]", "[1]", "[-1]", `["x"]`, `[""]`, "[null]", "[true]", "[{}]", "[[]]", "{}", `{"a":1}`, `{"1":1e308}`}

// wrong reports whether a field may not have a value, by what is known without the rest
// of the request.
func (f member) wrong(value string) bool {
	if value == "null" || f.kind == "any" { // null is not given
		return false
	}
	taken, first := strings.Fields(f.kind), value[:1]
	if first == "-" || (first >= "0" && first <= "9") {
		n, err := strconv.ParseFloat(value, 64)
		whole := n == math.Trunc(n) && n >= math.MinInt64 && n < math.MaxInt64
		if err != nil || (!slices.Contains(taken, "0.") && !(whole && slices.Contains(taken, "0"))) {
			return true
		}
		b, bounded := bounds[f.String()]
		return bounded && (n < b[0] || n > b[1])
	}
	if first == "[" && value != "[]" {
		first = value[:2]
		if value[1] == '-' {
			return true // no id is negative
		}
		if value[1] == '1' {
			first = "[0"
		}
	}
	if first == "t" || first == "f" {
		first = "tf"
	}
	return !slices.Contains(taken, first)
}

// request puts value into the field of a request that is fine without it.
func (f member) request(base, value string) string {
	var root map[string]any
	if err := json.Unmarshal([]byte(base), &root); err != nil {
		panic(err)
	}
	at := root
	for i, name := range f.path[:len(f.path)-1] {
		if name == "0" {
			continue
		}
		if f.path[i+1] == "0" {
			at = at[name].([]any)[0].(map[string]any)
			continue
		}
		next := map[string]any{}
		at[name] = next
		at = next
	}
	at[f.path[len(f.path)-1]] = json.RawMessage(value)
	body, err := json.Marshal(root)
	if err != nil {
		panic(err)
	}
	return string(body)
}

// TestSEC13Schema gives every field of every request, as the wire types list them, every
// kind of value: what cannot be right is refused at once, and nothing is the server's
// fault.
func TestSEC13Schema(t *testing.T) {
	g := start(t, setup{reply: hello})
	const message = `"messages":[{"role":"user","content":"Hi"}]`
	cases, refused, slowest, numbers := 0, 0, time.Duration(0), map[string]bool{}
	for _, api := range []struct {
		path, base string
		of         reflect.Type
		more       []member
	}{
		{"/v1/chat/completions", `{` + message + `,"max_tokens":2}`, reflect.TypeFor[wire.ChatRequest](), unnamed},
		{"/v1/completions", `{"prompt":"a","max_tokens":2}`, reflect.TypeFor[wire.CompletionRequest](), nil},
		{"/tokenize", `{"prompt":"a"}`, reflect.TypeFor[response.TokenizeRequest](), nil},
		{"/tokenize", `{` + message + `}`, reflect.TypeFor[wire.ChatRequest](), nil},
		{"/detokenize", `{"tokens":[1]}`, reflect.TypeFor[wire.DetokenizeRequest](), nil},
	} {
		for _, f := range append(fields(t, api.of, nil), api.more...) {
			name := f.String()
			tried := slices.Clone(values)
			if b, ok := bounds[name]; ok {
				numbers[name] = true
				for _, v := range []float64{b[0] - 1, b[0], b[1], b[1] + 1} {
					tried = append(tried, fmt.Sprintf("%.0f", v))
				}
			} else if strings.HasPrefix(f.kind, "0") {
				t.Errorf("%s is a number without a range in this test", name)
			}
			for _, value := range tried {
				body := f.request(api.base, value)
				wrong := f.wrong(value)
				began := time.Now()
				r := g.post(api.path, body)
				took := time.Since(began)
				cases++
				switch {
				case r.status >= 500 || r.status < 200 || (wrong && r.status < 400):
					t.Errorf("%s %s = %.60s: %d %.300s", api.path, name, value, r.status, r.body)
				case wrong:
					refused++
					for range 3 { // others run on this machine, too
						if took > 50*time.Millisecond {
							began = time.Now()
							g.post(api.path, body)
							took = min(took, time.Since(began))
						}
					}
					slowest = max(slowest, took)
				}
			}
		}
	}
	for name := range bounds {
		if !numbers[name] {
			t.Errorf("%s is no field of the schema", name)
		}
	}
	within(t, "the slowest refusal", slowest, 50*time.Millisecond, time.Minute)
	g.idle()
	t.Logf("SEC-13: %d cases, %d wrong whatever else the request says: all 4xx, the slowest after %v; 0 5xx", cases, refused, slowest)
}
