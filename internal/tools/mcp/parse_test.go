package mcp

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"unicode/utf8"

	"ossian/internal/tools"
)

func TestParseSpec(t *testing.T) {
	for _, c := range []struct{ text, shown, ways string }{
		{"localhost:8001", "localhost:8001", "http://localhost:8001/mcp http://localhost:8001/sse"},
		{"[::1]:80", "[::1]:80", "http://[::1]:80/mcp http://[::1]:80/sse"},
		{"localhost:8001/a/b?key=secret", "http://localhost:8001/a/b", "http://localhost:8001/a/b?key=secret http://localhost:8001/a/b?key=secret"},
		{"localhost:8001/", "http://localhost:8001/", "http://localhost:8001/ http://localhost:8001/"},
		{"https://me:secret@example.com/x?key=secret", "https://example.com/x", "https://me:secret@example.com/x?key=secret https://me:secret@example.com/x?key=secret"},
		{"http://example.com", "http://example.com/", "http://example.com/ http://example.com/"},
		{`stdio:/usr/bin/npx -y "a b" 'c"d' --key=secret ''`, "stdio:npx", ""},
	} {
		spec, err := ParseSpec(c.text)
		if err != nil {
			t.Errorf("%s: %v", c.text, err)
			continue
		}
		var ways []string
		for _, way := range spec.ways {
			if way.url != "" {
				ways = append(ways, way.url)
			}
		}
		if spec.String() != c.shown || strings.Join(ways, " ") != c.ways {
			t.Errorf("%s: %s, %q", c.text, spec, ways)
		}
	}
	spec, _ := ParseSpec(`stdio:npx -y  "a b" 'c"d' ''`)
	if got := strings.Join(spec.command, "|"); got != `npx|-y|a b|c"d|` {
		t.Errorf("words %s", got)
	}
}

func TestParseSpecRefuses(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"", `tool server "": it is empty: want host:port, host:port/path or a URL`},
		{"localhost", `tool server "localhost": a port is missing, as in localhost:8000`},
		{"localhost/mcp", `tool server "localhost/mcp": a port is missing, as in localhost:8000`},
		{":80", `tool server ":80": the host is missing`},
		{"a:b", `tool server "a:b": port "b": a number from 1 to 65535 is wanted`},
		{"a:0", `tool server "a:0": port "0": a number from 1 to 65535 is wanted`},
		{"a b:80", `tool server "a b:80": host "a b": no name or address of a host`},
		{"ftp://a/b", `tool server "ftp://a/b": scheme "ftp": http or https is wanted`},
		{"http:///x", `tool server "http:///x": the host is missing`},
		{"http://a:99999/x", `tool server "http://a:99999/x": port "99999": a number from 1 to 65535 is wanted`},
		{"http://a/x#y", `tool server "http://a/x#y": fragment "y": a server has none`},
		{"http://me:secret@a:x/", `tool server "http://a:x/": no URL: invalid port ":x" after host`},
		{"stdio:", `tool server "stdio:": the command is missing: stdio:command arguments`},
		{"stdio:x 'secret", `tool server "stdio:x": a ' in the command has no end`},
		{"a:80\n", `tool server "a:80\n": it has control characters`},
	} {
		if _, err := ParseSpec(c.text); err == nil || err.Error() != c.want {
			t.Errorf("%q: %v, want %s", c.text, err, c.want)
		}
	}
}

func TestOptionsAreRefused(t *testing.T) {
	for _, c := range []struct {
		opts Options
		want string
	}{
		{Options{Address: "x"}, `tool server "x": a port is missing, as in localhost:8000`},
		{Options{Address: "stdio:ls"}, "tool server stdio:ls: servers that are commands are off"},
		{Options{Address: "a:1", Header: http.Header{"X-Key": {"secret\nX-Other: 1"}}}, "tool server a:1: header X-Key: its value has line breaks or other control characters"},
		{Options{Address: "a:1", Header: http.Header{"X Key": {"1"}}}, `tool server a:1: header "X Key": no name of a header`},
		{Options{Address: "a:1", Authorization: "secret\r"}, "tool server a:1: authorization: it has line breaks or other control characters"},
	} {
		if _, err := New(c.opts); err == nil || err.Error() != c.want {
			t.Errorf("%v, want %s", err, c.want)
		}
	}
}

