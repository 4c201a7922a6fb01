package cpu

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime/debug"
	"sync"
	"sync/atomic"

	"ossian/internal/cpu/kern"
	"ossian/internal/model"
	"ossian/internal/packed"
	"ossian/internal/tensor"
)

// A Packed is the packed form of a model's matrices in a file, so that a start maps what
// an earlier one has packed. It is the same on every instruction set and for any number
// of threads. With Config.Packed set, a device maps it if Open or Make has succeeded, and
// packs in memory otherwise.
type Packed struct {
	Place
	content packed.Content
	parts   []packedPart
	threads int
	file    *packed.File
}

// A Place says where a Packed is kept and what it is made from.
type Place struct {
	Prefix string      // of the file's path
	Source string      // tells the files of the model from what they were before
	Mode   fs.FileMode // permissions of the file
}

// A packedPart is a matrix that is packed.
type packedPart struct {
	param string // its name in model.Params
	t     tensor.Tensor
	opt   kern.Options
	table bool // rows of t are read where they are as well
}

// LeastPacked is the size from which on a file saves a noticeable time, in bytes.
const LeastPacked = 256 << 20

// NewPacked returns the packed form of params as cfg has them. Nothing is read or written.
func NewPacked(spec *model.Spec, cfg Config, params map[string]tensor.Tensor, at Place) (*Packed, error) {
	windows, _ := spec.Groups()
	lim := model.Limits{MaxSeqs: 1, MaxTokens: 1, MaxLen: 1, BlockSize: 1, Blocks: make([]int, len(windows))}
	for group := range lim.Blocks {
		lim.Blocks[group] = 1
	}
	device, err := newDevice(spec, lim, cfg, true)
	if err != nil {
		return nil, err
	}
	form := &Packed{Place: at, threads: device.cfg.Threads}
	// A dry device is asked for each parameter what it would pack, in the decoder's order.
	var seen []packedPart
	device.seen = func(part packedPart) { seen = append(seen, part) }
	_, err = model.NewDecoder(spec, params, device, lim, func(name string, _ int64) error {
		for _, part := range seen {
			part.param = name
			whole := params[name]
			part.table = part.table || len(seen) < len(whole.Typed()) // the other half is read where it is
			form.parts = append(form.parts, part)
			layout := kern.FormOf(&part.t, part.opt)
			form.content.Sections = append(form.content.Sections, packed.Section{Name: part.name(), Bytes: layout.Bytes, Piece: layout.Piece})
		}
		seen = seen[:0]
		return nil
	})
	form.content.Source = at.Source
	return form, err
}

// name is the section's: the tensor and the layout, which is all that its bytes depend on
// besides the model's files.
func (p *packedPart) name() string { return p.t.Name + " as " + kern.FormOf(&p.t, p.opt).Layout }

// KeepPacked returns the packed form that the setting asks for: "on", "off", or "auto",
// which leaves small models alone; nil where weights are packed in memory, and then why,
// "" where that is as it should be. A file that would have to be made counts only if make
// is set and it can be.
func KeepPacked(s *model.Spec, cfg Config, params map[string]tensor.Tensor, at Place, setting string, make bool) (packed *Packed, why string) {
	if setting == "off" {
		return nil, ""
	}
	packed, err := NewPacked(s, cfg, params, at)
	if err != nil {
		return nil, "" // the memory plan says what is wrong
	}
	// A file that is there is used whatever its size; one that is not is made for large models.
	small := len(packed.parts) == 0 || (setting == "auto" && packed.Bytes() < LeastPacked)
	if found := packed.Found(); found == nil && len(packed.parts) > 0 {
		return packed, ""
	} else if small || !make || errors.Is(found, errors.ErrUnsupported) {
		return nil, ""
	}
	if err := packed.Possible(); err != nil {
		return nil, fmt.Sprintf("weights are packed in memory at each start, no file can keep them: %v", err)
	}
	return packed, ""
}

// Bytes returns the size of the file.
func (p *Packed) Bytes() int64 { return p.content.Bytes() }

// Path returns where the file is, or would be.
func (p *Packed) Path() string { return p.content.Path(p.Prefix) }

