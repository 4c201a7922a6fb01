package planfile

import (
	"bytes"
	"cmp"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"time"

	"go.yaml.in/yaml/v4"
)

// The written forms of a plan's parts: the keys that Read knows, in the order of the example.
type (
	writtenPlan struct {
		Name       string           `yaml:"name"`
		Models     []string         `yaml:"models,flow"`
		Objective  writtenObjective `yaml:"objective,flow"`
		Budget     map[string]any   `yaml:"budget,flow,omitempty"`
		Machine    map[string]any   `yaml:"machine,flow"`
		Engines    yaml.Node        `yaml:"engines"`
		Options    []writtenOption  `yaml:"options,omitempty"`
		Workloads  yaml.Node        `yaml:"workloads"`
		Generalise []string         `yaml:"generalise,flow,omitempty"`
		Equality   map[string]int   `yaml:"equality,flow"`
		Cache      string           `yaml:"cache"`
		Seed       uint64           `yaml:"seed"`
		Compare    []string         `yaml:"compare,omitempty"`
	}
	writtenObjective struct {
		Maximize string             `yaml:"maximize,omitempty"`
		Minimize string             `yaml:"minimize,omitempty"`
		On       string             `yaml:"on"`
		Per      string             `yaml:"per,omitempty"`
		SLA      map[string]float64 `yaml:"sla,flow,omitempty"`
	}
	writtenEngine struct {
		Kind         string            `yaml:"kind"`
		Start        any               `yaml:"start,flow,omitempty"`
		Shell        bool              `yaml:"shell,omitempty"`
		Container    *writtenContainer `yaml:"container,omitempty"`
		URL          string            `yaml:"url,omitempty"`
		KeyEnv       string            `yaml:"key_env,omitempty"`
		Version      []string          `yaml:"version,flow,omitempty"`
		Ready        string            `yaml:"ready"`
		ReadyTimeout string            `yaml:"ready_timeout"`
		Dialect      string            `yaml:"dialect"`
		Env          map[string]string `yaml:"env,flow,omitempty"`
		SecretEnv    []string          `yaml:"secret_env,flow,omitempty"`
		Flags        map[string]string `yaml:"flags,flow,omitempty"`
		Devices      int               `yaml:"devices,omitempty"`
	}
	writtenContainer struct {
		Image   string   `yaml:"image"`
		Args    []string `yaml:"args,flow,omitempty"`
		Options []string `yaml:"options,flow,omitempty"`
		Runtime string   `yaml:"runtime"`
	}
	writtenOption struct {
		Engine string    `yaml:"engine"`
		Name   string    `yaml:"name"`
		Flags  yaml.Node `yaml:"flags"`
		Unless string    `yaml:"unless,omitempty"`
		Lossy  bool      `yaml:"lossy,omitempty"`
		Opaque bool      `yaml:"opaque,omitempty"`
	}
	writtenWorkload struct {
		Dataset        string         `yaml:"dataset"`
		Path           string         `yaml:"path,omitempty"`
		InputLen       int            `yaml:"input_len,omitempty"`
		OutputLen      int            `yaml:"output_len,omitempty"`
		NumPrompts     int            `yaml:"num_prompts"`
		RangeRatio     float64        `yaml:"range_ratio,omitempty"`
		RequestRate    float64        `yaml:"request_rate,omitempty"`
		MaxConcurrency int            `yaml:"max_concurrency,omitempty"`
		Seed           *uint64        `yaml:"seed,omitempty"`
		Endpoint       string         `yaml:"endpoint"`
		IgnoreEOS      *bool          `yaml:"ignore_eos,omitempty"`
		Extra          map[string]any `yaml:"extra_body,flow,omitempty"`
	}
)

