package load

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"ossian/internal/ckpt"
	"ossian/internal/lab/predict"
	"ossian/internal/lab/predict/machine"
	"ossian/internal/model"
	"ossian/internal/plan"
	"ossian/internal/runner"
	"ossian/internal/sim"
)

// A simulated device plays a machine that need not be there: steps take as long as the predictor says
// (lab.md 5), and the tokens are noise of the checkpoint's vocabulary. What lies above the runner, from
// scheduling to HTTP, is the real thing. It reads no weight.
type simulated struct {
	text     string // as it was asked for
	machine  machine.Machine
	shape    *plan.Model // whose steps are played; nil = the checkpoint's
	profile  predict.Profile
	settings predict.Settings
	factor   float64 // times as long as predicted
}

// simulatedPrefix begins the name of such a device: sim:MACHINE[,KEY=VALUE...].
const simulatedPrefix = "sim:"

// simulatedForm says how one is named.
const simulatedForm = "sim:MACHINE[,model=NAME][,tp=N][,engine=NAME@VERSION][,async=true|false][,time=FACTOR] expected"

// parseSimulated reads the name of a simulated device.
func parseSimulated(text string) (*simulated, error) {
	name, rest, _ := strings.Cut(strings.TrimPrefix(text, simulatedPrefix), ",")
	out := &simulated{text: text, factor: 1}
	var err error
	if out.machine, err = machine.Lookup(name); err != nil {
		return nil, fmt.Errorf("--device %s: %w", text, err)
	}
	engine := "ossian"
	for option := range strings.SplitSeq(rest, ",") {
		key, value, _ := strings.Cut(option, "=")
		// Keys set err in the switch, so that one place says which option was wrong.
		switch key {
		case "":
		case "model":
			out.shape, err = predict.Model(value)
		case "tp":
			out.settings.TP, err = strconv.Atoi(value)
			if err == nil && (out.settings.TP < 1 || out.settings.TP > 1024) {
				err = errors.New("a number of devices expected")
			}
		case "engine":
			engine = value
		case "async":
			var async bool
			async, err = strconv.ParseBool(value)
			out.settings.Async = &async
		case "time":
			out.factor, err = strconv.ParseFloat(value, 64)
			if err == nil && !(out.factor >= 0 && out.factor <= 1e6) {
				err = errors.New("a number from 0 to 1e6 expected")
			}
		default:
			err = errors.New("unknown key; " + simulatedForm)
		}
		if err != nil {
			return nil, fmt.Errorf("--device %s: %s: %w", text, option, err)
		}
	}
	engineName, version, _ := strings.Cut(engine, "@")
	if out.profile, err = predict.Engine(engineName, version); err != nil {
		return nil, fmt.Errorf("--device %s: %w", text, err)
	}
	return out, nil
}

// Play gives a checkpoint the shape of the model whose steps a simulated device plays, if there is one:
// context, groups of layers and name. Tokenizer and template stay the checkpoint's. It is called before
// anything else is done with the checkpoint.
func (o *Options) Play(checkpoint *ckpt.Model) error {
	if !strings.HasPrefix(o.Device, simulatedPrefix) {
		return nil
	}
	played, err := parseSimulated(o.Device)
	if err != nil || played.shape == nil {
		return err
	}
	spec := *played.shape.Spec
	spec.Vocab = checkpoint.Spec.Vocab
	checkpoint.Spec = &spec
	return nil
}

// scenario is what the clock is made for.
func (s *simulated) scenario(checkpoint *ckpt.Model, lim model.Limits) (predict.Scenario, error) {
	shape := s.shape
	if shape == nil {
		var err error
		if shape, err = plan.New(checkpoint.Spec, checkpoint.Params); err != nil {
			return predict.Scenario{}, err
		}
	}
	settings := s.settings
	settings.MaxSeqs, settings.MaxTokens, settings.MaxLen = lim.MaxSeqs, lim.MaxTokens, lim.MaxLen
	return predict.Scenario{Model: shape, Machine: s.machine, Engine: s.profile, Settings: settings}, nil
}

