package server

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"ossian/internal/limits"
	memory "ossian/internal/plan"
	"ossian/internal/runner"
	"ossian/internal/sim"
	"ossian/internal/soak"
	"ossian/internal/wire"
)

// TestADM2Replies has more replies with log probabilities put together at once than there
// is room for: what they take stays within what is planned, those that do not fit are
// told to come again, and the others are whole.
func TestADM2Replies(t *testing.T) {
	n := soak.Cases(t, 24, 240)
	const tokens, one = 200, 200 * (1 + 20) * int64(unsafe.Sizeof(wire.TokenLogprob{})) // bytes of the log probabilities of one
	most := int64(n) / 4 * one
	var launched, pause atomic.Int64 // steps; from that one on they do not begin, 0 = they do
	u := setup{next: sim.List(said(strings.Repeat("all work ", tokens/2))...), limits: map[limits.ID]int64{limits.ReplyBody: 2 * one, limits.Replies: most}}
	u.launch = func(int, *runner.Batch) {
		k := launched.Add(1)
		for at := pause.Load(); at > 0 && k >= at; at = pause.Load() {
			time.Sleep(time.Millisecond)
		}
	}
	u.info.MaxSeqs, u.info.MaxTokens = n, 2*n
	u.engine.Stall = time.Hour
	g := start(t, u)
	idle := heap()
	pause.Store(1)
	defer pause.Store(0)
	var whole, refused atomic.Int64
	var clients sync.WaitGroup
	for range n {
		clients.Go(func() {
			r := g.post("/v1/completions", fmt.Sprintf(`{"prompt":[1],"max_tokens":%d,"ignore_eos":true,"logprobs":20}`, tokens))
			switch r.status {
			case 200:
				if c := completed(t, r)[0]; len(c.Logprobs.TopLogprobs) != tokens {
					t.Errorf("%d entries of %d", len(c.Logprobs.TopLogprobs), tokens)
				}
				whole.Add(1)
			case 503:
				wantError(t, r, 503, "overloaded_error", "overloaded", "")
				refused.Add(1)
			default:
				t.Errorf("%d %s", r.status, r.body)
			}
		})
	}
	eventually(t, time.Minute, "all are there", func() bool { return g.model.Engine.Stats().Accepted == uint64(n) })
	pause.Store(launched.Load() + tokens*3/4) // none ends before all that may stay are three quarters done
	peak := int64(0)
	eventually(t, time.Minute, "half of them are refused", func() bool {
		peak = max(peak, g.s.replies.Load())
		return refused.Load() >= int64(n)/2
	})
	held, took := g.s.replies.Load(), heap()-idle
	if planned := memory.ReplyBytes(held) + int64(n)*memory.ConnectionBytes(0); held < most/2 || took > planned {
		t.Errorf("%d bytes of replies take %d, planned is %d", held, took, planned)
	}
	pause.Store(0)
	clients.Wait()
	g.idle()
	if r := g.post("/v1/completions", fmt.Sprintf(`{"prompt":[1],"max_tokens":%d,"ignore_eos":true,"logprobs":20}`, tokens)); r.status != 200 { // as many as there were may have been refused at one moment
		t.Errorf("afterwards: %d %s", r.status, r.body)
	}
	g.idle()
	if slack := int64(n) * 2 * one / tokens; peak > most+slack || whole.Load() == 0 { // the token that is too much is there
		t.Errorf("%d replies whole, %d refused, %d bytes held at most, limit %d", whole.Load(), refused.Load(), peak, most)
	}
	if left, shown := g.s.replies.Load(), g.metric("ossian_replies_in_flight_bytes"); left != 0 || shown != 0 {
		t.Errorf("%d bytes are left, %v in the metric", left, shown)
	}
	if m := g.metric(`ossian_limit_refusals_total{limit="replies-in-flight"}`); m != float64(refused.Load()) {
		t.Errorf("%v refusals counted, %d got", m, refused.Load())
	}
	t.Logf("ADM-2: %d replies with 20 log probabilities a token at once, room for %d: %d whole, %d told to try again; %d bytes held at most, limit %d; %d took %d of the heap",
		n, n/4, whole.Load(), refused.Load(), peak, most, held, took)
}

