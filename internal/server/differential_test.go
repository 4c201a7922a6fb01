package server

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"ossian/internal/chat"
	"ossian/internal/engine"
	"ossian/internal/limits"
	"ossian/internal/runner"
	"ossian/internal/sim"
	"ossian/internal/soak"
	"ossian/internal/wire"
)

// An event is a chunk of a stream, or a whole reply.
type event struct {
	Choices []struct {
		Index          int
		Text           string
		Delta, Message struct {
			Content, Reasoning string
			ToolCalls          []struct {
				Index    int
				ID, Type string
				Function struct{ Name, Arguments string }
				Custom   struct{ Name, Input string }
			} `json:"tool_calls"`
		}
		Logprobs struct {
			Content []struct{ Bytes []int }
		}
		Finish    string          `json:"finish_reason"`
		Stop      json.RawMessage `json:"stop_reason"`
		TokenIDs  []int32         `json:"token_ids"`
		PromptIDs []int32         `json:"prompt_token_ids"` // of /v1/completions
	}
	Usage     *wire.Usage
	PromptIDs []int32 `json:"prompt_token_ids"` // of /v1/chat/completions
	Error     *struct{ Code string }
}

// heard is what a client has of one choice.
type heard struct {
	Content, Reasoning, Finish, Stop string
	Bytes                            string   // of log probabilities, /v1/chat/completions
	Calls                            []string // name, "(", arguments; before the name of a custom tool its type
	IDs                              []int32
}

// A transcript is what a client has of a reply.
type transcript struct {
	choices [8]heard
	prompt  []int32 // of the last choice that said
	usage   wire.Usage
	ahead   bool   // some chunk's usage had more than the ids up to it
	behind  bool   // less
	code    string // of an error; "" = none
	done    bool   // the reply is whole
}

func (tr *transcript) add(e *event) {
	if e.Error != nil {
		tr.code = e.Error.Code
	}
	if e.PromptIDs != nil {
		tr.prompt = e.PromptIDs
	}
	for i := range e.Choices {
		c := &e.Choices[i]
		h := &tr.choices[c.Index]
		h.Content += c.Text + c.Delta.Content + c.Message.Content
		h.Reasoning += c.Delta.Reasoning + c.Message.Reasoning
		for _, call := range slices.Concat(c.Delta.ToolCalls, c.Message.ToolCalls) {
			if call.Function.Name != "" {
				h.Calls = append(h.Calls, call.Function.Name+"(")
			}
			if call.Custom.Name != "" {
				h.Calls = append(h.Calls, call.Type+":"+call.Custom.Name+"(")
			}
			h.Calls[len(h.Calls)-1] += call.Function.Arguments + call.Custom.Input
		}
		for _, l := range c.Logprobs.Content {
			for _, b := range l.Bytes {
				h.Bytes += string([]byte{byte(b)})
			}
		}
		h.IDs = append(h.IDs, c.TokenIDs...)
		if c.PromptIDs != nil {
			tr.prompt = c.PromptIDs
		}
		if c.Finish != "" {
			h.Finish, h.Stop = c.Finish, string(c.Stop)
		}
	}
	if e.Usage == nil {
		return
	}
	tr.usage = *e.Usage
	ids := 0
	for i := range tr.choices {
		ids += len(tr.choices[i].IDs)
	}
	tr.ahead, tr.behind = tr.ahead || tr.usage.Completion > ids, tr.behind || tr.usage.Completion < ids
}

// hear reads a reply until leave returns true, asked behind each event.
func hear(res *http.Response, leave func() bool) (*transcript, error) {
	defer res.Body.Close()
	tr := new(transcript)
	if !strings.HasPrefix(res.Header.Get("Content-Type"), "text/event-stream") {
		var e event
		err := json.NewDecoder(res.Body).Decode(&e)
		tr.add(&e)
		tr.done = err == nil
		_, _ = io.Copy(io.Discard, res.Body)
		return tr, err
	}
	lines := bufio.NewScanner(res.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		switch {
		case !ok:
			continue
		case data == "[DONE]":
			tr.done = true
			continue
		case tr.done:
			return tr, errors.New("more behind [DONE]")
		}
		var e event
		if err := json.Unmarshal([]byte(data), &e); err != nil {
			return tr, fmt.Errorf("%w: %s", err, data)
		}
		tr.add(&e)
		if leave() {
			return tr, nil
		}
	}
	return tr, lines.Err()
}