// Replaces returns the parameters of which nothing is read any more but what is packed.
func (p *Packed) Replaces() map[string]bool {
	names := map[string]bool{}
	for i := range p.parts {
		names[p.parts[i].param] = !p.parts[i].table
	}
	return names
}

// Found reports whether there is a file that Open would map, from its header; if not, why:
// os.ErrNotExist when there is none at all.
func (p *Packed) Found() error { return packed.Usable(p.Prefix, &p.content) }

// Possible reports why Make would fail; nil if it probably would not.
func (p *Packed) Possible() error { return packed.Possible(p.Prefix, &p.content) }

// Open maps the file and brings it into memory, with check comparing every byte with its
// checksum. In any case two groups of rows of each matrix are packed again and compared.
// progress, which may be nil and is called from several goroutines, is told bytes.
func (p *Packed) Open(ctx context.Context, check bool, progress func(n int64)) error {
	file, err := packed.Open(p.Prefix, &p.content)
	if err != nil {
		return err
	}
	if err = file.Load(ctx, check, progress); err == nil {
		err = p.compare(ctx, file)
	}
	if err != nil {
		return errors.Join(err, file.Close())
	}
	p.file = file
	return nil
}

// compare looks whether the file holds what this program makes of these tensors; the error is of
// the first that it does not.
func (p *Packed) compare(ctx context.Context, file *packed.File) error {
	errs := make([]error, len(p.parts))
	var next atomic.Int64
	var all sync.WaitGroup
	for range min(p.threads, len(p.parts)) {
		all.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(p.parts)) && ctx.Err() == nil; i = next.Add(1) - 1 {
				errs[i] = p.parts[i].compare(file, int(i))
			}
		})
	}
	all.Wait()
	return cmp.Or(cmp.Or(errs...), ctx.Err())
}

// compare looks whether section i of the file holds p.
func (p *packedPart) compare(file *packed.File, i int) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() { // pages of a file that was cut, or that the disk does not give
		if why := recover(); why != nil {
			err = fmt.Errorf("cpu: %s cannot be read: %v", p.name(), why)
		}
	}()
	section, decode := file.Section(i)
	matrix, err := kern.Map(&p.t, p.opt, section, decode)
	if err != nil {
		return fmt.Errorf("cpu: %w", err)
	}
	same := matrix.Resembles(&p.t)
	p.t.Release()
	if !same {
		return fmt.Errorf("%s: %s is not what this program makes of the model's files", file.Path(), p.name())
	}
	return nil
}

// Make packs all matrices into a file, with all threads, puts it on the disk and maps it.
// progress, which may be nil and is called from several goroutines, is told bytes of the
// file. After an error, or when ctx ends, nothing is mapped, and nothing is left of a file
// that was not complete.
func (p *Packed) Make(ctx context.Context, progress func(n int64)) error {
	writer, err := packed.Create(p.Prefix, &p.content, p.Mode)
	if err != nil {
		return err
	}
	pool := kern.NewPool(p.threads) // there is no device yet that has one
	defer pool.Close()
	for section := range p.parts {
		decode, err := kern.WritePacked(&p.parts[section].t, p.parts[section].opt, pool, func(piece int, data []byte) error {
			if err := ctx.Err(); err != nil {
				return err
			}
			err := writer.Write(section, piece, data)
			if err == nil && progress != nil {
				progress(int64(len(data)))
			}
			return err
		})
		if err != nil {
			return errors.Join(err, writer.Abort())
		}
		if decode {
			writer.Mark(section)
		}
	}
	if err := writer.Commit(); err != nil {
		return err
	}
	file, err := packed.Open(p.Prefix, &p.content)
	if err != nil {
		return err
	}
	if err := file.Load(ctx, false, nil); err != nil { // from the page cache, which has just been filled
		return errors.Join(err, file.Close())
	}
	p.file = file
	return nil
}

