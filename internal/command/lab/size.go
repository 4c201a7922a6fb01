package lab

// ossian lab size: how many machines for a rate and objectives, and what they cost.

import (
	"cmp"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"ossian/internal/bench/sweep"
	"ossian/internal/command"
	"ossian/internal/lab/forecast"
	"ossian/internal/lab/predict"
	"ossian/internal/lab/predict/machine"
	"ossian/internal/lab/size"
)

// sizeFlags are those of the command.
type sizeFlags struct {
	targetFlags
	loadFlags
	machines []string
	rate     float64
	sla      string
	price    string
}

func sizeCommand() *cobra.Command {
	flags := sizeFlags{loadFlags: loadFlags{rateIsTheirOwn: true}}
	cmd := &cobra.Command{
		Use:   "size MODEL --machine NAME[,NAME…] --rate N --sla OBJECTIVES",
		Short: "Say how many machines keep a rate of requests within objectives, and what they cost",
		Long: `Predict, for each machine and number of devices that fit the model, the highest rate that one
replica keeps without missing an objective, and print how many replicas the wanted rate takes, how
loaded they are, and what a million tokens and an hour cost: cheapest first, with intervals.

Objectives are latencies of a benchmark's report with a bound above 0, as
'p99_ttft_ms<=500,mean_tpot_ms<=40'. A rate is bounded from below, as output_throughput>=2000; it is
of all replicas together, so that --rate and the lengths of the answers decide it, and not the number
of machines. Where nothing keeps the objectives, the nearest miss is named and by how much.

The exit status is 0 with an offer, 1 without one, 2 for usage.`,
		Example: "  ossian lab size openai/gpt-oss-20b --machine H200,A100-80G --rate 20 --workload sharegpt --sla 'p99_ttft_ms<=500,mean_tpot_ms<=40' --price 'H200=3.5,A100-80G=1.8'",
		Args:    usage(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			err := runSize(cmd, args[0], &flags)
			if errors.Is(err, errNoneFits) || cmd.Context().Err() != nil {
				return err
			}
			return command.WithStatus(statusUsage, err)
		},
	}
	flags.targetFlags.add(cmd)
	flags.loadFlags.add(cmd)
	cmd.Flags().StringSliceVar(&flags.machines, "machine", nil, "`NAME,NAME…` of shipped machines, or cpu")
	cmd.Flags().Float64Var(&flags.rate, "rate", 0, "requests per second of all replicas together")
	cmd.Flags().StringVar(&flags.sla, "sla", "", "`OBJECTIVES`: LATENCY<=NUMBER, RATE>=NUMBER (of all replicas together), separated by commas")
	cmd.Flags().StringVar(&flags.price, "price", "", "`NAME=PRICE,…` of one device for an hour, in any currency")
	return cmd
}

// errNoneFits is a load that no machine keeps.
var errNoneFits = errors.New("lab size: none fits")

// runSize answers and writes the answer.
func runSize(cmd *cobra.Command, name string, flags *sizeFlags) error {
	question, done, err := flags.question(cmd, name)
	if err != nil {
		return err
	}
	defer done()
	answer, err := size.Plan(cmd.Context(), question)
	if err != nil {
		return err
	}
	if flags.asJSON {
		err = writeJSON(cmd.OutOrStdout(), map[string]any{"model": name, "rate": flags.rate, "sla": flags.sla, "offers": answer.Offers, "refused": answer.Refused, "nearest": answer.Nearest()})
	} else {
		err = writeText(cmd.OutOrStdout(), answerText(fmt.Sprintf("%s at %v requests/s within %s", name, flags.rate, cmp.Or(flags.sla, "no objective: throughput alone bounds what a replica keeps")), answer))
	}
	if err == nil && len(answer.Offers) == 0 {
		err = command.WithStatus(1, errNoneFits)
	}
	return err
}

// question puts together what the flags ask.
func (f *sizeFlags) question(cmd *cobra.Command, name string) (out size.Question, done func(), err error) {
	if len(f.machines) == 0 || !cmd.Flags().Changed("rate") {
		return out, nil, errors.New("lab size: --machine NAME[,NAME…] and --rate N expected")
	}
	if cmd.Flags().Changed("sla") {
		if strings.TrimSpace(f.sla) == "" {
			return out, nil, errors.New("--sla '': it names no objective; METRIC<=NUMBER expected, as 'p99_ttft_ms<=500,mean_tpot_ms<=40', or leave --sla out: then throughput alone bounds what a replica keeps")
		}
		if out.SLA, err = sweep.ParseSLA(f.sla); err != nil {
			return out, nil, fmt.Errorf("--sla: %w", err)
		}
		if err := size.CheckObjectives(out.SLA); err != nil {
			return out, nil, fmt.Errorf("--sla: %w", err)
		}
	}
	// Prices and places come before the model: names are checked at once, headers of files are read
	// later.
	prices, err := f.prices()
	if err != nil {
		return out, nil, err
	}
	onCPU := false
	var notes []string
	for _, wanted := range f.machines {
		place, err := f.place(wanted)
		if err != nil {
			return out, nil, err
		}
		onCPU, notes = onCPU || place.machine.CPU, place.assume(notes)
		out.Machines = append(out.Machines, size.Machine{Machine: place.machine, Price: prices[place.machine.Name], Calibration: place.calibration})
	}
	if onCPU && len(f.machines) > 1 {
		return out, nil, fmt.Errorf("--machine %s: %s has its own engine and is sized alone", strings.Join(f.machines, ","), processors)
	}
	if out.Engine, err = f.profile(f.machines[0]); err != nil {
		return out, nil, err
	}
	if out.Settings, err = f.fixed(cmd); err != nil {
		return out, nil, err
	}
	model, err := describe(name, onCPU)
	if err != nil {
		return out, nil, err
	}
	load, err := f.plan()
	if err != nil {
		return out, nil, err
	}
	out.Model, out.Rate, out.Strict, out.Workers = model.model, f.rate, f.strict, runtime.GOMAXPROCS(0)
	// size asks for workloads of any length and rate; each has what the places assume among its own
	// assumptions.
	out.Load = func(requests int, rate float64) (predict.Workload, error) {
		some := load
		some.NumPrompts, some.RequestRate = requests, rate
		made, err := forecast.Workload(some, f.seed)
		made.Assumptions = append(made.Assumptions, notes...)
		return made, err
	}
	return out, model.close, nil
}