func stay() bool { return false }

// A question is a request with the one answer that it can have.
type question struct {
	path, body string
	most       int // tokens
	least      int // before which stop strings do not end it
	stops      []string
	whole      *transcript // of the same request, not streamed and undisturbed
}

// stream returns the body that streams the answer.
func (q *question) stream(options string) string {
	return strings.TrimSuffix(q.body, "}") + `,"stream":true` + options + "}"
}

// questions asks n of them. What the model says depends on the prompt alone.
func (g *rig) questions(n int) []question {
	all := make([]question, n)
	for i := range all {
		rng := rand.New(rand.NewPCG(uint64(i), 7))
		q := &all[i]
		q.most = 3 + rng.IntN(60)
		q.path, q.body = "/v1/completions", fmt.Sprintf(`{"prompt":[%s]`, numbers(i, 1+rng.IntN(60)))
		if rng.IntN(3) > 0 {
			q.path, q.body = "/v1/chat/completions", fmt.Sprintf(`{"messages":[{"role":"user","content":"question %d"}],%s`, i, tools)
			q.body += [...]string{"", `,"include_reasoning":false`, `,"parallel_tool_calls":false`}[rng.IntN(3)]
		}
		q.body += fmt.Sprintf(`,"return_token_ids":true,"max_tokens":%d,"n":%d`, q.most, 1+rng.IntN(2))
		switch rng.IntN(4) {
		case 1:
			q.stops = []string{"STOP"}
			q.body += `,"stop":"STOP"`
		case 2:
			q.stops, q.least = []string{"ö", "P\n"}, 3
			q.body += `,"stop":["ö","P\n"],"min_tokens":3`
		case 3:
			q.stops = []string{"🌍", "日"}
			q.body += `,"stop":["🌍","日"],"include_stop_str_in_output":true`
		}
		q.body += "}"
		res, err := http.Post(g.url+q.path, "application/json", strings.NewReader(q.body))
		if err != nil {
			g.t.Fatal(err)
		}
		if q.whole, err = hear(res, stay); err != nil || res.StatusCode != 200 {
			g.t.Fatalf("%s: %d %v", q.body, res.StatusCode, err)
		}
	}
	return all
}

// numbers returns n token ids that begin a prompt of their own.
func numbers(seed, n int) string {
	ids := make([]string, n)
	for i := range ids {
		ids[i] = strconv.Itoa((seed*7919 + i) % 100_000)
	}
	return strings.Join(ids, ",")
}

// answers is a model that says one of the scripts, whatever the place and time; which
// is that of a prompt.
func answers(scripts [][]int32) (next sim.Next, which func(prompt []int32) []int32) {
	which = func(prompt []int32) []int32 {
		h := fnv.New32a()
		for _, id := range prompt {
			h.Write([]byte{byte(id), byte(id >> 8), byte(id >> 16)})
		}
		return scripts[int(h.Sum32()%uint32(len(scripts)))]
	}
	return sim.Reply(which), which
}

// anything returns n scripts that models should not play, but may.
func anything(t testing.TB, n int) (all [][]int32) {
	f, err := chat.New(chat.Facts{Family: "gpt-oss", Tokenizer: harmony(), Stops: []int32{200_002, 200_012}})
	if err != nil {
		t.Fatal(err)
	}
	pieces := []string{"Hello", " wörld", " 🌍", "\n", "STOP", "ST", "O", "P", "<|channel|>analysis<|message|>", "<|channel|>final<|message|>", "<|end|>", "<|start|>assistant",
		"<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>", `{"city":`, `"Paris"}`, "<|call|>", "日本", "é", " the", "<|channel|>commentary<|message|>"}
	for i := range n {
		rng := rand.New(rand.NewPCG(uint64(i), 8))
		for _, n := range []int{2, 4, 4, 4, 6} { // the scripts are those of package api's random answers
			rng.IntN(n)
		}
		var ids []int32
		if rng.IntN(2) == 0 {
			ids = said("<|channel|>final<|message|>")
		}
		for range rng.IntN(20) {
			if rng.IntN(10) == 0 {
				ids = append(ids, rng.Int32N(199_998)) // may be half a character
				continue
			}
			ids = append(ids, said(pieces[rng.IntN(len(pieces))])...)
		}
		if k := slices.IndexFunc(ids, func(id int32) bool { return slices.Contains(f.Stops(), id) }); k >= 0 {
			ids = ids[:k+1]
		} else {
			ids = append(ids, 200_002)
		}
		all = append(all, ids)
	}
	return all
}

