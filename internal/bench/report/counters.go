package report

import (
	"maps"
	"slices"
	"strconv"
	"strings"
)

// A SpecDecode is what the server's counters say about speculative decoding during the
// run (bench.md 1.6).
type SpecDecode struct {
	Drafts, DraftTokens, Accepted int
	Rate                          float64   // percent of the drafted tokens that were accepted
	Length                        float64   // tokens per draft, with the one that the model adds
	PerPosition                   []float64 // accepted per draft, by position
}

// specPrefix is what the counters of speculative decoding begin with.
const specPrefix = "vllm:spec_decode_"

// specDecode computes it from the counters before and after; nil where the server has
// none, or drafted nothing.
func specDecode(before, after map[string]float64) *SpecDecode {
	if !hasPrefix(before, specPrefix) || !hasPrefix(after, specPrefix) {
		return nil
	}
	delta := func(name string) int {
		return int(sumSeries(after, specPrefix+name) - sumSeries(before, specPrefix+name))
	}
	spec := &SpecDecode{Drafts: delta("num_drafts_total"), DraftTokens: delta("num_draft_tokens_total"),
		Accepted: delta("num_accepted_tokens_total")}
	if spec.DraftTokens <= 0 {
		return nil
	}
	spec.Rate = float64(spec.Accepted) / float64(spec.DraftTokens) * 100
	if spec.Drafts <= 0 {
		return spec
	}
	spec.Length = 1 + float64(spec.Accepted)/float64(spec.Drafts)
	// A series may be missing on one side: not there yet, or gone with a restart.
	was, is := positions(before), positions(after)
	all := maps.Clone(was)
	maps.Copy(all, is)
	for _, position := range slices.Sorted(maps.Keys(all)) {
		now, ok := is[position]
		if !ok {
			now = was[position]
		}
		spec.PerPosition = append(spec.PerPosition, float64(int(now)-int(was[position]))/float64(spec.Drafts))
	}
	return spec
}

// hasPrefix reports whether there is a counter whose name begins with prefix.
func hasPrefix(counters map[string]float64, prefix string) bool {
	for series := range counters {
		if strings.HasPrefix(series, prefix) {
			return true
		}
	}
	return false
}

// sumSeries adds up the series of a counter over its labels.
func sumSeries(counters map[string]float64, name string) float64 {
	total := 0.0
	for _, series := range slices.Sorted(maps.Keys(counters)) {
		if base, _, _ := strings.Cut(series, "{"); base == name {
			total += counters[series]
		}
	}
	return total
}

// positions returns accepted tokens by position.
func positions(m map[string]float64) map[int]float64 {
	out := map[int]float64{}
	for name, value := range m {
		rest, ok := strings.CutPrefix(name, specPrefix+"num_accepted_tokens_per_pos_total{")
		if !ok {
			continue
		}
		_, rest, ok = strings.Cut(rest, `position="`)
		if !ok {
			continue
		}
		text, _, _ := strings.Cut(rest, `"`)
		if p, err := strconv.Atoi(text); err == nil {
			out[p] += value
		}
	}
	return out
}

// prefixCache returns how many prompt tokens the server looked up in its prefix cache
// during the run, and how many it found; false where it does not say.
func prefixCache(before, after map[string]float64) (hits, queries float64, ok bool) {
	for _, prefix := range []string{"vllm:", "ossian:"} {
		name := prefix + "prefix_cache_queries_total"
		if before == nil || !hasPrefix(after, name) { // nobody knows what was there before the run
			continue
		}
		hit := prefix + "prefix_cache_hits_total"
		return sumSeries(after, hit) - sumSeries(before, hit), sumSeries(after, name) - sumSeries(before, name), true
	}
	return 0, 0, false
}