// prices reads the price of each machine, by its full name.
func (f *sizeFlags) prices() (map[string]float64, error) {
	out := map[string]float64{}
	if f.price == "" {
		return out, nil
	}
	for part := range strings.SplitSeq(f.price, ",") {
		name, text, ok := strings.Cut(strings.TrimSpace(part), "=")
		price, err := strconv.ParseFloat(text, 64)
		if !ok || err != nil || !(price > 0 && price < 1e9) {
			return nil, fmt.Errorf("--price %s: NAME=PRICE expected, as H200=3.5", part)
		}
		// Prices are for machines that are sized: one for any other is probably a slip of the name.
		full, err := fullName(name)
		if err != nil {
			return nil, fmt.Errorf("--price %s: %w", part, err)
		}
		if !slices.ContainsFunc(f.machines, func(named string) bool { other, err := fullName(named); return err == nil && other == full }) {
			return nil, fmt.Errorf("--price %s: --machine %s does not name it; add it there, or leave the price out", part, strings.Join(f.machines, ","))
		}
		out[full] = price
	}
	return out, nil
}

// fullName is a machine's name as tables print it, by any of its names.
func fullName(name string) (string, error) {
	if name == processors {
		return name, nil
	}
	found, err := machine.Lookup(name)
	return found.Name, err
}

// answerText is the table of offers, and what is none.
func answerText(head string, answer *size.Answer) string {
	var out strings.Builder
	fmt.Fprintln(&out, head)
	if len(answer.Offers) > 0 {
		fmt.Fprintf(&out, "\n%-16s %3s %9s %-16s %6s %-30s %-26s %-26s %-26s %s\n", "machine", "tp", "replicas", "[95 %]", "load", "a replica keeps, requests/s", "cost per hour", "per million tokens", "per million output", "settings")
	}
	for i := range answer.Offers {
		offer := &answer.Offers[i]
		kept := number(offer.Capacity.Value) + " " + interval(offer.Capacity, offer.Bound)
		fmt.Fprintf(&out, "%-16s %3d %9d %-16s %5.0f%% %-30s %-26s %-26s %-26s %s\n", offer.Machine, offer.TP, offer.Replicas, counts(offer), 100*offer.LoadFactor, kept,
			price(offer.PerHour, offer.Bound), price(offer.PerTotal, offer.Bound), price(offer.PerOutput, offer.Bound), settingsText(offer.Settings))
	}
	if len(answer.Offers) > 0 {
		best := &answer.Offers[0]
		fmt.Fprintf(&out, "\n%s, tp %d, at that rate: mean TTFT %s ms, P99 TTFT %s ms, mean TPOT %s ms, P99 TPOT %s ms\n", best.Machine, best.TP, number(best.Metrics["mean_ttft_ms"].Value),
			number(best.Metrics["p99_ttft_ms"].Value), number(best.Metrics["mean_tpot_ms"].Value), number(best.Metrics["p99_tpot_ms"].Value))
		// Unknown kernels take no time in a bound: machines that are needed may be more, never
		// fewer.
		for _, offer := range answer.Offers {
			if offer.Bound {
				fmt.Fprintf(&out, "BOUND ONLY: %s, tp %d: unknown kernels: fewer machines cannot do it, more may be needed\n", offer.Machine, offer.TP)
			}
		}
		out.WriteString(caveats(nil, best.Assumed))
	} else if nearest := answer.Nearest(); nearest != nil {
		fmt.Fprintf(&out, "\nnone fits; nearest: %s, tp %d: %s\n", nearest.Machine, nearest.TP, nearest.Violation)
	} else {
		fmt.Fprintf(&out, "\nnone fits\n")
	}
	for _, refusal := range answer.Refused {
		fmt.Fprintf(&out, "not offered: %s, tp %d: %s\n", refusal.Machine, refusal.TP, refusal.Reason)
	}
	return out.String()
}

// counts is the interval of the number of replicas.
func counts(offer *size.Offer) string {
	if offer.Bound {
		return "at least"
	}
	return fmt.Sprintf("[%d, %d]", offer.Fewest, offer.Most)
}

func price(estimate *predict.Estimate, bound bool) string {
	switch {
	case estimate == nil:
		return "no price"
	case bound:
		return number(estimate.Value) + " at least"
	}
	return number(estimate.Value) + " " + interval(*estimate, false)
}

// settingsText names the limits that were chosen.
func settingsText(s predict.Settings) string {
	var parts []string
	if s.MaxSeqs > 0 {
		parts = append(parts, fmt.Sprintf("max-num-seqs %d", s.MaxSeqs))
	}
	if s.MaxTokens > 0 {
		parts = append(parts, fmt.Sprintf("max-num-batched-tokens %d", s.MaxTokens))
	}
	if len(parts) == 0 {
		return "the engine's defaults"
	}
	return strings.Join(parts, ", ")
}
