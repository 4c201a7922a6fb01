package config

import (
	"bytes"
	"errors"
	"flag"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"ossian/internal/limits"
	"ossian/internal/nearest"
	"ossian/internal/wire"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// load parses a command line in which spaces separate; FILE stands for a YAML file.
func load(args, yaml string, env ...string) (*Config, error) {
	return Load(Source{Args: strings.Fields(args), Env: env, ReadFile: func(string) ([]byte, error) { return []byte(yaml), nil }})
}

func TestDefaults(t *testing.T) {
	c, err := load("", "")
	if err != nil {
		t.Fatal(err)
	}
	want := Settings{Resident: 1, Host: "127.0.0.1", Port: 8000, Page: true, Device: "auto", PresetUsers: 8, KVCacheDType: "auto", Weights: "auto", Packed: "auto", Store: "auto", PrefixCaching: true, Overlap: true, Verify: true, StreamInterval: 1,
		CheckpointSampler: true, DrainTimeout: 30 * time.Second, StepTime: 500 * time.Millisecond, CrowdTime: 750 * time.Millisecond, BrowserBackend: "youcom", MetricsPrefix: "vllm", LogLevel: "info", LogFormat: "auto", AccessLog: true, Limits: limits.Defaults()}
	if !reflect.DeepEqual(c.Settings, want) {
		t.Errorf("got  %+v\nwant %+v", c.Settings, want)
	}
	if len(c.Notes) != 0 {
		t.Errorf("notes without flags: %q", c.Notes)
	}
}

// TestToolArguments: servers and tools that the server itself runs.
func TestToolArguments(t *testing.T) {
	for _, tc := range []struct {
		name, args string
		env        []string
		is         func(*Config) bool
	}{
		{"servers", "--tool-server demo,localhost:9000 wiki=https://a.example/mcp?x=1", nil, func(c *Config) bool {
			return slices.Equal(c.ToolServers, []string{"demo", "localhost:9000", "wiki=https://a.example/mcp?x=1"})
		}},
		{"environment", "", []string{"BROWSER_BACKEND=exa", "EXA_API_KEY=k", "PYTHON_EXECUTION_BACKEND=wasm"}, func(c *Config) bool {
			return c.BrowserBackend == "exa" && c.ExaKey == "k" && c.PythonBackend == "wasm" && c.Origin("python-backend") == "environment PYTHON_EXECUTION_BACKEND"
		}},
		{"flags win", "--browser-backend http --python-backend off", []string{"BROWSER_BACKEND=exa", "PYTHON_EXECUTION_BACKEND=wasm"}, func(c *Config) bool {
			return c.BrowserBackend == "http" && c.PythonBackend == "off"
		}},
		{"our names win", "", []string{"BROWSER_BACKEND=exa", "OSSIAN_BROWSER_BACKEND=http"}, func(c *Config) bool { return c.BrowserBackend == "http" }},
		{"a corpus is used", "--browser-corpus d", []string{"BROWSER_BACKEND=exa"}, func(c *Config) bool { return c.BrowserBackend == "corpus" && c.BrowserCorpus == "d" }},
		{"tools of all", "--tools-default web_search,code_interpreter", nil, func(c *Config) bool {
			return slices.Equal(c.ToolsDefault, []string{"web_search", "code_interpreter"})
		}},
		{"hosts", "--mcp-allow a.example,b.example:8443", nil, func(c *Config) bool { return slices.Equal(c.MCPAllow, []string{"a.example", "b.example:8443"}) }},
	} {
		c, err := load(tc.args, "", tc.env...)
		if err != nil || !tc.is(c) {
			t.Errorf("%s: %v, %+v", tc.name, err, c)
		}
	}
	c, err := Load(Source{Args: []string{"--tool-server", "demo", "files=stdio:npx -y server a,b", "stdio:x y,z"}})
	if want := []string{"demo", "files=stdio:npx -y server a,b", "stdio:x y,z"}; err != nil || !slices.Equal(c.ToolServers, want) {
		t.Errorf("commands: %v, %+v", err, c)
	}
	for args, want := range map[string]string{
		"--tool-server demo,,x:1":                  "part 2",
		"--tool-server=":                           "part 1",
		"--browser-backend bing":                   "youcom, exa, http or corpus expected",
		"--browser-backend exa --browser-corpus d": "contradict",
		"--tools-default mcp":                      "web_search or code_interpreter",
		"--python-backend shell":                   "expected",
		"--exa-api-key a\x01b":                     "visible ASCII",
	} {
		if _, err := load(args, ""); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", args, err, want)
		}
	}
	if _, err := load("", "", "BROWSER_BACKEND=bing"); err == nil || !strings.Contains(err.Error(), "BROWSER_BACKEND") {
		t.Errorf("an unknown backend in the environment: %v", err)
	}
}

