package metrics

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// A seldom collects from a collector at most once in a while, and gives what that said meanwhile:
// what the kernel knows of the process takes a dozen files to read.
type seldom struct {
	prometheus.Collector
	every time.Duration
	clock func() time.Time

	mu   sync.Mutex // guards what follows
	last time.Time
	said []prometheus.Metric
}

// Collect implements prometheus.Collector.
func (s *seldom) Collect(out chan<- prometheus.Metric) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now := s.clock(); s.said == nil || now.Sub(s.last) >= s.every {
		s.said, s.last = s.said[:0], now
		found := make(chan prometheus.Metric)
		go func() {
			s.Collector.Collect(found)
			close(found)
		}()
		for metric := range found {
			s.said = append(s.said, metric)
		}
	}
	for _, metric := range s.said {
		out <- metric
	}
}
