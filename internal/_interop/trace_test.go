package interop

import (
	"encoding/base64"
	"os"
	"testing"

	collectormetrics "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	collectortrace "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// decode reads a body as OpenTelemetry's messages have it. A member that they do not know is an
// error.
func decode(t *testing.T, file string, into proto.Message) {
	t.Helper()
	body, err := os.ReadFile("../trace/testdata/" + file)
	if err != nil {
		t.Fatal(err)
	}
	if err := protojson.Unmarshal(body, into); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
}

// identifier is an identifier as it was written: OTLP's JSON has hex where that of protocol buffers
// has base64, and hex is base64, too, of other bytes.
func identifier(raw []byte) string { return base64.StdEncoding.EncodeToString(raw) }

// TestTraces: what the exporter writes is what OpenTelemetry's own messages hold.
func TestTraces(t *testing.T) {
	var got collectortrace.ExportTraceServiceRequest
	decode(t, "traces.json", &got)
	if name := got.ResourceSpans[0].Resource.Attributes[0]; name.Key != "service.name" || name.Value.GetStringValue() != "ossian" {
		t.Errorf("%v", name)
	}
	spans := got.ResourceSpans[0].ScopeSpans[0].Spans
	if len(spans) != 2 {
		t.Fatalf("%d spans", len(spans))
	}
	child, root := spans[0], spans[1]
	const trace, remote, own = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331", "0102030405060708"
	if identifier(root.TraceId) != trace || identifier(root.ParentSpanId) != remote || identifier(root.SpanId) != own || root.TraceState != "vendor=x" || root.Flags != 1 ||
		root.Name != "chat m" || root.Kind != tracepb.Span_SPAN_KIND_SERVER || root.StartTimeUnixNano != 1_700_000_000e9 || root.EndTimeUnixNano != 1_700_000_000e9+4e6 || root.Status != nil {
		t.Errorf("%v", root)
	}
	if identifier(child.TraceId) != trace || identifier(child.ParentSpanId) != own || child.Kind != tracepb.Span_SPAN_KIND_INTERNAL || child.Status.GetCode() != tracepb.Status_STATUS_CODE_ERROR {
		t.Errorf("%v", child)
	}
	if len(root.Events) != 1 || root.Events[0].Name != "queued" || root.Events[0].TimeUnixNano != 1_700_000_000e9+1e6 {
		t.Errorf("%v", root.Events)
	}
	a := root.Attributes
	if len(a) != 5 || a[1].Value.GetIntValue() != 1<<40 || a[2].Value.GetDoubleValue() != .5 || len(a[3].Value.GetArrayValue().GetValues()) != 2 || a[3].Value.GetArrayValue().Values[1].GetStringValue() != `"` || !a[4].Value.GetBoolValue() {
		t.Errorf("%v", a)
	}
}

// TestMetrics: the same of histograms.
func TestMetrics(t *testing.T) {
	var got collectormetrics.ExportMetricsServiceRequest
	decode(t, "metrics.json", &got)
	all := got.ResourceMetrics[0].ScopeMetrics[0].Metrics
	if len(all) != 4 {
		t.Fatalf("%d metrics", len(all))
	}
	for _, m := range all {
		points := m.GetHistogram().GetDataPoints()
		if m.Unit == "" || m.GetHistogram().AggregationTemporality != 2 || len(points) != 2 {
			t.Fatalf("%v", m)
		}
		for i, p := range points {
			total := uint64(0)
			for _, n := range p.BucketCounts {
				total += n
			}
			if len(p.BucketCounts) != len(p.ExplicitBounds)+1 || total != p.Count || p.Count != uint64(2-i) || p.GetMin() > p.GetMax() {
				t.Errorf("%s: %v", m.Name, p)
			}
		}
	}
}
