package cuda

import (
	"fmt"
	"runtime"

	"ossian/internal/cuda/driver"
)

// A card is an open card: its context is retained until close.
//
// A driver's context belongs to a thread. Every method of Device that calls the driver therefore
// keeps its goroutine on its thread meanwhile and makes the context that thread's: Begin until
// End, the others until they return. So any goroutine may use a Device, one at a time, as
// model.Device has it, and operations between Begin and End cost nothing more.
type card struct {
	drv     *driver.Driver
	device  driver.Device
	context driver.Context
	about   Card // without memory, which changes
}

// openCard retains the context of a card on which kernels can run.
func openCard(drv *driver.Driver, ordinal int) (*card, error) {
	if err := drv.Init(); err != nil {
		return nil, fmt.Errorf("cuda: %s: %w", drv.Name, err)
	}
	count, err := drv.DeviceCount()
	if err != nil {
		return nil, fmt.Errorf("cuda: %s: %w", drv.Name, err)
	}
	if ordinal >= count {
		return nil, fmt.Errorf("cuda: there is no card %d: %s has %d, counted from 0 (--device cuda:N; CUDA_VISIBLE_DEVICES hides some)", ordinal, drv.Name, count)
	}
	opened := &card{drv: drv}
	if opened.device, err = drv.DeviceGet(ordinal); err == nil {
		opened.about, err = describe(drv, opened.device)
	}
	if err != nil {
		return nil, fmt.Errorf("cuda: card %d: %w", ordinal, err)
	}
	if about := &opened.about; about.Major < leastMajor {
		return nil, fmt.Errorf("cuda: card %d, %s, has compute capability %d.%d; %d.0 (Ampere) or newer is needed", ordinal, about.Name, about.Major, about.Minor, leastMajor)
	}
	if opened.context, err = drv.ContextRetain(opened.device); err != nil {
		return nil, fmt.Errorf("cuda: card %d, %s: %w", ordinal, opened.about.Name, err)
	}
	return opened, nil
}

// describe asks for what never changes about a card.
func describe(drv *driver.Driver, device driver.Device) (about Card, err error) {
	if about.Name, err = drv.DeviceName(device); err != nil {
		return about, err
	}
	if about.Major, err = drv.DeviceAttribute(device, driver.ComputeMajor); err != nil {
		return about, err
	}
	if about.Minor, err = drv.DeviceAttribute(device, driver.ComputeMinor); err != nil {
		return about, err
	}
	// Newer drivers need not know these two: then there is no figure. Memory gives two bits a clock.
	clock, unknown := drv.DeviceAttribute(device, driver.MemoryClockRate)
	width, unknown2 := drv.DeviceAttribute(device, driver.MemoryBusWidth)
	if unknown == nil && unknown2 == nil {
		about.Bandwidth = 2 * float64(clock) * 1e3 * float64(width) / 8
	}
	return about, nil
}

// hopper reports whether the card runs the code that is for Hopper alone: PTX 8.0, which drivers for CUDA
// 12.0 and later read. With an older one it computes as every other card does.
func (c *card) hopper() bool {
	version, err := c.drv.Version()
	return err == nil && version >= 12000 && c.about.Major == 9
}

// enter keeps the goroutine on its thread and makes the card's context current there, until the
// function that it returns is called. A context that cannot be made current is lost, which the
// next call of the driver tells.
func (c *card) enter() (leave func()) {
	runtime.LockOSThread()
	_ = c.drv.SetCurrent(c.context)
	return runtime.UnlockOSThread
}

// close gives the context back.
func (c *card) close() error { return c.drv.ContextRelease(c.device) }
