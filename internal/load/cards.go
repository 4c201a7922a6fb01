package load

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"ossian/internal/ckpt"
	"ossian/internal/cuda"
	"ossian/internal/cuda/driver/libcuda"
	"ossian/internal/cuda/emu"
	"ossian/internal/model"
	"ossian/internal/plan"
	"ossian/internal/runner"
	"ossian/internal/tensor"
)

// A gpu is a card on which a model is to be computed.
type gpu struct {
	cfg      cuda.Config
	card     cuda.Card
	emulated bool
}

// cudaPrefix begins the names of cards, cuda and cuda:N; emulated names the emulator, which is for
// tests and the curious: a token of a large model takes it hours.
const (
	cudaPrefix = "cuda"
	emulated   = "emu"
)

// keptFree is what is left of a real card's memory for the driver's own needs: kernels' code,
// local memory, and what other programs on the machine take for their windows meanwhile.
const keptFree = 1 << 30

// The emulator keeps a byte beside every byte of a card, which says whether somebody wrote it, and
// both lie in the machine's memory.
const (
	emulatedFactor = 2
	emulatedMost   = 4 << 30 // bytes of a model: a larger one is of no use on an emulator
)

// cardTokens is how many prompt tokens a step of a card has at most: with 32 experts of which 4 are
// chosen, each sees 256 of them, two tiles of its product.
const cardTokens = 2048

// openDriver opens the machine's CUDA driver, findDriver says where it is; tests have others.
var openDriver, findDriver = libcuda.Open, libcuda.Find

// namesCard reports whether a device of that name is a card, and which.
func namesCard(name string) (ordinal int, is bool, err error) {
	rest, is := strings.CutPrefix(name, cudaPrefix)
	if !is || (rest != "" && rest[0] != ':') {
		return 0, false, nil
	}
	if rest == "" {
		return 0, true, nil
	}
	ordinal, err = strconv.Atoi(rest[1:])
	if err != nil || ordinal < 0 || ordinal > 1<<10 {
		return 0, true, fmt.Errorf("--device %q: cuda:N with the number of one card, from 0, expected", name)
	}
	return ordinal, true, nil
}

// openCard returns the card of that number, on which a model with these options is to be computed.
func (o *Options) openCard(ordinal int) (*gpu, error) {
	cfg := cuda.Config{Ordinal: ordinal, Blocking: os.Getenv("OSSIAN_CUDA_BLOCKING") == "1"}
	if err := o.onCard(&cfg); err != nil {
		return nil, err
	}
	var err error
	cfg.Driver, err = openDriver()
	if errors.Is(err, libcuda.ErrNotBuilt) { // where there is no driver, another build would not help
		if _, missing := findDriver(); missing != nil {
			err = missing
		}
	}
	if errors.As(err, new(*libcuda.NotFoundError)) {
		err = fmt.Errorf("%w: install the driver, or take --device cpu", err)
	}
	if err != nil {
		return nil, err
	}
	opened := &gpu{cfg: cfg}
	opened.card, err = cuda.Probe(cfg.Driver, ordinal)
	return opened, err
}

// openEmulated returns the emulator as a card.
func (o *Options) openEmulated() (*gpu, error) {
	cfg := cuda.Config{}
	if err := o.onCard(&cfg); err != nil {
		return nil, err
	}
	cfg.Driver = emu.New(emu.Card{}).Driver()
	opened := &gpu{cfg: cfg, emulated: true}
	var err error
	opened.card, err = cuda.Probe(cfg.Driver, 0)
	return opened, err
}

// onCard sets what options ask of a card, and refuses what only processors do.
func (o *Options) onCard(cfg *cuda.Config) error {
	switch strings.ToLower(o.KV) {
	case "", "auto", "bf16", "bfloat16":
		cfg.KV = tensor.BF16
	case "fp8", "fp8_e4m3":
		cfg.KV = tensor.F8_E4M3
	case "f32", "float32":
		return fmt.Errorf("--kv-cache-dtype %s: a card keeps keys and values as bf16 or fp8 (E4M3); --device cpu has f32 as well", o.KV)
	default:
		return fmt.Errorf("--kv-cache-dtype %q: a card keeps keys and values as auto (bf16), bf16 or fp8 (E4M3)", o.KV)
	}
	// What processors can and a card cannot is refused, and not ignored: it would change results
	// unseen.
	if o.Exact {
		return errors.New("--exact is of processors: a card computes in bf16; leave it out, or take --device cpu")
	}
	if o.Activations == 8 {
		return errors.New("--activation-bits 8 is of processors: on a card activations have 16; leave it out, or take --device cpu")
	}
	if weights := strings.ToLower(o.Weights); !slices.Contains([]string{"", "auto", "bf16"}, weights) {
		return fmt.Errorf("--cpu-weights %s is of processors: a card keeps weights as they are, or in bf16; leave it out, or take --device cpu", weights)
	}
	return nil
}

