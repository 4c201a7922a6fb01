package declare

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"ossian/internal/jinja"
)

func parseJSON(t testing.TB, text string) jinja.Value {
	t.Helper()
	v, err := jinja.FromJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// TestTypeText compares with openai-harmony 0.0.8 on the schemas that _gen/golden.py drew.
func TestTypeText(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("../testdata/harmony/schemas.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(bytes.NewReader(data))
	lines.Buffer(nil, 1<<20)
	n := 0
	for ; lines.Scan(); n++ {
		var row [2]json.RawMessage
		var want string
		if err := json.Unmarshal(lines.Bytes(), &row); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(row[1], &want); err != nil {
			t.Fatal(err)
		}
		if got := typeText(parseJSON(t, string(row[0])), ""); got != want {
			t.Errorf("%s\ngot  %s\nwant %s", row[0], got, want)
		}
	}
	if n < 50 {
		t.Errorf("%d schemas, at least 50 expected", n)
	}
}

func TestNormalise(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, schema, want string }{
		{"reference", `{"type":"object","properties":{"p":{"$ref":"#/$defs/P"}},"$defs":{"P":{"type":"object","properties":{"x":{"type":"integer"}}}}}`,
			"{\np?: {\n    x?: number,\n    },\n}"},
		{"root reference is a cycle", `{"type":"object","properties":{"p":{"$ref":"#"}}}`, "{\np?: {\n    p?: any,\n    },\n}"},
		{"unknown reference", `{"type":"object","properties":{"p":{"$ref":"#/$defs/P"}}}`, "{\np?: any,\n}"},
		{"reference to elsewhere", `{"$ref":"https://example.com/s"}`, "any"},
		{"escaped reference", `{"$ref":"#/$defs/a~1b","$defs":{"a/b":{"type":"string"}}}`, "string"},
		{"generated title", `{"type":"object","properties":{"start_date":{"title":"Start Date","type":"string"},"end":{"title":"The end","type":"string"}}}`,
			"{\nstart_date?: string,\n// The end\n//\nend?: string,\n}"},
		{"default null", `{"type":"object","properties":{"a":{"type":"string","default":null}}}`, "{\na?: string,\n}"},
		{"const", `{"const":"x"}`, `"x"`},
		{"allOf of one", `{"type":"object","properties":{"a":{"allOf":[{"type":"string"}],"description":"D"}}}`, "{\n// D\na?: string,\n}"},
		{"optional", `{"type":"object","properties":{"a":{"anyOf":[{"type":"integer"},{"type":"null"}],"default":null}}}`, "{\na?: number | null,\n}"},
		{"anyOf of types", `{"anyOf":[{"type":"integer"},{"type":"string","description":"s"}]}`, "number | string"},
		{"other anyOf", `{"anyOf":[{"type":"string","enum":["a"]},{"type":"null"}]}`, "\n | \"a\"\n | null"},
		{"anyOf of what is required", `{"type":"object","properties":{"url":{"type":"string"},"id":{"type":"integer"}},"anyOf":[{"required":["url"]},{"required":["id"]}]}`, "{\nurl?: string,\nid?: number,\n}"},
		{"anyOf of variants beside properties", `{"type":"object","properties":{"k":{"type":"string"}},"anyOf":[{"type":"object","properties":{"p":{"type":"string"}}},{"type":"object","properties":{"u":{"type":"string"}}}]}`,
			"\n | {\n   p?: string,\n   }\n | {\n   u?: string,\n   }"},
		{"allOf of a base", `{"type":"object","allOf":[{"$ref":"#/$defs/B"}],"properties":{"b":{"type":"string"}},"required":["b"],"$defs":{"B":{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"]}}}`, "{\na: number,\nb: string,\n}"},
		{"enum of numbers", `{"type":"integer","enum":[1,2.5]}`, "1 | 2.5"},
		{"enum without type", `{"enum":["a","b"]}`, `"a" | "b"`},
		{"mixed enum", `{"enum":["a",1]}`, "any"},
		{"not a schema", `true`, "any"},
	}
	for _, tt := range tests {
		schema := parseJSON(t, tt.schema)
		if got := typeText(normalise(schema), ""); got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
		if got := JSON(schema); got != tt.schema {
			t.Errorf("%s: the schema became %s", tt.name, got)
		}
	}
}

// TestNormaliseKeeps: what the reference rules understand looks the same in both modes.
func TestNormaliseKeeps(t *testing.T) {
	t.Parallel()
	schema := parseJSON(t, `{"type":"object","description":"D","required":["b"],"properties":{"b":{"type":"array","items":{"type":"string","enum":["x","y"],"default":"x"}},
		"a":{"oneOf":[{"type":"string"},{"type":"number","nullable":true}],"default":1},"c":{"type":["string","null"],"title":"T","examples":["e"]}}}`)
	if got, want := typeText(normalise(schema), ""), typeText(schema, ""); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// A schema whose references double at every step must not take exponential time.
func TestNormaliseIsBounded(t *testing.T) {
	t.Parallel()
	defs := `"d0":{"type":"string"}`
	for i := 1; i <= 14; i++ {
		prev := string(rune('0'+(i-1)/10)) + string(rune('0'+(i-1)%10))
		if i == 1 {
			prev = "0"
		}
		name := string(rune('0'+i/10)) + string(rune('0'+i%10))
		defs += `,"d` + name + `":{"type":"object","properties":{"a":{"$ref":"#/$defs/d` + prev + `"},"b":{"$ref":"#/$defs/d` + prev + `"},"c":{"$ref":"#/$defs/d` + prev + `"}}}`
	}
	text := typeText(normalise(parseJSON(t, `{"$ref":"#/$defs/d14","$defs":{`+defs+`}}`)), "")
	if len(text) > 100*maxSchemas {
		t.Errorf("%d bytes", len(text))
	}
	uses, long := "", strings.Repeat("long ", 20_000)
	for i := range 4000 {
		uses += fmt.Sprintf(`,"k%d":{"$ref":"#/$defs/W"}`, i)
	}
	text = typeText(normalise(parseJSON(t, `{"type":"object","properties":{"a":{}`+uses+`},"$defs":{"W":{"type":"string","description":"`+long+`"}}}`)), "")
	if n := strings.Count(text, long); n < 2 || len(text) > 2*maxCopied {
		t.Errorf("%d bytes, %d copies", len(text), n)
	}
}

func FuzzSchema(f *testing.F) {
	f.Add(`{"type":"object","properties":{"a":{"anyOf":[{"$ref":"#/properties/a"},{"type":"null"}]}}}`)
	f.Add(`{"oneOf":[{"type":["integer",1]},{"const":1e300,"default":{"a":[null]}}]}`)
	f.Add(`{"maximum":5e555,"minimum":-5e555}`)
	f.Fuzz(func(t *testing.T, text string) {
		v, err := jinja.FromJSON([]byte(text))
		if err != nil {
			return
		}
		before := JSON(v)
		typeText(v, "")
		typeText(normalise(v), "")
		if after := JSON(v); after != before {
			t.Errorf("the schema changed to %s", after)
		}
		if _, err := jinja.FromJSON([]byte(before)); err != nil {
			t.Errorf("%s: %v", before, err)
		}
	})
}
