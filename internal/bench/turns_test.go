package bench

import (
	"bytes"
	"fmt"
	"maps"
	"math"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"ossian/internal/bench/dataset"
	"ossian/internal/bench/scripted"
)

// talks are two conversations of three turns.
func talks() (w Workload) {
	for c := range 2 {
		for t := range 3 {
			session := fmt.Sprint("conv-", c)
			w = append(w, dataset.Query{Prompt: fmt.Sprintf("q%d%d \"<é>\"", c, t), Input: 5, Output: 2, Session: session, Turn: t,
				ID: fmt.Sprintf("%s-turn%d", session, t), Body: []byte(`{"min_tokens":2}`)})
		}
	}
	return w
}

// A caught request is what a server got.
type caught struct{ session, body string }

// converse runs talks against a server that answers turn t of conversation c with "act",
// or as fail says.
func converse(t *testing.T, setup Setup, fail func(id string) string) (*Recording, map[string]caught, *Live) {
	t.Helper()
	var mu sync.Mutex
	got := map[string]caught{}
	s := serve(t, func(_, _ int, r *http.Request, body string) (string, bool) {
		id := r.Header.Get("X-Request-Id")
		mu.Lock()
		got[id] = caught{r.Header.Get("X-Session-Id"), body}
		mu.Unlock()
		if text := fail(id); text != "" {
			return text, false
		}
		c, turn, _ := strings.Cut(strings.TrimPrefix(id, "b-conv-"), "-turn")
		return chunked(fmt.Sprintf(`data: {"choices":[{"delta":{"role":"assistant","reasoning":"hm","content":"a%s\n\"%s\""}}]}`+"\n\n", c, turn),
			`data: {"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":2}}`+"\n\n", "data: [DONE]\n\n"), false
	})
	setup.Backend, setup.Stream, setup.URL, setup.Model = "openai-chat", true, s.url+"/v1/chat/completions", "m"
	h, err := NewHTTP(HTTPConfig{Setup: &setup, IDPrefix: "b-"})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	live := new(Live)
	rec, err := Run(t.Context(), h, talks(), Options{Setup: setup, Live: live})
	if err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	defer mu.Unlock()
	return rec, maps.Clone(got), live
}

func user(c, t int) string {
	return fmt.Sprintf(`{"role":"user","content":[{"type":"text","text":"q%d%d \"<é>\""}]}`, c, t)
}

// The bytes of every turn are those that vLLM's compiled client sends: the history with
// the real answers, and two ids.
func TestConversationBytes(t *testing.T) {
	setup := allAtOnce(0)
	setup.MultiTurn = &MultiTurn{Turns: 3}
	rec, got, live := converse(t, setup, func(string) string { return "" })
	for c := range 2 {
		messages := ""
		for turn := range 3 {
			messages += user(c, turn)
			id := fmt.Sprintf("b-conv-%d-turn%d", c, turn)
			want := `{"model":"m","messages":[` + messages + `],"max_completion_tokens":2,"stream":true,"stream_options":{"include_usage":true},"min_tokens":2}`
			if got[id].body != want || got[id].session != fmt.Sprint("b-conv-", c) {
				t.Errorf("%s in session %q sent\n%s\nwant\n%s", id, got[id].session, got[id].body, want)
			}
			messages += fmt.Sprintf(`,{"role":"assistant","content":"a%d\n\"%d\""},`, c, turn)
			s := rec.Samples[3*c+turn]
			if s.Index != 3*c+turn || s.Session != fmt.Sprint("conv-", c) || s.Turn != turn || s.Input != 5+7*turn || s.Asked != 2 || !s.OK() {
				t.Errorf("%s: sample %+v", id, s)
			}
		}
	}
	if live.Total.Load() != 6 || live.Done.Load() != 6 || live.Released.Load() != 6 || len(got) != 6 {
		t.Errorf("%d of %d done, %d released, %d came", live.Done.Load(), live.Total.Load(), live.Released.Load(), len(got))
	}
	var log bytes.Buffer
	if err := WriteLog(&log, rec); err != nil {
		t.Fatal(err)
	}
	again, complete, err := ReadLog(&log)
	if err != nil || !complete || again.Samples[4].Turn != 1 || again.Samples[4].Session != "conv-1" || *again.Setup.MultiTurn != *setup.MultiTurn || !math.IsInf(again.Setup.Arrivals.Rate, 1) {
		t.Errorf("the log says %+v, %v", again, err)
	}
}