func TestArguments(t *testing.T) {
	for _, tc := range []struct {
		name, args string
		yaml       string
		env        []string
		is         func(*Config) bool
	}{
		{name: "model", args: "Qwen/Qwen3-0.6B", is: func(c *Config) bool { return c.Model == "Qwen/Qwen3-0.6B" }},
		{name: "model of the file", args: "--config x.yaml", yaml: "model: a", is: func(c *Config) bool { return c.Model == "a" }},
		{name: "model of the command line wins", args: "b --config x.yaml", yaml: "model: a", is: func(c *Config) bool { return c.Model == "b" }},
		{name: "one model with a name", args: "--model=m=./dir", is: func(c *Config) bool { return c.Model == "./dir" && slices.Equal(c.Models, []Named{{"m", "./dir"}}) }},
		{name: "several models", args: "./dir --model a=org/x --model b=ossian-tiny --models-resident 2 --served-model-name c d", is: func(c *Config) bool {
			return c.Model == "./dir" && c.Resident == 2 && len(c.Notes) == 0 && slices.Equal(c.Models, []Named{{"", "./dir"}, {"a", "org/x"}, {"b", "ossian-tiny"}})
		}},
		{name: "several models without a flag", args: "org/a=x b=y=z", is: func(c *Config) bool {
			return c.Model == "x" && slices.Equal(c.Models, []Named{{"org/a", "x"}, {"b", "y=z"}})
		}},
		{name: "several models of the file", args: "--config x.yaml", yaml: "model: [a=x, b=y]", is: func(c *Config) bool { return slices.Equal(c.Models, []Named{{"a", "x"}, {"b", "y"}}) }},
		{name: "models of the command line replace the file's", args: "--config x.yaml --model c=z", yaml: "model: [a=x, b=y]", is: func(c *Config) bool { return slices.Equal(c.Models, []Named{{"c", "z"}}) }},
		{name: "a path with an equals sign", args: "--model ./a=b", is: func(c *Config) bool { return slices.Equal(c.Models, []Named{{"", "./a=b"}}) }},
		{name: "a path with a space in the environment", env: []string{"OSSIAN_MODEL=/my models/x"}, is: func(c *Config) bool { return c.Model == "/my models/x" }},
		{name: "the same model twice", args: "a --model n=x --model a", is: func(c *Config) bool {
			return len(c.Notes) == 0 && slices.Equal(c.Models, []Named{{"", "a"}, {"n", "x"}})
		}},
		{name: "equals sign", args: "--port=9000", is: func(c *Config) bool { return c.Port == 9000 }},
		{name: "underscores", args: "--max_model_len 8k", is: func(c *Config) bool { return c.MaxModelLen == 8000 }},
		{name: "binary size", args: "--max-model-len 8K", is: func(c *Config) bool { return c.MaxModelLen == 8192 }},
		{name: "binary millions", args: "--max-model-len 1M", is: func(c *Config) bool { return c.MaxModelLen == 1<<20 }},
		{name: "crowded step time", args: "--max-crowded-step-time 2", is: func(c *Config) bool { return c.CrowdTime == 2*time.Second }},
		{name: "step time", args: "--max-step-time 0", is: func(c *Config) bool { return c.StepTime == 0 }},
		{name: "chunks", args: "--long_prefill_token_threshold 2k", is: func(c *Config) bool { return c.ChunkLimit == 2000 }},
		{name: "fraction", args: "--max-model-len 25.6k", is: func(c *Config) bool { return c.MaxModelLen == 25600 }},
		{name: "automatic", args: "--max-model-len auto", is: func(c *Config) bool { return c.MaxModelLen == 0 }},
		{name: "automatic as -1", args: "--max-model-len -1", is: func(c *Config) bool { return c.MaxModelLen == 0 }},
		{name: "names", args: "--served-model-name a b --port 1", is: func(c *Config) bool { return slices.Equal(c.ServedNames, []string{"a", "b"}) && c.Port == 1 }},
		{name: "names one by one", args: "--served-model-name a --served-model-name b", is: func(c *Config) bool { return slices.Equal(c.ServedNames, []string{"a", "b"}) }},
		{name: "names of the file", args: "--config x.yaml", yaml: "served-model-name: [a, b]", is: func(c *Config) bool { return slices.Equal(c.ServedNames, []string{"a", "b"}) }},
		{name: "command line replaces the file's list", args: "--config x.yaml --served-model-name c", yaml: "served-model-name: [a, b]", is: func(c *Config) bool { return slices.Equal(c.ServedNames, []string{"c"}) }},
		{name: "off", args: "--no-enable-prefix-caching", is: func(c *Config) bool { return !c.PrefixCaching }},
		{name: "on over the file's off", args: "--config x.yaml --enable-prefix-caching", yaml: "no-enable-prefix-caching: true", is: func(c *Config) bool { return c.PrefixCaching }},
		{name: "false in the file", args: "--config x.yaml", yaml: "enable-prefix-caching: false", is: func(c *Config) bool { return !c.PrefixCaching }},
		{name: "no- false in the file is nothing", args: "--config x.yaml", yaml: "no-enable-prefix-caching: false", is: func(c *Config) bool { return c.PrefixCaching }},
		{name: "no-verify", args: "--no-verify", is: func(c *Config) bool { return !c.Verify }},
		{name: "environment", env: []string{"OSSIAN_PORT=9", "OSSIAN_API_KEY=k1 k2", "OSSIAN_UNRELATED=x"}, is: func(c *Config) bool { return c.Port == 9 && slices.Equal(c.APIKeys, []string{"k1", "k2"}) }},
		{name: "environment over the file", args: "--config x.yaml", yaml: "port: 7", env: []string{"OSSIAN_PORT=9"}, is: func(c *Config) bool { return c.Port == 9 }},
		{name: "command line over the environment", args: "--port 5", env: []string{"OSSIAN_PORT=9"}, is: func(c *Config) bool { return c.Port == 5 }},
		{name: "Kubernetes' variable", env: []string{"OSSIAN_PORT=tcp://10.0.0.1:80"}, is: func(c *Config) bool { return c.Port == 8000 && len(c.Notes) == 1 }},
		{name: "key opens", args: "--host 0.0.0.0 --api-key k", is: func(c *Config) bool { return c.Host == "0.0.0.0" && len(c.Notes) == 0 }},
		{name: "insecure opens, with a warning", args: "--host 0.0.0.0 --insecure", is: func(c *Config) bool { return len(c.Notes) == 1 }},
		{name: "loopback of IPv6 in brackets", args: "--host [::1]", is: func(c *Config) bool { return c.Host == "::1" }},
		{name: "queue by its limit", args: "--limit queue=5", is: func(c *Config) bool {
			return c.values["max-queue"].texts[0] == "5" && c.Origin("max-queue") == "command line"
		}},
		{name: "loopback of IPv6", args: "--host ::1", is: func(c *Config) bool { return c.Host == "::1" }},
		{name: "short", args: "-tp 1", is: func(c *Config) bool {
			return len(c.Notes) == 1 && strings.HasPrefix(c.Notes[0], "--tensor-parallel-size 1: ")
		}},
		{name: "flags of llama.cpp", args: "-m a.gguf -c 4096 -t 2", is: func(c *Config) bool {
			return c.Model == "a.gguf" && c.MaxModelLen == 4096 && c.Threads == 2 && len(c.Notes) == 1 && strings.HasPrefix(c.Notes[0], "-c is taken as --max-model-len: each request")
		}},
		{name: "context of llama.cpp in full", args: "--ctx-size=4096", is: func(c *Config) bool { return c.MaxModelLen == 4096 && len(c.Notes) == 1 }},
		{name: "dotted JSON", args: "--compilation-config.a.b 1 -cc.a.c+ x,2", is: func(c *Config) bool { return c.values["compilation-config"].texts[0] == `{"a":{"b":1,"c":["x",2]}}` }},
		{name: "queue", args: "--max-queue 5", is: func(c *Config) bool { return c.Limits[limits.Queue] == 5 }},
		{name: "limit", args: "--limit stop_bytes=1Ki messages=9", is: func(c *Config) bool { return c.Limits[limits.StopBytes] == 1024 && c.Limits[limits.Messages] == 9 }},
		{name: "limit of the whole vocabulary", args: "--max-logprobs -1", is: func(c *Config) bool { return c.Limits[limits.TopLogprobs] == limits.TopLogprobs.Info().Max }},
		{name: "seconds", args: "--drain-timeout 5", is: func(c *Config) bool { return c.DrainTimeout == 5*time.Second }},
		{name: "duration", args: "--drain-timeout 2m", is: func(c *Config) bool { return c.DrainTimeout == 2*time.Minute }},
		{name: "dtype spelled in full", args: "--kv-cache-dtype bfloat16", is: func(c *Config) bool { return c.KVCacheDType == "bf16" }},
		{name: "seed", args: "--seed -3", is: func(c *Config) bool { return c.Seed != nil && *c.Seed == -3 }},
		{name: "citations", args: "--citations link", is: func(c *Config) bool { return c.CitationLinks }},
		{name: "reasoning field", args: "--reasoning-field both", is: func(c *Config) bool { return c.ReasoningField == wire.FieldBoth }},
		{name: "uvicorn's level", args: "--uvicorn-log-level warning", is: func(c *Config) bool { return c.LogLevel == "warn" && len(c.Notes) == 1 }},
		{name: "uvicorn's access log", args: "--disable-uvicorn-access-log", is: func(c *Config) bool { return !c.AccessLog }},
		{name: "origins as JSON", args: `--allowed-origins ["https://a","*"]`, is: func(c *Config) bool { return slices.Equal(c.AllowedOrigins, []string{"https://a", "*"}) }},
		{name: "last wins with a warning", args: "--port 1 --port 2", is: func(c *Config) bool { return c.Port == 2 && len(c.Notes) == 1 }},
		{name: "memory", args: "--gpu-memory-utilization 0.5", is: func(c *Config) bool { return c.MemoryShare == .5 && len(c.Notes) == 1 }},
		{name: "empty file", args: "--config x.yml", yaml: "# nothing\n", is: func(c *Config) bool { return c.Port == 8000 }},
		{name: "mapping in the file", args: "--config x.yml", yaml: "compilation-config: {a: {b: on, c: [1, x, 1e3]}}", is: func(c *Config) bool {
			return c.values["compilation-config"].texts[0] == `{"a":{"b":true,"c":[1,"x","1e3"]}}`
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c, err := load(tc.args, tc.yaml, tc.env...)
			if err != nil {
				t.Fatal(err)
			}
			if !tc.is(c) {
				t.Errorf("got %+v\nnotes %q", c.Settings, c.Notes)
			}
		})
	}
}

