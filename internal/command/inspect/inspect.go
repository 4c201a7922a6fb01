// Package inspect is ossian inspect: it tells what a model is, what it needs, and how fast
// this machine can decode it.
package inspect

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"ossian/internal/ckpt"
	"ossian/internal/command"
	"ossian/internal/load"
	"ossian/internal/model"
	"ossian/internal/plan"
	"ossian/internal/terminal"
)

// A machine is what inspect asks the computer; tests answer themselves.
type machine struct {
	bandwidth func(ctx context.Context, threads int) (float64, error) // bytes read per second
	available func() int64                                            // bytes of memory, 0 = unknown
	cost      func(*ckpt.Model, load.Device) plan.Cost                // of the device
}

func thisMachine() machine {
	return machine{bandwidth: load.Bandwidth, available: plan.Available, cost: func(m *ckpt.Model, d load.Device) plan.Cost { return d.Cost(m) }}
}

// An inspection is what inspect knows about a model; JSON names are its public form.
type inspection struct {
	Name    string `json:"name"`
	Path    string `json:"path"`
	Family  string `json:"family"`
	Format  string `json:"format"`
	Sealed  bool   `json:"sealed"`
	Checked bool   `json:"checked"` // every byte was compared or read

	Params int64      `json:"parameters"`
	Active int64      `json:"active_parameters"` // per token
	Bytes  int64      `json:"bytes"`
	Parts  []partLine `json:"parts"`
	Types  []partLine `json:"types"`

	Layers   int               `json:"layers"`
	Hidden   int               `json:"hidden_size"`
	Heads    int               `json:"heads"`
	KVHeads  int               `json:"kv_heads"`
	HeadDim  int               `json:"head_dim"`
	Inner    int               `json:"feed_forward_size"`
	Experts  int               `json:"experts,omitempty"`
	TopK     int               `json:"experts_per_token,omitempty"`
	Context  int               `json:"context"`
	RoPE     string            `json:"rope"`
	Windows  []windowLine      `json:"attention"`
	Vocab    int               `json:"vocabulary"`
	Tokens   int               `json:"tokenizer_tokens"`
	Template int               `json:"template_bytes"`
	Unused   []string          `json:"unused_tensors,omitempty"`
	Packed   load.PackedReport `json:"packed_weights,omitzero"`

	Plan      planLine     `json:"plan"`
	PlanError string       `json:"plan_error,omitempty"` // why there is no plan
	Bandwidth float64      `json:"bandwidth"`            // bytes per second, measured
	Decode    []decodeLine `json:"decode"`
}

type partLine struct {
	Name   string `json:"name"`
	Params int64  `json:"parameters"`
	Bytes  int64  `json:"bytes"`
}

type windowLine struct {
	Window int   `json:"window"` // tokens, 0 = full attention
	Layers int   `json:"layers"`
	KV     int64 `json:"kv_bytes_per_token"`
	Blocks int   `json:"blocks,omitempty"` // planned pool
}

type planLine struct {
	MaxSeqs     int   `json:"max_seqs"`
	MaxLen      int   `json:"max_len"`
	MaxTokens   int   `json:"tokens_per_step"`
	BlockSize   int   `json:"block_size"`
	Weights     int64 `json:"weights_bytes"`
	Mapped      int64 `json:"mapped_bytes"`
	KV          int64 `json:"kv_bytes"`
	Activations int64 `json:"activation_bytes"`
	Runtime     int64 `json:"runtime_bytes"`
	Total       int64 `json:"total_bytes"`
	Available   int64 `json:"available_bytes"`
}

type decodeLine struct {
	Batch   int     `json:"batch"`
	Context int     `json:"context"`
	Bytes   int64   `json:"bytes_per_token"`
	Rate    float64 `json:"tokens_per_second"` // of all sequences together, at most
}

// Command returns the command.
func Command() *cobra.Command { return commandOn(thisMachine()) }

