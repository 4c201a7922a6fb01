package cuda

import (
	"runtime"
	"testing"
	"unsafe"

	"ossian/internal/cuda/driver"
	"ossian/internal/cuda/emu"
)

// A rig is an emulated card with one stream: what a test of kernels needs.
type rig struct {
	t       *testing.T
	machine *emu.Machine
	drv     *driver.Driver
	q       *queue
}

// newRig opens the emulator with all its checks. Memory that a test allocates by the rig is freed
// with the test, after which the emulator is asked what was left behind.
func newRig(t *testing.T) *rig {
	t.Helper()
	return newRigOn(t, emu.Card{})
}

// newRigOn is newRig for another card.
func newRigOn(t *testing.T, card emu.Card) *rig {
	t.Helper()
	runtime.LockOSThread() // a context is current for a thread
	t.Cleanup(runtime.UnlockOSThread)
	machine, drv := testCard(t, card)
	r := &rig{t: t, machine: machine, drv: drv}
	r.must(r.drv.Init())
	device, err := r.drv.DeviceGet(0)
	r.must(err)
	context, err := r.drv.ContextRetain(device)
	r.must(err)
	r.must(r.drv.SetCurrent(context))
	stream, err := r.drv.StreamCreate()
	r.must(err)
	r.q = newQueue(r.drv, stream)
	t.Cleanup(func() { // runs behind all of the test's own, as it was registered first
		r.must(r.q.close())
		r.must(r.drv.StreamDestroy(stream))
		r.must(r.drv.ContextRelease(device))
		r.must(machine.Close())
	})
	return r
}

// must ends the test with an error of the driver.
func (r *rig) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

// alloc returns memory that nobody has written; reading it is a fault.
func (r *rig) alloc(bytes int) driver.Ptr {
	r.t.Helper()
	at, err := r.drv.MemAlloc(uint64(bytes))
	r.must(err)
	r.t.Cleanup(func() { r.must(r.drv.MemFree(at)) })
	return at
}

// sync waits for all launches and ends the test where one of them was at fault.
func (r *rig) sync() {
	r.t.Helper()
	r.must(r.q.err)
	r.must(r.drv.StreamSync(r.q.stream))
}

// upload copies values of fixed size to new memory of the device.
func upload[T any](r *rig, values []T) driver.Ptr {
	r.t.Helper()
	data := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(values))), len(values)*int(unsafe.Sizeof(*new(T))))
	at := r.alloc(max(len(data), 1))
	if len(data) > 0 {
		r.must(r.drv.CopyToDevice(at, data))
	}
	return at
}

// download waits for the stream and copies count values from the device.
func download[T any](r *rig, at driver.Ptr, count int) []T {
	r.t.Helper()
	r.sync()
	values := make([]T, count)
	data := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(values))), count*int(unsafe.Sizeof(*new(T))))
	r.must(r.drv.CopyToHost(data, at))
	digest(r.t, data)
	return values
}

// counters are what the emulator has counted. A test that wants them is over on a real card.
func (r *rig) counters() emu.Counters {
	r.t.Helper()
	if onRealCard() {
		r.t.Skip("a real card counts nothing")
	}
	return r.machine.Counters()
}
