// Command llamacpp measures Ossian beside llama.cpp and ik_llama.cpp and prints tables
// for docs/evidence/performance.md:
//
//	go run ./_tools/llamacpp -llama DIR -ik DIR [-models qwen3-0.6b-q8_0,…] [-only decode,served,…] [-runs 5] > tables.md
//
// DIR is a folder with built programs: llama-bench, llama-batched-bench and
// llama-server. What is missing there is left out, with a line that says so.
//
// All programs read the same GGUF files: random weights of the exact shapes, which are
// written to -dir once (14 GB for gpt-oss-20b, 2 GB for the others), and the real
// SmolLM2-135M, which _tools/smollm2/fetch.sh brings there with MODELS=DIR. They take
// turns, run by run; every figure comes from a process of its own, before which the
// memory bandwidth is measured.
//
// Each figure is added to the -results file at once. Runs that are there already are
// not made again, so a measurement may be interrupted, extended with another -only, or
// printed with -runs 0. Figures of an older build of a program do not count.
//
// Parts, for -only:
//
//	decode   tokens/s of one sequence
//	prefill  tokens/s of one prompt, at the lengths of the model
//	batch    tokens/s of 8 and of 32 sequences together, behind prompts of 16 tokens
//	depth    tokens/s of one sequence behind 1024 tokens
//	ready    seconds until a server answers and its memory, right after another start
//	served   256 tokens in, 64 out, at several concurrencies, by ossian bench serve
//
// gpt-oss-20b needs a machine with 24 GB of memory, of which llama.cpp takes 22.
//
// # The other programs
//
// Build llama.cpp (github.com/ggml-org/llama.cpp) and ik_llama.cpp
// (github.com/ikawrakow/ik_llama.cpp) as their own instructions say: release, for this
// machine's processor, without a GPU. The tables name the commits that the programs
// report. llama.cpp repacks weights as it does by itself; ik_llama.cpp is told to
// (-rtr). ik_llama.cpp's llama-batched-bench decodes token 0 in every sequence, so a
// mixture of experts reads fewer experts than with text: its two calls of
// common_batch_add must draw a random token, as llama.cpp's do, before batches of
// gpt-oss can be compared.
package main

import (
	"context"
	"debug/buildinfo"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"ossian/internal/cpu"
	"ossian/internal/cpu/kern"
)

var (
	llama   = flag.String("llama", "", "`DIR` of llama.cpp's programs")
	ik      = flag.String("ik", "", "`DIR` of ik_llama.cpp's programs")
	bin     = flag.String("ossian", "", "Ossian's program; built from this tree unless given")
	dir     = flag.String("dir", "models/peers", "`DIR` where checkpoints are or are written")
	results = flag.String("results", "out/llamacpp.jsonl", "`FILE` that figures are added to")
	models  = flag.String("models", strings.Join(names(subjects), ","), "what to measure")
	only    = flag.String("only", strings.Join(parts, ","), "parts to measure")
	runs    = flag.Int("runs", 5, "runs of each; 0 = print what is there")
	threads = flag.Int("threads", 2, "threads of every program")
	quick   = flag.Bool("quick", false, "few tokens and requests: proves that all works, and measures nothing")
	limit   = flag.Duration("limit", 20*time.Minute, "time of one process")
)

// parts in the order of the tables.
var parts = []string{"decode", "prefill", "batch", "depth", "ready", "served"}

func main() {
	log.SetFlags(log.Ltime)
	flag.Parse()
	if err := run(); err != nil {
		log.Fatal(err)
	}
}

func run() error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	wanted, err := pick(subjects, *models)
	if err != nil {
		return err
	}
	if *quick {
		for i, s := range wanted {
			wanted[i] = s.quick()
		}
	}
	for part := range strings.SplitSeq(*only, ",") {
		if !slices.Contains(parts, part) {
			return fmt.Errorf("-only %s: there are %s", part, strings.Join(parts, ", "))
		}
	}
	tmp, err := os.MkdirTemp("", "ossian-llamacpp")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	f, err := openResults(*results)
	if err != nil {
		return err
	}
	defer f.Close()
	for _, path := range []*string{bin, dir, llama, ik} { // programs run in a folder of their own
		if *path != "" {
			if *path, err = filepath.Abs(*path); err != nil {
				return err
			}
		}
	}
	if *runs > 0 {
		b := &bench{ctx: ctx, results: f, tmp: tmp, parts: strings.Split(*only, ",")}
		if b.programs, err = programs(ctx, tmp); err != nil {
			return err
		}
		for _, s := range wanted {
			if err := b.measure(s); err != nil {
				return err
			}
		}
	}
	if len(f.records) == 0 {
		log.Printf("%s has no figures", *results)
		return nil
	}
	fmt.Printf("## Beside llama.cpp and ik_llama.cpp\n\n`go run ./_tools/llamacpp`: the same GGUF files, %d threads, the programs in turns; medians with the range, and × how many if they are not five; behind a ratio of medians its target. Random weights, except SmolLM2.\n\n", *threads)
	fmt.Printf("Machine: %s, %d processors, %s; %s.\n\n", processor(), runtime.NumCPU(), kern.Detect(), runtime.Version())
	if c := f.commits(); c != "" {
		fmt.Printf("Programs: %s.\n\n", c)
	}
	for _, s := range wanted {
		f.print(os.Stdout, s)
	}
	return nil
}

