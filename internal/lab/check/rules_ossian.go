package check

// Rules of this project's own server, whose /metrics says every setting in force and what the
// program would have chosen by itself. An optimisation is off where a setting holds it below that.

import (
	"slices"
	"strings"
)

// ownCounters are the names of vLLM, by which Ossian counts too.
var ownCounters = counterSet{running: "{prefix}:num_requests_running", waiting: "{prefix}:num_requests_waiting", usage: "{prefix}:kv_cache_usage_perc",
	queries: "{prefix}:prefix_cache_queries_total", hits: "{prefix}:prefix_cache_hits_total", preempted: "{prefix}:num_preemptions_total"}

var ossianRules = []rule{
	{areaParallel, "several devices", oneDevice},
	below(areaParallel, "threads", without("threads"), "threads", "threads_auto"),
	{areaWeights, "vector instructions", instructions},
	toggle(areaWeights, "integer kernels", true, without("exact"), "exact"),
	{areaWeights, "weights quantised in the checkpoint", quantised},
	{areaWeights, "activations in 8 bits", activations},
	{areaWeights, "16-bit weights in 8 bits (lossy)", rounded},
	{areaWeights, "packed weights kept for later starts", packed},
	real(areaAttention, "attention kernels", On, "one kernel for each instruction set, chosen with it"),
	real(areaGraphs, "graphs", Impossible, "steps on the processor are not captured: there is no launch to save"),
	prefix(ownCounters, false, &Change{Remove: []string{"enable-prefix-caching"}}, "enable_prefix_caching"),
	always(areaBatch, "chunked prefill", On, "prompts are always computed in chunks between the tokens of others"),
	below(areaBatch, "batch budget", without("max-num-batched-tokens"), "max_num_batched_tokens", "max_num_batched_tokens_auto"),
	{areaBatch, "prompts may fill a step", chunks},
	{areaBatch, "time of a step beside replies", stepTime},
	{areaSequences, "sequence limit", ownSequences},
	{areaAsync, "asynchronous scheduling", ownAsync},
	named(areaKV, "keys and values in 16 bits or fewer", func(value string) (State, string, *Change) {
		if strings.EqualFold(value, "F32") {
			return Off, "", without("kv-cache-dtype")
		}
		return On, "", nil
	}, "kv_dtype"),
	eightBits(set("kv-cache-dtype", "fp8"), "kv_dtype"),
	computed(below(areaKV, "KV capacity", without("num-gpu-blocks-override", "gpu-memory-utilization"), "num_blocks", "num_blocks_auto")),
	room(ownCounters, without("num-gpu-blocks-override", "gpu-memory-utilization")),
	{areaSpeculation, "speculation", ownSpeculation},
	real(areaSampling, "sampling kernel", On, "tokens are chosen within the step, over the rows that it samples"),
	interval("stream-interval", "stream_interval"),
	{areaFront, "quiet log", quietLog},
	always(areaFront, "front end without an interpreter", On, "one process, whose connections share no lock with the steps"),
}

// real is always for a device that computes.
func real(area, name string, state State, why string) rule {
	return computed(always(area, name, state, why))
}

// computed is a rule for a device that computes: of one that plays a machine nothing is known.
func computed(whole rule) rule {
	return rule{whole.area, whole.name, func(s *seen) (verdict, bool) {
		if device, told := s.get("device"); told && strings.HasPrefix(device.value, simulated) {
			return verdict{state: Unknown, evidence: []Evidence{{device.Source, "device=" + clip(device.value) + ": it plays a machine and computes nothing"}}}, true
		}
		return whole.judge(s)
	}}
}

// quietLog judges how much the log has of every request: the level of debugging, and a line for each,
// which is written from the level of information down.
func quietLog(s *seen) (verdict, bool) {
	out := verdict{state: On, evidence: s.evidence("log_level", "access_log")}
	level, _ := s.get("log_level")
	lines, known := s.truth("access_log")
	each := known && lines && (level.value == "" || level.value == "info" || level.value == "debug")
	switch {
	case each:
		out.state, out.reason = Off, "a line is written for every request"
		out.change = &Change{Set: map[string]string{"no-access-log": ""}, Remove: []string{"access-log"}}
		if level.value == "debug" {
			out.change.Remove = append(out.change.Remove, "log-level")
		}
	case level.value == "debug":
		out.state, out.change = Off, without("log-level")
	}
	return out, true
}

// oneDevice judges the split over devices: those of this build compute as one, as the label of the device says.
func oneDevice(s *seen) (verdict, bool) {
	evidence := s.evidence("device")
	if len(evidence) == 0 {
		evidence = s.evidence("isa")
	}
	return verdict{state: Impossible, reason: "the model runs on one device", evidence: evidence}, true
}

// below judges a setting that the program would have chosen larger.
func below(area, name string, change *Change, key, automatic string) rule {
	return rule{area, name, func(s *seen) (verdict, bool) {
		value, known := s.number(key)
		chosen, alone := s.number(automatic)
		if !known {
			return verdict{}, true
		}
		out := verdict{state: On, evidence: s.evidence(key, automatic)}
		if !alone { // one of several, which a start would measure
			out.state = Unknown
		} else if value < chosen {
			out.state, out.change = Off, change
		}
		return out, true
	}}
}

// instructions judges the instruction set.
func instructions(s *seen) (verdict, bool) {
	used, known := s.get("isa")
	best, alone := s.get("isa_auto")
	if !known || !alone {
		return verdict{}, true
	}
	order := []string{"go", "avx2", "avx512", "amx", "neon", "dotprod", "i8mm"}
	out := verdict{state: On, evidence: s.evidence("isa", "isa_auto")}
	if strings.Contains(best.value, " or ") { // a start would measure which
		out.state = Unknown
	} else if slices.Index(order, used.value) < slices.Index(order, best.value) {
		out.state, out.change = Off, &Change{Env: []string{"OSSIAN_ISA"}}
	}
	return out, true
}

