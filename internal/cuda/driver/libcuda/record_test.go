package libcuda

import (
	"encoding/binary"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"ossian/internal/cuda/driver"
)

// A recorder stands in place of C: it keeps what was called with which words, reads the memory
// behind them while the call lasts, and answers.
type recorder struct {
	symbols []string // address - 1000 is an index of it
	absent  []string // symbols that the library does not have
	calls   []recorded
	answer  func(symbol string, words []uintptr) int // nil = 0 for everything
}

// A recorded is one call.
type recorded struct {
	symbol string
	words  []uintptr
}

func (r *recorder) library() *library {
	return &library{name: "recorder", lookup: func(symbol string) uintptr {
		if slices.Contains(r.absent, symbol) {
			return 0
		}
		r.symbols = append(r.symbols, symbol)
		return uintptr(999 + len(r.symbols))
	}, invoke: func(address uintptr, words ...uintptr) uintptr {
		symbol := r.symbols[address-1000]
		r.calls = append(r.calls, recorded{symbol, slices.Clone(words)})
		if r.answer == nil {
			return 0
		}
		return uintptr(uint32(r.answer(symbol, words)))
	}}
}

// at is the memory behind a word of a call. Inlined, the compiler of Go 1.26 fails on copies to it.
//
//go:noinline
func at[T any](word uintptr) *T { return (*T)(*(*unsafe.Pointer)(unsafe.Pointer(&word))) }

// bytesAt copies memory behind a word.
func bytesAt(word uintptr, length int) []byte {
	return slices.Clone(unsafe.Slice(at[byte](word), length))
}