func commandOn(on machine) *cobra.Command {
	var asJSON, checkIt, sealIt, removeIt bool
	var threads int
	var weights string
	var ask model.Limits
	c := &cobra.Command{
		Use:   "inspect MODEL",
		Short: "Tell what a model is, what it needs, and how fast this machine can decode it",
		Long: `Tell what MODEL is: a directory, a GGUF file, a name already in the cache, or
ossian-tiny, which is built in.

Only headers are read, unless --verify is given. The tokens per second are what the
measured memory bandwidth allows: nothing can be faster than reading the weights.`,
		Args: command.Usage(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			checkpoint, err := load.OpenModel(args[0])
			if err != nil {
				return err
			}
			defer checkpoint.Close()
			if sealIt {
				if err := sealModel(cmd.Context(), checkpoint, cmd.ErrOrStderr()); err != nil {
					return err
				}
			}
			if removeIt {
				if err := load.RemovePacked(checkpoint, cmd.ErrOrStderr()); err != nil {
					return err
				}
			}
			if checkIt {
				if err := load.Verify(cmd.Context(), checkpoint, nil, cmd.ErrOrStderr()); err != nil {
					return err
				}
			}
			threads = cmp.Or(threads, plan.ThisProcess().Threads)
			report, err := inspect(cmd.Context(), checkpoint, ask, load.Planned(threads, weights), on)
			if err != nil {
				return err
			}
			report.Checked = checkIt
			if asJSON {
				e := json.NewEncoder(cmd.OutOrStdout())
				e.SetIndent("", "  ")
				return e.Encode(report)
			}
			return report.write(cmd.OutOrStdout())
		},
	}
	flags := c.Flags()
	flags.BoolVar(&asJSON, "json", false, "print JSON")
	flags.BoolVar(&checkIt, "verify", false, "read every weight: compare with the seal that pull made, look for impossible values")
	flags.BoolVar(&sealIt, "seal", false, "record checksums of every file beside the model, so that damage from now on is found; pull does it by itself")
	flags.BoolVar(&removeIt, "remove-packed", false, "first remove the files of packed weights beside the model; --packed-weights of other commands says when they are made")
	flags.IntVar(&threads, "threads", 0, "plan for `N` threads, 0 = all")
	flags.StringVar(&weights, "cpu-weights", "auto", "plan for 16- and 32-bit weights as auto, bf16 or q8: see ossian run --help")
	flags.IntVar(&ask.MaxLen, "max-model-len", 0, "plan for `N` tokens of context, 0 = as many as fit")
	flags.IntVar(&ask.MaxSeqs, "max-num-seqs", 0, "plan for `N` sequences at once, 0 = 1")
	return c
}

// sealModel records checksums of the files of m.
func sealModel(ctx context.Context, checkpoint *ckpt.Model, status io.Writer) error {
	if load.BuiltIn(checkpoint.Path) {
		return fmt.Errorf("--seal: %s is part of the program: there are no files to seal", checkpoint.Path)
	}
	meter := terminal.NewLateProgress(status, "Sealing "+checkpoint.Spec.Name)
	defer meter.Done()
	err := ckpt.Seal(ctx, checkpoint.Path, meter.Report)
	checkpoint.Sealed = checkpoint.Sealed || err == nil
	return err
}