// open returns a runner that plays the machine, and a line on what it plays.
func (s *simulated) open(checkpoint *ckpt.Model, lim model.Limits) (runner.Runner, string, error) {
	scenario, err := s.scenario(checkpoint, lim)
	if err != nil {
		return nil, "", err
	}
	memory, err := predict.Fits(scenario)
	if err != nil {
		return nil, "", fmt.Errorf("--device %s: %w", s.text, err)
	}
	clock, unknown, err := predict.NewClock(scenario)
	if err != nil {
		return nil, "", fmt.Errorf("--device %s: %w", s.text, err)
	}
	info := runner.Info{
		Name: "sim/" + s.machine.Name, Vocab: checkpoint.Spec.Vocab, BlockSize: scenario.Engine.BlockSize, Groups: memory.Groups,
		MaxSeqs: lim.MaxSeqs, MaxTokens: lim.MaxTokens, MaxLen: lim.MaxLen, Depth: 1, Lookahead: lim.Lookahead,
	}
	if s.settings.Async != nil && *s.settings.Async {
		info.Depth = 2
	}
	// The clock predicts what a step takes on the machine; time=FACTOR stretches or shortens it.
	script, err := sim.NewScript(sim.Config{
		Info: info, Next: (&noise{checkpoint: checkpoint}).next,
		Cost: func(batch *runner.Batch) time.Duration {
			return time.Duration(s.factor * float64(clock.StepTime(batch.Rows)))
		},
	})
	line := fmt.Sprintf("%s plays %s: tokens are noise, no weight is read", s.text, scenario.Model.Spec.Name)
	if len(unknown) > 0 {
		line += "; no calibration of " + s.profile.Name + " on it, so that steps take the least that the machine allows"
	} else if note := clock.Note(); note != "" {
		line += "; " + note
	}
	return script, line, err
}

// noise are tokens without meaning: which ones, and how many, depends on the prompt alone.
type noise struct {
	checkpoint *ckpt.Model
	plain      []int32 // ids of text; made with the first step, when the tokenizer is there
}

// usualLength is the median length of an answer, in tokens.
const usualLength = 180

// next gives the id that follows: text, and at the answer's length the first id that ends one.
func (n *noise) next(history []int32, step uint64) int32 {
	if n.plain == nil {
		for id := range int32(n.checkpoint.Tokenizer.Vocab()) {
			if !n.checkpoint.Tokenizer.IsControl(id) && !slices.Contains(n.checkpoint.Stops, id) {
				n.plain = append(n.plain, id)
			}
		}
	}
	prompt := history[:len(history)-int(step)]
	hash := uint64(len(prompt))
	for _, id := range prompt[max(0, len(prompt)-64):] {
		hash = mix(hash ^ uint64(id))
	}
	if len(n.checkpoint.Stops) > 0 && step >= lengthOf(hash) {
		return n.checkpoint.Stops[0]
	}
	return n.plain[mix(hash+step)%uint64(len(n.plain))]
}

// lengthOf draws the length of an answer: a lognormal distribution, as published data sets of chats have
// it, between one and sixteen times its median at most.
func lengthOf(hash uint64) uint64 {
	// A normal value from the mean of twelve uniform ones.
	sum := 0.0
	for range 12 {
		hash = mix(hash)
		sum += float64(hash>>11) / (1 << 53)
	}
	return uint64(math.Round(usualLength * math.Exp(min(sum-6, math.Log(16)))))
}

// mix is one step of a hash; that of splitmix64 (Steele, Lea and Flood, 2014).
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// nothing is the cost of a device that holds no weights and no keys and values.
func nothing(spec *model.Spec) plan.Cost {
	return func(model.Limits) (plan.Footprint, error) {
		return plan.Footprint{Runtime: plan.RuntimeBytes(spec)}, nil
	}
}

// openSimulated is open behind the interface of devices.
func (d *Device) openSimulated(ctx context.Context, checkpoint *ckpt.Model, lim model.Limits) (runner.Runner, Choice, error) {
	script, line, err := d.simulated.open(checkpoint, lim)
	return script, Choice{line: line}, errors.Join(err, ctx.Err())
}
