package load

import (
	"math"
	"testing"

	"ossian/internal/ckpt"
	"ossian/internal/sample"
)

// A top_p of 0 asks for the likeliest id; to the sampler 0 means that none is left out.
func TestRunTopPZero(t *testing.T) {
	zero := 0.0
	given, advised := Advised(), Advised()
	given.Temperature, advised.Temperature = 1, 1
	given.TopP = 0
	for _, p := range []sample.Params{given.Params(ckpt.Generation{}), advised.Params(ckpt.Generation{TopP: &zero})} {
		if p.TopP != math.SmallestNonzeroFloat32 {
			t.Errorf("top_p is %v", p.TopP)
		}
	}
	if p := advised.Params(ckpt.Generation{}); p.TopP != 0 {
		t.Errorf("without advice top_p is %v", p.TopP)
	}
}
