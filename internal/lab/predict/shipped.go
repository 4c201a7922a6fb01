package predict

import (
	"cmp"
	"embed"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"sync"
)

// Calibrations that are in the program, each fitted to all published rows of a machine that are
// among the tests of package calibrate, which make the files again.
//
//go:embed calibrations/*.json
var shippedFiles embed.FS

var shippedCalibrations = sync.OnceValue(func() []*Calibration {
	var all []*Calibration
	names, err := fs.Glob(shippedFiles, "calibrations/*.json")
	if err != nil {
		panic(err) // the pattern is ours
	}
	for _, name := range names {
		file, err := shippedFiles.Open(name)
		if err != nil {
			panic(err) // it was just listed
		}
		c, err := ReadCalibration(file)
		if err != nil {
			panic(fmt.Sprintf("%s: %v", name, err)) // a test reads them all
		}
		all = append(all, c)
	}
	return all
})

// Shipped returns the calibration that is in the program for a machine, an engine and a version
// of it; nil = there is none. It must not be changed.
func Shipped(machineName, engine, version string) *Calibration {
	for _, c := range shippedCalibrations() {
		if c.Covers(machineName, engine, version) {
			return c
		}
	}
	return nil
}

// ShippedElsewhere returns the calibrations in the program of an engine and a version of it on other
// machines, by their names. They must not be changed.
func ShippedElsewhere(machineName, engine, version string) (all []*Calibration) {
	for _, c := range shippedCalibrations() {
		if c.Machine != machineName && c.Covers(c.Machine, engine, version) {
			all = append(all, c)
		}
	}
	slices.SortFunc(all, func(a, b *Calibration) int { return cmp.Compare(a.Machine, b.Machine) })
	return all
}

// largestCalibration is how many bytes of a calibration are read.
const largestCalibration = 4 << 20

// ReadCalibration reads what WriteCalibration wrote and checks it.
func ReadCalibration(from io.Reader) (*Calibration, error) {
	c := &Calibration{}
	if err := json.NewDecoder(io.LimitReader(from, largestCalibration)).Decode(c); err != nil {
		return nil, fmt.Errorf("calibration: %w", err)
	}
	return c, c.Check()
}

// WriteCalibration writes a calibration as JSON, the same bytes for the same calibration.
func WriteCalibration(to io.Writer, c *Calibration) error {
	text, err := json.MarshalIndent(c, "", " ")
	if err != nil {
		return err
	}
	_, err = to.Write(append(text, '\n'))
	return err
}
