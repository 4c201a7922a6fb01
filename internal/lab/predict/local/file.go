// Package local measures what this machine's processors reach with Ossian's own engine, and fits the
// predictor's clock to it (lab.md 5). Users give a runner with a model on it and get a calibration;
// they need not know which steps tell the kernels apart.
package local

import (
	"encoding/json"
	"fmt"
	"io"

	"ossian/internal/lab/predict"
	"ossian/internal/lab/predict/machine"
)

// A File is a calibration and, where it is of processors, what was measured of the machine, which
// no data sheet says. Whoever reads only the calibration finds it in the same file.
type File struct {
	*predict.Calibration
	Host *machine.Machine `json:"host,omitempty"`
}

// largestFile is how many bytes of a file are read.
const largestFile = 4 << 20

// Read reads what Write wrote, or a calibration alone, and checks it.
func Read(from io.Reader) (*File, error) {
	file := &File{Calibration: &predict.Calibration{}}
	if err := json.NewDecoder(io.LimitReader(from, largestFile)).Decode(file); err != nil {
		return nil, fmt.Errorf("calibration: %w", err)
	}
	if file.Machine == "" || file.Engine == "" {
		return nil, fmt.Errorf("calibration: it names no machine or no engine: a file of `ossian lab calibrate` expected")
	}
	if host := file.Host; host != nil && !(host.Memory.Value > 0 && host.Bandwidth.Value > 0 && host.BF16.Value > 0) {
		return nil, fmt.Errorf("calibration: its host lacks memory, bandwidth or arithmetic")
	}
	return file, file.Check()
}

// Write writes a file, the same bytes for the same contents.
func Write(to io.Writer, file *File) error {
	text, err := json.MarshalIndent(file, "", " ")
	if err != nil {
		return err
	}
	_, err = to.Write(append(text, '\n'))
	return err
}