func FuzzParseSpec(f *testing.F) {
	for _, seed := range []string{"a:1", "a:1/b", "http://u:p@[::1]:80/x?y=z", `stdio:a "b c" 'd'`, "://", "stdio:\"", "https://a:b@c:d"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		spec, err := ParseSpec(text)
		if err != nil {
			return
		}
		if len(spec.ways) == 0 || spec.String() == "" {
			t.Errorf("%q: %+v", text, spec)
		}
		for _, way := range spec.ways {
			if _, err := http.NewRequest(http.MethodPost, way.url, nil); way.url != "" && err != nil {
				t.Errorf("%q: %v", text, err)
			}
		}
	})
}

func TestTrim(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{`{"type":"object","title":"fooArguments","properties":{}}`, `{"type":"object","properties":{}}`},
		{`{"properties":{"title":{"title":"Title","type":"string"},"default":{"default":null,"type":"string"}}}`,
			`{"properties":{"title":{"type":"string"},"default":{"type":"string"}}}`},
		{`{"anyOf":[{"type":"integer"},{"type":"string"}],"default":-1}`, `{"type":["integer","string"],"default":-1}`},
		{`{"anyOf":[{"type":"string","title":"S"},{"type":"null"}],"default":null}`, `{"type":["string"]}`},
		{`{"anyOf":[{"type":"array","items":{"type":"string"}},{"type":"null"}]}`, `{"anyOf":[{"type":"array","items":{"type":"string"}},{"type":"null"}]}`},
		{`{"anyOf":[{"$ref":"#/$defs/A"},{"type":"null"}]}`, `{"anyOf":[{"$ref":"#/$defs/A"},{"type":"null"}]}`},
		{`{"anyOf":[{"const":1},{"anyOf":[{"type":"null"}]}]}`, `{"anyOf":[{"const":1},{"anyOf":[{"type":"null"}]}]}`},
		{`{"anyOf":[{"type":"null"}]}`, `{"anyOf":[{"type":"null"}]}`},
		{`{"anyOf":[{"type":["string","null"]}]}`, `{"anyOf":[{"type":["string","null"]}]}`},
		{`{"anyOf":[{"type":"string"}],"type":"x"}`, `{"anyOf":[{"type":"string"}],"type":"x"}`},
		{`{"anyOf":7,"title":{"x":1},"properties":[1]}`, `{"anyOf":7,"title":{"x":1},"properties":[1]}`},
		{`{"default":1.50,"enum":[1e400,"<"]}`, `{"default":1.50,"enum":[1e400,"<"]}`},
		{`{"properties":{"a":{"properties":{"b":{"title":"B"}}}}}`, `{"properties":{"a":{"properties":{"b":{}}}}}`},
		{`true`, `true`},
		{`{`, `{`},
	} {
		if got := string(trim(json.RawMessage(c.in))); got != c.want {
			t.Errorf("%s became %s, want %s", c.in, got, c.want)
		}
	}
}

// FuzzTrim: a schema stays JSON, and what is trimmed once stays as it is.
func FuzzTrim(f *testing.F) {
	f.Add([]byte(`{"anyOf":[{"type":"integer"},{"type":"null"}],"properties":{"title":{"default":null}}}`))
	f.Add([]byte(`{"properties":{"a":{"properties":{"a":{"title":"x"}}}}}`))
	f.Add([]byte(`{"a":1,"a":2}`))
	f.Add([]byte(`{}0`))
	f.Fuzz(func(t *testing.T, schema []byte) {
		once := trim(schema)
		if json.Valid(schema) != json.Valid(once) {
			t.Errorf("%s became %s", schema, once)
		}
		if twice := trim(once); string(twice) != string(once) {
			t.Errorf("%s, then %s", once, twice)
		}
	})
}