// What is refused, and what the message must say.
func TestOPS3Refused(t *testing.T) {
	for _, tc := range []struct{ name, args, yaml, want string }{
		{"unknown flag", "--prot 1", "", "unknown flag --prot; did you mean --port?"},
		{"unknown flag far from all", "--zzzzzzzz", "", "unknown flag --zzzzzzzz"},
		{"misspelt no-", "--no-enable-prefix-cachign", "", "did you mean --no-enable-prefix-caching?"},
		{"single dash", "-port 1", "", "did you mean --port?"},
		{"a flag of llama.cpp", "-ngl 99", "", "unknown flag -ngl: there is one device"},
		{"a flag of llama.cpp in full", "--n-gpu-layers 99", "", "unknown flag --n-gpu-layers: there is one device"},
		{"another name of ours", "--parallel 4", "", "unknown flag --parallel: Ossian calls it --max-num-seqs"},
		{"another name with underscores", "--mem_fraction_static .8", "", "Ossian calls it --gpu-memory-utilization"},
		{"what a request says", "--temp 1", "", "each request says it"},
		{"what there is not", "--lora-modules x", "", "adapters are not read"},
		{"more devices than one", "--tensor-parallel-size 2", "", "only 1 is possible: there is one device"},
		{"a letter that means nothing", "-z", "", "unknown flag -z: flags begin with --"},
		{"value of a limit, once", "--limit queue=x", "", `--limit queue=x (command line): "x": a whole number`},
		{"unknown key", "--config a.yaml", "prot: 1", `a.yaml: line 1: unknown key "prot"; did you mean port?`},
		{"unknown limit", "--limit mesages=1", "", "did you mean messages?"},
		{"limit without value", "--limit messages", "", "messages=VALUE"},
		{"limit out of range", "--limit messages=0", "", "outside 1 to"},
		{"two files", "--config a.yaml --config b.yaml", "", "one file expected"},
		{"extension", "--config a.json", "", "*.yaml or *.yml"},
		{"no mapping", "--config a.yaml", "- a", "a mapping of flag names"},
		{"two documents", "--config a.yaml", "port: 1\n---\nport: 2", "one YAML document"},
		{"bad YAML", "--config a.yaml", "port: [", "a.yaml"},
		{"key twice", "--config a.yaml", "port: 1\nport: 2", "line 2: port is given twice, before in line 1"},
		{"key twice in two spellings", "--config a.yaml", "max_model_len: 1\nmax-model-len: 2", "given twice"},
		{"on and off in the file", "--config a.yaml", "enable-prefix-caching: true\nno-enable-prefix-caching: true", "given twice"},
		{"null", "--config a.yaml", "port:", "has no value"},
		{"null item", "--config a.yaml", "served-model-name: [~]", "has no value"},
		{"true for a value", "--config a.yaml", "port: true", "needs a value"},
		{"text for a switch", "--config a.yaml", "exact: maybe", "true or false"},
		{"quoted true for a switch", "--config a.yaml", `exact: "true"`, "true or false"},
		{"list for one value", "--config a.yaml", "port: [1, 2]", "one value expected"},
		{"plain equals sign", "--config a.yaml", "model: =", "quote it"},
		{"tag", "--config a.yaml", "model: !!python/object:os.system x", "tags"},
		{"file in the file", "--config a.yaml", "config: b.yaml", "unknown key"},
		{"bomb", "--config a.yaml", bomb(), "more than 100000 values"},
		{"cycle", "--config a.yaml", "compilation-config: &x {a: *x}", ""},
		{"on and off", "--exact --no-exact", "", "contradict"},
		{"queue twice", "--max-queue 5 --limit queue=6", "", "contradict"},
		{"no room for a body", "--limit bodies-in-flight=1Mi request-body=1Mi", "", "no room for one body"},
		{"no room for a reply", "--limit replies-in-flight=1Mi reply-body=2Mi", "", "no room for one reply"},
		{"switch with a value", "--exact=true", "", "takes no value"},
		{"no value", "--port", "", "--port needs a value"},
		{"no value before a flag", "--port --exact", "", "--port needs a value"},
		{"no number", "--port x", "", "--port x (command line): a whole number"},
		{"below", "--port -1", "", "0 to 65535 expected"},
		{"above", "--port 65536", "", "0 to 65535 expected"},
		{"overflow", "--max-model-len 99999999999999999999", "", "whole number"},
		{"overflow by suffix", "--max-model-len 9000000000G", "", "too large"},
		{"chunks", "--long-prefill-token-threshold -1", "", "0 to"},
		{"interval", "--stream-interval 0", "", "1 to"},
		{"choice", "--kv-cache-dtype int4", "", "auto, bf16"},
		{"share", "--gpu-memory-utilization 1.5", "", "0 to 1 expected"},
		{"NaN", "--gpu-memory-utilization NaN", "", "0 to 1 expected"},
		{"bits", "--activation-bits 4", "", "0, 8 or 16"},
		{"two devices", "--tensor-parallel-size 2", "", "only 1 is possible: there is one device"},
		{"bad JSON", "--compilation-config {", "", "JSON expected, such as '{\"key\": 1}', found \"{\": unexpected end"},
		{"a word for JSON", "--speculative-config suffix", "", `found "suffix": invalid character 's'`},
		{"dotted JSON of a list", "--compilation-config [] --compilation-config.a 1", "", "no JSON object to add to"},
		{"dotted JSON too deep", "-cc" + strings.Repeat(".a", 17) + " 1", "", "16 levels"},
		{"two models", "a b", "", "one model expected"},
		{"two models by flags", "--model a --model n=x --model b", "", `one model expected, found "a" and "b"; of several each has a name: --model NAME=b`},
		{"a model by a flag behind one without", "a --model b", "", `one model expected, found "a" and "b"`},
		{"two models beside one with a name", "a --model n=x b", "", "--model NAME=b"},
		{"two models without a name in the file", "--config a.yaml", "model: [a, b]", "NAME=MODEL"},
		{"two models of one name", "--model a=x --model a=y", "", "two models are named \"a\""},
		{"a name without a model", "--model a=", "", "behind the ="},
		{"a name that nobody can send", "--config a.yaml", `model: "a\tb=x"`, "is not a name"},
		{"a name of two models", "x --model a=y --served-model-name b a", "", "two models have that name"},
		{"names of no model", "--model a=y --served-model-name b", "", "NAME= of its own"},
		{"a template of two models", "x --model a=y --chat-template t", "", "for one model, and there are 2"},
		{"no model in memory", "--models-resident 0", "", "1 to 64 expected"},
		{"empty host", "--host=", "", "0.0.0.0"},
		{"empty key", "--api-key=", "", "at least one"},
		{"empty file of keys", "--api-key-file x", "# none\n\n", "no key in it"},
		{"bad file of keys", "--api-key-file x", "good\nnot so good\n", "visible ASCII"},
		{"key with a space", "--config a.yaml", "api-key: 'a b'", "visible ASCII"},
		{"control character in a name", "--config a.yaml", `served-model-name: "a\nb"`, "is not a name"},
		{"metrics prefix", "--metrics-prefix a-b", "", "letters, digits"},
		{"time", "--drain-timeout soon", "", "30s"},
		{"time too long", "--drain-timeout 999h", "", "0 to 86400"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := load(tc.args, tc.yaml)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want an error with %q", err, tc.want)
			}
		})
	}
}

