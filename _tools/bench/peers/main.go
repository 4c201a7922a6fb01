// Command peers lets several clients measure the same server and prints what each says.
// Run it through peers.sh, which makes what it needs.
//
// Against scripted servers it knows the truth and prints each client's error. With -live
// it prints the metrics that each client reports of that server.
package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"ossian/internal/bench/scripted"
)

// A peer is a client under test: a command that takes the arguments of vllm bench serve.
type peer struct {
	name    string
	command []string
}

type config struct {
	dir, live, model, tokenizer string
	streams                     []int
	tokens                      int
	gap                         time.Duration
	peers                       []peer
}

func main() {
	var c config
	dir := flag.String("dir", "", "where peers.sh put the clients")
	streams := flag.String("streams", "1,100,1000", "streams at once")
	names := flag.String("clients", "ossian,vllm,vllm-rs", "which to run")
	flag.IntVar(&c.tokens, "tokens", 500, "of each stream")
	flag.DurationVar(&c.gap, "gap", 10*time.Millisecond, "between the tokens of a stream")
	flag.StringVar(&c.live, "live", "", "`URL` of a real server to measure instead")
	flag.StringVar(&c.model, "model", "scripted", "that the server serves")
	flag.StringVar(&c.tokenizer, "tokenizer", "", "`FOLDER` with the tokenizer of that model; default gpt-oss's")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := c.fill(*dir, *streams, *names)
	if err == nil && c.live != "" {
		err = c.compareLive(ctx)
	} else if err == nil {
		err = c.compareScripted(ctx)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "peers:", err)
		os.Exit(1)
	}
}

func (c *config) fill(dir, streams, names string) error {
	c.dir = dir
	for _, s := range strings.Split(streams, ",") {
		n, err := strconv.Atoi(s)
		if err != nil || n < 1 {
			return fmt.Errorf("-streams %s: expected numbers from 1", streams)
		}
		c.streams = append(c.streams, n)
	}
	known := map[string][]string{
		"ossian":  {filepath.Join(dir, "ossian"), "bench", "serve"},
		"vllm":    {filepath.Join(dir, "venv/bin/python"), "_tools/bench/peers/vllm_client.py", filepath.Join(dir, "wheel")},
		"vllm-rs": {filepath.Join(dir, "wheel/vllm/vllm-rs"), "bench", "serve"},
	}
	for _, name := range strings.Split(names, ",") {
		command, ok := known[name]
		if !ok {
			return fmt.Errorf("-clients %s: expected some of ossian, vllm, vllm-rs", names)
		}
		c.peers = append(c.peers, peer{name, command})
	}
	return nil
}

// A result is what a client wrote into its file.
type result struct {
	TTFTs   []float64
	ITLs    [][]float64
	Metrics map[string]any
	cpu     time.Duration
	memory  int64 // bytes
	wall    time.Duration
	refused bool // the client itself says that its numbers cannot be trusted
}

// run lets p measure the server at url with n requests.
func (c *config) run(ctx context.Context, p peer, url string, n, tokens int) (*result, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	file := p.name + ".json"
	_ = os.Remove(filepath.Join(c.dir, file)) // of an earlier run
	args := append(p.command[1:len(p.command):len(p.command)],
		"--backend", "openai", "--base-url", url, "--endpoint", "/v1/completions", "--model", c.model,
		"--tokenizer", cmp.Or(c.tokenizer, filepath.Join(c.dir, "gpt-oss")), "--dataset-name", "random", "--random-input-len", "32", "--random-output-len", strconv.Itoa(tokens),
		"--seed", "42", "--num-prompts", strconv.Itoa(n), "--request-rate", strconv.Itoa(max(n/2, 1)), "--disable-tqdm",
		"--percentile-metrics", "ttft,tpot,itl,e2el", "--save-result", "--save-detailed", "--result-dir", c.dir, "--result-filename", file)
	cmd := exec.CommandContext(ctx, p.command[0], args...)
	log, err := os.Create(filepath.Join(c.dir, p.name+".log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	began := time.Now()
	ended := cmd.Run()
	if cmd.ProcessState == nil {
		return nil, ended
	}
	r := &result{refused: ended != nil, wall: time.Since(began), cpu: cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()}
	if u, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
		r.memory = u.Maxrss << 10
	}
	text, err := os.ReadFile(filepath.Join(c.dir, file))
	if err == nil {
		err = errors.Join(json.Unmarshal(text, r), json.Unmarshal(text, &r.Metrics))
	}
	if err != nil {
		return nil, fmt.Errorf("%s: no result: %w; it says in %s", p.name, errors.Join(ended, err), log.Name())
	}
	return r, nil
}

// seen is what the client says of its requests, in their order. Requests without a first
// token failed.
func (r *result) seen() []scripted.Seen {
	var out []scripted.Seen
	for i, ttft := range r.TTFTs {
		if ttft == 0 {
			continue
		}
		s := scripted.Seen{Index: i, TTFT: seconds(ttft)}
		for _, gap := range r.ITLs[i] {
			s.Gaps = append(s.Gaps, seconds(gap))
		}
		out = append(out, s)
	}
	return out
}

func seconds(s float64) time.Duration { return time.Duration(s * 1e9) }

// serve starts a scripted server in a process of its own.
func (c *config) serve(ctx context.Context) (url string, stop func(), err error) {
	cmd := exec.CommandContext(ctx, filepath.Join(c.dir, "ossian"), "bench", "scripted", "--port", "0", "--gap", c.gap.String())
	cmd.Stderr = os.Stderr
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		return "", nil, err
	}
	if err := cmd.Start(); err != nil {
		return "", nil, err
	}
	stop = func() {
		_ = cmd.Process.Signal(os.Interrupt)
		_ = cmd.Wait() // how it ends says nothing about the clients
	}
	line, err := bufio.NewReader(pipe).ReadString('\n')
	url, ok := strings.CutPrefix(strings.TrimSpace(line), "listening on ")
	if !ok {
		stop()
		return "", nil, errors.Join(fmt.Errorf("scripted server: said %q, expected its address", line), err)
	}
	return url, stop, nil
}

