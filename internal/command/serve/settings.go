package serve

// What /metrics says of the settings, for those who may only read: which are in force, and what
// the program would have chosen by itself.

import (
	"slices"
	"strconv"
	"strings"

	"ossian/internal/ckpt"
	"ossian/internal/config"
	"ossian/internal/load"
	"ossian/internal/model"
	"ossian/internal/plan"
)

// A choice is how a model is served: what was planned and chosen, and what would be if the
// settings that bound it had not been given.
type choice struct {
	planned, byItself model.Limits
	need              plan.Footprint // of planned
	device            load.Device
	machine           load.Choice
	measures          bool // a start measures what is fastest, as of large models
}

// byItself returns the limits of a server of which nobody has asked for fewer sequences,
// tokens of a step or blocks. Each is what it would be with the other settings as they are.
func byItself(cfg *config.Config, checkpoint *ckpt.Model, loading *load.Loading, available int64) (limits model.Limits, err error) {
	seqs, tokens, pools := *cfg, *cfg, *cfg
	seqs.MaxNumSeqs, tokens.MaxBatchTokens, pools.KVBlocks, pools.KVMemory, pools.MemoryShare = 0, 0, 0, 0, 0
	for _, asked := range []struct {
		settings  *config.Config
		available int64
		take      func(plan.Plan)
	}{
		{&seqs, available, func(p plan.Plan) { limits.MaxSeqs = p.Limits.MaxSeqs }},
		{&tokens, available, func(p plan.Plan) { limits.MaxTokens = p.Limits.MaxTokens }},
		{&pools, unshared(cfg, loading, available), func(p plan.Plan) { limits.Blocks = p.Limits.Blocks }},
	} {
		planned, err := planMemory(asked.settings, checkpoint, loading, asked.available)
		if err != nil {
			return limits, err
		}
		asked.take(planned)
	}
	return limits, nil
}

// unshared returns what would be available to the model, in bytes, had nobody asked for a share of
// the memory: it has the same part of that as of what was asked for.
func unshared(cfg *config.Config, loading *load.Loading, available int64) int64 {
	given := loading.Device().Memory(cfg.MemoryShare, true)
	if cfg.MemoryShare == 0 || given <= 0 {
		return available
	}
	return int64(float64(available) / float64(given) * float64(loading.Device().Memory(0, true)))
}

// alone is how many threads the program would have chosen: all, and where a start measures, perhaps the
// fewer that were given.
func (c *choice) alone(counts []int, given int) string {
	all := strconv.Itoa(counts[0])
	if c.measures && given < counts[0] && slices.Contains(counts, given) {
		return all + " or " + strconv.Itoa(given)
	}
	return all
}

// labels are those of ossian_config_info.
func (c *choice) labels(cfg *config.Config, checkpoint *ckpt.Model) map[string]string {
	blocks := func(all []int) string {
		if len(all) == 0 {
			return "0"
		}
		return strconv.Itoa(all[0]) // of the first group, as in cache_config_info
	}
	flag := func(on bool) string { return map[bool]string{true: "True", false: "False"}[on] } // as Python prints it
	bits, automatic := c.device.ActivationBits(checkpoint)
	rounded, _ := c.device.Rounded(checkpoint)
	labels := map[string]string{
		"device":        cfg.Device,
		"max_model_len": strconv.Itoa(c.planned.MaxLen),
		"max_num_seqs":  strconv.Itoa(c.planned.MaxSeqs), "max_num_seqs_auto": strconv.Itoa(c.byItself.MaxSeqs),
		"max_num_batched_tokens": strconv.Itoa(c.planned.MaxTokens), "max_num_batched_tokens_auto": strconv.Itoa(c.byItself.MaxTokens),
		"num_blocks": blocks(c.planned.Blocks), "num_blocks_auto": blocks(c.byItself.Blocks),
		"long_prefill_token_threshold": strconv.Itoa(cfg.ChunkLimit), "max_step_seconds": strconv.FormatFloat(cfg.StepTime.Seconds(), 'g', -1, 64),
		"kv_dtype": c.device.KV(), "activation_bits": strconv.Itoa(bits), "activation_bits_auto": strconv.Itoa(automatic), "activation_bits_given": strconv.Itoa(cfg.Activations),
		"exact": flag(cfg.Exact), "cpu_weights": cfg.Weights, "cpu_weights_rounded": flag(rounded), "packed_weights": cfg.Packed, "packed_file": flag(!load.BuiltIn(cfg.Model)),
		"async_scheduling": flag(cfg.Overlap), "async_possible": flag(c.device.Depth() > 1 && plannedAhead(cfg)),
		"experts": strconv.Itoa(checkpoint.Spec.FFN.Experts), "stream_interval": strconv.Itoa(cfg.StreamInterval), "log_level": cfg.LogLevel, "access_log": flag(cfg.AccessLog),
		// Where nobody has chosen, what was taken is what the program chose, by measurement.
		"threads": strconv.Itoa(c.machine.Threads), "threads_auto": strconv.Itoa(c.machine.Threads),
		"isa": c.machine.ISA, "isa_auto": c.machine.ISA,
	}
	if cfg.Threads != 0 {
		labels["threads_auto"] = c.alone(plan.ThisProcess().Counts(), cfg.Threads)
	}
	if best := load.BestInstructions(); c.device.InstructionsGiven() {
		labels["isa_auto"] = best
		if c.measures && best != "avx2" && c.machine.ISA == "avx2" {
			labels["isa_auto"] = best + " or avx2" // a start measures which is faster
		}
	}
	if c.machine.ISA == "" { // a card, or a device that plays a machine, has no processor
		for _, name := range []string{"activation_bits", "activation_bits_auto", "activation_bits_given", "exact", "cpu_weights", "cpu_weights_rounded", "packed_weights", "packed_file", "threads", "threads_auto", "isa", "isa_auto"} {
			delete(labels, name)
		}
		if c.device.Card() == "" {
			labels["kv_dtype"] = cfg.KVCacheDType
		}
	}
	for name, value := range labels {
		labels[name] = strings.ToValidUTF8(value, "\uFFFD")
	}
	return labels
}