// proper returns n scripts without mistakes: some reasoning, then an answer or a call.
func proper(n int) (all [][]int32) {
	pieces := []string{"Hello", " wörld", " 🌍", "\n", "STOP", " ST", "P\n", "日本", " the"}
	for i := range n {
		rng := rand.New(rand.NewPCG(uint64(i), 12))
		words := func() (text string) {
			for range 1 + rng.IntN(8) {
				text += pieces[rng.IntN(len(pieces))]
			}
			return text
		}
		text := ""
		for range rng.IntN(3) {
			text += "<|channel|>analysis<|message|>" + words() + "<|end|><|start|>assistant"
		}
		if rng.IntN(3) == 0 {
			text += `<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>{"city":"Paris"}<|call|>`
		} else {
			text += "<|channel|>final<|message|>" + words() + "<|return|>"
		}
		all = append(all, said(text))
	}
	return all
}

// prefix reports whether a client that was cut off has the beginning of an answer.
func (tr *transcript) prefix(of *transcript) bool {
	for i := range tr.choices {
		a, b := &tr.choices[i], &of.choices[i]
		if !strings.HasPrefix(b.Content, a.Content) || !strings.HasPrefix(b.Reasoning, a.Reasoning) || len(a.IDs) > len(b.IDs) || !slices.Equal(a.IDs, b.IDs[:len(a.IDs)]) ||
			!strings.HasPrefix(strings.Join(b.Calls, ")"), strings.Join(a.Calls, ")")) {
			return false
		}
	}
	return true
}

// TestLIF4Sockets streams answers while clients leave, the engine's loop fails and
// sequences are preempted: what arrives is, byte for byte, the answer that is not
// streamed, or its beginning where the stream was cut off.
func TestLIF4Sockets(t *testing.T) {
	soak.Beside(t)
	n := soak.Cases(t, 400, 20_000)
	var steps, failures atomic.Int64
	var faulty atomic.Bool
	u := setup{reopen: true, cost: time.Millisecond, engine: engine.Config{Restarts: 1 << 30}, fault: func(int) error {
		switch k := steps.Add(1); {
		case !faulty.Load():
		case k%151 == 0:
			failures.Add(1)
			panic("the runner failed")
		case k%101 == 0:
			failures.Add(1)
			return errors.New("the device failed")
		}
		return nil
	}}
	u.next, _ = answers(anything(t, 200))
	u.info.MaxSeqs, u.info.MaxTokens, u.info.MaxLen, u.info.Groups = 24, 128, 320, []runner.Group{{Blocks: 30}} // 20 for the longest request
	g := start(t, u)
	all := g.questions(min(n, 300))
	c := g.pooled(32)
	faulty.Store(true)
	var whole, left, cut, refused atomic.Int64
	together(n, 32, func(i int) {
		rng := rand.New(rand.NewPCG(uint64(i), 9))
		q := &all[rng.IntN(len(all))]
		stop := 1 << 30 // leave after so many events
		if rng.IntN(5) == 0 {
			stop = rng.IntN(20)
		}
		for {
			res, err := c.Post(g.url+q.path, "application/json", strings.NewReader(q.stream("")))
			if err != nil {
				t.Error(err)
				return
			}
			events := 0
			tr, err := hear(res, func() bool { events++; return events > stop })
			switch {
			case err == nil && ((res.StatusCode == 503 && tr.code == "overloaded") || (res.StatusCode == 500 && tr.code == "internal_error")):
				refused.Add(1) // between two loops, or failed twice before it began
				time.Sleep(time.Millisecond)
				continue
			case err != nil || res.StatusCode != 200 || !tr.prefix(q.whole):
			case events > stop:
				left.Add(1)
				return
			case tr.code == "internal_error" && tr.done:
				cut.Add(1)
				return
			case tr.code == "" && tr.done && reflect.DeepEqual(tr.choices, q.whole.choices):
				whole.Add(1)
				return
			}
			t.Errorf("%s: %d %v\nstreamed %+v\nwhole %+v", q.body, res.StatusCode, err, tr, q.whole)
			return
		}
	})
	faulty.Store(false)
	g.idle()
	st := g.model.Engine.Stats()
	if failures.Load() == 0 || left.Load() == 0 || (soaking() && st.Preemptions == 0) { // on a busy machine clients are slow: few requests run at once
		t.Errorf("%d failures, %d preemptions, %d left: this shows nothing", failures.Load(), st.Preemptions, left.Load())
	}
	t.Logf("LIF-4: %d streams: %d whole, 0 differ; %d left, %d cut by %d faults of the runner (%d tried again): they had the beginning and nothing else; %d preemptions",
		n, whole.Load(), left.Load(), cut.Load(), failures.Load(), refused.Load(), st.Preemptions)
}

