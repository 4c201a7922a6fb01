package trace

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "rewrite testdata")

const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

func TestParseContext(t *testing.T) {
	good := ParseContext([]string{parent}, []string{"a=1", "b=2"})
	if good.Trace[0] != 0x0a || good.Span[7] != 0x31 || !good.Sampled || good.State != "a=1,b=2" {
		t.Errorf("%+v", good)
	}
	for text, sampled := range map[string]bool{
		strings.TrimSuffix(parent, "1") + "0": false, strings.TrimSuffix(parent, "01") + "fe": false, strings.TrimSuffix(parent, "01") + "ff": true,
		"cc" + parent[2:] + "-later": true, "01" + parent[2:]: true,
	} {
		if got := ParseContext([]string{text}, nil); got.Trace != good.Trace || got.Span != good.Span || got.Sampled != sampled {
			t.Errorf("%s: %+v", text, got)
		}
	}
	for _, text := range []string{"", "x", parent[:54], parent + "-more", parent + "x", "ff" + parent[2:], strings.ToUpper(parent), strings.Replace(parent, "-", "_", 1),
		"00-" + strings.Repeat("0", 32) + parent[35:], parent[:36] + strings.Repeat("0", 16) + "-01", strings.Replace(parent, "a", "g", 1), "cc" + parent[2:] + "x", " " + parent} {
		if got := ParseContext([]string{text}, []string{"a=1"}); got != (Context{}) {
			t.Errorf("%q: %+v, want none", text, got)
		}
	}
	if got := ParseContext([]string{parent, parent}, nil); got != (Context{}) {
		t.Errorf("twice: %+v", got)
	}
	long := ParseContext([]string{parent}, []string{strings.Repeat("key=value,", 1000)})
	if n := len(long.State); n > mostState || n < mostState-20 || !strings.HasSuffix(long.State, "key=value") {
		t.Errorf("%d bytes of state: %q", n, long.State)
	}
	for _, state := range []string{strings.Repeat("x", 10_000), "a=\x01", "a=é"} {
		if got := ParseContext([]string{parent}, []string{state}); got.State != "" {
			t.Errorf("state %q", got.State)
		}
	}
}

func FuzzParseContext(f *testing.F) {
	f.Add(parent, "a=1,b=2")
	f.Add("cc"+parent[2:]+"-later", "")
	f.Fuzz(func(t *testing.T, traceparent, tracestate string) {
		got := ParseContext([]string{traceparent}, []string{tracestate})
		if len(got.State) > mostState || (got.Trace == TraceID{}) != (got.Span == SpanID{}) {
			t.Errorf("%+v", got)
		}
		if got.Trace != (TraceID{}) && !strings.Contains(traceparent, fmt.Sprintf("-%x-%x-", got.Trace, got.Span)) {
			t.Errorf("%q: %x %x", traceparent, got.Trace, got.Span)
		}
	})
}

func TestSamplers(t *testing.T) {
	sampled, not := ParseContext([]string{parent}, nil), ParseContext([]string{strings.TrimSuffix(parent, "1") + "0"}, nil)
	for name, want := range map[string][3]bool{ // of a root, of a sampled parent, of one that is not
		"": {true, true, false}, "always_on": {true, true, true}, "always_off": {false, false, false}, "parentbased_always_on": {true, true, false},
		"parentbased_always_off": {false, true, false}, "traceidratio 0": {false, false, false}, "parentbased_traceidratio 0": {false, true, false}, "traceidratio 1": {true, true, true}, "traceidratio": {true, true, true},
	} {
		kind, argument, _ := strings.Cut(name, " ")
		s, err := parseSampler(kind, argument)
		if got := [3]bool{s.sample(Context{}, TraceID{1}), s.sample(sampled, sampled.Trace), s.sample(not, not.Trace)}; err != nil || got != want {
			t.Errorf("%s: %v %v, want %v", name, got, err, want)
		}
	}
	s, err := parseSampler("traceidratio", "0.25")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for range 10_000 {
		var id TraceID
		fill(id[:])
		if s.sample(Context{}, id) {
			n++
		}
	}
	if n < 2200 || n > 2800 {
		t.Errorf("a quarter of 10,000 is %d", n)
	}
}

func env(pairs ...string) func(string) (string, bool) {
	return func(name string) (string, bool) {
		for i := 0; i < len(pairs); i += 2 {
			if pairs[i] == name {
				return pairs[i+1], true
			}
		}
		return "", false
	}
}

const endpointVar = "OTEL_EXPORTER_OTLP_ENDPOINT"

