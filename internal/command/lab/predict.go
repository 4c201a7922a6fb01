package lab

// ossian lab predict: one setting in full, many in order, or a preset.

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"ossian/internal/command"
	"ossian/internal/lab/predict"
	"ossian/internal/lab/size"
	"ossian/internal/terminal"
)

// predictFlags are those of the command.
type predictFlags struct {
	targetFlags
	loadFlags
	machine string
	preset  presetFlags
	rank    string
	try     []string
	by      string
}

func predictCommand() *cobra.Command {
	var flags predictFlags
	cmd := &cobra.Command{
		Use:   "predict MODEL",
		Short: "Say how fast a server would be on a machine that need not be there",
		Long: `Run the scheduler in virtual time, with a clock that knows the model, the machine and what the
engine's kernels were measured to reach on it, and print what a client would see: every figure
with a 95 % interval, where the time goes, preemptions, cached tokens, the fullest the KV memory
gets, and what was assumed.

MODEL is the name of a published model, or files on this machine, of which headers alone are read.
Without --machine it is this computer's processors, once ` + "`ossian lab calibrate`" + ` has measured them.

A kernel that was never measured is unknown: the prediction is then a bound, marked as one, without
an interval; --strict makes it an error.

--rank FILE orders the settings of a parameter file (a list of objects, or an object of objects by
name, as for bench sweep); --try FLAG=A,B,C orders all combinations of values; --preset chooses
settings by an aim.`,
		Example: `  ossian lab predict openai/gpt-oss-20b --machine A100-80G --workload sharegpt
  ossian lab predict Qwen3-8B --machine H200 --try max-num-seqs=64,128,256 --try tp=1,2
  ossian lab predict openai/gpt-oss-120b --machine B200 --preset balanced`,
		Args: usage(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			err := runPredict(cmd, args[0], &flags)
			// An unknown kernel of --strict, a usage error that has its status already, and an
			// interrupt keep theirs; whatever else is wrong was in the flags or files.
			if errors.Is(err, predict.ErrUnknownKernel) || command.Status(err) == statusUsage || cmd.Context().Err() != nil {
				return err
			}
			return command.WithStatus(statusUsage, err)
		},
	}
	flags.targetFlags.add(cmd)
	flags.loadFlags.add(cmd)
	flags.preset.add(cmd)
	cmd.Flags().StringVar(&flags.machine, "machine", processors, "`NAME` of a shipped machine, or cpu: this computer's processors")
	cmd.Flags().StringVar(&flags.rank, "rank", "", "order the settings of a parameter `FILE`")
	cmd.Flags().StringArrayVar(&flags.try, "try", nil, "`FLAG=A,B,C`: order the settings with each of the values; may be given again")
	cmd.Flags().StringVar(&flags.by, "by", "total_token_throughput", "`METRIC` to order by; throughputs are divided by the number of devices")
	return cmd
}

// runPredict predicts what the flags ask for.
func runPredict(cmd *cobra.Command, name string, flags *predictFlags) error {
	if err := flags.together(); err != nil {
		return err
	}
	settings, err := flags.fixed(cmd)
	if err != nil {
		return err
	}
	place, err := flags.place(flags.machine)
	if err != nil {
		return err
	}
	engine, err := flags.profile(flags.machine)
	if err != nil {
		return err
	}
	model, err := describe(name, place.machine.CPU)
	if err != nil {
		return err
	}
	// Describing reads headers, so it comes behind everything that flags alone can get wrong.
	defer model.close()
	scenario := predict.Scenario{Model: model.model, Machine: place.machine, Engine: engine, Settings: settings, Calibration: place.calibration, Strict: flags.strict}
	out := cmd.OutOrStdout()
	if flags.preset.name != "" {
		return runPreset(cmd, name, scenario, &place, &flags.preset, &flags.loadFlags, flags.asJSON)
	}
	if scenario.Workload, err = flags.loadFlags.load(); err != nil {
		return err
	}
	scenario.Workload.Assumptions = place.assume(scenario.Workload.Assumptions)
	head := fmt.Sprintf("%s on %s, %s %s, workload %s: %d requests, %s", name, place.machine.Name, engine.Name, engine.Version, scenario.Workload.Name, len(scenario.Workload.Requests), api(scenario.Workload.Chat))
	if flags.rank != "" || len(flags.try) > 0 {
		return runRank(cmd, head, scenario, flags)
	}
	prediction, err := predict.Run(cmd.Context(), scenario)
	if err != nil {
		return err
	}
	if flags.asJSON {
		return writeJSON(out, predicted{Model: name, Machine: place.machine.Name, Engine: engine.Name, Version: engine.Version, Settings: settings,
			Workload: scenario.Workload.Name, Requests: len(scenario.Workload.Requests), API: api(scenario.Workload.Chat), Bound: len(prediction.Unknown) > 0, Prediction: prediction})
	}
	return writeText(out, predictionText(head, &prediction))
}

// together refuses flags that would say nothing beside the others.
func (f *predictFlags) together() error {
	flags := f.command.Flags()
	var idle []string
	why := ""
	switch {
	// What a flag is of decides who may stand beside it; --by has a meaning only where settings are
	// ordered.
	case f.preset.name != "":
		idle, why = []string{"try", "rank", "by", "num-prompts", "request-rate", "max-concurrency", "seed"}, "--preset looks at settings, numbers of users and requests of its own"
		if f.preset.name != string(size.MinLatency) {
			if flags.Changed("users") {
				return fmt.Errorf("--users: it is of --preset %s alone; --max-users bounds the others", size.MinLatency)
			}
		}
	case f.rank == "" && len(f.try) == 0:
		idle, why = []string{"users", "max-users", "measure", "by"}, "it says something beside --preset, or --by beside --try and --rank, alone"
	default:
		idle, why = []string{"users", "max-users", "measure"}, "it is of --preset alone"
	}
	for _, name := range idle {
		if flags.Changed(name) {
			return fmt.Errorf("--%s: %s; leave it out", name, why)
		}
	}
	return nil
}