// Turns with shared beginnings stand alone.
func TestConversationWithoutHistory(t *testing.T) {
	setup := allAtOnce(0)
	setup.MultiTurn = &MultiTurn{Turns: 3, Global: 0.5}
	rec, got, _ := converse(t, setup, func(string) string { return "" })
	if body := got["b-conv-1-turn2"].body; !strings.Contains(body, `"messages":[`+user(1, 2)+`]`) {
		t.Errorf("turn 2 sent %s", body)
	}
	if n := rec.Samples[5].Input; n != 5 {
		t.Errorf("%d tokens of input, want 5", n)
	}
}

// A turn that fails, or brings nothing, is the last of its conversation.
func TestConversationBreaksOff(t *testing.T) {
	setup := allAtOnce(0)
	setup.MultiTurn = &MultiTurn{Turns: 3}
	for name, answer := range map[string]string{
		"refused": "HTTP/1.1 500 Oops\r\nContent-Length: 3\r\n\r\nbad",
		"empty":   chunked("data: [DONE]\n\n"),
	} {
		rec, got, live := converse(t, setup, func(id string) string {
			if id == "b-conv-0-turn1" {
				return answer
			}
			return ""
		})
		if len(got) != 5 || len(rec.Samples) != 5 || rec.Samples[1].Session != "conv-0" || rec.Samples[2].Session != "conv-1" {
			t.Errorf("%s: %d turns came, %d samples: %+v", name, len(got), len(rec.Samples), rec.Samples)
		}
		if live.Total.Load() != 5 || live.Done.Load() != 5 {
			t.Errorf("%s: %d of %d done", name, live.Done.Load(), live.Total.Load())
		}
	}
}

// The user takes time to think, and requests wait for each other within the bound.
func TestConversationTimes(t *testing.T) {
	url := playing(t, scripted.Script{TTFT: 40 * time.Millisecond})
	setup := allAtOnce(1)
	setup.MultiTurn = &MultiTurn{Turns: 3, Delay: 60 * time.Millisecond}
	setup.Backend, setup.Stream, setup.URL, setup.Model = "openai-chat", true, url+"/v1/chat/completions", "scripted"
	h, err := NewHTTP(HTTPConfig{Setup: &setup, IDPrefix: "b-"})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	rec, err := Run(t.Context(), h, talks(), Options{Setup: setup})
	if err != nil {
		t.Fatal(err)
	}
	if len(rec.Samples) != 6 {
		t.Fatalf("%d samples", len(rec.Samples))
	}
	for i := range rec.Samples {
		s := &rec.Samples[i]
		if !s.OK() || s.Sent < s.Released || s.Released < s.Scheduled {
			t.Errorf("sample %d: scheduled %v, released %v, sent %v, %s", i, s.Scheduled, s.Released, s.Sent, s.Err)
		}
		if want := setup.MultiTurn.Delay; s.Turn > 0 && s.Scheduled != rec.Samples[i-1].Done+want {
			t.Errorf("sample %d: due %v after the answer, want %v", i, s.Scheduled-rec.Samples[i-1].Done, want)
		}
		for j := range rec.Samples[:i] {
			if o := &rec.Samples[j]; s.Sent < o.Done && o.Sent < s.Done {
				t.Errorf("samples %d and %d at once: %v to %v and %v to %v", j, i, o.Sent, o.Done, s.Sent, s.Done)
			}
		}
	}
}

func TestTurnsInLogs(t *testing.T) {
	log := `{"run":{"version":1,"setup":{}}}` + "\n" + `{"sample":{"Index":0,"Turn":99999,"Chunks":[]}}` + "\n" + `{"end":{}}` + "\n"
	rec, _, err := ReadLog(strings.NewReader(log))
	if err != nil || rec.Skipped != 1 || !strings.Contains(rec.FirstSkipped.Error(), "line 2: sample 0: turn 99999") {
		t.Errorf("got %+v, %v", rec, err)
	}
}
