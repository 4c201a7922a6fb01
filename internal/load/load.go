// Package load brings a model from its name to a runner: it finds and opens it, looks for
// damage, chooses the device and puts the weights on it. Commands know neither where models
// lie nor what computes; device.go alone knows what kinds of devices there are.
package load

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"ossian/internal/ckpt"
	"ossian/internal/model"
	"ossian/internal/plan"
	"ossian/internal/runner"
	"ossian/internal/terminal"
)

// Options are the flags that say how a model is put on the device. Names are
// vLLM's where the meaning is the same.
type Options struct {
	Threads, MaxLen, MaxTokens int
	KV, Weights, Packed        string
	Device                     string // "", auto, cpu, cuda, cuda:N, sim:MACHINE
	NoVerify, Exact            bool
	Activations                int

	Seqs      int    // rows per step; 0 = 1. No flag, as of the others below: the command's own need
	Lookahead int    // guesses that a row may carry
	Draft     *Draft // what guesses beside the model; nil = nothing does
	Blocks    []int  // KV pool of each group; nil = what Seqs sequences of MaxLen need
	Keep      int    // tokens by which a later prompt may fall back behind what was computed without starting over
}

// Flags adds the flags to a command's.
func (o *Options) Flags(flags *pflag.FlagSet) {
	flags.StringVar(&o.Device, "device", "auto", "`DEVICE` that computes: cpu, cuda or cuda:N, one card of NVIDIA's; auto = a card if there is one that has room for the model, else cpu")
	flags.IntVar(&o.Threads, "threads", 0, "compute with `N` threads; 0 = all, or fewer where large models are measured to be faster")
	flags.IntVar(&o.MaxLen, "max-model-len", 0, "tokens of context; 0 = the checkpoint's, or as many as fit into memory")
	flags.IntVar(&o.MaxTokens, "max-num-batched-tokens", 0, "prompt tokens per step; 0 = 512, on a card 2048")
	flags.StringVar(&o.KV, "kv-cache-dtype", "auto", "keys and values as auto (bf16), bf16, f32 or fp8 (E4M3)")
	flags.BoolVar(&o.NoVerify, "no-verify", false, "do not look for damage in the files before using them")
	flags.IntVar(&o.Activations, "activation-bits", 0, "8 or 16 `BITS` for what meets quantised weights; 0 = 8 for weights that the checkpoint has quantised (not in narrow models), else 16. 16 also keeps float32 where BF16 weights would meet BF16")
	flags.StringVar(&o.Weights, "cpu-weights", "auto", "bf16 keeps 16- and 32-bit weights as they are, q8 puts them in 8 bits (not routers); auto = q8 for attention and output projections of mixtures")
	flags.StringVar(&o.Packed, "packed-weights", "auto", "auto keeps what large models repack in a file beside them, which later starts map; on = small ones too; off = none")
	flags.BoolVar(&o.Exact, "exact", false, "float32 activations with quantised weights: slow, for comparisons")
}

// checkPacked refuses a setting of packed weights that there is not.
func (o *Options) checkPacked() error {
	o.Packed = strings.ToLower(o.Packed)
	if o.Packed != "" && !slices.Contains([]string{"auto", "on", "off"}, o.Packed) {
		return fmt.Errorf("--packed-weights %q: auto, on or off expected", o.Packed)
	}
	return nil
}

// A Loading is a model on its way to the device: begun → planned by its user, who asks Cost
// → prepared → open. Its device is chosen and a packed form of the weights is found when
// it begins; no weight is read before Prepare. One goroutine at a time uses it.
type Loading struct {
	options    *Options
	checkpoint *ckpt.Model
	device     Device
	drafter    drafter // nil = none
	note       func(string)
}

// Begin begins to load a checkpoint. What the options ask for and cannot be is an error;
// note is told in a line what is done otherwise.
func (o *Options) Begin(checkpoint *ckpt.Model, note func(string)) (*Loading, error) {
	device, err := o.device(checkpoint, note)
	if err != nil {
		return nil, err
	}
	device.keepPacked(checkpoint, o.Packed, !o.NoVerify, note)
	beside, err := o.beginDraft(checkpoint, device, note)
	if err != nil {
		return nil, err
	}
	return &Loading{options: o, checkpoint: checkpoint, device: device, drafter: beside, note: note}, nil
}

// Cost returns what the device and the process around it take, with what guesses beside the model.
func (l *Loading) Cost() plan.Cost {
	if l.drafter != nil {
		return l.withDraft(l.device.Cost(l.checkpoint))
	}
	return l.device.Cost(l.checkpoint)
}

// Device returns the device as it is to be used.
func (l *Loading) Device() Device { return l.device }

// Prepare looks for damage in what will be read, and brings the packed form into use.
// status shows progress and may be nil.
func (l *Loading) Prepare(ctx context.Context, status io.Writer) error {
	var check func(elsewhere map[string]bool) error
	if !l.options.NoVerify {
		check = func(elsewhere map[string]bool) error { return Verify(ctx, l.checkpoint, elsewhere, status) }
	}
	if err := l.checkpoint.Guard(func() error { return l.device.prepare(ctx, check, l.bar(status), l.note) }); err != nil || l.drafter == nil {
		return err
	}
	return l.drafter.prepare(ctx, status)
}

