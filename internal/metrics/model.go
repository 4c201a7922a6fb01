package metrics

import (
	"maps"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Model holds the metrics of one served model. Its methods take no locks and
// allocate nothing; any number of goroutines may call them.
type Model struct {
	finished   map[Finish]prometheus.Counter
	rejections map[Rejection]prometheus.Counter
	salvaged   *prometheus.CounterVec
	reasoning  prometheus.Counter
	labels     prometheus.Labels

	ttft, itl, tpot                             []prometheus.Histogram // more than one with a hidden twin
	e2e, queue, inference, prefill, decode      prometheus.Histogram
	prompt, generation, largest, asked, n, comp prometheus.Histogram
	iteration, step                             prometheus.Histogram
}

// ModelConfig says what a model's metrics need to know.
type ModelConfig struct {
	Name          string // label model_name
	MaxLen        int    // tokens of context: where the buckets of token counts end
	BlockSize     int    // tokens per KV block
	Blocks        int    // KV blocks of the first group
	ISA           string // instruction set that computes
	Threads       int    // that compute
	CacheDType    string // bf16, f32, fp8
	PrefixCaching bool
	Memory        float64         // gpu_memory_utilization as configured; 0 = not given
	Snapshot      func() Snapshot // called at each scrape, from any goroutine; must not wait for the loop
}

// Snapshot is the state of an engine. Counters never fall.
type Snapshot struct {
	Running, Waiting int   // sequences in the batch, in the queue
	WaitingTokens    int64 // prompt tokens in the queue
	Groups           []Group

	Accepted                           uint64 // requests taken by Submit; = finished + running + waiting
	Prompt, Generation                 uint64 // tokens
	Begun                              uint64 // prompt tokens of requests, and probes, that have begun to run
	PrefixQueries, PrefixHits          uint64 // of these, looked up; of these, found
	Recomputed                         uint64 // tokens computed again after preemption
	Preemptions, Steps, Stalls, Starts uint64 // Starts: of the loop, 1 + restarts
}

// Group is the state of one group of KV blocks: free + cached + held = all.
type Group struct {
	Free, Cached, Held int
}

// Finish is how a request ended.
type Finish string

// The ways, as vLLM labels them.
const (
	FinishStop   Finish = "stop"
	FinishLength Finish = "length"
	FinishAbort  Finish = "abort"
	FinishError  Finish = "error"
)

// Rejection is why a request was not accepted.
type Rejection string

// The reasons.
const (
	RejectQueue    Rejection = "queue_full"
	RejectTokens   Rejection = "queue_tokens"
	RejectTooLong  Rejection = "too_long"
	RejectDraining Rejection = "draining"
	RejectTimeout  Rejection = "queue_timeout"
)

// Request is what is known about a request at its end. A time that is zero did not
// come; the intervals that need it are not observed. operations.md 2 defines them.
type Request struct {
	Finish                        Finish
	Received                      time.Time // before tokenization
	Queued, Scheduled             time.Time // Scheduled: the last time before the first token
	First, Last                   time.Time // tokens
	Prompt, Cached                int       // tokens
	Generated, Largest, Reasoning int       // tokens of all choices, of the longest, of reasoning
	MaxTokens                     int       // asked for; 0 = not given
	N                             int       // choices
}

var (
	ttftBuckets    = []float64{.001, .005, .01, .02, .04, .06, .08, .1, .25, .5, .75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 640, 2560}
	itlBuckets     = []float64{.01, .025, .05, .075, .1, .15, .2, .3, .4, .5, .75, 1, 2.5, 5, 7.5, 10, 20, 40, 80}
	requestBuckets = []float64{.3, .5, .8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680}
	stepBuckets    = []float64{.0005, .001, .002, .005, .01, .02, .05, .1, .2, .5, 1, 2, 5, 10, 30}
)

// oneTwoFive returns 1, 2, 5, 10, 20, 50 … up to most.
func oneTwoFive(most int) []float64 {
	out := []float64{1}
	for scale := 1; ; scale *= 10 {
		for _, m := range [...]int{2, 5, 10} {
			if m*scale > most {
				return out
			}
			out = append(out, float64(m*scale))
		}
	}
}

func powersOfTwo(from, to int) []float64 {
	out := []float64{1}
	for n := from; n <= to; n *= 2 {
		out = append(out, float64(n))
	}
	return out
}

// Model adds a model. Its name must not have been added before.
func (s *Server) Model(c ModelConfig) *Model {
	b := builder{s, prometheus.Labels{"model_name": c.Name, "engine": "0"}}
	tokens := oneTwoFive(c.MaxLen)
	m := &Model{labels: b.labels,
		ttft:       []prometheus.Histogram{b.histogram("time_to_first_token_seconds", "Seconds from receipt to the first token.", ttftBuckets)},
		itl:        []prometheus.Histogram{b.histogram("inter_token_latency_seconds", "Seconds between successive tokens of a request.", itlBuckets)},
		tpot:       []prometheus.Histogram{b.histogram("request_time_per_output_token_seconds", "Decode seconds per token after the first.", itlBuckets)},
		e2e:        b.histogram("e2e_request_latency_seconds", "Seconds from receipt to the last token.", requestBuckets),
		queue:      b.histogram("request_queue_time_seconds", "Seconds in the queue.", requestBuckets),
		inference:  b.histogram("request_inference_time_seconds", "Seconds from scheduling to the last token.", requestBuckets),
		prefill:    b.histogram("request_prefill_time_seconds", "Seconds from scheduling to the first token.", requestBuckets),
		decode:     b.histogram("request_decode_time_seconds", "Seconds from the first to the last token.", requestBuckets),
		prompt:     b.histogram("request_prompt_tokens", "Prompt tokens of a request.", tokens),
		generation: b.histogram("request_generation_tokens", "Generated tokens of a request.", tokens),
		largest:    b.histogram("request_max_num_generation_tokens", "Generated tokens of a request's longest choice.", tokens),
		asked:      b.histogram("request_params_max_tokens", "max_tokens of a request.", tokens),
		n:          b.histogram("request_params_n", "n of a request.", []float64{1, 2, 5, 10, 20}),
		comp:       b.histogram("request_prefill_kv_computed_tokens", "Prompt tokens of a request that were not cached.", tokens),
		iteration:  b.histogram("iteration_tokens_total", "New tokens of a step.", powersOfTwo(8, 16384)),
		step:       b.own("ossian_step_seconds", "Seconds of a step, from launch to collection.", stepBuckets),
	}
	if s.hidden {
		m.tpot = append(m.tpot, b.histogram("time_per_output_token_seconds", "Old name of request_time_per_output_token_seconds.", itlBuckets))
	}
	b.counters(m)
	s.registry.MustRegister(newCollector(s, c, b.labels))
	return m
}

// counters makes those that are not in a snapshot; series exist from the start, so
// that rates are right at the first event.
func (b *builder) counters(m *Model) {
	finished := b.counterVec(b.s.prefix+":request_success_total", "Finished requests, by reason.", "finished_reason")
	rejected := b.counterVec(b.s.prefix+":admission_rejections_total", "Requests that were not accepted, by reason.", "reason")
	m.salvaged = b.counterVec("ossian_parse_salvaged_total", "Malformed pieces of model output that a rule made sense of, by rule.", "rule")
	m.reasoning = prometheus.NewCounter(prometheus.CounterOpts{Name: "ossian_reasoning_tokens_total", Help: "Generated tokens that were reasoning.", ConstLabels: b.labels})
	b.s.registry.MustRegister(m.reasoning)
	m.finished = map[Finish]prometheus.Counter{}
	for _, f := range []Finish{FinishStop, FinishLength, FinishAbort, FinishError} {
		m.finished[f] = finished.WithLabelValues(string(f))
	}
	m.rejections = map[Rejection]prometheus.Counter{}
	for _, r := range []Rejection{RejectQueue, RejectTokens, RejectTooLong, RejectDraining, RejectTimeout} {
		m.rejections[r] = rejected.WithLabelValues(string(r))
	}
}

type builder struct {
	s      *Server
	labels prometheus.Labels
}

func (b *builder) histogram(name, help string, buckets []float64) prometheus.Histogram {
	return b.own(b.s.prefix+":"+name, help, buckets)
}

func (b *builder) own(name, help string, buckets []float64) prometheus.Histogram {
	h := prometheus.NewHistogram(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets, ConstLabels: b.labels})
	b.s.registry.MustRegister(h)
	return h
}

