package sweep

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
)

// A Criterion is a bound on a metric of the results, by its key there.
type Criterion struct {
	Metric string
	Op     string // <=, >=, < or >
	Target float64
}

// An SLA is criteria that hold together.
type SLA []Criterion

// ops are the comparisons, those first that begin like others.
var ops = [...]string{"<=", ">=", "<", ">"}

// ReadSLAs reads a file of objectives (bench.md 3.5): a list of objects such as
// {"p99_e2el_ms": "<=500"}.
func ReadSLAs(path string) ([]SLA, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	out, err := ParseSLAs(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return out, nil
}

// ParseSLAs reads what ReadSLAs reads.
func ParseSLAs(text []byte) ([]SLA, error) {
	list, err := elements(text)
	if err != nil {
		return nil, err
	}
	out := make([]SLA, len(list))
	for i, object := range list {
		for _, member := range object {
			var text string
			// A name is the element's own, and no metric.
			if member.Key == nameKey {
				continue
			}
			if err := json.Unmarshal(member.Value, &text); err != nil {
				return nil, fmt.Errorf("%q is %s, expected a text such as \"<=500\"", member.Key, brief(member.Value))
			}
			bound, err := criterion(member.Key, text)
			if err != nil {
				return nil, err
			}
			out[i] = append(out[i], bound)
		}
		if len(out[i]) == 0 {
			return nil, fmt.Errorf("element %d names no metric", i+1)
		}
	}
	return out, nil
}

// criterion reads a bound such as <=500.
func criterion(metric, bound string) (Criterion, error) {
	for _, op := range ops {
		text, ok := strings.CutPrefix(bound, op)
		if !ok {
			continue
		}
		target, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
		if err != nil || math.IsNaN(target) || math.IsInf(target, 0) {
			return Criterion{}, fmt.Errorf("%q: %q is no number", metric, text)
		}
		return Criterion{metric, op, target}, nil
	}
	return Criterion{}, fmt.Errorf("%q is %q; it begins with none of %s", metric, bound, strings.Join(ops[:], " "))
}

// ParseSLA reads objectives from a command line, such as p99_ttft_ms<=500,mean_tpot_ms<40.
func ParseSLA(text string) (SLA, error) {
	var out SLA
	for part := range strings.SplitSeq(text, ",") {
		at := strings.IndexAny(part, "<>")
		if at < 1 {
			return nil, fmt.Errorf("%q: want METRIC<=NUMBER, such as p99_ttft_ms<=500", part)
		}
		bound, err := criterion(strings.TrimSpace(part[:at]), part[at:])
		if err != nil {
			return nil, err
		}
		out = append(out, bound)
	}
	return out, nil
}

// text lists the criteria as vLLM writes them.
func (s SLA) text(separator string) string {
	parts := make([]string, len(s))
	for i, criterion := range s {
		parts[i] = fmt.Sprintf("%s%s%.2f", criterion.Metric, criterion.Op, criterion.Target)
	}
	return strings.Join(parts, separator)
}

// equality is what separates < from <= (vLLM's).
const equality = 1e-8

// margin is how far a value is from its bound; above 0 it is on the wrong side.
func (c Criterion) margin(value float64) float64 {
	switch c.Op {
	case "<=":
		return value - c.Target
	case "<":
		return value + equality - c.Target
	case ">=":
		return c.Target - value
	}
	return c.Target + equality - value
}

// margin is the worst margin of the means over runs, each in the unit of its metric
// (bench.md 3.5); at most 0 = all criteria hold. 0 without criteria, +Inf if a run had no
// request that succeeded: its latencies are 0, which says nothing.
func (s SLA) margin(runs []Object) (float64, error) {
	if len(s) == 0 {
		return 0, nil
	}
	for _, run := range runs {
		if completed, ok := run.Number("completed"); ok && completed == 0 {
			return math.Inf(1), nil
		}
	}
	worst := math.Inf(-1)
	for _, criterion := range s {
		mean, err := Mean(runs, criterion.Metric)
		if err != nil {
			return 0, err
		}
		worst = max(worst, criterion.margin(mean))
	}
	return worst, nil
}

// Mean is the mean of a metric over runs, by its key there.
func Mean(runs []Object, metric string) (float64, error) {
	sum := 0.0
	for _, run := range runs {
		value, ok := run.Number(metric)
		if !ok || math.IsNaN(value) || math.IsInf(value, 0) {
			return 0, fmt.Errorf("%q is no number in the results, which have %s", metric, strings.Join(metricsOf(run), " "))
		}
		sum += value
	}
	return sum / float64(len(runs)), nil
}

// metricsOf names the numbers of a result.
func metricsOf(run Object) (out []string) {
	for _, member := range run {
		if member.Value[0] == '-' || (member.Value[0] >= '0' && member.Value[0] <= '9') {
			out = append(out, member.Key)
		}
	}
	slices.Sort(out)
	return out
}