// Every function of the driver calls one symbol with the words that cuda.h declares. A star is a
// pointer: it must not be 0.
func TestWords(t *testing.T) {
	const star = uintptr(0xfeed)
	r := &recorder{}
	d := newDriver(r.library())
	some := []byte{1, 2, 3}
	where := uintptr(unsafe.Pointer(&some[0]))
	ignore := func(_ any, err error) error { return err }
	host := unsafe.Slice(&make([]byte, 8)[0], 8)
	r.answer = func(symbol string, words []uintptr) int {
		if symbol == "cuMemAllocHost_v2" {
			*at[*byte](words[0]) = &host[0]
		}
		return 0
	}
	for _, c := range []struct {
		call   func() error
		symbol string
		words  []uintptr
	}{
		{d.Init, "cuInit", []uintptr{0}},
		{func() error { return ignore(d.Version()) }, "cuDriverGetVersion", []uintptr{star}},
		{func() error { return ignore(d.DeviceCount()) }, "cuDeviceGetCount", []uintptr{star}},
		{func() error { return ignore(d.DeviceGet(3)) }, "cuDeviceGet", []uintptr{star, 3}},
		{func() error { return ignore(d.DeviceGet(-1)) }, "cuDeviceGet", []uintptr{star, 0xffffffff}},
		{func() error { return ignore(d.DeviceName(3)) }, "cuDeviceGetName", []uintptr{star, 256, 3}},
		{func() error { return ignore(d.DeviceAttribute(3, driver.ComputeMajor)) }, "cuDeviceGetAttribute", []uintptr{star, 75, 3}},
		{func() error { return ignore(d.DeviceMemory(3)) }, "cuDeviceTotalMem_v2", []uintptr{star, 3}},
		{func() error { return ignore(d.CanAccessPeer(3, 4)) }, "cuDeviceCanAccessPeer", []uintptr{star, 3, 4}},
		{func() error { return ignore(d.ContextRetain(3)) }, "cuDevicePrimaryCtxRetain", []uintptr{star, 3}},
		{func() error { return d.ContextRelease(3) }, "cuDevicePrimaryCtxRelease_v2", []uintptr{3}},
		{func() error { return d.SetCurrent(30) }, "cuCtxSetCurrent", []uintptr{30}},
		{d.Synchronize, "cuCtxSynchronize", nil},
		{func() error { return d.EnablePeer(30) }, "cuCtxEnablePeerAccess", []uintptr{30, 0}},
		{func() error { _, _, err := d.MemInfo(); return err }, "cuMemGetInfo_v2", []uintptr{star, star}},
		{func() error { return ignore(d.MemAlloc(1 << 33)) }, "cuMemAlloc_v2", []uintptr{star, 1 << 33}},
		{func() error { return d.MemFree(1 << 40) }, "cuMemFree_v2", []uintptr{1 << 40}},
		{func() error { return ignore(d.MemAllocHost(8)) }, "cuMemAllocHost_v2", []uintptr{star, 8}},
		{func() error { return d.MemFreeHost(some) }, "cuMemFreeHost", []uintptr{where}},
		{func() error { return d.CopyToHost(some, 1<<40) }, "cuMemcpyDtoH_v2", []uintptr{where, 1 << 40, 3}},
		{func() error { return d.CopyToAsync(1<<40, some, 50) }, "cuMemcpyHtoDAsync_v2", []uintptr{1 << 40, where, 3, 50}},
		{func() error { return d.CopyFromAsync(some, 1<<40, 50) }, "cuMemcpyDtoHAsync_v2", []uintptr{where, 1 << 40, 3, 50}},
		{func() error { return d.CopyAsync(1<<40, 1<<41, 9, 50) }, "cuMemcpyDtoDAsync_v2", []uintptr{1 << 40, 1 << 41, 9, 50}},
		{func() error { return d.SetAsync(1<<40, 0xff, 9, 50) }, "cuMemsetD8Async", []uintptr{1 << 40, 0xff, 9, 50}},
		{func() error { return ignore(d.ModuleLoad([]byte("text"))) }, "cuModuleLoadDataEx", []uintptr{star, star, 2, star, star}},
		{func() error { return d.ModuleUnload(60) }, "cuModuleUnload", []uintptr{60}},
		{func() error { return ignore(d.GetFunction(60, "name")) }, "cuModuleGetFunction", []uintptr{star, 60, star}},
		{func() error { return ignore(d.FuncGet(70, driver.FuncRegisters)) }, "cuFuncGetAttribute", []uintptr{star, 4, 70}},
		{func() error { return d.FuncSet(70, driver.FuncMaxDynamicShared, 1<<16) }, "cuFuncSetAttribute", []uintptr{70, 8, 1 << 16}},
		{func() error {
			return d.Launch(&driver.Launch{Function: 70, Grid: driver.Dim3{X: 1, Y: 2, Z: 3}, Block: driver.Dim3{X: 4, Y: 5, Z: 6}, Shared: 7, Stream: 50, Params: some})
		},
			"cuLaunchKernel", []uintptr{70, 1, 2, 3, 4, 5, 6, 7, 50, star, 0}},
		{func() error { return d.Launch(&driver.Launch{Function: 70}) }, "cuLaunchKernel", []uintptr{70, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}},
		{func() error { return d.Launch(&driver.Launch{Function: 70, Params: some, Overlap: true}) }, "cuLaunchKernelEx", []uintptr{star, 70, star, 0}},
		{func() error {
			return ignore(d.EncodeTensor(&driver.TensorBox{ElementType: driver.BFloat16, Base: 1 << 40, Swizzle128: true}))
		},
			"cuTensorMapEncodeTiled", []uintptr{star, 9, 2, 1 << 40, star, star, star, star, 0, 3, 2, 0}},
		{func() error { return ignore(d.StreamCreate()) }, "cuStreamCreate", []uintptr{star, 1}},
		{func() error { return d.StreamDestroy(50) }, "cuStreamDestroy_v2", []uintptr{50}},
		{func() error { return d.StreamSync(50) }, "cuStreamSynchronize", []uintptr{50}},
		{func() error { return d.StreamWait(50, 80) }, "cuStreamWaitEvent", []uintptr{50, 80, 0}},
		{func() error { return ignore(d.EventCreate(true)) }, "cuEventCreate", []uintptr{star, 0}},
		{func() error { return ignore(d.EventCreate(false)) }, "cuEventCreate", []uintptr{star, 2}},
		{func() error { return d.EventDestroy(80) }, "cuEventDestroy_v2", []uintptr{80}},
		{func() error { return d.EventRecord(80, 50) }, "cuEventRecord", []uintptr{80, 50}},
		{func() error { return ignore(d.EventQuery(80)) }, "cuEventQuery", []uintptr{80}},
		{func() error { return d.EventSync(80) }, "cuEventSynchronize", []uintptr{80}},
		{func() error { return ignore(d.EventElapsed(80, 81)) }, "cuEventElapsedTime", []uintptr{star, 80, 81}},
		{func() error { return d.CaptureBegin(50) }, "cuStreamBeginCapture_v2", []uintptr{50, 1}},
		{func() error { return ignore(d.CaptureEnd(50)) }, "cuStreamEndCapture", []uintptr{50, star}},
		{func() error { return ignore(d.GraphInstantiate(90)) }, "cuGraphInstantiateWithFlags", []uintptr{star, 90, 0}},
		{func() error { return d.GraphLaunch(91, 50) }, "cuGraphLaunch", []uintptr{91, 50}},
		{func() error { return d.GraphExecDestroy(91) }, "cuGraphExecDestroy", []uintptr{91}},
		{func() error { return d.GraphDestroy(90) }, "cuGraphDestroy", []uintptr{90}},
	} {
		r.calls = nil
		if err := c.call(); err != nil {
			t.Errorf("%s: %v", c.symbol, err)
		}
		if len(r.calls) != 1 || r.calls[0].symbol != c.symbol || len(r.calls[0].words) != len(c.words) {
			t.Errorf("%s with %d words expected, called %v", c.symbol, len(c.words), r.calls)
			continue
		}
		for i, word := range r.calls[0].words {
			if (c.words[i] == star && word == 0) || (c.words[i] != star && word != c.words[i]) {
				t.Errorf("%s: word %d is %#x, want %#x", c.symbol, i, word, c.words[i])
			}
		}
	}
	fields := reflect.ValueOf(*d)
	for i := range fields.NumField() {
		if fields.Field(i).IsZero() {
			t.Errorf("%s is not set", fields.Type().Field(i).Name)
		}
	}
}

