package libcuda

import (
	"unsafe"

	"ossian/internal/cuda/driver"
)

// This file has what orders work: streams, events and graphs.

// Flags and modes of the driver's functions.
const (
	zeroStream    = 0 // in which copies are made that are not asynchronous
	nonBlocking   = 1 // cuStreamCreate: does not wait for the zero stream
	withoutTiming = 2 // cuEventCreate
	captureThread = 1 // cuStreamBeginCapture: other threads may go on allocating and loading modules
)

// streams sets queues of work.
func (l *library) streams(d *driver.Driver) {
	create := l.function("cuStreamCreate", "", "2.0")
	d.StreamCreate = func() (driver.Stream, error) {
		var stream driver.Stream
		err := create.call(uintptr(unsafe.Pointer(&stream)), nonBlocking)
		return stream, err
	}
	destroy := l.function("cuStreamDestroy", "_v2", "4.0")
	d.StreamDestroy = func(s driver.Stream) error { return destroy.call(uintptr(s)) }

	synchronize := l.function("cuStreamSynchronize", "", "2.0")
	d.StreamSync = func(s driver.Stream) error { return synchronize.call(uintptr(s)) }

	wait := l.function("cuStreamWaitEvent", "", "3.2")
	d.StreamWait = func(s driver.Stream, e driver.Event) error { return wait.call(uintptr(s), uintptr(e), 0) }
}

// events sets marks in streams.
func (l *library) events(d *driver.Driver) {
	create := l.function("cuEventCreate", "", "2.0")
	d.EventCreate = func(timed bool) (driver.Event, error) {
		flags := uintptr(withoutTiming)
		if timed {
			flags = 0
		}
		var event driver.Event
		err := create.call(uintptr(unsafe.Pointer(&event)), flags)
		return event, err
	}
	destroy := l.function("cuEventDestroy", "_v2", "4.0")
	d.EventDestroy = func(e driver.Event) error { return destroy.call(uintptr(e)) }

	record := l.function("cuEventRecord", "", "2.0")
	d.EventRecord = func(e driver.Event, s driver.Stream) error { return record.call(uintptr(e), uintptr(s)) }

	query := l.function("cuEventQuery", "", "2.0")
	d.EventQuery = func(e driver.Event) (bool, error) {
		code, err := query.code(uintptr(e))
		if code == notReady {
			return false, nil
		}
		err = query.check(code, err)
		return err == nil, err
	}
	synchronize := l.function("cuEventSynchronize", "", "2.0")
	d.EventSync = func(e driver.Event) error { return synchronize.call(uintptr(e)) }

	elapsed := l.function("cuEventElapsedTime", "", "2.0")
	d.EventElapsed = func(from, to driver.Event) (float32, error) {
		var milliseconds float32
		err := elapsed.call(uintptr(unsafe.Pointer(&milliseconds)), uintptr(from), uintptr(to))
		return milliseconds, err
	}
}

// graphs sets recording of work, and its repetition.
func (l *library) graphs(d *driver.Driver) {
	begin := l.function("cuStreamBeginCapture", "_v2", "10.1")
	d.CaptureBegin = func(s driver.Stream) error { return begin.call(uintptr(s), captureThread) }

	end := l.function("cuStreamEndCapture", "", "10.0")
	d.CaptureEnd = func(s driver.Stream) (driver.Graph, error) {
		var graph driver.Graph
		err := end.call(uintptr(s), uintptr(unsafe.Pointer(&graph)))
		return graph, err
	}
	instantiate := l.function("cuGraphInstantiateWithFlags", "", "11.4")
	d.GraphInstantiate = func(graph driver.Graph) (driver.GraphExec, error) {
		var exec driver.GraphExec
		err := instantiate.call(uintptr(unsafe.Pointer(&exec)), uintptr(graph), 0)
		return exec, err
	}
	launch := l.function("cuGraphLaunch", "", "10.0")
	d.GraphLaunch = func(exec driver.GraphExec, s driver.Stream) error { return launch.call(uintptr(exec), uintptr(s)) }

	destroyExec := l.function("cuGraphExecDestroy", "", "10.0")
	d.GraphExecDestroy = func(exec driver.GraphExec) error { return destroyExec.call(uintptr(exec)) }

	destroy := l.function("cuGraphDestroy", "", "10.0")
	d.GraphDestroy = func(graph driver.Graph) error { return destroy.call(uintptr(graph)) }
}