// Prepare maps the file that is there, or makes it, and reports whether a device can map
// it. check, which looks for damage in the model's files but for the parameters in
// elsewhere, is called before anything is packed; nil = what is there is taken as it is,
// and nothing is made. A nil Packed is never ready. What is wrong with a file, or with making
// it, is for note and no error. bar shows bytes of an operation.
func (p *Packed) Prepare(ctx context.Context, check func(elsewhere map[string]bool) error,
	bar func(doing string, total int64) (add func(int64), done func()), note func(string)) (ready bool, err error) {
	if p == nil {
		if check != nil {
			err = check(nil)
		}
		return false, err
	}
	// What is there.
	add, done := bar("loading the packed weights of", p.Bytes())
	err = p.Open(ctx, check != nil, add)
	done()
	switch {
	case ctx.Err() != nil:
		return false, ctx.Err()
	case err == nil && check != nil:
		return true, check(p.Replaces())
	case err == nil:
		return true, nil
	case !errors.Is(err, os.ErrNotExist):
		note(fmt.Sprintf("packed weights are not used: %v", err))
	}
	// Else it is made, of files that have been checked.
	if check == nil {
		return false, nil // what nobody has looked at is not kept
	}
	if err := check(nil); err != nil {
		return false, err
	}
	note(fmt.Sprintf("packing weights into %s, %.1f GB, once: later starts map it; --packed-weights off packs in memory", p.Path(), float64(p.Bytes())/1e9))
	add, done = bar("packing", p.Bytes())
	err = p.Make(ctx, add)
	done()
	if err != nil && ctx.Err() == nil {
		note(fmt.Sprintf("packed weights are not kept: %v; packing in memory", err))
	}
	return err == nil, ctx.Err()
}

// Disk returns the mapped file and what it was before, nil if there is none.
func (p *Packed) Disk() (disk *os.File, was fs.FileInfo) {
	if p.file == nil {
		return nil, nil
	}
	return p.file.Disk()
}

// Close unmaps the file. No device may be using it.
func (p *Packed) Close() error {
	file := p.file
	p.file = nil
	if file == nil {
		return nil
	}
	return file.Close()
}

// A PackedFile is a file of a packed form: in use or not, whole or left by a crash.
type PackedFile = packed.Entry

// A PackedReport tells people about the packed forms of a model; its zero value says that
// there are none and that none will be made.
type PackedReport struct {
	State string       `json:"state,omitempty"` // what the next start does
	Files []PackedFile `json:"files,omitempty"` // beside the model, of whatever settings
}

// Complete adds what is known of p, which may be nil, and of the files of the prefix.
func (r PackedReport) Complete(p *Packed, prefix string) PackedReport {
	if p != nil && p.Found() == nil {
		r.State = fmt.Sprintf("%.2f GB, mapped from %s", float64(p.Bytes())/1e9, p.Path())
	} else if p != nil {
		r.State = fmt.Sprintf("%.2f GB, the next start makes %s, later ones map it", float64(p.Bytes())/1e9, p.Path())
	}
	if prefix != "" {
		r.Files, _ = packed.Find(prefix) // a folder that cannot be read has none to show
	}
	return r
}

// Lines returns the report as text.
func (r PackedReport) Lines() (lines []string) {
	if r.State != "" {
		lines = append(lines, r.State)
	}
	for _, file := range r.Files {
		lines = append(lines, "file "+file.String()+" (--remove-packed)")
	}
	return lines
}

// RemovePacked removes the files with a Place's prefix, except one that is being made.
func RemovePacked(prefix string) ([]PackedFile, error) {
	if prefix == "" { // of the model inside the program
		return nil, nil
	}
	return packed.Remove(prefix)
}

// matrix makes the matrix of t: mapped where a file has it, else packed in memory.
func (d *Device) matrix(t *tensor.Tensor, opt kern.Options) (*kern.Matrix, error) {
	kept := d.cfg.Packed
	if kept == nil || kept.file == nil || kern.PackedBytes(t, opt) == 0 {
		return kern.Pack(t, opt, d.pool)
	}
	index := d.mapped // matrices are uploaded in the order of the decoder that NewPacked saw
	d.mapped++
	part := packedPart{t: *t, opt: opt}
	if index >= len(kept.parts) || kept.parts[index].name() != part.name() {
		return nil, fmt.Errorf("tensor %q: it is not matrix %d of %s: another model or other settings", t.Name, index, kept.Path())
	}
	section, decode := kept.file.Section(index)
	return kern.Map(t, opt, section, decode)
}
