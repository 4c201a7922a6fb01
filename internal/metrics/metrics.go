// Package metrics hides the Prometheus client: names, labels, buckets and the
// exposition. Where a meaning is the same as in vLLM the name is too
// (operations.md 2), so that dashboards, autoscalers and routers work unchanged.
// The hot path updates atomics; everything else is read when somebody scrapes.
package metrics

import (
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"ossian/internal/limits"
)

// Server holds the metrics of the process and its HTTP side. It is used by any
// number of goroutines.
type Server struct {
	registry *prometheus.Registry
	prefix   string
	hidden   bool
	models   map[string]*Model // by name; one goroutine at a time adds to them

	requests    *prometheus.CounterVec
	duration    *prometheus.HistogramVec
	refusals    *prometheus.CounterVec
	cut         *prometheus.CounterVec
	ready       prometheus.Gauge
	grammars    prometheus.Gauge
	connections prometheus.Gauge
	idleClosed  prometheus.Counter
	logDropped  prometheus.Counter
	bodies      prometheus.Gauge
	replies     prometheus.Gauge

	toolCalls   *prometheus.CounterVec
	toolSeconds *prometheus.HistogramVec
	toolCut     prometheus.Counter
}

// Config says what is emitted.
type Config struct {
	Version  string
	Revision string // the commit; "" = unknown
	Prefix   string // of the vLLM names; "" = vllm
	Hidden   bool   // also names that vLLM dropped and old dashboards use
}

// New returns the metrics of a process, with nothing counted.
func New(cfg Config) *Server {
	if cfg.Prefix == "" {
		cfg.Prefix = "vllm"
	}
	server := &Server{registry: prometheus.NewRegistry(), prefix: cfg.Prefix, hidden: cfg.Hidden, models: map[string]*Model{},
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "http_requests_total",
			Help: "HTTP requests, by route, method and class of status."}, []string{"handler", "method", "status"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "http_request_duration_seconds",
			Help: "Seconds from the request's header to the reply's last byte.", Buckets: []float64{.1, .5, 1}}, []string{"handler", "method", "status"}),
		refusals: prometheus.NewCounterVec(prometheus.CounterOpts{Name: limits.Refusals,
			Help: "Requests refused because of a limit."}, []string{"limit"}),
		cut: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "ossian_streams_cut_total",
			Help: "Streams ended because their reader was gone or too slow."}, []string{"reason"}),
		ready: prometheus.NewGauge(prometheus.GaugeOpts{Name: "ossian_ready",
			Help: "1 while requests are accepted, 0 while loading, draining or stalled."}),
		grammars: prometheus.NewGauge(prometheus.GaugeOpts{Name: limits.GrammarCache.Info().Metric,
			Help: "Bytes of compiled forms of output, when the latest was made."}),
		connections: prometheus.NewGauge(prometheus.GaugeOpts{Name: "ossian_connections",
			Help: "Open client connections."}),
		idleClosed: prometheus.NewCounter(prometheus.CounterOpts{Name: "ossian_idle_connections_closed_total",
			Help: "Connections that were closed, idle or with a slow body, to make room for others."}),
		logDropped: prometheus.NewCounter(prometheus.CounterOpts{Name: "ossian_log_lines_dropped_total",
			Help: "Lines of the log that were lost because nobody read them in time."}),
		bodies: prometheus.NewGauge(prometheus.GaugeOpts{Name: limits.BodiesInFlight.Info().Metric,
			Help: "Bytes of request bodies held."}),
		replies: prometheus.NewGauge(prometheus.GaugeOpts{Name: limits.Replies.Info().Metric,
			Help: "Bytes of replies held until they are sent."}),
		toolCalls: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "ossian_tool_calls_total",
			Help: "Calls of tools that the server runs, by tool and how they ended."}, []string{"tool", "outcome"}),
		toolSeconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: limits.ToolTime.Info().Metric,
			Help: "Seconds that a call of a tool took.", Buckets: []float64{.01, .05, .1, .5, 1, 5, 10, 30, 60, 120, 300, 600}}, []string{"tool"}),
		toolCut: prometheus.NewCounter(prometheus.CounterOpts{Name: limits.ToolResultTokens.Info().Metric,
			Help: "Results of tools of which the model got to read a part."}),
	}
	build := prometheus.NewGauge(prometheus.GaugeOpts{Name: "ossian_build_info", Help: "1; version and commit are labels.",
		ConstLabels: prometheus.Labels{"version": cfg.Version, "revision": cfg.Revision}})
	build.Set(1)
	// Every series is there from the start, so that rates are right at the first event.
	for _, id := range limits.All() {
		if id.Info().Metric == limits.Refusals {
			server.refusals.WithLabelValues(id.String())
		}
	}
	for _, r := range []Cut{CutGone, CutStalled, CutPending} {
		server.cut.WithLabelValues(string(r))
	}
	server.registry.MustRegister(server.requests, server.duration, server.refusals, server.cut, server.ready, server.grammars, server.connections, server.idleClosed, server.logDropped, server.bodies, server.replies, server.toolCalls, server.toolSeconds, server.toolCut, build,
		&seldom{Collector: collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), every: time.Second, clock: time.Now})
	return server
}

