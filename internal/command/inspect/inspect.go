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
	"maps"
	"slices"
	"strings"

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

// Command returns the command.
func Command() *cobra.Command { return commandOn(thisMachine()) }

// options are the flags of ossian inspect.
type options struct {
	asJSON, check, seal, removePacked bool

	model   string // named by a flag in place of a word
	threads int    // to plan for, 0 = all
	weights string
	device  string // "" = processors
	ask     model.Limits
}

// commandOn returns the command for a machine.
func commandOn(on machine) *cobra.Command {
	opts := &options{}
	cmd := &cobra.Command{
		Use:   "inspect [MODEL]",
		Short: "Tell what a model is, what it needs, and how fast this machine can decode it",
		Long: `Tell what MODEL is: a directory, a GGUF file, a name already in the cache, or,
without a name, ossian-tiny, which is built in.

Only headers are read, unless --verify is given. The tokens per second are what the
measured memory bandwidth allows: nothing can be faster than reading the weights.`,
		Args: command.Usage(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 && opts.model != "" {
				return fmt.Errorf("one model expected, found %.100q and %.100q", opts.model, args[0])
			}
			if len(args) > 0 {
				opts.model = args[0]
			}
			return opts.run(cmd, on)
		},
	}
	flags := cmd.Flags()
	flags.BoolVar(&opts.asJSON, "json", false, "print JSON")
	flags.BoolVar(&opts.check, "verify", false, "read every weight: compare with the seal that pull made, look for impossible values")
	flags.BoolVar(&opts.seal, "seal", false, "record checksums of every file beside the model, so that damage from now on is found; pull does it by itself")
	flags.BoolVar(&opts.removePacked, "remove-packed", false, "first remove the files of packed weights beside the model; --packed-weights of other commands says when they are made")
	flags.IntVar(&opts.threads, "threads", 0, "plan for `N` threads, 0 = all")
	flags.StringVar(&opts.weights, "cpu-weights", "auto", "plan for 16- and 32-bit weights as auto, bf16 or q8: see ossian run --help")
	flags.StringVar(&opts.device, "device", "cpu", "plan for `DEVICE`: cpu, cuda or cuda:N, one card of NVIDIA's, or auto: see ossian run --help")
	flags.IntVar(&opts.ask.MaxLen, "max-model-len", 0, "plan for `N` tokens of context, 0 = as many as fit")
	flags.IntVar(&opts.ask.MaxSeqs, "max-num-seqs", 0, "plan for `N` sequences at once, 0 = 1")
	flags.StringVarP(&opts.model, "model", "m", "", "MODEL")
	_ = flags.MarkHidden("model") // a flag that there is
	command.Alias(flags, "max-model-len", "ctx-size", "c")
	command.Alias(flags, "threads", "", "t")
	return cmd
}

// run does with the model what the flags ask for, and reports.
func (o *options) run(cmd *cobra.Command, on machine) error {
	checkpoint, err := load.OpenModel(o.model)
	if err != nil {
		return err
	}
	defer checkpoint.Close()
	// What is written or removed comes before the report, which then says what is there.
	if o.seal {
		if err := sealModel(cmd.Context(), checkpoint, cmd.ErrOrStderr()); err != nil {
			return err
		}
	}
	if o.removePacked {
		if err := load.RemovePacked(checkpoint, cmd.ErrOrStderr()); err != nil {
			return err
		}
	}
	if o.check {
		if err := load.Verify(cmd.Context(), checkpoint, nil, cmd.ErrOrStderr()); err != nil {
			return err
		}
	}
	report, err := o.report(cmd, checkpoint, on)
	if report == nil {
		return err
	}
	report.Checked = o.check
	if !o.asJSON {
		return errors.Join(report.write(cmd.OutOrStdout()), err)
	}
	encoder := json.NewEncoder(cmd.OutOrStdout())
	encoder.SetIndent("", "  ")
	return errors.Join(encoder.Encode(report), err)
}

// report gathers what is known of the model, and of the device that it is planned for. Where that device
// has no kernels for the model there is a report without a plan, and the error.
func (o *options) report(cmd *cobra.Command, checkpoint *ckpt.Model, on machine) (*inspection, error) {
	threads := cmp.Or(o.threads, plan.ThisProcess().Threads)
	device := load.Planned(threads, o.weights)
	report, err := describe(checkpoint)
	if err != nil {
		return nil, err
	}
	// Without kernels for the model the device cannot plan, but what the headers say is known all
	// the same.
	if o.device != "cpu" {
		asked := load.Options{Device: o.device, Threads: o.threads, KV: "auto", Weights: o.weights, Packed: "auto", MaxLen: o.ask.MaxLen, Seqs: o.ask.MaxSeqs}
		var notes []string
		loading, err := asked.Begin(checkpoint, func(note string) { notes = append(notes, note) })
		if refused, ok := errors.AsType[*load.UnsupportedError](err); ok {
			report.PlanError = refused.Error()
			return report, err
		}
		if err != nil {
			return nil, err
		}
		device = loading.Device()
		report.setDevice(o.device, device, notes)
	}
	if err := errors.Join(report.addDevice(cmd.Context(), checkpoint, o.ask, device, on), cmd.Context().Err()); err != nil {
		return nil, err
	}
	return report, nil
}

// sealModel records checksums of the files of a model.
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

