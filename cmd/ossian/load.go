package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"unicode"

	"github.com/spf13/pflag"

	"ossian/internal/ckpt"
	"ossian/internal/cpu"
	"ossian/internal/model"
	"ossian/internal/plan"
	"ossian/internal/runner"
	"ossian/internal/tensor"
	"ossian/internal/tiny"
)

// loadOptions are the flags that say how a model is put on the device. Names are
// vLLM's where the meaning is the same.
type loadOptions struct {
	threads, maxLen, maxTokens int
	kv, weights, packed        string
	noVerify, exact            bool
	activations                int

	seqs   int   // rows per step; 0 = 1. No flag: the command's own need
	blocks []int // KV pool of each group; nil = what seqs sequences of maxLen need
	keep   int   // tokens by which a later prompt may fall back behind what was computed without starting over
}

func (o *loadOptions) flags(f *pflag.FlagSet) {
	f.IntVar(&o.threads, "threads", 0, "compute with `N` threads; 0 = all, or fewer where large models are measured to be faster")
	f.IntVar(&o.maxLen, "max-model-len", 0, "tokens of context; 0 = the checkpoint's, or as many as fit into memory")
	f.IntVar(&o.maxTokens, "max-num-batched-tokens", 0, "prompt tokens per step; 0 = 512")
	f.StringVar(&o.kv, "kv-cache-dtype", "auto", "keys and values as auto (bf16), bf16, f32 or fp8 (E4M3)")
	f.BoolVar(&o.noVerify, "no-verify", false, "do not look for damage in the files before using them")
	f.IntVar(&o.activations, "activation-bits", 0, "8 or 16 `BITS` for what meets quantised weights; 0 = 8 for weights that the checkpoint has quantised (not in narrow models), else 16. 16 also keeps float32 where BF16 weights would meet BF16")
	f.StringVar(&o.weights, "cpu-weights", "auto", "bf16 keeps 16- and 32-bit weights as they are, q8 puts them in 8 bits (not routers); auto = q8 for attention and output projections of mixtures")
	f.StringVar(&o.packed, "packed-weights", "auto", "auto keeps what large models repack in a file beside them, which later starts map; on = small ones too; off = none")
	f.BoolVar(&o.exact, "exact", false, "float32 activations with quantised weights: slow, for comparisons")
}

// device returns the device settings that the flags and OSSIAN_ISA ask for.
func (o *loadOptions) device() (cpu.Config, error) {
	c := cpu.Config{Threads: o.threads, ISA: strings.ToLower(os.Getenv("OSSIAN_ISA")), Activations: o.activations,
		Weights: strings.ToLower(o.weights), Exact: o.exact}
	if c.Threads == 0 {
		counts := plan.ThisProcess().Counts()
		c.Threads, c.Fewer = counts[0], counts[1:]
	}
	if o.packed = strings.ToLower(o.packed); o.packed != "" && !slices.Contains([]string{"auto", "on", "off"}, o.packed) {
		return c, fmt.Errorf("--packed-weights %q: auto, on or off expected", o.packed)
	}
	switch strings.ToLower(o.kv) {
	case "auto", "bf16", "bfloat16":
		c.KV = tensor.BF16
	case "f32", "float32":
		c.KV = tensor.F32
	case "fp8", "fp8_e4m3":
		c.KV = tensor.F8_E4M3
	default:
		return c, fmt.Errorf("--kv-cache-dtype %q: auto, bf16, f32 or fp8 expected", o.kv)
	}
	return c, nil
}

// openModel finds and opens a model, "" = the built-in one: headers only, so that
// every error they can show comes before a weight is read.
func openModel(name string) (*ckpt.Model, error) {
	m, err := startModel(name)
	if err != nil {
		return nil, err
	}
	if err := m.Finish(); err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return m, nil
}

// startModel is openModel before ckpt.Model.Finish.
func startModel(name string) (*ckpt.Model, error) {
	if builtIn(name) {
		return ckpt.OpenFS(tiny.FS(), tiny.Name)
	}
	path, err := resolveModel(name)
	if err != nil {
		return nil, err
	}
	m, err := ckpt.Start(path)
	if err == nil && path != name {
		m.Spec.Name = name // in the cache the directory's name is a commit
	}
	return m, err
}

