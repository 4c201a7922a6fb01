package serve

import (
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
	m, err := load.OpenModel(cfg.Model)
	if err != nil {
		return err
	}
	defer m.Close()
	l, err := begin(cfg, m, func(string) {})
	if err != nil {
		return err
	}
	if _, err := load.ChatFormat(m, cfg.Template); err != nil && !errors.Is(err, chat.ErrNoTemplate) {
		return err
	}
	boundClients(cfg)
	p, err := planMemory(cfg, m, l)
	if err != nil {
		return err
	}
	if cfg.Model == "" {
		cfg.Resolve("model", tiny.Name, "no model was named: the built-in one")
	}
	cfg.Resolve("served-model-name", strings.Join(servedNames(cfg), " "), "what requests may call it")
	cfg.Resolve("store", archiveDir(cfg), "of this port, so that it is found again")
	cfg.Resolve("threads", strconv.Itoa(l.Device().Threads()), threadsReason(plan.ThisProcess()))
	reason := "what the checkpoint promises"
	if p.Limits.MaxLen < m.Spec.MaxLen {
		reason = fmt.Sprintf("of %d, what was asked for or fits into memory", m.Spec.MaxLen)
	}
	cfg.Resolve("max-model-len", strconv.Itoa(p.Limits.MaxLen), reason)
	cfg.Resolve("max-num-seqs", strconv.Itoa(p.Limits.MaxSeqs), "rows of a step")
	cfg.Resolve("max-num-batched-tokens", strconv.Itoa(p.Limits.MaxTokens), "longer steps delay others, shorter ones waste weights read")
	blocks := make([]string, len(p.Limits.Blocks))
	for g, n := range p.Limits.Blocks {
		blocks[g] = strconv.Itoa(n)
	}
	cfg.Resolve("num-gpu-blocks-override", strings.Join(blocks, " "), fmt.Sprintf("blocks of %d tokens in each group of layers, %d bytes in all", p.Limits.BlockSize, p.Footprint.KV))
	if err := cfg.Explain(out); err != nil {
		return err
	}
	return explainMemory(cfg.Limits, p, out)
}

// threadsReason says where the number of threads comes from.
func threadsReason(p plan.Processors) string {
	reason := "all that this process may use"
	if p.Quota > 0 && float64(p.Threads) >= p.Quota {
		reason = fmt.Sprintf("the control group grants the time of %.4g processors", p.Quota)
	}
	if counts := p.Counts(); len(counts) > 1 {
		fewer := strings.ReplaceAll(strings.Trim(fmt.Sprint(counts[1:]), "[]"), " ", " or ")
		reason += fmt.Sprintf("; the start of a large model measures whether %s would be faster", fewer)
	}
	return reason
}

// explainMemory prints what memory is planned for.
func explainMemory(lim *limits.Set, p plan.Plan, out io.Writer) error {
	f := p.Footprint
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "\nMEMORY\tBYTES\tFOR")
	fmt.Fprintf(t, "weights\t%d\t%d of them read where files are mapped\n", f.Weights+f.Mapped, f.Mapped)
	fmt.Fprintf(t, "kv cache\t%d\tpools of keys and values\n", f.KV)
	fmt.Fprintf(t, "activations\t%d\tbuffers of a step of %d tokens\n", f.Activations, p.Limits.MaxTokens)
	fmt.Fprintf(t, "runtime\t%d\tprogram, tokenizer, bodies-in-flight of %d while they are decoded, and stored-memory of %d without --store\n", f.Runtime, lim[limits.BodiesInFlight], lim[limits.StoredMemory])
	fmt.Fprintf(t, "connections\t%d\t%d of them, each with header-bytes of %d, and pending-output of %d for each of %d sequences\n", f.Connections, server.Connections(lim),
		lim[limits.HeaderBytes], lim[limits.PendingOutput], p.Limits.MaxSeqs)
	fmt.Fprintf(t, "replies\t%d\treplies-in-flight of %d while they are put together: text that is not streamed, log probabilities\n", f.Replies, lim[limits.Replies])
	fmt.Fprintf(t, "grammars\t%d\tgrammar-cache of %d for compiled forms of output, and the vocabulary as they see it\n", f.Grammars, lim[limits.GrammarCache])
	fmt.Fprintf(t, "all\t%d\tof %d that may be planned for, 0 = unknown\n", f.Total(), p.Available)
	return t.Flush()
}