// inspect gathers the report. A model that does not fit is described all the same.
func inspect(ctx context.Context, checkpoint *ckpt.Model, ask model.Limits, device load.Device, on machine) (*inspection, error) {
	spec := checkpoint.Spec
	count, err := plan.New(spec, checkpoint.Params)
	if err != nil {
		return nil, err
	}
	report := &inspection{Name: spec.Name, Path: checkpoint.Path, Family: spec.Family, Format: checkpoint.Format, Sealed: checkpoint.Sealed, Active: count.Active(),
		Layers: spec.Layers, Hidden: spec.Hidden, Heads: spec.Heads, KVHeads: spec.KVHeads, HeadDim: spec.HeadDim, Inner: spec.FFN.Inner,
		Experts: spec.FFN.Experts, TopK: spec.FFN.TopK, Context: spec.MaxLen, RoPE: ropeText(&spec.RoPE), Vocab: spec.Vocab,
		Tokens: checkpoint.Tokenizer.Vocab(), Template: len(checkpoint.Template), Unused: checkpoint.Unknown}
	report.Params, report.Bytes = count.Total()
	for role, planned := range count.Parts {
		if planned.Params > 0 {
			report.Parts = append(report.Parts, partLine{plan.Role(role).String(), planned.Params, planned.Bytes})
		}
	}
	slices.SortStableFunc(report.Parts, func(a, b partLine) int { return cmp.Compare(b.Bytes, a.Bytes) })
	for _, t := range count.Types {
		report.Types = append(report.Types, partLine{t.Type.String(), t.Params, t.Bytes})
	}
	windows, layers := spec.Groups()
	for g, kv := range count.KVBytes() {
		n := 0
		for _, of := range layers {
			if of == g {
				n++
			}
		}
		report.Windows = append(report.Windows, windowLine{Window: windows[g], Layers: n, KV: kv})
	}
	report.Packed = device.Packed(checkpoint)
	planned, err := plan.Fit(spec, ask, on.available(), on.cost(checkpoint, device))
	var misfit *plan.FitError
	switch {
	case errors.As(err, &misfit):
		report.PlanError = err.Error()
		planned = plan.Plan{Limits: misfit.Asked, Footprint: misfit.Need, Available: misfit.Available}
	case err != nil:
		return nil, err
	}
	report.setPlan(planned)
	if report.Bandwidth, err = on.bandwidth(ctx, device.Threads()); err != nil {
		return nil, fmt.Errorf("measuring memory bandwidth: %w", err)
	}
	kept, err := device.Kept(checkpoint)
	if err != nil {
		return nil, err
	}
	if count, err = plan.New(spec, kept); err != nil {
		return nil, err
	}
	report.setDecode(count)
	return report, ctx.Err()
}

func (r *inspection) setPlan(p plan.Plan) {
	f, lim := p.Footprint, p.Limits
	r.Plan = planLine{MaxSeqs: lim.MaxSeqs, MaxLen: lim.MaxLen, MaxTokens: lim.MaxTokens, BlockSize: lim.BlockSize, Weights: f.Weights, Mapped: f.Mapped,
		KV: f.KV, Activations: f.Activations, Runtime: f.Runtime, Total: f.Total(), Available: p.Available}
	for g := range r.Windows {
		r.Windows[g].Blocks = lim.Blocks[g]
	}
}

// setDecode fills in what a decoded token costs alone at a few lengths, and in batches.
func (r *inspection) setDecode(count *plan.Model) {
	lengths := []int{1, min(4096, r.Plan.MaxLen), r.Plan.MaxLen}
	slices.Sort(lengths)
	rows := [][2]int{}
	for _, n := range slices.Compact(lengths) {
		rows = append(rows, [2]int{1, n})
	}
	for _, batch := range []int{8, 32} {
		rows = append(rows, [2]int{batch, min(4096, r.Plan.MaxLen)})
	}
	for _, row := range rows {
		bytes, _ := count.Decode(row[0], row[1])
		rate := count.DecodeRate(plan.Machine{Bandwidth: r.Bandwidth}, row[0], row[1])
		r.Decode = append(r.Decode, decodeLine{Batch: row[0], Context: row[1], Bytes: bytes / int64(row[0]), Rate: rate})
	}
}

func ropeText(rope *model.RoPE) string {
	base := "base " + strconv.FormatFloat(rope.Base, 'f', -1, 64)
	if rope.Divisors != nil {
		base += ", frequencies divided by the file's factors"
	}
	switch rope.Scaling {
	case model.ScalingLinear:
		return fmt.Sprintf("%s, linear x%g", base, rope.Factor)
	case model.ScalingYaRN:
		return fmt.Sprintf("%s, YaRN x%g from %d tokens", base, rope.Factor, rope.Original)
	case model.ScalingLlama3:
		return fmt.Sprintf("%s, Llama 3 x%g from %d tokens", base, rope.Factor, rope.Original)
	}
	return base
}

