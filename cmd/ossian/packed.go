package main

import (
	"context"
	"fmt"
	"io"

	"ossian/internal/ckpt"
	"ossian/internal/cpu"
)

// keepPacked has c use the packed form of m in a file where that can be, and tells note
// why it cannot. The file is read and made by prepare.
func (o *loadOptions) keepPacked(m *ckpt.Model, c *cpu.Config, note func(string)) {
	source, mode, err := m.Source()
	if err != nil {
		return // the model inside the program
	}
	at := cpu.Place{Prefix: m.Beside("packed"), Source: source, Mode: mode}
	p, why := cpu.KeepPacked(m.Spec, *c, m.Params, at, o.packed, !o.noVerify)
	if p != nil {
		c.Packed = p
		m.Attach(p)
	} else if why != "" {
		note(why)
	}
}

// prepare looks for damage in what will be read, and brings the packed form into use.
func (o *loadOptions) prepare(ctx context.Context, m *ckpt.Model, c *cpu.Config, status io.Writer, note func(string)) error {
	var check func(elsewhere map[string]bool) error
	if !o.noVerify {
		check = func(elsewhere map[string]bool) error { return verify(ctx, m, elsewhere, status) }
	}
	bar := func(doing string, total int64) (add func(int64), done func()) {
		p := newProgress(status, doing+" "+m.Spec.Name, unitBytes, total)
		return p.Add, p.Done
	}
	ready, err := c.Packed.Prepare(ctx, check, bar, note)
	if !ready {
		c.Packed = nil
	}
	return err
}

// noteTo returns what writes a line to status, which may be nil.
func noteTo(status io.Writer) func(string) {
	return func(text string) {
		if status != nil {
			fmt.Fprintln(status, text)
		}
	}
}

// packedReport tells what a start would do about packed weights, and has c do it.
func packedReport(m *ckpt.Model, c *cpu.Config) (r cpu.PackedReport) {
	o := loadOptions{packed: "auto"}
	o.keepPacked(m, c, func(why string) { r.State = why })
	return r.Complete(c.Packed, m.Beside("packed"))
}

func removePacked(m *ckpt.Model, status io.Writer) error {
	removed, err := cpu.RemovePacked(m.Beside("packed"))
	for _, f := range removed {
		fmt.Fprintln(status, "removed", f)
	}
	return err
}
