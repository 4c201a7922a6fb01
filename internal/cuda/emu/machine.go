package emu

import (
	"fmt"

	"ossian/internal/cuda/driver"
	"ossian/internal/cuda/emu/exec"
)

// A context is the primary context of a card and all that was made in it.
type context struct {
	id      driver.Context
	card    *card
	refs    int
	broken  error // why the context is lost
	used    uint64
	clock   int64 // warp instructions executed: what timed events tell
	capture *capture

	allocs    map[driver.Ptr]*exec.Alloc
	modular   map[*exec.Alloc]bool // of those, the ones of modules
	streams   map[driver.Stream]*stream
	order     []*stream // in the order they were made; with those destroyed that have work left
	events    map[driver.Event]*event
	modules   map[driver.Module]*loaded
	functions map[driver.Function]*function
	graphs    map[driver.Graph]*graph
	execs     map[driver.GraphExec]*graph
}

// Driver returns what a program drives the machine with. All drivers of a machine are the same.
func (m *Machine) Driver() *driver.Driver {
	return &driver.Driver{
		Name: "emulator",
		Init: m.init, Version: m.version, DeviceCount: m.deviceCount, DeviceGet: m.deviceGet, DeviceName: m.deviceName,
		DeviceAttribute: m.deviceAttribute, DeviceMemory: m.deviceMemory, CanAccessPeer: m.canAccessPeer,
		ContextRetain: m.contextRetain, ContextRelease: m.contextRelease, SetCurrent: m.setCurrent, Synchronize: m.synchronize,
		EnablePeer: m.enablePeer, MemInfo: m.memInfo,
		MemAlloc: m.memAlloc, MemFree: m.memFree, MemAllocHost: m.memAllocHost, MemFreeHost: m.memFreeHost,
		CopyToDevice: m.copyToDevice, CopyToHost: m.copyToHost, CopyToAsync: m.copyToAsync, CopyFromAsync: m.copyFromAsync,
		CopyAsync: m.copyAsync, SetAsync: m.setAsync,
		ModuleLoad: m.moduleLoad, ModuleUnload: m.moduleUnload, GetFunction: m.getFunction, FuncGet: m.funcGet, FuncSet: m.funcSet,
		Launch: m.launch, EncodeTensor: m.encodeTensor,
		StreamCreate: m.streamCreate, StreamDestroy: m.streamDestroy, StreamSync: m.streamSync, StreamWait: m.streamWait,
		EventCreate: m.eventCreate, EventDestroy: m.eventDestroy, EventRecord: m.eventRecord, EventQuery: m.eventQuery,
		EventSync: m.eventSync, EventElapsed: m.eventElapsed,
		CaptureBegin: m.captureBegin, CaptureEnd: m.captureEnd, GraphInstantiate: m.graphInstantiate, GraphLaunch: m.graphLaunch,
		GraphExecDestroy: m.graphExecDestroy, GraphDestroy: m.graphDestroy,
	}
}

// call does what every function of the driver begins with, under the lock: it counts, and refuses
// where nothing was initialised.
func (m *Machine) call(name, cu string, do func() error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.calls[name]++
	if !m.inited {
		return ofCall(failure(notInitialized, "Init comes first"), cu)
	}
	return ofCall(do(), cu)
}

// in does so for functions that need a current context which is not lost.
func (m *Machine) in(name, cu string, do func(c *context) error) error {
	return m.call(name, cu, func() error {
		c := m.now()
		if c == nil {
			return failure(invalidContext, "no context is current for this thread: SetCurrent comes first")
		}
		if c.broken != nil {
			return c.broken
		}
		return do(c)
	})
}

// now returns the current context; nil if there is none.
func (m *Machine) now() *context {
	c := m.current[m.thread()]
	if c == nil || c.refs == 0 {
		return nil
	}
	return c
}

// thread identifies the calling thread, where that matters.
func (m *Machine) thread() int {
	if len(m.cards) < 2 {
		return 0
	}
	return threadID()
}

func (m *Machine) init() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.calls["Init"]++
	m.inited = true
	return nil
}

func (m *Machine) version() (int, error) {
	return 13000, m.call("Version", "cuDriverGetVersion", func() error { return nil })
}

func (m *Machine) deviceCount() (n int, err error) {
	err = m.call("DeviceCount", "cuDeviceGetCount", func() error { n = len(m.cards); return nil })
	return n, err
}

// deviceBase is added to ordinals, so that the one is not taken for the other.
const deviceBase = 40

func (m *Machine) deviceGet(ordinal int) (d driver.Device, err error) {
	err = m.call("DeviceGet", "cuDeviceGet", func() error {
		if ordinal < 0 || ordinal >= len(m.cards) {
			return failure(invalidDevice, "device %d of %d", ordinal, len(m.cards))
		}
		d = driver.Device(deviceBase + ordinal)
		return nil
	})
	return d, err
}

// onDevice does something with a card.
func (m *Machine) onDevice(name, cu string, d driver.Device, do func(c *card) error) error {
	return m.call(name, cu, func() error {
		if d < deviceBase || int(d) >= deviceBase+len(m.cards) {
			return failure(invalidDevice, "%d is no device: DeviceGet returns them", d)
		}
		return do(m.cards[d-deviceBase])
	})
}

func (m *Machine) deviceName(d driver.Device) (name string, err error) {
	err = m.onDevice("DeviceName", "cuDeviceGetName", d, func(c *card) error { name = c.Name; return nil })
	return name, err
}