// What a reply takes is known where it can be, and bounded where it cannot.
func TestADM2ReplyBody(t *testing.T) {
	think := thinks + "<|channel|>analysis<|message|>" + strings.Repeat("ab ", 1000) + "<|end|><|start|>assistant<|channel|>final<|message|>x<|return|>"
	u := setup{reply: think, limits: map[limits.ID]int64{limits.ReplyBody: 64 << 10}}
	u.info.MaxTokens = 4096
	g := start(t, u)
	ids, err := json.Marshal(make([]int32, 3000))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, path, body string
		fits             bool
	}{
		{"log probabilities", "/v1/completions", `"prompt":"a","max_tokens":600,"logprobs":5`, false},
		{"the same, streamed", "/v1/completions", `"prompt":"a","max_tokens":600,"logprobs":5,"stream":true`, true},
		{"text", "/v1/completions", `"prompt":"a","max_tokens":600`, true},
		{"of a prompt", "/v1/completions", `"prompt":` + string(ids) + `,"max_tokens":1,"prompt_logprobs":1`, false},
		{"of an echo that is streamed", "/v1/completions", `"prompt":` + string(ids) + `,"max_tokens":1,"logprobs":1,"echo":true,"stream":true`, false},
		{"echoes", "/v1/completions", `"prompt":["` + strings.Repeat("one two ", 1500) + `"],"max_tokens":0,"n":8,"echo":true`, false},
		{"echoes that are streamed", "/v1/completions", `"prompt":["` + strings.Repeat("one two ", 1500) + `"],"max_tokens":0,"n":8,"echo":true,"stream":true`, true},
		{"of reasoning that is not shown", "/v1/chat/completions", hi + `,"logprobs":true,"top_logprobs":20`, false},
		{"of reasoning that is not shown, streamed", "/v1/chat/completions", hi + `,"logprobs":true,"top_logprobs":20,"stream":true`, false},
		{"of a response", "/v1/responses", `"input":"Hi","store":false,"include":["message.output_text.logprobs"],"top_logprobs":20`, false},
		{"of a response that is streamed", "/v1/responses", `"input":"Hi","store":false,"include":["message.output_text.logprobs"],"top_logprobs":20,"stream":true`, false},
		{"of little reasoning", "/v1/chat/completions", hi + `,"logprobs":true,"top_logprobs":1,"max_tokens":100`, true},
	} {
		r := g.post(c.path, "{"+c.body+"}")
		told := strings.Contains(r.body, "reply-body=N")
		switch {
		case c.fits && (r.status != 200 || told):
			t.Errorf("%s: %d %.300s", c.name, r.status, r.body)
		case !c.fits && strings.Contains(c.body, "stream") && r.status == 200:
			if !told || (!strings.HasSuffix(r.body, "data: [DONE]\n\n") && !strings.Contains(r.body, "event: response.failed\n")) {
				t.Errorf("%s: %.300s … %.300s", c.name, r.body, r.body[max(len(r.body)-300, 0):])
			}
		case !c.fits && r.status == 200:
			t.Errorf("%s: a reply of %d bytes is sent", c.name, len(r.body))
		case !c.fits:
			wantError(t, r, 400, "invalid_request_error", "invalid_value", "")
			if !told {
				t.Errorf("%s: %s", c.name, r.body)
			}
		}
		g.idle()
		if n := g.s.replies.Load(); n != 0 {
			t.Fatalf("%s: %d bytes are left", c.name, n)
		}
	}
	// One that all replies together would not leave room for can never be sent, either.
	g = start(t, setup{next: sim.List(5), limits: map[limits.ID]int64{limits.Replies: 64 << 10}})
	wantError(t, g.post("/v1/completions", `{"prompt":"a","max_tokens":600,"logprobs":5}`), 400, "invalid_request_error", "invalid_value", "")
}
