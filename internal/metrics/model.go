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
	live       *collector
	info       *info

	ttft, itl, tpot                             []prometheus.Histogram // more than one with a hidden twin
	e2e, queue, inference, prefill, decode      prometheus.Histogram
	prompt, generation, largest, asked, n, comp prometheus.Histogram
	preempted                                   prometheus.Histogram
	lifetime, idle, gap                         prometheus.Histogram // of blocks
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
	Memory        float64           // gpu_memory_utilization as configured; 0 = not given
	Settings      map[string]string // further settings in force and what would be automatic, by name: labels of ossian_config_info
	Snapshot      func() Snapshot   // called at each scrape, from any goroutine; must not wait for the loop
	Line          func() int        // requests that wait for the model to be in memory, beside those of Snapshot; nil = none
}

// Snapshot is the state of an engine. Counters never fall.
type Snapshot struct {
	Running, Waiting int   // sequences in the batch, in the queue
	WaitingTokens    int64 // prompt tokens in the queue
	Groups           []Group

	// Nothing of probes is in these. A sequence is a choice of a request, or a step of one with tools.
	Accepted                           uint64 // sequences taken by Submit; = finished + running + waiting
	Prompt, Cached, Generation         uint64 // prompt tokens of sequences that got a token; of these, found in the prefix cache; generated
	PrefixQueries, PrefixHits          uint64 // prompt tokens of sequences that have begun: looked up, found
	Recomputed                         uint64 // tokens computed again after preemption
	Preemptions, Steps, Stalls, Starts uint64 // Starts: of the loop, 1 + restarts

	Guesses Guesses

	Asleep bool   // the model is not in memory
	Loads  uint64 // times that it was brought there
	InLine int    // of Waiting, those that wait for it to be in memory
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

// A Sequence is what the engine had of a request at its end: a choice, or a step of one with
// tools. Over all sequences the sums are those of the snapshot's totals.
type Sequence struct {
	Finish         Finish
	Prompt, Cached int // tokens; 0 if it got no token
	Preemptions    int // times that its blocks were taken back
}

// Request is what is known about a request at its end. A time that is zero did not
// come; the intervals that need it are not observed. operations.md 2 defines them.
type Request struct {
	Received                      time.Time // before tokenization
	Queued, Scheduled             time.Time // Scheduled: the last time before the first token
	First, Last                   time.Time // tokens
	Generated, Largest, Reasoning int       // tokens of all choices, of the longest, of reasoning
	MaxTokens                     int       // asked for; 0 = not given
	N                             int       // choices
}

var (
	ttftBuckets    = []float64{.001, .005, .01, .02, .04, .06, .08, .1, .25, .5, .75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 640, 2560}
	itlBuckets     = []float64{.01, .025, .05, .075, .1, .15, .2, .3, .4, .5, .75, 1, 2.5, 5, 7.5, 10, 20, 40, 80}
	requestBuckets = []float64{.3, .5, .8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680}
	blockBuckets   = []float64{.001, .002, .005, .01, .02, .05, .1, .2, .5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800}
	stepBuckets    = []float64{.0005, .001, .002, .005, .01, .02, .05, .1, .2, .5, 1, 2, 5, 10, 30}
)

// oneTwoFive returns 1, 2, 5, 10, 20, 50 … up to most.
func oneTwoFive(most int) []float64 {
	out := []float64{1}
	for scale := 1; ; scale *= 10 {
		for _, mantissa := range [...]int{2, 5, 10} {
			if mantissa*scale > most {
				return out
			}
			out = append(out, float64(mantissa*scale))
		}
	}
}

// powersOfTwo returns 1, then from and its doubles up to to.
func powersOfTwo(from, to int) []float64 {
	out := []float64{1}
	for n := from; n <= to; n *= 2 {
		out = append(out, float64(n))
	}
	return out
}

// Model adds a model. One that has been added before, and rests, goes on: its counters and
// histograms, with the buckets that they had, count on.
func (s *Server) Model(cfg ModelConfig) *Model {
	if known := s.models[cfg.Name]; known != nil {
		known.wake(s, &cfg)
		return known
	}
	build := builder{s, prometheus.Labels{"model_name": cfg.Name, "engine": "0"}}
	tokens := oneTwoFive(cfg.MaxLen)
	model := &Model{labels: build.labels,
		ttft:       []prometheus.Histogram{build.histogram("time_to_first_token_seconds", "Seconds from receipt to the first token.", ttftBuckets)},
		itl:        []prometheus.Histogram{build.histogram("inter_token_latency_seconds", "Seconds between successive tokens of a request.", itlBuckets)},
		tpot:       []prometheus.Histogram{build.histogram("request_time_per_output_token_seconds", "Decode seconds per token after the first.", itlBuckets)},
		e2e:        build.histogram("e2e_request_latency_seconds", "Seconds from receipt to the last token.", requestBuckets),
		queue:      build.histogram("request_queue_time_seconds", "Seconds in the queue.", requestBuckets),
		inference:  build.histogram("request_inference_time_seconds", "Seconds from scheduling to the last token.", requestBuckets),
		prefill:    build.histogram("request_prefill_time_seconds", "Seconds from scheduling to the first token.", requestBuckets),
		decode:     build.histogram("request_decode_time_seconds", "Seconds from the first to the last token.", requestBuckets),
		prompt:     build.histogram("request_prompt_tokens", "Prompt tokens of a sequence that got a token.", tokens),
		generation: build.histogram("request_generation_tokens", "Generated tokens of a request.", tokens),
		largest:    build.histogram("request_max_num_generation_tokens", "Generated tokens of a request's longest choice.", tokens),
		asked:      build.histogram("request_params_max_tokens", "max_tokens of a request.", tokens),
		n:          build.histogram("request_params_n", "n of a request.", []float64{1, 2, 5, 10, 20}),
		comp:       build.histogram("request_prefill_kv_computed_tokens", "The same without those that were cached.", tokens),
		preempted:  build.histogram("request_num_preemptions", "Times that a sequence's blocks were taken back.", []float64{1, 2, 3, 4, 5, 10, 20}),
		lifetime:   build.histogram("kv_block_lifetime_seconds", "Seconds that a block's content was cached, of one block in 16.", blockBuckets),
		idle:       build.histogram("kv_block_idle_before_evict_seconds", "Seconds since a block was last made or found when its content was dropped, of one block in 16.", blockBuckets),
		gap:        build.histogram("kv_block_reuse_gap_seconds", "Seconds since a block was last made or found when it was found, of one block in 16.", blockBuckets),
		iteration:  build.histogram("iteration_tokens_total", "New tokens of a step.", powersOfTwo(8, 16384)),
		step:       build.own("ossian_step_seconds", "Seconds of a step, from launch to collection.", stepBuckets),
	}
	if s.hidden {
		model.tpot = append(model.tpot, build.histogram("time_per_output_token_seconds", "Old name of request_time_per_output_token_seconds.", itlBuckets))
	}
	// What changes with each loading is collected at scrape time, from what wake sets.
	build.counters(model)
	model.live, model.info = newCollector(s, build.labels), &info{}
	model.wake(s, &cfg)
	s.registry.MustRegister(model.live, model.info)
	s.models[cfg.Name] = model
	return model
}

// counters makes those that are not in a snapshot; series exist from the start, so
// that rates are right at the first event.
func (b *builder) counters(model *Model) {
	finished := b.counterVec(b.s.prefix+":request_success_total", "Finished sequences (choices of requests, and steps of those with tools), by reason.", "finished_reason")
	rejected := b.counterVec(b.s.prefix+":admission_rejections_total", "Requests that were not accepted, by reason.", "reason")
	model.salvaged = b.counterVec("ossian_parse_salvaged_total", "Malformed pieces of model output that a rule made sense of, by rule.", "rule")
	model.reasoning = prometheus.NewCounter(prometheus.CounterOpts{Name: "ossian_reasoning_tokens_total", Help: "Generated tokens that were reasoning.", ConstLabels: b.labels})
	b.s.registry.MustRegister(model.reasoning)
	model.finished = map[Finish]prometheus.Counter{}
	for _, f := range []Finish{FinishStop, FinishLength, FinishAbort, FinishError} {
		model.finished[f] = finished.WithLabelValues(string(f))
	}
	model.rejections = map[Rejection]prometheus.Counter{}
	for _, r := range []Rejection{RejectQueue, RejectTokens, RejectTooLong, RejectDraining, RejectTimeout} {
		model.rejections[r] = rejected.WithLabelValues(string(r))
	}
}

// A builder makes and registers the metrics of one model.
type builder struct {
	s      *Server
	labels prometheus.Labels
}

// histogram makes one under a name that vLLM has too.
func (b *builder) histogram(name, help string, buckets []float64) prometheus.Histogram {
	return b.own(b.s.prefix+":"+name, help, buckets)
}

// own makes a histogram under its whole name.
func (b *builder) own(name, help string, buckets []float64) prometheus.Histogram {
	histogram := prometheus.NewHistogram(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets, ConstLabels: b.labels})
	b.s.registry.MustRegister(histogram)
	return histogram
}

