// Package driver is the seam between Ossian and a GPU: the functions of the CUDA driver that are
// used, as a struct of function values. The real ones call libcuda (build tag cuda); those of
// internal/cuda/emu run the same PTX on the CPU. The package knows nothing of kernels and models.
//
// Rules that hold for every Driver:
//   - One goroutine at a time makes calls for a context, while it is locked to a thread to which
//     SetCurrent has bound the context.
//   - Work of a stream runs in the order it was given, as late as the program allows: nothing has
//     happened before a synchronising call or a query has said so.
//   - Host memory of an asynchronous copy comes from MemAllocHost and stays unchanged (copies to the
//     device) or unread (copies to the host) until the stream has passed the copy.
//   - Errors are of type *Error where the driver gave them.
package driver

import "fmt"

// A Ptr is an address in device memory; 0 is none.
type Ptr uint64

// Handles of the driver's objects; 0 is none. The zero Stream is refused: it synchronises with
// all others.
type (
	Device    int32 // not an ordinal: what DeviceGet gives for one
	Context   uintptr
	Module    uintptr
	Function  uintptr
	Stream    uintptr
	Event     uintptr
	Graph     uintptr
	GraphExec uintptr
)

// A Dim3 counts blocks of a grid or threads of a block.
type Dim3 struct{ X, Y, Z uint32 }

// A Launch is one execution of a kernel.
type Launch struct {
	Function Function
	Grid     Dim3
	Block    Dim3
	Shared   uint32 // bytes of dynamic shared memory
	Stream   Stream
	// Params is the kernel's one parameter, a struct as it lays it out: fields at multiples of their own
	// size, little endian; all bytes that the kernel declares. It is copied before the call returns.
	Params []byte
	// Overlap allows the kernel to start before the one ahead of it in the stream has ended
	// (programmatic dependent launch); the kernel waits by itself. sm_90 and later.
	Overlap bool
}

// A TensorMap is a descriptor for copies of boxes by the tensor memory accelerator. It is passed to
// kernels by value, in Params, at a multiple of 64 bytes.
type TensorMap [128]byte

// A TensorBox says what a TensorMap describes: a 2-dimensional array of elements of 16 bits.
type TensorBox struct {
	Base        Ptr       // a multiple of 16
	Size        [2]uint64 // elements: inner, outer
	Stride      uint64    // bytes from one outer index to the next, a multiple of 16
	Box         [2]uint32 // elements copied at once: inner, outer; at most 256 each
	Swizzle128  bool      // 16-byte pieces of each 128-byte row change places by row modulo 8
	ElementType Element
}

// An Element is a type of a TensorBox.
type Element uint32

// Elements, numbered as CUtensorMapDataType does.
const (
	Uint8    Element = 0
	BFloat16 Element = 9
)

// An Attribute of a device, numbered as CUdevice_attribute does.
type Attribute int32

// Attributes that are asked for.
const (
	MaxSharedPerBlock      Attribute = 8
	WarpSize               Attribute = 10
	ClockRate              Attribute = 13 // kHz
	Multiprocessors        Attribute = 16
	Integrated             Attribute = 18
	MemoryClockRate        Attribute = 36 // kHz
	MemoryBusWidth         Attribute = 37 // bits
	L2Cache                Attribute = 38 // bytes
	ComputeMajor           Attribute = 75
	ComputeMinor           Attribute = 76
	MaxSharedPerBlockOptin Attribute = 97
)

// A FuncAttribute is a property of a kernel, numbered as CUfunction_attribute does.
type FuncAttribute int32

// Properties of kernels that are read or set.
const (
	FuncSharedBytes      FuncAttribute = 1 // static
	FuncLocalBytes       FuncAttribute = 3 // spilled registers, per thread
	FuncRegisters        FuncAttribute = 4
	FuncMaxDynamicShared FuncAttribute = 8 // may be set
)

