package cuda

import (
	"crypto/sha256"
	"fmt"
	"hash"
	"os"
	"reflect"
	"runtime"
	"sync"
	"testing"

	"ossian/internal/cuda/driver"
	"ossian/internal/cuda/driver/libcuda"
	"ossian/internal/cuda/emu"
)

// The suites of this package run on the emulator, and on a machine with a GPU on that one:
// OSSIAN_CARD=cuda says so, and OSSIAN_DIGESTS names a file for digests of what was computed, by
// which two runs on a card are compared bit for bit (_tools/cuda/gpu.sh). OSSIAN_CARD=emu is the
// emulator, called in the way of a real card.

// onRealCard reports whether the suites run on the GPU of this machine.
func onRealCard() bool { return os.Getenv("OSSIAN_CARD") == "cuda" }

// realDriver is that of this machine. The context of its card is kept until the program ends: a
// driver takes a good part of a second for one, of which every test would have another.
var realDriver = sync.OnceValues(func() (*driver.Driver, error) {
	drv, err := libcuda.Open()
	if err != nil {
		return nil, err
	}
	if err := drv.Init(); err != nil {
		return nil, err
	}
	device, err := drv.DeviceGet(0)
	if err == nil {
		_, err = drv.ContextRetain(device)
	}
	return drv, err
})

// deviceDriver returns an emulated card and the driver on which a Device is to be tested, which binds
// threads by itself: on a machine with a GPU that of the machine. The emulated card is closed with the
// device; nothing was done on it where there is another one. With OSSIAN_CARD=emu it has a neighbour,
// since only then the emulator refuses calls of threads without a context, as a card's driver does.
func deviceDriver(t *testing.T, card emu.Card) (*emu.Machine, *driver.Driver) {
	t.Helper()
	machine := emu.New(card)
	if !onRealCard() {
		if os.Getenv("OSSIAN_CARD") == "emu" {
			machine = emu.New(card, emu.Card{})
		}
		return machine, machine.Driver()
	}
	drv, err := realDriver()
	if err != nil {
		t.Fatal(err)
	}
	return machine, drv
}

// testCard returns an emulated card and the driver of the card that a test is to run on, which is
// another one on a machine with a GPU. The test then finds counters of nothing, and nothing left
// behind.
func testCard(t *testing.T, card emu.Card) (*emu.Machine, *driver.Driver) {
	t.Helper()
	machine := emu.New(limited(card))
	switch which := os.Getenv("OSSIAN_CARD"); which {
	case "":
		return machine, machine.Driver()
	case "emu":
		return machine, onOneThread(t, machine.Driver())
	case "cuda":
		drv, err := realDriver()
		if err != nil {
			t.Fatal(err)
		}
		return machine, onOneThread(t, drv)
	default:
		t.Fatalf("OSSIAN_CARD=%s: cuda or emu expected; CUDA_VISIBLE_DEVICES chooses a card", which)
		return nil, nil
	}
}

// onOneThread returns a driver all of whose calls are made by one thread, to which a context is
// bound, whichever goroutines of a test call it. The thread ends with the test.
func onOneThread(t *testing.T, drv *driver.Driver) *driver.Driver {
	calls := make(chan func())
	t.Cleanup(func() { close(calls) })
	go func() {
		runtime.LockOSThread()
		for call := range calls {
			call()
		}
	}()
	bound := *drv
	fields := reflect.ValueOf(&bound).Elem()
	for i := range fields.NumField() {
		field := fields.Field(i)
		if field.Kind() != reflect.Func {
			continue
		}
		call := reflect.ValueOf(field.Interface()) // not the field, which is replaced
		field.Set(reflect.MakeFunc(field.Type(), func(args []reflect.Value) (results []reflect.Value) {
			done := make(chan struct{})
			calls <- func() {
				defer close(done)
				results = call.Call(args)
			}
			<-done
			return results
		}))
	}
	return &bound
}

// digests are what tests have computed so far.
var digests = struct {
	sync.Mutex // guards of
	of         map[string]hash.Hash
}{of: map[string]hash.Hash{}}

// digest adds what a test has computed to its digest, which is written to the file of
// OSSIAN_DIGESTS when the test ends.
func digest(t *testing.T, computed []byte) {
	t.Helper()
	file := os.Getenv("OSSIAN_DIGESTS")
	if file == "" {
		return
	}
	digests.Lock()
	defer digests.Unlock()
	sum := digests.of[t.Name()]
	if sum == nil {
		sum = sha256.New()
		digests.of[t.Name()] = sum
		t.Cleanup(func() { writeDigest(t, file, sum) })
	}
	sum.Write(computed)
}

// writeDigest appends a line to a file, which other tests write to at the same time.
func writeDigest(t *testing.T, file string, sum hash.Hash) {
	out, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o666)
	if err == nil {
		_, err = fmt.Fprintf(out, "%x %s\n", sum.Sum(nil), t.Name())
	}
	if err == nil {
		err = out.Close()
	}
	if err != nil {
		t.Error(err)
	}
}

// On a machine with a GPU the suites of devices run on its driver, not on the emulator.
func TestRealCard(t *testing.T) {
	ours, before := &driver.Driver{Name: "of the machine"}, realDriver
	defer func() { realDriver = before }()
	realDriver = func() (*driver.Driver, error) { return ours, nil }
	t.Setenv("OSSIAN_CARD", "cuda")
	if _, drv := deviceDriver(t, emu.Card{}); drv != ours {
		t.Errorf("devices are tested on %s", drv.Name)
	}
	if _, drv := testCard(t, emu.Card{}); drv.Name != ours.Name {
		t.Errorf("kernels are tested on %s", drv.Name)
	}
	t.Setenv("OSSIAN_CARD", "")
	if _, drv := deviceDriver(t, emu.Card{}); drv == ours {
		t.Error("devices are tested on the driver of the machine without being asked to")
	}
}
