package main

import (
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/cpu"
	"golang.org/x/sys/unix"
)

// A tracer runs a program and does its instructions for tiles.
//
// What the program asks before it uses tiles is answered as on a machine with them, where Ossian's
// kernels ask: who made the processor, while they initialise themselves, is answered with Intel,
// for the order of sums follows from it, and at that moment the features of AMX are set in
// golang.org/x/sys/cpu, which has read what the processor has by then. The operating system's
// permission (ARCH_REQ_XCOMP_PERM) is granted in its place.
type tracer struct {
	process  int
	features uintptr // where cpu.X86 lies
	vendor   uintptr // the function that asks for the maker; a breakpoint is there

	granted bool           // system calls need not be looked at any more
	met     int            // instructions for tiles
	called  map[int]bool   // threads within the call that asks for permission
	tiles   map[int]*tiles // of threads
}

// trace runs a program with its arguments to its end.
func trace(command []string) (status int, err error) {
	runtime.LockOSThread() // only the thread that began it may trace a process
	t := tracer{called: map[int]bool{}, tiles: map[int]*tiles{}}
	if err := t.find(command[0]); err != nil {
		return 0, err
	}
	c := exec.Command(command[0], command[1:]...)
	c.Stdin, c.Stdout, c.Stderr = os.Stdin, os.Stdout, os.Stderr
	c.SysProcAttr = &syscall.SysProcAttr{Ptrace: true, Pdeathsig: syscall.SIGKILL}
	if err := c.Start(); err != nil {
		return 0, err
	}
	t.process = c.Process.Pid
	status, err = t.run()
	switch {
	case err != nil:
		_ = unix.Kill(t.process, unix.SIGKILL)
	case status == 0 && t.met == 0:
		err = errors.New("the program ended well, and met no instruction for tiles: nothing was shown")
	}
	return status, err
}

// find reads where the program keeps features, and where it asks for the maker.
func (t *tracer) find(program string) error {
	file, err := elf.Open(program)
	if err != nil {
		return err
	}
	defer file.Close()
	symbols, err := file.Symbols()
	if err != nil {
		return fmt.Errorf("%s: %w: the program's table of symbols is needed", program, err)
	}
	for _, s := range symbols {
		switch s.Name {
		case "golang.org/x/sys/cpu.X86":
			t.features = uintptr(s.Value)
		case "ossian/internal/cpu/kern.vendor.abi0":
			t.vendor = uintptr(s.Value)
		}
	}
	if t.features == 0 || t.vendor == 0 || file.Type != elf.ET_EXEC {
		return fmt.Errorf("%s: no program with Ossian's kernels, or one that may be loaded anywhere", program)
	}
	return nil
}

// run sees to each stop of the program's threads until it has ended.
func (t *tracer) run() (status int, err error) {
	var wait unix.WaitStatus
	if _, err := unix.Wait4(t.process, &wait, unix.WALL, nil); err != nil {
		return 0, err
	}
	const options = unix.PTRACE_O_TRACECLONE | unix.PTRACE_O_TRACESYSGOOD | unix.PTRACE_O_EXITKILL
	if err := unix.PtraceSetOptions(t.process, options); err != nil {
		return 0, err
	}
	if _, err := unix.PtracePokeText(t.process, t.vendor, []byte{0xcc}); err != nil { // INT3
		return 0, err
	}
	thread, signal := t.process, 0
	for {
		resume := unix.PtraceSyscall
		if t.granted {
			resume = unix.PtraceCont
		}
		if err := resume(thread, signal); err != nil && err != unix.ESRCH { // killed since
			return 0, err
		}
		for { // threads may end beside the others
			if thread, err = unix.Wait4(-1, &wait, unix.WALL, nil); err != nil {
				return 0, err
			}
			if wait.Stopped() {
				break
			}
			delete(t.tiles, thread)
			switch {
			case thread != t.process:
			case wait.Signaled():
				return 128 + int(wait.Signal()), nil
			default:
				return wait.ExitStatus(), nil
			}
		}
		if signal, err = t.stopped(thread, wait); err != nil {
			return 0, err
		}
	}
}

// stopped does what a thread has stopped for, and returns the signal that it is to get.
func (t *tracer) stopped(thread int, wait unix.WaitStatus) (signal int, err error) {
	switch wait.StopSignal() {
	case unix.SIGTRAP | 0x80:
		return 0, t.systemCall(thread)
	case unix.SIGTRAP:
		if wait.TrapCause() == 0 {
			return t.reached(thread)
		}
		return 0, nil // a thread was made
	case unix.SIGSTOP: // with which new threads begin
		return 0, nil
	case unix.SIGILL:
		return 0, t.emulate(thread)
	}
	return int(wait.StopSignal()), nil
}