// together calls f for 0 to n-1, with so many calls at a time.
func together(n, most int, f func(i int)) {
	var next atomic.Int64
	var wg sync.WaitGroup
	for range most {
		wg.Go(func() {
			for i := next.Add(1) - 1; i < int64(n); i = next.Add(1) - 1 {
				f(int(i))
			}
		})
	}
	wg.Wait()
}

// TestLIF9 recounts the usage of replies of all kinds from what the model was scripted
// to say, and the totals of the metrics from both.
func TestLIF9(t *testing.T) {
	n := soak.Cases(t, 600, 100_000)
	log := new(ledger)
	u := setup{cfg: Config{AccessLog: true}, log: log}
	var which func([]int32) []int32
	u.next, which = answers(proper(200))
	u.info.MaxSeqs, u.info.MaxTokens = 24, 256
	g := start(t, u)
	all := g.questions(min(n, 300))
	g.idle()
	c := g.pooled(32)
	generated := g.metric("vllm:request_generation_tokens_sum")
	var counted, aborted, stopped, cached, headless atomic.Int64
	together(n, 16, func(i int) {
		rng := rand.New(rand.NewPCG(uint64(i), 10))
		q := &all[rng.IntN(len(all))]
		id, leave, mode := fmt.Sprintf("usage-%d", i), 1<<30, rng.IntN(4)
		body := q.body
		switch mode {
		case 1:
			body = q.stream(`,"stream_options":{"include_usage":true}`)
		case 2:
			body = q.stream(`,"stream_options":{"include_usage":true,"continuous_usage_stats":true}`)
		case 3:
			body, leave = q.stream(""), rng.IntN(4)
		}
		res, err := try(t.Context(), c, g.url+q.path, body, "X-Request-Id", id)
		if err != nil {
			t.Error(err)
			return
		}
		events := 0
		tr, err := hear(res, func() bool { events++; return events > leave })
		got := log.settled(t, id)
		counted.Add(int64(got.tokens))
		if err != nil || res.StatusCode != 200 {
			t.Errorf("%s: %d %v", body, res.StatusCode, err)
			return
		}
		tokens := 0
		for k := range tr.choices {
			tokens += len(tr.choices[k].IDs)
		}
		if mode == 3 { // what was sent was counted, whatever became of the rest
			aborted.Add(1)
			if got.tokens < tokens {
				t.Errorf("%s: %d tokens counted of a client that had %d", body, got.tokens, tokens)
			}
			return
		}
		script, reasoned, known := which(tr.prompt), 0, true
		for k := range tr.choices {
			h := &tr.choices[k]
			if h.Finish == "" {
				continue // there is no such choice
			}
			if strings.HasPrefix(h.Stop, `"`) {
				stopped.Add(1)
			}
			if want := recount(q, script); len(h.IDs) != want || !slices.Equal(h.IDs, script[:want]) {
				t.Errorf("%s: choice %d has ids %v (%s %s), want the first %d of %v", body, k, h.IDs, h.Finish, h.Stop, want, script)
			}
			if q.path == "/v1/chat/completions" {
				n, whole := reasoningOf(h.IDs)
				reasoned, known = reasoned+n, known && whole
			}
		}
		us := tr.usage
		if !known {
			headless.Add(1)
			reasoned = us.Details.Reasoning
		}
		cached.Add(int64(us.PromptOf.Cached))
		if us.Prompt != len(tr.prompt) || us.Completion != tokens || us.Total != us.Prompt+us.Completion || us.Details.Reasoning != reasoned || us.PromptOf.Cached > us.Prompt || got.tokens != tokens {
			t.Errorf("%s: usage %+v and %d in the log, recounted %d prompt, %d completion, %d reasoning\n%q", body, us, got.tokens, len(tr.prompt), tokens, reasoned, harmony().Decode(tr.choices[0].IDs))
		}
		if mode == 2 && (tr.behind || (tr.ahead && strings.Contains(q.body, `"n":1`))) { // of several choices one may have ids that wait for text
			t.Errorf("%s: running usage differs from the ids sent so far", body)
		}
	})
	g.idle()
	if got := g.metric("vllm:request_generation_tokens_sum") - generated; got != float64(counted.Load()) {
		t.Errorf("the metrics have %v tokens, the replies %d", got, counted.Load())
	}
	if stopped.Load() == 0 || cached.Load() == 0 {
		t.Errorf("%d met a stop string, %d tokens were cached: this shows nothing", stopped.Load(), cached.Load())
	}
	t.Logf("LIF-9: %d requests, whole, streamed, with running usage, by stop, length and %d that left: %d tokens, 0 differ from the recount (%d ended in a header, whose channel is not known)",
		n, aborted.Load(), counted.Load(), headless.Load())
}

