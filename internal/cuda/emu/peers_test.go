package emu

import (
	"errors"
	"runtime"
	"strings"
	"testing"

	"ossian/internal/cuda/driver"
)

// meet is a kernel k(mine, theirs): one thread raises the flag at mine, waits for the one at theirs,
// and adds the number behind it to the one behind its own flag.
const meet = ".version 7.1\n.target sm_80\n.address_size 64\n" + `.visible .entry k(.param .u64 mine, .param .u64 theirs)
{
.reg .pred %p; .reg .b32 %r<4>; .reg .b64 %d<3>;
ld.param.u64 %d1, [mine]; ld.param.u64 %d2, [theirs];
st.release.sys.global.u32 [%d1], 1;
$L: ld.acquire.sys.global.u32 %r1, [%d2];
setp.eq.u32 %p, %r1, 0;
@%p bra $L;
ld.global.u32 %r2, [%d2+4]; ld.global.u32 %r3, [%d1+4];
add.u32 %r2, %r2, %r3;
st.global.u32 [%d1+8], %r2;
ret;
}
`

// A peerBench is two cards, each with a stream and memory of its own.
type peerBench struct {
	*driver.Driver
	contexts [2]driver.Context
	streams  [2]driver.Stream
	memory   [2]driver.Ptr
	kernels  [2]driver.Function
}

func newPeers(t *testing.T, enable bool) *peerBench {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	b := &peerBench{Driver: New(Card{}, Card{}).Driver()}
	must(b.Init())
	for i := range 2 {
		device, err := b.DeviceGet(i)
		must(err)
		b.contexts[i], err = b.ContextRetain(device)
		must(err)
	}
	for i := range 2 {
		must(b.SetCurrent(b.contexts[i]))
		if enable {
			must(b.EnablePeer(b.contexts[1-i]))
		}
		var err error
		b.streams[i], err = b.StreamCreate()
		must(err)
		b.memory[i], err = b.MemAlloc(12)
		must(err)
		must(b.CopyToDevice(b.memory[i], []byte{0, 0, 0, 0, byte(10 + i), 0, 0, 0, 0, 0, 0, 0}))
		m, err := b.ModuleLoad([]byte(meet))
		must(err)
		b.kernels[i], err = b.GetFunction(m, "k")
		must(err)
	}
	return b
}

// launch gives card i its kernel.
func (b *peerBench) launch(i int) error {
	one := driver.Dim3{X: 1, Y: 1, Z: 1}
	return b.Launch(&driver.Launch{Function: b.kernels[i], Grid: one, Block: one, Stream: b.streams[i], Params: append(pointer(b.memory[i]), pointer(b.memory[1-i])...)})
}

