// Command program is a small program with two forms, for tests: it says which of them runs, and
// what it knows of itself.
package main

import (
	"encoding/json"
	"errors"
	"os"
	"strings"

	"ossian/internal/cuda/driver/libcuda"
	"ossian/internal/self"
)

func main() {
	device := self.Device(os.Args[1:], os.Getenv)
	self.Switch(device)
	line := ""
	if !libcuda.Built && (device == "auto" || device == "cuda") {
		if _, err := libcuda.Open(); errors.Is(err, libcuda.ErrNotBuilt) {
			line = err.Error()
		}
	}
	path, err := self.Path()
	if err != nil {
		path = err.Error() // an empty root has no /proc to ask
	}
	name, _ := os.ReadFile("/proc/self/comm") // its absence shows in the answer
	var left []string
	for _, pair := range os.Environ() {
		if strings.HasPrefix(pair, "OSSIAN_") {
			left = append(left, pair)
		}
	}
	answer := map[string]any{"dynamic": libcuda.Built, "line": line, "pid": os.Getpid(), "args": os.Args, "path": path, "name": strings.TrimSpace(string(name)), "left": left}
	if err := json.NewEncoder(os.Stdout).Encode(answer); err != nil {
		os.Exit(1)
	}
}
