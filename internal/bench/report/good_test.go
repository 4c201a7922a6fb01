package report

import (
	"math"
	"math/rand/v2"
	"strings"
	"time"

	"ossian/internal/bench"
)

var profiles = []bench.Profile{bench.VLLM, bench.VLLMRust, bench.VLLM011, bench.LMDeploy, bench.SGLang}

const ms = time.Millisecond

// words counts words: the tokenizer of these tests.
func words(text string) int { return len(strings.Fields(text)) }

// good is a run without a fault: 300 requests of 21 tokens at 12 per second, every one
// with a usage event and [DONE] at its end.
func good(p bench.Profile) *bench.Recording {
	r := &bench.Recording{
		Setup: bench.Setup{Profile: p, Backend: "openai", Dialect: "vllm", URL: "http://127.0.0.1:8000/v1/completions",
			Model: "m", ModelID: "org/m", Tokenizer: "words", Dataset: "random", Hash: "0123456789abcdef", Seed: 7,
			Arrivals: bench.Arrivals{Rate: 12, Burstiness: 1}, IgnoreEOS: true, Stream: true, Percentiles: []float64{99},
			Args: []string{"bench", "serve", "--random-input-len", "100", "--random-output-len=21"}},
		Began:  time.Date(2026, 11, 21, 14, 3, 5, 123456000, time.UTC),
		Before: map[string]float64{`vllm:prefix_cache_queries_total{model_name="m"}`: 1000, `vllm:prefix_cache_hits_total{model_name="m"}`: 900},
		After:  map[string]float64{`vllm:prefix_cache_queries_total{model_name="m"}`: 31000, `vllm:prefix_cache_hits_total{model_name="m"}`: 900},
		Client: bench.Client{CPU: 200 * ms, MaxPause: ms / 10, Threads: 2, Kernel: true},
	}
	g := rand.New(rand.NewPCG(11, 12))
	for i := range 300 {
		due := time.Duration(i+1) * 80 * ms
		r.Samples = append(r.Samples, stream(i, due, 40*ms+time.Duration(g.IntN(20000))*time.Microsecond, 21, func() time.Duration {
			return 15*ms + time.Duration(g.IntN(10000))*time.Microsecond
		}))
		r.Duration = max(r.Duration, r.Samples[i].Done)
	}
	return r
}

// closed is good with 4 requests at once, as many as there may be, and no rate.
func closed(p bench.Profile) *bench.Recording {
	r := good(p)
	r.Setup.Arrivals = bench.Arrivals{Rate: math.Inf(1), Burstiness: 1, Concurrency: 4}
	var free [4]time.Duration
	r.Duration = 0
	for i := range r.Samples {
		s := &r.Samples[i]
		start := free[i%4]
		shift(s, start-s.Sent)
		s.Scheduled, s.Released = 0, 0
		free[i%4] = s.Done + 10*time.Microsecond
		r.Duration = max(r.Duration, s.Done)
	}
	return r
}

// shift moves a sample in time.
func shift(s *bench.Sample, by time.Duration) {
	for _, t := range []*time.Duration{&s.Scheduled, &s.Released, &s.Sent, &s.Done} {
		*t += by
	}
	for i := range s.Chunks {
		s.Chunks[i].At += by
	}
}

// stream is a request that goes well: tokens events, the first after ttft.
func stream(i int, due, ttft time.Duration, tokens int, gap func() time.Duration) bench.Sample {
	s := bench.Sample{Index: i, Scheduled: due, Released: due + 30*time.Microsecond, Sent: due + 50*time.Microsecond,
		Input: 100, Asked: tokens, Status: 200, Counts: bench.Counts{Prompt: 101, Completion: tokens, Cached: 0, Reasoning: 0},
		Text: strings.Repeat("word ", tokens), Finish: "length"}
	at := s.Sent + ttft
	for k := range tokens {
		if k > 0 {
			at += gap()
		}
		s.Chunks = append(s.Chunks, bench.Chunk{At: at, Lag: 20000, Tokens: -1, Kind: bench.Choices | bench.Text | bench.Output})
	}
	s.Chunks = append(s.Chunks, bench.Chunk{At: at + 2*time.Microsecond, Lag: 20000, Tokens: -1, Kind: bench.Usage},
		bench.Chunk{At: at + 3*time.Microsecond, Lag: 20000, Tokens: -1, Kind: bench.Done})
	s.Done = at + 4*time.Microsecond
	return s
}

// fail makes a sample one that failed after n of its events.
func fail(s *bench.Sample, n, status int, err string) {
	s.Chunks = s.Chunks[:n]
	s.Status, s.Err, s.Text, s.Finish = status, err, "", ""
	s.Counts = bench.Counts{Prompt: -1, Completion: -1, Cached: -1, Reasoning: -1}
}
