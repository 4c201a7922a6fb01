package server

import (
	"errors"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"ossian/internal/api"
	"ossian/internal/engine"
	"ossian/internal/generate"
	"ossian/internal/trace"
	"ossian/internal/wire"
)

// An observed request is one that a trace tells of, in the words of OpenTelemetry's convention for
// generative models (operations.md 9): a span for the request, within it one for each call of a
// tool, and histograms, which all requests are in. What was said is in none of them.
//
// It ends when its reply is out and its job, if it had one, is over: a response in the background
// outlives the request.
type observed struct {
	tracer    *trace.Tracer
	operation string
	received  time.Time

	mu      sync.Mutex // guards what follows: a job in the background has a goroutine of its own
	span    *trace.Span
	waits   int // for the reply, for the job
	model   string
	end     *generate.End // nil = the job has not ended
	problem string        // error.type; "" = none
}

// observe begins the span of a request; nil where nobody traces.
func (s *Server) observe(r *http.Request, rt *route, received time.Time) *observed {
	if s.cfg.Tracer == nil || rt == nil || !rt.work || r.Method == http.MethodOptions {
		return nil
	}
	seen := &observed{tracer: s.cfg.Tracer, operation: "chat", received: received, waits: 1}
	if rt.path == "/v1/completions" {
		seen.operation = "text_completion"
	}
	seen.span = s.cfg.Tracer.Start(seen.operation, trace.Server, trace.ParseContext(r.Header.Values("Traceparent"), r.Header.Values("Tracestate")), received)
	seen.span.Set("gen_ai.operation.name", seen.operation)
	seen.span.Set("gen_ai.provider.name", providerName)
	for _, attribute := range serverAddress(r) {
		seen.span.Set(attribute.Key, attribute.Value)
	}
	return seen
}

const providerName = "ossian"

// modelOf is the reported name of a request's model; "" = it is not known which of several that is.
func (s *Server) modelOf(caller *api.Caller) string {
	if caller.Label.Model == "" && !s.host.Several() {
		return s.host.Names()[0]
	}
	return caller.Label.Model
}

// serverAddress is where the request was sent to, as the client knows it.
func serverAddress(r *http.Request) []trace.Attribute {
	host, port := r.Host, ""
	if h, p, err := net.SplitHostPort(r.Host); err == nil {
		host, port = h, p
	}
	address := []trace.Attribute{{Key: "server.address", Value: host}}
	if port == "" {
		if local, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr); ok {
			port = strconv.Itoa(local.Port)
		}
	}
	if n, err := strconv.ParseInt(port, 10, 32); err == nil {
		address = append(address, trace.Attribute{Key: "server.port", Value: n})
	}
	return address
}

// Started implements generate.Observer.
func (o *observed) Started(gen *generate.Generation) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.waits++
	o.model = gen.ModelName
	if o.span == nil {
		return
	}
	if gen.ModelName != "" {
		o.span.Rename(o.operation + " " + gen.ModelName)
		o.span.Set("gen_ai.request.model", gen.ModelName)
	}
	o.span.Set("gen_ai.response.id", gen.ReplyID)
	o.parameters(gen)
}

// parameters tells what a request asks for.
func (o *observed) parameters(gen *generate.Generation) {
	// What a client left to the server is not an attribute: conventions want what was asked for.
	for key, n := range map[string]*int64{"max_tokens": gen.MaxTokens, "top_k": gen.TopK, "seed": gen.Seed} {
		if n != nil {
			o.span.Set("gen_ai.request."+key, *n)
		}
	}
	for key, v := range map[string]*float64{"temperature": gen.Temperature, "top_p": gen.TopP, "frequency_penalty": gen.FrequencyPenalty, "presence_penalty": gen.PresencePenalty} {
		if v != nil {
			o.span.Set("gen_ai.request."+key, *v)
		}
	}
	if len(gen.Stop) > 0 {
		o.span.Set("gen_ai.request.stop_sequences", gen.Stop)
	}
	if n := gen.Choices(); n != 1 {
		o.span.Set("gen_ai.request.choice.count", n)
	}
	kind := "text"
	if gen.ResponseFormat != nil && strings.HasPrefix(gen.ResponseFormat.Type, "json") {
		kind = "json"
	}
	o.span.Set("gen_ai.output.type", kind)
}