// A pod of a LeaderWorkerSet serves where its group is of one, and else says why not: a model runs
// on one machine.
func TestGroup(t *testing.T) {
	set := func(size, rank, leader string) []string {
		var env []string
		for i, value := range []string{size, rank, leader} {
			if value != "" {
				env = append(env, groupVariables[i]+"="+value)
			}
		}
		return env
	}
	const leader = "ossian-0.ossian.default"
	for _, test := range []struct {
		name string
		env  []string
		args []string
		want string // of the error
	}{
		{"none", nil, nil, ""},
		{"one pod", set("1", "0", leader), nil, ""},
		{"one pod, by flags", nil, []string{"--nnodes", "1", "--node-rank", "0", "--master-addr", "a"}, ""},
		{"two pods, the leader", set("2", "0", leader), nil, "--nnodes 2 (environment LWS_GROUP_SIZE): only 1 is possible: a model runs on one machine"},
		{"two pods, the worker", set("2", "1", leader), nil, "LWS_GROUP_SIZE"},
		{"two by flags", nil, []string{"--nnodes", "2"}, "only 1 is possible"},
		{"rank beyond the size", set("1", "1", leader), nil, "--node-rank 1 (environment LWS_WORKER_INDEX): only 0 is possible"},
		{"no number", set("two", "0", leader), nil, "--nnodes two (environment LWS_GROUP_SIZE): a whole number"},
		{"no size", set("", "0", leader), nil, "LWS_GROUP_SIZE is not set"},
		{"no rank", set("1", "", leader), nil, "LWS_WORKER_INDEX is not set"},
		{"no leader", set("1", "0", ""), nil, "LWS_LEADER_ADDRESS is not set"},
	} {
		_, err := Load(Source{Args: test.args, Env: test.env})
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", test.name, err, test.want)
		}
	}
}