// Open loads the model onto the device, which chooses how it uses the machine. It may be
// called again when the runner is closed. The runner reads the model's mapped files: it is
// to be closed first. If one of them is changed meanwhile, Open and the steps of the runner return
// a *ckpt.ChangedError.
func (l *Loading) Open(ctx context.Context, lim model.Limits, status io.Writer) (opened runner.Runner, choice Choice, err error) {
	if err := l.Unchanged(); err != nil {
		return nil, choice, err
	}
	err = l.checkpoint.Guard(func() (err error) {
		opened, choice, err = l.device.open(ctx, l.checkpoint, lim, l.bar(status))
		return err
	})
	if err != nil {
		if opened != nil { // a file changed while it was read
			err = errors.Join(err, opened.Close())
		}
		return nil, choice, err
	}
	target := &watched{opened, l.checkpoint}
	if l.drafter == nil {
		return target, choice, nil
	}
	both, err := l.openDraft(ctx, opened, target, lim, choice, status)
	if err != nil {
		return nil, choice, errors.Join(err, target.Close())
	}
	return both, choice, nil
}

// Unchanged returns a *ckpt.ChangedError if a file that the model is read from was cut or
// written to since it was mapped: see ckpt.Model.Unchanged. The steps of the runner ask
// it themselves; a server that has no steps to run asks it to know whether it is ready.
func (l *Loading) Unchanged() error { return l.checkpoint.Unchanged() }

// A bar shows the progress of what is being done with total bytes: add counts some more,
// and done ends it.
type bar func(doing string, total int64) (add func(int64), done func())

func (l *Loading) bar(status io.Writer) bar {
	return func(doing string, total int64) (add func(int64), done func()) {
		p := terminal.NewProgress(status, doing+" "+l.checkpoint.Spec.Name, terminal.Bytes, total)
		return p.Add, p.Done
	}
}

// Keep has later calls of Open use the machine as c says, without measuring it again.
func (l *Loading) Keep(c Choice) { l.device.keep(c) }

// Runner plans the memory, looks for damage, and loads a checkpoint for one sequence. status
// shows progress and may be nil. The runner reads the checkpoint's mapped files: close it
// first.
func (o *Options) Runner(ctx context.Context, checkpoint *ckpt.Model, status io.Writer) (runner.Runner, error) {
	loading, err := o.Begin(checkpoint, NoteTo(status))
	if err != nil {
		return nil, err
	}
	ask := model.Limits{MaxSeqs: max(o.Seqs, 1), MaxTokens: o.MaxTokens, MaxLen: o.MaxLen, Blocks: o.Blocks, Lookahead: o.Lookahead}
	if ask.MaxTokens == 0 {
		ask.MaxTokens = loading.device.Tokens(checkpoint, ask.MaxSeqs)
	}
	cost := loading.Cost() // with the room for later prompts, which the plan itself knows nothing of
	planned, err := plan.Fit(checkpoint.Spec, ask, loading.device.Memory(0, false), func(lim model.Limits) (plan.Footprint, error) { return cost(o.roomy(lim)) })
	if err != nil {
		return nil, err
	}
	if err := loading.Prepare(ctx, status); err != nil {
		return nil, err
	}
	r, choice, err := loading.Open(ctx, o.roomy(planned.Limits), status)
	if err == nil && choice.Measured() {
		loading.note(choice.Line())
	}
	return r, err
}

// roomy returns lim with Keep more tokens in each KV pool that does not hold whole
// sequences.
func (o *Options) roomy(lim model.Limits) model.Limits {
	whole := lim.MaxSeqs * ((lim.MaxLen + lim.BlockSize - 1) / lim.BlockSize)
	lim.Blocks = slices.Clone(lim.Blocks)
	for g, n := range lim.Blocks {
		lim.Blocks[g] = max(n, min(n+o.Keep/lim.BlockSize, whole))
	}
	return lim
}

// Verify looks for damage in a checkpoint, but not in the parameters that are read elsewhere. status
// shows progress and may be nil.
func Verify(ctx context.Context, checkpoint *ckpt.Model, elsewhere map[string]bool, status io.Writer) error {
	bar := terminal.NewLateProgress(status, "checking "+checkpoint.Spec.Name)
	err := checkpoint.Verify(ctx, elsewhere, bar.Report)
	bar.Done()
	if _, damaged := errors.AsType[*ckpt.Error](err); damaged {
		err = fmt.Errorf("%w; fetch the model again (ossian pull --force), or use it as it is with --no-verify", err)
	}
	return err
}

// NoteTo returns what writes a line to status, which may be nil.
func NoteTo(status io.Writer) func(string) {
	return func(text string) {
		if status != nil {
			fmt.Fprintln(status, text)
		}
	}
}

// parameterBytes returns the bytes of all parameters.
func parameterBytes(checkpoint *ckpt.Model) (bytes int64) {
	for _, t := range checkpoint.Params {
		bytes += t.Bytes()
	}
	return bytes
}

// Tables returns the block tables, [group][block], of the one sequence that a runner
// computes: it has all blocks, and windowed groups use their pool as a ring.
func Tables(info runner.Info) (tables [][]runner.BlockID) {
	blocks := (info.MaxLen + info.BlockSize - 1) / info.BlockSize
	for _, group := range info.Groups {
		table := make([]runner.BlockID, blocks)
		for i := range table {
			table[i] = runner.BlockID(i % group.Blocks)
		}
		tables = append(tables, table)
	}
	return tables
}