// A copy to the device has ended when it returns, also where the driver's function has only taken the
// bytes: the stream in which it is made is waited for, unless there was an error.
func TestCopyEnds(t *testing.T) {
	r := &recorder{}
	d := newDriver(r.library())
	some, code := []byte{1, 2, 3}, 0
	r.answer = func(string, []uintptr) int { return code }
	if err := d.CopyToDevice(1<<40, some); err != nil {
		t.Fatal(err)
	}
	where := uintptr(unsafe.Pointer(&some[0]))
	if len(r.calls) != 2 || r.calls[0].symbol != "cuMemcpyHtoD_v2" || !slices.Equal(r.calls[0].words, []uintptr{1 << 40, where, 3}) ||
		r.calls[1].symbol != "cuStreamSynchronize" || !slices.Equal(r.calls[1].words, []uintptr{0}) {
		t.Errorf("calls %v: a copy of 3 bytes, then a wait for stream 0 expected", r.calls)
	}
	r.calls, code = nil, 1
	if err := d.CopyToDevice(1<<40, some); err == nil || r.calls[0].symbol != "cuMemcpyHtoD_v2" {
		t.Errorf("calls %v, error %v: that of the copy expected", r.calls, err)
	}
}

// What the driver writes behind pointers is what the functions return.
func TestResults(t *testing.T) {
	r := &recorder{}
	d := newDriver(r.library())
	memory := []byte{5, 6, 7}
	r.answer = func(symbol string, words []uintptr) int {
		switch symbol {
		case "cuDeviceGetName":
			copy(unsafe.Slice(at[byte](words[0]), 256), "NVIDIA Emulated\x00rest")
		case "cuMemGetInfo_v2":
			*at[uint64](words[0]), *at[uint64](words[1]) = 1<<35, 1<<36
		case "cuMemAlloc_v2", "cuStreamCreate", "cuModuleLoadDataEx":
			*at[uint64](words[0]) = 1 << 41
		case "cuMemAllocHost_v2":
			*at[*byte](words[0]) = &memory[0]
		case "cuDeviceGetAttribute":
			*at[int32](words[0]) = -5
		case "cuEventElapsedTime":
			*at[float32](words[0]) = 1.5
		case "cuEventQuery":
			return notReady
		case "cuCtxEnablePeerAccess":
			return alreadyEnabled
		case "cuTensorMapEncodeTiled":
			if words[0]%64 != 0 {
				t.Errorf("a descriptor at %#x; a multiple of 64 is required", words[0])
			}
			if got := bytesAt(words[4], 16); binary.LittleEndian.Uint64(got) != 11 || got[8] != 12 {
				t.Errorf("sizes %v", got)
			}
			if *at[uint64](words[5]) != 1024 || *at[[2]uint32](words[6]) != [2]uint32{64, 32} || *at[[2]uint32](words[7]) != [2]uint32{1, 1} {
				t.Error("stride, box or steps of a tensor are wrong")
			}
			copy(unsafe.Slice(at[byte](words[0]), 128), "map")
		}
		return 0
	}
	check := func(what string, got, want any, err error) {
		t.Helper()
		if err != nil || got != want {
			t.Errorf("%s: %v, %v; want %v", what, got, err, want)
		}
	}
	name, err := d.DeviceName(0)
	check("name", name, "NVIDIA Emulated", err)
	free, total, err := d.MemInfo()
	check("memory", [2]uint64{free, total}, [2]uint64{1 << 35, 1 << 36}, err)
	ptr, err := d.MemAlloc(1)
	check("allocation", ptr, driver.Ptr(1<<41), err)
	stream, err := d.StreamCreate()
	check("stream", stream, driver.Stream(1<<41), err)
	attribute, err := d.DeviceAttribute(0, driver.WarpSize)
	check("attribute", attribute, -5, err)
	elapsed, err := d.EventElapsed(1, 2)
	check("elapsed", elapsed, float32(1.5), err)
	done, err := d.EventQuery(1)
	check("an event that has not happened", done, false, err)
	check("access to a peer, twice", nil, nil, d.EnablePeer(1))
	pinned, err := d.MemAllocHost(3)
	check("pinned memory", fmt.Sprint(pinned), "[5 6 7]", err)
	if _, err := d.MemAllocHost(0); err == nil {
		t.Error("pinned memory of 0 bytes: no error")
	}
	tensor, err := d.EncodeTensor(&driver.TensorBox{Size: [2]uint64{11, 12}, Stride: 1024, Box: [2]uint32{64, 32}})
	check("tensor", string(tensor[:3]), "map", err)
}