// predicted is a prediction as JSON.
type predicted struct {
	Model    string           `json:"model"`
	Machine  string           `json:"machine"`
	Engine   string           `json:"engine"`
	Version  string           `json:"engine_version"`
	Settings predict.Settings `json:"settings"`
	Workload string           `json:"workload"`
	Requests int              `json:"requests"`
	API      string           `json:"api"` // chat or completions: chats take time before the scheduler sees them
	Bound    bool             `json:"bound"`
	predict.Prediction
}

// api is where requests go, as reports say it.
func api(chat bool) string {
	if chat {
		return "chat"
	}
	return "completions"
}

// writeJSON writes a value as indented JSON.
func writeJSON(out io.Writer, value any) error {
	encoder := json.NewEncoder(out)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	return encoder.Encode(value)
}

// writeText writes lines without what would steer a terminal: names of models and files are in them.
func writeText(out io.Writer, text string) error {
	for line := range strings.Lines(text) {
		if _, err := fmt.Fprintln(out, strings.Map(terminal.Printable, strings.TrimSuffix(line, "\n"))); err != nil {
			return err
		}
	}
	return nil
}

// shown are the metrics in the order of a client's report, with their titles.
var shown = []struct{ key, title string }{
	{"duration_s", "Duration (s)"}, {"request_throughput", "Request throughput (req/s)"}, {"output_throughput", "Output token throughput (tok/s)"},
	{"total_token_throughput", "Total token throughput (tok/s)"},
	{"mean_ttft_ms", "Mean TTFT (ms)"}, {"median_ttft_ms", "Median TTFT (ms)"}, {"p99_ttft_ms", "P99 TTFT (ms)"},
	{"mean_tpot_ms", "Mean TPOT (ms)"}, {"median_tpot_ms", "Median TPOT (ms)"}, {"p99_tpot_ms", "P99 TPOT (ms)"},
	{"mean_itl_ms", "Mean ITL (ms)"}, {"median_itl_ms", "Median ITL (ms)"}, {"p99_itl_ms", "P99 ITL (ms)"},
	{"mean_e2el_ms", "Mean E2EL (ms)"}, {"median_e2el_ms", "Median E2EL (ms)"}, {"p99_e2el_ms", "P99 E2EL (ms)"},
}

// number writes a figure with four significant digits at most, and none behind a point that are not
// among them.
func number(v float64) string {
	if v == 0 || math.IsInf(v, 0) || math.IsNaN(v) {
		return fmt.Sprint(v)
	}
	return fmt.Sprintf("%.*f", min(max(3-int(math.Floor(math.Log10(math.Abs(v)))), 0), 9), v)
}

// interval writes an estimate's 95 % interval; of a bound there is none.
func interval(e predict.Estimate, bound bool) string {
	if bound {
		return "bound"
	}
	return "[" + number(e.Low) + ", " + number(e.High) + "]"
}

// predictionText is the report on one prediction.
func predictionText(head string, prediction *predict.Prediction) string {
	var out strings.Builder
	bound := len(prediction.Unknown) > 0
	title := "95 % interval"
	if bound {
		title = "no server is faster"
	}
	fmt.Fprintf(&out, "%s\n\n%-34s %12s  %s\n", head, "", "predicted", title)
	for _, line := range shown {
		if e, ok := prediction.Metrics[line.key]; ok {
			fmt.Fprintf(&out, "%-34s %12s  %s\n", line.title, number(e.Value), interval(e, bound))
		}
	}
	fmt.Fprintf(&out, "\nshares of the time:")
	for _, name := range slices.SortedFunc(maps.Keys(prediction.Shares), func(a, b string) int {
		return cmp.Or(cmp.Compare(prediction.Shares[b], prediction.Shares[a]), cmp.Compare(a, b))
	}) {
		if share := prediction.Shares[name]; share >= 0.0005 {
			fmt.Fprintf(&out, " %s %.1f %%,", name, 100*share)
		}
	}
	// Each share ends with a comma; the last one's is taken off, so the text so far goes through a
	// string.
	text := strings.TrimSuffix(out.String(), ",")
	out.Reset()
	fmt.Fprintf(&out, "%s\n%d steps; %d preemptions; %d prompt tokens found in the prefix cache; KV memory at most %.0f %% full\n", text, prediction.Steps, prediction.Preemptions, prediction.CachedTokens, 100*prediction.PeakKV)
	fmt.Fprintf(&out, "memory of a device: %s of weights, %s of activations, %s reserved, %s for %s tokens of keys and values\n",
		terminal.FormatBytes(prediction.Memory.Weights), terminal.FormatBytes(prediction.Memory.Activations), terminal.FormatBytes(prediction.Memory.Reserve), terminal.FormatBytes(prediction.Memory.KV), terminal.FormatCount(int64(prediction.Memory.Tokens)))
	out.WriteString(caveats(prediction.Unknown, prediction.Assumptions))
	return out.String()
}

// caveats are what a prediction does not know and what it assumes.
func caveats(unknown, assumptions []string) string {
	var out strings.Builder
	if len(unknown) > 0 {
		fmt.Fprintf(&out, "BOUND ONLY: unknown kernels %s: no calibration of this engine version on this machine; `ossian lab calibrate --rows` makes one\n", strings.Join(unknown, ", "))
	}
	for _, text := range assumptions {
		fmt.Fprintf(&out, "assumed: %s\n", text)
	}
	return out.String()
}
