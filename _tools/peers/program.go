package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

const (
	ossian   = "Ossian"
	llamaCpp = "llama.cpp"
	ikLlama  = "ik_llama.cpp"
	vllm     = "vLLM"
	vllmZen  = "vLLM with zentorch"
	openVINO = "OpenVINO GenAI"
)

// A program is one of those that are compared: how it is found, and what it is told to do.
type program struct {
	name     string
	path     string   // of the executable (Ossian), of the folder or the virtual environment (the others)
	commit   string   // that Ossian was built from; the others say it themselves
	packages []string // of a virtual environment: what is measured, whose versions are its build
	missing  []string // tools that are not there
	builds   map[string]string
}

// executable returns the path of a tool; Ossian is all tools in one.
func (p *program) executable(tool string) string {
	switch {
	case p.name == ossian:
		return p.path
	case p.packages != nil:
		return filepath.Join(p.path, "bin", "python")
	}
	return filepath.Join(p.path, tool)
}

// check notes the tools that are not there and returns why: one line for each.
func (p *program) check(ctx context.Context) (problems []string) {
	tools := []string{"llama-bench", "llama-batched-bench", "llama-server"}
	if p.packages != nil {
		tools = []string{server}
	}
	for _, tool := range tools {
		_, err := os.Stat(p.executable(tool))
		if err == nil && p.packages != nil {
			err = p.versions(ctx, tool)
		}
		if err != nil {
			p.missing = append(p.missing, tool)
			problems = append(problems, fmt.Sprintf("%s is not measured with %s: %v", p.name, tool, err))
		}
	}
	return problems
}

// versions asks a virtual environment for those of the packages, which name the build.
func (p *program) versions(ctx context.Context, tool string) error {
	const ask = "import sys, importlib.metadata as m; print(', '.join(f'{n} {m.version(n)}' for n in sys.argv[1:]))"
	out, err := command(ctx, p.executable(tool), append([]string{"-c", ask}, p.packages...)...).CombinedOutput()
	if err != nil {
		return failure(ctx, err, out)
	}
	p.commit = strings.TrimSpace(string(out))
	p.builds = map[string]string{tool: p.commit}
	return nil
}

// build names the contents of a tool.
func (p *program) build(tool string) (string, error) {
	if b, ok := p.builds[tool]; ok {
		return b, nil
	}
	f, err := os.Open(p.executable(tool))
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	if p.builds == nil {
		p.builds = map[string]string{}
	}
	p.builds[tool] = hex.EncodeToString(h.Sum(nil)[:6])
	return p.builds[tool], nil
}

// A task is one process of a program and what its output says.
type task struct {
	part    string
	variant string // tells tasks of a part apart
	tool    string
	args    []string
	env     []string // besides what this process has
	load    load     // of a server
	input   int      // tokens of a request of the load, and of its answer
	output  int
	stands  bool                                                    // the server is slow to start: one goes on for all loads, stopped while others are measured
	parse   func(stdout, stderr []byte) (map[string]float64, error) // of other processes: cases and tokens per second
}

// tasks lists what p has to do for the parts. files are those of the model, by form.
func (p *program) tasks(s *subject, files modelFiles, parts []string) []task {
	var all []task
	switch p.name {
	case ossian:
		all = ossianTasks(s, files.gguf)
	case llamaCpp, ikLlama:
		all = p.peerTasks(s, files.gguf)
	case vllm, vllmZen:
		all = p.vllmTasks(s, files.folder)
	case openVINO:
		all = p.openVINOTasks(s, files.openVINO)
	}
	return slices.DeleteFunc(all, func(t task) bool {
		return !slices.Contains(parts, t.part) || slices.Contains(p.missing, t.tool)
	})
}

// Names of cases, which are rows of the tables.
func prefillCase(n int) string { return fmt.Sprintf("prefill %d", n) }
func decodeCase(n int) string {
	if n == 1 {
		return "decode, 1 sequence"
	}
	return fmt.Sprintf("decode, %d sequences, sum", n)
}

const deepCase = "decode behind 1024 tokens"

// together are the sizes of batches.
var together = []int{8, 32}

func ossianTasks(s *subject, model string) []task {
	latency := func(part, row string, batch, input, output int, parse func([]byte) (float64, error)) task {
		t := task{part: part, variant: row, args: []string{"bench", "latency", model, "--threads", strconv.Itoa(*threads),
			"--batch-size", strconv.Itoa(batch), "--input-len", strconv.Itoa(input), "--output-len", strconv.Itoa(output),
			"--max-model-len", strconv.Itoa(max(512, input+output)), "--num-iters-warmup", "0", "--num-iters", strconv.Itoa(s.repeat),
			"--temperature", s.temperature, "--output-json", "/dev/stdout"}}
		t.parse = func(stdout, _ []byte) (map[string]float64, error) {
			rate, err := parse(stdout)
			return map[string]float64{row: rate}, err
		}
		return t
	}
	all := []task{latency("decode", decodeCase(1), 1, lead, s.tokens+1, latencyDecode)}
	for _, n := range s.prefill {
		all = append(all, latency("prefill", prefillCase(n), 1, n, 1, latencyPrefill))
	}
	for _, n := range together {
		all = append(all, latency("batch", decodeCase(n), n, lead, s.together+1, latencyDecode))
	}
	all = append(all, latency("depth", deepCase, 1, deep, s.tokens+1, latencyDecode))
	serve := func(streams int) []string {
		return []string{"serve", model, "--threads", strconv.Itoa(*threads), "--max-num-seqs", strconv.Itoa(streams),
			"--max-model-len", "512", "--served-model-name", servedName, "--no-access-log", "--log-level", "warn", "--host", "127.0.0.1", "--port"}
	}
	return append(all, servers(s, "", serve)...)
}

