package serve

import (
	"slices"

	"ossian/internal/ckpt"
	"ossian/internal/config"
	"ossian/internal/draft"
	"ossian/internal/limits"
	"ossian/internal/load"
	"ossian/internal/model"
	"ossian/internal/plan"
	"ossian/internal/server"
)

// loadOptions are the settings of the device.
func loadOptions(cfg *config.Config) *load.Options {
	options := &load.Options{Device: cfg.Device, Threads: cfg.Threads, KV: cfg.KVCacheDType, Weights: cfg.Weights, Packed: cfg.Packed, Activations: cfg.Activations, Exact: cfg.Exact, NoVerify: !cfg.Verify}
	if guesses := cfg.Speculation; guesses != nil && !guesses.Lookup() {
		options.Draft = &load.Draft{Head: guesses.Method == draft.EAGLE3, Either: guesses.Method == "", Name: guesses.Draft, Offset: guesses.AuxOffset, Tokens: guesses.Tokens, MaxLen: guesses.DraftModelLen}
	}
	return options
}

// begin begins to load a checkpoint as the settings say. Of what guesses beside it the files may say
// what it is, which the settings have from then on.
func begin(cfg *config.Config, checkpoint *ckpt.Model, note func(string)) (*load.Loading, error) {
	loading, err := loadOptions(cfg).Begin(checkpoint, note)
	if err == nil && cfg.Speculation != nil && cfg.Speculation.Method == "" {
		settled := *cfg.Speculation
		if settled.Method = draft.Model; loading.IsHead() {
			settled.Method = draft.EAGLE3
		}
		cfg.Speculation = &settled
	}
	return loading, err
}

// planMemory shares the available memory, in bytes, 0 = unknown, out: to the device as in other commands, and to what clients
// may make the process hold, which does not count where the device has a memory of its own.
func planMemory(cfg *config.Config, checkpoint *ckpt.Model, loading *load.Loading, available int64) (plan.Plan, error) {
	ask := model.Limits{MaxSeqs: cfg.MaxNumSeqs, MaxTokens: cfg.MaxBatchTokens, MaxLen: cfg.MaxModelLen, Depth: 1}
	if ask.MaxTokens == 0 {
		ask.MaxTokens = loading.Device().Tokens(checkpoint, ask.MaxSeqs)
	}
	if cfg.Overlap && plannedAhead(cfg) {
		ask.Depth = loading.Device().Depth()
	}
	if cfg.Speculation != nil {
		ask.Lookahead = cfg.Speculation.Tokens
	}
	if cfg.KVBlocks > 0 {
		windows, _ := checkpoint.Spec.Groups()
		ask.Blocks = slices.Repeat([]int{cfg.KVBlocks}, len(windows))
	}
	cost := loading.Cost()
	return plan.Serve(checkpoint.Spec, ask, available, func(lim model.Limits) (plan.Footprint, error) {
		need, err := cost(lim)
		need.MostKV = cfg.KVMemory
		// The plan of other commands knows nothing of clients: what their requests, connections,
		// replies and grammars may hold at the most is added to each of its tries.
		need.Runtime += plan.RequestBytes(cfg.Limits[limits.BodiesInFlight]) + archiveBytes(cfg)
		need.Connections = server.Connections(cfg.Limits)*connectionBytes(cfg) + int64(lim.MaxSeqs)*cfg.Limits[limits.PendingOutput]
		need.Replies = plan.ReplyBytes(cfg.Limits[limits.Replies])
		need.Grammars = plan.GrammarBytes(checkpoint.Spec, cfg.Limits[limits.GrammarCache])
		need.Runtime += guessBytes(checkpoint.Spec.Vocab, &lim, cfg.Speculation != nil && cfg.Speculation.Lookup())
		return need, err
	})
}

// plannedAhead reports whether a step may be planned while another runs. What a model guesses follows an
// id that is known, and it reads each id before the next step; what texts offer is looked up for those
// that wait.
func plannedAhead(cfg *config.Config) bool {
	return cfg.Speculation == nil || cfg.Speculation.Lookup()
}

// guessBytes is what guesses take: indexes of all tokens that have keys and values and, where no model
// guesses, of stored outputs, some 12 bytes for each, and masks behind guesses.
func guessBytes(vocab int, lim *model.Limits, lookup bool) int64 {
	if lim.Lookahead == 0 {
		return 0
	}
	indexed := int64(slices.Max(lim.Blocks)) * int64(lim.BlockSize)
	if lookup {
		indexed += 1 << 20
	}
	return 12*indexed + int64(lim.MaxSeqs)*int64(lim.Lookahead)*int64(vocab)/8
}

// connectionBytes is what a connection takes.
func connectionBytes(cfg *config.Config) int64 {
	bytes := plan.ConnectionBytes(cfg.Limits[limits.HeaderBytes])
	if cfg.CertFile != "" {
		bytes += plan.TLSBytes
	}
	return bytes
}

// boundClients lets fewer bytes of bodies and of replies, and fewer connections, in at once,
// and keeps less, where memory is short, unless a number was asked for.
func boundClients(cfg *config.Config) {
	memory := load.Device{}.Memory(cfg.MemoryShare, true) // of the host, whatever the device is
	if id := limits.BodiesInFlight; !cfg.Given(id) {
		cfg.ResolveLimit(id, plan.Bodies(id.Info().Default, cfg.Limits[limits.RequestBody], memory))
	}
	if id := limits.StoredMemory; !cfg.Given(id) && memory > 0 {
		cfg.ResolveLimit(id, max(min(id.Info().Default, memory/32), id.Info().Min))
	}
	if id := limits.GrammarCache; !cfg.Given(id) {
		cfg.ResolveLimit(id, plan.Grammars(id.Info().Default, memory))
	}
	if id := limits.Connections; !cfg.Given(id) {
		cfg.ResolveLimit(id, plan.Connections(server.Connections(cfg.Limits), connectionBytes(cfg), memory))
	}
	if id := limits.Replies; !cfg.Given(id) {
		replies := plan.Replies(id.Info().Default, memory) // of which the largest that was asked for has to be one
		if cfg.Given(limits.ReplyBody) {
			replies = max(replies, cfg.Limits[limits.ReplyBody])
		}
		cfg.ResolveLimit(id, replies)
	}
}

// Plan begins to load a checkpoint, and plans the memory as for a server with the settings:
// boundClients changes those of them that nobody gave.
func Plan(cfg *config.Config, checkpoint *ckpt.Model, note func(string)) (*load.Loading, plan.Plan, error) {
	loading, err := begin(cfg, checkpoint, note)
	if err != nil {
		return nil, plan.Plan{}, err
	}
	boundClients(cfg)
	planned, err := planMemory(cfg, checkpoint, loading, loading.Device().Memory(cfg.MemoryShare, true))
	return loading, planned, err
}
