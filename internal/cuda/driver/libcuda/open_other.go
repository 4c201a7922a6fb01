//go:build !windows && !(linux && cuda && (amd64 || arm64))

package libcuda

import "ossian/internal/cuda/driver"

// Open returns ErrNotBuilt: this program cannot call the driver.
func Open() (*driver.Driver, error) { return nil, ErrNotBuilt }