// Every misspelling of every flag is refused, on the command line and in a file, and
// names a flag that is no further away than the one that was meant.
func TestOPS3Misspellings(t *testing.T) {
	known := new(Config)
	known.rows = rows()
	cases := 0
	for _, r := range known.rows {
		n := len(r.name) / 2
		for _, wrong := range []string{r.name[:n] + r.name[n+1:], r.name[:n] + "x" + r.name[n:], r.name[:n-1] + r.name[n:n+1] + r.name[n-1:n] + r.name[n+1:]} {
			if found, _ := known.lookup(wrong); found != nil {
				continue // a letter doubled and swapped
			}
			for _, args := range []string{"--" + wrong + " 1", "--config x.yaml"} {
				cases++
				_, err := load(args, wrong+": 1")
				if err == nil {
					t.Errorf("%s is accepted", wrong)
					continue
				}
				_, meant, _ := strings.Cut(err.Error(), "did you mean ")
				meant = strings.TrimPrefix(strings.TrimSuffix(meant, "?"), "--")
				if got := nearest.Edits(wrong, meant, 9); got > nearest.Edits(wrong, r.name, 9) {
					t.Errorf("%s: %v, meant %s", wrong, err, r.name)
				}
			}
		}
	}
	if cases < 300 {
		t.Errorf("%d cases, at least 300 wanted", cases)
	}
	t.Logf("OPS-3: %d misspellings refused, each with a flag as near as the one that was meant", cases)
}