// builtIn reports whether name is the model inside the program; a file of its name
// comes first.
func builtIn(name string) bool { return name == "" || (name == tiny.Name && !exists(name)) }

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// namesModel reports whether the first of args can only be meant as a model, so
// that the others are the prompt: an existing path, a path or ORG/NAME that does
// not exist, a GGUF file, an identifier such as gpt-oss-20b, or any bare word with
// more words behind it. Sums, a word alone and anything with a blank are prompts.
func namesModel(args []string) bool {
	if len(args) == 0 {
		return false
	}
	word := args[0]
	if word == tiny.Name || exists(word) {
		return true
	}
	plain := func(r rune) bool {
		return unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune(`-_./\:@~`, r)
	}
	if strings.ContainsFunc(word, func(r rune) bool { return !plain(r) }) || !strings.ContainsFunc(word, unicode.IsLetter) {
		return false
	}
	return (len(args) > 1 && args[1] != "-") || strings.ContainsAny(word, `/\@`) || strings.HasSuffix(word, ".gguf") ||
		(strings.Contains(word, "-") && strings.ContainsFunc(word, unicode.IsDigit))
}

// runner plans the memory, looks for damage, and loads m for one sequence. status
// shows progress and may be nil. The runner reads m's mapped files: close it first.
func (o *loadOptions) runner(ctx context.Context, m *ckpt.Model, status io.Writer) (runner.Runner, error) {
	cfg, err := o.device()
	if err != nil {
		return nil, err
	}
	note := noteTo(status)
	o.keepPacked(m, &cfg, note)
	ask := model.Limits{MaxSeqs: max(o.seqs, 1), MaxTokens: o.maxTokens, MaxLen: o.maxLen, Blocks: o.blocks}
	cost := deviceCost(m, cfg)
	p, err := plan.Fit(m.Spec, ask, plan.Available(), func(lim model.Limits) (plan.Footprint, error) { return cost(o.roomy(lim)) })
	if err != nil {
		return nil, err
	}
	if err := o.prepare(ctx, m, &cfg, status, note); err != nil {
		return nil, err
	}
	r, choice, err := openRunner(ctx, m, cfg, o.roomy(p.Limits), status)
	if err == nil && choice.Measured() {
		note("cpu: " + choice.String())
	}
	return r, err
}

// verify looks for damage, not in the parameters that are read elsewhere.
func verify(ctx context.Context, m *ckpt.Model, elsewhere map[string]bool, status io.Writer) error {
	bar := newLateProgress(status, "checking "+m.Spec.Name)
	err := m.VerifyBut(ctx, elsewhere, bar.report)
	bar.done()
	if _, damaged := errors.AsType[*ckpt.Error](err); damaged {
		err = fmt.Errorf("%w; fetch the model again (ossian pull --force), or use it as it is with --no-verify", err)
	}
	return err
}

// openRunner loads m onto the device, which chooses how it uses the machine.
func openRunner(ctx context.Context, m *ckpt.Model, cfg cpu.Config, lim model.Limits, status io.Writer) (runner.Runner, cpu.Choice, error) {
	none := cpu.Choice{}
	d, err := cpu.New(m.Spec, lim, cfg)
	if err != nil {
		return nil, none, err
	}
	// More than the workers, who spin, so that signals, the network and the garbage
	// collector get a turn (reliability.md HLT-3).
	runtime.GOMAXPROCS(cfg.Threads + 2)
	bar := newProgress(status, "loading "+m.Spec.Name, unitBytes, total(m))
	defer bar.Done()
	r, err := model.NewDecoder(m.Spec, m.Params, d, lim, func(_ string, bytes int64) error {
		bar.Add(bytes)
		return ctx.Err()
	})
	if err != nil {
		d.Close()
		return nil, none, fmt.Errorf("loading %s: %w", m.Path, err)
	}
	choice := d.Choose(ctx)
	runtime.GOMAXPROCS(choice.Threads + 2)
	return r, choice, nil
}

// roomy returns lim with keep more tokens in each KV pool that does not hold whole
// sequences.
func (o *loadOptions) roomy(lim model.Limits) model.Limits {
	whole := lim.MaxSeqs * ((lim.MaxLen + lim.BlockSize - 1) / lim.BlockSize)
	lim.Blocks = slices.Clone(lim.Blocks)
	for g, n := range lim.Blocks {
		lim.Blocks[g] = max(n, min(n+o.keep/lim.BlockSize, whole))
	}
	return lim
}

// total returns the bytes of all parameters.
func total(m *ckpt.Model) (n int64) {
	for _, t := range m.Params {
		n += t.Bytes()
	}
	return n
}

// together runs both functions at once, ends second's context when first fails, and returns
// when neither runs any more: first's error, else second's.
func together(ctx context.Context, first func() error, second func(context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	failed := make(chan error, 1)
	go func() {
		err := first()
		if err != nil {
			cancel()
		}
		failed <- err
	}()
	err := second(ctx)
	return cmp.Or(<-failed, err)
}
