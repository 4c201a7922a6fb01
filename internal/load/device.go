package load

import (
	"context"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"

	"ossian/internal/ckpt"
	"ossian/internal/cpu"
	"ossian/internal/cuda"
	"ossian/internal/model"
	"ossian/internal/plan"
	"ossian/internal/runner"
	"ossian/internal/tensor"
	"ossian/internal/watch"
)

// A Device is what computes a model, and how it is to do that. All that depends on the kind
// of device is in this file, in cards.go and in simulated.go: there are the CPU, cards, and
// machines that are only played.
type Device struct {
	cfg       cpu.Config
	simulated *simulated // nil: not one
	gpu       *gpu       // nil: not one
	without   string     // why there is none, where --device auto would have taken one
}

// device returns the device that the options and OSSIAN_ISA ask for. Which one --device auto is
// depends on the checkpoint; note is told where one that is there is not used.
func (o *Options) device(checkpoint *ckpt.Model, note func(string)) (Device, error) {
	name := strings.ToLower(o.Device)
	if err := o.checkPacked(); err != nil {
		return Device{}, err
	}
	if strings.HasPrefix(name, simulatedPrefix) {
		played, err := parseSimulated(o.Device)
		return Device{simulated: played}, err
	}
	// A card that is named has to be there and to fit; --device auto asks for one and does without.
	if ordinal, is, err := namesCard(name); is {
		if err != nil {
			return Device{}, err
		}
		opened, err := o.openCard(ordinal)
		if err != nil {
			return Device{}, fmt.Errorf("--device %s: %w", name, err)
		}
		return opened.supporting(name, checkpoint)
	}
	switch name {
	case emulated:
		opened, err := o.openEmulated()
		if err != nil {
			return Device{}, fmt.Errorf("--device %s: %w", name, err)
		}
		return opened.supporting(name, checkpoint)
	case "", "auto":
		opened, why := o.automatic(checkpoint)
		if opened != nil {
			return Device{gpu: opened}, nil
		}
		if why != "" {
			note(why)
			break
		}
		chosen, err := o.processors()
		chosen.without = "no GPU, as there is no driver of NVIDIA's"
		return chosen, err
	case "cpu":
	default:
		return Device{}, fmt.Errorf("--device %q: auto, cpu, cuda, cuda:N or sim:MACHINE expected", o.Device)
	}
	return o.processors()
}

// An UnsupportedError says that a device which is there has no kernels for a model.
type UnsupportedError struct {
	Device string // as it was asked for
	Err    error
}

// Error names the flag, and what of the model it is.
func (e *UnsupportedError) Error() string { return fmt.Sprintf("--device %s: %v", e.Device, e.Err) }

// Unwrap returns what the device says.
func (e *UnsupportedError) Unwrap() error { return e.Err }

// supporting returns the card as the device that was asked for by name, or an *UnsupportedError.
func (g *gpu) supporting(name string, checkpoint *ckpt.Model) (Device, error) {
	if err := cuda.Supports(checkpoint.Spec, checkpoint.Params); err != nil {
		return Device{}, &UnsupportedError{Device: name, Err: err}
	}
	return Device{gpu: g}, nil
}

// processors returns the CPU as the options and OSSIAN_ISA ask for it.
func (o *Options) processors() (Device, error) {
	cfg := cpu.Config{Threads: o.Threads, ISA: strings.ToLower(os.Getenv("OSSIAN_ISA")), Activations: o.Activations,
		Weights: strings.ToLower(o.Weights), Exact: o.Exact}
	if cfg.Threads == 0 { // Choose measures whether fewer are faster
		counts := plan.ThisProcess().Counts()
		cfg.Threads, cfg.Fewer = counts[0], counts[1:]
	}
	switch strings.ToLower(o.KV) {
	case "auto", "bf16", "bfloat16":
		cfg.KV = tensor.BF16
	case "f32", "float32":
		cfg.KV = tensor.F32
	case "fp8", "fp8_e4m3":
		cfg.KV = tensor.F8_E4M3
	default:
		return Device{}, fmt.Errorf("--kv-cache-dtype %q: auto, bf16, f32 or fp8 expected", o.KV)
	}
	return Device{cfg: cfg}, nil
}

