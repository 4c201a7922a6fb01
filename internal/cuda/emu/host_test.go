package emu

import (
	"errors"
	"strings"
	"testing"

	"ossian/internal/cuda/driver"
)

// store is a kernel k(out) that leaves 7 in every word of 4096 bytes.
const store = "mov.u32 %r1, %tid.x;\nmul.wide.u32 %d1, %r1, 4;\nadd.u64 %d1, %d1, %d0;\nst.global.u32 [%d1], 7;"

// launchStore launches it with 1024 threads.
func (b *bench) launchStore(f driver.Function, out driver.Ptr, s driver.Stream) {
	b.t.Helper()
	b.must(b.Launch(&driver.Launch{Function: f, Grid: driver.Dim3{X: 1, Y: 1, Z: 1}, Block: driver.Dim3{X: 1024, Y: 1, Z: 1}, Stream: s, Params: pointer(out)}))
}

// refusals are calls that a driver refuses, or whose fault shows when the stream is waited for.
var refusals = map[string]struct {
	do   func(b *bench) error
	code int
	want string
}{
	"no context":        {func(b *bench) error { b.must(b.SetCurrent(0)); _, err := b.MemAlloc(1); return err }, 201, "no context is current"},
	"no memory":         {func(b *bench) error { _, err := b.MemAlloc(1 << 60); return err }, 2, "wanted"},
	"no bytes":          {func(b *bench) error { _, err := b.MemAlloc(0); return err }, 1, "no bytes"},
	"stream 0":          {func(b *bench) error { return b.StreamSync(0) }, 400, "stream 0 is refused"},
	"no stream":         {func(b *bench) error { return b.StreamSync(99) }, 400, "no stream"},
	"no device":         {func(b *bench) error { _, err := b.DeviceGet(1); return err }, 101, "device 1 of 1"},
	"ordinal as device": {func(b *bench) error { _, err := b.ContextRetain(0); return err }, 101, "DeviceGet"},
	"free twice": {func(b *bench) error {
		p, err := b.MemAlloc(8)
		b.must(err)
		b.must(b.MemFree(p))
		return b.MemFree(p)
	}, 1, "the memory of 8 bytes there was freed before"},
	"free inside": {func(b *bench) error { p, _ := b.MemAlloc(8); return b.MemFree(p + 4) }, 1, "not the beginning"},
	"free host twice": {func(b *bench) error {
		h, err := b.MemAllocHost(8)
		b.must(err)
		b.must(b.MemFreeHost(h))
		return b.MemFreeHost(h)
	}, 1, "freed before"},
	"copy beyond": {func(b *bench) error { p, _ := b.MemAlloc(8); return b.CopyToDevice(p, make([]byte, 9)) }, 1, "ends 1 bytes earlier"},
	"copy of freed": {func(b *bench) error {
		p, _ := b.MemAlloc(8)
		b.must(b.MemFree(p))
		return b.CopyToDevice(p, make([]byte, 8))
	}, 1, "was freed"},
	"copy of unset": {func(b *bench) error { p, _ := b.MemAlloc(8); return b.CopyToHost(make([]byte, 8), p) }, 1, "nobody has written byte 0"},
	"not pinned": {func(b *bench) error {
		p, _ := b.MemAlloc(8)
		return b.CopyToAsync(p, make([]byte, 8), b.stream)
	}, 1, "not pinned"},
	"not pinned back": {func(b *bench) error {
		p, _ := b.MemAlloc(8)
		return b.CopyFromAsync(make([]byte, 8), p, b.stream)
	}, 1, "not pinned"},
	"source changed": {func(b *bench) error {
		p, _ := b.MemAlloc(8)
		h, _ := b.MemAllocHost(8)
		b.must(b.CopyToAsync(p, h, b.stream))
		h[3]++
		return b.StreamSync(b.stream)
	}, 719, "pinned source was changed"},
	"destination written": {func(b *bench) error {
		p, _ := b.MemAlloc(8)
		h, _ := b.MemAllocHost(8)
		b.must(b.SetAsync(p, 1, 8, b.stream))
		b.must(b.CopyFromAsync(h, p, b.stream))
		h[7] = 0
		return b.StreamSync(b.stream)
	}, 719, "pinned destination was written"},
	"source freed": {func(b *bench) error {
		p, _ := b.MemAlloc(8)
		h, _ := b.MemAllocHost(8)
		b.must(b.CopyToAsync(p, h, b.stream))
		return b.MemFreeHost(h)
	}, 1, "1 copies from this memory have not happened"},
	"copy after free": {func(b *bench) error {
		p, _ := b.MemAlloc(8)
		b.must(b.SetAsync(p, 1, 8, b.stream))
		b.must(b.MemFree(p))
		return b.StreamSync(b.stream)
	}, 700, "was freed"},
	"kernel after free": {func(b *bench) error {
		p, _ := b.MemAlloc(4096)
		b.launchStore(b.function(source(store)), p, b.stream)
		b.must(b.MemFree(p))
		return b.StreamSync(b.stream)
	}, 700, "the memory of 4096 bytes there was freed"},
	"too many threads": {func(b *bench) error {
		return b.Launch(&driver.Launch{Function: b.function(source("")), Grid: driver.Dim3{X: 1, Y: 1, Z: 1}, Block: driver.Dim3{X: 1025, Y: 1, Z: 1}, Stream: b.stream, Params: make([]byte, 8)})
	}, 1, "1024 in all"},
	"no blocks": {func(b *bench) error {
		return b.Launch(&driver.Launch{Function: b.function(source("")), Block: driver.Dim3{X: 32, Y: 1, Z: 1}, Stream: b.stream, Params: make([]byte, 8)})
	}, 1, "empty"},
	"few parameters": {func(b *bench) error {
		return b.Launch(&driver.Launch{Function: b.function(source("")), Grid: driver.Dim3{X: 1, Y: 1, Z: 1}, Block: driver.Dim3{X: 32, Y: 1, Z: 1}, Stream: b.stream, Params: make([]byte, 4)})
	}, 1, "4 bytes of parameters: the kernel has 8"},
	"much shared": {func(b *bench) error {
		return b.Launch(&driver.Launch{Function: b.function(source("")), Grid: driver.Dim3{X: 1, Y: 1, Z: 1}, Block: driver.Dim3{X: 32, Y: 1, Z: 1}, Stream: b.stream, Shared: 49153, Params: make([]byte, 8)})
	}, 1, "FuncMaxDynamicShared"},
	"more shared than there is": {func(b *bench) error { return b.FuncSet(b.function(source("")), driver.FuncMaxDynamicShared, 200000) }, 1, "a block may have 166912"},
	"overlap": {func(b *bench) error {
		return b.Launch(&driver.Launch{Function: b.function(source("")), Grid: driver.Dim3{X: 1, Y: 1, Z: 1}, Block: driver.Dim3{X: 32, Y: 1, Z: 1}, Stream: b.stream, Overlap: true, Params: make([]byte, 8)})
	}, 1, "9.0"},
	"unloaded": {func(b *bench) error {
		m, err := b.ModuleLoad([]byte(source("")))
		b.must(err)
		f, err := b.GetFunction(m, "k")
		b.must(err)
		b.must(b.ModuleUnload(m))
		return b.Launch(&driver.Launch{Function: f, Stream: b.stream})
	}, 400, "was its module unloaded"},
	"no kernel": {func(b *bench) error {
		m, err := b.ModuleLoad([]byte(source("")))
		b.must(err)
		_, err = b.GetFunction(m, "frob")
		return err
	}, 500, "frob"},
	"newer card": {func(b *bench) error {
		_, err := b.ModuleLoad([]byte(strings.Replace(source(""), "sm_80", "sm_90a", 1)))
		return err
	}, 209, "compute capability 8.0"},
	"elapsed too early": {func(b *bench) error {
		from, _ := b.EventCreate(true)
		b.must(b.EventRecord(from, b.stream))
		_, err := b.EventElapsed(from, from)
		return err
	}, 600, "not happened"},
	"elapsed untimed": {func(b *bench) error {
		from, _ := b.EventCreate(false)
		b.must(b.EventRecord(from, b.stream))
		b.must(b.EventSync(from))
		_, err := b.EventElapsed(from, from)
		return err
	}, 400, "timed"},
	"tensor map": {func(b *bench) error { _, err := b.EncodeTensor(&driver.TensorBox{}); return err }, 801, "9.0"},
}

