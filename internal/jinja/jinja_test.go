package jinja

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestSyntaxErrors(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, source, want string }{
		{"missing end tag", "a\n{% if x %}b", "2:12: expected '{% endif %}', found end of template"},
		{"missing operand", "é {{ 1 + }}", "1:10: expected an expression, found end of tag"},
		{"missing in", "{% for x of y %}", "1:10: expected 'in', found 'of'"},
		{"missing bracket", "{{ (1 }}", "1:7: unexpected '}' without an opening bracket"},
		{"wrong token", "{{ 1 2 }}", "1:6: expected end of tag, found '2'"},
		{"unknown statement", "{% foo %}", "1:4: unknown statement 'foo'"},
		{"stray end", "{% endif %}", "1:4: unknown statement 'endif'"},
		{"include", "{% include 'x' %}", "1:4: unknown statement 'include'"},
		{"open string", "{{ 'x }}", "1:4: string is not closed; expected '"},
		{"open comment", "x\n {# y", "2:2: comment is not closed; expected '#}'"},
		{"open tag", "{{ x", "1:1: tag is not closed; expected '}}'"},
		{"bad character", "{{ a ? b }}", "1:6: unexpected character '?'"},
		{"break outside loop", "{% break %}", "1:10: 'break' outside of a for loop"},
		{"filter name", "{{ x | }}", "1:8: expected a filter name, found end of tag"},
		{"assign to constant", "{% set none = 1 %}", "1:8: cannot assign to 'none'"},
	} {
		_, err := Compile(c.source)
		var syntax *SyntaxError
		if !errors.As(err, &syntax) || err.Error() != "chat template "+c.want {
			t.Errorf("%s: %v\nwant chat template %s", c.name, err, c.want)
		}
	}
}

func TestRenderErrors(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ source, want string }{
		{"a\n{{ x.y }}", `chat template line 2: "x" is undefined; cannot read its attribute "y"`},
		{"{{ {}.a.b }}", `chat template line 1: dict object has no attribute "a"; cannot read its attribute "b"`},
		{"{{ 'a' + 1 }}", "chat template line 1: operator +: cannot combine str and int"},
		{"{{ 1 | nope }}", `chat template line 1: there is no filter "nope"`},
		{"{{ 1 is nope }}", `chat template line 1: there is no test "nope"`},
		{"{{ [] | tojson(x=1) }}", `chat template line 1: filter "tojson" has no argument "x"`},
		{"{{ 9223372036854775807 + 1 }}", "chat template line 1: integer result does not fit in 64 bits"},
		{"{{ strftime_now('%Y') }}", "chat template line 1: strftime_now: this render was given no clock"},
	} {
		if _, err := compile(t, c.source).Render(nil, nil); err == nil || err.Error() != c.want {
			t.Errorf("%q: %v\nwant %s", c.source, err, c.want)
		}
	}
}

func TestRaisedError(t *testing.T) {
	t.Parallel()
	_, err := renderSource("\n{% if true %}{{ raise_exception('no ' ~ 1) }}{% endif %}{{ x.y }}", nil)
	var raised *RaisedError
	if !errors.As(err, &raised) || raised.Message != "no 1" || err.Error() != "chat template line 2 refuses the conversation: no 1" {
		t.Errorf("got %v", err)
	}
}

func TestStrftime(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 5, 4, 7, 9, 123456789, time.FixedZone("CET", 3600)) // a Thursday, day 64
	for format, want := range map[string]string{
		"%Y-%m-%d": "2026-03-05", "%d %b %Y": "05 Mar 2026", "%B %-d, %y": "March 5, 26", "%A %a": "Thursday Thu", "%H:%M:%S.%f": "04:07:09.123456",
		"%I %p %-I": "04 AM 4", "%j %-j": "064 64", "%e|%F|%T|%D|%R": " 5|2026-03-05|04:07:09|03/05/26|04:07", "%z %Z": "+0100 CET",
		"100%% %": "100% %", "%c": "Thu Mar  5 04:07:09 2026", "%-H%-M": "47",
	} {
		got, err := compile(t, "{{ strftime_now(f) }}").Render(dictOf("f", format), func() time.Time { return now })
		if err != nil || got != want {
			t.Errorf("%s: got %q, %v; want %q", format, got, err, want)
		}
	}
}

func dictOf(pairs ...any) *Dict {
	d := NewDict()
	for i := 0; i < len(pairs); i += 2 {
		d.Set(pairs[i].(string), pairs[i+1])
	}
	return d
}

func TestRenderRefusesForeignTypes(t *testing.T) {
	t.Parallel()
	tmpl := compile(t, "{{ x }}")
	for _, v := range []Value{1, []string{"a"}, map[string]any{}, struct{}{}, func() {}, dictOf("deep", NewList(int32(1)))} {
		if got, err := tmpl.Render(dictOf("x", v), nil); err == nil || !strings.Contains(err.Error(), "is not a template value") {
			t.Errorf("%T: got %q, %v", v, got, err)
		}
	}
	cyclic := NewDict()
	cyclic.Set("self", cyclic)
	if _, err := tmpl.Render(cyclic, nil); err == nil {
		t.Error("cyclic variables were accepted")
	}
}

