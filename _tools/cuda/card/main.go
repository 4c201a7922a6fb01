// Command card tells what a card is and what it does without a model: its properties, how fast its
// memory is read and copied, how fast its tensor cores multiply, what a call of the driver costs, and
// for every module of kernels how long the driver takes to compile it and what the kernels take.
//
//	card [-device cuda:0] -json card.json -modules modules.csv
//
// _tools/cuda/gpu.sh runs it twice, the second time with the driver's cache of compiled modules
// filled. It changes no clocks.
package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"ossian/internal/cuda/driver"
	"ossian/internal/cuda/driver/libcuda"
	"ossian/internal/cuda/emu"
	"ossian/internal/cuda/kernels"
	"ossian/internal/self"
)

func main() {
	device := flag.String("device", "cuda", "cuda, cuda:N, or emu, the emulator")
	report := flag.String("json", "card.json", "file for what the card is and does")
	modules := flag.String("modules", "modules.csv", "file for a row of each kernel")
	size := flag.Int("bytes", 1<<30, "bytes of each copy; the second level cache should be much smaller")
	flag.Parse()
	if err := run(*device, *report, *modules, *size); err != nil {
		fmt.Fprintln(os.Stderr, "card:", err)
		os.Exit(1)
	}
}

// run opens a card and writes both files.
func run(device, report, modules string, size int) error {
	runtime.LockOSThread() // a driver's context belongs to a thread
	drv, ordinal, done, err := open(device)
	if err != nil {
		return err
	}
	card := &card{drv: drv}
	if err := card.begin(ordinal); err != nil {
		return err
	}
	about, err := card.about()
	if err != nil {
		return err
	}
	if about.Copies, err = card.copies(size); err != nil {
		return err
	}
	if err := card.measure(about, size, device == "emu"); err != nil {
		return err
	}
	if about.HostMicros, about.CardMicros, err = card.calls(); err != nil {
		return err
	}
	text, err := json.MarshalIndent(about, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(report, append(text, '\n'), 0o666); err != nil {
		return err
	}
	table, err := os.Create(modules)
	if err != nil {
		return err
	}
	err = card.modules(table, 10*about.Major+about.Minor)
	return errors.Join(err, table.Close(), card.end(), done())
}

// open returns the driver that a device is behind, and its number.
func open(device string) (drv *driver.Driver, ordinal int, done func() error, err error) {
	if device == "emu" {
		machine := emu.New(emu.Card{})
		return machine.Driver(), 0, machine.Close, nil
	}
	name, number, given := strings.Cut(device, ":")
	if given {
		ordinal, err = strconv.Atoi(number)
	}
	if name != "cuda" || err != nil {
		return nil, 0, nil, fmt.Errorf("-device %q: cuda, cuda:N or emu expected", device)
	}
	drv, err = libcuda.Open()
	return drv, ordinal, func() error { return nil }, err
}

// A card is one with a context and a stream.
type card struct {
	drv    *driver.Driver
	device driver.Device
	stream driver.Stream
}

// begin opens the card of a number.
func (c *card) begin(ordinal int) error {
	if err := c.drv.Init(); err != nil {
		return err
	}
	var err error
	if c.device, err = c.drv.DeviceGet(ordinal); err != nil {
		return err
	}
	context, err := c.drv.ContextRetain(c.device)
	if err == nil {
		err = c.drv.SetCurrent(context)
	}
	if err == nil {
		c.stream, err = c.drv.StreamCreate()
	}
	return err
}

// end gives back what begin took.
func (c *card) end() error {
	return errors.Join(c.drv.StreamDestroy(c.stream), c.drv.ContextRelease(c.device))
}

// A report is card.json.
type report struct {
	Name       string           `json:"name"`
	Library    string           `json:"library"` // the file of the driver
	CUDA       int              `json:"cuda"`    // newest version that the driver knows, 13010 for 13.1
	Program    string           `json:"program"`
	Processors int              `json:"host_processors"`
	Major      int              `json:"major"` // compute capability
	Minor      int              `json:"minor"`
	Memory     uint64           `json:"memory_bytes"`
	Free       uint64           `json:"free_bytes"`
	Attributes map[string]int   `json:"attributes"`
	Copies     map[string]speed `json:"copies"`
	Rates      map[string]rate  `json:"rates"` // of products
	// Of a small filling of memory, thousands in a row: what the call takes the host, and what all
	// of them take until they are done.
	HostMicros float64 `json:"host_us_per_call"`
	CardMicros float64 `json:"card_us_per_call"`
}

// A speed is bytes read and written in a time.
type speed struct {
	Bytes    int     `json:"bytes"` // read and written, of one copy
	Median   float64 `json:"median_ms"`
	PerSecGB float64 `json:"gb_per_s,omitempty"`
}

// speedOf returns the speed of bytes that were moved in so many milliseconds.
func speedOf(bytes int, milliseconds float64) speed {
	one := speed{Bytes: bytes, Median: milliseconds}
	if milliseconds > 0 { // copies of the emulator take no time
		one.PerSecGB = float64(bytes) / 1e6 / milliseconds
	}
	return one
}

// about asks for the card's properties. Those that a driver does not know are left out.
func (c *card) about() (*report, error) {
	about := &report{Library: c.drv.Name, Processors: runtime.NumCPU(), Attributes: map[string]int{}}
	if build, ok := debug.ReadBuildInfo(); ok {
		about.Program = self.Version(build)
	}
	var errs [6]error
	about.CUDA, errs[0] = c.drv.Version()
	about.Name, errs[1] = c.drv.DeviceName(c.device)
	about.Memory, errs[2] = c.drv.DeviceMemory(c.device)
	about.Free, _, errs[3] = c.drv.MemInfo()
	about.Major, errs[4] = c.drv.DeviceAttribute(c.device, driver.ComputeMajor)
	about.Minor, errs[5] = c.drv.DeviceAttribute(c.device, driver.ComputeMinor)
	for name, which := range map[string]driver.Attribute{"multiprocessors": driver.Multiprocessors, "clock_khz": driver.ClockRate,
		"memory_clock_khz": driver.MemoryClockRate, "memory_bus_bits": driver.MemoryBusWidth, "l2_bytes": driver.L2Cache,
		"shared_per_block": driver.MaxSharedPerBlock, "shared_per_block_most": driver.MaxSharedPerBlockOptin, "integrated": driver.Integrated} {
		if value, err := c.drv.DeviceAttribute(c.device, which); err == nil {
			about.Attributes[name] = value
		}
	}
	return about, errors.Join(errs[:]...)
}

// rounds are how often a copy is measured.
const rounds = 10

// copies measures copies of so many bytes within the card, and from and to pinned memory.
func (c *card) copies(size int) (map[string]speed, error) {
	from, err := c.drv.MemAlloc(uint64(size))
	if err != nil {
		return nil, err
	}
	to, err := c.drv.MemAlloc(uint64(size))
	if err != nil {
		return nil, err
	}
	host, err := c.drv.MemAllocHost(size)
	if err != nil {
		return nil, err
	}
	for i := range host { // never zeros: a memory may compress them
		host[i] = byte(i*i>>3) ^ byte(i>>11)
	}
	measured := map[string]speed{}
	for _, way := range []struct {
		name  string
		bytes int // moved by one
		do    func() error
	}{
		{"host_to_card", size, func() error { return c.drv.CopyToAsync(from, host, c.stream) }}, // first: it fills the memory
		{"within_card", 2 * size, func() error { return c.drv.CopyAsync(to, from, uint64(size), c.stream) }},
		{"card_to_host", size, func() error { return c.drv.CopyFromAsync(host, to, c.stream) }},
		{"fill", size, func() error { return c.drv.SetAsync(to, 0x5a, uint64(size), c.stream) }},
	} {
		milliseconds, err := c.median(way.do)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", way.name, err)
		}
		measured[way.name] = speedOf(way.bytes, milliseconds)
	}
	return measured, errors.Join(c.drv.MemFree(from), c.drv.MemFree(to), c.drv.MemFreeHost(host))
}

