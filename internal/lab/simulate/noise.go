package simulate

import (
	"math"
	"time"

	"ossian/internal/lab/planfile"
)

// Default is the world without a file: run-to-run noise of 2 %, and no effect but what is predicted.
func Default() World { return World{Noise: 0.02} }

// Read reads noise.yaml. What it does not say is as Default has it. Its error joins *planfile.Error, one for
// each mistake.
func Read(text []byte) (World, error) {
	world := Default()
	world.Engines = map[string]Engine{}
	err := planfile.ReadFields(text, "a file of noise", func(f *planfile.Fields) planfile.Known {
		return planfile.Known{
			"rate": func(e planfile.Entry) {
				world.Rate = f.Number(e, 0, true, math.Inf(1), "a number of tokens per second")
			},
			"noise": func(e planfile.Entry) { world.Noise = f.Number(e, 0, true, 10, "a standard deviation such as 0.02") },
			"drift": func(e planfile.Entry) {
				f.Mapping(e, planfile.Known{
					"change": func(e planfile.Entry) { world.Drift.Change = effect(f, e) },
					"over":   func(e planfile.Entry) { world.Drift.Over = f.Duration(e) },
				})
			},
			"effects": func(e planfile.Entry) {
				world.Effects = map[string]float64{}
				for _, e := range f.Names(e, "a mapping of FLAG=VALUE to shares") {
					world.Effects[e.Name()] = effect(f, e)
				}
			},
			"joint": func(e planfile.Entry) {
				for _, e := range f.Items(e, "a list of {flags: [A=1, B=2], effect: 0.05}") {
					world.Joint = append(world.Joint, joint(f, e))
				}
			},
			"starts": func(e planfile.Entry) {
				world.Starts = map[string]time.Duration{}
				for _, e := range f.Names(e, "a mapping of FLAG=VALUE to durations") {
					world.Starts[e.Name()] = f.Duration(e)
				}
			},
			"engines": func(e planfile.Entry) {
				for _, e := range f.Names(e, "a mapping of engines' names to what is true of them") {
					world.Engines[e.Name()] = engine(f, e)
				}
			},
			"failing": func(e planfile.Entry) {
				for _, e := range f.Items(e, "a list of {flags: [A=1], reason: out of memory}") {
					world.Failing = append(world.Failing, failing(f, e))
				}
			},
			"changed": func(e planfile.Entry) { world.Changed = f.Texts(e, "texts of FLAG=VALUE") },
			"near":    func(e planfile.Entry) { world.Near = f.Texts(e, "texts of FLAG=VALUE") },
			"seed":    func(e planfile.Entry) { world.Seed = f.Whole(e) },
		}
	})
	if err != nil {
		return World{}, err
	}
	return world, nil
}

// effect is a share that a rate changes by.
func effect(f *planfile.Fields, e planfile.Entry) float64 {
	return f.Number(e, -1, false, math.Inf(1), "a share above -1, such as 0.05 or -0.1,")
}

func joint(f *planfile.Fields, e planfile.Entry) (out Joint) {
	before := f.Mistakes()
	f.Mapping(e, planfile.Known{
		"flags":  func(e planfile.Entry) { out.Flags = f.Texts(e, "a list of FLAG=VALUE") },
		"effect": func(e planfile.Entry) { out.Effect = effect(f, e) },
	})
	if len(out.Flags) < 2 && f.Mistakes() == before {
		f.Fail(e, "flags with two of FLAG=VALUE or more expected: what one does alone is an effect")
	}
	return out
}

func engine(f *planfile.Fields, e planfile.Entry) (out Engine) {
	f.Mapping(e, planfile.Known{
		"factor": func(e planfile.Entry) {
			out.Factor = f.Number(e, 0, false, math.Inf(1), "a number above 0, 1 being the usual speed,")
		},
		"start":   func(e planfile.Entry) { out.Start = f.Duration(e) },
		"version": func(e planfile.Entry) { out.Version = f.Text(e, "a version such as 0.11.0") },
		"fails":   func(e planfile.Entry) { out.Fails = f.Text(e, "why it does not start") },
		"tail":    func(e planfile.Entry) { out.Tail = f.Texts(e, "lines of its log") },
	})
	return out
}

func failing(f *planfile.Fields, e planfile.Entry) (out Failing) {
	before := f.Mistakes()
	f.Mapping(e, planfile.Known{
		"flags":  func(e planfile.Entry) { out.Flags = f.Texts(e, "a list of FLAG=VALUE") },
		"reason": func(e planfile.Entry) { out.Reason = f.Text(e, "why it fails") },
		"share": func(e planfile.Entry) {
			out.Share = f.Number(e, 0, true, 1.0000001, "the share of runs that fail, from 0 to 1,")
		},
	})
	if out.Reason == "" && f.Mistakes() == before {
		f.Fail(e, "a reason expected, such as reason: out of memory")
	}
	return out
}