// suits returns why a card will not compute a checkpoint with these options, nil if it will.
func (o *Options) suits(g *gpu, checkpoint *ckpt.Model) error {
	if err := cuda.Supports(checkpoint.Spec, checkpoint.Params); err != nil {
		return err
	}
	ask := model.Limits{MaxSeqs: max(o.Seqs, 1), MaxTokens: o.MaxTokens, MaxLen: o.MaxLen, Blocks: o.Blocks}
	if ask.MaxTokens == 0 {
		ask.MaxTokens = Device{gpu: g}.Tokens(checkpoint, ask.MaxSeqs)
	}
	_, err := plan.Fit(checkpoint.Spec, ask, g.memory(0), g.cost(checkpoint))
	return err
}

// automatic returns the device of --device auto: the first card if there is one that suits the
// checkpoint, nil otherwise, and why.
func (o *Options) automatic(checkpoint *ckpt.Model) (chosen *gpu, why string) {
	if _, err := findDriver(); err != nil {
		return nil, "" // most machines have no card, of which nothing need be said
	}
	opened, err := o.openCard(0)
	if err == nil {
		err = o.suits(opened, checkpoint)
	}
	if err != nil {
		return nil, fmt.Sprintf("computing on processors, since there is a driver of NVIDIA's but %v", err)
	}
	return opened, ""
}

// memory returns the bytes of the card that a model may take, with a share of what is free where
// one was asked for; 0 = none was.
func (g *gpu) memory(share float64) int64 {
	free := g.card.Free
	if g.emulated {
		free = emulatedMemory(free, plan.Available())
	}
	switch {
	case share > 0:
		return int64(share * float64(free))
	case g.emulated:
		return free
	}
	return free - keptFree
}

// emulatedMemory returns the bytes of an emulated card that a model may take, where the card has
// free bytes and the machine available ones; 0 = unknown.
func emulatedMemory(free, available int64) int64 {
	free = min(free, emulatedMost)
	if available <= 0 {
		return free
	}
	return min(free, int64(usualShare*float64(available))/emulatedFactor)
}

// cost returns what the device takes of the card. What the process takes around it is not of the
// card, and small beside the memory of machines that have one.
func (g *gpu) cost(checkpoint *ckpt.Model) plan.Cost {
	return func(lim model.Limits) (plan.Footprint, error) {
		need, err := cuda.Footprint(checkpoint.Spec, lim, g.cfg, checkpoint.Params)
		return plan.Footprint{Card: g.card.Name, Weights: need.Weights, KV: need.KV, Activations: need.Activations, Runtime: plan.RuntimeBytes(checkpoint.Spec)}, err
	}
}

// headCost is Device.headCost on the card.
func (g *gpu) headCost(spec *model.HeadSpec, params map[string]tensor.Tensor, own, of model.Limits) (plan.Footprint, error) {
	need, err := cuda.Counted(&spec.Spec, own, g.cfg, func(device *cuda.Device) error {
		_, err := model.NewHead(spec, params, device, own)
		for range spec.Features() { // what it reads of the target lies there
			if err == nil {
				_, err = device.Alloc(of.MaxTokens, spec.Target)
			}
		}
		return err
	})
	return plan.Footprint{Weights: need.Weights, KV: need.KV, Activations: need.Activations}, err
}

// beside is Device.beside on the card.
func (g *gpu) beside(of model.Device, spec *model.Spec, lim model.Limits) (model.Joiner, error) {
	target, ok := of.(*cuda.Device)
	if !ok {
		return nil, fmt.Errorf("what is guessed for does not compute on %s", g.kind())
	}
	cfg := g.cfg
	cfg.Beside = target
	return cuda.New(spec, lim, cfg)
}

// line is what is told of the card to people.
func (g *gpu) line() string {
	const gb = 1e9
	return fmt.Sprintf("%s: %s, compute capability %d.%d, %.1f of %.1f GB free", g.kind(), g.card.Name, g.card.Major, g.card.Minor, float64(g.card.Free)/gb, float64(g.card.Total)/gb)
}

// kind is the name of the device in messages.
func (g *gpu) kind() string {
	if g.emulated {
		return emulated
	}
	return fmt.Sprintf("%s:%d", cudaPrefix, g.cfg.Ordinal)
}

// open puts a checkpoint on the card.
func (g *gpu) open(ctx context.Context, checkpoint *ckpt.Model, lim model.Limits, show bar) (runner.Runner, Choice, error) {
	dev, err := cuda.New(checkpoint.Spec, lim, g.cfg)
	if err != nil {
		return nil, Choice{}, err
	}
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
		return nil, Choice{}, fmt.Errorf("loading %s: %w", checkpoint.Path, err)
	}
	if err := dev.Preload(); err != nil {
		return nil, Choice{}, err
	}
	open = true
	return decoder, Choice{line: g.line()}, nil
}
