package local

import (
	"os"
	"path/filepath"

	"ossian/internal/lab/predict/machine"
	"ossian/internal/plan"
)

// coreUnit is the unit of arithmetic of a core, operations per second: what processors of our time do
// about. Shares of it are what is measured, so that only the products count.
const coreUnit = 50e9

// Host returns the record of this computer, of which reading reaches so many bytes per second and so
// many threads compute.
func Host(bandwidth float64, threads int) machine.Machine {
	memory := float64(plan.ThisHost().Memory)
	if memory <= 0 {
		memory = float64(plan.Available())
	}
	return machine.Processors(memory, bandwidth, float64(threads)*coreUnit)
}

// Path is where the calibration of this computer lies below the directory for what a user's programs
// keep between runs; "" without one.
func Path(stateDir string) string {
	if stateDir == "" {
		return ""
	}
	return filepath.Join(stateDir, "calibration.json")
}

// Open reads a file by its name.
func Open(path string) (*File, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	return Read(file)
}
