//go:build !race

// The race detector takes several times the memory that these tests measure.

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ossian/internal/command/commandtest"
	"ossian/internal/plan"
	"ossian/internal/soak"
	"ossian/internal/synth"
	"ossian/internal/tensor"
)

// A printedPlan is the log's line of that name.
type printedPlan struct {
	Available, Total, Weights, Mapped, Activations, Runtime, Connections, Replies, Grammars int64
	KV                                                                                      int64 `json:"kv_cache"`
	MaxLen                                                                                  int   `json:"max_model_len"`
	MaxSeqs                                                                                 int   `json:"max_num_seqs"`
}

// requests is the part of the plan that is room for the program and its requests.
func (p *printedPlan) requests() int64 { return p.Runtime + p.Connections + p.Replies + p.Grammars }

// plan waits for the memory plan and has the kernel refuse private memory far beyond
// it. RLIMIT_DATA needs no privilege, but counts what is mapped, not what is in use:
// Go's arenas of 64 MiB, their index, and what the heap has given back come on top.
// That use stays within 5 % of the plan is what watch is for.
func (p *process) plan() (found printedPlan) {
	p.t.Helper()
	p.eventually(time.Minute, "there is a plan", func() bool {
		for line := range strings.Lines(p.log.String()) {
			if strings.Contains(line, `"memory plan"`) && json.Unmarshal([]byte(line), &found) == nil {
				return true
			}
		}
		return false
	})
	limit := uint64(found.Total+found.requests())/100*105 + 160<<20
	if err := unix.Prlimit(p.Process.Pid, unix.RLIMIT_DATA, &unix.Rlimit{Cur: limit, Max: limit}, nil); err != nil {
		p.t.Fatal(err)
	}
	return found
}

// watch follows the memory of p until the test calls the returned function, which
// tells the most it held of what the kernel cannot take back: anonymous pages, and
// file pages as far as the plan counts mapped weights. Others (the program, source
// pages of weights that are copied, rows of an embedding table) are clean and leave
// when memory is short, which is why VmHWM would count too much.
func (p *process) watch(mapped int64) func() int64 {
	var most int64
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.Process.Pid))
			most = max(most, kilobytes(status, "RssAnon")+kilobytes(status, "RssShmem")+min(kilobytes(status, "RssFile"), mapped))
			select {
			case <-stop:
				return
			case <-time.After(2 * time.Millisecond):
			}
		}
	}()
	return func() int64 {
		close(stop)
		<-ended
		return most
	}
}

func kilobytes(status []byte, name string) int64 {
	_, after, _ := bytes.Cut(status, []byte("\n"+name+":"))
	line, _, _ := bytes.Cut(after, []byte(" kB"))
	n, _ := strconv.ParseInt(string(bytes.TrimSpace(line)), 10, 64)
	return n << 10
}

// A memoryCase is a checkpoint and how it is served.
type memoryCase struct {
	name  string
	model synth.Model
	write synth.Options
	kv    string
	len   int
	seqs  int
}

// memoryCases returns n of them: families, containers, weights, keys and values,
// contexts and numbers of sequences take turns in steps that have no common divisor.
func memoryCases(t *testing.T, n int) (all []memoryCase) {
	t.Helper()
	presets := []string{"gpt-oss-tiny", "smollm2-135m", "qwen3moe-tiny", "qwen3-wide-tiny", "llama3-tiny"}
	kinds := []synth.Options{{Type: tensor.BF16}, {Format: synth.GGUF, Type: tensor.Q8_0}, {Type: tensor.F16}, {Format: synth.GGUF, Type: tensor.Q4_0}, {Type: tensor.F32},
		{Format: synth.GGUF, Type: tensor.BF16}, {Format: synth.GGUF, Type: tensor.MXFP4}}
	for i := range n {
		m, err := synth.Preset(presets[i%len(presets)])
		if err != nil {
			t.Fatal(err)
		}
		if m.Name == "smollm2-135m" {
			m = m.Shorten(4 + i%5) // its vocabulary is 57 MB as it is
		} else { // larger, so that it is weights and not the runtime that count
			m.Hidden, m.FFN.Inner, m.Vocab, m.Text = 512, 512+128*(i%4), m.Vocab+16384, m.Text+16384
			m.Heads, m.KVHeads, m.HeadDim = 8, 8, 64 // keys and values are a good part of the whole
			if m.FFN.Experts == 0 {
				m.FFN.Inner *= 4
			}
		}
		c := memoryCase{model: m, write: kinds[i%len(kinds)], kv: []string{"bf16", "fp8", "f32"}[i%3], len: []int{512, 1024, 256, 1536}[i%4], seqs: []int{4, 12, 1, 8, 3}[i/2%5]}
		c.write.Model, c.write.Seed = m, uint64(i)
		c.name = fmt.Sprintf("%s %v %s %d x %d", m.Name, c.write.Type, c.kv, c.len, c.seqs)
		all = append(all, c)
	}
	return all
}