// An example is what a flag may be given.
func example(r *row) string {
	special := map[string]string{"node-rank": "0", "tools-default": "web_search", "host": "127.0.0.1", "config": "x.yaml", "limit": "messages=1", "activation-bits": "8", "uvicorn-log-level": "info"}
	switch {
	case special[r.name] != "":
		return special[r.name]
	case r.kind == text && r.values != nil:
		return r.values[0]
	}
	return map[kind]string{text: "x", boolean: "true", integer: "1", float: "0.5", list: "x", duration: "1s", object: "{}"}[r.kind]
}

// Every setting shows its value and where it comes from, whichever of the sources that is.
func TestOPS3Origins(t *testing.T) {
	cases := 0
	for _, r := range rows() {
		v, variable := example(&r), "OSSIAN_"+strings.ToUpper(strings.ReplaceAll(r.name, "-", "_"))
		given := []string{"--" + r.name, v}
		if r.kind == boolean {
			given = given[:1]
		}
		for _, src := range []struct {
			origin, file string
			Source
		}{
			{"default", "", Source{}},
			{"file x.yaml", r.name + ": " + v, Source{Args: []string{"--config", "x.yaml"}}},
			{"environment " + variable, "", Source{Env: []string{variable + "=" + v}}},
			{"command line", r.name + ": " + v, Source{Args: append([]string{"--config", "x.yaml"}, given...), Env: []string{variable + "=" + v}}},
		} {
			if r.command || (r.accepted && strings.HasPrefix(src.origin, "environment")) {
				continue
			}
			cases++
			src.ReadFile = func(name string) ([]byte, error) {
				if name == "x.yaml" {
					return []byte(src.file), nil
				}
				return []byte("secret"), nil
			}
			c, err := Load(src.Source)
			if err != nil {
				t.Errorf("%s from %s: %v", r.name, src.origin, err)
				continue
			}
			var b strings.Builder
			if err := c.Explain(&b); err != nil {
				t.Fatal(err)
			}
			shown := false
			for line := range strings.Lines(b.String()) {
				value, of := strings.CutPrefix(line, r.name+" ")
				shown = shown || (of && strings.Contains(value, " "+src.origin+" ") &&
					(src.origin == "default" || r.secret || strings.HasPrefix(strings.TrimLeft(value, " "), v+" ")))
			}
			if hidden := r.accepted && src.origin == "default"; shown == hidden || c.Origin(r.name) != src.origin {
				t.Errorf("%s from %s: origin %s, shown: %v\n%s", r.name, src.origin, c.Origin(r.name), shown, b.String())
			}
		}
	}
	t.Logf("OPS-3: %d settings from default, file, environment or command line: value and origin are printed", cases)
}

