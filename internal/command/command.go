// Package command is the root of the command tree and what all commands share: usage
// errors, suggestions for mistyped flags, the version, signals and the exit status. Each
// command is a package below it; cmd/ossian puts them together.
package command

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"ossian/internal/terminal"
)

// maxStack is how many bytes the stack of a goroutine may have. Whatever recurs on what
// others wrote has a bound of its own; this ends the process before memory is gone if one
// should be missing (reliability.md HLT-5).
const maxStack = 64 << 20

// Root returns the program with the given commands.
func Root(commands ...*cobra.Command) *cobra.Command {
	debug.SetMaxStack(maxStack)
	cmd := &cobra.Command{
		Use:           "ossian",
		Short:         "Run and serve open-weight language models",
		SilenceUsage:  true,
		SilenceErrors: true,
		Version:       Version(),
	}
	if revision := Revision(); revision != "" {
		cmd.Version += " (" + revision + ")"
	}
	cmd.SetFlagErrorFunc(func(c *cobra.Command, err error) error { return Suggest(c.Flags(), err) })
	cmd.RunE = func(c *cobra.Command, args []string) error {
		if len(args) == 0 {
			return c.Help()
		}
		return unknownCommand(c, args[0])
	}
	cmd.Args = cobra.ArbitraryArgs // words that name no command are told by RunE
	// The program alone does nothing, so its usage is that of its commands.
	cmd.SetUsageTemplate(strings.Replace(cmd.UsageTemplate(), "{{if .Runnable}}", "{{if and .Runnable .HasParent}}", 1))
	cmd.AddCommand(commands...)
	cmd.InitDefaultHelpCmd()
	cmd.InitDefaultCompletionCmd()
	helpKnowsCommands(cmd)
	return cmd
}

// helpKnowsCommands makes the help of what is no command an error.
func helpKnowsCommands(root *cobra.Command) {
	help, _, err := root.Find([]string{"help"})
	if err != nil || help == root {
		return // a program without commands has none
	}
	show := help.Run
	help.Run = nil
	help.RunE = func(c *cobra.Command, args []string) error {
		if found, _, err := root.Find(args); len(args) > 0 && (err != nil || found == root) {
			return unknownCommand(root, args[0])
		}
		show(c, args)
		return nil
	}
}

// OnSecondSignal runs end when an interrupt or SIGTERM comes for the second time, and lets it end
// the program then. It is for what would outlive the program. stop ends the watch.
func OnSecondSignal(end func()) (stop func()) {
	signals, over := make(chan os.Signal, 2), make(chan struct{})
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		var last os.Signal
		for range 2 {
			select {
			case last = <-signals:
			case <-over:
				return
			}
		}
		end()
		signal.Reset(os.Interrupt, syscall.SIGTERM)
		if own, err := os.FindProcess(os.Getpid()); err != nil || own.Signal(last) != nil {
			os.Exit(130) // a system without signals
		}
	}()
	return func() {
		signal.Stop(signals)
		close(over)
	}
}

// Main runs root on the process's arguments and returns its exit status. An interrupt or
// SIGTERM ends the context of the command.
func Main(root *cobra.Command) (status int) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, func() { // a second Ctrl-C ends what does not look at ctx, such as a read of standard input
		if os.Getpid() == 1 {
			endAtSignal()
		}
		stop()
	})
	err := execute(ctx, root, os.Args[1:])
	if err == nil {
		return 0
	}
	status = Status(err)
	if errors.Is(err, context.Canceled) {
		status, err = 130, beyondInterrupt(err) // as a shell reports an interrupt
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "ossian:", strings.Map(terminal.Printable, err.Error())) // names come from files
	}
	return status
}

// endAtSignal ends this process at its next interrupt or SIGTERM, with the status that shells
// report of a signal. The system does that by itself but for the first process of a container,
// which no signal ends that it does not handle.
func endAtSignal() {
	again := make(chan os.Signal, 1)
	signal.Notify(again, os.Interrupt, syscall.SIGTERM)
	go func() {
		if number, ok := (<-again).(syscall.Signal); ok {
			os.Exit(128 + int(number))
		}
	}()
}

// execute runs root on the words of a command line. A word that names no command is told
// before the flags behind it are read, which nobody knows then, and before their help is shown.
func execute(ctx context.Context, root *cobra.Command, args []string) error {
	args = spelled(root, args)
	root.SetArgs(args)
	found, rest, err := root.Find(args)
	if err != nil || found.DisableFlagParsing || !found.HasSubCommands() || found.Annotations[ownWords] != "" {
		return root.ExecuteContext(ctx)
	}
	rest = slices.DeleteFunc(slices.Clone(rest), func(word string) bool { return word == "-h" || word == "--help" })
	if len(rest) == 0 || strings.HasPrefix(rest[0], "-") || strings.HasPrefix(rest[0], "__") { // __complete is asked for by shells
		return root.ExecuteContext(ctx)
	}
	if found == root {
		return unknownCommand(root, rest[0])
	}
	return unknownMember(found, rest[0])
}

// beyondInterrupt returns the errors within err that are not the interrupt itself, such
// as that of a result that could not be written.
func beyondInterrupt(err error) error {
	if several, ok := err.(interface{ Unwrap() []error }); ok {
		var kept []error
		for _, e := range several.Unwrap() {
			kept = append(kept, beyondInterrupt(e))
		}
		return errors.Join(kept...)
	}
	if errors.Is(err, context.Canceled) {
		if inner := errors.Unwrap(err); inner != nil {
			return beyondInterrupt(inner)
		}
		return nil
	}
	return err
}

// A statusError is an error with an exit status of its own.
type statusError struct {
	status int
	err    error
}

// Error is the text of what the status is of.
func (e *statusError) Error() string { return e.err.Error() }

// Unwrap returns it.
func (e *statusError) Unwrap() error { return e.err }

// WithStatus makes the process end with the given exit status where err ends its command;
// without it that is 1, and 130 after an interrupt. A nil err stays nil.
func WithStatus(status int, err error) error {
	if err == nil {
		return nil
	}
	return &statusError{status, err}
}

// Status is the exit status of a process whose command ended with err, interrupts aside.
func Status(err error) int {
	if err == nil {
		return 0
	}
	if other, ok := errors.AsType[*statusError](err); ok {
		return other.status
	}
	return 1
}

// Usage makes the error of a wrong number of arguments say what is expected.
func Usage(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if err := check(c, args); err != nil {
			return fmt.Errorf("%w: usage: %s", err, c.UseLine())
		}
		return nil
	}
}

// Family makes a command that only has others refuse words that name none of them, where
// it would print its help and succeed.
func Family(c *cobra.Command) *cobra.Command {
	c.RunE = func(c *cobra.Command, args []string) error {
		if len(args) == 0 {
			return c.Help()
		}
		return unknownMember(c, args[0])
	}
	return c
}

// ownWords is the annotation of commands that have others below them and take words of their own.
const ownWords = "own words"

// TakesWords makes a command that has others take words that name none of them.
func TakesWords(c *cobra.Command) *cobra.Command {
	c.Annotations = map[string]string{ownWords: "yes"}
	return c
}

// unknownMember is the error for a word that names no command of a family.
func unknownMember(c *cobra.Command, word string) error {
	var names []string
	for _, sub := range c.Commands() {
		names = append(names, sub.Name())
	}
	path := strings.TrimPrefix(c.CommandPath(), c.Root().Name()+" ") // with which every error begins
	return fmt.Errorf("%s has no command %.60q: want one of %s", path, word, strings.Join(names, ", "))
}
