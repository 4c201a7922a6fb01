package lab

// ossian lab calibrate: rows somebody measured, or this machine's processors.

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"ossian/internal/command"
	"ossian/internal/lab/predict"
	"ossian/internal/lab/predict/calibrate"
	"ossian/internal/lab/predict/local"
	"ossian/internal/lab/predict/machine"
	"ossian/internal/load"
	"ossian/internal/plan"
)

// calibrateFlags are those of the command.
type calibrateFlags struct {
	rows    string
	most    int
	cpu     bool
	only    string
	out     string
	threads int
	seconds float64
	check   []string
	asJSON  bool
}

func calibrateCommand() *cobra.Command {
	var flags calibrateFlags
	cmd := &cobra.Command{
		Use:   "calibrate [MODEL]",
		Short: "Fit the predictor to measurements: rows of others, or this computer's processors",
		Long: `With --rows FILE, choose the rows that tell most of what kernels reach, at most --max-rows, fit the
predictor to them and print parameters with standard errors, its errors on each chosen row
predicted from the others and on every row of the file, and which parameters the rows do not
identify. The rows must be of one engine on one machine; --only takes those whose id, engine,
model or hardware contains a text.

Without --rows, measure this computer's processors with the engine of this program and MODEL (the
built-in one without a name): steps that decode, steps of prompts and both, then whole runs, in a
minute or less. A quiet machine is a condition: what else runs becomes part of the figures. Runs
named with --check BATCHxPROMPT/OUTPUT are measured, predicted and compared, not fitted to.

The file that is written is read by lab predict and lab size with --calibration; that of the
processors is also found where it is written by default.`,
		Example: "  ossian lab calibrate --rows rows.json --only A100 -o a100.json\n  ossian lab calibrate ./Qwen3-0.6B --check 8x1024/64",
		Args:    usage(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			name := ""
			if len(args) > 0 {
				name = args[0]
			}
			if flags.out == "" && flags.rows == "" {
				flags.out = local.Path(command.StateDir())
			}
			if err := command.OutputFile("--output", flags.out); err != nil {
				return command.WithStatus(statusUsage, err)
			}
			var err error
			// A computation that was interrupted is no error of usage, whatever it says.
			switch {
			case flags.rows != "" && (flags.cpu || name != ""):
				err = errors.New("lab calibrate: --rows FILE, or a model to measure here, expected")
			case flags.rows != "":
				err = calibrateRows(cmd, &flags)
			default:
				err = calibrateProcessors(cmd, name, &flags)
			}
			if cmd.Context().Err() != nil {
				return err
			}
			return command.WithStatus(statusUsage, err)
		},
	}
	given := cmd.Flags()
	given.StringVar(&flags.rows, "rows", "", "`FILE` of rows, format ossian-seed-results-1")
	given.IntVar(&flags.most, "max-rows", 7, "`N` rows to fit to at most")
	given.BoolVar(&flags.cpu, "cpu", false, "measure this computer's processors (the default without --rows)")
	given.StringVar(&flags.only, "only", "", "take the rows that contain `TEXT`")
	given.StringVarP(&flags.out, "output", "o", "", "`FILE` for the calibration (default: of the processors where lab predict looks for it; of rows none)")
	given.IntVar(&flags.threads, "threads", 0, "compute with `N` threads; 0 = all")
	given.Float64Var(&flags.seconds, "seconds", 20, "to spend on steps of the model, about")
	given.StringArrayVar(&flags.check, "check", nil, "`BATCHxPROMPT/OUTPUT` to compare with its prediction; may be given again")
	given.BoolVar(&flags.asJSON, "json", false, "write JSON")
	return cmd
}

// calibrateRows fits to the rows of a file.
func calibrateRows(cmd *cobra.Command, flags *calibrateFlags) error {
	file, err := os.Open(flags.rows)
	if err != nil {
		return err
	}
	rows, err := calibrate.Read(file)
	if err := errors.Join(err, file.Close()); err != nil {
		return fmt.Errorf("%s: %w", flags.rows, err)
	}
	rows = slices.DeleteFunc(rows, func(row calibrate.Row) bool {
		return !strings.Contains(strings.Join([]string{row.ID, row.Engine, row.EngineVersion, row.Model, row.Hardware.GPU}, "\n"), flags.only)
	})
	// A row of an engine without a profile cannot be simulated: it is named and left out.
	var known []calibrate.Row
	for _, row := range rows {
		if _, err := predict.Engine(row.Engine, row.EngineVersion); err != nil {
			fmt.Fprintf(cmd.ErrOrStderr(), "left out: row %s: %v\n", row.ID, err)
			continue
		}
		known = append(known, row)
	}
	if len(known) == 0 {
		return fmt.Errorf("%s: no row left of %d", flags.rows, len(rows))
	}
	result, err := calibrate.Fit(cmd.Context(), known, flags.most)
	if err != nil {
		return err
	}
	if flags.out != "" {
		if err := writeCalibration(flags.out, &local.File{Calibration: result.Calibration}); err != nil {
			return err
		}
	}
	if flags.asJSON {
		return writeJSON(cmd.OutOrStdout(), map[string]any{"calibration": result.Calibration, "chosen": result.Chosen, "left_out": result.LeftOut, "all": result.All})
	}
	return writeText(cmd.OutOrStdout(), rowsText(result, flags.out))
}