// Only this machine may connect, unless there is a key or the switch for it.
func TestSEC1Loopback(t *testing.T) {
	cases := 0
	for host, local := range map[string]bool{"": true, "127.0.0.1": true, "127.8.8.8": true, "localhost": true, "::1": true, "[::1]": true, "0.0.0.0": false, "::": false, "[::]": false,
		"192.168.1.2": false, "10.0.0.1": false, "8.8.8.8": false, "169.254.0.1": false, "fe80::1": false, "2001:db8::1": false, "example.org": false, "localhost.example.org": false,
		"127.0.0.1.example.org": false, "LOCALHOST": false, "0": false, "127.1": false, "*": false} {
		at := "--host " + host
		if host == "" {
			at = ""
		}
		for _, with := range []struct {
			args   string
			env    []string
			opens  bool
			warned bool
		}{
			{"", nil, false, false}, {"--no-insecure", nil, false, false}, {"--allowed-hosts *", nil, false, false}, {"--insecure", nil, true, true},
			{"--api-key k", nil, true, false}, {"--api-key-file f", nil, true, false}, {"", []string{"OSSIAN_API_KEY=k"}, true, false}, {"--insecure --api-key k", nil, true, false},
			{"--ssl-certfile c --ssl-keyfile k", nil, false, false}, {"--ssl-certfile c --ssl-ca-certs a --ssl-cert-reqs 1", nil, false, false}, {"--ssl-ca-certs a --ssl-cert-reqs 2", nil, false, false},
			{"--ssl-certfile c --ssl-ca-certs a --ssl-cert-reqs 2", nil, true, false},
		} {
			cases++
			c, err := load(at+" "+with.args, "k", with.env...)
			if opens := local || with.opens; (err == nil) != opens {
				t.Errorf("%s %s %q: %v", at, with.args, with.env, err)
				continue
			}
			if err != nil {
				if !strings.Contains(err.Error(), "--api-key") || !strings.Contains(err.Error(), "--insecure") {
					t.Errorf("%s %s: %v does not say what to do", at, with.args, err)
				}
				continue
			}
			if warned := !local && with.warned; c.Open() != warned || (len(c.Notes) == 1) != warned {
				t.Errorf("%s %s: open %v, notes %q", at, with.args, c.Open(), c.Notes)
			}
		}
	}
	t.Logf("SEC-1: %d pairs of a host and switches: open without a key only with --insecure, and with a warning", cases)
}

// A limit that came out of facts at the start stays, and does not wait for a restart
// unless somebody asks for another.
func TestReloadResolved(t *testing.T) {
	c, err := load("", "")
	if err != nil {
		t.Fatal(err)
	}
	c.ResolveLimit(limits.Connections, 7)
	for range 2 { // also of what Reload returned
		for args, want := range map[string]string{"": "", "--limit connections=9": "--limit connections"} {
			next, waiting, err := c.Reload(Source{Args: strings.Fields(args)})
			if err != nil || strings.Join(waiting, " ") != want || next.Limits[limits.Connections] != 7 {
				t.Errorf("%q: %d connections, waiting %q, %v", args, next.Limits[limits.Connections], waiting, err)
			}
		}
		if c, _, err = c.Reload(Source{}); err != nil {
			t.Fatal(err)
		}
	}
}

// Reload changes keys, limits and the log level, names the rest that differs, and
// changes nothing where it finds an error.
func TestReload(t *testing.T) {
	const before = "host: 0.0.0.0\napi-key: [k1, k2]\nseed: 1\nlimit: [messages=9, queue=5]\nlog-level: info\n"
	for _, tc := range []struct{ name, yaml, err, waiting string }{
		{"the same", before, "", ""},
		{"keys", "host: 0.0.0.0\napi-key: k3\nseed: 1\nlimit: [queue=5]\nlog-level: debug", "", ""},
		{"others, too", "host: 127.0.0.1\napi-key: k3\nmax-queue: 7\nport: 1\nlimit: header-bytes=2Ki", "", "--host --port --max-queue --seed --limit header-bytes --limit queue"},
		{"unknown key", before + "prot: 1", "did you mean port?", ""},
		{"out of range", "host: 0.0.0.0\napi-key: k3\nlimit: messages=0", "outside 1 to", ""},
		{"no key any more", "host: 0.0.0.0", "set --api-key", ""},
		{"no key any more, and another host", "host: 127.0.0.1", "set --api-key", ""},
		{"no YAML", ":\n\t:", "x.yaml", ""},
	} {
		c, err := load("--config x.yaml", before)
		if err != nil {
			t.Fatal(err)
		}
		file := tc.yaml
		next, waiting, err := c.Reload(Source{Args: []string{"--config", "x.yaml"}, ReadFile: func(string) ([]byte, error) { return []byte(file), nil }})
		if !slices.Equal(c.APIKeys, []string{"k1", "k2"}) || c.LogLevel != "info" || c.Limits[limits.Messages] != 9 || c.Limits[limits.Queue] != 5 {
			t.Errorf("%s: what was in force has changed: %+v", tc.name, c.Settings)
		}
		if tc.err != "" {
			if err == nil || !strings.Contains(err.Error(), tc.err) {
				t.Errorf("%s: got %v, want %q", tc.name, err, tc.err)
			}
			continue
		}
		if err != nil || strings.Join(waiting, " ") != tc.waiting {
			t.Errorf("%s: got %q, %v, want %q", tc.name, waiting, err, tc.waiting)
			continue
		}
		if next.Host != "0.0.0.0" || next.Port != 8000 || *next.Seed != 1 || next.Limits[limits.Queue] != 5 || next.Limits[limits.HeaderBytes] != c.Limits[limits.HeaderBytes] {
			t.Errorf("%s: what needs a restart has changed: %+v", tc.name, next.Settings)
		}
		if tc.name == "keys" && !(slices.Equal(next.APIKeys, []string{"k3"}) && next.LogLevel == "debug" && next.Limits[limits.Messages] == 4096) {
			t.Errorf("%s: %+v", tc.name, next.Settings)
		}
		if again, waiting, err := next.Reload(Source{Args: []string{"--config", "x.yaml"}, ReadFile: func(string) ([]byte, error) { return []byte(before), nil }}); err != nil || len(waiting) > 0 || !slices.Equal(again.APIKeys, c.APIKeys) {
			t.Errorf("%s: and back: %q, %v", tc.name, waiting, err)
		}
	}
}

