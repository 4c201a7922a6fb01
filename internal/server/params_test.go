package server

import (
	"testing"

	"ossian/internal/host"
	"ossian/internal/sample"
	"ossian/internal/wire"
)

// A top_p of 0 asks for the likeliest id; below, 0 means that none is left out.
func TestTopPZero(t *testing.T) {
	s := &Server{cfg: Config{Random: func() uint64 { return 1 }}}
	zero := 0.0
	p := s.params(&host.Model{Defaults: sample.Params{Temperature: 1}}, &wire.Sampling{TopP: &zero})
	for step := range uint64(50) {
		if id := sample.Pick([]float32{0, 0.1, 0.2, 0.1}, nil, &p, nil, step); id != 2 {
			t.Fatalf("step %d: id %d, expected the likeliest, 2", step, id)
		}
	}
}
