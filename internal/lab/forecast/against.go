package forecast

import (
	"context"
	"fmt"
	"math"
	"strings"

	"ossian/internal/lab/predict"
	"ossian/internal/lab/predict/machine"
	"ossian/internal/lab/verify"
	"ossian/internal/plan"
)

// kvFull is which share of the KV memory counts as all of it: a block may be on its way.
const kvFull = 0.97

// An Opponent predicts one model on one machine for the verification of documents. It implements
// verify.Predictor.
type Opponent struct {
	name     string
	model    *plan.Model
	scenario predict.Scenario
}

// Against returns the Opponent of MODEL@MACHINE, or MODEL@MACHINE,ENGINE@VERSION; the engine is vLLM
// 0.11.0 where none is named.
func Against(text string) (*Opponent, error) {
	target, engine, _ := strings.Cut(text, ",")
	modelName, machineName, ok := strings.Cut(target, "@")
	if !ok || modelName == "" || machineName == "" {
		return nil, fmt.Errorf("%q: MODEL@MACHINE expected, as openai/gpt-oss-20b@A100-80G", text)
	}
	if engine == "" {
		engine = "vllm@0.11.0"
	}
	engineName, version, _ := strings.Cut(engine, "@")
	out := &Opponent{}
	var err error
	if out.model, err = predict.Model(modelName); err != nil {
		return nil, err
	}
	if out.scenario.Machine, err = machine.Lookup(machineName); err != nil {
		return nil, err
	}
	if out.scenario.Engine, err = predict.Engine(engineName, version); err != nil {
		return nil, err
	}
	out.scenario.Model, out.scenario.Strict = out.model, true
	out.name = modelName + "@" + out.scenario.Machine.Name
	return out, nil
}

// Name implements verify.Predictor.
func (o *Opponent) Name() string { return o.name }

// bitsOf are the bits of a weight in the forms that documents name, scales included.
var bitsOf = map[string]float64{"bf16": 16, "bfloat16": 16, "fp16": 16, "float16": 16, "fp8": 8, "int8": 8, "w8a8": 8, "mxfp4": 4.25, "nvfp4": 4.5, "fp4": 4.25, "int4": 4.25, "awq": 4.25, "gptq": 4.25}

// weights are the bytes of the model in a form, and whether that is the published one.
func (o *Opponent) weights(form string) (bytes float64, published bool, err error) {
	params, stored := o.model.Total()
	if form == "" {
		return float64(stored), true, nil
	}
	bits, ok := bitsOf[strings.ToLower(form)]
	if !ok {
		return 0, false, fmt.Errorf("weights %q: not a form whose size is known", form)
	}
	bytes = float64(params) * bits / 8
	// Models in 4 bits keep some parts in 16, so that the published form is a little larger.
	published = math.Abs(bytes/float64(stored)-1) < 0.25
	if published {
		bytes = float64(stored)
	}
	return bytes, published, nil
}

// Capacity implements verify.Predictor.
func (o *Opponent) Capacity(setting verify.Setting) (verify.Capacity, error) {
	bytes, _, err := o.weights(setting.Weights)
	if err != nil {
		return verify.Capacity{}, err
	}
	devices := float64(max(setting.TP, 1))
	hardware := &o.scenario.Machine
	out := verify.Capacity{WeightBytes: bytes, MemoryBytes: devices * hardware.Memory.Value}
	_, stored := o.model.Total()
	// Weights in a smaller form are read faster by as much; how much arithmetic costs is another matter,
	// so that the bound takes the fastest kind the machine has.
	limit := plan.Machine{Bandwidth: devices * hardware.Bandwidth.Value * math.Max(float64(stored)/bytes, 1), Peak: devices * hardware.Compute(4)}
	// Keys and values that all sequences share, or that are kept in fewer bits, are not counted: nor is
	// anything where lengths are only means, as short prompts may have the long answers.
	context := 1
	if setting.Load.Dataset == "random" && !strings.Contains(strings.Join(setting.Flags, " "), "kv-cache-dtype") && !strings.Contains(strings.Join(setting.Flags, " "), "kv_cache_dtype") {
		context = max(int(math.Min(setting.Load.Input-setting.Load.Prefix, maxTokens)), 1)
	}
	if batch := o.batch(&out, setting.AtOnce, context); batch > 0 {
		out.MostTokens = o.model.DecodeRate(limit, batch, context)
	}
	return out, nil
}

