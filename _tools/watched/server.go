package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// A server is the program in a process of its own.
type server struct {
	*exec.Cmd
	url    string
	client *http.Client
}

// startServer starts one with the built-in model and waits until it is ready.
func startServer(ctx context.Context, program, dir string, env ...string) *server {
	args := []string{"serve", "--port", "0", "--store", "memory", "--no-access-log", "--threads", strconv.Itoa(*threads), "--max-num-seqs", strconv.Itoa(*users)}
	s := &server{Cmd: exec.CommandContext(ctx, program, args...), client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: *users, DisableCompression: true}}}
	s.Env, s.Dir = append(os.Environ(), env...), dir
	out, err := s.StderrPipe()
	check(err)
	check(s.Start())
	lines := bufio.NewScanner(out)
	for s.url == "" && lines.Scan() {
		if url, ok := strings.CutPrefix(lines.Text(), "listening on "); ok {
			s.url = url
		}
	}
	if s.url == "" {
		log.Fatalf("%s %s: it ended", program, strings.Join(args, " "))
	}
	go func() { _, _ = io.Copy(io.Discard, out) }() // until it ends
	for {
		if reply, err := s.client.Get(s.url + "/ready"); err == nil {
			reply.Body.Close()
			if reply.StatusCode == http.StatusOK {
				return s
			}
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// end ends it.
func (s *server) end() {
	check(s.Process.Signal(syscall.SIGTERM))
	check(s.Wait())
}

// load keeps as many requests at work as there are users, until ctx ends.
func (s *server) load(ctx context.Context) {
	var asking sync.WaitGroup
	for user := range *users {
		asking.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				body := fmt.Sprintf(`{"prompt":"%d and %d and","max_tokens":200,"ignore_eos":true,"seed":%d}`, user, i, i)
				request, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+"/v1/completions", strings.NewReader(body))
				check(err)
				request.Header.Set("Content-Type", "application/json")
				reply, err := s.client.Do(request)
				if err != nil {
					if ctx.Err() == nil {
						log.Fatal(err)
					}
					return
				}
				if reply.StatusCode != http.StatusOK {
					log.Fatalf("status %s", reply.Status)
				}
				_, _ = io.Copy(io.Discard, reply.Body) // cut when the turn is over
				reply.Body.Close()
			}
		})
	}
	asking.Wait()
}

// A result is what became of a turn.
type result struct {
	rate float64 // tokens a second
	cost float64 // seconds of processors for a thousand tokens, of the server alone
}

// settle is how long nobody asks for metrics before they are read, so that they are new.
const settle = 100 * time.Millisecond

// run takes a turn of a server that has work, with pickers if there are any.
func (s *server) run(watching *pickersProcess) result {
	time.Sleep(settle)
	before, used, began := s.tokens(), s.used(), time.Now()
	if watching == nil {
		time.Sleep(*turn)
	} else {
		watching.turn()
	}
	time.Sleep(settle)
	took, tokens := time.Since(began), float64(s.tokens()-before)
	return result{rate: tokens / took.Seconds(), cost: 1000 * (s.used() - used) / tokens}
}

// used is how many seconds of processors the server has used (proc_pid_stat(5), in units of 10 ms).
func (s *server) used() float64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.Process.Pid))
	check(err)
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')'):]))
	user, err := strconv.ParseFloat(fields[12], 64)
	check(err)
	system, err := strconv.ParseFloat(fields[13], 64)
	check(err)
	return (user + system) / 100
}

// loaded takes a turn of a server that has work in it alone.
func (s *server) loaded(ctx context.Context) result {
	ctx, stop := context.WithCancel(ctx)
	var working sync.WaitGroup
	working.Go(func() { s.load(ctx) })
	time.Sleep(*turn / 10)
	got := s.run(nil)
	stop()
	working.Wait()
	return got
}

// tokens is how many tokens were generated.
func (s *server) tokens() (generated int) {
	reply, err := s.client.Get(s.url + "/metrics")
	check(err)
	defer reply.Body.Close()
	text, err := io.ReadAll(reply.Body)
	check(err)
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "vllm:generation_tokens_total{") {
			value, err := strconv.ParseFloat(strings.TrimSpace(line[strings.LastIndexByte(line, ' '):]), 64)
			check(err)
			generated = int(value)
		}
	}
	return generated
}

// A collector is where traces are sent, and what becomes of them there.
type collector struct {
	url string
	end func()
}

// newCollector returns one that is down, silent (it accepts connections and never answers), or slow
// (it answers after two seconds).
func newCollector(kind string) collector {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(err)
	url := "http://" + listener.Addr().String()
	switch kind {
	case "down":
		check(listener.Close())
		return collector{url, func() {}}
	case "silent":
		return collector{url, func() { check(listener.Close()) }}
	}
	slow := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		time.Sleep(2 * time.Second)
		w.WriteHeader(http.StatusOK)
	})}
	go func() { _ = slow.Serve(listener) }() // until it is closed
	return collector{url, func() { check(slow.Close()) }}
}

// percentile is the value below which a share of all is.
func percentile(all []time.Duration, share float64) time.Duration {
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return all[min(int(float64(len(all))*share), len(all)-1)]
}

// median is that of values, of an even number the mean of the two in the middle.
func median(values []float64) float64 {
	slices.Sort(values)
	return (values[(len(values)-1)/2] + values[len(values)/2]) / 2
}
