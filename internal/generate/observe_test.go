package generate

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"ossian/internal/host"
	"ossian/internal/metrics"
	"ossian/internal/tools"
)

// A watched request keeps what its observer is told.
type watched struct {
	started int
	calls   []Called
	ended   []End
}

func (w *watched) Started(*Generation) { w.started++ }
func (w *watched) Called(call *Called) { w.calls = append(w.calls, *call) }
func (w *watched) Ended(end *End)      { w.ended = append(w.ended, *end) }

// An observer is told of each call of a tool once, in the order of time, and of the end, which has
// the usage of all steps; the metrics have each step as a sequence.
func TestObserver(t *testing.T) {
	f := gptOSS(t)
	mark, texts, _ := f.talk()
	r := newRig(t, f, play{script: f.counted(mark, texts...)})
	counters := metrics.New(metrics.Config{})
	r.model.Metrics = counters.Model(metrics.ModelConfig{Name: "m", MaxLen: 4096, Snapshot: func() metrics.Snapshot { return host.Snapshot(r.model.Engine) }})
	calls := 0
	server := &played{call: func(_ context.Context, call tools.Call) tools.Result {
		if calls++; calls == 1 {
			return tools.Result{Text: "no", Outcome: tools.Failed}
		}
		return tools.Result{Text: "<" + call.Tool + " " + call.Arguments + ">"}
	}}
	seen := &watched{}
	began := time.Now()
	_, job, err := r.run(t.Context(), r.ask(server, func(gen *Generation) { gen.Observer = seen }), nil)
	if err != nil {
		t.Fatal(err)
	}
	usage, steps := job.Usage(), len(r.prompts)
	job.Close()
	if seen.started != 1 || len(seen.ended) != 1 || len(seen.calls) != calls || calls < 2 {
		t.Fatalf("%d calls ran: %+v", calls, seen)
	}
	ids := map[string]bool{}
	for i, call := range seen.calls {
		if want := map[bool]string{true: "failed"}[i == 0]; call.Problem != want || ids[call.ID] || call.Name == "" || call.Began.Before(began) || call.Ended.Before(call.Began) {
			t.Errorf("call %d: %+v", i, call)
		}
		ids[call.ID] = true
	}
	end := &seen.ended[0]
	if end.Err != nil || fmt.Sprint(end.Finishes) != "[stop]" || end.Input != usage.Prompt || end.Output != usage.Completion || end.Cached != usage.PromptOf.Cached ||
		end.First.Before(end.Scheduled) || end.Scheduled.Before(end.Queued) || end.Last.Before(end.First) {
		t.Errorf("%+v, usage %+v", end, usage)
	}
	w := httptest.NewRecorder()
	counters.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	for _, line := range []string{fmt.Sprintf(`vllm:request_success_total{engine="0",finished_reason="stop",model_name="m"} %d`, steps), fmt.Sprintf(`ossian_requests_accepted_total{engine="0",model_name="m"} %d`, steps),
		fmt.Sprintf(`vllm:request_prompt_tokens_sum{engine="0",model_name="m"} %d`, usage.Prompt), fmt.Sprintf(`vllm:prompt_tokens_total{engine="0",model_name="m"} %d`, usage.Prompt),
		fmt.Sprintf(`vllm:prompt_tokens_cached_total{engine="0",model_name="m"} %d`, usage.PromptOf.Cached)} {
		if !strings.Contains(w.Body.String(), line+"\n") {
			t.Errorf("no %s in\n%s", line, w.Body)
		}
	}
}

// A client that has left is not told that the server stops: the engine ends the stream of a context
// that has ended, and the job may hear of that first.
func TestStreamEndsBeforeContext(t *testing.T) {
	f := gptOSS(t)
	mark, texts, _ := f.talk()
	counted, stopped := f.counted(mark, texts...), make(chan struct{})
	r := newRig(t, f, play{script: func(prompt []int32) []int32 { <-stopped; return counted(prompt) }})
	gen := r.ask(echoing())
	gen.Builtin = nil // one stream, no loop
	job, err := r.service.Start(t.Context(), gen)
	if err != nil {
		t.Fatal(err)
	}
	defer job.Close()
	job.streams[0].Stop() // what the end of the context does, while the context lasts
	close(stopped)
	out := &told{job: job, story: make([]strings.Builder, 1), deltas: make([][]Delta, 1)}
	if err := job.Run(t.Context(), out, time.Minute); !Gone(err) {
		t.Errorf("%v; a client that has left expected", err)
	}
}

// A call that runs when the client leaves has an end, too.
func TestObserverOfCut(t *testing.T) {
	f := gptOSS(t)
	mark, texts, _ := f.talk()
	r := newRig(t, f, play{script: f.counted(mark, texts...)})
	ctx, leave := context.WithCancel(t.Context())
	server := &played{call: func(ctx context.Context, _ tools.Call) tools.Result {
		leave()
		<-ctx.Done()
		return tools.Result{Outcome: tools.Cancelled}
	}}
	seen := &watched{}
	_, job, err := r.run(ctx, r.ask(server, func(gen *Generation) { gen.Observer = seen }), nil)
	job.Close()
	if !errors.Is(err, context.Canceled) || len(seen.calls) != 1 || seen.calls[0].Problem != "cancelled" || len(seen.ended) != 1 || !Gone(seen.ended[0].Err) {
		t.Errorf("%v: %+v", err, seen)
	}
	// What is refused before there is a job has neither a beginning nor an end.
	seen = &watched{}
	gen := r.ask(echoing(), func(gen *Generation) { gen.Observer = seen; gen.StopTokenIDs = []int32{1 << 30} })
	if _, err := r.service.Start(t.Context(), gen); err == nil || seen.started != 0 || len(seen.ended) != 0 {
		t.Errorf("%v: %+v", err, seen)
	}
}
