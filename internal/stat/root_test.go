package stat

import (
	"encoding/json"
	"math"
	"os"
	"testing"
)

// TestFirstRoot compares with the roots that scipy finds (testdata/pchip.py).
func TestFirstRoot(t *testing.T) {
	text, err := os.ReadFile("testdata/pchip.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		X, Y []float64
		Root *float64
	}
	if err := json.Unmarshal(text, &cases); err != nil {
		t.Fatal(err)
	}
	if len(cases) == 0 {
		t.Fatal("no cases")
	}
	for i, c := range cases {
		got, ok := FirstRoot(c.X, c.Y)
		switch {
		case ok != (c.Root != nil):
			t.Errorf("case %d, %v %v: %v, %v; scipy %v", i, c.X, c.Y, got, ok, c.Root)
		case ok && math.Abs(got-*c.Root) > 1e-8*math.Abs(*c.Root): // scipy solves cubics; where one touches 0 half of its digits are lost
			t.Errorf("case %d, %v %v: %v, scipy %v", i, c.X, c.Y, got, *c.Root)
		}
	}
	for name, xy := range map[string][2][]float64{
		"nothing": {nil, nil}, "one point": {{1}, {0}}, "lengths": {{1, 2}, {1, 2, 3}}, "twice the same": {{1, 1}, {-1, 1}}, "descending": {{2, 1}, {-1, 1}},
	} {
		if got, ok := FirstRoot(xy[0], xy[1]); ok {
			t.Errorf("%s: root %v", name, got)
		}
	}
}
