package simulate

import (
	"strings"
	"testing"
	"time"
)

// noise.yaml says what is true of servers that are not there; mistakes are named.
func TestRead(t *testing.T) {
	world, err := Read([]byte(`noise: 0.05
drift: {change: -0.1, over: 90m}
effects: {async=true: 0.12}
joint: [{flags: [a=1, b=2], effect: -0.03}]
engines: {vllm: {factor: 0.06, start: 40s}, trt: {fails: 'start: no kernel', tail: [no kernel]}}
failing: [{flags: [batch=8192], reason: 'out of memory: 9 GiB'}]
changed: [kv=fp4]
seed: 3
`))
	if err != nil || world.Noise != 0.05 || world.Drift.Over != 90*time.Minute || world.Effects["async=true"] != 0.12 || world.Engines["vllm"].Start != 40*time.Second ||
		world.Engines["trt"].Tail[0] != "no kernel" || world.Failing[0].Flags[0] != "batch=8192" || world.Joint[0].Effect != -0.03 {
		t.Errorf("%v %+v", err, world)
	}
	if world, err := Read(nil); err != nil || world.Noise != Default().Noise {
		t.Errorf("empty: %v %+v", err, world)
	}
	for text, want := range map[string]string{"noize: 1": "noize", "noise: -1": "noise", "effects: {a=1: -2}": "effects.a=1", "drift: {change: -1}": "drift.change", "joint: [{flags: [a=1], effect: 0}]": "joint", "rate: .nan": "rate"} {
		if _, err := Read([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// FuzzRead: whatever a file says, it is a world that can be simulated or an error.
func FuzzRead(f *testing.F) {
	f.Add([]byte("noise: 0.05\neffects: {a=true: 0.1}\n"))
	f.Add([]byte("engines: {x: {start: 1s}}\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		world, err := Read(text)
		if err == nil && !(world.Noise >= 0) {
			t.Errorf("noise %v", world.Noise)
		}
	})
}

// Mistakes are told in the words of plans: key, line, what belongs there, and nothing of how they are read.
func TestReadMistakes(t *testing.T) {
	for text, want := range map[string]string{
		"nois: 1":                              "line 1: nois: unknown key; did you mean noise?",
		"effects: [1]":                         "line 1: effects: a mapping of FLAG=VALUE to shares expected, found a list of 1",
		"noise: {}":                            "line 1: noise: a standard deviation such as 0.02 expected, found a mapping",
		"seed: 1\nengines: {x: {factor: 0}}":   `line 2: engines.x.factor: a number above 0, 1 being the usual speed, expected, found "0"`,
		"engines: {x: {factor: -1}}":           "engines.x.factor",
		"engines: {x: {facto: 2}}":             "line 1: engines.x.facto: unknown key; did you mean factor?",
		"engines: {x: {start: -1s}}":           "engines.x.start: a duration of 0 or more",
		"drift: {change: -0.1, over: x}":       `drift.over: a duration of 0 or more with its unit expected, such as 40s or 2m, found "x"`,
		"seed: -1":                             "seed: a whole number from 0",
		"joint: 5":                             "joint: a list of {flags: [A=1, B=2], effect: 0.05} expected",
		"joint: [{flags: [a=1], effect: 0.1}]": "joint[0]: flags with two of FLAG=VALUE or more expected",
		"failing: [{flags: [a=1]}]":            "failing[0]: a reason expected",
		"failing: [{reason: x, share: 2}]":     "failing[0].share: the share of runs that fail",
		"just text":                            "line 1: the file of noise: a mapping of names to values expected",
		"noise: 0.1\nnoise: 0.2":               "line 2: noise: given once expected",
		"noize: 1\neffects: 3":                 "line 2: effects",
	} {
		_, err := Read([]byte(text))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
			continue
		}
		for _, leak := range []string{"!!", "simulate", "struct", "float64", "construct", "in type"} {
			if strings.Contains(err.Error(), leak) {
				t.Errorf("%s: %v", text, err)
			}
		}
	}
	if world, err := Read([]byte("# nothing but a remark\n")); err != nil || world.Noise != Default().Noise {
		t.Errorf("%v %+v", err, world)
	}
}
