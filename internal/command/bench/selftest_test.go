package bench

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"os/exec"
	"reflect"
	"strings"
	"testing"
	"time"

	"ossian/internal/bench"
	"ossian/internal/bench/scripted"
)

func TestSeenBy(t *testing.T) {
	const ms, kind = time.Millisecond, bench.Choices | bench.Text
	rec := &bench.Recording{Samples: []bench.Sample{
		{Index: 4, Sent: 10 * ms, Chunks: []bench.Chunk{
			{At: 58 * ms, Lag: int32(2 * ms), Kind: kind}, {At: 70 * ms, Lag: int32(ms), Kind: kind},
			{At: 70 * ms, Lag: int32(ms), Kind: bench.Usage}, {At: 83 * ms, Lag: -1, Kind: kind}, {At: 90 * ms, Kind: bench.Done}}},
		{Index: 5, Sent: 10 * ms, Err: "refused"},
	}}
	for _, tt := range []struct {
		kernel bool
		want   scripted.Seen
	}{
		{false, scripted.Seen{Index: 4, TTFT: 50 * ms, Gaps: []time.Duration{11 * ms, 12 * ms}}},
		{true, scripted.Seen{Index: 4, TTFT: 48 * ms, Gaps: []time.Duration{12 * ms, 13 * ms}}},
	} {
		if got := seenBy(rec, tt.kernel); !reflect.DeepEqual(got, []scripted.Seen{tt.want}) {
			t.Errorf("kernel %v: got %+v, want %+v", tt.kernel, got, tt.want)
		}
	}
}

func TestSelfPlans(t *testing.T) {
	o := selfTest{rate: 100, most: 100_000, length: 5 * time.Second}
	for n, want := range map[int]selfPlan{
		1:      {1, 500, 10 * time.Millisecond, 1},
		1000:   {1000, 500, 10 * time.Millisecond, 500},
		5000:   {5000, 100, 50 * time.Millisecond, 2500},
		900000: {900000, 2, 9 * time.Second, 450000},
	} {
		if got := o.plan(n); got != want {
			t.Errorf("%d streams: got %+v, want %+v", n, got, want)
		}
	}
}

// What would divide by nothing or take all memory is refused before a server starts.
func TestSelfTestRefuses(t *testing.T) {
	inf := math.Inf(1)
	for _, tt := range []struct {
		streams            int
		rate, most, arrive float64
		length             time.Duration
		want               string
	}{
		{1, 0, 1e5, 0, time.Second, "--rate 0: expected 0.001 to 1e+06"},
		{1, math.NaN(), 1e5, 0, time.Second, "--rate NaN"},
		{1, inf, inf, 0, time.Second, "--rate +Inf"},
		{1, 2e9, 1e10, 0, time.Second, "--rate 2e+09"},
		{1, 100, 0, 0, time.Second, "--most 0"},
		{1, 100, 1e5, 0, 0, "--length 0"},
		{1, 100, 1e5, 0, -5 * time.Second, "--length -5"},
		{1, 100, 1e5, inf, time.Second, "--arrivals +Inf"},
		{1, 100, 1e5, 1e6, time.Hour, "--arrivals 1e+06: 3600000000 requests in 1h0m0s"},
		{0, 100, 1e5, 0, time.Second, "--streams 0: expected 1 to 100000"},
		{2e9, 100, 1e5, 0, time.Second, "--streams 2000000000"},
		{1, 1e6, 1e9, 0, 200 * time.Second, "--streams 1: 200000000 tokens each in 3m20s"},
	} {
		s := selfTest{streams: []int{tt.streams}, rate: tt.rate, most: tt.most, arrive: tt.arrive, length: tt.length,
			server: func(ctx context.Context, _ ...string) *exec.Cmd { return exec.CommandContext(ctx, "no such program") }}
		if err := s.run(t.Context(), io.Discard); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%v, want %s", err, tt.want)
		}
	}
}

// The client measures every event of the server, and never sees one before it was sent.
func TestSelfTestMeasures(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv, err := scripted.Serve(t.Context(), ln, scripted.Options{Scripts: []scripted.Script{{TTFT: 5 * time.Millisecond, Gap: 2 * time.Millisecond}}})
	if err != nil {
		t.Fatal(err)
	}
	defer srv.Close()
	r, err := selfPlan{streams: 8, tokens: 20, gap: 2 * time.Millisecond, arrive: 100}.measure(t.Context(), srv.URL())
	if err != nil {
		t.Fatal(err)
	}
	if e := r.handled; e.Requests != 8 || e.Missed != 0 || e.Events != 160 || e.TTFT.Mean <= 0 || e.TTFT.P99 < e.TTFT.Mean || e.Gap.N != 152 {
		t.Errorf("errors %+v", e)
	}
	if r.client.N != 8 || r.client.Max < 0 || r.server.N != 160 || r.server.P50 < 0 {
		t.Errorf("client late %+v, server late %+v", r.client, r.server)
	}
	var line bytes.Buffer
	r.write(&line)
	if f := strings.Split(line.String(), "\t"); len(f) != 15 || f[0] != "8" || f[1] != "4000" || f[2] != "160" || f[3] != "0" {
		t.Errorf("line %q", line.String())
	}
}

// The command serves what its flags say until it is stopped.
func TestScriptedCommand(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	out, in := io.Pipe()
	c := scriptedCommand()
	c.SetArgs([]string{"--port", "0", "--dialect", "ollama", "--ttft", "0s", "--gap", "0s", "--tokens", "3", "--fault", "status", "--fault-status", "429", "--fault-every", "2"})
	c.SetOut(in)
	ended := make(chan error, 1)
	go func() { ended <- c.ExecuteContext(ctx) }()
	var url string
	if _, err := fmt.Fscanf(out, "listening on %s\n", &url); err != nil {
		t.Fatal(err)
	}
	for i, want := range []int{200, 429, 200} {
		res, err := http.Post(url+"/v1/chat/completions", "application/json", strings.NewReader(`{"stream":true}`))
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(res.Body)
		res.Body.Close()
		if err != nil || res.StatusCode != want || (want == 200 && strings.Count(string(text), `"fp_ollama"`) != 4) {
			t.Errorf("request %d: %d, %v, %s", i, res.StatusCode, err, text)
		}
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestScriptedCommandRefuses(t *testing.T) {
	for _, tt := range []struct{ args, want string }{
		{"--dialect x", `dialect "x" is unknown`},
		{"--port 0 --fault x", `fault "x" is unknown`},
		{"--port 0 --gap -1s", "gap: -1s"},
		{"--port 0 --fault-every 0", "--fault-every 0: expected 1"},
		{"--port 0 --fault-every 2000000000", "--fault-every 2000000000"},
	} {
		c := scriptedCommand()
		c.SilenceErrors, c.SilenceUsage = true, true
		c.SetArgs(strings.Fields(tt.args))
		if err := c.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %s", tt.args, err, tt.want)
		}
	}
}
