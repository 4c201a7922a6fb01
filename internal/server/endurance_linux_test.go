package server

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"ossian/internal/chat"
	"ossian/internal/soak"
	"ossian/internal/store"
)

// mixture is what a request of the mixed load asks for.
var mixture = []struct{ path, more string }{
	{"/v1/chat/completions", ``},
	{"/v1/chat/completions", `,"stream":true,"n":2`},
	{"/v1/chat/completions", `,"logprobs":true,"top_logprobs":2,` + tools},
	{"/v1/chat/completions", `,"tool_choice":"required",` + tools},
	{"/v1/chat/completions", `,"stream":true,"response_format":{"type":"json_object"}`},
	{"/v1/chat/completions", `,"structured_outputs":{"choice":["left","right"]}`},
	{"/v1/completions", `,"stream":true`},
	{"/v1/responses", ``},
	{"/v1/responses", `,"stream":true,"store":false`},
	{"/v1/responses", `,"background":true`},
	{"/tokenize", ``},
}

// fallible is the format of gpt-oss with the traps that requests bring.
func fallible(t *testing.T) chat.Format {
	t.Helper()
	format, err := chat.New(chat.Facts{Family: "gpt-oss", Tokenizer: harmony(), Stops: []int32{200_002, 200_012}})
	if err != nil {
		t.Fatal(err)
	}
	return trapped{format}
}

// mixed sends one request of the mixed load, of which one in twenty runs into a fault and one
// in twenty loses its client, and deletes what it stored.
func (g *rig) mixed(rng *rand.Rand) error {
	kind := mixture[rng.IntN(len(mixture))]
	text := fmt.Sprint("say ", rng.Uint64())
	input := map[string]string{"/v1/completions": `"prompt":"` + text + `","max_tokens":30`, "/tokenize": `"prompt":"` + text + `"`,
		"/v1/responses": `"input":"` + text + `","max_output_tokens":60`}[kind.path]
	fault := ""
	if input == "" {
		input = `"messages":[{"role":"user","content":"` + text + `"}],"max_tokens":60`
		if rng.IntN(12) == 0 { // of all requests, one in twenty
			fault = fmt.Sprintf(`,"chat_template_kwargs":{"where":%q,"what":"panic","after":%d}`, []string{"render", "push", "close"}[rng.IntN(3)], 0)
		}
	}
	ctx, leave := context.WithCancel(g.t.Context())
	defer leave()
	if rng.IntN(20) == 0 {
		time.AfterFunc(time.Duration(rng.IntN(4))*time.Millisecond, leave)
	}
	res, err := try(ctx, g.client, g.url+kind.path, `{`+input+kind.more+fault+`}`)
	if err != nil {
		return gone(ctx, fault, err)
	}
	body, err := io.ReadAll(res.Body)
	res.Body.Close()
	if err != nil {
		return gone(ctx, fault, err)
	}
	if res.StatusCode != 200 && (fault == "" || res.StatusCode != 500) {
		return fmt.Errorf("%s%s: %d %s", kind.path, kind.more, res.StatusCode, body)
	}
	if _, id, stored := strings.Cut(string(body), `"id":"resp_`); stored && !strings.Contains(kind.more, "store") {
		id, _, _ = strings.Cut(id, `"`)
		g.do("DELETE", "/v1/responses/resp_"+id, "")
	}
	return nil
}

// gone passes over the error of a client that has left, or whose stream a fault has cut.
func gone(ctx context.Context, fault string, err error) error {
	if ctx.Err() != nil || fault != "" {
		return nil
	}
	return err
}

// TestSOK1Mixed serves a mixed load with faults and clients that leave, round after round.
// After each round, at rest, goroutines, descriptors and blocks are back where they were,
// and live memory does not grow: what a round leaves behind, a day would show as a slope.
func TestSOK1Mixed(t *testing.T) {
	const clients, asked = 6, 60
	rounds := soak.Cases(t, 15, 10_000)
	// What clients that left have stored stays, up to a bound that is soon reached.
	kept, err := store.NewMemory(store.Config{Bytes: 64 << 10})
	if err != nil {
		t.Fatal(err)
	}
	g := start(t, setup{reply: hello, format: fallible(t), cfg: Config{Archive: kept}})
	round := func(number int) (times []time.Duration) {
		var all sync.WaitGroup
		var mu sync.Mutex
		for client := range clients {
			all.Go(func() {
				rng := rand.New(rand.NewPCG(uint64(number), uint64(client)))
				for range asked / clients {
					began := time.Now()
					err := g.mixed(rng)
					mu.Lock()
					times = append(times, time.Since(began))
					mu.Unlock()
					if err != nil {
						t.Error(err)
					}
				}
			})
		}
		all.Wait()
		return times
	}
	warm := max(rounds/5, 3) // caches and pools fill, as in the first hour of a day
	for number := range warm {
		round(number)
	}
	g.idle()
	before := g.toll()
	var live, slowest []float64 // of each round: no more is kept, which would be live memory, too
	for number := warm; number < rounds && !t.Failed(); number++ {
		times := round(number)
		g.repaid(toll{before.goroutines, before.descriptors})
		live = append(live, float64(heap()))
		slowest = append(slowest, p99(times).Seconds()*1000)
	}
	if t.Failed() {
		return
	}
	half := len(live) / 2
	first, last := median(live[:half]), median(live[len(live)-half:])
	t.Logf("SOK-1: %d requests in %d rounds: live memory %.2f MiB, then %.2f MiB, slowest of a round %.0f ms, then %.0f ms, nothing left behind",
		rounds*asked, rounds, first/(1<<20), last/(1<<20), median(slowest[:half]), median(slowest[len(slowest)-half:]))
	if last > first*1.02+256<<10 {
		t.Errorf("live memory grew from %.0f to %.0f bytes in %d requests", first, last, (rounds-warm)*asked/2)
	}
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}