// reached answers who made the processor and sets the features of AMX, if that is why the thread
// stopped.
func (t *tracer) reached(thread int) (signal int, err error) {
	var r unix.PtraceRegs
	if err := unix.PtraceGetRegs(thread, &r); err != nil {
		return 0, err
	}
	if uintptr(r.Rip) != t.vendor+1 {
		return int(unix.SIGTRAP), nil
	}
	x86 := &cpu.X86
	for _, feature := range []*bool{&x86.HasAMXTile, &x86.HasAMXBF16, &x86.HasAMXInt8} {
		at := t.features + uintptr(unsafe.Pointer(feature)) - uintptr(unsafe.Pointer(x86))
		if err := t.write([]byte{1}, at); err != nil {
			return 0, err
		}
	}
	// The function has done nothing yet: its result is behind the address of its return.
	if err := t.write([]byte("Genu"), uintptr(r.Rsp)+8); err != nil {
		return 0, err
	}
	var back [8]byte
	if err := t.read(back[:], uintptr(r.Rsp)); err != nil {
		return 0, err
	}
	r.Rip = binary.LittleEndian.Uint64(back[:])
	r.Rsp += 8
	return 0, unix.PtraceSetRegs(thread, &r)
}

// systemCall grants the permission to use tiles. A thread stops before and after each call.
func (t *tracer) systemCall(thread int) error {
	const requestPermission = 0x1023 // ARCH_REQ_XCOMP_PERM
	var r unix.PtraceRegs
	if err := unix.PtraceGetRegs(thread, &r); err != nil {
		return err
	}
	switch {
	case t.called[thread]:
		delete(t.called, thread)
		r.Rax, t.granted = 0, true
		return unix.PtraceSetRegs(thread, &r)
	case r.Orig_rax == unix.SYS_ARCH_PRCTL && r.Rdi == requestPermission:
		t.called[thread] = true
	}
	return nil
}

// emulate does the instruction at which a thread has stopped, and puts it behind that.
func (t *tracer) emulate(thread int) error {
	var r unix.PtraceRegs
	if err := unix.PtraceGetRegs(thread, &r); err != nil {
		return err
	}
	var code [16]byte
	if err := t.read(code[:], uintptr(r.Rip)); err != nil {
		return err
	}
	in, err := decode(code[:])
	if err == nil {
		if t.tiles[thread] == nil {
			t.tiles[thread] = new(tiles)
		}
		err = t.do(t.tiles[thread], in, &r)
	}
	if err != nil {
		return fmt.Errorf("at %#x: %w", r.Rip, err)
	}
	t.met++
	r.Rip += uint64(in.length)
	return unix.PtraceSetRegs(thread, &r)
}

// do changes tiles, or memory, as an instruction says.
func (t *tracer) do(all *tiles, in instruction, r *unix.PtraceRegs) error {
	registers := [16]uint64{r.Rax, r.Rcx, r.Rdx, r.Rbx, r.Rsp, r.Rbp, r.Rsi, r.Rdi, r.R8, r.R9, r.R10, r.R11, r.R12, r.R13, r.R14, r.R15}
	address := uintptr(int64(registers[in.base]) + in.displacement)
	index := uintptr(0)
	if in.index >= 0 {
		index = uintptr(registers[in.index] << in.scale)
	}
	switch in.op {
	case configure:
		var config [64]byte
		if err := t.read(config[:], address+index); err != nil {
			return err
		}
		return all.configure(&config)
	case release:
		*all = tiles{}
		return nil
	case pairs:
		return all.multiply(in.tile, in.left, in.right)
	}
	if err := all.configured(in.tile); err != nil {
		return err
	}
	one := &all[in.tile]
	if in.op != store {
		one.data = [tileRows][rowBytes]byte{}
	}
	if in.op == zero {
		return nil
	}
	access := t.read
	if in.op == store {
		access = t.write
	}
	for i := range one.rows {
		if err := access(one.data[i][:one.bytes], address+uintptr(i)*index); err != nil {
			return err
		}
	}
	return nil
}

// read fills a slice from the program's memory.
func (t *tracer) read(into []byte, from uintptr) error {
	return t.copy(unix.ProcessVMReadv, "reading", into, from)
}

// write puts bytes into the program's memory.
func (t *tracer) write(bytes []byte, to uintptr) error {
	return t.copy(unix.ProcessVMWritev, "writing", bytes, to)
}

func (t *tracer) copy(call func(int, []unix.Iovec, []unix.RemoteIovec, uint) (int, error), what string, here []byte, there uintptr) error {
	local := []unix.Iovec{{Base: &here[0], Len: uint64(len(here))}}
	n, err := call(t.process, local, []unix.RemoteIovec{{Base: there, Len: len(here)}}, 0)
	if err == nil && n != len(here) {
		err = fmt.Errorf("%d of %d bytes", n, len(here))
	}
	if err != nil {
		return fmt.Errorf("%s %d bytes at %#x: %w", what, len(here), there, err)
	}
	return nil
}
