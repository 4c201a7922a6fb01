package grammar

import (
	"context"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"ossian/internal/token"
)

// benchmarks are sources as clients send them, with an output each; docs/reference/structured-output.md
// says what is measured with them.
var benchmarks = []struct {
	name string
	src  Source
	text string
}{
	{"flat", Source{Text: `{"type":"object","properties":{"city":{"type":"string"},"unit":{"enum":["celsius","fahrenheit"]}},"required":["city","unit"],"additionalProperties":false}`},
		`{"city": "San Francisco", "unit": "celsius"}`},
	{"person", Source{Text: `{"type":"object","properties":{"name":{"type":"string"},"age":{"type":"integer","minimum":0,"maximum":150},"email":{"type":"string","format":"email"},"tags":{"type":"array","items":{"type":"string"},"maxItems":10},"address":{"anyOf":[{"type":"object","properties":{"street":{"type":"string"},"city":{"type":"string"},"zip":{"type":"string","pattern":"^\\d{5}$"}},"required":["street","city","zip"],"additionalProperties":false},{"type":"null"}]}},"required":["name","age","email","tags","address"],"additionalProperties":false}`},
		`{"name": "Ada Lovelace", "age": 36, "email": "ada@example.com", "tags": ["mathematician", "poet's daughter"], "address": {"street": "12 St James's Square", "city": "London", "zip": "12345"}}`},
	{"steps", Source{Text: `{"type":"object","properties":{"steps":{"type":"array","items":{"$ref":"#/$defs/step"}},"answer":{"type":"string"}},"required":["steps","answer"],"additionalProperties":false,"$defs":{"step":{"type":"object","properties":{"explanation":{"type":"string"},"output":{"type":"string"}},"required":["explanation","output"],"additionalProperties":false}}}`},
		`{"steps": [{"explanation": "First we subtract 7 from both sides, so that only the term with x is left.", "output": "8x = -30"}, {"explanation": "Then we divide by 8.", "output": "x = -15/4"}], "answer": "x = -3.75"}`},
	{"tree", Source{Text: `{"type":"object","properties":{"type":{"enum":["div","button","header","section","field","form"]},"label":{"type":"string","maxLength":80},"children":{"type":"array","items":{"$ref":"#"}},"attributes":{"type":"array","items":{"type":"object","properties":{"name":{"type":"string"},"value":{"type":"string"}},"required":["name","value"],"additionalProperties":false}}},"required":["type","label","children","attributes"],"additionalProperties":false}`},
		`{"type":"form","label":"Sign up","children":[{"type":"field","label":"Your name","children":[],"attributes":[{"name":"id","value":"name"}]},{"type":"button","label":"Go","children":[],"attributes":[]}],"attributes":[]}`},
	{"any object", Source{Kind: Object}, "{\n  \"title\": \"Notes on the Analytical Engine\",\n  \"year\": 1843,\n  \"parts\": [{\"a\": null, \"b\": [true, 1.5e3]}, [], {}]\n}"},
	{"sql", Source{Kind: EBNF, Text: "start: \"SELECT\" columns \"FROM\" NAME [\"WHERE\" cond]\ncolumns: \"*\" | NAME (\",\" NAME)*\ncond: NAME OP value ((\"AND\"|\"OR\") cond)?\nvalue: SIGNED_NUMBER | ESCAPED_STRING\nOP: \"=\" | \"<\" | \">\" | \"!=\"\nNAME: /[a-z_]+/\n%import common.SIGNED_NUMBER\n%import common.ESCAPED_STRING\n%import common.WS\n%ignore WS"},
		`SELECT name, population FROM cities WHERE country = "France" AND population > 100000`},
	{"letters", Source{Text: `{"type":"object","properties":{"name":{"type":"string","pattern":"^\\p{L}[\\p{L} .'-]{0,99}$"},"about":{"type":"string","pattern":"^.{1,300}$"},"code":{"type":"string","pattern":"^[A-Z][\\w-]*$","minLength":2,"maxLength":60}},"required":["name","about","code"],"additionalProperties":false}`},
		`{"name": "Ada King-Noel née Byron", "about": "Wrote the first program, for a machine that was never built: it computes Bernoulli numbers.", "code": "ADA-1815_London"}`},
	{"regex", Source{Kind: Regex, Text: `[A-Z][a-z]+ [A-Z][a-z]+, born \d{4}-\d{2}-\d{2} in [\w ]{1,40}\.`}, "Ada Lovelace, born 1815-12-10 in London."},
}

func BenchmarkCompile(b *testing.B) {
	for _, c := range benchmarks {
		b.Run(c.name, func(b *testing.B) {
			v := harmony()
			b.ReportAllocs()
			for b.Loop() {
				compiled(b, c.src, v)
			}
		})
	}
}

