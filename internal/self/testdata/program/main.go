// Command program is a small program with two forms, for tests: it says which of them runs, and
// what it knows of itself.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"ossian/internal/cuda/driver/libcuda"
	"ossian/internal/self"
)

func main() {
	line := self.Switch(self.Device(os.Args[1:], os.Getenv))
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
	if len(os.Args) > 2 && os.Args[2] == "open" {
		d, err := libcuda.Open()
		if err == nil {
			err = d.Init()
		}
		line += fmt.Sprint("open: ", err)
	}
	answer := map[string]any{"dynamic": libcuda.Built, "line": line, "pid": os.Getpid(), "args": os.Args, "path": path, "name": strings.TrimSpace(string(name)), "left": left}
	if err := json.NewEncoder(os.Stdout).Encode(answer); err != nil {
		os.Exit(1)
	}
}
