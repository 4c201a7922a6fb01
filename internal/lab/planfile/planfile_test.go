package planfile

import (
	"errors"
	"strings"
	"testing"
	"time"

	"ossian/internal/lazyregexp"
)

// kinds are descriptions as the lab has them, for tests.
var kinds = map[string]Engine{
	"ossian": {Start: []string{"ossian", "serve", "{model}", "--port", "{port}", "{flags}"}, Ready: "/health"},
	"ollama": {Start: []string{"ollama", "serve"}, FlagsInEnv: true, Env: map[string]string{"OLLAMA_HOST": "{host}:{port}"}, Ready: "/"},
	"vllm":   {Start: []string{"vllm", "serve", "{model}", "--port", "{port}", "{flags}"}, Ready: "/health", Env: map[string]string{"VLLM_LOGGING_LEVEL": "ERROR"}},
}

func read(text string, set ...string) (*Plan, error) {
	return Read([]byte(text), Options{Name: "file", Set: set, Kinds: kinds})
}

func TestExample(t *testing.T) {
	plan, err := read(Example)
	if err != nil {
		t.Fatal(err)
	}
	if plan.Name != "gpt-oss-20b-a100" || plan.Budget.Time != 6*time.Hour || plan.Objective.SLA["p99_ttft_ms"] != 60000 {
		t.Errorf("read %+v", plan)
	}
	if len(plan.Engines) != 2 || plan.Engines[0].Name != "vllm" || plan.Engines[1].Start[0] != "ossian" {
		t.Errorf("engines %+v", plan.Engines)
	}
	option := plan.Options[1]
	if option.Unless == nil || !option.Unless.Holds(map[string]string{"enable-chunked-prefill": "false"}) || option.Unless.Holds(nil) {
		t.Errorf("condition of %+v", option)
	}
	if len(plan.Workloads) != 6 || plan.Workloads[5].InputLen != 32000 || plan.Workloads[5].Name != "very-long" {
		t.Errorf("workloads %+v", plan.Workloads)
	}
}

const least = "model: m\nworkloads: {w: {input_len: 8, output_len: 4, num_prompts: 10}}\n"

// TestDefaults reads the shortest plan.
func TestDefaults(t *testing.T) {
	plan, err := read(least)
	if err != nil {
		t.Fatal(err)
	}
	engine, load := plan.Engines[0], plan.Workloads[0]
	if plan.Name != "file" || engine.Name != "ossian" || engine.Dialect != "ossian" || engine.ReadyTimeout != 10*time.Minute {
		t.Errorf("plan %+v", plan)
	}
	if plan.Objective.Metric != "total_token_throughput" || !plan.Objective.Maximize || plan.Objective.On != "w" {
		t.Errorf("objective %+v", plan.Objective)
	}
	if load.Endpoint != "chat" || load.Dataset != "random" || plan.Equality != (Equality{32, 64}) || plan.Cache != CacheReset {
		t.Errorf("workload %+v of %+v", load, plan)
	}
}

func TestSet(t *testing.T) {
	plan, err := read(least+"options: [{flags: {a: [1, 2]}}]\n",
		"model=other", "budget.time=30m", "options.0.flags.a=[3]", "options.0.lossy=true", "workloads.w.num_prompts=70",
		"objective={minimize: p90_itl_ms}", "engines.ossian.env.A=b")
	if err != nil {
		t.Fatal(err)
	}
	if plan.Models[0] != "other" || plan.Budget.Time != 30*time.Minute || plan.Options[0].Flags[0].Values[0] != "3" || !plan.Options[0].Lossy {
		t.Errorf("read %+v", plan)
	}
	if plan.Objective.Metric != "p90_itl_ms" || plan.Objective.Maximize || plan.Engines[0].Env["A"] != "b" || plan.Workloads[0].NumPrompts != 70 {
		t.Errorf("read %+v", plan)
	}
	for set, want := range map[string]string{
		"model":           "NAME.NAME=VALUE",
		"model.a=b":       "a mapping or a list expected above",
		"options.4.x=1":   "a place from 0 to 0",
		"budget.time=[":   "no YAML",
		"budget.tim=30m":  "did you mean time?",
		"seed=x":          "whole number",
		"workloads.w.c=1": "unknown key",
	} {
		if _, err := read(least+"options: [{flags: {a: [1, 2]}}]\n", set); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("--set %s: %v, want %q", set, err, want)
		}
	}
}

