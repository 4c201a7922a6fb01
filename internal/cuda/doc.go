// Package cuda is the device that computes on NVIDIA GPUs (model.Device): packed weights, paged
// keys and values, and steps given to one stream of kernels. It reaches the card through
// driver.Driver alone, behind which tests have the emulator of internal/cuda/emu.
package cuda