// Called implements generate.Observer.
func (o *observed) Called(call *generate.Called) {
	o.mu.Lock()
	defer o.mu.Unlock()
	span := o.span.Child("execute_tool "+call.Name, trace.Internal, call.Began)
	span.Set("gen_ai.operation.name", "execute_tool")
	span.Set("gen_ai.tool.name", call.Name)
	span.Set("gen_ai.tool.call.id", call.ID)
	if call.Problem != "" {
		span.Set("error.type", call.Problem)
		span.Fail()
	}
	span.End(call.Ended)
}

// Ended implements generate.Observer.
func (o *observed) Ended(end *generate.End) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.end = end
	if o.problem == "" && end.Err != nil {
		o.problem = problemOf(end.Err)
	}
	o.done()
}

// replied tells how the request ended: with a status, and why if it failed.
func (o *observed) replied(status int, model string, err error) {
	if o == nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if err != nil {
		o.problem = problemOf(err)
	}
	if status == 0 && err == nil { // the handler panicked
		o.problem, status = wire.CodeInternal, http.StatusInternalServerError
	}
	if status > 0 {
		o.span.Set("http.response.status_code", int64(status))
	}
	if o.model == "" {
		o.model = model
	}
	if o.end != nil || o.waits > 1 {
		o.span.Set("gen_ai.response.model", model)
	}
	if status >= http.StatusInternalServerError {
		o.span.Fail()
	}
	o.done()
}

// problemOf names a kind of error in a word.
func problemOf(err error) string {
	if generate.Gone(err) {
		return "cancelled"
	}
	told := api.Public(err)
	switch {
	case errors.Is(err, engine.ErrStopped) || told == nil:
		return wire.CodeInternal
	case told.Code != "":
		return told.Code
	}
	return told.Type
}

// done ends the span once nobody is to say more; o.mu is held.
func (o *observed) done() {
	if o.waits--; o.waits > 0 {
		return
	}
	now := time.Now()
	if o.problem != "" {
		o.span.Set("error.type", o.problem)
	}
	// A request that never became a generation has no end, and nothing of tokens to tell.
	if end := o.end; end != nil {
		o.span.Set("gen_ai.response.finish_reasons", append([]string{}, end.Finishes...))
		o.span.Set("gen_ai.usage.input_tokens", int64(end.Input))
		o.span.Set("gen_ai.usage.output_tokens", int64(end.Output))
		o.span.Set("gen_ai.usage.cache_read.input_tokens", int64(end.Cached))
		o.span.Event("queued", end.Queued)
		o.span.Event("scheduled", end.Scheduled)
		o.span.Event("first token", end.First)
		for _, at := range end.Preempted {
			o.span.Event("preempted", at)
		}
	}
	o.span.End(now)
	o.record(now)
}

// record adds the request to the histograms.
func (o *observed) record(now time.Time) {
	common := []trace.Attribute{{Key: "gen_ai.operation.name", Value: o.operation}, {Key: "gen_ai.provider.name", Value: providerName}}
	if o.model != "" {
		common = append(common, trace.Attribute{Key: "gen_ai.request.model", Value: o.model})
	}
	// Clipped, so that the attributes of two records never share the memory behind the common ones.
	with := func(key, value string) []trace.Attribute {
		return append(slices.Clip(common), trace.Attribute{Key: key, Value: value})
	}
	if o.problem == "" {
		o.tracer.Record(trace.RequestDuration, now.Sub(o.received).Seconds(), common...)
	} else {
		o.tracer.Record(trace.RequestDuration, now.Sub(o.received).Seconds(), with("error.type", o.problem)...)
	}
	if o.end == nil || o.end.First.IsZero() {
		return
	}
	o.tracer.Record(trace.TimeToFirstToken, o.end.First.Sub(o.received).Seconds(), common...)
	if o.end.Output > 1 && o.end.Last.After(o.end.First) {
		o.tracer.Record(trace.TimePerOutputToken, o.end.Last.Sub(o.end.First).Seconds()/float64(o.end.Output-1), common...)
	}
	o.tracer.Record(trace.TokenUsage, float64(o.end.Input), with("gen_ai.token.type", "input")...)
	o.tracer.Record(trace.TokenUsage, float64(o.end.Output), with("gen_ai.token.type", "output")...)
}
