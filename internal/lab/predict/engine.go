package predict

import (
	"fmt"
	"strconv"
	"strings"

	"ossian/internal/lab/predict/machine"
)

// A Profile is what an engine of one version does where no setting says otherwise. It decides
// limits, never speeds: those are a calibration's.
type Profile struct {
	Name, Version string
	BlockSize     int
	Utilization   float64 // share of a device's memory that it takes
	Async         bool    // plans a step while the one before runs
	PrefixCaching bool
	SharedPool    bool  // groups of layers with and without a window share one pool of blocks
	NoReserve     bool  // admits without keeping blocks for those that run: preempts more
	Reserve       int64 // bytes of contexts, libraries and workspaces
	ReserveTP     int64 // more of it where several devices work together
	// ReserveExperts is more of it for the workspaces of 4-bit experts.
	ReserveExperts int64
	// PaddedExperts reports whether the kernel of 4-bit experts pads both dimensions.
	PaddedExperts bool
	limits        func(machine.Machine) (sequences, tokens int)
}

// Engine returns the profile of an engine by name and version ("v0.11.0", "0.11"); an engine
// without versions here takes any.
func Engine(name, version string) (Profile, error) {
	version = strings.TrimPrefix(strings.TrimSpace(version), "v")
	switch strings.ToLower(name) {
	case "vllm":
		return vllm(version)
	case "ossian":
		return Profile{Name: "ossian", Version: version, BlockSize: 16, Utilization: 0.9, PrefixCaching: true, Reserve: 256 << 20,
			limits: func(machine.Machine) (int, int) { return 256, 512 }}, nil
	}
	return Profile{}, fmt.Errorf("engine %q: no profile; there are vllm, ossian", name)
}

// vllm returns the profile of vLLM. The second engine core came with 0.8; asynchronous scheduling
// is the default from 0.14 on.
func vllm(version string) (Profile, error) {
	minor, err := minorOf(version)
	if err != nil || minor < 8 {
		return Profile{}, fmt.Errorf("engine vllm: version %q: want one from 0.8 on, as 0.11.0", version)
	}
	return Profile{Name: "vllm", Version: version, BlockSize: 16, Utilization: 0.9, PrefixCaching: true, SharedPool: true, NoReserve: true, PaddedExperts: true,
		Async: minor >= 14, Reserve: 250 << 20, ReserveTP: 700 << 20, ReserveExperts: 600 << 20, limits: vllmLimits}, nil
}

// minorOf reads the second number of a version; a first one above 0 counts as later than all.
func minorOf(version string) (int, error) {
	parts := strings.Split(version, ".")
	if len(parts) < 2 {
		return 0, fmt.Errorf("version %q: want two numbers or more", version)
	}
	major, err := strconv.Atoi(parts[0])
	if err != nil {
		return 0, err
	}
	minor, err := strconv.Atoi(parts[1])
	return minor + 1000*major, err
}

// vllmLimits are the defaults of its server: large ones from 70 GiB on, but not on an A100.
func vllmLimits(m machine.Machine) (sequences, tokens int) {
	if m.Memory.Value >= 70*(1<<30) && !strings.HasPrefix(m.Name, "A100") {
		return 1024, 8192
	}
	return 256, 2048
}

// Settings are what an operator may choose; zero = the profile's default.
type Settings struct {
	TP            int     `json:"tp,omitempty"` // devices that share every layer, 0 = 1
	MaxSeqs       int     `json:"max_num_seqs,omitempty"`
	MaxTokens     int     `json:"max_num_batched_tokens,omitempty"`
	MaxLen        int     `json:"max_model_len,omitempty"`
	KVType        string  `json:"kv_cache_dtype,omitempty"` // "auto", "bf16", "fp8"
	MemoryShare   float64 `json:"gpu_memory_utilization,omitempty"`
	Async         *bool   `json:"async_scheduling,omitempty"`
	PrefixCaching *bool   `json:"enable_prefix_caching,omitempty"`
	Blocks        int     `json:"num_gpu_blocks_override,omitempty"` // 0 = what the memory holds
	Interval      int     `json:"stream_interval,omitempty"`         // tokens that the client sees in one chunk, 0 = 1
}

// resolved are settings with every default filled in.
type resolved struct {
	tp, sequences, tokens, maxLen, blockSize int
	share                                    float64
	async, caching                           bool
	kvBytes                                  float64 // of an element of keys and values
}

// resolve fills in what the settings leave open, and refuses what no engine takes.
func (s *Scenario) resolve() (resolved, error) {
	sequences, tokens := s.Engine.limits(s.Machine)
	set := &s.Settings
	r := resolved{tp: max(set.TP, 1), sequences: sequences, tokens: tokens, maxLen: s.Model.Spec.MaxLen, blockSize: s.Engine.BlockSize,
		share: s.Engine.Utilization, async: s.Engine.Async, caching: s.Engine.PrefixCaching, kvBytes: 2}
	if set.MaxSeqs > 0 {
		r.sequences = set.MaxSeqs
	}
	if set.MaxTokens > 0 {
		r.tokens = set.MaxTokens
	}
	if set.MaxLen > 0 {
		r.maxLen = min(set.MaxLen, s.Model.Spec.MaxLen)
	}
	if set.MemoryShare > 0 {
		r.share = set.MemoryShare
	}
	if set.Async != nil {
		r.async = *set.Async
	}
	if set.PrefixCaching != nil {
		r.caching = *set.PrefixCaching
	}
	switch strings.ToLower(set.KVType) {
	case "", "auto", "bf16", "bfloat16", "f16", "fp16", "float16":
	case "fp8", "fp8_e4m3", "fp8_e5m2", "q8":
		r.kvBytes = 1
	default:
		return r, fmt.Errorf("setting kv_cache_dtype: %q: want auto, bf16 or fp8", set.KVType)
	}
	switch {
	case set.TP < 0 || set.MaxSeqs < 0 || set.MaxTokens < 0 || set.MaxLen < 0 || set.Blocks < 0 || set.Interval < 0:
		return r, fmt.Errorf("settings %+v: numbers must not be negative", *set)
	case r.share <= 0 || r.share > 1:
		return r, fmt.Errorf("setting gpu_memory_utilization: %v: want more than 0, at most 1", r.share)
	case r.tp > s.Machine.Most:
		return r, fmt.Errorf("setting tp: %d devices, %s has at most %d", r.tp, s.Machine.Name, s.Machine.Most)
	case s.Model.Spec.Heads%r.tp != 0:
		return r, fmt.Errorf("setting tp: %d devices do not divide the %d heads of %s", r.tp, s.Model.Spec.Heads, s.Model.Spec.Name)
	case r.tokens < r.sequences:
		return r, fmt.Errorf("setting max_num_batched_tokens: %d is less than max_num_seqs %d: every sequence needs a token of a step", r.tokens, r.sequences)
	}
	return r, nil
}
