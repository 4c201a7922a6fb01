package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"ossian/internal/bench"
)

// playEvents is a server that sends a chat at the times of a file: [milliseconds, delta] or, at
// the end, [milliseconds, what else is sent].
func playEvents(t *testing.T, events [][2]json.RawMessage) *httptest.Server {
	t.Helper()
	rest := map[string]string{
		"finish_reason stop":                           `{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`,
		"usage: 10 prompt tokens, 6 completion tokens": `{"choices":[],"usage":{"prompt_tokens":10,"completion_tokens":6}}`,
		"[DONE]": "[DONE]",
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		began := time.Now()
		for _, event := range events {
			var at float64
			var what string
			if err := json.Unmarshal(event[0], &at); err != nil {
				t.Error(err)
				return
			}
			var delta bytes.Buffer // on one line
			if err := json.Compact(&delta, event[1]); err != nil {
				t.Error(err)
			}
			text := fmt.Sprintf(`{"choices":[{"index":0,"delta":%s,"finish_reason":null}]}`, &delta)
			if json.Unmarshal(event[1], &what) == nil {
				var ok bool
				if text, ok = rest[what]; !ok {
					t.Errorf("event %q is not known", what)
				}
			}
			time.Sleep(time.Until(began.Add(time.Duration(at * float64(time.Millisecond)))))
			fmt.Fprintf(w, "data: %s\n\n", text)
			w.(http.Flusher).Flush()
		}
	}))
	t.Cleanup(server.Close)
	return server
}

// TestEarlyRole: where an event with the role and an empty content starts no TTFT, the finding
// that TTFT is too early does not hold; where it does, the finding does. The clients of
// vllm 0.11 and, as testdata/peers/vllm-rs/chat recorded it, vllm-rs count that event.
func TestEarlyRole(t *testing.T) {
	t.Parallel()
	var file struct {
		Repeat int
		Events [][2]json.RawMessage
	}
	if err := json.Unmarshal([]byte(read1(t, "testdata", "early-role-event.json")), &file); err != nil {
		t.Fatal(err)
	}
	server := playEvents(t, file.Events)
	for profile, early := range map[bench.Profile]bool{bench.VLLM: false, bench.SGLang: false, bench.LMDeploy: false, bench.VLLM011: true, bench.VLLMRust: true} {
		t.Run(profile.String(), func(t *testing.T) {
			t.Parallel()
			setup := bench.Setup{Profile: profile, Backend: "openai-chat", URL: server.URL + "/v1/chat/completions", Model: "x", Tokenizer: "words", Stream: true,
				Arrivals: bench.Arrivals{Rate: math.Inf(1), Burstiness: 1, Concurrency: 1}}
			target, err := bench.NewHTTP(bench.HTTPConfig{Setup: &setup})
			if err != nil {
				t.Fatal(err)
			}
			defer target.Close()
			work := make(bench.Workload, file.Repeat)
			for i := range work {
				work[i].Prompt, work[i].Input, work[i].Output = fmt.Sprint("prompt ", i), 10, 6
			}
			recording, err := bench.Run(t.Context(), target, work, bench.Options{Setup: setup})
			if err != nil {
				t.Fatal(err)
			}
			summary := Summarize(recording, words)
			found := slices.ContainsFunc(summary.Ossian.Findings, func(f Finding) bool { return f.ID == FaultEarly })
			if summary.Completed != file.Repeat || found != early {
				t.Errorf("%d completed, %s is %v, want %v: %+v", summary.Completed, FaultEarly, found, early, summary.Ossian.Findings)
			}
			// The role comes at 0 ms, the first token at 200.
			if ttft := summary.TTFT.Mean; early != (ttft < 150) || (!early && ttft < 199) {
				t.Errorf("mean TTFT %.1f ms", ttft)
			}
			if first := summary.Ossian.FirstToken.Mean; first < 199 {
				t.Errorf("first token after %.1f ms", first)
			}
		})
	}
}
