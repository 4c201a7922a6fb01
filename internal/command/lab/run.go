package lab

// ossian lab run: a campaign from its plan, measured or simulated.

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"ossian/internal/command"
	"ossian/internal/lab"
	"ossian/internal/lab/engines"
	"ossian/internal/lab/forecast"
	"ossian/internal/lab/ledger"
	"ossian/internal/lab/measure"
	"ossian/internal/lab/planfile"
	"ossian/internal/lab/report"
	"ossian/internal/lab/simulate"
	"ossian/internal/self"
	"ossian/internal/terminal"
)

// campaignFlags are those that run and quick share.
type campaignFlags struct {
	out        string
	asJSON     bool
	yes        bool
	offline    bool
	set        []string
	ready      time.Duration
	candidates int
	machine    string
}

func (f *campaignFlags) add(c *cobra.Command) {
	flags := c.Flags()
	flags.StringVar(&f.out, "out", "", "`DIR` for the ledger, results and the report (default lab/NAME)")
	flags.BoolVar(&f.asJSON, "json", false, "write what was decided as JSON; progress goes to standard error")
	flags.BoolVar(&f.yes, "yes", false, "go on in a directory that was begun with another plan")
	flags.BoolVar(&f.offline, "offline", true, "nothing but the plan's servers is contacted, and what is started is told not to download")
	flags.StringArrayVar(&f.set, "set", nil, "`A.B=VALUE` in place of what the plan says; may be given again")
	flags.DurationVar(&f.ready, "ready-timeout", 0, "how long a server may take to answer (default what the plan says, else 10m)")
	flags.StringVar(&f.machine, "machine", "", "`NAME` of the machine that predictions are for (default the cards that are here)")
	flags.IntVar(&f.candidates, "max-candidates", lab.DefaultMaxCandidates, "combinations of options that a plan may span")
}

func runCommand() *cobra.Command {
	var flags campaignFlags
	var simulated string
	var example bool
	cmd := &cobra.Command{
		Use:   "run PLAN.yaml",
		Short: "Find out by measuring which engine, options and combinations serve a model best",
		Long: `Carry out the campaign of a plan: engines at their defaults, options alone, options together,
the other workloads. Every trial and decision is a line of DIR/ledger.jsonl. The same command
in the same directory goes on where a campaign was cut; nothing is measured twice.

--simulate measures nothing: a clock with noise stands in for servers, to show what a plan
would cost and decide. --simulate=noise.yaml says what is true there.

The exit status is 0 where something was decided, 1 where nothing could be, 2 where the plan
is wrong and nothing was started, 130 after an interrupt.`,
		Example: "  ossian lab run --example > plan.yaml\n  ossian lab run plan.yaml --set budget.time=30m\n  ossian lab run plan.yaml --simulate",
		Args:    usage(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if example {
				_, err := io.WriteString(cmd.OutOrStdout(), planfile.Example)
				return err
			}
			if len(args) == 0 {
				return command.WithStatus(statusUsage, errors.New("lab run: which plan? ossian lab run PLAN.yaml; --example prints one"))
			}
			return runPlan(cmd, args[0], &flags, simulated)
		},
	}
	flags.add(cmd)
	cmd.Flags().StringVar(&simulated, "simulate", "", "simulate servers instead of starting them; `NOISE.yaml` says what is true of them")
	cmd.Flags().Lookup("simulate").NoOptDefVal = "-"
	cmd.Flags().BoolVar(&example, "example", false, "print a commented plan")
	return cmd
}

// runPlan reads a plan and carries it out.
func runPlan(cmd *cobra.Command, name string, flags *campaignFlags, simulated string) error {
	text, err := os.ReadFile(name)
	if err != nil {
		return command.WithStatus(statusUsage, err)
	}
	plan, text, err := readPlan(text, strings.TrimSuffix(filepath.Base(name), filepath.Ext(name)), flags)
	if err != nil {
		return command.WithStatus(statusUsage, fmt.Errorf("%s: %w", name, err))
	}
	config, done, err := configure(plan, text, flags, simulated)
	if wrong, is := errors.AsType[compareError](err); is {
		err = fmt.Errorf("%s: %w", name, &planfile.Error{Key: "compare", Line: plan.CompareLine, Expected: wrong.Error()})
	}
	if err != nil {
		return command.WithStatus(statusUsage, err)
	}
	defer done()
	return carryOut(cmd, config, flags, 0)
}