func (m *Machine) deviceMemory(d driver.Device) (n uint64, err error) {
	err = m.onDevice("DeviceMemory", "cuDeviceTotalMem", d, func(c *card) error { n = c.Memory; return nil })
	return n, err
}

func (m *Machine) deviceAttribute(d driver.Device, a driver.Attribute) (v int, err error) {
	err = m.onDevice("DeviceAttribute", "cuDeviceGetAttribute", d, func(c *card) error {
		known := map[driver.Attribute]int{
			driver.MaxSharedPerBlock: 48 << 10, driver.WarpSize: 32, driver.ClockRate: 1_410_000, driver.Multiprocessors: c.Multiprocessors,
			driver.Integrated: 0, driver.MemoryClockRate: 1_215_000, driver.MemoryBusWidth: 5120, driver.L2Cache: 40 << 20,
			driver.ComputeMajor: c.Major, driver.ComputeMinor: c.Minor, driver.MaxSharedPerBlockOptin: c.SharedOptin,
		}
		var ok bool
		if v, ok = known[a]; !ok {
			return failure(invalidValue, "attribute %d is not known to the emulator", a)
		}
		return nil
	})
	return v, err
}

func (m *Machine) canAccessPeer(from, to driver.Device) (ok bool, err error) {
	err = m.onDevice("CanAccessPeer", "cuDeviceCanAccessPeer", from, func(a *card) error {
		if to < deviceBase || int(to) >= deviceBase+len(m.cards) {
			return failure(invalidDevice, "%d is no device: DeviceGet returns them", to)
		}
		ok = a != m.cards[to-deviceBase]
		return nil
	})
	return ok, err
}

func (m *Machine) contextRetain(d driver.Device) (id driver.Context, err error) {
	err = m.onDevice("ContextRetain", "cuDevicePrimaryCtxRetain", d, func(c *card) error {
		if c.context == nil {
			c.context = &context{id: driver.Context(m.handle()), card: c, allocs: map[driver.Ptr]*exec.Alloc{}, modular: map[*exec.Alloc]bool{}, streams: map[driver.Stream]*stream{},
				events: map[driver.Event]*event{}, modules: map[driver.Module]*loaded{}, functions: map[driver.Function]*function{},
				graphs: map[driver.Graph]*graph{}, execs: map[driver.GraphExec]*graph{}}
			m.contexts[c.context.id] = c.context
		}
		c.context.refs++
		id = c.context.id
		return nil
	})
	return id, err
}

func (m *Machine) contextRelease(d driver.Device) error {
	return m.onDevice("ContextRelease", "cuDevicePrimaryCtxRelease", d, func(c *card) error {
		if c.context == nil {
			return failure(invalidContext, "the context of card %d is not retained", c.device.Ordinal)
		}
		if c.context.refs--; c.context.refs > 0 {
			return nil
		}
		if c.context.broken == nil {
			m.lost = append(m.lost, c.context.left()...)
		}
		for _, a := range c.context.allocs {
			m.mem.Free(a)
		}
		delete(m.contexts, c.context.id)
		c.context = nil
		c.device.Forget()
		return nil
	})
}

// left names what a context still holds.
func (c *context) left() (errs []error) {
	add := func(n int, what string) {
		if n > 0 {
			errs = append(errs, fmt.Errorf("card %d: %d %s left behind", c.card.device.Ordinal, n, what))
		}
	}
	for at, a := range c.allocs {
		if !c.modular[a] {
			errs = append(errs, fmt.Errorf("card %d: memory of %d bytes at %#x was not freed", c.card.device.Ordinal, a.Size, uint64(at)))
		}
	}
	for _, s := range c.order {
		if len(s.queue) > 0 {
			errs = append(errs, fmt.Errorf("card %d: a stream has %d pieces of work that nobody waited for; the next is %s", c.card.device.Ordinal, len(s.queue), s.queue[0].what))
		}
	}
	add(len(c.streams), "streams")
	add(len(c.events), "events")
	add(len(c.modules), "modules")
	add(len(c.graphs), "graphs")
	add(len(c.execs), "executable graphs")
	return errs
}

func (m *Machine) setCurrent(id driver.Context) error {
	return m.call("SetCurrent", "cuCtxSetCurrent", func() error {
		c := m.contexts[id]
		if c == nil && id != 0 {
			return failure(invalidContext, "%#x is no context", uintptr(id))
		}
		m.current[m.thread()] = c
		return nil
	})
}

func (m *Machine) enablePeer(id driver.Context) error {
	return m.in("EnablePeer", "cuCtxEnablePeerAccess", func(c *context) error {
		other := m.contexts[id]
		switch {
		case other == nil:
			return failure(invalidContext, "%#x is no context", uintptr(id))
		case other == c:
			return failure(invalidDevice, "a card is no peer of its own")
		case !c.card.device.EnablePeer(other.card.device):
			return failure(peerEnabled, "card %d may use the memory of card %d already", c.card.device.Ordinal, other.card.device.Ordinal)
		}
		return nil
	})
}

func (m *Machine) memInfo() (free, total uint64, err error) {
	err = m.in("MemInfo", "cuMemGetInfo", func(c *context) error {
		free, total = c.card.Memory-c.used, c.card.Memory
		return nil
	})
	return free, total, err
}

// breakWith loses the context by a fault. Work that is queued will not be done.
func (c *context) breakWith(f *exec.Fault, during string) {
	if c.broken == nil {
		c.broken = failure(f.Code, "%s: %s", during, f.Text)
	}
	for _, s := range c.order {
		for _, o := range s.queue {
			o.finish(c.clock)
		}
		s.queue = nil
		s.done = s.last
	}
	c.capture = nil
}
