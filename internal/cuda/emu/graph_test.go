package emu

import (
	"errors"
	"strings"
	"testing"

	"ossian/internal/cuda/driver"
)

// TestGraph records two streams and replays them with the memory as it is then.
func TestGraph(t *testing.T) {
	b := newBench(t, Card{})
	other, err := b.StreamCreate()
	b.must(err)
	fork, err := b.EventCreate(false)
	b.must(err)
	join, err := b.EventCreate(false)
	b.must(err)
	at := get4096(b)
	in, err := b.MemAllocHost(4)
	b.must(err)
	out, err := b.MemAllocHost(8)
	b.must(err)
	f := b.function(source("ld.global.u32 %r1, [%d0];\nadd.u32 %r1, %r1, 1;\nst.global.u32 [%d0+4], %r1;"))
	b.must(b.CopyToDevice(at, make([]byte, 8)))

	b.must(b.CaptureBegin(b.stream))
	b.must(b.EventRecord(fork, b.stream))
	b.must(b.StreamWait(other, fork))
	b.must(b.CopyToAsync(at, in, other))
	b.must(b.EventRecord(join, other))
	b.must(b.StreamWait(b.stream, join))
	b.must(b.Launch(&driver.Launch{Function: f, Grid: driver.Dim3{X: 1, Y: 1, Z: 1}, Block: driver.Dim3{X: 1, Y: 1, Z: 1}, Stream: b.stream, Params: pointer(at)}))
	b.must(b.CopyFromAsync(out, at, b.stream))
	graph, err := b.CaptureEnd(b.stream)
	b.must(err)
	exec, err := b.GraphInstantiate(graph)
	b.must(err)
	b.must(b.GraphDestroy(graph))
	for _, v := range []byte{5, 9} {
		in[0], in[1], in[2], in[3] = v, 0, 0, 0
		b.must(b.GraphLaunch(exec, b.stream))
		b.must(b.StreamSync(b.stream))
		if out[0] != v || out[4] != v+1 {
			t.Fatalf("replay with %d gave %v", v, out)
		}
	}
	b.must(b.GraphLaunch(exec, b.stream))
	in[0]++
	var e *driver.Error
	if err := b.StreamSync(b.stream); !errors.As(err, &e) || e.Code != 719 || !strings.Contains(e.Text, "node 0, copy of 4 bytes to the device") {
		t.Errorf("a source that changed: %v", err)
	}
}

// TestCaptureErrors holds recordings to the driver's rules.
func TestCaptureErrors(t *testing.T) {
	for name, c := range map[string]struct {
		do   func(b *bench, s driver.Stream, e driver.Event) error
		code int
		end  int // code of CaptureEnd afterwards
	}{
		"sync":   {func(b *bench, _ driver.Stream, _ driver.Event) error { return b.StreamSync(b.stream) }, 900, 901},
		"alloc":  {func(b *bench, _ driver.Stream, _ driver.Event) error { _, err := b.MemAlloc(8); return err }, 900, 901},
		"pinned": {func(b *bench, _ driver.Stream, _ driver.Event) error { _, err := b.MemAllocHost(8); return err }, 900, 901},
		"module": {func(b *bench, _ driver.Stream, _ driver.Event) error {
			_, err := b.ModuleLoad([]byte(source("")))
			return err
		}, 900, 901},
		"context": {func(b *bench, _ driver.Stream, _ driver.Event) error { return b.Synchronize() }, 900, 901},
		"copy":    {nil, 906, 901},
		"query": {func(b *bench, _ driver.Stream, e driver.Event) error {
			b.must(b.EventRecord(e, b.stream))
			_, err := b.EventQuery(e)
			return err
		}, 907, 901},
		"foreign event": {func(b *bench, s driver.Stream, e driver.Event) error {
			b.must(b.EventRecord(e, s))
			return b.StreamWait(b.stream, e)
		}, 905, 901},
		"begin twice": {func(b *bench, s driver.Stream, _ driver.Event) error { return b.CaptureBegin(s) }, 900, 0},
		"wrong end":   {func(b *bench, s driver.Stream, _ driver.Event) error { _, err := b.CaptureEnd(s); return err }, 903, 0},
	} {
		b := newBench(t, Card{})
		other, err := b.StreamCreate()
		b.must(err)
		event, err := b.EventCreate(false)
		b.must(err)
		if name == "copy" {
			at := get4096(b)
			c.do = func(b *bench, _ driver.Stream, _ driver.Event) error { return b.CopyToDevice(at, nil) }
		}
		b.must(b.CaptureBegin(b.stream))
		var e *driver.Error
		if err := c.do(b, other, event); !errors.As(err, &e) || e.Code != c.code {
			t.Errorf("%s: %v, want code %d", name, err, c.code)
		}
		_, err = b.CaptureEnd(b.stream)
		if got := errors.As(err, &e); got != (c.end != 0) || (got && e.Code != c.end) {
			t.Errorf("%s: the recording ended with %v, want code %d", name, err, c.end)
		}
	}

	b := newBench(t, Card{})
	other, err := b.StreamCreate()
	b.must(err)
	event, err := b.EventCreate(false)
	b.must(err)
	at := get4096(b)
	b.must(b.CaptureBegin(b.stream))
	b.must(b.EventRecord(event, b.stream))
	b.must(b.StreamWait(other, event))
	b.must(b.SetAsync(at, 0, 1, other))
	var e *driver.Error
	if _, err := b.CaptureEnd(b.stream); !errors.As(err, &e) || e.Code != 904 {
		t.Errorf("work of another stream that nobody waits for: %v", err)
	}
}
