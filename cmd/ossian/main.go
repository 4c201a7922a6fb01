// Command ossian runs, serves and measures open-weight language models.
package main

import (
	"os"

	"github.com/spf13/cobra"

	"ossian/internal/command"
	"ossian/internal/command/bench"
	"ossian/internal/command/check"
	"ossian/internal/command/eval"
	"ossian/internal/command/inspect"
	"ossian/internal/command/lab"
	"ossian/internal/command/perplexity"
	"ossian/internal/command/pull"
	"ossian/internal/command/run"
	"ossian/internal/command/serve"
	"ossian/internal/command/store"
	"ossian/internal/command/synth"
	"ossian/internal/command/tools"
	"ossian/internal/self"
)

func main() {
	tools.Helper(os.Args[1:])                        // as its own helper the program does not get further
	self.Switch(self.Device(os.Args[1:], os.Getenv)) // before all else: it may start the program's other form in its place
	os.Exit(command.Main(root()))
}

// root is the command tree. What bench measures in this process is what serve serves.
func root() *cobra.Command {
	here := bench.Serve{Start: serve.Start, Plan: serve.Plan}
	return command.Root(serve.Command(), run.Command(), pull.Command(), inspect.Command(),
		bench.Command(here), eval.Command(serve.Start), lab.Command(), check.Command(), perplexity.Command(), synth.Command(), store.Command(), tools.Command())
}
