// Command performance measures whole models with the program as users run it and
// writes docs/evidence/performance.md's tables to standard output:
//
//	go run ./_tools/performance [-presets gpt-oss-20b,…] [-runs 3] [-settings '|--cpu-weights bf16'] > docs/evidence/performance.md
//
// Settings take turns, run by run. Checkpoints have random weights and the exact shapes; they are written once to
// -dir. Every run is a process of its own; the memory bandwidth is measured before
// each, so that a slow neighbour shows. Needs free memory for the model and a quiet
// machine.
package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"ossian/internal/cpu"
	"ossian/internal/cpu/kern"
)

var (
	presets = flag.String("presets", "gpt-oss-20b,qwen3-0.6b", "synthetic models, comma-separated")
	dir     = flag.String("dir", "models", "where checkpoints are or are written")
	runs    = flag.Int("runs", 3, "processes per line")
	words   = flag.String("prompts", "16,128,512", "approximate prompt lengths in tokens")
	output  = flag.Int("output", 32, "tokens to decode")
	flags   = flag.String("settings", "", "sets of flags of ossian run to compare, separated by |")
	window  = flag.Int("context", 4096, "--max-model-len")
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("performance: ")
	flag.Parse()
	tmp, err := os.MkdirTemp("", "ossian-performance")
	check(err)
	defer os.RemoveAll(tmp)
	bin := filepath.Join(tmp, "ossian")
	check(command("go", "build", "-o", bin, "./cmd/ossian").Run())
	fmt.Printf("# Performance\n\nMeasured by `go run ./_tools/performance`: random weights, exact shapes, one process per run, whose first prompt this is, medians of %d with the range. The first start of a large model packs its weights into a file beside it (the longest load), later ones map that.\n\n", *runs)
	fmt.Printf("Machine: %s, %d processors, %s; %s.\n\n", processor(), runtime.NumCPU(), kern.Detect(), runtime.Version())
	for preset := range strings.SplitSeq(*presets, ",") {
		if preset == "" {
			continue
		}
		model := filepath.Join(*dir, preset)
		if _, err := os.Stat(model); err != nil {
			check(command(bin, "synth", preset, model).Run())
		}
		measure(bin, preset, model)
	}
	c := command(bin, "bench", "kernels")
	c.Stdout = nil
	kernels, err := c.Output()
	check(err)
	fmt.Printf("## Kernels\n\n`ossian bench kernels`:\n\n```\n%s```\n", kernels)
}

// A run is what one process reported.
type run struct {
	prompt, prefill, decode, ttft, load float64
	peak                                float64 // bytes
	bandwidth                           float64 // bytes per second, just before
}

func measure(bin, preset, model string) {
	settings := strings.Split(*flags, "|")
	fmt.Printf("## %s\n\nPlanned memory with %d tokens of context:", preset, *window)
	plans := make([]float64, len(settings))
	for i, set := range settings {
		plans[i] = planned(bin, model, strings.Fields(set))
		fmt.Printf(" %.2f GB (%s)", plans[i]/1e9, cmp.Or(set, "default"))
	}
	fmt.Print("; keys, values and step buffers are touched as they fill.\n\n")
	fmt.Println("| prompt tokens | settings | prefill t/s | decode t/s | TTFT s | load s | peak memory GB (of plan) | read limit GB/s |")
	fmt.Println("|---|---|---|---|---|---|---|---|")
	for field := range strings.SplitSeq(*words, ",") {
		n, err := strconv.Atoi(field)
		check(err)
		sets := make([][]run, len(settings))
		for range *runs {
			for i, set := range settings {
				sets[i] = append(sets[i], once(bin, model, text(n), strings.Fields(set)))
				log.Printf("%s %s: %+v", preset, set, sets[i][len(sets[i])-1])
			}
		}
		for i, all := range sets {
			col := func(f func(run) float64, format string) string { return spread(all, f, format) }
			fmt.Printf("| %.0f | %s | %s | %s | %s | %s | %s (%.0f %%) | %s |\n", all[0].prompt, cmp.Or(settings[i], "default"),
				col(func(r run) float64 { return r.prefill }, "%.1f"), col(func(r run) float64 { return r.decode }, "%.2f"),
				col(func(r run) float64 { return r.ttft }, "%.2f"), col(func(r run) float64 { return r.load }, "%.2f"),
				col(func(r run) float64 { return r.peak / 1e9 }, "%.2f"), 100*median(all, func(r run) float64 { return r.peak })/plans[i],
				col(func(r run) float64 { return r.bandwidth / 1e9 }, "%.1f"))
		}
	}
	fmt.Println()
}

var last = regexp.MustCompile(`prompt (\d+) tokens, ([\d.]+) tokens/s · output \d+ tokens, ([\d.]+) tokens/s · TTFT ([\d.]+) s.* load ([\d.]+) s`)

func once(bin, model, prompt string, settings []string) run {
	bandwidth, err := cpu.Bandwidth(context.Background(), 0)
	check(err)
	args := []string{"run", model, prompt, "--raw", "--ignore-eos", "--max-tokens", strconv.Itoa(*output),
		"--max-model-len", strconv.Itoa(*window), "--temperature", "0"}
	c := command(bin, append(args, settings...)...)
	var status bytes.Buffer
	c.Stderr, c.Stdout = &status, nil
	check(c.Run())
	m := last.FindStringSubmatch(status.String())
	if m == nil {
		log.Fatalf("no last line in %q", status.String())
	}
	f := make([]float64, len(m))
	for i, s := range m[1:] {
		f[i], err = strconv.ParseFloat(s, 64)
		check(err)
	}
	return run{prompt: f[0], prefill: f[1], decode: f[2], ttft: f[3], load: f[4], bandwidth: bandwidth,
		peak: float64(c.ProcessState.SysUsage().(*syscall.Rusage).Maxrss) * 1024}
}

// planned returns the bytes that inspect plans for one sequence. Of the settings it
// knows --cpu-weights.
func planned(bin, model string, settings []string) float64 {
	args := []string{"inspect", model, "--json", "--max-model-len", strconv.Itoa(*window)}
	if i := slices.Index(settings, "--cpu-weights"); i >= 0 {
		args = append(args, settings[i:i+2]...)
	}
	c := command(bin, args...)
	c.Stdout = nil
	out, err := c.Output()
	check(err)
	var r struct {
		Plan struct {
			Total float64 `json:"total_bytes"`
		}
	}
	check(json.Unmarshal(out, &r))
	return r.Plan.Total
}

// text returns words with about n tokens, the same ones each time.
func text(n int) string {
	r := rand.New(rand.NewPCG(1, uint64(n)))
	vocabulary := strings.Fields("the water of a house under night when people think about green places and write long letters to their friends")
	var b strings.Builder
	for range n {
		b.WriteString(" " + vocabulary[r.IntN(len(vocabulary))])
	}
	return b.String()
}

func column(all []run, f func(run) float64) []float64 {
	xs := make([]float64, len(all))
	for i, r := range all {
		xs[i] = f(r)
	}
	slices.Sort(xs)
	return xs
}

func median(all []run, f func(run) float64) float64 { return column(all, f)[len(all)/2] }

func spread(all []run, f func(run) float64, format string) string {
	xs := column(all, f)
	return fmt.Sprintf(format+" ("+format+"–"+format+")", xs[len(xs)/2], xs[0], xs[len(xs)-1])
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

func command(name string, args ...string) *exec.Cmd {
	c := exec.Command(name, args...)
	c.Stderr, c.Stdout = os.Stderr, os.Stderr
	return c
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
