package emu

import (
	"slices"
	"time"

	"ossian/internal/cuda/driver"
)

// A loaded is a module in a context, with the memory of its variables.
type loaded struct {
	module *module
	allocs []*alloc
}

// A function is a kernel that can be launched.
type function struct {
	k       *kernel
	module  *loaded
	dynamic int // bytes of dynamic shared memory that a launch may ask for
}

func (m *Machine) moduleLoad(ptx []byte) (id driver.Module, err error) {
	err = m.in("ModuleLoad", "cuModuleLoadDataEx", func(c *context) error {
		parsed, err := parse(string(ptx), c.card.Seed)
		if err != nil {
			return failure(invalidPTX, "%v", err)
		}
		have := c.card.Major*10 + c.card.Minor
		if parsed.arch > have || (parsed.exact && parsed.arch != have) {
			return failure(noBinary, "the PTX is for sm_%d, the card is of compute capability %d.%d", parsed.arch, c.card.Major, c.card.Minor)
		}
		l := &loaded{module: parsed}
		for i := range parsed.globals {
			v := &parsed.globals[i]
			a := m.mem.alloc(c.card, max(v.bytes, 1))
			a.constant, a.module = v.constant, true
			copy(a.data, v.init)
			a.written(0, a.size)
			v.at = a.base
			c.keep(a)
			l.allocs = append(l.allocs, a)
		}
		for _, k := range parsed.kernels {
			for _, place := range k.places {
				k.regs64[place.reg] = fill64(parsed.globals[place.variable].at)
			}
		}
		id = driver.Module(m.handle())
		c.modules[id] = l
		return nil
	})
	return id, err
}

func (m *Machine) moduleUnload(id driver.Module) error {
	return m.in("ModuleUnload", "cuModuleUnload", func(c *context) error {
		l := c.modules[id]
		if l == nil {
			return failure(invalidHandle, "%#x is no module of the current context", uintptr(id))
		}
		for f, function := range c.functions {
			if function.module == l {
				delete(c.functions, f)
			}
		}
		for _, a := range l.allocs {
			c.drop(a)
		}
		delete(c.modules, id)
		return nil
	})
}

func (m *Machine) getFunction(id driver.Module, name string) (f driver.Function, err error) {
	err = m.in("GetFunction", "cuModuleGetFunction", func(c *context) error {
		l := c.modules[id]
		if l == nil {
			return failure(invalidHandle, "%#x is no module of the current context", uintptr(id))
		}
		k := l.module.kernels[name]
		if k == nil {
			return failure(notFound, "the module has no kernel %q", name)
		}
		f = driver.Function(m.handle())
		c.functions[f] = &function{k, l, 48<<10 - k.shared}
		return nil
	})
	return f, err
}

// functionOf finds a kernel of the context.
func (c *context) functionOf(id driver.Function) (*function, error) {
	if f := c.functions[id]; f != nil {
		return f, nil
	}
	return nil, failure(invalidHandle, "%#x is no kernel of the current context; was its module unloaded?", uintptr(id))
}

func (m *Machine) funcGet(id driver.Function, a driver.FuncAttribute) (v int, err error) {
	err = m.in("FuncGet", "cuFuncGetAttribute", func(c *context) error {
		f, err := c.functionOf(id)
		if err != nil {
			return err
		}
		switch a {
		case driver.FuncSharedBytes:
			v = f.k.shared
		case driver.FuncLocalBytes:
			v = f.k.local
		case driver.FuncRegisters:
			v = min(len(f.k.regs32)+2*len(f.k.regs64), 255) // before any allocation of registers: a guess from above
		case driver.FuncMaxDynamicShared:
			v = f.dynamic
		default:
			return failure(invalidValue, "attribute %d of kernels is not known to the emulator", a)
		}
		return nil
	})
	return v, err
}

func (m *Machine) funcSet(id driver.Function, a driver.FuncAttribute, v int) error {
	return m.in("FuncSet", "cuFuncSetAttribute", func(c *context) error {
		f, err := c.functionOf(id)
		switch {
		case err != nil:
			return err
		case a != driver.FuncMaxDynamicShared:
			return failure(invalidValue, "attribute %d of kernels cannot be set", a)
		case v < 0 || f.k.shared+v > c.card.SharedOptin:
			return failure(invalidValue, "%d bytes of dynamic and %d of static shared memory: a block may have %d", v, f.k.shared, c.card.SharedOptin)
		}
		f.dynamic = v
		return nil
	})
}

func (m *Machine) launch(l *driver.Launch) error {
	return m.in("Launch", "cuLaunchKernelEx", func(c *context) error {
		f, err := c.functionOf(l.Function)
		if err != nil {
			return err
		}
		if refused := f.k.checkSize(l); refused != "" {
			return failure(invalidValue, "kernel %s: %s", f.k.name, refused)
		}
		if int64(l.Shared) > int64(f.dynamic) {
			return failure(invalidValue, "kernel %s: %d bytes of dynamic shared memory, %d were allowed (FuncMaxDynamicShared)", f.k.name, l.Shared, f.dynamic)
		}
		if l.Overlap && c.card.Major < 9 {
			return failure(invalidValue, "kernel %s: Overlap needs compute capability 9.0", f.k.name)
		}
		g := &grid{k: f.k, card: c.card, blocks: [3]uint32{l.Grid.X, l.Grid.Y, l.Grid.Z}, threads: [3]uint32{l.Block.X, l.Block.Y, l.Block.Z},
			shared: int(l.Shared), params: slices.Clone(l.Params)}
		return c.enqueue(l.Stream, node{"launch of " + f.k.name, func() func() *fault {
			return func() *fault { return m.execute(c, g) }
		}})
	})
}

// execute runs a grid. Kernels that talk with other cards get those to work meanwhile.
func (m *Machine) execute(c *context, g *grid) *fault {
	if g.k.system && m.mem.peers.Load() {
		done := make(chan struct{})
		defer close(done)
		m.mu.Lock()
		for _, other := range m.contexts {
			if other != c {
				go m.accompany(other, done)
			}
		}
		m.mu.Unlock()
	}
	count, failed := g.run()
	m.mu.Lock()
	defer m.mu.Unlock()
	sum := m.kernels[g.k.name]
	sum.add(&count)
	m.kernels[g.k.name] = sum
	c.clock += count.Warp
	return failed
}

// accompany does the work of another context until done, since a kernel may wait for it.
func (m *Machine) accompany(c *context, done chan struct{}) {
	for {
		select {
		case <-done:
			return
		default:
		}
		m.mu.Lock()
		var next *stream
		for _, s := range c.order {
			if len(s.queue) > 0 && !s.queue[0].busy && next == nil {
				next = s
			}
		}
		m.mu.Unlock()
		if next == nil {
			time.Sleep(100 * time.Microsecond)
		} else if m.step(next) != nil {
			return
		}
	}
}

// encodeTensor belongs to sm_90.
func (m *Machine) encodeTensor(*driver.TensorBox) (t driver.TensorMap, err error) {
	return t, m.in("EncodeTensor", "cuTensorMapEncodeTiled", func(c *context) error {
		return failure(notSupported, "tensor maps need compute capability 9.0, the card has %d.%d", c.card.Major, c.card.Minor)
	})
}