// TestBadPlans holds one mistake each: the error names the key, the line, and what belongs there.
func TestBadPlans(t *testing.T) {
	for _, tt := range []struct {
		plan, key string
		line      int
		want      string
	}{
		{"workloads: {w: {input_len: 1, output_len: 1}}\n", "model", 0, "the model to serve"},
		{"model: m\n", "workloads", 0, "at least one workload"},
		{least + "modle: x\n", "modle", 3, "did you mean model?"},
		{least + "models: [a, b]\n", "models", 3, "not both"},
		{"models: [a, a]\nworkloads: {w: {input_len: 1, output_len: 1}}\n", "models", 1, "each model once"},
		{"model: [a]\nworkloads: {w: {input_len: 1, output_len: 1}}\n", "model", 1, "found a list of 1"},
		{"model:\nworkloads: {w: {input_len: 1, output_len: 1}}\n", "model", 1, "found nothing"},
		{least + "name: ../up\n", "name", 3, "letters, digits"},
		{least + "model: n\n", "model", 3, "before it stands in line 1"},
		{least + "seed: -1\n", "seed", 3, "whole number from 0"},
		{least + "cache: forget\n", "cache", 3, "reset, salt, carry"},
		{least + "budget: 6h\n", "budget", 3, "time and trials"},
		{least + "budget: {time: 6}\n", "budget.time", 3, "with its unit"},
		{least + "budget: {time: -6h}\n", "budget.time", 3, "with its unit"},
		{least + "budget:\n  trials: 0\n", "budget.trials", 4, "from 1"},
		{least + "machine: {price_per_hour: free}\n", "machine.price_per_hour", 3, "above 0"},
		{least + "machine: {power: wall}\n", "machine.power", 3, "auto, rapl, nvml, off"},
		{least + "objective: {maximise: output_throughput}\n", "objective.maximise", 3, "did you mean maximize?"},
		{least + "objective: {maximize: output_thruput}\n", "objective.maximize", 3, "did you mean output_throughput?"},
		{least + "objective: {maximize: mean_ttft_ms}\n", "objective", 3, "minimize expected"},
		{least + "objective: {minimize: output_throughput}\n", "objective", 3, "maximize expected"},
		{least + "objective: {maximize: output_throughput, minimize: mean_ttft_ms}\n", "objective.minimize", 3, "one of maximize"},
		{least + "objective: {on: v}\n", "objective.on", 3, "one of the workloads w"},
		{least + "objective: {sla: {p99_ttft_ms: 500}}\n", "objective", 3, "at least 662 requests"},
		{least + "objective: {sla: {p99_ttft: 500}}\n", "objective.sla.p99_ttft", 3, "a metric of a result file"},
		{least + "objective: {sla: {mean_ttft_ms: 0}}\n", "objective.sla.mean_ttft_ms", 3, "above 0"},
		{least + "objective: {per: hour}\n", "objective.per", 3, "gpu"},
		{least + "engines: [vllm]\n", "engines", 3, "a mapping of names"},
		{least + "engines: {vlm: {}}\n", "engines.vlm", 3, "did you mean vllm?"},
		{least + "engines: {vllm: {start: 'vllm serve {model} {flags}'}}\n", "engines.vllm.start", 3, "{port}"},
		{least + "engines: {x: {start: \"a 'b {port}\"}}\n", "engines.x.start", 3, "quotes"},
		{least + "engines: {x: {start: 'a {port}', url: 'http://h:1'}}\n", "engines.x", 3, "only one of"},
		{least + "engines: {x: {url: 'h:1'}}\n", "engines.x.url", 3, "an address such as"},
		{least + "engines: {x: {url: 'http://me:secretword@h:1'}}\n", "engines.x.url", 3, "key_env"},
		{least + "engines: {x: {url: 'http://h:1', key_env: 'sk-secretword'}}\n", "engines.x.key_env", 3, "not its value"},
		{least + "engines: {vllm: {key_env: A}}\n", "engines.vllm.key_env", 3, "only beside url"},
		{least + "engines: {vllm: {env: {HF_TOKEN: secretword}}}\n", "engines.vllm.env.HF_TOKEN", 3, "secret_env"},
		{least + "engines: {vllm: {ready: health}}\n", "engines.vllm.ready", 3, "begins with /"},
		{least + "engines: {x: {container: {args: ['{port}']}}}\n", "engines.x.container.image", 3, "an image"},
		{least + "engines:\n  vllm:\n    shell: maybe\n", "engines.vllm.shell", 5, "true or false"},
		{least + "options: {a: 1}\n", "options", 3, "a list of options"},
		{least + "options: [{engine: vllm, flags: {a: 1}}]\n", "options[0].engine", 3, "an engine of the plan"},
		{least + "options: [{name: a}]\n", "options[0].flags", 3, "a mapping of flags"},
		{least + "options:\n  - {flags: {a: [1, 1]}}\n", "options[0].flags.a", 4, "each value once"},
		{least + "options:\n  - {flags: {a: []}}\n", "options[0].flags.a", 4, "one value or a list"},
		{least + "options:\n  - {flags: {'a b': 1}}\n", "options[0].flags.a b", 4, "name of a flag"},
		{least + "options:\n  - {flags: {a: 1}}\n  - {flags: {a: 2}}\n", "options[1].name", 5, "taken in line 4"},
		{least + "options: [{flags: {a: 1}, unless: 'a = 1'}]\n", "options[0].unless", 3, "flags.NAME == VALUE"},
		{least + "engines: {vllm: {}, ossian: {}}\noptions: [{flags: {a: 1}}]\n", "options[0].engine", 4, "has several"},
		{least + "engines: {x: {url: 'http://h:1'}}\noptions: [{flags: {a: 1}}]\n", "options[0]", 4, "runs already"},
		{least + "engines: {x: {start: 'a {port}'}}\noptions: [{flags: {a: 1}}]\n", "options[0]", 4, "{flags}"},
		{least + "options:\n  - name: p\n    flags:\n      a: 1\n      port: [1]\n", "options[0].flags.port", 7, "no flag for the port expected: the lab chooses a free one"},
		{least + "engines: {x: {start: 'a --port {port} --host {host} {flags}'}}\noptions: [{flags: {--host: [0.0.0.0]}}]\n", "options[0].flags.--host", 4, "take host out"},
		{least + "engines: {vllm: {flags: {model: n}}}\n", "engines.vllm.flags.model", 3, "model or models"},
		{least + "engines: {x: {start: 'a --listen-at=:{port} {flags}'}}\noptions: [{flags: {listen_at: [':1']}}]\n", "options[0].flags.listen_at", 4, "in the command of engine x"},
		{least + "engines: {x: {start: 'a -m {model} -p {port} {flags}', shell: true}}\noptions: [{flags: {m: [b]}}]\n", "options[0].flags.m", 4, "model or models"},
		{least + "engines: {ollama: {}}\noptions: [{flags: {OLLAMA_HOST: ['0.0.0.0']}}]\n", "options[0].flags.OLLAMA_HOST", 4, "no flag for the port"},
		{"model: m\nworkloads: {w: {dataset: sharegpt}}\n", "workloads.w.path", 2, "the file"},
		{"model: m\nworkloads: {w: {path: x, input_len: 1, output_len: 1}}\n", "workloads.w.path", 2, "no file"},
		{"model: m\nworkloads: {w: {input_len: 1}}\n", "workloads.w.output_len", 2, "tokens of an answer"},
		{"model: m\nworkloads: {w: {dataset: rondom, input_len: 1, output_len: 1}}\n", "workloads.w.dataset", 2, "did you mean random?"},
		{"model: m\nworkloads: {w: {input_len: 1.5, output_len: 1}}\n", "workloads.w.input_len", 2, "whole number"},
		{"model: m\nworkloads: {w: {input_len: 1, output_len: 1, request_rate: 0}}\n", "workloads.w.request_rate", 2, "above 0"},
		{"model: m\nworkloads: {w: {input_len: 1, output_len: 1, range_ratio: 1}}\n", "workloads.w.range_ratio", 2, "below 1"},
		{least + "generalise: [tiny]\n", "generalise", 3, "long, medium, short, very-long"},
		{least + "generalise: [w, w]\n", "generalise", 3, "each workload once"},
		{least + "equality: {prompts: many}\n", "equality.prompts", 3, "whole number"},
		{"- a\n", "the plan", 1, "a mapping of names"},
	} {
		_, err := read(tt.plan)
		var bad *Error
		switch {
		case !errors.As(err, &bad):
			t.Errorf("%s\ngives %v", tt.plan, err)
		case bad.Key != tt.key || bad.Line != tt.line || !strings.Contains(bad.Error(), tt.want):
			t.Errorf("%s\ngives %q, key %q, line %d; want %q, %q, %d", tt.plan, bad, bad.Key, bad.Line, tt.want, tt.key, tt.line)
		case strings.Contains(err.Error(), "secretword"):
			t.Errorf("%s\ngives %q", tt.plan, err)
		}
	}
}