// peerTasks are the same for the relatives of llama.cpp. Tests of one program that take
// the same options share a process, because loading can take most of a minute.
func (p *program) peerTasks(s *subject, model string) []task {
	n := strconv.Itoa(*threads)
	common := []string{"-m", model, "-t", n}
	single := func(part string, args ...string) task {
		args = append(append(slices.Clone(common), "-r", strconv.Itoa(s.repeat), "-o", "json"), args...)
		if p.name == ikLlama {
			args = append(args, "-rtr", "1")
		}
		return task{part: part, tool: "llama-bench", args: args, parse: parseLlamaBench}
	}
	batched := func(part, row string, before, tokens, size int, streams ...int) task {
		args := append(slices.Clone(common), "-tb", n, "-c", strconv.Itoa(size), "-npp", strconv.Itoa(before), "-ntg", strconv.Itoa(tokens), "-npl", commas(streams))
		if p.name == ikLlama {
			args = append(args, "-rtr")
		}
		return task{part: part, tool: "llama-batched-bench", args: args, parse: func(stdout, stderr []byte) (map[string]float64, error) {
			return parseBatched(append(slices.Clone(stdout), stderr...), row, streams)
		}}
	}
	serve := func(extra ...string) func(int) []string {
		return func(streams int) []string {
			args := append(slices.Clone(common), "-tb", n, "-np", strconv.Itoa(streams), "-c", strconv.Itoa(512*streams), "--cache-ram", "0", "--host", "127.0.0.1")
			if p.name == ikLlama {
				args = append(args, "-rtr")
			} else {
				args = append(args, "--offline", "--no-ui")
			}
			return append(append(args, extra...), "--port")
		}
	}
	// llama.cpp would warm up with each whole prompt; a short one in front does.
	var cold []string
	if p.name == llamaCpp {
		cold = []string{"--no-warmup"}
	}
	all := []task{
		single("decode", "-p", "0", "-n", strconv.Itoa(s.tokens)),
		single("prefill", append([]string{"-n", "0", "-p", commas(append([]int{lead}, s.prefill...))}, cold...)...),
		batched("batch", "", lead, s.together, 256*slices.Max(together), together...),
		batched("depth", deepCase, deep, s.tokens, 2*deep, 1),
	}
	all = append(all, servers(s, "", serve())...)
	if p.name == llamaCpp {
		t := servers(s, "--no-repack", serve("--no-repack"))
		all = append(all, t[0])
	}
	return all
}

// servedName is the model's name in requests.
const servedName = "bench"

// server is the tool of those that serve, besides llama-server.
const server = "server"

// servers lists one start, then each load. args ends where the port comes.
func servers(s *subject, variant string, args func(streams int) []string) []task {
	all := []task{{part: "ready", variant: variant, tool: "llama-server", args: args(1)}}
	for _, l := range s.loads {
		all = append(all, task{part: "served", variant: strconv.Itoa(l.streams), tool: "llama-server", args: args(l.streams), load: l, input: s.input, output: s.output})
	}
	return all
}

// mostStreams are those of the largest load of s, for which a server that stands is started.
func (s *subject) mostStreams() int {
	most := 1
	for _, l := range s.loads {
		most = max(most, l.streams)
	}
	return most
}

// throughServer lists a prompt, one sequence and the loads, all as requests to one server: what a program
// without a tool for these does. A prompt is one token's wait, and a sequence the pace of its stream.
func throughServer(s *subject, args, env []string) []task {
	one := func(part, variant string, input, output int) task {
		return task{part: part, variant: variant, tool: server, args: args, env: env, load: load{streams: 1, requests: s.repeat}, input: input, output: output, stands: true}
	}
	all := []task{one("decode", decodeCase(1), lead, s.tokens+1)}
	for _, n := range s.prefill {
		all = append(all, one("prefill", prefillCase(n), n, 1))
	}
	for _, l := range s.loads {
		all = append(all, task{part: "served", variant: strconv.Itoa(l.streams), tool: server, args: args, env: env, load: l, input: s.input, output: s.output, stands: true})
	}
	return all
}

// vllmTasks: vLLM's server computes on all threads (by itself it leaves one to the API), in BF16, with
// Intel's OpenMP in front of others, which its documentation of CPUs recommends. zentorch needs no flag.
func (p *program) vllmTasks(s *subject, folder string) []task {
	if folder == "" {
		return nil
	}
	args := []string{"-m", "vllm.entrypoints.openai.api_server", "--model", folder, "--served-model-name", servedName, "--dtype", "bfloat16",
		"--max-model-len", "1024", "--max-num-seqs", strconv.Itoa(s.mostStreams()), "--no-enable-prefix-caching", "--host", "127.0.0.1", "--port"}
	env := []string{"VLLM_CPU_KVCACHE_SPACE=4", fmt.Sprintf("VLLM_CPU_OMP_THREADS_BIND=0-%d", *threads-1), "VLLM_CPU_NUM_OF_RESERVED_CPU=0", "VLLM_NO_USAGE_STATS=1", "HF_HUB_OFFLINE=1"}
	if openMP := filepath.Join(p.path, "lib", "libiomp5.so"); exists(openMP) {
		env = append(env, "LD_PRELOAD="+openMP)
	}
	return throughServer(s, args, env)
}

// openVINOTasks: OpenVINO GenAI has no server of its own in Python; openvino_server.py is one.
func (p *program) openVINOTasks(s *subject, folder string) []task {
	if folder == "" {
		return nil
	}
	return throughServer(s, []string{openVINOServer, folder, "--threads", strconv.Itoa(*threads), "--port"}, nil)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func commas(ns []int) string {
	var out []string
	for _, n := range ns {
		out = append(out, strconv.Itoa(n))
	}
	return strings.Join(out, ",")
}