// programs finds the three programs and says what is missing.
func programs(ctx context.Context, tmp string) ([]*program, error) {
	if *bin == "" {
		*bin = filepath.Join(tmp, "ossian")
		c := exec.CommandContext(ctx, "go", "build", "-o", *bin, "./cmd/ossian")
		c.Stdout, c.Stderr = os.Stderr, os.Stderr
		if err := c.Run(); err != nil {
			return nil, fmt.Errorf("building Ossian: %w", err)
		}
	}
	list := []*program{{name: ossian, path: *bin, commit: revision(*bin)}}
	for _, p := range []*program{{name: llamaCpp, path: *llama}, {name: ikLlama, path: *ik}} {
		if p.path == "" {
			log.Printf("%s is left out: no folder is given", p.name)
			continue
		}
		for _, tool := range []string{"llama-bench", "llama-batched-bench", "llama-server"} {
			if _, err := os.Stat(p.executable(tool)); err != nil {
				log.Printf("%s is not measured with %s: %v", p.name, tool, err)
				p.missing = append(p.missing, tool)
			}
		}
		list = append(list, p)
	}
	return list, nil
}

// revision is the commit that a Go program was built from, "" if it does not say.
func revision(path string) string {
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		return ""
	}
	var commit string
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			commit = s.Value[:min(len(s.Value), 9)] + commit
		case s.Key == "vcs.modified" && s.Value == "true":
			commit += " with changes"
		}
	}
	return commit
}

// A bench makes the measurements that the results lack.
type bench struct {
	ctx      context.Context
	results  *file
	tmp      string
	parts    []string
	programs []*program
}

// measure has the programs take turns on one model.
func (b *bench) measure(s *subject) error {
	model, err := s.file(b.ctx)
	if err != nil {
		log.Printf("%s is left out: %v", s.name, err)
		return b.ctx.Err()
	}
	if err := b.results.learn(b.ctx, s, model); err != nil {
		return err
	}
	for n := range *runs {
		for _, p := range b.programs {
			for _, t := range p.tasks(s, model, b.parts) {
				if err := b.once(s, p, t, n); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// once does a task unless its n-th figure is there. A program that fails is a gap in
// the tables; only an interruption ends the measurement.
func (b *bench) once(s *subject, p *program, t task, n int) error {
	build, err := p.build(t.tool)
	if err != nil {
		return err
	}
	if b.results.count(s.name, p.name, t.part, t.variant, build) > n {
		return nil
	}
	bandwidth, err := cpu.Bandwidth(b.ctx, *threads)
	if err != nil {
		return err
	}
	r := record{Model: s.name, Program: p.name, Tool: t.tool, Part: t.part, Variant: t.variant, Build: build,
		Time: time.Now().UTC().Format(time.RFC3339), Bandwidth: bandwidth, Commit: p.commit}
	ctx, cancel := context.WithTimeout(b.ctx, *limit)
	defer cancel()
	began := time.Now()
	switch t.part {
	case "ready": // a first start brings into the page cache what the second finds there
		unseen := r
		if err = b.server(ctx, s, p, t, &unseen); err == nil {
			err = b.server(ctx, s, p, t, &r)
		}
	case "served":
		err = b.server(ctx, s, p, t, &r)
	default:
		err = b.process(ctx, p, t, &r)
	}
	if err != nil {
		log.Printf("%s, run %d, %s, %s %s: %v", s.name, n+1, p.name, t.part, t.variant, err)
		return b.ctx.Err()
	}
	log.Printf("%s, run %d, %s, %s %s: %v in %.0f s", s.name, n+1, p.name, t.part, t.variant, r.Values, time.Since(began).Seconds())
	return b.results.add(r)
}

func processor() string {
	info, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(info)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return runtime.GOARCH
}