// readPlan reads a plan, and returns with it the text to keep: the plan with what the command line
// replaced and every default filled in.
func readPlan(text []byte, name string, flags *campaignFlags) (*planfile.Plan, []byte, error) {
	switch {
	case flags.ready < 0:
		return nil, nil, fmt.Errorf("--ready-timeout %v: a time above 0 expected, such as 90s or 10m", flags.ready)
	case flags.candidates < 0:
		return nil, nil, fmt.Errorf("--max-candidates %d: a number above 0 expected", flags.candidates)
	}
	kinds := engines.Kinds()
	if program, err := self.Path(); err == nil { // this program, and not whichever is found by name
		own := kinds[engines.Ossian]
		own.Start[0], own.Version[0] = program, program
		kinds[engines.Ossian] = own
	}
	plan, err := planfile.Read(text, planfile.Options{Name: name, Set: flags.set, Kinds: kinds})
	if err != nil {
		return nil, nil, err
	}
	for i := range plan.Engines {
		if flags.ready > 0 {
			plan.Engines[i].ReadyTimeout = flags.ready
		}
	}
	kept, err := plan.Marshal(kinds)
	return plan, kept, err
}

// configure says what measures, and where results go. done gives back what was opened.
func configure(plan *planfile.Plan, text []byte, flags *campaignFlags, simulated string) (config lab.Config, done func(), err error) {
	config = lab.Config{Plan: plan, PlanText: text, Dir: flags.out, Changed: flags.yes, Limit: flags.candidates, Version: command.Version(), Now: time.Now}
	if config.Dir == "" {
		config.Dir = filepath.Join("lab", plan.Name)
		if simulated != "" {
			config.Dir += "-simulated"
		}
	}
	if err := command.OutputFolder("--out", config.Dir); err != nil {
		return config, nil, err
	}
	if config.Compared, err = compared(plan.Compare); err != nil {
		return config, nil, err
	}
	if flags.machine != "" {
		config.Flags = []string{"--machine", flags.machine}
	}
	if simulated != "" {
		again := "--simulate"
		if simulated != "-" {
			again += "=" + simulated
		}
		config.Flags = append([]string{again}, config.Flags...)
		world := simulate.Default()
		if simulated != "-" {
			noise, err := os.ReadFile(simulated)
			if err == nil {
				world, err = simulate.Read(noise)
			}
			if err == nil {
				err = world.Suits(plan)
			}
			if err != nil {
				return config, nil, fmt.Errorf("%s: %w", simulated, err)
			}
		}
		measurer := &simulate.Measurer{World: world}
		config.Measurer, config.Simulated, config.Now = measurer, true, measurer.Now
		return config, func() {}, nil
	}
	if flags.offline { // what most tools of this field obey; the plan's own variables count over it
		if err := os.Setenv("HF_HUB_OFFLINE", "1"); err != nil {
			return config, nil, err
		}
	}
	measurer := measure.New(measure.Config{Dir: config.Dir, Version: config.Version, Power: plan.Machine.Power, Price: plan.Machine.PricePerHour})
	config.Measurer = measurer
	return config, measurer.Close, nil
}

// foresee gives a campaign its predictor, if the machine is one that predictions know: the one that is
// named, else the cards that are here. Engines are predicted by the version that they say.
func foresee(ctx context.Context, config *lab.Config, name string) error {
	named := name != ""
	if !named {
		machine, err := config.Measurer.Machine(ctx)
		if err != nil || len(machine.Accelerators) == 0 {
			return err
		}
		name = machine.Accelerators[0].Name
	}
	if simulated, is := config.Measurer.(*simulate.Measurer); is {
		simulated.Place = name
		assume(config, simulated)
	}
	versions := map[string]string{}
	for _, engine := range config.Plan.Engines {
		identity, err := config.Measurer.Identify(ctx, lab.Request{Engine: engine, Setting: ledger.Setting{Engine: engine.Name}, Model: config.Plan.Models[0]})
		if err != nil {
			return err
		}
		versions[engine.Kind] = identity.Version
	}
	forecaster, err := forecast.New(name, versions, config.Plan.Seed)
	if err != nil {
		if named {
			return fmt.Errorf("--machine: %w", err)
		}
		return nil // nothing is known of these cards, and nothing is dropped
	}
	config.Predictor = forecaster
	if simulated, is := config.Measurer.(*simulate.Measurer); is {
		simulated.Predictor = forecaster
	}
	return nil
}

// assume gives engines of a simulation whose version nobody says the one that predictions are for, as lab
// predict does, and says so.
func assume(config *lab.Config, simulated *simulate.Measurer) {
	for _, engine := range config.Plan.Engines {
		version := usualVersion(engine.Kind)
		if version == "" || !simulated.Assume(engine.Name, version) {
			continue
		}
		config.Say(fmt.Sprintf("assumed: engine %s is %s %s; engines: {%s: {version: …}} of --simulate=NOISE.yaml says another", engine.Name, engine.Kind, version, engine.Name))
	}
}

