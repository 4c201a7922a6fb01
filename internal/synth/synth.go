// Package synth writes checkpoints with random weights: the configuration, tensor
// names, shapes, types and tokenizer of a supported family at any size, as a
// Hugging Face directory or a GGUF file. Its users need neither a download nor a
// trained model to test a reader, to compare two engines, or to measure speed.
//
// The weights are a function of the seed, the parameter and the element alone, so
// both containers hold the same values, and every value is exact in BF16, F16 and
// F32. They are scaled so that activations keep their size through the depth,
// tokens stay distinct and routers pick experts about uniformly, as trained ones
// roughly do.
package synth

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"ossian/internal/tensor"
)

// A Format is a container.
type Format uint8

const (
	HuggingFace Format = iota // a directory: config.json, safetensors, tokenizer.json
	GGUF                      // one file
)

// Options say what to write. Only Model is required.
type Options struct {
	Model      Model
	Format     Format
	Type       tensor.DType // of matrices; 0 = BF16. gpt-oss experts are always MXFP4; GGUF keeps vectors and routers in F32
	Seed       uint64
	ShardBytes int64 // HuggingFace: start a new file beyond this many bytes; 0 = 5e9
}

// Write writes the checkpoint to path: a new directory, or a GGUF file that
// replaces an older one. Until everything is written the name does not exist; a
// failure or a cancelled ctx leaves nothing behind. Memory stays below a few
// hundred MB at any size. progress, which may be nil, is told bytes of tensor data.
func Write(ctx context.Context, path string, options Options, progress func(done, total int64)) (err error) {
	if err := options.check(); err != nil {
		return fmt.Errorf("synthetic %s: %w", options.Model.Name, err)
	}
	if options.Type == tensor.Invalid {
		options.Type = tensor.BF16
	}
	if options.ShardBytes == 0 {
		options.ShardBytes = 5e9
	}
	path = filepath.Clean(path)
	if err := options.vacate(path); err != nil {
		return fmt.Errorf("synthetic %s: %w", options.Model.Name, err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("synthetic %s: %w", options.Model.Name, err)
	}
	// All is written in a folder beside the place it is meant for, and renamed at the end.
	tmp, err := os.MkdirTemp(filepath.Dir(path), filepath.Base(path)+".partial-")
	if err != nil {
		return fmt.Errorf("synthetic %s: %w", options.Model.Name, err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(tmp)) }()
	writing := &writer{ctx: ctx, gen: newGenerator(&options), progress: progress}
	from := filepath.Join(tmp, "model")
	if options.Format == GGUF {
		err = writing.gguf(from, &options)
	} else {
		err = writing.huggingFace(from, &options)
	}
	if err == nil {
		err = os.Rename(from, path)
	}
	if err != nil {
		return fmt.Errorf("synthetic %s: %w (%d of %d bytes of tensors were written)", options.Model.Name, err, writing.done, writing.total)
	}
	return nil
}

// vacate makes sure, before gigabytes are written, that path can take the result:
// an empty directory gives way to a new one, a file to a file.
func (o *Options) vacate(path string) error {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, os.ErrNotExist) || (err == nil && o.Format == GGUF && info.Mode().IsRegular()):
		return nil
	case err != nil:
		return err
	case o.Format == HuggingFace && info.IsDir():
		if os.Remove(path) == nil { // fails unless it is empty
			return nil
		}
	}
	return fmt.Errorf("%s exists: remove it or choose another name", path)
}

// check refuses what the container or the type cannot hold.
func (o *Options) check() error {
	spec := &o.Model.Spec
	if err := spec.Validate(); err != nil {
		return err
	}
	if !knownFamily(spec.Family) {
		return fmt.Errorf("family %q is none of gpt-oss, qwen3, qwen3moe, llama", spec.Family)
	}
	if spec.FFN.Dense != nil {
		return errors.New("dense layers among expert layers cannot be written")
	}
	if least := o.Model.Text + o.Model.specials(); o.Model.Text < 256 || spec.Vocab < least {
		return fmt.Errorf("%d vocabulary rows and %d ordinary tokens: at least %d rows and 256 tokens expected", spec.Vocab, o.Model.Text, least)
	}
	switch o.Type { // of the matrices
	case tensor.Invalid, tensor.BF16, tensor.F16, tensor.F32:
	case tensor.Q8_0, tensor.Q4_0, tensor.Q4_1, tensor.Q5_0, tensor.Q5_1, tensor.IQ4_NL, tensor.Q4_K, tensor.Q5_K, tensor.Q6_K, tensor.MXFP4:
		if o.Format != GGUF {
			return fmt.Errorf("safetensors files do not hold %v; BF16, F16 and F32 are possible", o.Type)
		}
	default:
		return fmt.Errorf("type %v cannot be written", o.Type)
	}
	return nil
}

// A writer writes tensors one after another, generating rows as it goes.
type writer struct {
	ctx         context.Context
	gen         *generator
	progress    func(done, total int64)
	done, total int64
}

// plan checks that the types can hold the rows of entries, and sets the total.
func (w *writer) plan(entries []*entry) error {
	for _, entry := range entries {
		if block, _ := entry.dtype.Block(); entry.cols()%block != 0 {
			return fmt.Errorf("tensor %q: rows of %d elements are not a whole number of %v blocks of %d", entry.name, entry.cols(), entry.dtype, block)
		}
		w.total += entry.bytes()
	}
	return nil
}

// file creates name and hands a buffered writer to body.
func (w *writer) file(name string, body func(*bufio.Writer) error) error {
	file, err := os.Create(name)
	if err != nil {
		return err
	}
	out := bufio.NewWriterSize(file, 1<<20)
	err = body(out)
	if err == nil {
		err = out.Flush()
	}
	if err == nil {
		err = file.Sync()
	}
	return errors.Join(err, file.Close())
}

// tensor writes the rows of e.
func (w *writer) tensor(out *bufio.Writer, e *entry) error {
	const step = 1 << 20 // bytes between looks at the context
	next := w.done + step
	for i := range e.rows() {
		row := w.gen.row(e, i)
		if _, err := out.Write(row); err != nil {
			return fmt.Errorf("tensor %q: %w", e.name, err)
		}
		if w.done += int64(len(row)); w.done < next {
			continue
		}
		next = w.done + step
		if err := w.ctx.Err(); err != nil {
			return err
		}
		w.report()
	}
	return w.ctx.Err()
}

// report tells how much is written.
func (w *writer) report() {
	if w.progress != nil {
		w.progress(w.done, w.total)
	}
}
