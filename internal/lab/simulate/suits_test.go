package simulate

import (
	"strings"
	"testing"

	"ossian/internal/lab/planfile"
)

// TestSuits: what a world says of flags and engines that a plan does not have would have no effect.
func TestSuits(t *testing.T) {
	plan := &planfile.Plan{Engines: []planfile.Engine{{Name: "vllm"}}, Options: []planfile.Option{{Flags: []planfile.Flag{{Name: "aa", Values: []string{"true", "2"}}}}}}
	for text, want := range map[string]string{
		"effects: {aa=true: 0.05}":                        "",
		"engines: {vllm: {factor: 2}}":                    "",
		"effects: {aa: 0.05}":                             `no flag with a value, FLAG=VALUE, "aa"`,
		"effects: {ab=true: 0.05}":                        "did you mean aa=true?",
		"engines: {vlm: {factor: 2}}":                     "did you mean vllm?",
		"joint: [{flags: [aa=true, bb=1], effect: -0.1}]": `"bb=1"`,
		"failing: [{flags: [cc=1], reason: x}]":           `"cc=1"`,
		"changed: [cc=1]":                                 `"cc=1"`,
	} {
		world, err := Read([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if err := world.Suits(plan); (err == nil) != (want == "") || (err != nil && !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}