// TestRefusals holds each to its error.
func TestRefusals(t *testing.T) {
	for name, c := range refusals {
		var e *driver.Error
		if err := c.do(newBench(t, Card{})); !errors.As(err, &e) || e.Code != c.code || !strings.Contains(e.Text, c.want) || !strings.HasPrefix(e.Call, "cu") || e.Name == "" {
			t.Errorf("%s: %v, want code %d and %q", name, err, c.code, c.want)
		}
	}
	machine := New(Card{})
	if _, err := machine.Driver().DeviceCount(); err == nil || !strings.Contains(err.Error(), "CUDA_ERROR_NOT_INITIALIZED") {
		t.Errorf("before Init: %v", err)
	}
}

// TestLate holds what is asynchronous to happen as late as the program allows.
func TestLate(t *testing.T) {
	b := newBench(t, Card{})
	f := b.function(source(store))
	at, err := b.MemAlloc(4096)
	b.must(err)
	host, err := b.MemAllocHost(4096)
	b.must(err)
	b.must(b.SetAsync(at, 1, 4096, b.stream))
	b.launchStore(f, at, b.stream)
	b.must(b.CopyFromAsync(host, at, b.stream))
	event, err := b.EventCreate(false)
	b.must(err)
	b.must(b.EventRecord(event, b.stream))
	for i := range 5 { // the filling, the kernel, the copy, the record, and then it has happened
		if host[0] != 0xA5 && i < 3 {
			t.Fatalf("after %d queries the destination of the copy holds %#x", i, host[0])
		}
		done, err := b.EventQuery(event)
		b.must(err)
		if done != (i == 4) {
			t.Fatalf("query %d: %v", i, done)
		}
	}
	if host[0] != 7 || host[4092] != 7 {
		t.Fatalf("copied %d, %d, want 7", host[0], host[4092])
	}

	// A synchronous copy passes by what waits in a stream.
	b.must(b.SetAsync(at, 9, 4096, b.stream))
	two := make([]byte, 2)
	b.must(b.CopyToHost(two, at))
	if two[0] != 7 {
		t.Fatalf("the stream was not late: %d", two[0])
	}
	b.must(b.Synchronize())
	b.must(b.CopyToHost(two, at))
	if two[0] != 9 {
		t.Fatalf("Synchronize left work: %d", two[0])
	}
}