// args returns the arguments of serve. Requests have little to send, so that the
// heap's room for them does not hide what is compared.
func (c *memoryCase) args(path string) []string {
	return []string{path, "--threads", "1", "--kv-cache-dtype", c.kv, "--max-model-len", strconv.Itoa(c.len), "--max-num-seqs", strconv.Itoa(c.seqs),
		"--limit", "request-body=1Mi", "--limit", "bodies-in-flight=2Mi", "--limit", "connections=32", "--limit", "pending-output=4Ki", "--limit", "replies-in-flight=64Ki", "--limit", "stored-memory=64Ki", "--limit", "grammar-cache=64Ki", "--log-format", "json"}
}

// idle is what a Go server with a tokenizer of these sizes takes before it has a
// weight. The plan's parts for the runtime, connections, replies and grammars are room for
// requests, far more than the few here need; with this in their place peak and plan agree
// within 5 % of the plan.
const idle = 12 << 20

// TestADM1Memory serves synthetic checkpoints at the limits of their plans and
// compares what the plan says with what the process takes.
func TestADM1Memory(t *testing.T) {
	t.Setenv("GOGC", "25") // what is compared is what is in use, with little garbage beside it
	low, high := math.Inf(1), math.Inf(-1)
	slowest := time.Duration(0)
	refused := 0
	cases := memoryCases(t, soak.Cases(t, 2, 50))
	for i, c := range cases {
		path := filepath.Join(t.TempDir(), "model")
		if c.write.Format == synth.GGUF {
			path += ".gguf"
		}
		if err := synth.Write(t.Context(), path, c.write, nil); err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		p := serveProcess(t, c.args(path)...)
		found := p.plan()
		peak := p.watch(found.Mapped)
		p.ready()
		p.fill(t, found)
		most := peak()
		p.quit(p.terminate)
		off := float64(most-(found.Total-found.requests()+idle)) / float64(found.Total)
		low, high = min(low, off), max(high, off)
		t.Logf("%s: plan %d MB, %d MB of it for the runtime and requests, peak %d MB", c.name, found.Total/1e6, found.requests()/1e6, most/1e6)
		if math.Abs(off) > 0.05 || most > found.Total {
			t.Errorf("%s: %d bytes taken, off by %.1f %% of the plan: %+v", c.name, most, 100*off, found)
		}
		if i%3 == 0 {
			slowest = max(slowest, c.refused(t, path, found))
			refused++
		}
		if err := os.RemoveAll(path); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("ADM-1: %d configurations, peak %+.1f to %+.1f %% off the plan, %d that do not fit refused after %v at most", len(cases), 100*low, 100*high, refused, slowest)
	if commandtest.Soaking() && slowest > 2*time.Second {
		t.Errorf("refused after %v, at most 2 s wanted", slowest)
	}
}

// fill has as many sequences as run at once, and two more, grow as long as they may: no
// two begin alike, so none finds its keys and values in the cache.
func (p *process) fill(t *testing.T, found printedPlan) {
	t.Helper()
	var all sync.WaitGroup
	for i := range found.MaxSeqs + 2 {
		all.Go(func() {
			ids := strings.Repeat(fmt.Sprintf("%d,", 100+i%200), found.MaxLen-17)
			r, err := http.Post(p.url+"/v1/completions", "application/json", strings.NewReader(fmt.Sprintf(`{"prompt":[%s7],"max_tokens":16,"ignore_eos":true}`, ids)))
			if err != nil {
				t.Error(err)
				return
			}
			defer r.Body.Close()
			if body, _ := io.ReadAll(r.Body); r.StatusCode != http.StatusOK {
				t.Errorf("status %d: %s", r.StatusCode, body)
			}
		})
	}
	all.Wait()
}

// refused serves with the largest context and less memory than that takes: the
// process ends with what fits, and that does fit. It returns how long it took. What is
// available changes while others work: what goes otherwise while it does is tried again.
func (c *memoryCase) refused(t *testing.T, path string, found printedPlan) time.Duration {
	t.Helper()
	long := *c
	room := found.KV / int64(found.MaxSeqs) * 3 / 4 // one sequence of three quarters of the case's context
	var least, most int64                           // available in a try
	look := func() int64 {
		now := plan.Available()
		least, most = min(least, now), max(most, now)
		return now
	}
	run := func() (string, time.Duration) {
		share := float64(found.Total-found.KV+room) / float64(look())
		cmd := commandtest.Program(t, append([]string{"serve", "--port", "0", "--gpu-memory-utilization", strconv.FormatFloat(share, 'f', 9, 64)}, long.args(path)...)...)
		log := &commandtest.Console{}
		cmd.Stderr = log
		began := time.Now()
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait() }()
		for deadline := time.After(time.Minute); ; {
			select {
			case err := <-ended:
				if err == nil {
					t.Errorf("%s: exit 0", c.name)
				}
				return log.String(), time.Since(began)
			case <-deadline:
				t.Error("neither refused nor planned within a minute")
				return "", 0
			case <-time.After(time.Millisecond):
			}
			look()
			if strings.Contains(log.String(), `"memory plan"`) {
				_ = cmd.Process.Kill()
				<-ended
				return "", 0
			}
		}
	}
	try := func() (took time.Duration, wrong string) {
		least, most, long.len = math.MaxInt64, 0, long.model.MaxLen
		out, took := run()
		fits := regexp.MustCompile(`what fits: --max-model-len (\d+)`).FindStringSubmatch(out)
		if fits == nil || !strings.Contains(out, "does not fit into memory") {
			return took, fmt.Sprintf("with %d tokens of context: %q, want what fits", long.len, out)
		}
		named, _ := strconv.Atoi(fits[1])
		for _, c := range []struct {
			len  int
			fits bool
		}{{named / 2, true}, {2*named + 64, false}} {
			long.len = c.len
			if out, _ := run(); (out == "") != c.fits {
				return took, fmt.Sprintf("%d tokens were said to fit; %d: %q", named, c.len, out)
			}
		}
		return took, ""
	}
	for left := 4; ; left-- {
		took, wrong := try()
		if wrong == "" {
			return took
		}
		off := float64(most-least) / float64(least)
		if off < 0.002 || left == 0 { // a fifth of the room that is left, about
			t.Errorf("%s: with memory that changed by %.2f %%: %s", c.name, 100*off, wrong)
			return took
		}
		t.Logf("%s: memory changed by %.2f %%, tried again: %s", c.name, 100*off, wrong)
	}
}

