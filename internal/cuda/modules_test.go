package cuda

import (
	"testing"

	"ossian/internal/cuda/kernels"
)

// TestModules loads every module that cards of compute capability 8.0 take, and finds its kernels: an
// opcode that the emulator does not know would leave kernels without a test.
func TestModules(t *testing.T) {
	for _, module := range kernels.Modules() {
		if module.Arch != "80" {
			continue
		}
		t.Run(module.Name, func(t *testing.T) {
			r := newRig(t)
			for _, name := range module.Entries {
				if _, err := r.q.function(name); err != nil {
					t.Errorf("kernel %s: %v", name, err)
				}
			}
		})
	}
}