func TestResults(t *testing.T) {
	for _, c := range []struct {
		raw, want string
		outcome   tools.Outcome
	}{
		{`{"content":[{"type":"text","text":"a"},{"type":"text","text":"b"}],"structuredContent":{"result":"a"}}`, "a\nb", tools.Done},
		{`{"content":[],"structuredContent":{ "x" : [1, 2] }}`, `{"x":[1,2]}`, tools.Done},
		{`{"structuredContent":null}`, "", tools.Done},
		{`{"content":[{"type":"image","data":"AAAA","mimeType":"image/png"}],"structuredContent":{"x":1}}`, "[image image/png, 3 bytes]\n{\"x\":1}", tools.Done},
		{`{"content":[{"type":"audio","data":"AA==","mimeType":"audio/wav"}]}`, "[audio audio/wav, 1 bytes]", tools.Done},
		{`{"content":[{"type":"resource_link","uri":"x:y","name":"n"},{"type":"resource_link","uri":"x:y"}]}`, "n (x:y)\nx:y", tools.Done},
		{`{"content":[{"type":"resource","resource":{"uri":"x:y","text":""}}],"structuredContent":1}`, "", tools.Done},
		{`{"content":[{"type":"resource","resource":{"uri":"x:y","mimeType":"application/pdf","blob":"AAA="}}]}`, "[resource application/pdf, 2 bytes] x:y", tools.Done},
		{`{"content":[{"type":"resource"},{"type":"hologram"}]}`, "[resource]\n[hologram]", tools.Done},
		{`{"content":[{"type":"text","text":"no"}],"isError":true}`, "no", tools.Failed},
		{`{"isError":true}`, "The tool failed and did not say why.", tools.Failed},
	} {
		answer, why := readAnswer([]byte(c.raw))
		if why != nil {
			t.Errorf("%s: %v", c.raw, why)
			continue
		}
		if got := answer.result(); got.Text != c.want || got.Outcome != c.outcome || (got.Failure != nil) != (c.outcome == tools.Failed) {
			t.Errorf("%s: %+v, want %q", c.raw, got, c.want)
		}
	}
	for _, raw := range []string{"", "null", "[]", "7", `{"content":7}`, `{"content":["x"]}`, `{"content":[{"type":"text","text":7}]}`} {
		if _, why := readAnswer([]byte(raw)); why == nil {
			t.Errorf("%s is a result", raw)
		}
	}
}

// FuzzResults: whatever comes is refused or has a text.
func FuzzResults(f *testing.F) {
	f.Add([]byte(`{"content":[{"type":"text","text":"a"},{"type":"resource","resource":{"blob":"="}}],"isError":true}`))
	f.Add([]byte(`{"structuredContent":[1],"inputRequests":{"a":{"method":"elicitation/create"}}}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		answer, why := readAnswer(raw)
		if why != nil {
			return
		}
		if result := answer.result(); !utf8.ValidString(result.Text) && utf8.Valid(raw) {
			t.Errorf("%q: no UTF-8", result.Text)
		}
		answer.declined()
	})
}

func TestArguments(t *testing.T) {
	for _, c := range []struct{ in, want, err string }{
		{"", "{}", ""}, {" \n", "{}", ""}, {`{"a": 1.0}`, `{"a": 1.0}`, ""},
		{"null", "", "they are null and should be an object"}, {`"x"`, "", "they are a JSON string and should be an object"},
		{`{"a":1} x`, "", "invalid character 'x' after top-level value"},
	} {
		_, got, err := argumentsOf(tools.Call{Tool: "t", Arguments: c.in})
		if string(got) != c.want || (err == nil) != (c.err == "") || err != nil && err.Error() != c.err {
			t.Errorf("%q: %s %v", c.in, got, err)
		}
	}
}

func TestEnvironmentHasNoSecrets(t *testing.T) {
	got := environment(func(name string) (string, bool) { return "x", name == "PATH" || name == "EXA_API_KEY" })
	if len(got) != 1 || got[0] != "PATH=x" {
		t.Errorf("%v", got)
	}
}
