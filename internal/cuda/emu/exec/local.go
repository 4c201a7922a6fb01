package exec

// This file is memory that a block or a thread has to itself besides shared memory.

// ParamRead returns bytes of the parameters.
func (w *Warp) ParamRead(lane int, at uint64, n int) []byte {
	if at -= ParamBase; at >= uint64(len(w.Block.Params)) || at+uint64(n) > uint64(len(w.Block.Params)) {
		w.FailLane(IllegalAddress, lane, "read of %d bytes at %d of %d bytes of parameters", n, int64(at), len(w.Block.Params))
	}
	if at&uint64(n-1) != 0 {
		w.FailLane(MisalignedAddress, lane, "read of %d bytes at %d of the parameters: misaligned", n, at)
	}
	return w.Block.Params[at : at+uint64(n)]
}

// localPlace checks an access to the memory of a thread.
func (w *Warp) localPlace(lane int, at uint64, n int, what string) (int, int) {
	size := uint64(w.Block.Kernel.Local)
	if at >= size || at+uint64(n) > size {
		w.FailLane(IllegalAddress, lane, "%s of %d bytes at %#x of the thread's own memory, which has %#x", what, n, at, size)
	}
	if at&uint64(n-1) != 0 {
		w.FailLane(MisalignedAddress, lane, "%s of %d bytes at %#x of the thread's own memory: misaligned", what, n, at)
	}
	i := lane*int(size) + int(at)
	return i, i + n
}

// LocalRead returns n bytes of a thread's own memory.
func (w *Warp) LocalRead(lane int, at uint64, n int) []byte {
	i, end := w.localPlace(lane, at, n, "read")
	for _, set := range w.lset[i:end] {
		if set == 0 {
			w.FailLane(LaunchFailed, lane, "read of %d bytes at %#x of the thread's own memory: nobody has written them", n, at)
		}
	}
	return w.local[i:end]
}

// LocalWrite returns room for n bytes of a thread's own memory.
func (w *Warp) LocalWrite(lane int, at uint64, n int) []byte {
	i, end := w.localPlace(lane, at, n, "write")
	for k := range w.lset[i:end] {
		w.lset[i+k] = byteWritten
	}
	return w.local[i:end]
}
