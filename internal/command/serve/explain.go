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

// explain prints every setting, automatic ones as they come out for the models on this
// machine, and what memory is planned for.
func explain(cfg *config.Config, out io.Writer) error {
	boundClients(cfg)
	// What nobody gave is shown as it comes out, with the reason.
	if cfg.Model == "" {
		cfg.Resolve("model", tiny.Name, "no model was named: the built-in one")
	}
	cfg.Resolve("store", archiveDir(cfg), "of this port, so that it is found again")
	shared, several := newRoom(cfg), len(cfg.Models) > 1
	var plans []plan.Plan
	for _, own := range eachModel(cfg) {
		planned, err := explainModel(own, shared, several, out)
		if err != nil {
			return err
		}
		plans = append(plans, planned)
	}
	if err := cfg.Explain(out); err != nil {
		return err
	}
	for i, own := range eachModel(cfg) {
		if lim := plans[i].Limits; several {
			fmt.Fprintf(out, "\nMODEL %s: max-model-len %d, max-num-seqs %d, max-num-batched-tokens %d, blocks %s\n", servedNames(own)[0], lim.MaxLen, lim.MaxSeqs, lim.MaxTokens, blocksText(lim.Blocks))
		}
		if err := explainMemory(cfg.Limits, plans[i], out); err != nil {
			return err
		}
	}
	return nil
}

// explainModel plans a model. If it is the only one, the settings are shown as they come out for it.
func explainModel(cfg *config.Config, shared *room, several bool, out io.Writer) (planned plan.Plan, err error) {
	checkpoint, err := load.OpenModel(cfg.Model)
	if err != nil {
		return planned, err
	}
	defer checkpoint.Close()
	loading, err := begin(cfg, checkpoint, func(string) {})
	if err != nil {
		return planned, err
	}
	// What a start would refuse is refused here, too, and in its order.
	if _, err := load.ChatFormat(checkpoint, cfg.Template); err != nil && !errors.Is(err, chat.ErrNoTemplate) {
		return planned, err
	}
	available := shared.part(cfg, loading.Device())
	sequences, tokens := "rows of a step", "longer steps delay others, shorter ones waste weights read"
	if cfg.Preset != "" {
		given := [...]int{cfg.MaxNumSeqs, cfg.MaxBatchTokens}
		if err := applyPreset(context.Background(), cfg, checkpoint, loading, available, func(text string) { fmt.Fprintln(out, text) }); err != nil {
			return planned, err
		}
		for i, reason := range []*string{&sequences, &tokens} {
			if given[i] == 0 {
				*reason = "preset " + cfg.Preset
			}
		}
	}
	if planned, err = planMemory(cfg, checkpoint, loading, available); err != nil || several {
		return planned, err
	}
	cfg.Resolve("served-model-name", strings.Join(servedNames(cfg), " "), "what requests may call it")
	cfg.Resolve("threads", strconv.Itoa(loading.Device().Threads()), threadsReason(plan.ThisProcess()))
	reason := "what the checkpoint promises"
	if planned.Limits.MaxLen < checkpoint.Spec.MaxLen {
		reason = fmt.Sprintf("of %d, what was asked for or fits into memory", checkpoint.Spec.MaxLen)
	}
	cfg.Resolve("max-model-len", strconv.Itoa(planned.Limits.MaxLen), reason)
	cfg.Resolve("max-num-seqs", strconv.Itoa(planned.Limits.MaxSeqs), sequences)
	cfg.Resolve("max-num-batched-tokens", strconv.Itoa(planned.Limits.MaxTokens), tokens)
	cfg.Resolve("num-gpu-blocks-override", blocksText(planned.Limits.Blocks), fmt.Sprintf("blocks of %d tokens in each group of layers, %d bytes in all", planned.Limits.BlockSize, planned.Footprint.KV))
	return planned, nil
}

// blocksText writes the blocks of each group.
func blocksText(blocks []int) string { return strings.Trim(fmt.Sprint(blocks), "[]") }

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
	// What the device holds comes first, then what the server around it does.
	fmt.Fprintf(table, "weights\t%d\t%d of them read where files are mapped\n", need.Weights+need.Mapped, need.Mapped)
	fmt.Fprintf(table, "kv cache\t%d\tpools of keys and values\n", need.KV)
	fmt.Fprintf(table, "activations\t%d\tbuffers of a step of %d tokens\n", need.Activations, planned.Limits.MaxTokens)
	fmt.Fprintf(table, "runtime\t%d\tprogram, tokenizer, bodies-in-flight of %d while they are decoded, and stored-memory of %d without --store\n", need.Runtime, limit[limits.BodiesInFlight], limit[limits.StoredMemory])
	fmt.Fprintf(table, "connections\t%d\t%d of them, each with header-bytes of %d, and pending-output of %d for each of %d sequences\n", need.Connections, server.Connections(limit),
		limit[limits.HeaderBytes], limit[limits.PendingOutput], planned.Limits.MaxSeqs)
	fmt.Fprintf(table, "replies\t%d\treplies-in-flight of %d while they are put together: text that is not streamed, log probabilities\n", need.Replies, limit[limits.Replies])
	fmt.Fprintf(table, "grammars\t%d\tgrammar-cache of %d for compiled forms of output, and the vocabulary as they see it\n", need.Grammars, limit[limits.GrammarCache])
	if need.Draft > 0 {
		fmt.Fprintf(table, "draft\t%d\tof these, for the model that guesses\n", need.Draft)
	}
	fmt.Fprintf(table, "all\t%d\tof %d that may be planned for, 0 = unknown\n", need.Total(), planned.Available)
	return table.Flush()
}