// TestStreams holds streams that wait for each other to their order, and no other to any.
func TestStreams(t *testing.T) {
	b := newBench(t, Card{})
	other, err := b.StreamCreate()
	b.must(err)
	at, err := b.MemAlloc(16)
	b.must(err)
	event, err := b.EventCreate(true)
	b.must(err)
	late, err := b.EventCreate(true)
	b.must(err)
	value := func() byte {
		v := make([]byte, 1)
		b.must(b.CopyToHost(v, at))
		return v[0]
	}
	b.must(b.StreamWait(other, event)) // not recorded: has happened
	b.must(b.SetAsync(at, 1, 16, b.stream))
	b.must(b.EventRecord(event, b.stream))
	b.must(b.SetAsync(at, 2, 16, b.stream))
	b.must(b.StreamWait(other, event))
	b.must(b.SetAsync(at, 3, 16, other))
	b.must(b.EventRecord(late, other))
	b.must(b.StreamSync(other))
	if v := value(); v != 3 {
		t.Fatalf("the other stream left %d, want 3", v)
	}
	b.must(b.StreamSync(b.stream))
	if v := value(); v != 2 {
		t.Fatalf("the first stream left %d, want 2", v)
	}
	b.launchStore(b.function(source(store)), get4096(b), b.stream)
	b.must(b.EventRecord(late, b.stream))
	b.must(b.EventSync(late))
	ms, err := b.EventElapsed(event, late)
	b.must(err)
	if ms <= 0 || ms > 1 {
		t.Errorf("a kernel of 32 warps took %g ms by the count of instructions", ms)
	}
	b.must(b.StreamDestroy(other))
	if calls := b.machine.Counters().Calls; calls["SetAsync"] != 3 || calls["StreamWait"] != 2 {
		t.Errorf("calls: %v", calls)
	}
}

func get4096(b *bench) driver.Ptr {
	at, err := b.MemAlloc(4096)
	b.must(err)
	return at
}

// TestClose holds Close to name what is left.
func TestClose(t *testing.T) {
	b := newBench(t, Card{})
	b.function(source(""))
	_, err := b.MemAlloc(100)
	b.must(err)
	host, err := b.MemAllocHost(50)
	b.must(err)
	event, err := b.EventCreate(false)
	b.must(err)
	at := get4096(b)
	b.must(b.SetAsync(at, 0, 4, b.stream))
	text := b.machine.Close().Error()
	for _, want := range []string{"context of card 0", "memory of 100 bytes", "50 bytes of pinned memory", "1 streams", "1 events", "1 modules", "1 pieces of work", "filling of 4 bytes"} {
		if !strings.Contains(text, want) {
			t.Errorf("Close does not say %q: %s", want, text)
		}
	}
	_, _ = host, event
	b = newBench(t, Card{})
	b.must(b.StreamDestroy(b.stream))
	b.must(b.ContextRelease(b.device))
	b.must(b.machine.Close())
}