// Marshal writes a plan as a file that Read reads back, with every default filled in. kinds are those that
// it was read with: a command that is a built-in one is left out, so that the file holds no path of this
// machine that its author did not write.
func (p *Plan) Marshal(kinds map[string]Engine) ([]byte, error) {
	out := writtenPlan{
		Name: p.Name, Models: p.Models, Budget: map[string]any{}, Machine: map[string]any{"power": p.Machine.Power},
		Generalise: p.Generalise, Equality: map[string]int{"prompts": p.Equality.Prompts, "tokens": max(p.Equality.Tokens, 1)},
		Cache: p.Cache, Seed: p.Seed, Compare: p.Compare,
		Objective: writtenObjective{On: p.Objective.On, Per: p.Objective.Per, SLA: p.Objective.SLA},
	}
	*cmp.Or(map[bool]*string{true: &out.Objective.Maximize}[p.Objective.Maximize], &out.Objective.Minimize) = p.Objective.Metric
	if p.Budget.Time > 0 {
		out.Budget["time"] = p.Budget.Time.String()
	}
	if p.Budget.Trials > 0 {
		out.Budget["trials"] = p.Budget.Trials
	}
	if p.Machine.PricePerHour > 0 {
		out.Machine["price_per_hour"] = p.Machine.PricePerHour
	}
	// Engines and workloads keep the plan's order, which maps have not.
	out.Engines, out.Workloads = yaml.Node{Kind: yaml.MappingNode}, yaml.Node{Kind: yaml.MappingNode}
	for i := range p.Engines {
		if err := put(&out.Engines, p.Engines[i].Name, writtenEngineOf(&p.Engines[i], kinds)); err != nil {
			return nil, err
		}
	}
	for i := range p.Workloads {
		if err := put(&out.Workloads, p.Workloads[i].Name, writtenWorkloadOf(&p.Workloads[i])); err != nil {
			return nil, err
		}
	}
	for i := range p.Options {
		option, err := writtenOptionOf(&p.Options[i])
		if err != nil {
			return nil, err
		}
		out.Options = append(out.Options, option)
	}
	var text bytes.Buffer
	encoder := yaml.NewEncoder(&text)
	encoder.SetIndent(2)
	if err := encoder.Encode(out); err != nil {
		return nil, err
	}
	return text.Bytes(), encoder.Close()
}

// put adds a name with its value to a mapping.
func put(mapping *yaml.Node, name string, value any) error {
	var node yaml.Node
	if err := node.Encode(value); err != nil {
		return err
	}
	mapping.Content = append(mapping.Content, textNode(name), &node)
	return nil
}

// textNode is a scalar that is read back as the same text.
func textNode(text string) *yaml.Node {
	node := &yaml.Node{}
	node.SetString(text)
	return node
}

func writtenEngineOf(e *Engine, kinds map[string]Engine) writtenEngine {
	out := writtenEngine{
		Kind: e.Kind, Shell: e.Shell, URL: e.URL, KeyEnv: e.KeyEnv, Version: e.Version, Ready: e.Ready, Dialect: e.Dialect,
		ReadyTimeout: e.ReadyTimeout.Round(time.Millisecond).String(), Env: e.Env, SecretEnv: e.SecretEnv, Flags: e.Flags, Devices: e.Devices,
	}
	known := kinds[e.Kind]
	switch {
	case e.Shell && len(e.Start) > 0:
		out.Start = e.Start[0]
	case len(e.Start) > 0 && !slices.Equal(e.Start, known.Start):
		out.Start = e.Start
	}
	if slices.Equal(e.Version, known.Version) {
		out.Version = nil
	}
	if maps.Equal(e.Env, known.Env) {
		out.Env = nil
	}
	if box := e.Container; box != nil {
		out.Container = &writtenContainer{Image: box.Image, Args: box.Args, Options: box.Options, Runtime: box.Runtime}
	}
	return out
}

func writtenWorkloadOf(w *Workload) writtenWorkload {
	return writtenWorkload{
		Dataset: w.Dataset, Path: w.Path, InputLen: w.InputLen, OutputLen: w.OutputLen, NumPrompts: w.NumPrompts, RangeRatio: w.RangeRatio,
		RequestRate: w.RequestRate, MaxConcurrency: w.MaxConcurrency, Seed: w.Seed, Endpoint: w.Endpoint, IgnoreEOS: w.IgnoreEOS, Extra: w.Extra,
	}
}

func writtenOptionOf(o *Option) (writtenOption, error) {
	out := writtenOption{Engine: o.Engine, Name: o.Name, Lossy: o.Lossy, Opaque: o.Opaque, Flags: yaml.Node{Kind: yaml.MappingNode, Style: yaml.FlowStyle}}
	for _, flag := range o.Flags {
		if err := put(&out.Flags, flag.Name, flag.Values); err != nil {
			return out, err
		}
	}
	if o.Unless != nil {
		operator := map[bool]string{true: "==", false: "!="}[o.Unless.Equal]
		out.Unless = "flags." + o.Unless.Flag + " " + operator + " " + strconv.Quote(o.Unless.Value)
	}
	return out, nil
}

// Equal reports whether two plans are the same but for the lines that they were read from.
func (p *Plan) Equal(other *Plan) bool {
	plain := func(p Plan) Plan {
		p.CompareLine = 0
		p.Engines, p.Options, p.Workloads = slices.Clone(p.Engines), slices.Clone(p.Options), slices.Clone(p.Workloads)
		for i := range p.Engines {
			p.Engines[i].Line = 0
		}
		for i := range p.Options {
			p.Options[i].Line = 0
		}
		for i := range p.Workloads {
			p.Workloads[i].Line = 0
		}
		return p
	}
	return reflect.DeepEqual(plain(*p), plain(*other))
}