// A Store is how stored responses are.
type Store struct {
	Records, Damaged, Lost int   // kept; of these damaged; gone with a damaged file that a start replaced
	Bytes                  int64 // on disk, or in memory
}

// Stored adds the metrics of stored responses; full is asked at each scrape.
func (s *Server) Stored(full func() Store) {
	gauge := func(name, help string, value func(Store) float64) {
		s.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 { return value(full()) }))
	}
	gauge(limits.StoredRecords.Info().Metric, "Responses that are kept.", func(store Store) float64 { return float64(store.Records) })
	gauge(limits.StoredBytes.Info().Metric, "Bytes of responses that are kept.", func(store Store) float64 { return float64(store.Bytes) })
	gauge("ossian_store_damaged_responses", "Responses that are kept and found damaged.", func(store Store) float64 { return float64(store.Damaged) })
	gauge("ossian_store_lost_responses", "Responses that were lost with a damaged file, as far as they are known.", func(store Store) float64 { return float64(store.Lost) })
}

// KVEvents are the messages that tell which prefixes are cached.
type KVEvents struct {
	Published, Dropped uint64 // all; not sent to a subscriber that read too slowly, over all of these
	Subscribers        int
}

// PublishesKVEvents adds the metrics of such messages; now is asked at each scrape.
func (s *Server) PublishesKVEvents(now func() KVEvents) {
	s.registry.MustRegister(
		prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "ossian_kv_events_published_total", Help: "Messages about cached prefixes."}, func() float64 { return float64(now().Published) }),
		prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "ossian_kv_events_dropped_total", Help: "Messages about cached prefixes that subscribers were too slow for, over all subscribers."}, func() float64 { return float64(now().Dropped) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "ossian_kv_events_subscribers", Help: "Who listens to messages about cached prefixes."}, func() float64 { return float64(now().Subscribers) }))
}

// Traces adds the metrics of spans; now returns how many a collector took, and how many were dropped.
func (s *Server) Traces(now func() (exported, dropped uint64)) {
	s.registry.MustRegister(
		prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "ossian_trace_spans_exported_total", Help: "Spans that the collector took."}, func() float64 { n, _ := now(); return float64(n) }),
		prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "ossian_trace_spans_dropped_total", Help: "Spans that found no room in the queue, or that the collector did not take."}, func() float64 { _, n := now(); return float64(n) }))
}

// Handler answers GET /metrics in the text format, or OpenMetrics if asked for, uncompressed.
func (s *Server) Handler() http.Handler {
	return promhttp.HandlerFor(s.registry, promhttp.HandlerOpts{EnableOpenMetrics: true, DisableCompression: true, ErrorHandling: promhttp.HTTPErrorOnError})
}

// Request counts an HTTP request. handler is a route's pattern, never a path that
// a client made up: it is a label.
func (s *Server) Request(handler, method string, status int, took time.Duration) {
	switch method {
	case http.MethodGet, http.MethodPost, http.MethodHead, http.MethodDelete, http.MethodOptions:
	default:
		method = "other"
	}
	class := strconv.Itoa(min(max(status/100, 1), 5)) + "xx"
	s.requests.WithLabelValues(handler, method, class).Inc()
	s.duration.WithLabelValues(handler, method, class).Observe(took.Seconds())
}

// Refused counts a request that a limit refused; a name that is no limit's is dropped.
func (s *Server) Refused(limit string) {
	if id, ok := limits.Lookup(limit); ok {
		s.refusals.WithLabelValues(id.String()).Inc()
	}
}

// Cut says why a stream was ended from this side.
type Cut string

// The reasons.
const (
	CutGone    Cut = "disconnect"     // the client closed
	CutStalled Cut = "write_stall"    // limits.WriteStall
	CutPending Cut = "pending_output" // limits.PendingOutput
)

// StreamCut counts a stream that ended early.
func (s *Server) StreamCut(why Cut) { s.cut.WithLabelValues(string(why)).Inc() }

// Ready says whether requests are accepted.
func (s *Server) Ready(yes bool) {
	if yes {
		s.ready.Set(1)
	} else {
		s.ready.Set(0)
	}
}

// Grammars says how many bytes compiled forms of output hold.
func (s *Server) Grammars(bytes int64) { s.grammars.Set(float64(bytes)) }

// Connections adds n, which may be negative, to the open connections.
func (s *Server) Connections(n int) { s.connections.Add(float64(n)) }

// IdleClosed counts an idle connection that had to make room.
func (s *Server) IdleClosed() { s.idleClosed.Inc() }

// LogDropped counts a line of the log that was lost.
func (s *Server) LogDropped() { s.logDropped.Inc() }

// Bodies adds n, which may be negative, to the bytes of bodies held.
func (s *Server) Bodies(n int64) { s.bodies.Add(float64(n)) }

// Replies adds n, which may be negative, to the bytes of replies held.
func (s *Server) Replies(n int64) { s.replies.Add(float64(n)) }