// presumed says which engines of a simulation are not predicted, so that nothing but what is planted tells
// their settings apart; empty: all are, or nothing is simulated. A plan whose verdicts are about times is
// refused on a machine that is named: times beside predicted ones would be made up.
func presumed(config *lab.Config, machine string) (string, error) {
	if !config.Simulated {
		return "", nil
	}
	if config.Predictor == nil {
		return "simulated without predictions: settings differ by nothing but the effects that are planted; --machine NAME predicts them\n", nil
	}
	var names []string
	for _, engine := range config.Plan.Engines {
		at := slices.IndexFunc(config.Plan.Workloads, func(load planfile.Workload) bool { return load.Name == config.Plan.Objective.On })
		found := config.Predictor.Predict(engine, ledger.Setting{Engine: engine.Name}, config.Plan.Models[0], config.Plan.Workloads[at])
		if len(found.Metrics) == 0 && found.Misfit == "" {
			names = append(names, engine.Name)
		}
	}
	if len(names) == 0 {
		return "", nil
	}
	known := "; predicted are published models on vllm of a version from 0.8 on and on ossian, with prompts that are made or like ShareGPT's"
	goal := config.Plan.Objective
	for _, metric := range append(slices.Sorted(maps.Keys(goal.SLA)), goal.Metric) {
		if planfile.IsTime(metric) {
			return "", fmt.Errorf("--simulate --machine %s: %s of %s is not predicted there, and no verdict about it can be%s; without --machine nothing is but what --simulate=NOISE.yaml plants", machine, metric, strings.Join(names, ", "), known)
		}
	}
	return fmt.Sprintf("not predicted on %s: %s, whose settings differ by nothing but the effects that are planted%s\n", machine, strings.Join(names, ", "), known), nil
}

// carryOut runs a campaign, of which a trial takes about each, tells about it, and says by the exit status how it ended.
func carryOut(cmd *cobra.Command, config lab.Config, flags *campaignFlags, each time.Duration) error {
	progress := cmd.OutOrStdout()
	if flags.asJSON {
		progress = cmd.ErrOrStderr()
	}
	say := func(text string) { fmt.Fprintln(progress, strings.Map(terminal.Printable, text)) }
	config.Say = say
	if err := lab.CheckCandidates(config.Plan, config.Limit); err != nil {
		return command.WithStatus(statusUsage, err)
	}
	say(lab.Estimate(config.Plan, each))
	if err := foresee(cmd.Context(), &config, flags.machine); err != nil {
		return command.WithStatus(statusUsage, err)
	}
	text, err := presumed(&config, flags.machine)
	if err != nil {
		return command.WithStatus(statusUsage, err)
	}
	if text != "" {
		say(text)
	}
	result, err := lab.Run(cmd.Context(), config)
	if result == nil && startError(err) != err { // refused: what lies there is another run's
		return startError(err)
	}
	path, reported := report.Write(config.Dir) // of what there is, whatever ended it
	if cmd.Context().Err() != nil {
		say(fmt.Sprintf("interrupted after %d trials: the same command goes on", trialsOf(result)))
		return err
	}
	if err != nil {
		return startError(err)
	}
	lines, err := ledger.Read(config.Dir)
	if err = errors.Join(err, reported); err != nil {
		return err
	}
	if flags.asJSON {
		err = writeOutcome(cmd.OutOrStdout(), config.Dir, path, result, lines)
	} else {
		err = writeConclusion(progress, path, result, lines)
	}
	if err == nil && result.End.Exit != 0 {
		err = command.WithStatus(result.End.Exit, fmt.Errorf("lab: nothing could be decided; %s", config.Dir))
	}
	return err
}

func trialsOf(result *lab.Result) int {
	if result == nil {
		return 0
	}
	return result.Trials
}

// startError gives the status of a campaign that could not begin to errors that say so.
func startError(err error) error {
	if _, ok := errors.AsType[*lab.UsageError](err); ok {
		return command.WithStatus(statusUsage, err)
	}
	if _, ok := errors.AsType[*lab.ChangedError](err); ok {
		return command.WithStatus(statusUsage, err)
	}
	if _, ok := errors.AsType[*ledger.BrokenError](err); ok {
		return command.WithStatus(statusUsage, err)
	}
	return err
}

// outcome is a campaign's end as JSON.
type outcome struct {
	Dir       string            `json:"dir"`
	Report    string            `json:"report"`
	Trials    int               `json:"trials"`
	End       ledger.End        `json:"end"`
	Decisions []ledger.Decision `json:"decisions"`
}

func writeOutcome(out io.Writer, dir, report string, result *lab.Result, lines []ledger.Line) error {
	encoder := json.NewEncoder(out)
	encoder.SetIndent("", "  ")
	return encoder.Encode(outcome{Dir: dir, Report: report, Trials: result.Trials, End: result.End, Decisions: standing(lines)})
}

