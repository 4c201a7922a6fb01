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