// recount returns how many ids of the script an answer has: up to the one with which
// a stop string ends, or what was asked for.
func recount(q *question, script []int32) int {
	n := min(len(script), q.most)
	for k := q.least + 1; k <= n; k++ {
		before, text := spoken(q, script[:k-1]), spoken(q, script[:k])
		for end := len(before) + 1; end <= len(text); end++ {
			for _, stop := range q.stops {
				if strings.HasSuffix(text[:end], stop) {
					return k
				}
			}
		}
	}
	return n
}

const (
	idChannel = 200_005
	idStart   = 200_006
	idMessage = 200_008
)

// spoken returns the bytes of ids that are text for the user.
func spoken(q *question, ids []int32) (text string) {
	if q.path == "/v1/chat/completions" {
		final := -1
		for i, id := range ids {
			if id == idMessage && i > 0 && harmony().Text(ids[i-1]) == "final" {
				final = i
			}
		}
		if final < 0 {
			return ""
		}
		ids = ids[final+1:]
	}
	for _, id := range ids {
		if !harmony().IsControl(id) {
			text += harmony().Text(id)
		}
	}
	return text
}

// reasoningOf counts the ids of messages on the channel analysis: each id belongs to
// one message, its header included. What is cut off in a header is not known.
func reasoningOf(ids []int32) (n int, known bool) {
	last := 0
	for at, id := range ids {
		if id == idStart || id == idChannel {
			last = at
		}
	}
	known = slices.Contains(ids[last:], idMessage)
	for len(ids) > 0 {
		end := slices.Index(ids[1:], idStart) + 1
		if end == 0 {
			end = len(ids)
		}
		if c := slices.Index(ids[:end], idChannel); c >= 0 && c+1 < end && harmony().Text(ids[c+1]) == "analysis" {
			n += end
		}
		ids = ids[end:]
	}
	return n, known
}

// metric returns the sum of all series of a name.
func (g *rig) metric(name string) (sum float64) {
	for line := range strings.Lines(g.do("GET", "/metrics", "").body) {
		if strings.HasPrefix(line, name+"{") || strings.HasPrefix(line, name+" ") {
			v, err := strconv.ParseFloat(strings.TrimSpace(line[strings.LastIndexByte(line, ' '):]), 64)
			if err != nil {
				g.t.Fatal(err)
			}
			sum += v
		}
	}
	return sum
}