// rowsText is the report on a fit to rows.
func rowsText(result *calibrate.Result, path string) string {
	var out strings.Builder
	fmt.Fprintf(&out, "fitted to %d of %d rows: %s\n\n%s", len(result.Chosen), len(result.All), strings.Join(result.Chosen, ", "), parametersText(result.Calibration))
	table := func(title string, all []calibrate.Error) {
		fmt.Fprintf(&out, "\n%s: predicted over measured\n%-34s %9s %9s %9s\n", title, "row", "duration", "mean TTFT", "mean TPOT")
		within := 0
		for _, row := range all {
			line, good := "", true
			for _, key := range []string{"duration_s", "mean_ttft_ms", "mean_tpot_ms"} {
				ratio, ok := row.Ratio[key]
				if !ok {
					line += fmt.Sprintf(" %9s", "-")
					continue
				}
				line += fmt.Sprintf(" %9.3f", ratio)
				// A tenth either way in ratio: 0.9 and 1/0.9 are as far off.
				good = good && ratio > 0.9 && ratio < 1/0.9
			}
			if good {
				within++
			}
			mark := ""
			if row.Fitted {
				mark = "  fitted"
			}
			fmt.Fprintf(&out, "%-34s%s%s\n", row.ID, line, mark)
		}
		fmt.Fprintf(&out, "%d of %d rows within 10 %% in all three\n", within, len(all))
	}
	table("each chosen row from the others", result.LeftOut)
	table("every row from the chosen ones", result.All)
	if path != "" {
		fmt.Fprintf(&out, "\nwritten: %s\n", path)
	}
	return out.String()
}

// parametersText lists the parameters of a calibration.
func parametersText(calibration *predict.Calibration) string {
	var out strings.Builder
	fmt.Fprintf(&out, "%-28s %10s %-14s %-10s %s\n", "parameter", "value", "unit", "origin", "standard error")
	for _, name := range slices.Sorted(maps.Keys(calibration.Parameters)) {
		parameter := calibration.Parameters[name]
		se := "-"
		if parameter.SE > 0 {
			se = fmt.Sprintf("%.0f %%", 100*parameter.SE)
		}
		mark := ""
		if slices.Contains(calibration.Left, name) {
			mark = "  not identified"
		}
		fmt.Fprintf(&out, "%-28s %10s %-14s %-10s %s%s\n", name, number(parameter.Value), parameter.Unit, parameter.Origin, se, mark)
	}
	return out.String()
}

// writeCalibration writes a file whole, or leaves the one that was there.
func writeCalibration(path string, file *local.File) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	temporary, err := os.CreateTemp(filepath.Dir(path), ".calibration-*")
	if err != nil {
		return err
	}
	err = errors.Join(local.Write(temporary, file), temporary.Close())
	if err == nil {
		err = os.Rename(temporary.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(temporary.Name()))
	}
	return nil
}

