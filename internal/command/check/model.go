package check

// What a token reads, and from what: the model's files on this machine or its published shape, the
// machine by name, by its cards or as it was measured.

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"

	"ossian/internal/ckpt"
	"ossian/internal/lab/check"
	"ossian/internal/lab/engines"
	"ossian/internal/lab/predict"
	"ossian/internal/lab/predict/machine"
	"ossian/internal/load"
	"ossian/internal/plan"
	"ossian/internal/tensor"
)

// hardware is what reads the weights: what was given, a machine that is known, else this one as it was
// measured.
func (l *sender) hardware(server *check.Server) check.Hardware {
	out := check.Hardware{Devices: l.options.devices, Card: !onProcessor(server)}
	known, origin, err := l.options.machineOf(server)
	switch {
	case l.options.bandwidth > 0:
		out.Bandwidth, out.Origin = l.options.bandwidth*1e9, "given: --bandwidth"
	case l.bandwidth > 0:
		out.Bandwidth, out.Origin = l.bandwidth, "measured: reading weights with the threads of the server"
	case err == nil:
		out.Bandwidth, out.Origin = known.Bandwidth.Value, fmt.Sprintf("%s of %s, %s", known.Bandwidth.Origin, known.Name, origin)
	}
	return out
}

// machineOf is the machine by its name, or by that of its first card.
func (o *options) machineOf(server *check.Server) (found machine.Machine, origin string, err error) {
	if o.machine != "" {
		found, err = machine.Lookup(o.machine)
		return found, "given: --machine", err
	}
	if server.Played != nil {
		found, err = machine.Lookup(server.Played.Machine)
		return found, "which the server plays", err
	}
	if server.Local && !onProcessor(server) {
		if name := check.Card(""); name != "" {
			found, err = machine.Lookup(name)
			return found, "named by nvidia-smi", err
		}
	}
	return found, "", errors.New("the machine is not known; --machine names it")
}

// predictor is what predicts gains, nil where the machine is not known.
func (o *options) predictor() (check.Predictor, error) {
	forecast := &check.Forecast{Model: func(server *check.Server) (*plan.Model, error) {
		model, _, err := o.countable(server)
		return model, err
	}}
	if o.machine == "" {
		name := check.Card("")
		if name == "" {
			return nil, nil
		}
		found, err := machine.Lookup(name)
		if err != nil {
			return nil, nil // a card without a record is no error: effects are unknown
		}
		forecast.Machine = found
	} else {
		var err error
		if forecast.Machine, err = machine.Lookup(o.machine); err != nil {
			return nil, fmt.Errorf("--machine: %w", err)
		}
	}
	if o.calibration != "" {
		file, err := os.Open(o.calibration)
		if err != nil {
			return nil, err
		}
		defer file.Close()
		if forecast.Calibration, err = predict.ReadCalibration(file); err != nil {
			return nil, fmt.Errorf("--calibration %s: %w", o.calibration, err)
		}
	}
	return forecast, nil
}

// reads says what a decoding step reads: what was given, else by the headers of the model's files or
// by its published shape.
func (o *options) reads(server *check.Server) (check.Reads, error) {
	if o.bytes > 0 {
		return check.Reads{Origin: "given: --bytes-per-token", Step: func(batch, _ int) float64 { return o.bytes * 1e9 * float64(batch) }}, nil
	}
	count, origin, err := o.countable(server)
	if err != nil {
		return check.Reads{}, err
	}
	switch kind := strings.ToLower(server.Settings["kv_dtype"] + server.Settings["kv_cache_dtype"] + server.Settings["cache_dtype"]); {
	case strings.Contains(kind, "8"):
		count.KV = tensor.F8_E4M3
	case kind == "f32":
		count.KV = tensor.F32
	}
	return check.Reads{Origin: "counted: " + origin + ", keys and values", Step: func(batch, context int) float64 {
		bytes, _ := count.Decode(batch, context)
		return float64(bytes)
	}}, nil
}

// countable is the countable side of the model that a server serves. A name that the server told is
// looked for on this machine only where the server is on it; shapes that are shipped need no files.
func (o *options) countable(server *check.Server) (count *plan.Model, origin string, err error) {
	name := o.model
	if name == "" {
		name = server.Root
	}
	if name == "" {
		return nil, "", errors.New("the server does not name its model; --model does")
	}
	if played := server.Played; o.model == "" && played != nil && played.Model != "" { // no file has what is played
		shape, err := predict.Model(played.Model)
		return shape, "weights of the published shape of " + played.Model + ", which is played", err
	}
	if o.model != "" || server.Local {
		checkpoint, opened := load.OpenModel(name)
		if opened == nil {
			defer checkpoint.Close()
			count, as, err := counted(checkpoint, server)
			return count, "weights of " + name + " " + as, err
		}
		err = opened
	}
	if shape, known := predict.Model(name); known == nil {
		return shape, "weights of the published shape of " + name, nil
	}
	if err == nil {
		err = errors.New("the model is not on this machine, and no shape of its name is shipped; --model names its files")
	}
	return nil, "", err
}

// counted counts a checkpoint as the server keeps it.
func counted(checkpoint *ckpt.Model, server *check.Server) (*plan.Model, string, error) {
	params, as := checkpoint.Params, "as in its files"
	if server.Engine == engines.Ossian { // which may keep weights in another type
		var err error
		if params, err = load.Planned(runtime.NumCPU(), server.Settings["cpu_weights"]).Kept(checkpoint); err != nil {
			return nil, "", err
		}
		as = "as the server keeps them"
	}
	count, err := plan.New(checkpoint.Spec, params)
	return count, as, err
}