// TestPeers lets kernels of two cards wait for each other: driven by a thread each, and by one that
// waits for the first card only.
func TestPeers(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	check := func(b *peerBench, i int) error {
		sum := make([]byte, 4)
		if err := b.CopyToHost(sum, b.memory[i]+8); err != nil {
			return err
		}
		if sum[0] != 21 {
			t.Errorf("card %d has %d, want 21", i, sum[0])
		}
		return nil
	}
	b := newPeers(t, true)
	done := make(chan error)
	for i := range 2 {
		go func() {
			runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
			done <- errors.Join(b.SetCurrent(b.contexts[i]), b.launch(i), b.StreamSync(b.streams[i]), check(b, i))
		}()
	}
	for range 2 {
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}

	b = newPeers(t, true)
	for i := range 2 {
		if err := errors.Join(b.SetCurrent(b.contexts[i]), b.launch(i)); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 2 {
		if err := errors.Join(b.SetCurrent(b.contexts[i]), b.StreamSync(b.streams[i]), check(b, i)); err != nil {
			t.Fatal(err)
		}
	}
}

// TestNoPeer holds memory of another card to be out of reach before EnablePeer, and other mistakes
// with several cards to their errors.
func TestNoPeer(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	b := newPeers(t, false)
	if err := b.launch(1); err != nil {
		t.Fatal(err)
	}
	var e *driver.Error
	if err := b.StreamSync(b.streams[1]); !errors.As(err, &e) || e.Code != 700 || !strings.Contains(e.Text, "memory of card 0, for which EnablePeer was not called") {
		t.Errorf("memory of a card that is no peer: %v", err)
	}
	if err := b.SetCurrent(b.contexts[0]); err != nil {
		t.Fatal(err)
	}
	if err := b.StreamSync(b.streams[0]); err != nil {
		t.Errorf("the other card is lost too: %v", err)
	}
	if err := b.StreamSync(b.streams[1]); !errors.As(err, &e) || e.Code != 400 {
		t.Errorf("stream of another context: %v", err)
	}
	if err := b.EnablePeer(b.contexts[0]); !errors.As(err, &e) || e.Code != 101 {
		t.Errorf("a card as its own peer: %v", err)
	}
	if err := errors.Join(b.EnablePeer(b.contexts[1]), b.EnablePeer(b.contexts[1])); !errors.As(err, &e) || e.Code != 704 {
		t.Errorf("peers twice: %v", err)
	}
}

// many is a kernel k(out) of many blocks: sums of what a thread makes of its number, in floating point.
const many = `mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ctaid.y; mov.u32 %r3, %nctaid.x; mad.lo.u32 %r1, %r2, %r3, %r1; mov.u32 %r2, %tid.x; mov.u32 %r3, %ntid.x; mad.lo.u32 %r1, %r1, %r3, %r2; mul.wide.u32 %d1, %r1, 4; add.u64 %d1, %d1, %d0;
cvt.rn.f32.u32 %r4, %r1; ex2.approx.f32 %r5, %r4; rsqrt.approx.f32 %r6, %r4; add.rn.f32 %r5, %r5, %r6; shfl.sync.bfly.b32 %r6, %r5, 3, 31, -1; add.rn.f32 %r5, %r5, %r6;
st.global.u32 [%d1], %r5;`

// TestBlocks holds what one block writes to be out of reach for others of the same launch: the order
// of blocks changes from launch to launch, so that the second one finds what the first one may miss.
func TestBlocks(t *testing.T) {
	for name, c := range map[string]struct {
		body   string
		launch int // that is at fault; 0: none
	}{
		"read behind":  {"setp.eq.u32 %p1, %r1, 0; @%p1 st.global.u32 [%d0], 7; @!%p1 ld.global.u32 %r2, [%d0];", 1},
		"read before":  {"setp.eq.u32 %p1, %r1, 0; @%p1 ld.global.u32 %r2, [%d0]; @!%p1 st.global.v2.u32 [%d0], {7, 7};", 2},
		"own":          {"mul.wide.u32 %d1, %r1, 4; add.u64 %d1, %d1, %d0; st.global.u32 [%d1], 7; ld.global.u32 %r2, [%d1];", 0},
		"same written": {"st.global.u32 [%d0], 7;", 0},
		"by atomics":   {"atom.global.add.u32 %r2, [%d0], 1; ld.global.u32 %r3, [%d0];", 0},
	} {
		b := newBench(t, Card{Workers: 1})
		at := get4096(b)
		b.must(b.SetAsync(at, 0, 4096, b.stream))
		f := b.function(source("mov.u32 %r1, %ctaid.x; " + c.body))
		for n := 1; n <= 2; n++ {
			b.must(b.Launch(&driver.Launch{Function: f, Grid: driver.Dim3{X: 2, Y: 1, Z: 1}, Block: driver.Dim3{X: 1, Y: 1, Z: 1}, Stream: b.stream, Params: pointer(at)}))
			var e *driver.Error
			if err := b.StreamSync(b.stream); (c.launch == n) != (errors.As(err, &e) && e.Code == 719 && strings.Contains(e.Text, "of the same launch wrote them")) {
				t.Errorf("%s: launch %d: %v", name, n, err)
			}
			if c.launch == n {
				break
			}
		}
	}
}

// ticket is a kernel k(out) in which each block takes a number in turn and leaves it behind.
const ticket = `mov.u32 %r2, %tid.x; setp.ne.u32 %p1, %r2, 0; @%p1 ret; atom.global.add.u32 %r1, [%d0], 1; mul.wide.u32 %d1, %r1, 4; add.u64 %d1, %d1, %d0; mov.u32 %r2, %ctaid.x; st.global.u32 [%d1+4], %r2;`

// TestWorkers holds results and counters to be the same however many blocks run at a time.
func TestWorkers(t *testing.T) {
	for name, body := range map[string]string{"apart": many, "in turn": ticket} {
		var want []byte
		var count any
		for _, workers := range []int{1, 2, 7} {
			b := newBench(t, Card{Workers: workers})
			at, err := b.MemAlloc(4096 * 4)
			b.must(err)
			b.must(b.SetAsync(at, 0, 4096*4, b.stream))
			b.must(b.Launch(&driver.Launch{Function: b.function(source(body)), Grid: driver.Dim3{X: 16, Y: 2, Z: 1}, Block: driver.Dim3{X: 64, Y: 1, Z: 1}, Stream: b.stream, Params: pointer(at)}))
			b.must(b.StreamSync(b.stream))
			got := make([]byte, 4096*4)
			b.must(b.CopyToHost(got, at))
			counted := b.machine.Counters().Kernels["k"]
			counted.MMA = nil
			if want == nil {
				want, count = got, counted.Warp
			}
			if string(got) != string(want) || counted.Warp != count {
				t.Errorf("%s: %d workers give other results than one", name, workers)
			}
		}
	}
}

// TestCounters holds the counters of a kernel to what can be counted by hand.
func TestCounters(t *testing.T) {
	b := newBench(t, Card{})
	at := get4096(b)
	b.must(b.SetAsync(at, 1, 4096, b.stream))
	b.machine.Watch("second half", at+2048, 2048)
	f := b.function(source(`.shared .align 4 .b8 s[4096];
mov.u32 %r1, %tid.x; mul.wide.u32 %d1, %r1, 4; add.u64 %d2, %d0, %d1;
ld.global.u32 %r2, [%d2+2048];
shl.b64 %d1, %d1, 3; add.u64 %d1, %d1, %d0; st.global.u32 [%d1], %r2;
shl.b32 %r3, %r1, 7; st.shared.u32 [%r3], %r2; bar.sync 0;`))
	b.must(b.Launch(&driver.Launch{Function: f, Grid: driver.Dim3{X: 1, Y: 1, Z: 1}, Block: driver.Dim3{X: 32, Y: 1, Z: 1}, Stream: b.stream, Params: pointer(at)}))
	b.must(b.StreamSync(b.stream))
	c := b.machine.Counters()
	k := c.Kernels["k"]
	// 12 instructions of the text, the load of the parameter and ret; 4 sectors together, 32 apart.
	for _, x := range []struct {
		what      string
		got, want int64
	}{
		{"launches", k.Launches, 1}, {"warp", k.Warp, 12}, {"lane", k.Lane, 12 * 32}, {"sectors", k.Sectors, 36}, {"ideal", k.Ideal, 8},
		{"shared", k.Shared, 32}, {"conflicts", k.Conflicts, 31}, {"barriers", k.Barriers, 1}, {"watched sectors", c.Watched["second half"].Sectors, 4},
		{"watched ideal", c.Watched["second half"].Ideal, 4}, {"calls", c.Calls["Launch"], 1},
	} {
		if x.got != x.want {
			t.Errorf("%s: %d, want %d", x.what, x.got, x.want)
		}
	}
}