// The memory that a launch points to has the layout of cuda.h.
func TestLaunchBlocks(t *testing.T) {
	r := &recorder{}
	d := newDriver(r.library())
	params := []byte("0123456789abcdef01234567")
	seen := 0
	r.answer = func(symbol string, words []uintptr) int {
		if extra := words[len(words)-1]; extra != 0 {
			t.Errorf("%s: extra is %v", symbol, extra)
		}
		if got := string(bytesAt(*at[uintptr](words[len(words)-2]), 24)); got != string(params) {
			t.Errorf("%s: parameters %q", symbol, got)
		}
		seen++
		if symbol != "cuLaunchKernelEx" {
			return 0
		}
		config := bytesAt(words[0], 56) // sizeof(CUlaunchConfig)
		for i := range 7 {
			if got := binary.LittleEndian.Uint32(config[4*i:]); got != uint32(i+1) {
				t.Errorf("word %d of the configuration is %d", i, got)
			}
		}
		if stream, count := binary.LittleEndian.Uint64(config[32:]), binary.LittleEndian.Uint32(config[48:]); stream != 8 || count != 1 {
			t.Errorf("stream %d, %d attributes", stream, count)
		}
		attribute := bytesAt(uintptr(binary.LittleEndian.Uint64(config[40:])), 72) // sizeof(CUlaunchAttribute)
		if id, value := binary.LittleEndian.Uint32(attribute), binary.LittleEndian.Uint32(attribute[8:]); id != 6 || value != 1 {
			t.Errorf("attribute %d has the value %d", id, value)
		}
		return 0
	}
	for _, overlap := range []bool{false, true} {
		if err := d.Launch(&driver.Launch{Function: 70, Grid: driver.Dim3{X: 1, Y: 2, Z: 3}, Block: driver.Dim3{X: 4, Y: 5, Z: 6}, Shared: 7, Stream: 8, Params: params, Overlap: overlap}); err != nil {
			t.Error(err)
		}
	}
	if seen != 2 {
		t.Errorf("%d launches seen", seen)
	}
}

