package race

import (
	"fmt"

	"ossian/internal/stat"
)

// A Certainty is what may be said of an objective of service, such as p99_ttft_ms <= 500.
type Certainty string

// Certainties of objectives of service.
const (
	Met         Certainty = "met"
	Violated    Certainty = "violated"
	Open        Certainty = "not decided" // the limit lies within what the values allow
	Uncertified Certainty = "uncertified" // too few values for any decision
)

// A Certificate is the finding on one objective of service.
type Certificate struct {
	Certainty Certainty     `json:"certainty"`
	Value     float64       `json:"value"` // the percentile of the values, or their mean
	Bounds    stat.Interval `json:"bounds"`
	Values    int           `json:"values"`
	Needed    int           `json:"needed"` // how many values any decision needs
}

// Needed returns how many requests a decision on the p-th percentile takes: 662 for P99
// (lab.md 4.4). 0 for percentiles that no number certifies.
func Needed(p float64) int { return stat.Floor(p) }

// Certify holds the p-th percentile of what values were drawn from to an upper limit. Each
// end of the bounds holds with 99 % confidence, for any distribution; below Needed(p)
// values the finding is that there is none. Requests that failed have no value and must
// not be left out unnoticed: the run's validity is decided before.
func Certify(values []float64, p, limit float64) (Certificate, error) {
	needed := stat.Floor(p)
	if needed == 0 {
		return Certificate{}, fmt.Errorf("race: no number of values certifies P%v; want a percentile from 0 to below 100", p)
	}
	sorted := stat.Sorted(values)
	certificate := Certificate{Certainty: Uncertified, Value: stat.Percentile(sorted, p), Values: len(values), Needed: needed}
	upper, ok := stat.UpperBound(sorted, p)
	if !ok || len(values) < needed {
		return certificate, nil
	}
	// Two-sided with 98 % leaves 1 % on either side. Without enough values for the upper
	// order statistic of the two-sided one the lower end is not known either.
	both, ok := stat.QuantileInterval(sorted, p, 0.98)
	if !ok {
		both.Low = sorted[0]
	}
	certificate.Bounds = stat.Interval{Low: both.Low, High: upper}
	certificate.Certainty = within(certificate.Bounds, limit)
	return certificate, nil
}

// CertifyMean holds a mean to an upper limit, from one value for each repeated run: values
// of requests within a run depend on each other and would claim too much. Two runs are
// the least; the interval is Student's with 95 %.
func CertifyMean(runs []float64, limit float64) Certificate {
	certificate := Certificate{Certainty: Uncertified, Value: stat.Mean(runs), Values: len(runs), Needed: 2}
	if bounds, ok := stat.MeanInterval(runs, stat.Confidence); ok {
		certificate.Bounds = bounds
		certificate.Certainty = within(bounds, limit)
	}
	return certificate
}

func within(bounds stat.Interval, limit float64) Certainty {
	switch {
	case bounds.High <= limit:
		return Met
	case bounds.Low > limit:
		return Violated
	}
	return Open
}