// write prints the report for people.
func (r *inspection) write(out io.Writer) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	line := func(name, format string, args ...any) {
		fmt.Fprintf(table, "%s\t%s\n", name, strings.Map(terminal.Printable, fmt.Sprintf(format, args...))) // names come from files
	}
	line("model", "%s (%s, %s)", r.Name, r.Family, r.Format)
	line("path", "%s", r.Path)
	line("integrity", "%s", r.integrity())
	for _, text := range r.Packed.Lines() {
		line("packed weights", "%s", text)
	}
	line("parameters", "%s, %s active per token", terminal.FormatCount(r.Params), terminal.FormatCount(r.Active))
	line("layers", "%d, hidden size %d, %d heads of %d, %d KV heads", r.Layers, r.Hidden, r.Heads, r.HeadDim, r.KVHeads)
	if r.Experts > 0 {
		line("feed-forward", "%d experts of %d, %d per token", r.Experts, r.Inner, r.TopK)
	} else {
		line("feed-forward", "%d", r.Inner)
	}
	line("context", "%d tokens, RoPE %s", r.Context, r.RoPE)
	for _, window := range r.Windows {
		kind := "full"
		if window.Window > 0 {
			kind = fmt.Sprintf("window of %d tokens", window.Window)
		}
		line("attention", "%s in %d layers, %s of keys and values per token", kind, window.Layers, terminal.FormatBytes(window.KV))
	}
	template := "no chat template"
	if r.Template > 0 {
		template = fmt.Sprintf("chat template of %s", terminal.FormatBytes(int64(r.Template)))
	}
	line("vocabulary", "%d rows, %d tokens in the tokenizer, %s", r.Vocab, r.Tokens, template)
	if len(r.Unused) > 0 {
		line("not used", "%d tensors: %s", len(r.Unused), strings.Join(r.Unused[:min(len(r.Unused), 5)], " "))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	return r.writeTables(out)
}

func (r *inspection) integrity() string {
	switch {
	case load.BuiltIn(r.Path):
		return "part of the program"
	case r.Checked && r.Sealed:
		return "every byte is as sealed"
	case r.Checked:
		return "no impossible value; not sealed, so other damage would not show"
	case r.Sealed:
		return "sealed, not compared (--verify does)"
	}
	return "not sealed (--seal does)"
}

// writeTables prints what is made of numbers, right-aligned after the first column.
func (r *inspection) writeTables(out io.Writer) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	row := func(name, format string, args ...any) {
		fmt.Fprintf(table, "%-22s\t%s\t\n", name, fmt.Sprintf(format, args...))
	}
	for i, parts := range [][]partLine{r.Parts, r.Types} {
		fmt.Fprintln(table)
		row([...]string{"weights by role", "weights by type"}[i], "parameters\tbytes\tshare")
		for _, plan := range parts {
			row(plan.Name, "%s\t%s\t%.1f%%", terminal.FormatCount(plan.Params), terminal.FormatBytes(plan.Bytes), 100*float64(plan.Bytes)/float64(r.Bytes))
		}
		row("all", "%s\t%s", terminal.FormatCount(r.Params), terminal.FormatBytes(r.Bytes))
	}
	plan := &r.Plan
	fmt.Fprintln(table)
	row("memory plan", "bytes")
	row("weights, copied", "%s", terminal.FormatBytes(plan.Weights))
	row("weights, where mapped", "%s", terminal.FormatBytes(plan.Mapped))
	row("keys and values", "%s", terminal.FormatBytes(plan.KV))
	row("activations", "%s", terminal.FormatBytes(plan.Activations))
	row("runtime", "%s", terminal.FormatBytes(plan.Runtime))
	row("all", "%s", terminal.FormatBytes(plan.Total))
	if plan.Available > 0 {
		row("available", "%s", terminal.FormatBytes(plan.Available))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(out, "for --max-num-seqs %d --max-model-len %d, %d tokens per step, blocks of %d tokens\n", plan.MaxSeqs, plan.MaxLen, plan.MaxTokens, plan.BlockSize)
	if r.PlanError != "" {
		fmt.Fprintln(out, r.PlanError)
	}
	fmt.Fprintln(table)
	row("decoding, sequences", "context\tbytes per token\ttokens/s")
	for _, d := range r.Decode {
		row(fmt.Sprint(d.Batch), "%d\t%s\t%.1f", d.Context, terminal.FormatBytes(d.Bytes), d.Rate)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(out, "at most, with the measured memory bandwidth of %s/s\n", terminal.FormatBytes(int64(r.Bandwidth)))
	return err
}
