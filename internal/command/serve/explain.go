package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"

	"ossian/internal/chat"
	"ossian/internal/config"
	"ossian/internal/limits"
	"ossian/internal/load"
	"ossian/internal/plan"
	"ossian/internal/server"
	"ossian/internal/tiny"
)

// explain prints every setting, automatic ones as they come out for this model on
// this machine.
func explain(cfg *config.Config, out io.Writer) error {
	checkpoint, err := load.OpenModel(cfg.Model)
	if err != nil {
		return err
	}
	defer checkpoint.Close()
	loading, err := begin(cfg, checkpoint, func(string) {})
	if err != nil {
		return err
	}
	// What a start would refuse is refused here, too, and in its order.
	if _, err := load.ChatFormat(checkpoint, cfg.Template); err != nil && !errors.Is(err, chat.ErrNoTemplate) {
		return err
	}
	boundClients(cfg)
	sequences, tokens := "rows of a step", "longer steps delay others, shorter ones waste weights read"
	if cfg.Preset != "" {
		given := [...]int{cfg.MaxNumSeqs, cfg.MaxBatchTokens}
		if err := applyPreset(context.Background(), cfg, checkpoint, loading, func(text string) { fmt.Fprintln(out, text) }); err != nil {
			return err
		}
		for i, reason := range []*string{&sequences, &tokens} {
			if given[i] == 0 {
				*reason = "preset " + cfg.Preset
			}
		}
	}
	planned, err := planMemory(cfg, checkpoint, loading)
	if err != nil {
		return err
	}
	// What nobody gave is shown as it comes out, with the reason.
	if cfg.Model == "" {
		cfg.Resolve("model", tiny.Name, "no model was named: the built-in one")
	}
	cfg.Resolve("served-model-name", strings.Join(servedNames(cfg), " "), "what requests may call it")
	cfg.Resolve("store", archiveDir(cfg), "of this port, so that it is found again")
	cfg.Resolve("threads", strconv.Itoa(loading.Device().Threads()), threadsReason(plan.ThisProcess()))
	reason := "what the checkpoint promises"
	if planned.Limits.MaxLen < checkpoint.Spec.MaxLen {
		reason = fmt.Sprintf("of %d, what was asked for or fits into memory", checkpoint.Spec.MaxLen)
	}
	cfg.Resolve("max-model-len", strconv.Itoa(planned.Limits.MaxLen), reason)
	cfg.Resolve("max-num-seqs", strconv.Itoa(planned.Limits.MaxSeqs), sequences)
	cfg.Resolve("max-num-batched-tokens", strconv.Itoa(planned.Limits.MaxTokens), tokens)
	blocks := make([]string, len(planned.Limits.Blocks))
	for g, n := range planned.Limits.Blocks {
		blocks[g] = strconv.Itoa(n)
	}
	cfg.Resolve("num-gpu-blocks-override", strings.Join(blocks, " "), fmt.Sprintf("blocks of %d tokens in each group of layers, %d bytes in all", planned.Limits.BlockSize, planned.Footprint.KV))
	if err := cfg.Explain(out); err != nil {
		return err
	}
	return explainMemory(cfg.Limits, planned, out)
}

// threadsReason says where the number of threads comes from.
func threadsReason(processors plan.Processors) string {
	reason := "all that this process may use"
	if processors.Quota > 0 && float64(processors.Threads) >= processors.Quota {
		reason = fmt.Sprintf("the control group grants the time of %.4g processors", processors.Quota)
	}
	if counts := processors.Counts(); len(counts) > 1 {
		fewer := strings.ReplaceAll(strings.Trim(fmt.Sprint(counts[1:]), "[]"), " ", " or ")
		reason += fmt.Sprintf("; the start of a large model measures whether %s would be faster", fewer)
	}
	return reason
}

// explainMemory prints what memory is planned for.
func explainMemory(limit *limits.Set, planned plan.Plan, out io.Writer) error {
	need := planned.Footprint
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "\nMEMORY\tBYTES\tFOR")
	if need.Card != "" {
		fmt.Fprintf(table, "card\t%d\tmemory of %s that weights, kv cache and activations may take; the rest is the host's\n", planned.Available, need.Card)
	}
	fmt.Fprintf(table, "weights\t%d\t%d of them read where files are mapped\n", need.Weights+need.Mapped, need.Mapped)
	fmt.Fprintf(table, "kv cache\t%d\tpools of keys and values\n", need.KV)
	fmt.Fprintf(table, "activations\t%d\tbuffers of a step of %d tokens\n", need.Activations, planned.Limits.MaxTokens)
	fmt.Fprintf(table, "runtime\t%d\tprogram, tokenizer, bodies-in-flight of %d while they are decoded, and stored-memory of %d without --store\n", need.Runtime, limit[limits.BodiesInFlight], limit[limits.StoredMemory])
	fmt.Fprintf(table, "connections\t%d\t%d of them, each with header-bytes of %d, and pending-output of %d for each of %d sequences\n", need.Connections, server.Connections(limit),
		limit[limits.HeaderBytes], limit[limits.PendingOutput], planned.Limits.MaxSeqs)
	fmt.Fprintf(table, "replies\t%d\treplies-in-flight of %d while they are put together: text that is not streamed, log probabilities\n", need.Replies, limit[limits.Replies])
	fmt.Fprintf(table, "grammars\t%d\tgrammar-cache of %d for compiled forms of output, and the vocabulary as they see it\n", need.Grammars, limit[limits.GrammarCache])
	fmt.Fprintf(table, "all\t%d\tof %d that may be planned for, 0 = unknown\n", need.Total(), planned.Available)
	return table.Flush()
}
