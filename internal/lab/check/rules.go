package check

// Rules: from what was seen to a row of the table. A rule whose question nothing answers gives
// unknown; one that does not apply gives no row. Rules of an engine are a table in a file of its own.

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"ossian/internal/lab/engines"
)

// A verdict is what a rule says.
type verdict struct {
	state    State
	reason   string
	evidence []Evidence
	change   *Change
}

// A rule judges one optimisation.
type rule struct {
	area, name string
	judge      func(*seen) (verdict, bool) // false = there is no such row here
}

// row is the rule's row.
func (r *rule) row(s *seen) (Row, bool) {
	found, ok := r.judge(s)
	if !ok {
		return Row{}, false
	}
	row := Row{Area: r.area, Name: r.name, State: found.state, Reason: found.reason, Evidence: found.evidence, Change: found.change}
	if len(row.Evidence) == 0 {
		row.State, row.Evidence = Unknown, []Evidence{{"answers", "nothing that was asked says"}}
	}
	return row, true
}

// rulesOf are those of an engine.
func rulesOf(engine string) []rule {
	switch engine {
	case engines.Ossian:
		return ossianRules
	case engines.VLLM:
		return vllmRules
	case engines.SGLang:
		return sglangRules
	case engines.LlamaCpp:
		return llamaRules
	case engines.Ollama:
		return ollamaRules
	case engines.TensorRTLLM:
		return tensorRules
	case LMDeploy:
		return lmdeployRules
	}
	return otherRules
}

// set is a change that gives a flag, or several: names and values in turn.
func set(words ...string) *Change {
	change := &Change{Set: map[string]string{}}
	for i := 0; i+1 < len(words); i += 2 {
		change.Set[words[i]] = words[i+1]
	}
	return change
}

// without is a change that takes flags away.
func without(flags ...string) *Change { return &Change{Remove: flags} }

// toggle judges a setting that is yes or no: yes is on, or off if it disables.
func toggle(area, name string, disables bool, change *Change, keys ...string) rule {
	return rule{area, name, func(s *seen) (verdict, bool) {
		yes, known := s.truth(keys...)
		if !known {
			return verdict{}, true
		}
		out := verdict{state: On, evidence: s.evidence(keys...)}
		if yes == disables {
			out.state, out.change = Off, change
		}
		return out, true
	}}
}

// named judges a setting by its value.
func named(area, name string, judge func(value string) (State, string, *Change), keys ...string) rule {
	return rule{area, name, func(s *seen) (verdict, bool) {
		one, known := s.get(keys...)
		if !known {
			return verdict{}, true
		}
		out := verdict{evidence: s.evidence(keys...)}
		out.state, out.reason, out.change = judge(one.value)
		return out, true
	}}
}

// chosen is for settings whose value, whatever it is, says what is in use.
func chosen(value string) (State, string, *Change) {
	if none(value) {
		return Unknown, "", nil
	}
	return On, "", nil
}

// always is a row of what the engine itself decides.
func always(area, name string, state State, why string) rule {
	return rule{area, name, func(s *seen) (verdict, bool) {
		return verdict{state: state, reason: map[bool]string{true: why}[state == Impossible], evidence: []Evidence{{"engine " + s.engine, why}}}, true
	}}
}

// defaulted is rule for the case that nobody has said anything and the argument vector is known
// as a whole: then the default counts, for settings whose default no version has changed.
func defaulted(of rule, flag, value string, state State, change *Change) rule {
	return rule{of.area, of.name, func(s *seen) (verdict, bool) {
		found, ok := of.judge(s)
		if !ok || len(found.evidence) > 0 || len(s.argv) == 0 || slices.ContainsFunc(s.argv, func(word string) bool { return strings.HasPrefix(word, "--config") }) {
			return found, ok
		}
		return verdict{state: state, change: change, evidence: []Evidence{{"flag", fmt.Sprintf("--%s is not given; its default is %s", flag, value)}}}, true
	}}
}

// several judges how many devices work on a step.
func several(name, flag string, keys ...string) rule {
	return defaulted(rule{areaParallel, name, func(s *seen) (verdict, bool) {
		n, known := s.number(keys...)
		if !known {
			return verdict{}, true
		}
		out := verdict{state: On, evidence: s.evidence(keys...)}
		switch {
		case n <= 1 && s.cards == 1:
			out.state, out.reason = Impossible, "there is one card"
		case n <= 1 && s.cards > 1:
			out.state, out.change = Off, set(flag, strconv.Itoa(s.cards))
		case n <= 1:
			out.state = Off
		}
		return out, true
	}}, flag, "1", Off, nil)
}

// eightBits judges the type of keys and values: 8 bits or fewer is on, and costs accuracy.
func eightBits(change *Change, keys ...string) rule {
	return named(areaKV, "keys and values in 8 bits (lossy)", func(value string) (State, string, *Change) {
		value = strings.ToLower(value)
		for _, mark := range []string{"fp8", "f8", "int8", "q8", "q4", "q5", "fp4", "int4", "iq4", "e4m3", "e5m2"} {
			if strings.Contains(value, mark) {
				return On, "", nil
			}
		}
		return Off, "answers change slightly: quality has to be evaluated", change
	}, keys...)
}

// A counterSet says under which names an engine counts what several rules ask.
type counterSet struct {
	running, waiting, usage, queries, hits, preempted string
	rate                                              string // of hits, as a share; "" = not counted
}