// TestRenderIsRepeatable renders one template from many goroutines and checks
// that variables stay as they were.
func TestRenderIsRepeatable(t *testing.T) {
	t.Parallel()
	tmpl := compile(t, readFile(t, "testdata/templates/gpt-oss.jinja"))
	vars := conversations(t)["long"]
	before, err := ToJSON(vars)
	if err != nil {
		t.Fatal(err)
	}
	texts := make(chan string)
	for range 8 {
		go func() {
			text, err := tmpl.Render(vars, clock)
			texts <- fmt.Sprint(text, err)
		}()
	}
	want := <-texts
	for range 7 {
		if got := <-texts; got != want {
			t.Error("renders differ")
		}
	}
	if after, _ := ToJSON(vars); after != before {
		t.Errorf("variables changed:\n%s\n%s", before, after)
	}
}

func TestFromJSON(t *testing.T) {
	t.Parallel()
	deep := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	for _, c := range []struct{ in, want string }{
		{`{"b":1,"a":[true,false,null],"c":"x"}`, `{"b": 1, "a": [true, false, null], "c": "x"}`},
		{` [ 1 , -0, 1.0, 1e5, 1E-7, 18446744073709551616, -9223372036854775808, 1e999 ] `, `[1, 0, 1.0, 100000.0, 1e-07, 18446744073709551616, -9223372036854775808, Infinity]`},
		{`"\u00e9\ud83d\ude00\ud83dx\n\/\u2028"`, "\"é😀\uFFFDx\\n/\u2028\""},
		{deep(200), deep(200)}, {`""`, `""`}, {`{}`, `{}`},
	} {
		v, err := FromJSON([]byte(c.in))
		if err != nil {
			t.Errorf("%.60s: %v", c.in, err)
			continue
		}
		if got, err := ToJSON(v); err != nil || got != c.want {
			t.Errorf("%.60s: got %s, %v; want %s", c.in, got, err, c.want)
		}
	}
	for in, want := range map[string]string{
		``: "unexpected EOF", `{"a":1,"a":2}`: `offset 12: duplicate member "a"`, `[1,]`: "offset 3: invalid character ']'", `{"a" 1}`: "invalid character '1'", `{a:1}`: "invalid character 'a'",
		`01`: "expected the end", `1.`: "unexpected EOF", `-`: "unexpected EOF", `"a`: "unexpected EOF", "\"\n\"": "invalid character", `"\x"`: "invalid character 'x'", `nul`: "unexpected EOF", `NaN`: "invalid character 'N'",
		`1 2`: "expected the end", `[1 2]`: "invalid character '2'", deep(300): "deeper than 256", "\"\xff\"": "not valid UTF-8", strings.Repeat("9", 5000): "at most 4300", `{"a":1,}`: "invalid character '}'", `]`: "invalid character ']'",
	} {
		if v, err := FromJSON([]byte(in)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: got %v, %v; want error with %q", in, v, err, want)
		}
	}
}

func TestListAccess(t *testing.T) {
	t.Parallel()
	v, err := FromJSON([]byte(`[1, ["x"]]`))
	l, ok := v.(*List)
	if err != nil || !ok || l.Len() != 2 || l.At(0) != int64(1) || l.At(1).(*List).At(0) != "x" {
		t.Errorf("got %v, %v", v, err)
	}
}

func TestDictIndex(t *testing.T) {
	t.Parallel()
	d := NewDict()
	for i := range 100 {
		d.Set(fmt.Sprint("k", i%50), int64(i))
	}
	d.set(int64(1), "one")
	d.set(true, "true replaces 1")
	if d.Len() != 51 {
		t.Errorf("length %d, want 51", d.Len())
	}
	for i := range 50 {
		if v, ok := d.Get(fmt.Sprint("k", i)); !ok || v != int64(i+50) {
			t.Errorf("k%d = %v, %v", i, v, ok)
		}
	}
	if _, ok := d.Get("zz"); ok {
		t.Error("found a missing key")
	}
	if key, v := d.Entry(50); key != int64(1) || v != "true replaces 1" {
		t.Errorf("last entry %v: %v", key, v)
	}
}

func BenchmarkCompile(b *testing.B) {
	for _, name := range []string{"qwen3", "gpt-oss"} {
		source := readFile(b, "testdata/templates/"+name+".jinja")
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				compile(b, source)
			}
		})
	}
}

// BenchmarkRender renders 18 messages of history and two tools.
func BenchmarkRender(b *testing.B) {
	vars := conversations(b)["long"]
	for _, name := range []string{"qwen3", "gpt-oss", "llama3.2", "smollm2"} {
		tmpl := compile(b, readFile(b, "testdata/templates/"+name+".jinja"))
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := tmpl.Render(vars, clock); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