func TestFromEnv(t *testing.T) {
	cfg, err := FromEnv("1.2", env(endpointVar, "http://c:4318/", "OTEL_SERVICE_NAME", "mine", "OTEL_RESOURCE_ATTRIBUTES", "k8s.pod.name=p%2C1, service.name=other", "OTEL_EXPORTER_OTLP_HEADERS", "api-key=s%20t",
		"OTEL_EXPORTER_OTLP_PROTOCOL", "grpc", "OTEL_METRIC_EXPORT_INTERVAL", "500"))
	if err != nil || !cfg.On() || cfg.Endpoint != "http://c:4318" || cfg.Headers["api-key"] != "s t" || len(cfg.Notes) != 1 || cfg.MetricsEvery != 500*time.Millisecond ||
		fmt.Sprint(cfg.Resource) != "[{k8s.pod.name p,1} {service.name mine} {service.version 1.2}]" {
		t.Errorf("%+v, %v", cfg, err)
	}
	for _, off := range [][]string{{}, {"OTEL_SERVICE_NAME", "x"}, {endpointVar, ""}, {endpointVar, "http://c", "OTEL_SDK_DISABLED", "true"}} {
		if cfg, err := FromEnv("", env(off...)); err != nil || cfg.On() {
			t.Errorf("%v: %+v, %v", off, cfg, err)
		}
	}
	for _, bad := range [][]string{{endpointVar, "c:4318"}, {endpointVar, "grpc://c"}, {"OTEL_TRACES_SAMPLER", "xray"}, {"OTEL_TRACES_SAMPLER_ARG", "2", "OTEL_TRACES_SAMPLER", "traceidratio"},
		{"OTEL_EXPORTER_OTLP_HEADERS", "secret"}, {"OTEL_RESOURCE_ATTRIBUTES", "a=%zz"}, {"OTEL_METRIC_EXPORT_INTERVAL", "1s"}} {
		if _, err := FromEnv("", env(append(bad, endpointVar, "http://c")...)); err == nil || !strings.Contains(err.Error(), bad[0]) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%v: %v", bad, err)
		}
	}
}

// golden are a span of each kind, and all histograms.
func golden(t *testing.T) (spans, metrics []byte) {
	at := func(ms int) time.Time { return time.Unix(1_700_000_000, int64(ms)*1e6) }
	tracer := &Tracer{queue: make(chan *Span, 10), meter: newMeter(at(0))}
	root := tracer.Start("chat", Server, ParseContext([]string{parent}, []string{"vendor=x"}), at(0))
	root.context.Span = SpanID{1, 2, 3, 4, 5, 6, 7, 8}
	root.Rename("chat m")
	root.Set("gen_ai.operation.name", "chat")
	root.Set("gen_ai.request.max_tokens", int64(1<<40))
	root.Set("gen_ai.request.temperature", .5)
	root.Set("gen_ai.request.stop_sequences", []string{"a", `"`})
	root.Set("stream", true)
	root.Event("queued", at(1))
	root.Event("never", time.Time{})
	child := root.Child("execute_tool search", Internal, at(2))
	child.context.Span = SpanID{9, 9, 9, 9, 9, 9, 9, 9}
	child.Set("error.type", "timeout")
	child.Fail()
	child.End(at(3))
	root.End(at(4))
	resource := []Attribute{{"service.name", "ossian"}, {"service.version", "test"}}
	spans = encodeSpans(resource, []*Span{<-tracer.queue, <-tracer.queue})
	for _, h := range []Histogram{RequestDuration, TimeToFirstToken, TimePerOutputToken, TokenUsage} {
		tracer.Record(h, .01, Attribute{"gen_ai.operation.name", "chat"})
		tracer.Record(h, 1e9, Attribute{"gen_ai.operation.name", "chat"})
		tracer.Record(h, 2, Attribute{"gen_ai.operation.name", "embeddings"})
	}
	return spans, tracer.meter.encode(resource, at(9))
}

// The bytes that a collector gets are these. A decoder that others have written reads them, too:
// internal/_interop.
func TestGolden(t *testing.T) {
	spans, metrics := golden(t)
	for name, got := range map[string][]byte{"testdata/traces.json": spans, "testdata/metrics.json": metrics} {
		if *update {
			if err := os.WriteFile(name, got, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if want, err := os.ReadFile(name); err != nil || string(want) != string(got) {
			t.Errorf("%s: %v\ngot  %s\nwant %s", name, err, got, want)
		}
	}
}

// Spans that are not sampled, and values that are too many, are nowhere.
func TestBounds(t *testing.T) {
	off := &Tracer{cfg: Config{Sampler: Sampler{none: true}}}
	span := off.Start("x", Server, Context{}, time.Now())
	span.Set("a", "b")
	span.Event("e", time.Now())
	span.Rename("y")
	span.Fail()
	span.Child("c", Internal, time.Now()).End(time.Now())
	span.End(time.Now())
	if span != nil || span.Context() != (Context{}) {
		t.Errorf("%+v", span)
	}
	on := &Tracer{queue: make(chan *Span, 1), meter: newMeter(time.Now())}
	span = on.Start("x", Server, Context{}, time.Now())
	for i := range 1000 {
		span.Set("a", "b")
		span.Event("e", time.Now())
		on.Record(TokenUsage, 1, Attribute{"model", fmt.Sprint(i)})
	}
	if len(span.attributes) != mostAttributes || len(span.events) != mostEvents || len(on.meter.all[TokenUsage.name].series) != mostSeries {
		t.Errorf("%d attributes, %d events", len(span.attributes), len(span.events))
	}
}

// BenchmarkSpan is what a request pays.
func BenchmarkSpan(b *testing.B) {
	traces := &Tracer{queue: make(chan *Span, 1), meter: newMeter(time.Now())}
	from := ParseContext([]string{parent}, nil)
	for b.Loop() {
		span := traces.Start("chat", Server, from, time.Now())
		for range 16 {
			span.Set("gen_ai.request.model", "m")
		}
		span.Event("queued", time.Now())
		span.End(time.Now())
		traces.Record(RequestDuration, 1, Attribute{"gen_ai.operation.name", "chat"})
	}
}
