package report

import (
	"cmp"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Results of one file are repetitions of each other only if the same kind of work was sent. This
// file says what that is, from what result files of all tools hold: prompts may differ from
// repetition to repetition (another seed or salt), their number, lengths and load may not.

// How far totals of the same workload are apart at most: inputs by what drawn lengths and other
// seeds make of them, outputs by what models and engines do where answers end by themselves.
const (
	sameInput  = 0.05
	sameOutput = 0.25
)

// SameWorkload reports whether two results are of the same kind of work. What one of them does
// not say is no difference.
func SameWorkload(a, b *Result) bool {
	if a.Ossian != nil && b.Ossian != nil {
		one, other := &a.Ossian.Workload, &b.Ossian.Workload
		if one.Dataset != other.Dataset || one.Queries != other.Queries || one.Rate != other.Rate || one.Concurrency != other.Concurrency {
			return false
		}
	}
	// No tool writes a load that is not bounded down everywhere.
	for _, key := range []string{"request_rate", "max_concurrency"} {
		if cmp.Or(a.word(key), "inf") != cmp.Or(b.word(key), "inf") {
			return false
		}
	}
	for _, key := range []string{"dataset_name", "num_prompts", "burstiness", "random_input_len", "random_output_len", "random_range_ratio"} {
		if one, other := a.word(key), b.word(key); one != other && one != "" && other != "" {
			return false
		}
	}
	return alike(a, b, "total_input_tokens", sameInput) && alike(a, b, "total_output_tokens", sameOutput)
}

// alike reports whether a total per request is within a share of itself in both.
func alike(a, b *Result, key string, share float64) bool {
	one, known := a.perRequest(key)
	other, both := b.perRequest(key)
	return !known || !both || math.Abs(one-other) <= share*max(one, other)
}

// perRequest is a total divided by the requests that it is of.
func (r *Result) perRequest(key string) (float64, bool) {
	total, ok := r.Values[key]
	completed := r.Values["completed"]
	return total / completed, ok && completed > 0
}

// SameMeasurement reports whether results repeat each other as far as their files say: the same
// workload, model, and rules of counting.
func SameMeasurement(a, b *Result) bool {
	for _, key := range []string{"model_id", "backend"} {
		if one, other := a.word(key), b.word(key); one != other && one != "" && other != "" {
			return false
		}
	}
	return SameWorkload(a, b) && (a.Profile == b.Profile || a.Profile == "" || b.Profile == "")
}

// ByWorkload groups results by SameMeasurement with the first of each group, groups and results
// in their order.
func ByWorkload(results []Result) (groups [][]Result) {
next:
	for _, result := range results {
		for i := range groups {
			if SameMeasurement(&groups[i][0], &result) {
				groups[i] = append(groups[i], result)
				continue next
			}
		}
		groups = append(groups, []Result{result})
	}
	return groups
}

// DescribeWorkload names what a result is of: "random, 100 prompts, 128 + 4 tokens, 8 at once, of gpt-oss".
func DescribeWorkload(result *Result) string {
	var parts []string
	add := func(form string, value any, known bool) {
		if known {
			parts = append(parts, fmt.Sprintf(form, value))
		}
	}
	name := result.word("dataset_name")
	if result.Ossian != nil {
		name = cmp.Or(result.Ossian.Workload.Dataset, name)
	}
	add("%s", name, name != "")
	prompts, known := result.Values["num_prompts"]
	if !known {
		// Results of other tools may say only how many came through.
		prompts, known = result.Values["completed"]
	}
	add("%.0f prompts", prompts, known)
	in, hasIn := result.perRequest("total_input_tokens")
	out, hasOut := result.perRequest("total_output_tokens")
	add("%s", fmt.Sprintf("%.0f + %.0f tokens", in, out), hasIn && hasOut)
	bound, bounded := result.Values["max_concurrency"]
	add("%.0f at once", bound, bounded)
	rate := result.word("request_rate")
	add("%s requests/s", rate, rate != "" && rate != "inf")
	model := result.word("model_id")
	add("of %s", model, model != "")
	return strings.Join(parts, ", ")
}

// SplitSource takes a name apart that may say which of several results of a file is meant, as
// the tables number them: "runs.json#3" is the third of runs.json. number is 0 where it does not.
func SplitSource(name string) (file string, number int) {
	at := strings.LastIndexByte(name, '#')
	if at < 1 {
		return name, 0
	}
	number, err := strconv.Atoi(name[at+1:])
	if err != nil || number < 1 || name[at+1] == '+' {
		return name, 0
	}
	return name[:at], number
}