func (b *builder) counterVec(name, help, label string) *prometheus.CounterVec {
	v := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help, ConstLabels: b.labels}, []string{label})
	b.s.registry.MustRegister(v)
	return v
}

// FirstToken observes the time to the first token.
func (m *Model) FirstToken(d time.Duration) { observe(m.ttft, d) }

// InterToken observes the time between two tokens.
func (m *Model) InterToken(d time.Duration) { observe(m.itl, d) }

// Step observes a step of the engine: its new tokens and its time.
func (m *Model) Step(tokens int, d time.Duration) {
	m.iteration.Observe(float64(tokens))
	m.step.Observe(d.Seconds())
}

// Rejected counts a request that was not accepted.
func (m *Model) Rejected(why Rejection) {
	if c := m.rejections[why]; c != nil {
		c.Inc()
	}
}

// Salvaged counts a use of a salvage rule of the parser. rule is one of a fixed
// list: it is a label.
func (m *Model) Salvaged(rule string) { m.salvaged.WithLabelValues(rule).Inc() }

// Finished observes a request that was accepted and ended.
func (m *Model) Finished(r *Request) {
	if c := m.finished[r.Finish]; c != nil {
		c.Inc()
	}
	m.prompt.Observe(float64(r.Prompt))
	m.comp.Observe(float64(r.Prompt - r.Cached))
	m.generation.Observe(float64(r.Generated))
	m.largest.Observe(float64(r.Largest))
	m.n.Observe(float64(max(r.N, 1)))
	m.reasoning.Add(float64(r.Reasoning))
	if r.MaxTokens > 0 {
		m.asked.Observe(float64(r.MaxTokens))
	}
	between(m.e2e, r.Received, r.Last)
	between(m.queue, r.Queued, r.Scheduled)
	between(m.inference, r.Scheduled, r.Last)
	between(m.prefill, r.Scheduled, r.First)
	between(m.decode, r.First, r.Last)
	if r.Largest > 1 && !r.First.IsZero() {
		observe(m.tpot, r.Last.Sub(r.First)/time.Duration(r.Largest-1))
	}
}