// Keys of a file and of the command line add up; empty lines and comments do not count.
func TestKeyFile(t *testing.T) {
	c, err := load("--api-key-file f --api-key a", "# ours\n b \r\n\nc")
	if err != nil || !slices.Equal(c.APIKeys, []string{"a", "b", "c"}) {
		t.Errorf("%q, %v", c.APIKeys, err)
	}
}

// bomb names 10 lists of 10 lists of … : 10^9 values in a few hundred bytes.
func bomb() string {
	var b strings.Builder
	b.WriteString("compilation-config:\n  a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n")
	for i := 1; i < 9; i++ {
		before := "*a" + string(rune('0'+i-1))
		b.WriteString("  a" + string(rune('0'+i)) + ": &a" + string(rune('0'+i)) + " [" + strings.TrimSuffix(strings.Repeat(before+", ", 10), ", ") + "]\n")
	}
	return b.String()
}

func TestKeysAreNotShown(t *testing.T) {
	const secret = "verysecret"
	for _, args := range []string{"--api-key " + secret, "--api-key " + secret + " --port x", "--api-key " + secret + "\x01"} {
		c, err := load(args, "")
		var b bytes.Buffer
		if err != nil {
			b.WriteString(err.Error())
		} else if err := c.Explain(&b); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(b.String(), secret) {
			t.Errorf("%s shows the key:\n%s", args, b.String())
		}
	}
}

func TestHelp(t *testing.T) {
	if _, err := load("--port 1 --help", ""); !errors.Is(err, ErrHelp) {
		t.Errorf("got %v, want ErrHelp", err)
	}
}

func golden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs; got:\n%s", file, got)
	}
}

// The recipe files of vLLM's guide load unchanged.
func TestRecipes(t *testing.T) {
	for _, name := range []string{"hopper", "blackwell"} {
		c, err := Load(Source{Args: []string{"openai/gpt-oss-120b", "--config", "testdata/" + name + ".yaml", "--tensor-parallel-size", "1", "--api-key", "k"}})
		if err != nil {
			t.Fatal(err)
		}
		if c.PrefixCaching || c.MaxBatchTokens != 8192 || c.StreamInterval != 20 || (c.KVCacheDType == "fp8") != (name == "blackwell") {
			t.Errorf("%s: %+v", name, c.Settings)
		}
		c.Resolve("max-model-len", "131072", "the checkpoint's")
		var b bytes.Buffer
		b.WriteString("# Made by: go test ./internal/config -run TestRecipes -update\n")
		for _, n := range c.Notes {
			b.WriteString(n + "\n")
		}
		b.WriteString("\n")
		if err := c.Explain(&b); err != nil {
			t.Fatal(err)
		}
		golden(t, "testdata/"+name+".golden", b.String())
	}
	golden(t, "testdata/usage.golden", Usage())
}

// Every row can be found, explains itself, and has a default that it accepts.
func TestRows(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range rows() {
		if seen[r.name] || strings.Contains(r.name, "_") {
			t.Errorf("%s: twice, or with an underscore", r.name)
		}
		seen[r.name] = true
		if (r.accepted && r.note == "") || (!r.accepted && r.help == "") {
			t.Errorf("%s says nothing", r.name)
		}
		if _, err := r.parse(r.def); err != nil {
			t.Errorf("%s: default %q: %v", r.name, r.def, err)
		}
		if !r.accepted && !r.command && r.set == nil {
			t.Errorf("%s sets nothing", r.name)
		}
	}
	for short, name := range aliases {
		if !seen[name] {
			t.Errorf("%s stands for %s, which does not exist", short, name)
		}
	}
}

// Each flag of the table, as vLLM users would give it, is accepted.
func TestEveryFlagIsAccepted(t *testing.T) {
	for _, r := range rows() {
		args := []string{"--" + r.name, example(&r)}
		if r.kind == boolean {
			args = args[:1]
		}
		c, err := Load(Source{Args: args, ReadFile: func(name string) ([]byte, error) {
			if name == "x.yaml" {
				return nil, nil
			}
			return []byte("key"), nil
		}})
		if err != nil {
			t.Errorf("%q: %v", args, err)
			continue
		}
		if r.accepted && len(c.Notes) != 1 {
			t.Errorf("%q: notes %q, want one", args, c.Notes)
		}
		if !r.command && c.Origin(r.name) != "command line" {
			t.Errorf("%q: origin %q", args, c.Origin(r.name))
		}
	}
}