// TestLIF7 asks for prompts and outputs around the limit: what does not fit is refused
// with both counts, what is cut off is told.
func TestLIF7(t *testing.T) {
	n := soak.Cases(t, 150, 5000)
	const room = 64
	u := setup{reply: strings.Repeat("x", 64)}
	u.info.MaxLen = room
	g := start(t, u)
	refused, truncated := 0, 0
	for i := range n {
		rng := rand.New(rand.NewPCG(uint64(i), 11))
		prompt, output := 1+rng.IntN(90), 1+rng.IntN(80)
		kept, options := prompt, fmt.Sprintf(`,"max_tokens":%d,"ignore_eos":true,"stream":%v`, output, i%2 == 0)
		if i%3 == 0 {
			keep := 1 + rng.IntN(90)
			kept, options = min(prompt, keep), options+fmt.Sprintf(`,"truncate_prompt_tokens":%d`, keep)
		}
		ids := numbers(i, prompt)
		r := g.post("/v1/completions", fmt.Sprintf(`{"prompt":[%s],"return_token_ids":true%s}`, ids, options))
		if kept >= room {
			refused++
			wantError(t, r, 400, "invalid_request_error", "context_length_exceeded", "prompt")
			if !strings.Contains(r.body, fmt.Sprintf(" %d tokens and %d of output", kept, output)) || !strings.Contains(r.body, fmt.Sprintf("context length is %d tokens", room)) {
				t.Errorf("prompt %d, output %d: counts are missing: %s", kept, output, r.body)
			}
			continue
		}
		tail, told := strings.Join(strings.Split(ids, ",")[prompt-kept:], ","), ""
		if kept < prompt {
			truncated++
			told = strconv.Itoa(prompt - kept)
		}
		if r.status != 200 || r.header.Get("x-ossian-truncated") != told || !strings.Contains(r.body, `"prompt_token_ids":[`+tail+"]") {
			t.Errorf("prompt %d, kept %d, output %d: %d, truncated %q: %s", prompt, kept, output, r.status, r.header.Get("x-ossian-truncated"), r.body)
		}
	}
	t.Logf("LIF-7: %d requests, %d refused with both counts, %d with a truncated prompt, all told", n, refused, truncated)
}

// TestLIF6 ends requests that wait or run for too long, at their deadline.
func TestLIF6(t *testing.T) {
	n := soak.Cases(t, 20, 400)
	const step, most, wait = 5 * time.Millisecond, 300 * time.Millisecond, 100 * time.Millisecond
	u := setup{reply: strings.Repeat("x", 64), cost: step, limits: map[limits.ID]int64{limits.RequestTime: most.Milliseconds()}}
	g := start(t, u)
	var mu sync.Mutex
	var late []time.Duration
	together(n, 10, func(i int) {
		began := time.Now()
		body := fmt.Sprintf(`{"prompt":"a","max_tokens":3000,"stream":%v}`, i%2 == 0)
		res, err := http.Post(g.url+"/v1/completions", "application/json", strings.NewReader(body))
		if err != nil {
			t.Error(err)
			return
		}
		tr, err := hear(res, stay)
		if err != nil || tr.code != "overloaded" || !tr.done {
			t.Errorf("%s: %d %+v %v", body, res.StatusCode, tr, err)
		}
		mu.Lock()
		late = append(late, time.Since(began)-most)
		mu.Unlock()
	})
	at := p99(late)
	within(t, "behind the deadline", at, step+250*time.Millisecond, time.Minute)
	u.limits, u.info.MaxSeqs = nil, 1
	g = start(t, u)
	g.dial("/v1/completions", `{"prompt":"a","max_tokens":3000}`)
	eventually(t, time.Minute, "runs", func() bool { return g.model.Engine.Stats().Running > 0 })
	lim := limits.Defaults()
	lim[limits.QueueWait] = wait.Milliseconds()
	g.s.Reload(nil, lim) // not before: it counts for the one that runs, too
	began := time.Now()
	wantError(t, g.post("/v1/completions", `{"prompt":"b"}`), 503, "overloaded_error", "overloaded", "")
	queued := time.Since(began) - wait
	within(t, "behind the limit of the queue", queued, step+250*time.Millisecond, time.Minute)
	t.Logf("LIF-6: %d requests ended, p99 %v behind their deadline of %v; one that waited %v behind its limit", n, at, most, queued)
}