func observe(hs []prometheus.Histogram, d time.Duration) {
	for _, h := range hs {
		h.Observe(max(d, 0).Seconds())
	}
}

func between(h prometheus.Histogram, from, to time.Time) {
	if !from.IsZero() && !to.IsZero() {
		h.Observe(max(to.Sub(from), 0).Seconds())
	}
}

// collector turns one snapshot per scrape into samples.
type collector struct {
	snapshot func() Snapshot
	rows     []row
	blocks   *prometheus.Desc // by group and state
	constant []prometheus.Metric
}

type row struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(*Snapshot) float64
	label []string
}

func newCollector(s *Server, c ModelConfig, labels prometheus.Labels) *collector {
	k := &collector{snapshot: c.Snapshot, blocks: prometheus.NewDesc("ossian_kv_blocks", "KV blocks, by group and state; their sum is the pool.", []string{"group", "state"}, labels)}
	if k.snapshot == nil {
		k.snapshot = func() Snapshot { return Snapshot{} }
	}
	for _, r := range table {
		if r.hidden && !s.hidden {
			continue
		}
		name := r.name
		if name[0] == ':' {
			name = s.prefix + name
		}
		fixed := prometheus.Labels{}
		for key, v := range labels {
			fixed[key] = v
		}
		if r.label != "" {
			fixed[r.label] = r.is
		}
		k.rows = append(k.rows, row{prometheus.NewDesc(name, r.help, nil, fixed), r.kind, r.value, nil})
	}
	k.constant = append(k.constant, prometheus.MustNewConstMetric(cacheInfo(s, c, labels), prometheus.GaugeValue, 1),
		prometheus.MustNewConstMetric(cpuInfo(c, labels), prometheus.GaugeValue, 1))
	return k
}

func cacheInfo(s *Server, c ModelConfig, labels prometheus.Labels) *prometheus.Desc {
	fixed := prometheus.Labels{
		"block_size": strconv.Itoa(c.BlockSize), "num_gpu_blocks": strconv.Itoa(c.Blocks), "cache_dtype": c.CacheDType,
		"enable_prefix_caching":  map[bool]string{true: "True", false: "False"}[c.PrefixCaching], // as Python prints it
		"gpu_memory_utilization": strconv.FormatFloat(c.Memory, 'g', -1, 64),
	}
	for key, v := range labels {
		fixed[key] = v
	}
	return prometheus.NewDesc(s.prefix+":cache_config_info", "1; the settings of the KV cache are labels.", nil, fixed)
}

func cpuInfo(c ModelConfig, labels prometheus.Labels) *prometheus.Desc {
	fixed := maps.Clone(labels)
	fixed["isa"], fixed["threads"] = c.ISA, strconv.Itoa(c.Threads)
	return prometheus.NewDesc("ossian_cpu_info", "1; the instruction set and the number of threads that compute are labels.", nil, fixed)
}

// Describe implements prometheus.Collector.
func (k *collector) Describe(ch chan<- *prometheus.Desc) {
	for _, r := range k.rows {
		ch <- r.desc
	}
	ch <- k.blocks
	for _, m := range k.constant {
		ch <- m.Desc()
	}
}

// Collect implements prometheus.Collector.
func (k *collector) Collect(ch chan<- prometheus.Metric) {
	s := k.snapshot()
	for _, r := range k.rows {
		ch <- prometheus.MustNewConstMetric(r.desc, r.kind, r.value(&s))
	}
	for i, g := range s.Groups {
		name := strconv.Itoa(i)
		ch <- prometheus.MustNewConstMetric(k.blocks, prometheus.GaugeValue, float64(g.Free), name, "free")
		ch <- prometheus.MustNewConstMetric(k.blocks, prometheus.GaugeValue, float64(g.Cached), name, "cached")
		ch <- prometheus.MustNewConstMetric(k.blocks, prometheus.GaugeValue, float64(g.Held), name, "held")
	}
	for _, m := range k.constant {
		ch <- m
	}
}
