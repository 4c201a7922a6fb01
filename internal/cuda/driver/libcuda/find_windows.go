package libcuda

import (
	"os"
	"path/filepath"

	"golang.org/x/sys/windows"
)

// Soname is what the driver's library is called, in every version of it.
const Soname = "nvcuda.dll"

// Find returns the path of the CUDA driver's library, or a *NotFoundError with what was tried. The
// driver puts it into the folder of the system.
func Find() (string, error) {
	folder, err := windows.GetSystemDirectory()
	if err != nil {
		return "", err
	}
	path := filepath.Join(folder, Soname)
	if _, err := os.Stat(path); err != nil {
		return "", &NotFoundError{Name: Soname, Tried: []string{folder}}
	}
	return path, nil
}