// prefix judges a prefix cache by its switch, and by what it found: a cache that found something is on.
func prefix(counters counterSet, disables bool, change *Change, keys ...string) rule {
	return rule{areaPrefix, "prefix cache", func(s *seen) (verdict, bool) {
		out := verdict{state: Unknown}
		if yes, known := s.truth(keys...); known {
			out.state, out.evidence = On, s.evidence(keys...)
			if yes == disables {
				out.state, out.change = Off, change
			}
		}
		found, evidence := s.found(&counters)
		out.evidence = append(out.evidence, evidence...)
		if found && out.state == Unknown {
			out.state = On
		}
		return out, true
	}}
}

// found reports whether a prefix cache found something, with the share of hits as evidence: by counters,
// by a gauge of the share, by what the log prints while requests run.
func (s *seen) found(counters *counterSet) (yes bool, evidence []Evidence) {
	names := strings.NewReplacer("{prefix}", s.prefix())
	hits, hitEvidence, counted := s.metric(names.Replace(counters.hits))
	if counted {
		queries, queryEvidence, _ := s.metric(names.Replace(counters.queries))
		yes, evidence = hits > 0, []Evidence{hitEvidence, queryEvidence}
		if queries > 0 {
			evidence = append(evidence, Evidence{"computed: hits / queries", fmt.Sprintf("%s %% of the prompt tokens looked up were found", formatNumber(digits(100*hits/queries, 3)))})
		}
	}
	if share, gauge, told := s.metric(counters.rate); told {
		yes, evidence = yes || share > 0, append(evidence, gauge)
	}
	for _, logged := range []string{"prefix_hit_percent", "prefix_hit_tokens"} {
		if n, told := s.number(logged); told {
			yes, evidence = yes || n > 0, append(evidence, s.evidence(logged)...)
		}
	}
	return yes, evidence
}

// full is the share of keys and values from which on requests may wait for these.
const full = 0.9

// sequences judges the limit of sequences against those that were there: who waits while keys and
// values have room waits for the limit.
func sequences(counters counterSet, flag string, keys ...string) rule {
	return rule{areaSequences, "sequence limit", func(s *seen) (verdict, bool) {
		names := strings.NewReplacer("{prefix}", s.prefix())
		limit, known := s.number(keys...)
		out := verdict{state: Unknown, evidence: s.evidence(keys...)}
		running, runningEvidence, seenRunning := s.metric(names.Replace(counters.running))
		waiting, waitingEvidence, seenWaiting := s.metric(names.Replace(counters.waiting))
		if seenRunning {
			out.evidence = append(out.evidence, runningEvidence)
		}
		if seenWaiting {
			out.evidence = append(out.evidence, waitingEvidence)
		}
		usage, usageEvidence, seenUsage := s.metric(names.Replace(counters.usage))
		switch {
		case known && running >= limit && waiting > 0:
			out.state, out.change = Off, set(flag, strconv.Itoa(int(running+waiting)))
		case !known && waiting > 0 && seenUsage && usage < full:
			out.reason, out.evidence = "requests wait while there is room: this limit or the batch budget binds", append(out.evidence, usageEvidence)
		case known:
			out.state = On
		}
		return out, true
	}}
}

// room judges whether what runs has room for its keys and values: what was taken back is computed again.
func room(counters counterSet, change *Change, capacity ...string) rule {
	return rule{areaKV, "room for what runs", func(s *seen) (verdict, bool) {
		names := strings.NewReplacer("{prefix}", s.prefix())
		out := verdict{state: Unknown, evidence: s.evidence(capacity...)}
		if blocks, ok := s.number("num_gpu_blocks"); ok {
			if size, ok := s.number("block_size"); ok {
				out.evidence = append(out.evidence, Evidence{"computed: num_gpu_blocks × block_size", formatNumber(blocks*size) + " tokens"})
			}
		}
		usage, usageEvidence, seenUsage := s.metric(names.Replace(counters.usage))
		if seenUsage {
			out.evidence = append(out.evidence, usageEvidence)
		}
		preempted, evidence, ok := s.metric(names.Replace(counters.preempted))
		if ok {
			out.evidence = append(out.evidence, evidence)
		}
		switch {
		case preempted > 0:
			out.state, out.reason = Off, "sequences were taken back, and are computed again"
			if s.raises(change) {
				out.change = change
			}
		case ok && s.served() > 0, seenUsage && usage > 0 && !ok:
			out.state = On
		}
		return out, true
	}}
}

// raises reports whether a change does not lower a number that is set to as much already.
func (s *seen) raises(change *Change) bool {
	if change == nil {
		return false
	}
	for name, value := range change.Set {
		wanted, err := strconv.ParseFloat(value, 64)
		if now, known := s.number(name); err == nil && known && now >= wanted {
			return false
		}
	}
	return true
}

// hostRows sum up what the system says of the machine.
func hostRows(system []Fact) (out []Row) {
	for _, fact := range system {
		if fact.State == "" {
			continue
		}
		row := Row{Area: areaHost, Name: fact.Name, State: fact.State, Reason: fact.Note, Evidence: []Evidence{{fact.Origin, fact.Value}}}
		if fact.Fix != "" {
			row.Change = &Change{Shell: fact.Fix}
		}
		out = append(out, row)
	}
	return out
}