// TestQueries holds what a driver tells about itself, its cards and kernels.
func TestQueries(t *testing.T) {
	b := newBench(t, Card{Name: "Test", Memory: 1 << 20, Major: 8, Minor: 6, Multiprocessors: 5, SharedOptin: 100 << 10})
	version, err := b.Version()
	b.must(err)
	name, err := b.DeviceName(b.device)
	b.must(err)
	total, err := b.DeviceMemory(b.device)
	b.must(err)
	if version < 12000 || name != "Test" || total != 1<<20 {
		t.Errorf("version %d, name %s, %d bytes", version, name, total)
	}
	for a, want := range map[driver.Attribute]int{driver.ComputeMajor: 8, driver.ComputeMinor: 6, driver.Multiprocessors: 5, driver.MaxSharedPerBlockOptin: 100 << 10, driver.WarpSize: 32} {
		if got, err := b.DeviceAttribute(b.device, a); err != nil || got != want {
			t.Errorf("attribute %d: %d, %v, want %d", a, got, err, want)
		}
	}
	if _, err := b.DeviceAttribute(b.device, 9999); err == nil {
		t.Error("an unknown attribute has a value")
	}
	if ok, err := b.CanAccessPeer(b.device, b.device); ok || err != nil {
		t.Errorf("a card is its own peer: %v, %v", ok, err)
	}
	at := get4096(b)
	if free, total, err := b.MemInfo(); err != nil || free != 1<<20-4096 || total != 1<<20 {
		t.Errorf("%d of %d bytes free, %v", free, total, err)
	}
	b.must(b.MemFree(at))
	f := b.function(source(".shared .align 4 .b8 s[100]; .local .align 4 .b8 l[12]; mov.u32 %r1, s; mov.u64 %d1, l;"))
	for a, want := range map[driver.FuncAttribute]int{driver.FuncSharedBytes: 112, driver.FuncLocalBytes: 12, driver.FuncMaxDynamicShared: 48<<10 - 112} {
		if got, err := b.FuncGet(f, a); err != nil || got != want {
			t.Errorf("attribute %d of the kernel: %d, %v, want %d", a, got, err, want)
		}
	}
	b.must(b.FuncSet(f, driver.FuncMaxDynamicShared, 90<<10))
	if got, err := b.FuncGet(f, driver.FuncMaxDynamicShared); err != nil || got != 90<<10 {
		t.Errorf("dynamic shared memory: %d, %v", got, err)
	}
	event, err := b.EventCreate(false)
	b.must(err)
	b.must(b.EventDestroy(event))
	if err := b.EventDestroy(event); err == nil {
		t.Error("an event was destroyed twice")
	}
}

// TestDeviceCopy holds copies within the device to carry what was written, and what was not.
func TestDeviceCopy(t *testing.T) {
	b := newBench(t, Card{})
	from, to := get4096(b), get4096(b)
	b.must(b.CopyToDevice(from, []byte{1, 2, 3}))
	b.must(b.CopyAsync(to+1, from, 4, b.stream))
	b.must(b.StreamSync(b.stream))
	got := make([]byte, 3)
	b.must(b.CopyToHost(got, to+1))
	if got[0] != 1 || got[2] != 3 {
		t.Errorf("copied %v", got)
	}
	if err := b.CopyToHost(got, to+2); err == nil || !strings.Contains(err.Error(), "nobody has written byte 2") {
		t.Errorf("a byte that nobody wrote became one that somebody did: %v", err)
	}
}

// TestVariables holds memory of modules to what it begins with, and each load to memory of its own.
func TestVariables(t *testing.T) {
	b := newBench(t, Card{})
	text := strings.Replace(source("mov.u64 %d1, table; ld.const.u32 %r1, [table+4]; ld.global.u32 %r2, [count]; add.u32 %r2, %r2, %r1; st.global.u32 [count], %r2; st.global.u32 [%d0], %r2;"),
		".address_size 64\n", ".address_size 64\n.const .align 4 .b32 table[2] = {5, 7};\n.global .align 4 .u32 count = 100;\n", 1)
	at := get4096(b)
	for _, f := range []driver.Function{b.function(text), b.function(text)} {
		for _, want := range []byte{107, 114} {
			b.must(b.Launch(&driver.Launch{Function: f, Grid: driver.Dim3{X: 1, Y: 1, Z: 1}, Block: driver.Dim3{X: 1, Y: 1, Z: 1}, Stream: b.stream, Params: pointer(at)}))
			b.must(b.StreamSync(b.stream))
			got := make([]byte, 1)
			b.must(b.CopyToHost(got, at))
			if got[0] != want {
				t.Fatalf("the kernel counts %d, want %d", got[0], want)
			}
		}
	}
}
