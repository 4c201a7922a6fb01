package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// A subject is a model with the work it is given. Small models get more of it, so that
// no figure is a matter of milliseconds.
type subject struct {
	name, title  string
	preset, kind string // of ossian synth; no preset = base is fetched by another tool
	base         string // file name
	prefill      []int  // prompt lengths
	tokens       int    // that one sequence decodes
	together     int    // that each of several decodes
	repeat       int    // measurements within a process
	temperature  string // at which Ossian draws: the others draw nothing, but the experts that are read must vary
	loads        []load // that are served
	input        int    // tokens of a request that is served, and of its answer
	output       int
	targets      map[string]target // of figures, by name
}

// A target is how many times as fast as llama.cpp and ik_llama.cpp Ossian is meant to
// be; 0 = none is set.
type target struct{ llamaCpp, ikLlama float64 }

// of returns the target beside a program, 0 = none.
func (t target) of(program string) float64 {
	return map[string]float64{llamaCpp: t.llamaCpp, ikLlama: t.ikLlama}[program]
}

// A load is a concurrency, how many requests come, and how many times the tokens of
// llama-server are meant to.
type load struct {
	streams, requests int
	target            float64
}

const (
	lead = 16   // tokens in front of what batches decode
	deep = 1024 // tokens in front of what depth decodes
)

var (
	small        = []load{{1, 4, 1.5}, {8, 24, 4}, {32, 64, 6}}
	smallTargets = map[string]target{decodeCase(1): {1.5, 1.2}, prefillCase(512): {2.5, 1.5}, decodeCase(32): {4, 2}}
	largeTargets = map[string]target{decodeCase(1): {0, 1.5}, prefillCase(128): {0, 1.9}, prefillCase(512): {0, 2.2}, prefillCase(2048): {0, 2.2},
		decodeCase(8): {0, 1.5}, decodeCase(32): {0, 1.4}}
)

var subjects = []*subject{
	{name: "gpt-oss-20b", title: "gpt-oss-20b, experts MXFP4, the rest Q8_0", preset: "gpt-oss-20b", kind: "q8_0", base: "gpt-oss-20b.q8_0.gguf",
		prefill: []int{128, 512, 2048}, tokens: 32, together: 16, repeat: 1, temperature: "1", loads: []load{{8, 16, 5}, {32, 32, 5}}, input: 256, output: 64, targets: largeTargets},
	qwen("q8_0"), qwen("q4_0"), qwen("q4_k"), qwen("bf16"),
	{name: "smollm2-135m", title: "SmolLM2-135M-Instruct, real weights, Q4_1", base: "SmolLM2-135M-Instruct.Q4_1.gguf",
		prefill: []int{512}, tokens: 128, together: 64, repeat: 3, temperature: "0", loads: small, input: 256, output: 64, targets: smallTargets},
}

func qwen(kind string) *subject {
	s := &subject{name: "qwen3-0.6b-" + kind, title: "Qwen3-0.6B, " + strings.ToUpper(kind), preset: "qwen3-0.6b", kind: kind, base: "qwen3-0.6b." + kind + ".gguf",
		prefill: []int{512}, tokens: 64, together: 32, repeat: 3, temperature: "0", targets: smallTargets}
	if kind == "q8_0" || kind == "bf16" {
		s.loads, s.input, s.output = small, 256, 64
	}
	return s
}

func names(all []*subject) []string {
	var out []string
	for _, s := range all {
		out = append(out, s.name)
	}
	return out
}

// pick returns the named subjects in their own order.
func pick(all []*subject, list string) ([]*subject, error) {
	wanted := map[string]bool{}
	for name := range strings.SplitSeq(list, ",") {
		wanted[name] = true
	}
	var out []*subject
	for _, s := range all {
		if wanted[s.name] {
			out = append(out, s)
			delete(wanted, s.name)
		}
	}
	for name := range wanted {
		return nil, fmt.Errorf("-models %s: there are %s", name, strings.Join(names(all), ", "))
	}
	return out, nil
}

// quick is s with next to nothing to do, under a name of its own.
func (s *subject) quick() *subject {
	q := *s
	q.name, q.prefill, q.tokens, q.together, q.repeat = s.name+quickly, []int{s.prefill[0]}, 4, 2, 1
	q.input, q.output, q.loads = 16, 4, nil
	for _, l := range s.loads {
		q.loads = append(q.loads, load{streams: l.streams, requests: l.streams})
	}
	return &q
}

// quickly ends the names of quick subjects.
const quickly = " (quick)"

// modelFiles are the forms of a model, "" = there is none.
type modelFiles struct{ gguf, folder, openVINO string }

// openVINOServer is the script that serves OpenVINO's models, seen from the folder of this repository.
var openVINOServer = "_tools/peers/openvino_server.py"

// files returns the forms of the model and writes first what is not there. vino is the environment that
// has OpenVINO's converter, "" = none.
func (s *subject) files(ctx context.Context, vino string) (files modelFiles, err error) {
	files.gguf = filepath.Join(*dir, s.base)
	if !exists(files.gguf) {
		if s.preset == "" {
			return files, fmt.Errorf("%s is not there", files.gguf)
		}
		if err := write(ctx, files.gguf, *bin, "synth", s.preset, files.gguf, "--format", "gguf", "--type", s.kind); err != nil {
			return files, err
		}
	}
	form := s.preset + "." + s.kind
	weights, ok := openVINOWeights[form]
	if !ok || (s.kind != "bf16" && vino == "") {
		return files, nil
	}
	folder := filepath.Join(*dir, s.preset+".bf16") // the same weights: as synth draws them
	if err := write(ctx, folder, *bin, "synth", s.preset, folder); err != nil {
		return files, err
	}
	if s.kind == "bf16" {
		files.folder = folder
	}
	if vino == "" {
		return files, nil
	}
	files.openVINO = filepath.Join(*dir, form+".openvino")
	return files, write(ctx, files.openVINO, filepath.Join(vino, "bin", "optimum-cli"), "export", "openvino", "--model", folder,
		"--task", "text-generation-with-past", "--weight-format", weights, files.openVINO)
}

// openVINOWeights are the formats of optimum-cli for the models that OpenVINO gets. FP16 keeps what
// BF16 has of numbers of this size; int8 has a scale for each row where Q8_0 has one for 32 weights, and
// the processor's plug-in rounds activations to 8 bits by itself, as Ossian and llama.cpp do.
var openVINOWeights = map[string]string{"qwen3-0.6b.bf16": "fp16", "qwen3-0.6b.q8_0": "int8"}

// write has a command write a path, unless it is there.
func write(ctx context.Context, path, name string, args ...string) error {
	if exists(path) {
		return nil
	}
	c := exec.CommandContext(ctx, name, args...)
	c.Stdout, c.Stderr = os.Stderr, os.Stderr
	return c.Run()
}