func (b *builder) counterVec(name, help, label string) *prometheus.CounterVec {
	vec := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help, ConstLabels: b.labels}, []string{label})
	b.s.registry.MustRegister(vec)
	return vec
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
	if counter := m.rejections[why]; counter != nil {
		counter.Inc()
	}
}

// Salvaged counts a use of a salvage rule of the parser. rule is one of a fixed
// list: it is a label.
func (m *Model) Salvaged(rule string) { m.salvaged.WithLabelValues(rule).Inc() }

// Ended observes a sequence that was accepted and ended.
func (m *Model) Ended(sequence Sequence) {
	if counter := m.finished[sequence.Finish]; counter != nil {
		counter.Inc()
	}
	m.preempted.Observe(float64(sequence.Preemptions))
	if sequence.Prompt > 0 {
		m.prompt.Observe(float64(sequence.Prompt))
		m.comp.Observe(float64(sequence.Prompt - sequence.Cached))
	}
}

// Finished observes a request that was accepted and ended.
func (m *Model) Finished(req *Request) {
	m.generation.Observe(float64(req.Generated))
	m.largest.Observe(float64(req.Largest))
	m.n.Observe(float64(max(req.N, 1)))
	m.reasoning.Add(float64(req.Reasoning))
	if req.MaxTokens > 0 {
		m.asked.Observe(float64(req.MaxTokens))
	}
	// Intervals between times that came.
	between(m.e2e, req.Received, req.Last)
	between(m.queue, req.Queued, req.Scheduled)
	between(m.inference, req.Scheduled, req.Last)
	between(m.prefill, req.Scheduled, req.First)
	between(m.decode, req.First, req.Last)
	if req.Largest > 1 && !req.First.IsZero() {
		observe(m.tpot, req.Last.Sub(req.First)/time.Duration(req.Largest-1))
	}
}