// TestADM2Memory attacks a server whose memory is limited to its plan: the largest
// bodies of every kind, all streams at their full length, replies with everything
// in them. It must live, within the plan.
func TestADM2Memory(t *testing.T) {
	const seqs = 32
	length := time.Duration(soak.Cases(t, 4, 600)) * time.Second
	p := serveProcess(t, "--max-num-seqs", fmt.Sprint(seqs), "--log-format", "json")
	found := p.plan()
	peak := p.watch(found.Mapped)
	p.ready()
	attacks := hostile()
	ctx, stop := context.WithTimeout(t.Context(), length)
	defer stop()
	began := time.Now()
	var clients sync.WaitGroup
	var sent, answered, largest atomic.Int64
	for i := range 4 * seqs {
		clients.Go(func() {
			random := rand.New(rand.NewPCG(1, uint64(i)))
			client := &http.Client{Transport: &http.Transport{DisableKeepAlives: i%2 == 0}}
			defer client.CloseIdleConnections()
			for ctx.Err() == nil {
				a := attacks[len(attacks)-1-i/4%4] // most ask for much of the model
				switch {
				case i%4 == 0 && time.Since(began) < length/2:
					a = attacks[0] // all bodies of the worst kind
				case i%4 == 0:
					a = attacks[random.IntN(len(attacks))]
				}
				sent.Add(1)
				r, err := client.Do(a.request(ctx, p.url, random.IntN(1000)))
				if err != nil {
					select {
					case <-p.ended:
						return
					default:
						continue // refused before the body was read
					}
				}
				answered.Add(1)
				largest.Store(max(largest.Load(), int64(len(a.body))))
				_, _ = io.Copy(io.Discard, io.LimitReader(r.Body, 1<<20))
				r.Body.Close()
			}
		})
	}
	clients.Wait()
	most := peak()
	p.eventually(time.Minute, fmt.Sprintf("alive, with %d bytes taken of plan %+v", most, found), func() bool { return p.status("/health") == http.StatusOK })
	t.Logf("ADM-2: %v of %d hostile clients, %d requests of up to %d MB, %d answered: alive, peak %d MB of a plan of %d MB (%.1f %%)", length, 4*seqs, sent.Load(), largest.Load()/1e6,
		answered.Load(), most/1e6, found.Total/1e6, 100*float64(most)/float64(found.Total))
	if most > found.Total/100*105 {
		t.Errorf("%d bytes taken, plan %+v", most, found)
	}
	p.quit(p.terminate)
}

