package check

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"ossian/internal/lab/check/exposition"
	"ossian/internal/lab/engines"
	"ossian/internal/lab/predict"
	"ossian/internal/lab/predict/machine"
	"ossian/internal/lazyregexp"
	"ossian/internal/plan"
)

// recorded serves the answers of a folder of testdata. Anything but GET, or a route that check does
// not have to ask, is an error (acceptance C4).
func recorded(t *testing.T, folder string) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet || !slices.Contains(routes, r.URL.Path) || r.ContentLength > 0 {
			t.Errorf("%s %s with %d bytes: want GET of %v and nothing else", r.Method, r.URL, r.ContentLength, routes)
		}
		name := filepath.Join("testdata", folder, strings.ReplaceAll(strings.Trim(r.URL.Path, "/"), "/", "-"))
		for _, form := range []string{".json", ".txt"} {
			if text, err := os.ReadFile(name + form); err == nil {
				_, _ = w.Write(text)
				return
			}
		}
		http.NotFound(w, r)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// look at a folder of testdata, its log included.
func report(t *testing.T, folder string, options Options) *Report {
	t.Helper()
	options.URL, options.SMI = recorded(t, folder), "-"
	if log := filepath.Join("testdata", folder, "start.log"); options.Log == "" {
		if _, err := os.Stat(log); err == nil {
			options.Log = log
		}
	}
	got, err := Run(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// states are the rows of a report by name.
func states(r *Report) map[string]State {
	out := map[string]State{}
	for _, row := range r.Rows {
		out[row.Name] = row.State
	}
	return out
}

// C2: what engines answered and logged. Every row that is told is named here; host rows depend on the
// machine.
func TestRecordings(t *testing.T) {
	for _, c := range []struct {
		folder, engine, version, model string
		want                           map[string]State
	}{
		{"vllm", engines.VLLM, "0.11.0", "made-up/gpt-oss-20b", map[string]State{
			"tensor parallel": Off, "data parallel": Off, "quantised weights": On, "weight kernel": On, "attention backend": On, "CUDA graphs": Off, "compilation": Off,
			"prefix cache": On, "chunked prefill": On, "batch budget": On, "sequence limit": Off, "asynchronous scheduling": Off,
			"keys and values in 8 bits (lossy)": Off, "room for what runs": On, "speculation": Off, "top-p and top-k in one kernel": Off,
			"several tokens to a chunk": Unknown, "several front-end processes": Unknown}},
		{"sglang", engines.SGLang, "0.5.3", "made-up/Qwen3-8B", map[string]State{
			"tensor parallel": On, "data parallel": Off, "quantised weights": Off, "weight kernel": Unknown, "attention backend": On, "CUDA graphs": On, "compilation": Off,
			"prefix cache": Off, "chunked prefill": On, "batch budget": On, "prompts and replies in one step": Off, "sequence limit": On, "overlapped scheduling": Off,
			"keys and values in 8 bits (lossy)": Off, "room for what runs": On, "speculation": Off, "sampling backend": On,
			"several tokens to a chunk": Off, "several tokenizer processes": Off}},
		{"llama.cpp", engines.LlamaCpp, "b6700-1a2b3c4d", "/models/made-up-Q8_0.gguf", map[string]State{
			"layers split over devices": Unknown, "layers on the accelerator": Off, "threads": Off, "quantised weights": On, "vector instructions": On, "flash attention": Off,
			"graphs": Unknown, "prefix cache": Unknown, "batch budget": On, "tokens of one computation": On, "continuous batching": Unknown, "sequence limit": Off,
			areaAsync: Unknown, "keys and values in 8 bits (lossy)": Off, "room for what runs": Unknown, "speculation": Off, areaSampling: Unknown, areaStream: Unknown, areaFront: Unknown}},
		{"tensorrt-llm", engines.TensorRTLLM, "1.0.0", "made-up-8B", map[string]State{
			"tensor parallel": Unknown, "quantised weights": Unknown, "attention backend": Unknown, "CUDA graphs": Unknown, "prefix cache": On, "chunked prefill": Unknown,
			"batch budget": On, "sequence limit": Off, "overlapped scheduling": Unknown, "keys and values in 8 bits (lossy)": Unknown, "room for what runs": Off,
			"speculation": Unknown, "several tokens to a chunk": Unknown, areaSampling: Unknown, areaFront: Unknown}},
		{"ollama", engines.Ollama, "", "made-up:8b", map[string]State{
			"weights on the accelerator": Off, "quantised weights": On, "flash attention": Off, "sequence limit": Off, "keys and values in 8 bits (lossy)": Off,
			areaGraphs: Unknown, areaPrefix: Unknown, areaBatch: Unknown, areaAsync: Unknown, areaSpeculation: Unknown, areaSampling: Unknown, areaStream: Unknown, areaFront: Unknown}},
		{"lmdeploy", LMDeploy, "", "made-up-7b", map[string]State{
			"tensor parallel": Off, "quantised weights": On, "engine": On, "CUDA graphs": Unknown, "prefix cache": Off, "batch budget": On, "sequence limit": On,
			areaAsync: Unknown, "keys and values in 8 bits (lossy)": Off, "room for what runs": On, areaSpeculation: Unknown, areaSampling: Unknown, areaStream: Unknown, areaFront: Unknown}},
	} {
		t.Run(c.folder, func(t *testing.T) {
			got := report(t, c.folder, Options{})
			if got.Engine != c.engine || got.Version != c.version || got.Model != c.model {
				t.Errorf("engine %q version %q model %q, want %q %q %q", got.Engine, got.Version, got.Model, c.engine, c.version, c.model)
			}
			seen := states(got)
			for name, want := range c.want {
				if seen[name] != want {
					t.Errorf("%s: %q, want %q", name, seen[name], want)
				}
				delete(seen, name)
			}
			for _, row := range got.Rows {
				if row.Area == areaHost {
					delete(seen, row.Name)
				}
				if len(row.Evidence) == 0 {
					t.Errorf("%s has no evidence", row.Name)
				}
				if row.State == Off && row.Change != nil && row.Command == "" && row.Do == "" {
					t.Errorf("%s is off and has no command", row.Name)
				}
			}
			for name, state := range seen {
				t.Errorf("%s: %q, and the test does not name it", name, state)
			}
			if text := got.Text(); strings.Contains(text, "not to be seen") {
				t.Error("a key is in the report")
			}
		})
	}
}

// What is worth saying of a row is in its evidence, with its place.
func TestEvidence(t *testing.T) {
	got := report(t, "vllm", Options{})
	for name, want := range map[string]string{
		"CUDA graphs":                   "line 10: Enforce eager set, disabling torch.compile and CUDAGraphs",
		"weight kernel":                 "line 9: Using Marlin backend",
		"attention backend":             "line 8: Using Triton backend on V1 engine",
		"prefix cache":                  "computed: hits / queries: 12.5 % of the prompt tokens looked up were found",
		"sequence limit":                "metric vllm:num_requests_waiting: 37",
		"batch budget":                  "metric vllm:iteration_tokens_total: the largest step had at most 2048 tokens",
		"room for what runs":            "computed: num_gpu_blocks × block_size: 640000 tokens",
		"top-p and top-k in one kernel": "Falling back to the PyTorch-native implementation of top-p & top-k",
	} {
		found := false
		for _, row := range got.Rows {
			for _, one := range row.Evidence {
				found = found || (row.Name == name && strings.Contains(one.Source+": "+one.Text, want))
			}
		}
		if !found {
			t.Errorf("%s: no evidence %q in\n%s", name, want, got.Text())
		}
	}
}

// Arguments count where the running server says nothing, and commands are theirs with one change.
func TestStart(t *testing.T) {
	start := "VLLM_ATTENTION_BACKEND=FLASHINFER /opt/bin/vllm serve --enforce-eager made-up/gpt-oss-20b -tp 2 --kv-cache-dtype=fp8 --api-key 'not to be seen' --stream-interval 4 --max-num-seqs 64 --no-enable-chunked-prefill"
	got := report(t, "vllm", Options{Start: start, Log: os.DevNull})
	seen := states(got)
	for name, want := range map[string]State{"tensor parallel": On, "several tokens to a chunk": On, "CUDA graphs": Off, "sequence limit": Off, "chunked prefill": Off,
		"several front-end processes": Off, "data parallel": Off, "attention backend": Unknown} {
		if seen[name] != want {
			t.Errorf("%s: %q, want %q", name, seen[name], want)
		}
	}
	commands := map[string]string{}
	for _, row := range got.Missing {
		commands[row.Name] = row.Command
	}
	common := "VLLM_ATTENTION_BACKEND=FLASHINFER /opt/bin/vllm serve "
	for name, want := range map[string]string{
		"CUDA graphs":     common + "made-up/gpt-oss-20b -tp 2 --kv-cache-dtype=fp8 --api-key '…' --stream-interval 4 --max-num-seqs 64 --no-enable-chunked-prefill",
		"chunked prefill": common + "--enforce-eager made-up/gpt-oss-20b -tp 2 --kv-cache-dtype=fp8 --api-key '…' --stream-interval 4 --max-num-seqs 64",
		"sequence limit":  common + "--enforce-eager made-up/gpt-oss-20b -tp 2 --kv-cache-dtype=fp8 --api-key '…' --stream-interval 4 --no-enable-chunked-prefill --max-num-seqs 101",
	} {
		if commands[name] != want {
			t.Errorf("%s:\n got %s\nwant %s", name, commands[name], want)
		}
	}
	if text := got.Text(); strings.Contains(text, "not to be seen") {
		t.Error("a key is in the report")
	}
}

// The arguments of a process are read from /proc, and the machine below it.
func TestProcess(t *testing.T) {
	root := t.TempDir()
	for name, text := range map[string]string{
		"proc/77/cmdline": "llama-server\x00-m\x00/models/made-up-Q8_0.gguf\x00-np\x002\x00-fa\x00off\x00-md\x00/models/draft.gguf\x00--api-key\x00not to be seen\x00",
		"proc/77/environ": "HOME=/root\x00SECRET=not to be seen\x00CUDA_VISIBLE_DEVICES=1\x00",
		"proc/77/status":  "Name:\tllama-server\nCpus_allowed_list:\t0-3\nVmSwap:\t   12 kB\n",
		"proc/loadavg":    "3.50 2.00 1.00 1/100 1234\n",
		"proc/stat":       "cpu  100 0 100 700 0 0 0 100 0 0\n",
		"sys/devices/system/cpu/cpu0/cpufreq/scaling_governor":        "powersave\n",
		"sys/devices/system/cpu/cpu1/cpufreq/scaling_governor":        "performance\n",
		"sys/devices/system/cpu/cpu0/cpufreq/scaling_max_freq":        "3000000\n",
		"sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq":        "4500000\n",
		"sys/devices/system/cpu/smt/active":                           "1\n",
		"sys/devices/system/node/online":                              "0-1\n",
		"sys/kernel/mm/transparent_hugepage/enabled":                  "always madvise [never]\n",
		"sys/devices/system/edac/mc/mc0/ue_count":                     "0\n",
		"sys/class/powercap/intel-rapl:0/constraint_0_power_limit_uw": "100000000\n",
		"sys/class/powercap/intel-rapl:0/constraint_0_max_power_uw":   "250000000\n",
	} {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got := report(t, "llama.cpp", Options{PID: 77, Root: root, Log: os.DevNull})
	seen := states(got)
	for name, want := range map[string]State{"flash attention": Off, "speculation": On, "CPU governor performance": Off, "CPU clocks unbounded": Off, "huge pages": Off,
		"CPU power cap at its maximum": Off, "server in memory": Off, "memory near its processors (NUMA)": Unknown} {
		if seen[name] != want {
			t.Errorf("%s: %q, want %q", name, seen[name], want)
		}
	}
	text := got.Text()
	for _, want := range []string{"0-3", "3.50 2.00 1.00", "10 % since", "100 W of 250 W", "two hardware threads", "cpupower frequency-set -g performance"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if strings.Contains(text, "not to be seen") {
		t.Error("a secret is in the report")
	}
}

// What nvidia-smi prints is read, and what it has not is left out. The program is a script that prints
// a recording with made-up numbers.
func TestCards(t *testing.T) {
	smi := filepath.Join(t.TempDir(), "nvidia-smi")
	recording := `<?xml version="1.0" ?><nvidia_smi_log><driver_version>560.1</driver_version>
<gpu id="0"><product_name>Made-up A</product_name><persistence_mode>Disabled</persistence_mode><ecc_mode><current_ecc>Enabled</current_ecc></ecc_mode>
<fb_memory_usage><total>81559 MiB</total></fb_memory_usage><gpu_power_readings><current_power_limit>300.00 W</current_power_limit><default_power_limit>400.00 W</default_power_limit><max_power_limit>400.00 W</max_power_limit></gpu_power_readings>
<clocks><sm_clock>1110 MHz</sm_clock></clocks><max_clocks><sm_clock>1410 MHz</sm_clock></max_clocks>
<clocks_event_reasons><clocks_event_reason_gpu_idle>Not Active</clocks_event_reason_gpu_idle><clocks_event_reason_sw_power_cap>Active</clocks_event_reason_sw_power_cap></clocks_event_reasons>
<pci><pci_gpu_link_info><pcie_gen><max_link_gen>4</max_link_gen><current_link_gen>4</current_link_gen></pcie_gen><link_widths><max_link_width>16x</max_link_width><current_link_width>8x</current_link_width></link_widths></pci_gpu_link_info></pci></gpu>
<gpu id="1"><product_name>Made-up A</product_name></gpu></nvidia_smi_log>`
	script := "#!/bin/sh\nif [ \"$1\" = topo ]; then printf '\\tGPU0\\tGPU1\\nGPU0\\t X \\tNV12\\n'; else cat <<'END'\n" + recording + "\nEND\nfi\n"
	if err := os.WriteFile(smi, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	on := &seen{}
	facts := on.graphics(&Options{SMI: smi})
	if len(facts) > 0 && strings.Contains(facts[0].Value, "failed") {
		t.Skip("no shell: ", facts[0].Value)
	}
	got := map[string]Fact{}
	for _, fact := range facts {
		got[fact.Name] = fact
	}
	for name, want := range map[string]struct {
		state State
		value string
	}{"card 0 power limit": {Off, "300.00 W"}, "card 0 PCIe width": {Off, "8x of 16x"}, "card 0 persistence mode": {Off, "Disabled"}, "card 0 ECC": {"", "Enabled"},
		"card 0 clock held back": {"", "sw power cap"}, "cards joined by NVLink": {On, "NV12"}, "card 1 model": {"", "Made-up A"}} {
		if fact := got[name]; fact.State != want.state || !strings.Contains(fact.Value, want.value) {
			t.Errorf("%s: %+v, want %s %q", name, fact, want.state, want.value)
		}
	}
	if name := Card(smi); on.cards != 2 || name != "Made-up A" {
		t.Errorf("%d cards, the first %q", on.cards, name)
	}
	if fix := got["card 0 power limit"].Fix; fix != "nvidia-smi -i 0 -pl 400" {
		t.Errorf("fix %q", fix)
	}
}

// The verdict is that of lab.md 6.
func TestVerdict(t *testing.T) {
	for _, c := range []struct {
		bytes, bandwidth, rate float64
		devices                int
		card                   bool
		want                   string
	}{
		{5e9, 1.79e12, 200, 2, true, "decode reads 5.00 GB per token: 358 tok/s is the bound of one card at 1.79 TB/s; 200 tok/s is 56 % of it, 28 % of two"},
		{4.72e6, 15.6e9, 0, 1, false, "decode reads 4.72 MB per token: 3305 tok/s is the bound of this machine at 15.6 GB/s; the rate was not measured"},
		{140e9, 2.04e12, 12, 1, true, "decode reads 140 GB per token: 15 tok/s is the bound of one card at 2.04 TB/s; 12 tok/s is 82 % of it"},
	} {
		if got := Verdict(c.bytes, &Hardware{Bandwidth: c.bandwidth, Devices: c.devices, Card: c.card}, c.rate); got != c.want {
			t.Errorf("got  %s\nwant %s", got, c.want)
		}
	}
}

// One sequence decodes at 1000 / TPOT; of eight, those at their prompts do not decode.
func TestDecoding(t *testing.T) {
	order := []string{"output_throughput", "mean_tpot_ms"}
	for _, c := range []struct {
		concurrency      int
		throughput, tpot []float64
		sequences        int
		rate             float64
	}{
		{1, []float64{150}, []float64{5}, 1, 200},
		{8, []float64{2000}, []float64{2.36}, 5, 2000},
		{8, []float64{2000}, nil, 8, 0},
		{8, nil, []float64{2}, 8, 0},
	} {
		made := NewMeasurement("made up", c.concurrency, 1, 1, 1, order, map[string][]float64{order[0]: c.throughput, order[1]: c.tpot})
		if sequences, rate := made.decoding(); sequences != c.sequences || rate.Value != c.rate {
			t.Errorf("%+v: %d sequences, %+v", c, sequences, rate)
		}
	}
}

var numbers = regexp.MustCompile(`\d+(?:\.\d+)?`)

// C3: every number of the text is in the JSON of the same report, and every figure has an origin.
func TestNumbers(t *testing.T) {
	stored := filepath.Join(t.TempDir(), "run.json")
	if err := os.WriteFile(stored, []byte(`{"model_id":"other/gpt-oss-20b","completed":10,"total_input_tokens":1280,"total_output_tokens":640,"max_concurrency":8,"output_throughput":1500.25,"mean_tpot_ms":5.5}`), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, folder := range []string{"vllm", "sglang", "llama.cpp", "tensorrt-llm", "ollama", "lmdeploy"} {
		options := Options{Compare: []string{stored},
			Bytes: func(*Server) (Reads, error) {
				return Reads{Origin: "given", Step: func(n, _ int) float64 { return float64(n) * 5e9 }}, nil
			},
			Hardware:  func(*Server) Hardware { return Hardware{Bandwidth: 1.79e12, Card: true, Origin: "given"} },
			Measure:   fixedMeasurement,
			Predictor: fixed(map[string]Effect{"max-num-seqs": {Origin: Predicted, Percent: 12.345, Low: 8.1, High: 16.2, Metric: "output_throughput"}}),
		}
		got := report(t, folder, options)
		text, err := got.JSON()
		if err != nil {
			t.Fatal(err)
		}
		told := map[float64]bool{}
		for _, word := range numbers.FindAllString(string(text), -1) {
			value, _ := strconv.ParseFloat(word, 64)
			told[value] = true
		}
		for _, word := range numbers.FindAllString(got.Text(), -1) {
			// A sign of percent in "95 % interval" is the form of the report, as is its name.
			if value, _ := strconv.ParseFloat(word, 64); !told[value] && word != "95" {
				t.Errorf("%s: %s is in the text and not in the JSON", folder, word)
			}
		}
		for _, one := range slices.Concat(got.Now.Counters, got.Roofline.Figures) {
			if one.Origin == "" {
				t.Errorf("%s: %s has no origin", folder, one.Name)
			}
		}
		for _, word := range []string{"★", "excellent", "great", "impressive", "optimized"} {
			if strings.Contains(strings.ToLower(got.Text()), word) {
				t.Errorf("%s: %q in the report", folder, word)
			}
		}
	}
}

// fixed is a Predictor whose gains are known; those of others cannot be predicted.
type fixed map[string]Effect

func (f fixed) Gain(_ context.Context, _ *Server, changes []*Change, _ *Measurement) (Effect, error) {
	for flag, effect := range f {
		if len(changes) == 1 {
			if _, sets := changes[0].Set[flag]; sets || slices.Contains(changes[0].Remove, flag) {
				if len(changes[0].Set)+len(changes[0].Remove) > 1 {
					effect.Percent, effect.Low, effect.High = 30, 20, 40 // together
				}
				return effect, nil
			}
		}
	}
	return Effect{}, fmt.Errorf("no prediction")
}

func fixedMeasurement(_ context.Context, _ *Server) (Load, error) {
	difference, ok := NewDifference(PrefixCache, "mean_ttft_ms", "made-up prompts sent again", []float64{30, 31, 32}, []float64{100, 101, 99})
	if !ok {
		return Load{}, errors.New("no difference")
	}
	return Load{Differences: []Difference{difference}, Measured: []Measurement{NewMeasurement("made up 128/64, 8 at once", 8, 10, 128, 64, []string{"output_throughput", "mean_tpot_ms"},
		map[string][]float64{"output_throughput": {1600, 1610, 1620}, "mean_tpot_ms": {5, 5.1, 5.2}})}}, nil
}

// Prompts that were sent before show a prefix cache that nothing else tells of.
func TestDifference(t *testing.T) {
	for folder, want := range map[string]State{"vllm": On, "sglang": Off, "llama.cpp": On} {
		for _, row := range report(t, folder, Options{Measure: fixedMeasurement}).Rows {
			if row.Area != areaPrefix {
				continue
			}
			last := row.Evidence[len(row.Evidence)-1]
			if row.State != want || last.Source != Measured || (want == On) != (row.Effect.Origin == Measured && row.Effect.Percent < -60) {
				t.Errorf("%s: %+v, want %s", folder, row, want)
			}
		}
	}
	if _, ok := NewDifference(PrefixCache, "mean_ttft_ms", "", []float64{1, 2}, []float64{3, 4}); ok {
		t.Error("two pairs gave an interval")
	}
}

// Steps are what is worth more than 1 % for certain, the best first, and one prediction of all.
func TestSteps(t *testing.T) {
	got := report(t, "vllm", Options{Predictor: fixed{
		"max-num-seqs":           {Origin: Predicted, Percent: 12, Low: 8, High: 16, Metric: "output_throughput"},
		"max-num-batched-tokens": {Origin: Predicted, Percent: 3, Low: 0.9, High: 5, Metric: "output_throughput"},
		"async-scheduling":       {Origin: Predicted, Percent: 20, Low: 15, High: 25, Metric: "output_throughput"},
	}})
	var names []string
	for _, step := range got.Steps {
		names = append(names, step.Name)
		if step.Command == "" {
			t.Errorf("%s has no command", step.Name)
		}
	}
	if want := []string{"asynchronous scheduling: asynchronous scheduling", "sequences at once: sequence limit", "all of them together"}; !slices.Equal(names, want) {
		t.Errorf("steps %q, want %q", names, want)
	}
	if last := got.Steps[len(got.Steps)-1]; last.Effect.Percent != 30 || !strings.Contains(last.Command, "--async-scheduling") || !strings.Contains(last.Command, "--max-num-seqs 101") {
		t.Errorf("joint step %+v", last)
	}
	// Where no argument vector is known, what the log calls not default is kept.
	if want := "vllm serve made-up/gpt-oss-20b --max-model-len 32768 --enforce-eager --max-num-seqs 64 --async-scheduling"; got.Steps[0].Command != want {
		t.Errorf("command %q, want %q", got.Steps[0].Command, want)
	}
	// Without a prediction nothing can be named, and that is said.
	if got := report(t, "vllm", Options{}); len(got.Steps) != 0 || !strings.Contains(got.StepNote, "none can be named") {
		t.Errorf("steps %v, %q", got.Steps, got.StepNote)
	}
}

// Stored results of the same model are shown; those of the same workload are compared.
func TestStored(t *testing.T) {
	folder := t.TempDir()
	same, other := filepath.Join(folder, "same.json"), filepath.Join(folder, "other.json")
	for name, text := range map[string]string{
		same: `{"model_id":"/models/gpt-oss-20b","completed":10,"total_input_tokens":1280,"total_output_tokens":640,"max_concurrency":8,"output_throughput":3220,"mean_tpot_ms":5.1}
{"model_id":"/models/gpt-oss-20b","completed":10,"total_input_tokens":9000,"total_output_tokens":640,"max_concurrency":8,"output_throughput":100}`,
		other: `{"model_id":"made-up/gpt-oss-120b","completed":10,"output_throughput":1}`,
	} {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got := report(t, "vllm", Options{Compare: []string{same, other}, Measure: fixedMeasurement})
	if len(got.Stored) != 2 || got.Stored[0].Source != same+"#1" || len(got.Stored[0].Against) != 2 || got.Stored[0].Against[0].Value != 50 || got.Stored[1].Against != nil || got.Stored[1].Note == "" {
		t.Errorf("stored %+v", got.Stored)
	}
	if _, err := Run(t.Context(), Options{URL: got.URL, Compare: []string{filepath.Join(folder, "none.json")}}); err == nil {
		t.Error("a file that is not there is no error")
	}
}

// Bad input says what, where, and what to change.
func TestErrors(t *testing.T) {
	silent := httptest.NewServer(http.NotFoundHandler())
	defer silent.Close()
	locked := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusUnauthorized) }))
	defer locked.Close()
	real := recorded(t, "vllm")
	for _, c := range []struct {
		options Options
		want    string
	}{
		{Options{URL: "ftp://host"}, "http://HOST:PORT"},
		{Options{URL: "http://host:1/?a=b"}, "http://HOST:PORT"},
		{Options{Ports: []int{1}}, "no model server answers at 127.0.0.1, ports 1"},
		{Options{URL: silent.URL}, "none of /health"},
		{Options{URL: locked.URL}, "OPENAI_API_KEY"},
		{Options{Ports: []int{portOf(locked.URL)}}, "ossian check http://127.0.0.1:"},
		{Options{URL: real, Start: "vllm serve 'a"}, "--start"},
		{Options{URL: real, Start: " "}, "the command is empty"},
		{Options{URL: real, PID: 7, Start: "vllm"}, "one of them"},
		{Options{URL: real, PID: 1 << 30}, "--pid 1073741824"},
		{Options{URL: real, Log: t.TempDir()}, "is a directory"},
		{Options{URL: real, Log: "no such file"}, "no such file"},
	} {
		if _, err := Run(t.Context(), c.options); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: error %v, want %q", c.options, err, c.want)
		}
	}
}

func portOf(url string) int {
	port, _ := strconv.Atoi(url[strings.LastIndexByte(url, ':')+1:])
	return port
}

// A server elsewhere is not followed, and a key goes to a server that was named only.
func TestElsewhere(t *testing.T) {
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("asked a server that nobody named") }))
	defer other.Close()
	keys := 0
	moved := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "" {
			keys++
		}
		if r.URL.Path == "/v1/models" {
			fmt.Fprint(w, `{"data":[{"id":"made-up","owned_by":"somebody"}]}`)
			return
		}
		http.Redirect(w, r, other.URL, http.StatusFound)
	}))
	defer moved.Close()
	options := Options{SMI: "-"}
	options.Access.Key = "secret"
	options.Ports = []int{portOf(moved.URL)}
	got, err := Run(t.Context(), options)
	if err != nil || got.Engine != Nameless || keys != 0 {
		t.Errorf("engine %v, %d keys, %v", got, keys, err)
	}
	options.URL = moved.URL
	if _, err := Run(t.Context(), options); err != nil || keys != len(routes) {
		t.Errorf("%d keys, %v", keys, err)
	}
}