func (c *config) compareScripted(ctx context.Context) error {
	url, stop, err := c.serve(ctx)
	if err != nil {
		return err
	}
	defer stop()
	fmt.Printf("%d tokens per stream, one every %v. CPU is that of the process less what it needs for one request of one token; * = the client says itself that its numbers cannot be trusted.\n", c.tokens, c.gap)
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "streams\tclient\trequests\tlost\tTTFT error, mean ms\tp99\tITL error, p50 ms\tp99\tmax\tCPU µs/event\tMB\twall s\tserver late, p99 ms\t")
	for _, n := range c.streams {
		for _, p := range c.peers {
			base, err := c.run(ctx, p, url, 1, 1)
			if err != nil {
				return err
			}
			if err := scripted.Forget(ctx, url); err != nil {
				return err
			}
			r, err := c.run(ctx, p, url, n, c.tokens)
			if err != nil {
				return err
			}
			log, err := scripted.Fetch(ctx, url)
			if err != nil {
				return err
			}
			name := p.name
			if r.refused {
				name += "*"
			}
			e, late := log.Compare(r.seen()), log.Lateness()
			fmt.Fprintf(w, "%d\t%s\t%d\t%d\t%s\t%s\t%s\t%s\t%s\t%s\t%d\t%.1f\t%s\t\n", n, name, e.Requests, e.Missed,
				ms(e.TTFT.Mean), ms(e.TTFT.P99), ms(e.Gap.P50), ms(e.Gap.P99), ms(e.Gap.Max),
				perEvent(r.cpu-base.cpu, e.Events), r.memory/1e6, r.wall.Seconds(), ms(late.P99))
		}
	}
	return w.Flush()
}

// perEvent is the CPU time per event. Loading a tokenizer takes seconds, give or take:
// that of few events drowns in it.
func perEvent(cpu time.Duration, events int) string {
	if events < 20_000 {
		return "-"
	}
	return fmt.Sprintf("%.2f", float64(cpu)/1e3/float64(events))
}

func ms(d time.Duration) string { return fmt.Sprintf("%.3f", float64(d)/1e6) }

// compareLive prints what each client reports of a real server.
func (c *config) compareLive(ctx context.Context) error {
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	defer w.Flush()
	for _, n := range c.streams {
		results := make([]*result, len(c.peers))
		fmt.Fprintf(w, "%d requests\t", n)
		for i, p := range c.peers {
			fmt.Fprintf(w, "%s\t", p.name)
			var err error
			if results[i], err = c.run(ctx, p, c.live, n, c.tokens); err != nil {
				return err
			}
		}
		fmt.Fprintln(w)
		for _, m := range []string{"duration", "completed", "total_input_tokens", "total_output_tokens", "request_throughput", "output_throughput",
			"total_token_throughput", "mean_ttft_ms", "median_ttft_ms", "p99_ttft_ms", "mean_tpot_ms", "median_tpot_ms", "p99_tpot_ms",
			"mean_itl_ms", "median_itl_ms", "p99_itl_ms", "mean_e2el_ms", "p99_e2el_ms", "max_concurrent_requests"} {
			fmt.Fprintf(w, "%s\t", m)
			for _, r := range results {
				fmt.Fprintf(w, "%v\t", r.Metrics[m])
			}
			fmt.Fprintln(w)
		}
	}
	return nil
}