// ownThread has times taken of this thread alone: of processor time, where the system tells it.
func ownThread(b *testing.B) {
	runtime.LockOSThread()
	b.Cleanup(runtime.UnlockOSThread)
}

// percentile of times, in µs; it sorts them.
func percentile(times []time.Duration, share float64) float64 {
	slices.Sort(times)
	return float64(times[int(float64(len(times)-1)*share)].Nanoseconds()) / 1e3
}

// BenchmarkStep measures one mask and one token through whole outputs, and reports
// percentiles of masks, first time and later.
func BenchmarkStep(b *testing.B) {
	t, err := token.Harmony()
	if err != nil {
		b.Fatal(err)
	}
	for _, c := range benchmarks {
		b.Run(c.name, func(b *testing.B) {
			ownThread(b)
			v := harmony()
			ids := t.Encode(nil, c.text)
			mask := make([]uint64, v.Words())
			read := func(g *Grammar) (times []time.Duration) {
				m := g.Matcher()
				for _, id := range ids {
					from := threadTime()
					if err := m.Mask(mask); err != nil {
						b.Fatal(err)
					}
					times = append(times, threadTime()-from)
					if mask[id/64]>>(id%64)&1 == 0 {
						b.Fatalf("token %q is masked", t.Text(id))
					}
					if err := m.Accept(id); err != nil {
						b.Fatal(err)
					}
				}
				if !m.Done() {
					b.Fatal("not done at the end")
				}
				return times
			}
			var cold []time.Duration
			for range 5 {
				cold = append(cold, read(compiled(b, c.src, v))...)
			}
			g := compiled(b, c.src, v)
			var warm []time.Duration
			for b.Loop() {
				warm = append(warm, read(g)...)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(len(warm)), "ns/token")
			b.ReportMetric(percentile(cold, 0.5), "µs-p50-first")
			b.ReportMetric(percentile(cold, 0.99), "µs-p99-first")
			b.ReportMetric(percentile(warm, 0.5), "µs-p50")
			b.ReportMetric(percentile(warm, 0.99), "µs-p99")
			b.ReportMetric(float64(g.Bytes())/1e6, "MB")
		})
	}
}

// BenchmarkGenerated is BenchmarkStep and BenchmarkCompile over 200 schemas of the
// generator that the tests use, with a random output each that no other has warmed up for.
func BenchmarkGenerated(b *testing.B) {
	ownThread(b)
	v := harmony()
	mask := make([]uint64, v.Words())
	var compile, first, masks []time.Duration
	for b.Loop() {
		for seed := range uint64(200) {
			g := newWide(seed)
			text, _ := g.document()
			from := threadTime()
			c, err := Compile(b.Context(), Source{Text: text}, v)
			took := threadTime() - from
			if err != nil {
				continue
			}
			m := c.Matcher()
			from = threadTime()
			err = m.Mask(mask)
			compile, first = append(compile, took), append(first, took+threadTime()-from)
			for step := 0; step < 100 && err == nil; step++ {
				ids := tokensOf(mask)
				if len(ids) == 0 {
					break
				}
				if err = m.Accept(ids[g.n(len(ids))]); err == nil {
					from = threadTime()
					err = m.Mask(mask)
					masks = append(masks, threadTime()-from)
				}
			}
			if err != nil {
				b.Fatalf("%s: %v", text, err)
			}
		}
	}
	for _, m := range []struct {
		times []time.Duration
		share float64
		unit  string
	}{{compile, 0.5, "µs-compile-p50"}, {compile, 0.99, "µs-compile-p99"}, {first, 0.5, "µs-first-mask-p50"}, {first, 0.99, "µs-first-mask-p99"},
		{masks, 0.5, "µs-p50"}, {masks, 0.9, "µs-p90"}, {masks, 0.99, "µs-p99"}, {masks, 0.999, "µs-p99.9"}} {
		b.ReportMetric(percentile(m.times, m.share), m.unit)
	}
}

func BenchmarkVocabulary(b *testing.B) {
	t, err := token.Harmony()
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		NewVocabulary(t)
	}
}

// BenchmarkMaskText is a mask inside a string, where most of the vocabulary is allowed.
func BenchmarkMaskText(b *testing.B) {
	for _, bound := range []string{"", `,"maxLength":40`} {
		b.Run(strings.Trim(bound, `,"`), func(b *testing.B) {
			g, err := Compile(context.Background(), Source{Text: `{"type":"string"` + bound + `}`}, harmony())
			if err != nil {
				b.Fatal(err)
			}
			m := g.Matcher()
			if err := m.accept(`"some text`); err != nil {
				b.Fatal(err)
			}
			mask := make([]uint64, harmony().Words())
			for b.Loop() {
				if err := m.Mask(mask); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
