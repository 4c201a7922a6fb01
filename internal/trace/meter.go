package trace

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// A Histogram is one of the metrics of the GenAI convention.
type Histogram struct {
	name, unit string
	bounds     []float64
}

// The metrics, with the bounds that the convention advises.
var (
	RequestDuration    = Histogram{"gen_ai.server.request.duration", "s", []float64{.01, .02, .04, .08, .16, .32, .64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92}}
	TimeToFirstToken   = Histogram{"gen_ai.server.time_to_first_token", "s", []float64{.001, .005, .01, .02, .04, .06, .08, .1, .25, .5, .75, 1, 2.5, 5, 7.5, 10}}
	TimePerOutputToken = Histogram{"gen_ai.server.time_per_output_token", "s", []float64{.01, .025, .05, .075, .1, .15, .2, .3, .4, .5, .75, 1, 2.5}}
	TokenUsage         = Histogram{"gen_ai.client.token.usage", "{token}", []float64{1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216, 67108864}}
)

// mostSeries bounds the sets of attributes of a metric: one more is not recorded.
const mostSeries = 256

// A meter adds up histograms, for good.
type meter struct {
	begin time.Time
	mu    sync.Mutex // guards what follows
	all   map[string]*metric
}

type metric struct {
	histogram Histogram
	series    map[string]*series // by their attributes as text
}

type series struct {
	attributes []Attribute
	count      uint64
	sum        float64
	least      float64
	most       float64
	buckets    []uint64 // one more than bounds
}

func newMeter(begin time.Time) *meter { return &meter{begin: begin, all: map[string]*metric{}} }

// Record adds a value to a histogram. The attributes must be the same few again and again.
func (t *Tracer) Record(histogram Histogram, value float64, attributes ...Attribute) {
	m := t.meter
	m.mu.Lock()
	defer m.mu.Unlock()
	found := m.all[histogram.name]
	if found == nil {
		found = &metric{histogram, map[string]*series{}}
		m.all[histogram.name] = found
	}
	key := fmt.Sprint(attributes)
	one := found.series[key]
	if one == nil {
		if len(found.series) >= mostSeries {
			return
		}
		one = &series{attributes: slices.Clone(attributes), least: value, most: value, buckets: make([]uint64, len(histogram.bounds)+1)}
		found.series[key] = one
	}
	one.count++
	one.sum += value
	one.least, one.most = min(one.least, value), max(one.most, value)
	at, _ := slices.BinarySearch(histogram.bounds, value) // a bound belongs to the bucket below
	one.buckets[at]++
}

// The messages of OTLP for histograms, as those of spans.
type (
	otlpMetrics struct {
		ResourceMetrics []resourceMetrics `json:"resourceMetrics"`
	}
	resourceMetrics struct {
		Resource     otlpResource   `json:"resource"`
		ScopeMetrics []scopeMetrics `json:"scopeMetrics"`
	}
	scopeMetrics struct {
		Scope   otlpScope    `json:"scope"`
		Metrics []otlpMetric `json:"metrics"`
	}
	otlpMetric struct {
		Name      string        `json:"name"`
		Unit      string        `json:"unit"`
		Histogram otlpHistogram `json:"histogram"`
	}
	otlpHistogram struct {
		Points      []otlpPoint `json:"dataPoints"`
		Temporality int         `json:"aggregationTemporality"`
	}
	otlpPoint struct {
		Attributes []keyValue `json:"attributes,omitempty"`
		Begin      string     `json:"startTimeUnixNano"`
		At         string     `json:"timeUnixNano"`
		Count      string     `json:"count"`
		Sum        float64    `json:"sum"`
		Buckets    []string   `json:"bucketCounts"`
		Bounds     []float64  `json:"explicitBounds"`
		Min        float64    `json:"min"`
		Max        float64    `json:"max"`
	}
)

const cumulative = 2 // AGGREGATION_TEMPORALITY_CUMULATIVE

// encode returns the body of a request to /v1/metrics, nil while there is nothing.
func (m *meter) encode(resource []Attribute, now time.Time) []byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.all) == 0 {
		return nil
	}
	var all []otlpMetric
	for _, found := range m.all {
		made := otlpMetric{Name: found.histogram.name, Unit: found.histogram.unit, Histogram: otlpHistogram{Temporality: cumulative}}
		for _, one := range found.series {
			point := otlpPoint{Attributes: keyValues(one.attributes), Begin: nanoseconds(m.begin), At: nanoseconds(now), Count: strconv.FormatUint(one.count, 10),
				Sum: one.sum, Bounds: found.histogram.bounds, Min: one.least, Max: one.most}
			for _, n := range one.buckets {
				point.Buckets = append(point.Buckets, strconv.FormatUint(n, 10))
			}
			made.Histogram.Points = append(made.Histogram.Points, point)
		}
		// Maps have no order, and equal measurements are to give equal bytes.
		slices.SortFunc(made.Histogram.Points, func(a, b otlpPoint) int {
			return strings.Compare(string(marshal(a.Attributes)), string(marshal(b.Attributes)))
		})
		all = append(all, made)
	}
	slices.SortFunc(all, func(a, b otlpMetric) int { return strings.Compare(a.Name, b.Name) })
	return marshal(otlpMetrics{[]resourceMetrics{{otlpResource{keyValues(resource)}, []scopeMetrics{{otlpScope{scopeName}, all}}}}})
}
