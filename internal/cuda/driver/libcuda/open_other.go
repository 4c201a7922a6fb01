//go:build !windows && !(linux && cuda && (amd64 || arm64))

package libcuda

import "ossian/internal/cuda/driver"

// Built says that this program can call a driver.
const Built = false

// Open returns an error: a *NotFoundError on a machine without a driver, since no other program
// would find one there, else ErrNotBuilt.
func Open() (*driver.Driver, error) {
	if _, err := Find(); err != nil {
		return nil, err
	}
	return nil, ErrNotBuilt
}
