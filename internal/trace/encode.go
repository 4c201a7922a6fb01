package trace

import (
	"encoding/hex"
	"encoding/json"
	"math"
	"strconv"
	"time"
)

// The messages of OTLP that are sent, in its JSON encoding: identifiers in hex, numbers of 64 bits
// as text (opentelemetry-proto 1, "JSON Protobuf Encoding").
type (
	otlpTraces struct {
		ResourceSpans []resourceSpans `json:"resourceSpans"`
	}
	resourceSpans struct {
		Resource   otlpResource `json:"resource"`
		ScopeSpans []scopeSpans `json:"scopeSpans"`
	}
	otlpResource struct {
		Attributes []keyValue `json:"attributes"`
	}
	scopeSpans struct {
		Scope otlpScope  `json:"scope"`
		Spans []otlpSpan `json:"spans"`
	}
	otlpScope struct {
		Name string `json:"name"`
	}
	otlpSpan struct {
		TraceID    string      `json:"traceId"`
		SpanID     string      `json:"spanId"`
		TraceState string      `json:"traceState,omitempty"`
		Parent     string      `json:"parentSpanId,omitempty"`
		Flags      int         `json:"flags"`
		Name       string      `json:"name"`
		Kind       Kind        `json:"kind"`
		Begin      string      `json:"startTimeUnixNano"`
		End        string      `json:"endTimeUnixNano"`
		Attributes []keyValue  `json:"attributes,omitempty"`
		Events     []otlpEvent `json:"events,omitempty"`
		Status     *otlpStatus `json:"status,omitempty"`
	}
	otlpEvent struct {
		At   string `json:"timeUnixNano"`
		Name string `json:"name"`
	}
	otlpStatus struct {
		Code int `json:"code"`
	}
	keyValue struct {
		Key   string   `json:"key"`
		Value anyValue `json:"value"`
	}
	anyValue struct {
		String *string     `json:"stringValue,omitempty"`
		Int    *string     `json:"intValue,omitempty"`
		Double *float64    `json:"doubleValue,omitempty"`
		Bool   *bool       `json:"boolValue,omitempty"`
		Array  *arrayValue `json:"arrayValue,omitempty"`
	}
	arrayValue struct {
		Values []anyValue `json:"values"`
	}
)

const (
	scopeName   = "ossian"
	sampledFlag = 1
	failedCode  = 2 // STATUS_CODE_ERROR
)

// encodeSpans returns the body of a request to /v1/traces.
func encodeSpans(resource []Attribute, batch []*Span) []byte {
	spans := make([]otlpSpan, len(batch))
	for i, span := range batch {
		spans[i] = span.otlp()
	}
	return marshal(otlpTraces{[]resourceSpans{{otlpResource{keyValues(resource)}, []scopeSpans{{otlpScope{scopeName}, spans}}}}})
}

// marshal returns a message as JSON. What is in it always has one.
func marshal(message any) []byte {
	body, err := json.Marshal(message)
	if err != nil {
		panic("trace: " + err.Error())
	}
	return body
}

func (s *Span) otlp() otlpSpan {
	made := otlpSpan{TraceID: hex.EncodeToString(s.context.Trace[:]), SpanID: hex.EncodeToString(s.context.Span[:]), TraceState: s.context.State, Flags: sampledFlag,
		Name: s.name, Kind: s.kind, Begin: nanoseconds(s.begin), End: nanoseconds(s.end), Attributes: keyValues(s.attributes)}
	if s.parent != (SpanID{}) {
		made.Parent = hex.EncodeToString(s.parent[:])
	}
	for _, event := range s.events {
		made.Events = append(made.Events, otlpEvent{nanoseconds(event.at), event.name})
	}
	if s.failed {
		made.Status = &otlpStatus{failedCode}
	}
	return made
}

func nanoseconds(at time.Time) string { return strconv.FormatInt(at.UnixNano(), 10) }

func keyValues(attributes []Attribute) []keyValue {
	var all []keyValue
	for _, attribute := range attributes {
		all = append(all, keyValue{attribute.Key, valueOf(attribute.Value)})
	}
	return all
}

// valueOf returns a value of an Attribute as OTLP has it. A number that JSON has no form for is
// told as a text.
func valueOf(value any) anyValue {
	switch typed := value.(type) {
	case string:
		return anyValue{String: &typed}
	case int64:
		// OTLP's JSON writes integers of 64 bits as texts.
		text := strconv.FormatInt(typed, 10)
		return anyValue{Int: &text}
	case float64:
		if math.IsNaN(typed) || math.IsInf(typed, 0) {
			return valueOf(strconv.FormatFloat(typed, 'g', -1, 64))
		}
		return anyValue{Double: &typed}
	case bool:
		return anyValue{Bool: &typed}
	case []string:
		list := &arrayValue{Values: []anyValue{}}
		for i := range typed {
			list.Values = append(list.Values, valueOf(typed[i]))
		}
		return anyValue{Array: list}
	}
	panic("trace: an attribute of a type that has no place in OTLP")
}