// maxBatch is how many sequences are computed with at most: far fewer already spend more time on
// arithmetic than on weights, so that more of them add nothing to the rate.
const maxBatch = 1 << 13

// batch is the largest batch of at most so many sequences, each with so many tokens, whose keys and
// values fit beside the weights; 0 where it is not known how many sequences there were.
func (o *Opponent) batch(capacity *verify.Capacity, atOnce, context int) int {
	windows, _ := o.model.Spec.Groups()
	each := 0.0
	for group, bytes := range o.model.KVBytes() {
		held := context
		if windows[group] > 0 {
			held = min(held, int(windows[group]))
		}
		each += float64(bytes) * float64(held)
	}
	batch := float64(min(atOnce, maxBatch))
	if each > 0 && atOnce > 0 {
		batch = math.Max(1, math.Min(batch, math.Floor((capacity.MemoryBytes-capacity.WeightBytes)/each)))
	}
	return int(batch)
}

// Predict implements verify.Predictor.
func (o *Opponent) Predict(setting verify.Setting) (verify.Prediction, error) {
	scenario := o.scenario
	if _, published, err := o.weights(setting.Weights); err != nil || !published {
		return verify.Prediction{}, fmt.Errorf("weights in %s are not those of the published model", setting.Weights)
	}
	unknown, err := Words(&scenario.Settings, setting.Flags)
	if err != nil {
		return verify.Prediction{}, err
	}
	if len(unknown) > 0 {
		return verify.Prediction{}, fmt.Errorf("flags that are not part of the predictor: %s", strings.Join(unknown, ", "))
	}
	if setting.TP > 0 {
		scenario.Settings.TP = setting.TP
	}
	if scenario.Workload, err = printed(setting.Load); err != nil {
		return verify.Prediction{}, err
	}
	for _, before := range setting.Before {
		earlier, err := printed(before)
		if err != nil {
			return verify.Prediction{}, err
		}
		scenario.Session = append(scenario.Session, earlier)
	}
	found, err := predict.Run(context.Background(), scenario)
	if err != nil {
		return verify.Prediction{}, err
	}
	estimate := func(key string) verify.Estimate {
		e := found.Metrics[key]
		return verify.Estimate{Value: e.Value, Low: e.Low, High: e.High}
	}
	return verify.Prediction{Duration: estimate("duration_s"), MeanTTFT: estimate("mean_ttft_ms"), MeanTPOT: estimate("mean_tpot_ms"),
		CacheFull: found.PeakKV >= kvFull, Preempted: found.Preemptions}, nil
}

// printed is a workload as a document has it: mean lengths and counts.
func printed(load verify.Workload) (predict.Workload, error) {
	tokens := float64(load.Count) * (load.Input + load.Output)
	if load.Count < 1 || load.Count > maxPrompts || !(load.Input >= 1 && load.Output >= 1) || tokens > maxTokens {
		return predict.Workload{}, fmt.Errorf("%d requests of %.0f and %.0f tokens: not a load that can be simulated", load.Count, load.Input, load.Output)
	}
	seed := int64(0)
	if load.Seed != nil {
		seed = int64(*load.Seed)
	}
	var out predict.Workload
	switch load.Dataset {
	case "random":
		out = predict.Random(load.Count, int(math.Round(load.Input)), int(math.Ceil(load.Output)), seed)
		out.Shorten(int(math.Round(float64(load.Count)*load.Output)), seed)
	case "sharegpt":
		out = predict.ShareGPT(load.Count, int(float64(load.Count)*load.Input), int(float64(load.Count)*load.Output), seed)
	default:
		return out, fmt.Errorf("data set %q: prompts are not known", load.Dataset)
	}
	out.Chat, out.Concurrency = true, load.Limit
	if !math.IsInf(load.Rate, 1) {
		out.Arrive(load.Rate, seed)
	}
	return out, nil
}