// A hostileBody is a request: an opening brace with a member that differs, then body.
type hostileBody struct{ path, body string }

func (h *hostileBody) request(ctx context.Context, url string, n int) *http.Request {
	begin := fmt.Sprintf(`{"user":"%d",`, n)
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url+h.path, io.MultiReader(strings.NewReader(begin), strings.NewReader(h.body)))
	if err != nil {
		panic(err) // of a constant
	}
	r.Header.Set("Content-Type", "application/json")
	r.ContentLength = int64(len(begin) + len(h.body))
	return r
}

// hostile returns bodies, almost as large as is accepted, of every shape that takes
// more memory decoded, and, last, four that take the most of the model.
func hostile() []hostileBody {
	const mi, chat, text = 1 << 20, "/v1/chat/completions", "/v1/completions"
	full := `"ignore_eos":true,"stream":true,"max_tokens":3000,`
	var stops []string
	for i := range 16 {
		stops = append(stops, fmt.Sprintf("%q", strings.Repeat(string(rune('a'+i)), 256)))
	}
	return []hostileBody{
		{chat, `"messages":[` + strings.Repeat(`{"role":"user","content":[`+strings.Repeat(`{"type":"text","text":"`+strings.Repeat("x", 1900)+`"},`, 3)+`{"type":"text","text":"y"}]},`, 4095) + `{"role":"user","content":"z"}]}`},
		{chat, `"messages":[` + strings.Repeat(`{"role":"user","content":"`+strings.Repeat("x", 7500)+`"},`, 4095) + `{"role":"user","content":"z"}]}`},
		{text, `"prompt":"` + strings.Repeat("a b ", 7*mi) + `"}`},
		{text, `"prompt":"` + strings.Repeat(`\u4e2d`, 5*mi) + `"}`},
		{text, `"prompt":"1","unknown":[` + strings.Repeat("1,", 15*mi) + `1]}`},
		{text, `"prompt":[` + strings.Repeat("1,", 4*mi-1) + `1]}`},
		{text, `"prompt":[` + strings.Repeat(`"`+strings.Repeat("12+", 600)+`",`, 1023) + `"1"],` + full + `"n":8}`},
		{chat, strings.Repeat(`"x":[[[[[[{}]]]]]],`, 2000) + `"messages":[{"role":"user","content":"1+1"}],"tools":[` +
			strings.Repeat(`{"type":"function","function":{"name":"f","parameters":{"type":"object","properties":{"a":{"type":"string"}}}}},`, 255) + `{"type":"function","function":{"name":"g"}}]}`},
		{text, `"ignore_eos":true,"max_tokens":3000,"prompt":"` + strings.Repeat("12+", 300) + `","prompt_logprobs":20,"logprobs":20}`},
		{text, `"ignore_eos":true,"max_tokens":3000,"prompt":"12+","n":8,"logprobs":20}`},
		{text, full + `"prompt":"12+","n":8,"logprobs":20,"stop":[` + strings.Join(stops, ",") + `]}`},
		{chat, full + `"messages":[{"role":"user","content":"12+34"}],"n":8,"logprobs":true,"top_logprobs":20}`},
		{text, full + `"prompt":"` + strings.Repeat("12+", 300) + `"}`},
	}
}
