// Package tools is ossian tools: it tries what a server with the same flags would run for models,
// and says what does not work and what would help.
package tools

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"ossian/internal/command"
	"ossian/internal/config"
	"ossian/internal/limits"
	"ossian/internal/terminal"
	"ossian/internal/tools/registry"
)

// Helper does the work of a tool's helper where the program was started as one, by itself; it does
// not return then. It comes first in main, with the arguments behind the program's name.
func Helper(args []string) { registry.Helper(args) }

// Command returns the command.
func Command() *cobra.Command {
	cmd := &cobra.Command{
		Use:                "tools [flags of serve]",
		Short:              "Try the tools that a server would run for models",
		DisableFlagParsing: true, // as serve, whose flags these are
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 && args[0] == "help" {
				return cmd.Help()
			}
			asJSON, args := takeFlag(args, "--json")
			cfg, err := config.Load(config.Source{Args: args, Env: os.Environ()})
			if errors.Is(err, config.ErrHelp) {
				return cmd.Help()
			}
			if err != nil {
				return err
			}
			return try(cmd, cfg, asJSON)
		},
	}
	cmd.SetHelpFunc(func(cmd *cobra.Command, _ []string) {
		_, _ = fmt.Fprint(cmd.OutOrStdout(), `Try each tool that ossian serve would run with the same flags: the browser searches,
Python computes 6*7 behind its self-test, servers of MCP list their tools.

Without --tool-server it tries those of the program itself (demo). The exit status is 1
where something does not work that is not switched off.

Usage:
  ossian tools [--tool-server …] [--browser-corpus DIR] [--python-backend …] [--json]

Examples:
  ossian tools --browser-corpus docs
  ossian tools --tool-server demo,localhost:9000

The flags are those of ossian serve; --help there lists them. --json prints a list.
`)
	})
	return cmd
}

// takeFlag takes a flag out of arguments that another parser reads.
func takeFlag(args []string, name string) (given bool, rest []string) {
	for _, arg := range args {
		if arg == name {
			given = true
			continue
		}
		rest = append(rest, arg)
	}
	return given, rest
}

// try tries the tools of the settings and prints what came of it.
func try(cmd *cobra.Command, cfg *config.Config, asJSON bool) error {
	if len(cfg.ToolServers) == 0 {
		cfg.ToolServers = []string{"demo"}
	}
	all, err := registry.Open(cfg, command.Version(), func() *limits.Set { return cfg.Limits }, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	defer command.OnSecondSignal(registry.KillAll)()
	defer all.Close()
	trials := all.Try(cmd.Context())
	if err := write(cmd.OutOrStdout(), trials, asJSON); err != nil {
		return err
	}
	for i := range trials {
		// Python that is switched off was not asked for: the list says so, and the exit status does
		// not.
		wanted := trials[i].Kind == "python" && cfg.PythonBackend == "off"
		if !trials[i].Works && !wanted {
			return errors.New("not every tool works")
		}
	}
	return nil
}

// write prints trials. What servers say of themselves is cleaned.
func write(out io.Writer, trials []registry.Trial, asJSON bool) error {
	if asJSON {
		encoder := json.NewEncoder(out)
		encoder.SetIndent("", "  ")
		return encoder.Encode(trials)
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(table, "TOOL\tKIND\tBACKEND\tSTATE")
	for i := range trials {
		trial := &trials[i]
		state := "off: " + trial.Problem
		if trial.Works {
			state = "works: " + trial.Detail
		}
		cells := []string{trial.Name, trial.Kind, strings.TrimSpace(trial.Backend + " " + trial.Address), state}
		for k, cell := range cells {
			if cells[k] = strings.Map(terminal.Printable, strings.ReplaceAll(cell, "\t", " ")); cell == "" {
				cells[k] = "-"
			}
		}
		_, _ = fmt.Fprintln(table, strings.Join(cells, "\t"))
	}
	return table.Flush()
}
