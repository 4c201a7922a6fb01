// Package exposition reads the text format of Prometheus, as far as reports on servers need it: samples
// with their labels, added up by name. Lines that cannot be read are left out: an answer of a server is
// never believed, and never an error. Users need not know how labels escape or buckets add up.
package exposition

import (
	"bufio"
	"bytes"
	"math"
	"strconv"
	"strings"
)

// A sample is one line of an exposition.
type sample struct {
	name   string
	labels map[string]string
	value  float64
}

// A Metrics is what /metrics said; the zero value and nil have nothing.
type Metrics struct {
	samples []sample
	byName  map[string][]int
}

// Read reads the text format.
func Read(text []byte) *Metrics {
	out := &Metrics{byName: map[string][]int{}}
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, len(text)+1)
	for lines.Scan() {
		if one, ok := readSample(strings.TrimSpace(lines.Text())); ok {
			out.byName[one.name] = append(out.byName[one.name], len(out.samples))
			out.samples = append(out.samples, one)
		}
	}
	return out
}

// readSample reads NAME{LABELS} NUMBER TIME, where labels and time may be missing.
func readSample(line string) (sample, bool) {
	one := sample{labels: map[string]string{}}
	end := strings.IndexAny(line, "{ \t")
	if end <= 0 || line[0] == '#' {
		return one, false
	}
	one.name = line[:end]
	rest := line[end:]
	if rest[0] == '{' {
		var ok bool
		if rest, ok = readLabels(rest[1:], one.labels); !ok {
			return one, false
		}
	}
	fields := strings.Fields(rest)
	if len(fields) == 0 {
		return one, false
	}
	value, err := strconv.ParseFloat(fields[0], 64)
	one.value = value
	return one, err == nil && !math.IsNaN(value) && !math.IsInf(value, 0)
}

// readLabels reads NAME="VALUE", … } and returns what is behind the brace. Values escape quotes,
// backslashes and ends of lines.
func readLabels(text string, into map[string]string) (rest string, ok bool) {
	for {
		text = strings.TrimLeft(text, ", ")
		if after, end := strings.CutPrefix(text, "}"); end {
			return after, true
		}
		name, after, found := strings.Cut(text, `="`)
		if !found {
			return "", false
		}
		var value strings.Builder
		at := 0
		for ; at < len(after) && after[at] != '"'; at++ {
			if after[at] != '\\' || at+1 == len(after) {
				value.WriteByte(after[at])
				continue
			}
			at++
			if after[at] == 'n' {
				value.WriteByte('\n')
			} else {
				value.WriteByte(after[at])
			}
		}
		if at == len(after) {
			return "", false
		}
		into[strings.TrimSpace(name)] = strings.ToValidUTF8(value.String(), "\uFFFD")
		text = after[at+1:]
	}
}

// Sum adds the series of a name up; false = there is none.
func (m *Metrics) Sum(name string) (total float64, ok bool) {
	if m == nil {
		return 0, false
	}
	for _, i := range m.byName[name] {
		total += m.samples[i].value
	}
	return total, len(m.byName[name]) > 0
}

// Most is the largest of the series of a name; false = there is none.
func (m *Metrics) Most(name string) (value float64, ok bool) {
	if m == nil {
		return 0, false
	}
	for n, i := range m.byName[name] {
		if one := m.samples[i].value; n == 0 || one > value {
			value = one
		}
	}
	return value, len(m.byName[name]) > 0
}

// First is the sum of the first of several names that there is.
func (m *Metrics) First(names ...string) (name string, total float64, ok bool) {
	for _, name := range names {
		if total, ok := m.Sum(name); ok {
			return name, total, true
		}
	}
	return "", 0, false
}

// Labels are those of the first series of a name, nil if there is none.
func (m *Metrics) Labels(name string) map[string]string {
	if m == nil || len(m.byName[name]) == 0 {
		return nil
	}
	return m.samples[m.byName[name][0]].labels
}

// Series are the labels of all series of a name.
func (m *Metrics) Series(name string) (all []map[string]string) {
	if m == nil {
		return nil
	}
	for _, i := range m.byName[name] {
		all = append(all, m.samples[i].labels)
	}
	return all
}

// By adds the series of a name up by a label.
func (m *Metrics) By(name, label string) map[string]float64 {
	sums := map[string]float64{}
	if m != nil {
		for _, i := range m.byName[name] {
			sums[m.samples[i].labels[label]] += m.samples[i].value
		}
	}
	return sums
}

// Has reports whether a name begins so.
func (m *Metrics) Has(prefix string) bool {
	if m == nil {
		return false
	}
	for name := range m.byName {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

// Highest is the bound of the highest bucket of a histogram that holds anything; 0 = it is empty,
// +Inf where that is above the last bound.
func (m *Metrics) Highest(name string) float64 {
	if m == nil {
		return 0
	}
	// Buckets are cumulative: the highest in use is the first that has all.
	all, _ := m.Sum(name + "_count")
	least := math.Inf(1)
	for _, i := range m.byName[name+"_bucket"] {
		bound, err := strconv.ParseFloat(m.samples[i].labels["le"], 64)
		if err == nil && m.samples[i].value >= all {
			least = min(least, bound)
		}
	}
	if all == 0 {
		return 0
	}
	return least
}

// Names calls with every name that there is, in no order, until yield returns false.
func (m *Metrics) Names(yield func(string) bool) {
	if m == nil {
		return
	}
	for name := range m.byName {
		if !yield(name) {
			return
		}
	}
}