// median returns the middle of the times that the card takes for some work, in milliseconds.
func (c *card) median(do func() error) (float64, error) {
	begin, err := c.drv.EventCreate(true)
	if err != nil {
		return 0, err
	}
	end, err := c.drv.EventCreate(true)
	if err != nil {
		return 0, err
	}
	var times []float64
	for range rounds {
		// All four are called, in this order, and the first error counts.
		if err := cmp.Or(c.drv.EventRecord(begin, c.stream), do(), c.drv.EventRecord(end, c.stream), c.drv.EventSync(end)); err != nil {
			return 0, err
		}
		took, err := c.drv.EventElapsed(begin, end)
		if err != nil {
			return 0, err
		}
		times = append(times, float64(took))
	}
	slices.Sort(times)
	return times[len(times)/2], errors.Join(c.drv.EventDestroy(begin), c.drv.EventDestroy(end))
}

// calls measures what a call costs the host, and what one after another costs the card, in
// microseconds.
func (c *card) calls() (host, card float64, err error) {
	const count = 5000
	at, err := c.drv.MemAlloc(256)
	if err != nil {
		return 0, 0, err
	}
	began := time.Now()
	for range count {
		if err := c.drv.SetAsync(at, 1, 4, c.stream); err != nil {
			return 0, 0, err
		}
	}
	called := time.Since(began)
	err = c.drv.StreamSync(c.stream)
	micros := func(all time.Duration) float64 { return all.Seconds() * 1e6 / count }
	return micros(called), micros(time.Since(began)), errors.Join(err, c.drv.MemFree(at))
}

// modules loads every module that the card can run and writes a row for each of its kernels.
func (c *card) modules(out io.Writer, capability int) error {
	fmt.Fprintln(out, "module,arch,ptx_bytes,load_ms,kernel,registers,local_bytes,shared_bytes")
	for _, module := range kernels.Modules() {
		least, err := strconv.Atoi(strings.TrimRight(module.Arch, "af"))
		if err != nil {
			return fmt.Errorf("module %s: architecture %q", module.Name, module.Arch)
		}
		if least > capability || (least != capability && module.Arch != strconv.Itoa(least)) {
			continue // its instructions are those of other cards
		}
		began := time.Now()
		loaded, err := c.drv.ModuleLoad(module.PTX)
		took := time.Since(began)
		if err != nil {
			return fmt.Errorf("module %s.sm_%s: %w", module.Name, module.Arch, err)
		}
		for _, kernel := range module.Entries {
			function, err := c.drv.GetFunction(loaded, kernel)
			if err != nil {
				return err
			}
			fmt.Fprintf(out, "%s,%s,%d,%.2f,%s", module.Name, module.Arch, len(module.PTX), took.Seconds()*1e3, kernel)
			for _, which := range []driver.FuncAttribute{driver.FuncRegisters, driver.FuncLocalBytes, driver.FuncSharedBytes} {
				value, err := c.drv.FuncGet(function, which)
				if err != nil {
					return fmt.Errorf("kernel %s: %w", kernel, err)
				}
				fmt.Fprintf(out, ",%d", value)
			}
			fmt.Fprintln(out)
		}
		if err := c.drv.ModuleUnload(loaded); err != nil {
			return err
		}
	}
	return nil
}
