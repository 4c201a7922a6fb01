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
	if kind == "q8_0" {
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

// file returns the path of the checkpoint and writes it first if need be.
func (s *subject) file(ctx context.Context) (string, error) {
	path := filepath.Join(*dir, s.base)
	_, err := os.Stat(path)
	if err == nil || s.preset == "" {
		return path, err
	}
	c := exec.CommandContext(ctx, *bin, "synth", s.preset, path, "--format", "gguf", "--type", s.kind)
	c.Stdout, c.Stderr = os.Stderr, os.Stderr
	return path, c.Run()
}
