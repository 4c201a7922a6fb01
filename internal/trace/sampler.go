package trace

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// A Sampler says which traces are sent. The zero value sends all, but for those whose parent was
// not sampled.
type Sampler struct {
	ignoreParent bool
	below        uint64 // of 63 bits: traces whose number is less are sent, 0 with none = all
	none         bool
}

// samplers are the names of OTEL_TRACES_SAMPLER.
var samplers = []string{"always_on", "always_off", "traceidratio", "parentbased_always_on", "parentbased_always_off", "parentbased_traceidratio"}

// parseSampler reads a name and its argument; "" is the zero Sampler.
func parseSampler(name, argument string) (Sampler, error) {
	if name == "" {
		return Sampler{}, nil
	}
	if !slices.Contains(samplers, name) {
		return Sampler{}, fmt.Errorf("OTEL_TRACES_SAMPLER=%.40q: one of %s expected", name, strings.Join(samplers, ", "))
	}
	root, byParent := strings.CutPrefix(name, "parentbased_")
	made := Sampler{ignoreParent: !byParent, none: root == "always_off"}
	if root != "traceidratio" {
		return made, nil
	}
	ratio := 1.0
	if argument != "" {
		var err error
		if ratio, err = strconv.ParseFloat(argument, 64); err != nil || !(ratio >= 0 && ratio <= 1) {
			return Sampler{}, fmt.Errorf("OTEL_TRACES_SAMPLER_ARG=%.40q: a share from 0 to 1 expected", argument)
		}
	}
	made.none = ratio == 0
	// Ids are compared with a share of their range; however small it is, one id is within it.
	if ratio < 1 {
		made.below = max(uint64(ratio*math.MaxInt64), 1)
	}
	return made, nil
}

// sample decides about a trace; parent may be zero. All who see the same trace decide alike.
func (s Sampler) sample(parent Context, trace TraceID) bool {
	if parent.Trace != (TraceID{}) && !s.ignoreParent {
		return parent.Sampled
	}
	return !s.none && (s.below == 0 || binary.BigEndian.Uint64(trace[8:])>>1 < s.below)
}
