package emu

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"sync"
	"time"

	"ossian/internal/cuda/driver"
	"ossian/internal/cuda/emu/exec"
	"ossian/internal/cuda/emu/ptx"
)

// A loaded is a module in a context, with the memory of its variables.
type loaded struct {
	kernels map[string]*exec.Kernel
	allocs  []*exec.Alloc
}

// A function is a kernel that can be launched.
type function struct {
	k       *exec.Kernel
	module  *loaded
	dynamic int // bytes of dynamic shared memory that a launch may ask for
}

// files are the PTX files that were read in this process: tests load the same ones again and again.
var files struct {
	mu     sync.Mutex // guards byHash
	byHash map[[sha256.Size]byte]*ptx.Module
}

// read returns what a PTX file holds. A module does not change once it was read.
func read(text []byte) (*ptx.Module, error) {
	hash := sha256.Sum256(text)
	files.mu.Lock()
	defer files.mu.Unlock()
	if m := files.byHash[hash]; m != nil {
		return m, nil
	}
	m, err := ptx.Parse(string(text))
	if err != nil {
		return nil, err
	}
	if files.byHash == nil {
		files.byHash = map[[sha256.Size]byte]*ptx.Module{}
	}
	files.byHash[hash] = m
	return m, nil
}

func (m *Machine) moduleLoad(text []byte) (id driver.Module, err error) {
	err = m.in("ModuleLoad", "cuModuleLoadDataEx", func(c *context) error {
		if err := c.refuse(captureUnsupported, "a module cannot be loaded, which takes memory of the card"); err != nil {
			return err
		}
		parsed, err := read(text)
		if err != nil {
			return failure(invalidPTX, "%v", err)
		}
		have := c.card.Major*10 + c.card.Minor
		if parsed.Arch > have || (parsed.Exact && parsed.Arch != have) {
			return failure(noBinary, "the PTX is for sm_%d, the card is of compute capability %d.%d", parsed.Arch, c.card.Major, c.card.Minor)
		}
		l := &loaded{}
		var places []uint64
		for _, v := range parsed.Variables {
			a := m.mem.Alloc(c.card.device, max(v.Bytes, 1))
			a.Constant = v.Constant
			copy(a.Data, v.Init)
			a.Written(0, a.Size)
			c.keep(a)
			c.modular[a] = true
			l.allocs = append(l.allocs, a)
			places = append(places, a.Base)
		}
		l.kernels = parsed.At(places)
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
			delete(c.modular, a)
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
		k := l.kernels[name]
		if k == nil {
			return failure(notFound, "the module has no kernel %q", name)
		}
		f = driver.Function(m.handle())
		c.functions[f] = &function{k, l, 48<<10 - k.Shared}
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
			v = f.k.Shared
		case driver.FuncLocalBytes:
			v = f.k.Local
		case driver.FuncRegisters:
			v = min(len(f.k.Regs32)+2*len(f.k.Regs64), 255) // before any allocation of registers: a guess from above
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
		case v < 0 || f.k.Shared+v > c.card.SharedOptin:
			return failure(invalidValue, "%d bytes of dynamic and %d of static shared memory: a block may have %d", v, f.k.Shared, c.card.SharedOptin)
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
		if refused := checkSize(f.k, l); refused != "" {
			return failure(invalidValue, "kernel %s: %s", f.k.Name, refused)
		}
		if int64(l.Shared) > int64(f.dynamic) {
			return failure(invalidValue, "kernel %s: %d bytes of dynamic shared memory, %d were allowed (FuncMaxDynamicShared)", f.k.Name, l.Shared, f.dynamic)
		}
		if l.Overlap && c.card.Major < 9 {
			return failure(invalidValue, "kernel %s: Overlap needs compute capability 9.0", f.k.Name)
		}
		g := &exec.Grid{Kernel: f.k, Device: c.card.device, Blocks: [3]uint32{l.Grid.X, l.Grid.Y, l.Grid.Z}, Threads: [3]uint32{l.Block.X, l.Block.Y, l.Block.Z},
			Shared: int(l.Shared), Params: slices.Clone(l.Params)}
		return c.enqueue(l.Stream, node{"launch of " + f.k.Name, func() func() *exec.Fault {
			return func() *exec.Fault { return m.execute(c, g) }
		}})
	})
}

// checkSize says what a driver refuses about a launch.
func checkSize(k *exec.Kernel, l *driver.Launch) string {
	threads := uint64(l.Block.X) * uint64(l.Block.Y) * uint64(l.Block.Z)
	switch {
	case l.Grid.X == 0 || l.Grid.Y == 0 || l.Grid.Z == 0 || threads == 0:
		return fmt.Sprintf("a grid of %v blocks of %v threads is empty", l.Grid, l.Block)
	case l.Grid.X > 1<<31-1 || l.Grid.Y > 65535 || l.Grid.Z > 65535:
		return fmt.Sprintf("a grid of %v blocks: 2147483647, 65535, 65535 are possible", l.Grid)
	case l.Block.X > 1024 || l.Block.Y > 1024 || l.Block.Z > 64 || threads > 1024:
		return fmt.Sprintf("a block of %v threads: 1024 in all are possible, 64 in z", l.Block)
	case k.MaxThreads > 0 && threads > uint64(k.MaxThreads):
		return fmt.Sprintf("a block of %d threads: the kernel says .maxntid %d", threads, k.MaxThreads)
	case k.Exactly && threads != uint64(k.MaxThreads):
		return fmt.Sprintf("a block of %d threads: the kernel says .reqntid %d", threads, k.MaxThreads)
	case len(l.Params) != k.ParamBytes:
		return fmt.Sprintf("%d bytes of parameters: the kernel has %d", len(l.Params), k.ParamBytes)
	}
	return ""
}

// execute runs a grid. Kernels that talk with other cards get those to work meanwhile.
func (m *Machine) execute(c *context, g *exec.Grid) *exec.Fault {
	if g.Kernel.System && m.mem.Peers.Load() {
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
	count, failed := g.Run()
	m.mu.Lock()
	defer m.mu.Unlock()
	sum := m.kernels[g.Kernel.Name]
	sum.Add(&count)
	m.kernels[g.Kernel.Name] = sum
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