// TestAllMistakes reports several at once.
func TestAllMistakes(t *testing.T) {
	_, err := read("modle: m\nseed: x\nworkloads: {w: {input_len: 1}}\n")
	if err == nil || strings.Count(err.Error(), "\n") != 2 { // that the model is missing is the misspelt key
		t.Errorf("got %v", err)
	}
}

// TestHostile reads files that would take much of something.
func TestHostile(t *testing.T) {
	bomb := "a: &a [x,x,x,x,x,x,x,x,x,x]\n"
	for i := range 9 {
		name, before := string(rune('b'+i)), string(rune('a'+i))
		bomb += name + ": &" + name + " [" + strings.Repeat("*"+before+",", 10) + "]\n"
	}
	for _, text := range []string{"", "a: b\n---\nc: d\n", bomb, strings.Repeat("[", 3000), strings.Repeat(" ", maxFile+1), "{", "a: *b\n", "\xff\xfe"} {
		if _, err := read(text); err == nil {
			t.Errorf("%.40q… was read", text)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add(Example)
	f.Add(least)
	f.Fuzz(func(t *testing.T, text string) {
		plan, err := read(text)
		if err == nil && (len(plan.Models) == 0 || len(plan.Engines) == 0 || len(plan.Workloads) == 0) {
			t.Errorf("incomplete: %+v", plan)
		}
	})
}

// One mistake is one error, in words that hold: what was meant, and nothing about what the misspelt key would
// have defined.
func TestOneMistake(t *testing.T) {
	for text, want := range map[string]string{
		"model: m\nworkload: {w: {input_len: 8, output_len: 8}}\nobjective: {maximize: output_throughput, on: w}\ngeneralise: [w]": "line 2: workload: unknown key; did you mean workloads?",
		"model: m\nengine: {vllm: {}}\noptions: [{engine: vllm, flags: {a: [1]}}]\nworkloads: {w: {input_len: 8, output_len: 8}}":  "line 2: engine: unknown key; did you mean engines?",
		"modl: m\nworkloads: {w: {input_len: 8, output_len: 8}}":                                                                   "line 1: modl: unknown key; did you mean model?",
		"model: m\nworkloads: {w: {input_len: 8, output_len: 8, rate: 5}}":                                                         "workloads.w.rate: unknown key; did you mean request_rate?",
		"model: m\nworkloads: {w: {input_len: 8, output_len: 8, concurrency: 5}}":                                                  "did you mean max_concurrency?",
		"model: m\nworkloads: {w: {input: 8, output_len: 8}}":                                                                      "did you mean input_len?",
		"model: m\nworkloads: {w: {input_len: 8, output_len: 8, request_rate: }}":                                                  "workloads.w.request_rate: a number above 0 expected, in requests per second, or inf, found nothing",
	} {
		_, err := Read([]byte(text), Options{Kinds: kinds})
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s\n%v, want %s alone", text, err, want)
		}
	}
	for _, set := range []string{"..=5", "a..b=5", ".a=1", "a.=1", "=1"} {
		_, err := Read([]byte("model: m\n"), Options{Kinds: kinds, Set: []string{set}})
		if err == nil || !strings.Contains(err.Error(), "--set "+set+": NAME.NAME=VALUE expected") {
			t.Errorf("--set %s: %v", set, err)
		}
	}
}

// TestExpressions: an expression that is none would end the program at its first use.
func TestExpressions(t *testing.T) {
	if err := lazyregexp.Check(); err != nil {
		t.Error(err)
	}
}