// Errors have the driver's names and words, those of a module what the compiler said.
func TestErrors(t *testing.T) {
	texts := map[string]*byte{}
	for symbol, text := range map[string]string{"cuGetErrorName": "CUDA_ERROR_INVALID_PTX\x00", "cuGetErrorString": "a PTX JIT compilation failed\x00"} {
		texts[symbol] = &[]byte(text)[0]
	}
	r := &recorder{absent: []string{"cuGraphInstantiateWithFlags", "cuModuleUnload"}}
	d := newDriver(r.library())
	r.answer = func(symbol string, words []uintptr) int {
		switch symbol {
		case "cuGetErrorName", "cuGetErrorString":
			if words[0] != 218 {
				return 1 // it knows no others
			}
			*at[*byte](words[1]) = texts[symbol]
			return 0
		case "cuDriverGetVersion":
			*at[int32](words[0]) = 11020
			return 0
		case "cuModuleLoadDataEx":
			if image := string(bytesAt(words[1], 5)); image != "text\x00" {
				t.Errorf("image %q", image)
			}
			if *at[[2]int32](words[3]) != [2]int32{errorLogBuffer, errorLogBufferSize} {
				t.Error("other options than a log and its size")
			}
			values := *at[[2]uintptr](words[4])
			copy(unsafe.Slice(at[byte](values[0]), int(values[1])), "line 1: unknown opcode\n\x00")
			return 218
		case "cuMemAlloc_v2":
			return 2
		}
		return 0
	}
	_, err := d.ModuleLoad([]byte("text"))
	if want := "cuModuleLoadDataEx: CUDA_ERROR_INVALID_PTX (218): a PTX JIT compilation failed: line 1: unknown opcode"; err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
	if _, err = d.MemAlloc(1); err == nil || !strings.Contains(err.Error(), "cuMemAlloc: ") || !strings.Contains(err.Error(), "(2)") {
		t.Errorf("an error without a name: %v", err)
	}
	_, err = d.GraphInstantiate(1)
	if err == nil || !strings.Contains(err.Error(), "CUDA 11.2") || !strings.Contains(err.Error(), "CUDA 11.4") {
		t.Errorf("a function that the driver lacks: %v", err)
	}
	if err := d.ModuleUnload(1); err == nil || strings.Contains(err.Error(), "update") ||
		!strings.Contains(err.Error(), "recorder lacks this function, which came with CUDA 2.0, though it says that it is of CUDA 11.2: the library is incomplete or damaged") {
		t.Errorf("a function that the driver ought to have: %v", err)
	}
	if _, err := d.GetFunction(1, "a\x00b"); err == nil {
		t.Error("a name with a zero byte: no error")
	}
	if _, err := d.ModuleLoad(nil); err == nil {
		t.Error("an empty module: no error")
	}
}
