package bench

import (
	"runtime/metrics"
	"time"
)

// A processUsage is what this process had used at some time.
type processUsage struct {
	cpu    time.Duration
	pauses *metrics.Float64Histogram
}

func usageNow() processUsage { return processUsage{cpuTime(), gcPauses()} }

// gcPauses is how often the garbage collector stopped the program for how long.
func gcPauses() *metrics.Float64Histogram {
	pauses := []metrics.Sample{{Name: "/sched/pauses/total/gc:seconds"}}
	metrics.Read(pauses)
	if pauses[0].Value.Kind() != metrics.KindFloat64Histogram {
		return &metrics.Float64Histogram{}
	}
	return pauses[0].Value.Float64Histogram()
}

// since returns what was used since before. The longest pause is known to the bucket of the
// runtime's histogram: its upper end counts.
func (before processUsage) since() Client {
	now := usageNow()
	client := Client{CPU: now.cpu - before.cpu}
	// Buckets ascend, so the last one that has grown holds the longest pause.
	for i, count := range now.pauses.Counts {
		if i < len(before.pauses.Counts) && count > before.pauses.Counts[i] {
			client.MaxPause = time.Duration(min(now.pauses.Buckets[i+1], 1e6) * 1e9) // the last bucket has no end
		}
	}
	return client
}