// observe adds a duration to a histogram and its twin; clocks of different goroutines may
// make it negative.
func observe(histograms []prometheus.Histogram, d time.Duration) {
	for _, h := range histograms {
		h.Observe(max(d, 0).Seconds())
	}
}

// between observes the time between two moments, if both came.
func between(h prometheus.Histogram, from, to time.Time) {
	if !from.IsZero() && !to.IsZero() {
		h.Observe(max(to.Sub(from), 0).Seconds())
	}
}

// collector turns one snapshot per scrape into samples.
type collector struct {
	state  *state
	rows   []row
	blocks *prometheus.Desc // by group and state
	guess  guessDescs
}

// A row is one sample of a snapshot.
type row struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(*Snapshot) float64
	label []string
}

// newCollector returns the collector of a model: the table's rows.
func newCollector(server *Server, labels prometheus.Labels) *collector {
	made := &collector{state: &state{}, blocks: prometheus.NewDesc("ossian_kv_blocks", "KV blocks, by group and state; their sum is the pool.", []string{"group", "state"}, labels),
		guess: newGuessDescs(server, labels)}
	for _, entry := range table {
		if entry.hidden && !server.hidden {
			continue
		}
		name := entry.name
		if name[0] == ':' {
			name = server.prefix + name
		}
		// The labels of the model, and that of a family of which this is one series.
		fixed := prometheus.Labels{}
		for key, value := range labels {
			fixed[key] = value
		}
		if entry.label != "" {
			fixed[entry.label] = entry.is
		}
		made.rows = append(made.rows, row{prometheus.NewDesc(name, entry.help, nil, fixed), entry.kind, entry.value, nil})
	}
	return made
}

func cacheInfo(server *Server, cfg ModelConfig, labels prometheus.Labels) *prometheus.Desc {
	fixed := prometheus.Labels{
		"block_size": strconv.Itoa(cfg.BlockSize), "num_gpu_blocks": strconv.Itoa(cfg.Blocks), "cache_dtype": cfg.CacheDType,
		"enable_prefix_caching":  map[bool]string{true: "True", false: "False"}[cfg.PrefixCaching], // as Python prints it
		"gpu_memory_utilization": strconv.FormatFloat(cfg.Memory, 'g', -1, 64),
	}
	for key, v := range labels {
		fixed[key] = v
	}
	return prometheus.NewDesc(server.prefix+":cache_config_info", "1; the settings of the KV cache are labels.", nil, fixed)
}

func cpuInfo(cfg ModelConfig, labels prometheus.Labels) *prometheus.Desc {
	fixed := maps.Clone(labels)
	fixed["isa"], fixed["threads"] = cfg.ISA, strconv.Itoa(cfg.Threads)
	return prometheus.NewDesc("ossian_cpu_info", "1; the instruction set and the number of threads that compute are labels.", nil, fixed)
}

// configInfo has what no other metric says of the settings, so that whoever may only read can tell
// which optimisations are in use. A setting with a name of the model's labels is left out.
func configInfo(cfg ModelConfig, labels prometheus.Labels) *prometheus.Desc {
	fixed := prometheus.Labels{}
	maps.Copy(fixed, cfg.Settings)
	maps.Copy(fixed, labels)
	return prometheus.NewDesc("ossian_config_info", "1; settings in force are labels, and behind _auto what the program would choose by itself.", nil, fixed)
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(ch chan<- *prometheus.Desc) {
	for _, r := range c.rows {
		ch <- r.desc
	}
	ch <- c.blocks
	c.guess.all(ch)
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(ch chan<- prometheus.Metric) {
	snapshot := c.state.now()
	for _, r := range c.rows {
		ch <- prometheus.MustNewConstMetric(r.desc, r.kind, r.value(&snapshot))
	}
	for i, group := range snapshot.Groups {
		name := strconv.Itoa(i)
		ch <- prometheus.MustNewConstMetric(c.blocks, prometheus.GaugeValue, float64(group.Free), name, "free")
		ch <- prometheus.MustNewConstMetric(c.blocks, prometheus.GaugeValue, float64(group.Cached), name, "cached")
		ch <- prometheus.MustNewConstMetric(c.blocks, prometheus.GaugeValue, float64(group.Held), name, "held")
	}
	c.guess.collect(ch, &snapshot.Guesses)
}
