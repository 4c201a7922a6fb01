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

const specPrefix = "vllm:spec_decode_"

// specDecode computes it from the counters before and after; nil where the server has
// none, or drafted nothing.
func specDecode(before, after map[string]float64) *SpecDecode {
	if !hasPrefix(before, specPrefix) || !hasPrefix(after, specPrefix) {
		return nil
	}
	delta := func(name string) int {
		return int(sum(after, specPrefix+name) - sum(before, specPrefix+name))
	}
	s := &SpecDecode{Drafts: delta("num_drafts_total"), DraftTokens: delta("num_draft_tokens_total"),
		Accepted: delta("num_accepted_tokens_total")}
	if s.DraftTokens <= 0 {
		return nil
	}
	s.Rate = float64(s.Accepted) / float64(s.DraftTokens) * 100
	if s.Drafts <= 0 {
		return s
	}
	s.Length = 1 + float64(s.Accepted)/float64(s.Drafts)
	was, is := positions(before), positions(after)
	all := maps.Clone(was)
	maps.Copy(all, is)
	for _, p := range slices.Sorted(maps.Keys(all)) {
		now, ok := is[p]
		if !ok {
			now = was[p]
		}
		s.PerPosition = append(s.PerPosition, float64(int(now)-int(was[p]))/float64(s.Drafts))
	}
	return s
}

// hasPrefix reports whether m has a counter whose name begins with prefix.
func hasPrefix(m map[string]float64, prefix string) bool {
	for series := range m {
		if strings.HasPrefix(series, prefix) {
			return true
		}
	}
	return false
}

// sum adds up the series of a counter over its labels.
func sum(m map[string]float64, name string) float64 {
	total := 0.0
	for _, series := range slices.Sorted(maps.Keys(m)) {
		if base, _, _ := strings.Cut(series, "{"); base == name {
			total += m[series]
		}
	}
	return total
}

// positions returns accepted tokens by position.
func positions(m map[string]float64) map[int]float64 {
	out := map[int]float64{}
	for series, v := range m {
		rest, ok := strings.CutPrefix(series, specPrefix+"num_accepted_tokens_per_pos_total{")
		if !ok {
			continue
		}
		_, rest, ok = strings.Cut(rest, `position="`)
		if !ok {
			continue
		}
		text, _, _ := strings.Cut(rest, `"`)
		if p, err := strconv.Atoi(text); err == nil {
			out[p] += v
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
		return sum(after, hit) - sum(before, hit), sum(after, name) - sum(before, name), true
	}
	return 0, 0, false
}