// Planned returns a device of which nothing is asked but what it would take and do.
func Planned(threads int, weights string) Device {
	return Device{cfg: cpu.Config{Threads: threads, Weights: strings.ToLower(weights)}}
}

// A Choice is how a device uses the machine, and what was measured to find it.
type Choice struct {
	cpu.Choice
	line    string // of a device that is no processor
	without string // why it is none, where one would have been taken; "" = nobody asked
}

// Line is the choice as it is told to people.
func (c Choice) Line() string {
	if c.line != "" {
		return c.line
	}
	line := "cpu: " + c.String()
	if c.without != "" {
		line += "; " + c.without
	}
	return line
}

// Cost returns what the device and the process around it take.
func (d Device) Cost(checkpoint *ckpt.Model) plan.Cost {
	if d.simulated != nil {
		return nothing(checkpoint.Spec)
	}
	if d.gpu != nil {
		return d.gpu.cost(checkpoint)
	}
	return func(lim model.Limits) (plan.Footprint, error) {
		need, err := cpu.Footprint(checkpoint.Spec, lim, d.cfg, checkpoint.Params)
		return plan.Footprint{Weights: need.Weights, Mapped: need.Mapped, KV: need.KV, Activations: need.Activations, Runtime: plan.RuntimeBytes(checkpoint.Spec)}, err
	}
}

// Kept returns the parameters with the types that the device keeps them in, which is
// what a step reads. The tensors tell types and shapes only.
func (d Device) Kept(checkpoint *ckpt.Model) (map[string]tensor.Tensor, error) {
	if d.gpu != nil {
		return cuda.Kept(checkpoint.Spec, checkpoint.Params)
	}
	return cpu.Kept(checkpoint.Spec, d.cfg, checkpoint.Params)
}

// Depth is how many steps the device has under way at most: a card computes one while the next is
// planned.
func (d Device) Depth() int {
	if d.gpu != nil {
		return 2
	}
	return 1
}

// Tokens is how many new tokens of so many sequences a step has at most where nobody has said so; 0 =
// what is usual. A card that reads all weights for a step has time for more.
func (d Device) Tokens(checkpoint *ckpt.Model, seqs int) int {
	if d.gpu == nil {
		return 0
	}
	return max(min(cardTokens, checkpoint.Spec.MaxLen), seqs)
}

// Card returns the name of the card that computes, "" if none does.
func (d Device) Card() string {
	if d.gpu == nil {
		return ""
	}
	return d.gpu.card.Name
}

// Name is how the device is called where people name one, and what it is: "cpu", or
// "cuda:0, NVIDIA H100 80GB HBM3".
func (d Device) Name() string {
	switch {
	case d.gpu != nil:
		return d.gpu.kind() + ", " + d.gpu.card.Name
	case d.simulated != nil:
		return d.simulated.text
	}
	return "cpu"
}

// Without says why the device is no card, where one would have been taken and none is there; "" =
// nobody asked for one, or one is there.
func (d Device) Without() string { return d.without }

// CardBandwidth returns how many bytes a second the memory of the card gives at most, by its clock
// and bus; 0 = the card does not tell.
func (d Device) CardBandwidth() float64 { return d.gpu.card.Bandwidth }

// usualShare of the memory that is available at the start is what a server takes: it runs long,
// its pools fill, and others need some.
const usualShare = 0.9

// Memory returns the bytes that a model may take with its device, 0 = unknown: a share of what is
// available; 0 = what is usual, for processors all of it, with serving what a server takes.
func (d Device) Memory(share float64, serving bool) int64 {
	switch {
	case d.gpu != nil:
		return d.gpu.memory(share)
	case share == 0 && serving:
		share = usualShare
	case share == 0:
		share = 1
	}
	return int64(share * float64(plan.Available()))
}

