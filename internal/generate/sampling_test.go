package generate

import (
	"ossian/internal/host"
	"ossian/internal/sample"
	"ossian/internal/wire"
	"testing"
	"unsafe"
)

// A top_p of 0 asks for the likeliest id; below, 0 means that none is left out.
func TestTopPZero(t *testing.T) {
	s := &Service{cfg: Config{Random: func() uint64 { return 1 }}}
	zero := 0.0
	p := s.Params(&host.Model{Defaults: sample.Params{Temperature: 1}}, &wire.Sampling{TopP: &zero})
	for step := range uint64(50) {
		if id := sample.Pick([]float32{0, 0.1, 0.2, 0.1}, nil, &p, nil, step); id != 2 {
			t.Fatalf("step %d: id %d, expected the likeliest, 2", step, id)
		}
	}
}

// What is said of sizes in memory is true.
func TestSizes(t *testing.T) {
	if a, b, c, d := unsafe.Sizeof(sample.Logprob{}), unsafe.Sizeof(wire.TokenLogprob{}), unsafe.Sizeof(wire.PromptLogprob{}), unsafe.Sizeof([]sample.Logprob{}); a != logprobSize ||
		b != logprobOutSize || c != promptLogprobSize || d != logprobsSize {
		t.Errorf("sizes are %d, %d, %d and %d bytes", a, b, c, d)
	}
}