// calibrateProcessors measures a model on this computer.
func calibrateProcessors(cmd *cobra.Command, name string, flags *calibrateFlags) error {
	runs, err := parseRuns(flags.check)
	if err != nil {
		return err
	}
	if !(flags.seconds >= 1 && flags.seconds <= 3600) || flags.threads < 0 || flags.threads > 1<<10 {
		return fmt.Errorf("--seconds %v, --threads %d: 1 to 3600 and 0 to 1024 expected", flags.seconds, flags.threads)
	}
	began := time.Now()
	checkpoint, err := load.OpenModel(name)
	if err != nil {
		return err
	}
	defer func() { _ = checkpoint.Close() }()
	options := load.Options{Threads: flags.threads, MaxLen: min(longest(runs), checkpoint.Spec.MaxLen), MaxTokens: plan.DefaultTokens, KV: "auto", Weights: "auto", Packed: "auto", NoVerify: true, Seqs: 32}
	computing, err := options.Runner(cmd.Context(), checkpoint, cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	host, err := processorsOf(cmd.Context(), flags.threads)
	// The checkpoint stays open until the end; the runner is closed by hand where Calibrate, which
	// takes it, is not reached.
	if err != nil {
		return errors.Join(err, computing.Close())
	}
	described, err := describeFiles(name, true)
	if err != nil {
		return errors.Join(err, computing.Close())
	}
	defer described.close()
	engine, err := predict.Engine("ossian", command.Version())
	if err != nil {
		return errors.Join(err, computing.Close())
	}
	file, evidence, err := local.Calibrate(cmd.Context(), local.Subject{Runner: computing, Model: described.model, Host: host, Engine: engine, Seconds: 2 * flags.seconds}, runs)
	if err != nil {
		return err
	}
	if flags.out != "" {
		if err := writeCalibration(flags.out, file); err != nil {
			return err
		}
	}
	if flags.asJSON {
		return writeJSON(cmd.OutOrStdout(), map[string]any{"calibration": file, "evidence": evidence, "seconds": time.Since(began).Seconds(), "load_average": loadAverage()})
	}
	return writeText(cmd.OutOrStdout(), processorsText(file, evidence, time.Since(began), flags.out))
}

// longest is the context that steps and runs need.
func longest(runs []local.Run) int {
	most := 1088
	for _, run := range runs {
		most = max(most, run.Prompt+run.Output+16)
	}
	return most
}

// parseRuns reads BATCHxPROMPT/OUTPUT.
func parseRuns(texts []string) (runs []local.Run, err error) {
	for _, text := range texts {
		var run local.Run
		n, err := fmt.Sscanf(text, "%dx%d/%d", &run.Batch, &run.Prompt, &run.Output)
		if n != 3 || err != nil || run.Batch < 1 || run.Batch > 32 || run.Prompt < 1 || run.Output < 1 || run.Prompt+run.Output > 1<<17 {
			return nil, fmt.Errorf("--check %s: BATCHxPROMPT/OUTPUT, as 8x1024/64, of 1 to 32 sequences expected", text)
		}
		runs = append(runs, run)
	}
	return runs, nil
}

// processorsOf measures what this computer's processors read.
func processorsOf(ctx context.Context, threads int) (machine.Machine, error) {
	if threads == 0 {
		threads = plan.ThisProcess().Threads
	}
	bandwidth, err := load.Bandwidth(ctx, threads)
	return local.Host(bandwidth, threads), err
}

// loadAverage is what the system says of the last minute; "" where it does not.
func loadAverage() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return ""
	}
	first, _, _ := strings.Cut(string(text), " ")
	return first
}

// processorsText is the report on a measurement of processors.
func processorsText(file *local.File, evidence *local.Evidence, took time.Duration, path string) string {
	var out strings.Builder
	fmt.Fprintf(&out, "%s, %d processors, reading at most %.1f GB/s; measured in %.0f s", plan.ThisHost().CPU, runtime.NumCPU(), file.Host.Bandwidth.Value/1e9, took.Seconds())
	if load := loadAverage(); load != "" {
		fmt.Fprintf(&out, "; load average %s", load)
		if value, err := strconv.ParseFloat(load, 64); err == nil && value > float64(runtime.NumCPU())+0.5 {
			fmt.Fprintf(&out, ": THE MACHINE WAS BUSY, and these figures are of a busy machine")
		}
	}
	fmt.Fprintf(&out, "\n\n%s\n%-44s %6s %12s %12s %7s\n", parametersText(file.Calibration), "step", "runs", "measured ms", "clock ms", "ratio")
	for _, step := range evidence.Steps {
		fmt.Fprintf(&out, "%-44s %6d %12.3f %12.3f %7.3f\n", step.Name, step.Runs, 1e3*step.Seconds, 1e3*step.Fitted, step.Fitted/step.Seconds)
	}
	trialsText(&out, evidence.Trials)
	if path != "" {
		fmt.Fprintf(&out, "\nwritten: %s\n", path)
	}
	return out.String()
}

// trialsText lists whole runs beside their predictions.
func trialsText(out io.Writer, trials []local.Trial) {
	fmt.Fprintf(out, "\n%-20s %12s %9s %9s %9s\n", "run", "tok/s", "tok/s", "mean TTFT", "mean TPOT")
	for i := range trials {
		t := &trials[i]
		mark := ""
		if t.Fitted {
			mark = "  fitted"
		}
		fmt.Fprintf(out, "%-20s %12.1f %9.3f %9.3f %9.3f%s\n", t.Name, t.Measured["total_token_throughput"], t.Ratio["total_token_throughput"], t.Ratio["mean_ttft_ms"], t.Ratio["mean_tpot_ms"], mark)
	}
	fmt.Fprintln(out, "the last three columns are predicted over measured")
}
