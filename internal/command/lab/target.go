package lab

// What predict, size and calibrate have in common: a model, a machine, an engine, a calibration and
// settings, from flags.

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"ossian/internal/command"
	"ossian/internal/lab/engines"
	"ossian/internal/lab/forecast"
	"ossian/internal/lab/predict"
	"ossian/internal/lab/predict/local"
	"ossian/internal/lab/predict/machine"
	"ossian/internal/load"
	"ossian/internal/plan"
)

// processors is the name of this computer as a machine.
const processors = "cpu"

// targetFlags are the flags of a target.
type targetFlags struct {
	engine      string
	calibration []string
	borrow      string
	strict      bool
	asJSON      bool
	settings    map[string]*string // by flag
}

func (f *targetFlags) add(c *cobra.Command) {
	flags := c.Flags()
	flags.StringVar(&f.engine, "engine", "", "`NAME[@VERSION]`: vllm@0.11.0 and its like, or ossian (default: ossian on this computer's processors, else vllm@0.11.0)")
	flags.StringArrayVar(&f.calibration, "calibration", nil, "`FILE` of ossian lab calibrate; may be given again for other machines")
	flags.StringVar(&f.borrow, "kernels-as-on", "", "assume that kernels reach the shares of the machine that they reach on `NAME`; intervals are doubled")
	flags.BoolVar(&f.strict, "strict", false, "fail where a kernel is unknown, instead of a bound")
	flags.BoolVar(&f.asJSON, "json", false, "write JSON")
	f.settings = map[string]*string{}
	for _, name := range forecast.Flags() {
		f.settings[name] = flags.String(name, "", "of the engine, as its own flag of that name")
	}
	command.Alias(flags, "tensor-parallel-size", "tp", "")
}

// fixed are the settings that the flags name.
func (f *targetFlags) fixed(c *cobra.Command) (settings predict.Settings, err error) {
	for name, value := range f.settings {
		if c.Flags().Changed(name) || (name == "tensor-parallel-size" && c.Flags().Changed("tp")) {
			if err := setting(&settings, name, *value); err != nil {
				return settings, err
			}
		}
	}
	return settings, nil
}

// setting puts a flag into settings. A number of 0, which settings have for the engine's default, is
// refused: no server runs with it.
func setting(settings *predict.Settings, name, value string) error {
	number, err := strconv.ParseFloat(value, 64)
	isSwitch := strings.Contains(name, "async") || strings.Contains(name, "caching")
	if err == nil && number == 0 && !isSwitch {
		return fmt.Errorf("--%s %s: a number above 0 expected; without the flag the engine's default holds", strings.TrimLeft(name, "-"), value)
	}
	return forecast.Set(settings, name, value)
}

// profile is the engine that the flags name, for a machine.
func (f *targetFlags) profile(on string) (predict.Profile, error) {
	name, version, _ := strings.Cut(f.engine, "@")
	switch {
	case name == "" && on == processors:
		name = engines.Ossian
	case name == "":
		name = engines.VLLM
	}
	return predict.Engine(name, cmp.Or(version, usualVersion(name)))
}

// usualVersion is the version of an engine that is predicted where nobody says one; empty: none is.
func usualVersion(kind string) string {
	switch kind {
	case engines.Ossian:
		return command.Version()
	case engines.VLLM:
		return "0.11.0"
	}
	return ""
}

// readCalibration reads a file of lab calibrate.
func readCalibration(path string) (*local.File, error) {
	read, err := local.Open(path)
	if err != nil {
		return nil, fmt.Errorf("--calibration %s: %w", path, err)
	}
	return read, nil
}

// A place is a machine with what is known of an engine on it.
type place struct {
	machine     machine.Machine
	calibration *predict.Calibration // nil = the shipped one, if there is one
	note        string               // what was assumed; may be empty
	lender      string               // machine whose calibration it is; empty: its own, or none
}

// place finds the machine of a name and, among the files that were named, its calibration.
func (f *targetFlags) place(name string) (out place, err error) {
	// The processors' calibration is looked for where lab calibrate writes it, unless files are
	// named.
	files := f.calibration
	if name == processors && len(files) == 0 {
		if usual := local.Path(command.StateDir()); usual != "" && load.Exists(usual) {
			files = []string{usual}
		}
	}
	if name != processors {
		if out.machine, err = machine.Lookup(name); err != nil {
			return out, err
		}
	}
	for _, path := range files {
		read, err := readCalibration(path)
		if err != nil {
			return out, err
		}
		if name == processors && read.Host != nil {
			out.machine, out.calibration = *read.Host, read.Calibration
		} else if name != processors && read.Machine == out.machine.Name {
			out.calibration = read.Calibration
		}
	}
	if name == processors && out.machine.Name == "" {
		return out, errors.New("nothing is known of this computer's processors: `ossian lab calibrate` measures them; or name a machine: --machine " + strings.Join(machine.Names(), ", "))
	}
	if f.borrow != "" && out.calibration == nil {
		return out, f.borrowed(&out)
	}
	return out, nil
}

// borrowed gives a place the calibration of another machine, which is an assumption and is said.
func (f *targetFlags) borrowed(to *place) error {
	lender := targetFlags{engine: f.engine, calibration: f.calibration}
	from, err := lender.place(f.borrow)
	if err != nil {
		return fmt.Errorf("--kernels-as-on: %w", err)
	}
	engine, err := f.profile(to.machine.Name)
	if err != nil {
		return err
	}
	calibration := from.calibration
	if calibration == nil {
		calibration = predict.Shipped(from.machine.Name, engine.Name, engine.Version)
	}
	if calibration == nil {
		return fmt.Errorf("--kernels-as-on %s: no calibration of %s %s on it", f.borrow, engine.Name, engine.Version)
	}
	to.calibration, to.lender = calibration.Lent(to.machine.Name), from.machine.Name
	to.note = fmt.Sprintf("kernels reach the shares of %s that they reach on %s, and the host is as fast; intervals are twice as wide", to.machine.Name, from.machine.Name)
	return nil
}

// assume adds what a place assumes.
func (p *place) assume(assumptions []string) []string {
	if p.note == "" {
		return assumptions
	}
	return append(assumptions, p.note)
}

// A described is a model with its name.
type described struct {
	name  string
	model *plan.Model
	close func()
}

// describe finds a model: files by their headers, else a shipped shape. onCPU has files count
// as this program keeps them.
func describe(name string, onCPU bool) (*described, error) {
	if load.BuiltIn(name) || load.Exists(name) {
		return describeFiles(name, onCPU)
	}
	shape, unknown := predict.Model(name)
	if unknown == nil {
		return &described{name: name, model: shape, close: func() {}}, nil
	}
	found, err := describeFiles(name, onCPU) // in the cache
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, unknown
		}
		return nil, errors.Join(unknown, err)
	}
	return found, nil
}

// describeFiles reads a model's headers.
func describeFiles(name string, onCPU bool) (*described, error) {
	checkpoint, err := load.OpenModel(name)
	if err != nil {
		return nil, err
	}
	params := checkpoint.Params
	if onCPU {
		if params, err = load.Planned(runtime.NumCPU(), "auto").Kept(checkpoint); err != nil {
			return nil, errors.Join(err, checkpoint.Close())
		}
	}
	counted, err := plan.New(checkpoint.Spec, params)
	if err != nil {
		return nil, errors.Join(err, checkpoint.Close())
	}
	return &described{name: name, model: counted, close: func() { _ = checkpoint.Close() }}, nil
}
