//go:build !linux && !darwin

package plan

import "os"

func hardware() (cpu string, memory int64) { return os.Getenv("PROCESSOR_IDENTIFIER"), 0 }
