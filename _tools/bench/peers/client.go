package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"ossian/internal/bench/scripted"
	"ossian/internal/stat"
)

// A peer is a client under test: a command that takes the arguments of vllm bench serve.
type peer struct {
	name    string
	command []string
}

// A run is what a client wrote into its file, and what it cost.
type run struct {
	TTFTs    []float64
	ITLs     [][]float64
	metrics  map[string]any
	cpu      time.Duration
	perEvent float64 // microseconds of CPU; NaN where there were too few events to tell
	memory   int64   // bytes, at most
	refused  bool    // the client itself says that its numbers cannot be trusted

	// Of the scripted server only:
	errors scripted.Errors
	late   scripted.Spread
	truth  map[string]float64 // metrics by the times of the server
}

// run lets a client send n requests.
func (c *config) run(ctx context.Context, p *peer, t *target, n int) (*run, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	file := p.name + ".json"
	_ = os.Remove(filepath.Join(c.dir, file)) // of an earlier run
	prompts := filepath.Join(c.dir, "prompts.json")
	if err := writePrompts(prompts, n); err != nil {
		return nil, err
	}
	args := append(p.command[1:len(p.command):len(p.command)],
		"--backend", "openai", "--base-url", t.url, "--endpoint", "/v1/completions", "--model", t.model, "--ignore-eos",
		"--tokenizer", c.tokenizer, "--dataset-name", "sharegpt", "--dataset-path", prompts, "--sharegpt-output-len", strconv.Itoa(t.tokens),
		"--seed", "42", "--num-prompts", strconv.Itoa(n), "--request-rate", strconv.Itoa(max(n/2, 1)), "--disable-tqdm",
		"--percentile-metrics", "ttft,tpot,itl,e2el", "--save-result", "--save-detailed", "--result-dir", c.dir, "--result-filename", file)
	cmd := exec.CommandContext(ctx, p.command[0], args...)
	log, err := os.Create(filepath.Join(c.dir, p.name+".log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	memory := watch(cmd.Process.Pid)
	ended := cmd.Wait()
	r := &run{refused: ended != nil, cpu: cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(), memory: memory()}
	text, err := os.ReadFile(filepath.Join(c.dir, file))
	if err == nil {
		err = errors.Join(json.Unmarshal(text, r), json.Unmarshal(text, &r.metrics))
	}
	if err != nil {
		return nil, fmt.Errorf("%s: no result: %w; it says in %s", p.name, errors.Join(ended, err), log.Name())
	}
	return r, nil
}

// watch looks ten times a second how much memory a process has had, until it is asked.
// What wait4 says of that begins with the memory of the process that started it.
func watch(pid int) (most func() int64) {
	stop, out := make(chan struct{}), make(chan int64)
	go func() {
		var most int64
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for {
			text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid)) // gone = as before
			if _, rest, ok := strings.Cut(string(text), "VmHWM:"); ok {
				if kb, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64); err == nil {
					most = max(most, kb<<10)
				}
			}
			select {
			case <-stop:
				out <- most
				return
			case <-tick.C:
			}
		}
	}()
	return func() int64 { close(stop); return <-out }
}

// writePrompts writes n short conversations in ShareGPT's format, no two of which begin alike.
func writePrompts(file string, n int) error {
	type turn struct {
		From  string `json:"from"`
		Value string `json:"value"`
	}
	all := make([]struct {
		Conversations []turn `json:"conversations"`
	}, n)
	for i := range all {
		all[i].Conversations = []turn{{"human", fmt.Sprintf("%d apples lie in the barn, and %d more on the cart. How many are there in all?", 17*i+3, 1000+i)},
			{"gpt", "There are as many as both numbers make together, which one finds by adding them up."}}
	}
	text, err := json.Marshal(all)
	if err != nil {
		return err
	}
	return os.WriteFile(file, text, 0o644)
}

// events counts those with a token that the client saw.
func (r *run) events() (n int) {
	for i, gaps := range r.ITLs {
		if r.TTFTs[i] > 0 {
			n += 1 + len(gaps)
		}
	}
	return n
}

// seen is what the client says of its requests, in their order. Requests without a first
// token failed.
func (r *run) seen() []scripted.Seen {
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

// judge compares r with what the server wrote down.
func (r *run) judge(log *scripted.Log) {
	r.errors, r.late = log.Compare(r.seen()), log.Lateness()
	var ttft, tpot, itl, e2el []float64
	for i := range log.Records {
		sends := log.Records[i].Sends
		if len(sends) == 0 {
			continue
		}
		first := ms(log.Records[i].TTFT())
		whole := ms(sends[len(sends)-1].Actual - sends[0].Actual)
		ttft, e2el = append(ttft, first), append(e2el, first+whole)
		for j := range sends[1:] {
			itl = append(itl, ms(sends[j+1].Actual-sends[j].Actual))
		}
		if len(sends) > 1 {
			tpot = append(tpot, whole/float64(len(sends)-1))
		}
	}
	r.truth = map[string]float64{}
	for name, values := range map[string][]float64{"ttft": ttft, "tpot": tpot, "itl": itl, "e2el": e2el} {
		if len(values) == 0 {
			continue
		}
		values = stat.Sorted(values)
		r.truth["mean_"+name+"_ms"], r.truth["median_"+name+"_ms"] = stat.Mean(values), stat.Percentile(values, 50)
		r.truth["p99_"+name+"_ms"], r.truth["std_"+name+"_ms"] = stat.Percentile(values, 99), stat.Std(values)
	}
}

func ms(d time.Duration) float64 { return float64(d) / 1e6 }