// Answers, arguments and logs of anybody do not make the report fail, and stay bounded.
func FuzzAnswers(f *testing.F) {
	for _, folder := range []string{"vllm", "sglang", "llama.cpp", "tensorrt-llm", "ollama", "lmdeploy"} {
		read := func(names ...string) []byte {
			for _, name := range names {
				if text, err := os.ReadFile(filepath.Join("testdata", folder, name)); err == nil {
					return text
				}
			}
			return nil
		}
		f.Add(read("metrics.txt", "metrics.json"), read("get_server_info.json", "props.json", "api-ps.json", "v1-models.json"), string(read("start.log")), "vllm serve m --a=1 -b -2 --no-c")
	}
	f.Fuzz(func(t *testing.T, metrics, object []byte, log, start string) {
		for _, route := range []string{"/get_server_info", "/props", "/api/ps", "/v1/models"} {
			s := &seen{url: "http://127.0.0.1:1", settings: map[string][]setting{}, asked: []Asked{{Route: "/metrics", body: metrics}, {Route: route, body: object}}}
			var err error
			if s.argv, s.env, err = arguments(&Options{Start: start}); err != nil {
				s.argv = nil
			}
			s.metrics = exposition.Read(metrics)
			lines := strings.Split(log, "\n")
			s.identify(lines)
			s.readModels()
			s.readAnswers()
			s.readArguments()
			s.readLogLines(lines, "log")
			made := &Report{Rows: s.rows(nil), Now: s.counters()}
			made.Roofline = s.roofline(&Options{}, s.server(), nil)
			text, err := made.JSON()
			if err != nil || !json.Valid(text) {
				t.Fatalf("JSON: %v", err)
			}
			if !bytes.Contains([]byte(made.Text()), []byte("optimisations")) {
				t.Fatal("no text")
			}
			for _, row := range made.Rows {
				for _, one := range row.Evidence {
					if len(one.Text) > 1000 {
						t.Fatalf("evidence of %d bytes", len(one.Text))
					}
				}
			}
		}
	})
}