// A Driver is what a device is reached through. Every function is set.
type Driver struct {
	Name string // "libcuda.so.1", "emulator": for messages

	// The machine. Init comes first, once.
	Init            func() error
	Version         func() (int, error) // newest CUDA version of the driver: 13010 for 13.1
	DeviceCount     func() (int, error)
	DeviceGet       func(ordinal int) (Device, error)
	DeviceName      func(Device) (string, error)
	DeviceAttribute func(Device, Attribute) (int, error)
	DeviceMemory    func(Device) (uint64, error) // bytes in all
	CanAccessPeer   func(from, to Device) (bool, error)

	// Contexts: the primary one of a device, shared by those who retain it.
	ContextRetain  func(Device) (Context, error)
	ContextRelease func(Device) error
	SetCurrent     func(Context) error // for the calling thread
	Synchronize    func() error        // waits for all streams of the current context
	EnablePeer     func(Context) error // lets the current context use memory of another one
	MemInfo        func() (free, total uint64, err error)

	// Memory. A copy without Async ends before it returns.
	MemAlloc      func(bytes uint64) (Ptr, error) // a multiple of 256, contents undefined
	MemFree       func(Ptr) error
	MemAllocHost  func(bytes int) ([]byte, error) // pinned
	MemFreeHost   func([]byte) error              // the whole slice that MemAllocHost gave
	CopyToDevice  func(dst Ptr, src []byte) error
	CopyToHost    func(dst []byte, src Ptr) error
	CopyToAsync   func(dst Ptr, src []byte, s Stream) error // src pinned
	CopyFromAsync func(dst []byte, src Ptr, s Stream) error // dst pinned
	CopyAsync     func(dst, src Ptr, bytes uint64, s Stream) error
	SetAsync      func(dst Ptr, value byte, bytes uint64, s Stream) error

	// Code.
	ModuleLoad   func(ptx []byte) (Module, error) // errors carry the compiler's own log
	ModuleUnload func(Module) error
	GetFunction  func(m Module, name string) (Function, error)
	FuncGet      func(Function, FuncAttribute) (int, error)
	FuncSet      func(Function, FuncAttribute, int) error
	Launch       func(*Launch) error
	EncodeTensor func(*TensorBox) (TensorMap, error) // sm_90 and later

	// Order.
	StreamCreate  func() (Stream, error) // does not synchronise with the zero stream
	StreamDestroy func(Stream) error
	StreamSync    func(Stream) error
	StreamWait    func(s Stream, e Event) error // s goes on when e has happened
	EventCreate   func(timed bool) (Event, error)
	EventDestroy  func(Event) error
	EventRecord   func(Event, Stream) error
	EventQuery    func(Event) (bool, error) // has it happened?
	EventSync     func(Event) error
	EventElapsed  func(from, to Event) (milliseconds float32, err error) // both timed

	// Graphs: what a stream is given between Begin and End is recorded instead of done.
	CaptureBegin     func(Stream) error
	CaptureEnd       func(Stream) (Graph, error)
	GraphInstantiate func(Graph) (GraphExec, error)
	GraphLaunch      func(GraphExec, Stream) error
	GraphExecDestroy func(GraphExec) error
	GraphDestroy     func(Graph) error
}

// An Error is what a function of the driver answered.
type Error struct {
	Call string // "cuMemAlloc"
	Code int    // CUresult
	Name string // "CUDA_ERROR_OUT_OF_MEMORY"
	Text string // in words, or the log of the PTX compiler
}

// Error names the call, the driver's name and number of the error, and what it says.
func (e *Error) Error() string {
	if e.Text == "" {
		return fmt.Sprintf("%s: %s (%d)", e.Call, e.Name, e.Code)
	}
	return fmt.Sprintf("%s: %s (%d): %s", e.Call, e.Name, e.Code, e.Text)
}

// Sticky reports whether the context is lost with this error: nothing but closing the device and
// opening it again helps.
func (e *Error) Sticky() bool {
	switch e.Code {
	case 201, 214, 220, 226, 700, 702, 709, 710, 714, 715, 716, 717, 718, 719: // context gone, ECC, NVLink, contained memory error, illegal address and kin, time limit, assertion, launch failure
		return true
	}
	return false
}
