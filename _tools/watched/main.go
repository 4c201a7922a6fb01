// Command watched measures what it costs a server to be watched while it has as much to do as it
// can: by endpoint pickers that read its metrics every 50 ms, and by a collector of traces that is
// down or never answers. Both ways take turns with the server left alone, turn by turn, so that what
// else the machine does falls on both; the figures are medians of turns beside each other.
//
//	go run ./_tools/watched [-turns 10] [-turn 3s] [-threads 2] [-pickers 8] [-every 50ms] [-only-pickers]
//
// It ends with status 1 where a figure is above its limit (operations.md 12): a scrape in 5 ms at
// the 99th percentile, throughput and requests within 1 %. Needs a quiet machine.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

var (
	turns   = flag.Int("turns", 10, "turns of each kind")
	turn    = flag.Duration("turn", 3*time.Second, "how long one takes")
	threads = flag.Int("threads", runtime.NumCPU(), "threads that compute")
	users   = flag.Int("users", 8, "requests at once")
	pickers = flag.Int("pickers", 8, "endpoint pickers")
	every   = flag.Duration("every", 50*time.Millisecond, "how often each of them reads the metrics")
	plain   = flag.Bool("plain", false, "pickers that do not take gzip")
	only    = flag.Bool("only-pickers", false, "leave the collectors of traces out")
	binary  = flag.String("ossian", "", "the program; it is built without")
	asks    = flag.String("as-pickers", "", "be the pickers, of this URL, from the first line of the input on: for the program itself")
)

// Limits of operations.md 12.
const (
	mostScrape = 5 * time.Millisecond
	mostSlower = 0.01
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("watched: ")
	flag.Parse()
	if *asks != "" {
		bePickers(*asks)
		return
	}
	dir, err := os.MkdirTemp("", "ossian-watched")
	check(err)
	failed := measure(dir)
	check(os.RemoveAll(dir))
	if failed {
		os.Exit(1)
	}
}

// measure measures all, and reports whether a figure is above its limit.
func measure(dir string) (failed bool) {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	program := *binary
	if program == "" {
		program = filepath.Join(dir, "ossian")
		build := exec.Command("go", "build", "-o", program, "./cmd/ossian")
		build.Stderr = os.Stderr
		check(build.Run())
	}
	fmt.Printf("Machine: %s, %d processors; %d threads compute, %d requests at once, medians of %d turns of %v.\n\n",
		processor(), runtime.NumCPU(), *threads, *users, *turns, *turn)
	fmt.Println("Ratios are of a turn that is watched to the one before that is not; CPU is that of the server for a token.")
	fmt.Println()
	fmt.Println("| watched by | tokens/s alone | watched | ratio | ratio of CPU | a scrape, median | 99 % | CPU of who asks |\n|---|---|---|---|---|---|---|---|")
	alone := startServer(ctx, program, dir)
	defer alone.end()
	scraped(ctx, alone, "/ping")
	failed = scraped(ctx, alone, "/metrics")
	if *only {
		return failed
	}
	for _, kind := range []string{"down", "silent", "slow"} {
		collector := newCollector(kind)
		traced := startServer(ctx, program, dir, "OTEL_EXPORTER_OTLP_ENDPOINT="+collector.url)
		failed = compared(ctx, "a collector that is "+kind, alone, traced) || failed
		traced.end()
		collector.end()
	}
	return failed
}

// scraped compares turns of a server with pickers that read a path with turns without. /ping takes a
// server next to nothing: what that costs, a request costs, and who asks, on the same processors.
func scraped(ctx context.Context, s *server, path string) (failed bool) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	go s.load(ctx)
	time.Sleep(*turn / 2) // until it has as much to do as it can
	var pairs pairs
	var took []time.Duration
	var asking time.Duration
	for range *turns {
		before := s.run(nil)
		pickers := startPickers(ctx, s.url+path)
		pairs.add(before, s.run(pickers))
		took, asking = append(took, pickers.took...), asking+pickers.used
	}
	slowest := percentile(took, 0.99)
	fmt.Printf("| %d pickers of %s, every %v | %s | %.2f ms | %.2f ms | %.2f ms |\n", *pickers, path, *every, &pairs, 1000*percentile(took, 0.5).Seconds(), 1000*slowest.Seconds(), 1000*asking.Seconds()/float64(len(took)))
	return slowest > mostScrape || pairs.slower()
}

// Pairs are turns beside each other, without and with those who watch.
type pairs struct{ without, with, rates, costs []float64 }

func (p *pairs) add(before, after result) {
	p.without, p.with = append(p.without, before.rate), append(p.with, after.rate)
	p.rates, p.costs = append(p.rates, after.rate/before.rate), append(p.costs, after.cost/before.cost)
}

// String implements fmt.Stringer: cells of a table.
func (p *pairs) String() string {
	return fmt.Sprintf("%.0f | %.0f | %.4f | %.4f", median(p.without), median(p.with), median(p.rates), median(p.costs))
}

// slower reports whether being watched costs too much: by what was made in a second, and by what a
// token cost, for on a machine that has other work, too, the first is chance.
func (p *pairs) slower() bool {
	return median(p.rates) < 1-mostSlower && median(p.costs) > 1+mostSlower
}

// compared compares turns of two servers.
func compared(ctx context.Context, name string, alone, watched *server) (failed bool) {
	var pairs pairs
	for range *turns {
		before := alone.loaded(ctx)
		pairs.add(before, watched.loaded(ctx))
	}
	fmt.Printf("| %s | %s | | | |\n", name, &pairs)
	return pairs.slower()
}

// processor is what the kernel calls the machine's.
func processor() string {
	text, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return runtime.GOARCH
	}
	for line := range strings.Lines(string(text)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return runtime.GOARCH
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