// standing are the decisions that stand: of those that were made again the last one.
func standing(lines []ledger.Line) []ledger.Decision {
	place := map[string]int{}
	var out []ledger.Decision
	for _, line := range lines {
		if line.Kind != ledger.KindDecision {
			continue
		}
		id, _, _ := strings.Cut(line.ID, ".")
		if line.Decision.Stage == ledger.StageWinner { // its subject is what wins: another one takes its place
			id = ledger.StageWinner + "\x00" + line.Decision.Model
		}
		if at, known := place[id]; known {
			out[at] = *line.Decision
			continue
		}
		place[id] = len(out)
		out = append(out, *line.Decision)
	}
	return inOrder(out)
}

// stages are those of a campaign in the order of their turn.
var stages = []string{ledger.StageEngine, ledger.StageFit, ledger.StageScreen, ledger.StageSmoke, ledger.StageRace, ledger.StageDrift, ledger.StageInteraction, ledger.StageGeneralise, ledger.StageWinner}

// inOrder sorts decisions by model and stage: a campaign that goes on decides again what it had decided, and
// new ones behind that. What a setting does to bounds stands beside the last decision on the setting.
func inOrder(decisions []ledger.Decision) []ledger.Decision {
	var models []string
	about := map[string]int{} // stage of a subject
	for _, decision := range decisions {
		if !slices.Contains(models, decision.Model) {
			models = append(models, decision.Model)
		}
		if decision.Stage == ledger.StageRace || decision.Stage == ledger.StageInteraction {
			about[decision.Model+"\x00"+decision.Subject] = slices.Index(stages, decision.Stage)
		}
	}
	rank := func(decision ledger.Decision) int {
		if decision.Stage != ledger.StageService {
			return slices.Index(stages, decision.Stage)
		}
		if stage, known := about[decision.Model+"\x00"+decision.Subject]; known {
			return stage
		}
		return slices.Index(stages, ledger.StageRace) // the baseline's
	}
	slices.SortStableFunc(decisions, func(a, b ledger.Decision) int {
		return cmp.Or(cmp.Compare(slices.Index(models, a.Model), slices.Index(models, b.Model)), cmp.Compare(rank(a), rank(b)))
	})
	return decisions
}

// widestSubject is how many letters of a subject the table of decisions has room for; where two would look
// alike, they take more.
const widestSubject = 34

// decisionTable is a line for each decision. Gains are above 0 where they are for the better, and the
// heading says of what.
func decisionTable(decisions []ledger.Decision) string {
	rows := [][]string{{"stage", "subject", "verdict", "gain", "reason"}}
	var subjects []string
	for _, decision := range decisions {
		subjects = append(subjects, decision.Subject)
		if decision.Metric != "" {
			rows[0][3] = strings.ToLower(report.GainOf(decision.Metric, decision.Metric))
		}
	}
	subjects = report.Shorten(subjects, widestSubject)
	for i, decision := range decisions {
		effect := "-"
		// The baseline's drift is no gain of anybody: its reason has it.
		if gain := report.Gained(&decision); gain != nil && decision.Stage != ledger.StageDrift {
			effect = fmt.Sprintf("%+.1f %% [%+.1f, %+.1f]", 100*gain.Value, 100*gain.Low, 100*gain.High)
		}
		rows = append(rows, []string{decision.Stage, subjects[i], decision.Verdict, effect, decision.Reason})
	}
	widths := make([]int, len(rows[0])-1) // of all columns but the last
	for _, row := range rows {
		for column := range widths {
			widths[column] = max(widths[column], len([]rune(row[column])))
		}
	}
	var out strings.Builder
	out.WriteString("\n")
	for _, row := range rows {
		for column, width := range widths {
			fmt.Fprintf(&out, "%-*s ", width, row[column])
		}
		out.WriteString(terminal.Clip(row[len(widths)], widestReason) + "\n")
	}
	return out.String() + "\n"
}

// widestReason is how many letters of a reason are shown; the report has all of it.
const widestReason = 90

// writeConclusion writes the table of what was decided and where everything lies.
func writeConclusion(out io.Writer, path string, result *lab.Result, lines []ledger.Line) error {
	var text strings.Builder
	text.WriteString(decisionTable(standing(lines)))
	if result.Noisy {
		fmt.Fprintln(&text, "The machine was busy during some trials, which their marks say: intervals are wider than they need be.")
	}
	for _, decision := range standing(lines) {
		if decision.Stage == ledger.StageWinner {
			fmt.Fprintf(&text, "winner for %s: %s (%s)\n", decision.Model, decision.Subject, decision.Reason)
		}
	}
	fmt.Fprintf(&text, "%d trials; report: %s\n", result.Trials, path)
	_, err := io.WriteString(out, strings.Map(terminal.Printable, text.String()))
	return err
}
