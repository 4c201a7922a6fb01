package simulate

import (
	"bytes"
	"fmt"
	"time"

	"go.yaml.in/yaml/v4"
)

// file is noise.yaml as it is written.
type file struct {
	Rate  float64 `yaml:"rate"`
	Noise float64 `yaml:"noise"`
	Drift struct {
		Change float64       `yaml:"change"`
		Over   time.Duration `yaml:"over"`
	} `yaml:"drift"`
	Effects map[string]float64 `yaml:"effects"`
	Joint   []struct {
		Flags  []string `yaml:"flags"`
		Effect float64  `yaml:"effect"`
	} `yaml:"joint"`
	Starts  map[string]time.Duration `yaml:"starts"`
	Engines map[string]struct {
		Factor  float64       `yaml:"factor"`
		Start   time.Duration `yaml:"start"`
		Version string        `yaml:"version"`
		Fails   string        `yaml:"fails"`
		Tail    []string      `yaml:"tail"`
	} `yaml:"engines"`
	Failing []struct {
		Flags  []string `yaml:"flags"`
		Reason string   `yaml:"reason"`
		Share  float64  `yaml:"share"`
	} `yaml:"failing"`
	Changed []string `yaml:"changed"`
	Near    []string `yaml:"near"`
	Seed    uint64   `yaml:"seed"`
}

// maxNoise bounds a file of noise, in bytes.
const maxNoise = 1 << 20

// Default is the world without a file: run-to-run noise of 2 %, and no effect but what is predicted.
func Default() World { return World{Noise: 0.02} }

// Read reads noise.yaml. What it does not say is as Default has it.
func Read(text []byte) (World, error) {
	if len(text) > maxNoise {
		return World{}, fmt.Errorf("a file of at most %d bytes expected, found %d", maxNoise, len(text))
	}
	in := file{Noise: Default().Noise}
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	decoder.KnownFields(true)
	if err := decoder.Decode(&in); err != nil && len(bytes.TrimSpace(text)) > 0 {
		return World{}, err
	}
	world := World{Rate: in.Rate, Noise: in.Noise, Drift: Drift(in.Drift), Effects: in.Effects, Starts: in.Starts, Engines: map[string]Engine{}, Changed: in.Changed, Near: in.Near, Seed: in.Seed}
	for _, joint := range in.Joint {
		world.Joint = append(world.Joint, Joint(joint))
	}
	for name, engine := range in.Engines {
		world.Engines[name] = Engine(engine)
	}
	for _, failing := range in.Failing {
		world.Failing = append(world.Failing, Failing(failing))
	}
	return world, world.check()
}

// check refuses what no world can have.
func (w *World) check() error {
	switch {
	case !(w.Noise >= 0 && w.Noise < 10):
		return fmt.Errorf("noise: %v: a standard deviation such as 0.02 expected", w.Noise)
	case !(w.Rate >= 0):
		return fmt.Errorf("rate: %v: tokens per second expected", w.Rate)
	case !(w.Drift.Change > -1):
		return fmt.Errorf("drift.change: %v: a share above -1 expected, such as -0.1", w.Drift.Change)
	}
	for word, effect := range w.Effects {
		if !(effect > -1) {
			return fmt.Errorf("effects.%s: %v: a share above -1 expected, such as 0.05", word, effect)
		}
	}
	for _, joint := range w.Joint {
		if !(joint.Effect > -1) || len(joint.Flags) < 2 {
			return fmt.Errorf("joint: %v %v: two flags and a share above -1 expected", joint.Flags, joint.Effect)
		}
	}
	return nil
}
