// Command ossian runs, serves and measures open-weight language models.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends what does not look at ctx, such as a read of standard input
	if err := root().ExecuteContext(ctx); err != nil {
		if errors.Is(err, context.Canceled) {
			os.Exit(130) // as a shell reports an interrupt
		}
		fmt.Fprintln(os.Stderr, "ossian:", err)
		os.Exit(1)
	}
}

// root is the command tree; each file of this package adds one subcommand.
func root() *cobra.Command {
	c := &cobra.Command{
		Use:           "ossian",
		Short:         "Run, serve and measure open-weight language models",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	c.AddCommand(runCommand())
	c.AddCommand(pullCommand())
	c.AddCommand(inspectCommand(thisMachine()))
	c.AddCommand(perplexityCommand(), synthCommand())
	return c
}