// Bandwidth measures how many bytes of weights a second the device reads at most.
func Bandwidth(ctx context.Context, threads int) (float64, error) { return cpu.Bandwidth(ctx, threads) }

// A PackedReport tells people about the packed forms of a model; its zero value says that
// there are none and that none will be made.
type PackedReport = cpu.PackedReport

// Packed tells what a start would do about packed weights, and has d do it.
func (d *Device) Packed(checkpoint *ckpt.Model) (r PackedReport) {
	if d.gpu != nil {
		return r
	}
	d.keepPacked(checkpoint, "auto", true, func(why string) { r.State = why })
	return r.Complete(d.cfg.Packed, checkpoint.Beside("packed"))
}

// RemovePacked removes the files of packed weights beside a model, and names them on status.
func RemovePacked(checkpoint *ckpt.Model, status io.Writer) error {
	removed, err := cpu.RemovePacked(checkpoint.Beside("packed"))
	for _, f := range removed {
		fmt.Fprintln(status, "removed", f)
	}
	return err
}

// keepPacked has d use the packed form of a checkpoint in a file where that can be, one that is not
// there yet only with mayMake, and tells note why it cannot. The file is read and made by
// prepare.
func (d *Device) keepPacked(checkpoint *ckpt.Model, setting string, mayMake bool, note func(string)) {
	source, mode, err := checkpoint.Source()
	if err != nil || d.simulated != nil || d.gpu != nil {
		return // the model inside the program, no weights at all, or weights in a card's memory
	}
	at := cpu.Place{Prefix: checkpoint.Beside("packed"), Source: source, Mode: mode}
	kept, why := cpu.KeepPacked(checkpoint.Spec, d.cfg, checkpoint.Params, at, setting, mayMake)
	if kept != nil {
		d.cfg.Packed = kept
		checkpoint.Attach(&watchedPacked{Packed: kept}) // and is closed with it
	} else if why != "" {
		note(why)
	}
}

// A watchedPacked tells a checkpoint whether the file of packed weights is what it was.
type watchedPacked struct {
	*cpu.Packed
	disk  *os.File    // what watch watches; nil = nothing yet
	watch *watch.File // made when there is a file
}

// Unchanged returns the path of the file, and how it differs from what was mapped; "" = it does
// not. One goroutine at a time may call it.
func (p *watchedPacked) Unchanged() (path, how string) {
	disk, was := p.Disk()
	if disk == nil {
		return "", ""
	}
	if p.disk != disk {
		p.disk, p.watch = disk, watch.New(disk, was)
	}
	return p.Path(), p.watch.Differs()
}

// prepare has check, which may be nil, look for damage in what will be read, and brings
// the packed form into use.
func (d *Device) prepare(ctx context.Context, check func(elsewhere map[string]bool) error, show bar, note func(string)) error {
	if d.simulated != nil {
		return ctx.Err()
	}
	ready, err := d.cfg.Packed.Prepare(ctx, check, show, note)
	if !ready {
		d.cfg.Packed = nil
	}
	return err
}

// open puts a checkpoint on the device.
func (d *Device) open(ctx context.Context, checkpoint *ckpt.Model, lim model.Limits, show bar) (runner.Runner, Choice, error) {
	if d.simulated != nil {
		return d.openSimulated(ctx, checkpoint, lim)
	}
	if d.gpu != nil {
		return d.gpu.open(ctx, checkpoint, lim, show)
	}
	none := Choice{}
	dev, err := cpu.New(checkpoint.Spec, lim, d.cfg)
	if err != nil {
		return nil, none, err
	}
	// More than the workers, who spin, so that signals, the network and the garbage
	// collector get a turn (reliability.md HLT-3).
	runtime.GOMAXPROCS(d.cfg.Threads + 2)
	add, done := show("loading", parameterBytes(checkpoint))
	defer done()
	open := false
	defer func() {
		if !open { // also where reading panics
			dev.Close()
		}
	}()
	decoder, err := model.NewDecoder(checkpoint.Spec, checkpoint.Params, dev, lim, func(_ string, bytes int64) error {
		add(bytes)
		return ctx.Err()
	})
	if err != nil {
		return nil, none, fmt.Errorf("loading %s: %w", checkpoint.Path, err)
	}
	choice := dev.Choose(ctx)
	runtime.GOMAXPROCS(choice.Threads + 2)
	open = true
	return decoder, Choice{Choice: choice, without: d.without}, nil
}