// describe gathers what the files say, which is the same on every device.
func describe(checkpoint *ckpt.Model) (*inspection, error) {
	spec := checkpoint.Spec
	count, err := plan.New(spec, checkpoint.Params)
	if err != nil {
		return nil, err
	}
	report := &inspection{Name: spec.Name, Path: checkpoint.Path, Family: spec.Family, Format: checkpoint.Format, Sealed: checkpoint.Sealed, Active: count.Active(),
		Layers: spec.Layers, Hidden: spec.Hidden, Heads: spec.Heads, KVHeads: spec.KVHeads, HeadDim: spec.HeadDim, Inner: spec.FFN.Inner,
		Experts: spec.FFN.Experts, TopK: spec.FFN.TopK, Context: spec.MaxLen, RoPE: ropeText(&spec.RoPE), Vocab: spec.Vocab,
		Tokens: checkpoint.Tokenizer.Vocab(), Unused: checkpoint.Unknown}
	report.setTemplate(checkpoint)
	report.Params, report.Bytes = count.Total()
	// What the files hold.
	for role, part := range count.Parts {
		if part.Params > 0 {
			report.Parts = append(report.Parts, partLine{plan.Role(role).String(), part.Params, part.Bytes})
		}
	}
	slices.SortStableFunc(report.Parts, func(a, b partLine) int { return cmp.Compare(b.Bytes, a.Bytes) })
	for _, t := range count.Types {
		report.Types = append(report.Types, partLine{t.Type.String(), t.Params, t.Bytes})
	}
	windows, layers := spec.Groups()
	for group, bytes := range count.KVBytes() {
		sharing := 0 // layers of the group
		for _, of := range layers {
			if of == group {
				sharing++
			}
		}
		report.Windows = append(report.Windows, windowLine{Window: windows[group], Layers: sharing, KV: bytes})
	}
	return report, nil
}

// setDevice fills in which device is planned for. --device auto has chosen it, for reasons that Begin told in
// notes.
func (r *inspection) setDevice(asked string, device load.Device, notes []string) {
	r.Device = device.Name()
	switch {
	case !strings.EqualFold(asked, "auto"):
		r.Why = strings.Join(notes, "; ")
	case device.Card() != "":
		r.Why = "--device auto takes it: it has kernels for the model, and room"
	case device.Without() != "":
		r.Why = "--device auto found " + device.Without()
	default:
		r.Why = "--device auto: " + strings.Join(notes, "; ")
	}
}

// addDevice fills in what a device makes of a checkpoint: memory and speed. A model that does not fit is
// described all the same.
func (r *inspection) addDevice(ctx context.Context, checkpoint *ckpt.Model, ask model.Limits, device load.Device, on machine) error {
	// The plan counts a packed form that a start would use.
	r.Packed = device.Packed(checkpoint)
	available, cost := on.available(), on.cost(checkpoint, device)
	if r.Card = device.Card(); r.Card != "" {
		available, cost = device.Memory(0, false), device.Cost(checkpoint)
	}
	planned, err := plan.Fit(checkpoint.Spec, ask, available, cost)
	var misfit *plan.FitError
	switch {
	case errors.As(err, &misfit):
		r.PlanError = err.Error()
		planned = plan.Plan{Limits: misfit.Asked, Footprint: misfit.Need, Available: misfit.Available}
	case err != nil:
		return err
	}
	r.setPlan(planned)
	if r.Card != "" {
		r.Bandwidth = device.CardBandwidth()
	} else if r.Bandwidth, err = on.bandwidth(ctx, device.Threads()); err != nil {
		return fmt.Errorf("measuring memory bandwidth: %w", err)
	}
	// How fast: a token costs the weights as the device keeps them, not as the files do.
	kept, err := device.Kept(checkpoint)
	if err != nil {
		return err
	}
	count, err := plan.New(checkpoint.Spec, kept)
	if err != nil {
		return err
	}
	r.setDecode(count)
	return nil
}

// setTemplate fills in where the chat template is from, and whether there is a chat with it.
func (r *inspection) setTemplate(checkpoint *ckpt.Model) {
	r.Template, r.Overruled, r.Named = len(checkpoint.Template), checkpoint.Overruled, slices.Sorted(maps.Keys(checkpoint.Named))
	if r.Template > 0 {
		r.From = checkpoint.From
	}
	if _, err := load.ChatFormat(checkpoint, ""); err != nil && r.Template+len(r.Named) > 0 {
		r.Broken = err.Error()
	}
}

// setPlan fills in the memory plan.
func (r *inspection) setPlan(p plan.Plan) {
	need, lim := p.Footprint, p.Limits
	r.Plan = planLine{MaxSeqs: lim.MaxSeqs, MaxLen: lim.MaxLen, MaxTokens: lim.MaxTokens, BlockSize: lim.BlockSize, Weights: need.Weights, Mapped: need.Mapped,
		KV: need.KV, Activations: need.Activations, Runtime: need.Runtime, Total: need.Total(), Available: p.Available}
	for g := range r.Windows {
		r.Windows[g].Blocks = lim.Blocks[g]
	}
}

// setDecode fills in what a decoded token costs alone at a few lengths, and in batches.
func (r *inspection) setDecode(count *plan.Model) {
	lengths := []int{1, min(4096, r.Plan.MaxLen), r.Plan.MaxLen}
	slices.Sort(lengths)
	rows := [][2]int{} // sequences, tokens of context
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
