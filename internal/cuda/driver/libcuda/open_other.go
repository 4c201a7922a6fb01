//go:build !windows && !(linux && cuda && (amd64 || arm64))

package libcuda

import "ossian/internal/cuda/driver"

// Built says that this program can call a driver.
const Built = false

// known is the reason of Because.
var known error

// Because says why this program cannot call the driver, before anything calls Open: the form of it
// that can did not start.
func Because(reason error) { known = &unusable{reason} }

// Open returns an error: a *NotFoundError on a machine without a driver, since no other program
// would find one there, else the reason of Because or ErrNotBuilt. The last two are ErrNotBuilt to
// errors.Is.
func Open() (*driver.Driver, error) {
	if _, err := Find(); err != nil {
		return nil, err
	}
	if known != nil {
		return nil, known
	}
	return nil, ErrNotBuilt
}