// The predictor is asked about the settings that it knows, for what clients sent, and says nothing of
// the others.
func TestForecast(t *testing.T) {
	a100, err := machine.Lookup("A100-SXM4-80G")
	if err != nil {
		t.Fatal(err)
	}
	forecast := &Forecast{Machine: a100, Model: func(*Server) (*plan.Model, error) { return predict.Model("gpt-oss-20b") }}
	got := report(t, "vllm", Options{Predictor: forecast})
	rows := map[string]Row{}
	for _, row := range got.Rows {
		rows[row.Name] = row
	}
	limit := rows["sequence limit"].Effect
	if limit.Origin != Predicted || limit.Percent < 2 || !(limit.Low < limit.Percent && limit.Percent < limit.High) || !strings.Contains(limit.Workload, "800/250 tokens, 101 at once") {
		t.Errorf("64 of 101 sequences at once: %+v", limit)
	}
	for _, name := range []string{"CUDA graphs", "top-p and top-k in one kernel", "several front-end processes"} {
		if effect := rows[name].Effect; rows[name].State == Off && (effect.Origin != NotKnown || effect.Why == "" || effect.High != 0) {
			t.Errorf("%s is outside of the model: %+v", name, effect)
		}
	}
	// Another version is not calibrated: nothing is guessed.
	server := &Server{Engine: engines.VLLM, Version: "0.18.0", Settings: map[string]string{"max_num_seqs": "64"}, Served: Served{AtOnce: 100, Input: 800, Output: 250}}
	if _, err := forecast.Gain(t.Context(), server, []*Change{set("max-num-seqs", "256")}, nil); !errors.Is(err, predict.ErrUnknownKernel) {
		t.Errorf("version without a calibration: %v", err)
	}
	for want, change := range map[string]*Change{"outside of what is predicted": without("enforce-eager"), "how much prompts begin alike": without("enable-prefix-caching"), "not a setting": {Env: []string{"A"}}} {
		server.Version = "0.11.0"
		if _, err := forecast.Gain(t.Context(), server, []*Change{change}, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", change, err, want)
		}
	}
	server.Served = Served{}
	if _, err := forecast.Gain(t.Context(), server, []*Change{set("max-num-seqs", "256")}, nil); err == nil || !strings.Contains(err.Error(), "no workload") {
		t.Errorf("no workload: %v", err)
	}
}

// TestExpressions: an expression that is none would end the program at its first use.
func TestExpressions(t *testing.T) {
	if err := lazyregexp.Check(); err != nil {
		t.Error(err)
	}
}