// quantised judges whether the checkpoint has quantised weights.
func quantised(s *seen) (verdict, bool) {
	bits, known := s.get("activation_bits_auto")
	if !known {
		return verdict{}, true
	}
	out := verdict{state: On, evidence: s.evidence("activation_bits_auto")}
	if bits.value == "0" {
		out.state, out.reason = Off, "another checkpoint of the model may have them"
	}
	return out, true
}

// activations judges in how many bits activations meet quantised weights.
func activations(s *seen) (verdict, bool) {
	bits, known := s.number("activation_bits")
	alone, _ := s.number("activation_bits_auto")
	given, _ := s.number("activation_bits_given")
	if !known {
		return verdict{}, true
	}
	out := verdict{state: Off, evidence: s.evidence("activation_bits", "activation_bits_auto", "activation_bits_given"), change: without("activation-bits", "exact")}
	switch {
	case bits == 8:
		out.state, out.change = On, nil
	case given == 16: // said so, whatever the program would do
	case alone == 0:
		out.state, out.reason, out.change = Impossible, "no weight of the checkpoint is quantised", nil
	case alone != 8:
		out.state, out.reason, out.change = Impossible, "the model's rows are short: rounding errors would not average out", nil
	}
	return out, true
}

// rounded judges whether 16-bit weights are kept in 8.
func rounded(s *seen) (verdict, bool) {
	yes, known := s.truth("cpu_weights_rounded")
	if !known {
		return verdict{}, true
	}
	out := verdict{state: On, evidence: s.evidence("cpu_weights_rounded", "cpu_weights")}
	if asked, _ := s.get("cpu_weights"); !yes && asked.value == "q8" {
		out.state, out.reason = Impossible, "the model has no 16-bit matrix that fits"
	} else if !yes {
		out.state, out.reason, out.change = Off, "answers change slightly: quality has to be evaluated", set("cpu-weights", "q8")
	}
	return out, true
}

// packed judges whether what is repacked is kept for later starts.
func packed(s *seen) (verdict, bool) {
	setting, known := s.get("packed_weights")
	if !known {
		return verdict{}, true
	}
	out := verdict{state: On, evidence: s.evidence("packed_weights", "packed_file")}
	file, _ := s.truth("packed_file")
	switch {
	case setting.value == "off":
		out.state, out.change = Off, without("packed-weights")
	case !file:
		out.state, out.reason = Impossible, "the model is inside the program: there is no file to keep anything beside"
	case setting.value == "auto":
		out.state = Unknown // large models only: the log of the start says
	}
	return out, true
}

// chunks judges whether one prompt may fill a step.
func chunks(s *seen) (verdict, bool) {
	limit, known := s.number("long_prefill_token_threshold")
	if !known {
		return verdict{}, true
	}
	budget, _ := s.number("max_num_batched_tokens")
	out := verdict{state: On, evidence: s.evidence("long_prefill_token_threshold")}
	if limit > 0 && limit < budget {
		out.state, out.change = Off, without("long-prefill-token-threshold")
	}
	return out, true
}

// defaultStep is how many seconds a step beside replies may take where nobody has said otherwise.
const defaultStep = 0.5

// stepTime judges the bound on the time of a step while replies are written: a short one cuts
// prompts into chunks that read the weights more often.
func stepTime(s *seen) (verdict, bool) {
	limit, known := s.number("max_step_seconds")
	if !known {
		return verdict{}, true
	}
	out := verdict{state: On, evidence: s.evidence("max_step_seconds")}
	if limit > 0 && limit < defaultStep {
		out.state, out.reason, out.change = Off, "replies beside prompts stall for a shorter time", without("max-step-time")
	}
	return out, true
}

// ownSequences judges the sequence limit by what the program would have chosen, then by those
// who were there.
func ownSequences(s *seen) (verdict, bool) {
	counted := sequences(ownCounters, "max-num-seqs", "max_num_seqs")
	out, ok := counted.judge(s)
	limit, known := s.number("max_num_seqs")
	alone, automatic := s.number("max_num_seqs_auto")
	out.evidence = append(out.evidence, s.evidence("max_num_seqs_auto")...)
	if known && automatic && limit < alone {
		out.state, out.change = Off, without("max-num-seqs")
	}
	return out, ok
}

// ownAsync judges the planning of a step while another runs.
func ownAsync(s *seen) (verdict, bool) {
	asked, known := s.truth("async_scheduling")
	possible, told := s.truth("async_possible")
	if !known || !told {
		return verdict{}, true
	}
	out := verdict{state: On, evidence: s.evidence("async_scheduling", "async_possible")}
	switch {
	case !asked:
		out.state, out.change = Off, without("async-scheduling")
	case !possible:
		out.state, out.reason = Impossible, "this device runs one step at a time"
	}
	return out, true
}

// ownSpeculation judges speculation by its counters, which are there with it only.
func ownSpeculation(s *seen) (verdict, bool) {
	if out := drafts(s, s.prefix()+":spec_decode_"); len(out.evidence) > 0 {
		return out, true
	}
	out := verdict{state: Off, reason: "texts that repeat come sooner with --speculative-config, the same ids", evidence: append([]Evidence{{"route /metrics", "no counter of drafts"}}, s.evidence("experts")...), change: set("speculative-config", `{"method": "suffix"}`)}
	if experts, told := s.number("experts"); told && experts > 0 {
		out.reason = "files and records that are copied come sooner with --speculative-config, the same ids; little else does, as each token of a step brings experts of its own"
	}
	return out, true
}
