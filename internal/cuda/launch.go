package cuda

import (
	"fmt"
	"unsafe"

	"ossian/internal/cuda/driver"
	"ossian/internal/cuda/kernels"
)

// A queue gives kernels to one stream of a device, in order. The first error is kept and ends all
// later work: operations of a device return none (model.Device), End and Wait ask for it.
// Modules are loaded when a kernel of theirs is first launched.
type queue struct {
	drv       *driver.Driver
	stream    driver.Stream
	modules   map[string]driver.Module   // by name of the source
	functions map[string]driver.Function // by name of the kernel
	shared    map[driver.Function]uint32 // dynamic shared memory that was asked for, above what every kernel may have
	hopper    bool                       // the card runs code for sm_90a
	tile      int                        // of products by warpgroups, in tests; 0: the best
	blocking  bool                       // waits for every kernel, so that an error names the one at fault
	err       error
	// multiprocessors are those that products are cut for. They are a large card's whatever the card: what is
	// computed does not depend on them, and package cost counts without a card.
	multiprocessors int
}

// largeCard is how many multiprocessors an H100 has.
const largeCard = 132

func newQueue(drv *driver.Driver, stream driver.Stream) *queue {
	return &queue{drv: drv, stream: stream, modules: map[string]driver.Module{}, functions: map[string]driver.Function{}, shared: map[driver.Function]uint32{},
		multiprocessors: largeCard}
}

// fail keeps the first error.
func (q *queue) fail(err error) {
	if q.err == nil {
		q.err = err
	}
}

// launch runs a kernel with the arguments args, a struct of fixed-size fields that is laid out as
// the kernel's one parameter is. threads are those of a block.
func launch[A any](q *queue, kernel string, grid driver.Dim3, threads, shared uint32, args *A) {
	if q.err != nil {
		return
	}
	function, err := q.function(kernel)
	if err == nil && shared > q.shared[function] && shared > 48<<10 {
		// What goes beyond 48 KiB has to be allowed for each kernel, once.
		if err = q.drv.FuncSet(function, driver.FuncMaxDynamicShared, int(shared)); err == nil {
			q.shared[function] = shared
		}
	}
	if err == nil {
		err = q.drv.Launch(&driver.Launch{Function: function, Grid: grid, Block: driver.Dim3{X: threads, Y: 1, Z: 1}, Shared: shared,
			Stream: q.stream, Params: unsafe.Slice((*byte)(unsafe.Pointer(args)), unsafe.Sizeof(*args))})
	}
	if err == nil && q.blocking {
		err = q.drv.StreamSync(q.stream)
	}
	if err != nil {
		q.err = fmt.Errorf("kernel %s: %w", kernel, err)
	}
}

// function returns a kernel, and loads its module where that has not happened.
func (q *queue) function(kernel string) (driver.Function, error) {
	if f, ok := q.functions[kernel]; ok {
		return f, nil
	}
	source, err := kernels.Find(kernel)
	if err != nil {
		return 0, err
	}
	module, ok := q.modules[source.Name]
	if !ok {
		if module, err = q.drv.ModuleLoad(source.PTX); err != nil {
			return 0, err
		}
		q.modules[source.Name] = module
	}
	f, err := q.drv.GetFunction(module, kernel)
	if err == nil {
		q.functions[kernel] = f
	}
	return f, err
}

// close unloads the modules.
func (q *queue) close() (first error) {
	for name, module := range q.modules {
		if err := q.drv.ModuleUnload(module); err != nil && first == nil {
			first = fmt.Errorf("module %s: %w", name, err)
		}
	}
	clear(q.modules)
	clear(q.functions)
	clear(q.shared)
	return first
}