// headCost returns what a head takes of the device with limits, its own, beside a target with those of
// its own.
func (d Device) headCost(spec *model.HeadSpec, params map[string]tensor.Tensor, own, of model.Limits) (plan.Footprint, error) {
	if d.gpu != nil {
		return d.gpu.headCost(spec, params, own, of)
	}
	need, err := cpu.Counted(&spec.Spec, own, d.cfg, func(device *cpu.Device) error {
		_, err := model.NewHead(spec, params, device, own)
		return err
	})
	// What it reads of the target, and that side by side as matrices take it.
	features := int64(spec.Features()) * int64(spec.Target)
	need.Activations += 4 * features * int64(of.MaxTokens+own.MaxTokens)
	return plan.Footprint{Weights: need.Weights, Mapped: need.Mapped, KV: need.KV, Activations: need.Activations}, err
}

// beside returns a device for a head of a target that computes on the device of.
func (d Device) beside(of model.Device, spec *model.Spec, lim model.Limits) (model.Joiner, error) {
	if d.gpu != nil {
		return d.gpu.beside(of, spec, lim)
	}
	return cpu.New(spec, lim, d.cfg)
}

// preload has the device on get ready for its steps.
func (d Device) preload(on model.Joiner) error {
	if card, is := on.(*cuda.Device); is {
		return card.Preload()
	}
	return nil
}

// keep has d use the machine as c says.
func (d *Device) keep(c Choice) {
	d.cfg.ISA, d.cfg.Threads, d.cfg.Fewer, d.cfg.Fetch = c.ISA, c.Threads, nil, c.Fetch
}

// Threads returns how many threads compute, as far as that is known before the model is open.
func (d Device) Threads() int { return d.cfg.Threads }

// InstructionsGiven reports whether somebody has said which instructions to use.
func (d Device) InstructionsGiven() bool { return d.cfg.ISA != "" }

// Measures reports whether the start of a model with so many bytes of weights measures which instructions
// and how many threads are the fastest, so that it may choose fewer than there are.
func Measures(weights int64) bool { return weights >= cpu.LeastMeasured }

// BestInstructions are the widest that this machine and build have.
func BestInstructions() string { return cpu.BestISA() }

// ActivationBits returns in how many bits activations meet the weights that a checkpoint has
// quantised, and in how many they would if nobody had asked; 0 = none of its weights are.
func (d Device) ActivationBits(checkpoint *ckpt.Model) (bits, automatic int) {
	if d.gpu != nil {
		return 16, 16
	}
	alone := d.cfg
	alone.Activations, alone.Exact = 0, false
	return d.cfg.ActivationBits(checkpoint.Spec, checkpoint.Params), alone.ActivationBits(checkpoint.Spec, checkpoint.Params)
}

// Rounded reports whether the device keeps some weight in fewer bits than the checkpoint has.
func (d Device) Rounded(checkpoint *ckpt.Model) (bool, error) {
	kept, err := d.Kept(checkpoint)
	for name, parameter := range kept {
		if parameter.DType == tensor.Q8_0 && checkpoint.Params[name].DType != tensor.Q8_0 {
			return true, err
		}
	}
	return false, err
}

// KV returns the name of the type of cached keys and values.
func (d Device) KV() string {
	if d.gpu != nil {
		return d.gpu.cfg.KV.String()
	}
	return d.cfg.KV.String()
}
