package metrics

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// A counting collector says how often it was asked.
type counting struct {
	desc  *prometheus.Desc
	asked int
}

func (c *counting) Describe(out chan<- *prometheus.Desc) { out <- c.desc }

func (c *counting) Collect(out chan<- prometheus.Metric) {
	c.asked++
	out <- prometheus.MustNewConstMetric(c.desc, prometheus.GaugeValue, float64(c.asked))
}

// A collector that takes long is asked at most once in a while.
func TestSeldom(t *testing.T) {
	now, inner := time.Unix(1, 0), &counting{desc: prometheus.NewDesc("asked", "", nil, nil)}
	registry := prometheus.NewRegistry()
	registry.MustRegister(&seldom{Collector: inner, every: time.Second, clock: func() time.Time { return now }})
	for _, step := range []struct {
		wait time.Duration
		want float64
	}{{0, 1}, {0, 1}, {999 * time.Millisecond, 1}, {time.Millisecond, 2}, {0, 2}, {time.Hour, 3}} {
		now = now.Add(step.wait)
		families, err := registry.Gather()
		if err != nil || len(families) != 1 || families[0].Metric[0].GetGauge().GetValue() != step.want {
			t.Errorf("%v later: %v, %v; want %v", step.wait, families, err, step.want)
		}
	}
}
