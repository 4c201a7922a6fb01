package bench

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"ossian/internal/bench"
)

// The rate is that of the last five seconds, the mean that of the whole run. The lines
// are of 10.2 s and 20.2 s: the view waits 200 ms before it shows anything.
func TestBenchViewLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		live := &bench.Live{}
		live.Total.Store(100)
		live.Released.Store(1)
		stop := watch(t.Context(), live, &out, true)
		for range 21 {
			time.Sleep(time.Second)
			live.Sent.Add(3)
			live.Done.Add(2)
			live.First.Add(2)
			live.FirstTime.Add(int64(250 * time.Millisecond))
			live.Tokens.Add(1000)
		}
		live.Failed.Store(1)
		stop()
		stop() // idempotent: it is also deferred
		want := "benchmark: 20 of 100 done (20%), 30 sent, 10 in flight, 1.00k tokens/s (mean 980), mean TTFT 125ms, 10s, 41s left\n" +
			"benchmark: 40 of 100 done (40%), 60 sent, 20 in flight, 1.00k tokens/s (mean 990), mean TTFT 125ms, 20s, 30s left\n"
		if got := out.String(); got != want {
			t.Errorf("got\n%swant\n%s", got, want)
		}
	})
}

func TestBenchViewIsOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		stop := watch(t.Context(), &bench.Live{}, &out, false)
		time.Sleep(time.Minute)
		stop()
		if out.Len() != 0 {
			t.Errorf("wrote %q", out.String())
		}
	})
}

// A run that is broken off shows nothing more, even before stop is called.
func TestBenchViewEndsWithContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		ctx, cancel := context.WithCancel(t.Context())
		stop := watch(ctx, &bench.Live{}, &out, true)
		time.Sleep(time.Second)
		cancel()
		time.Sleep(time.Minute)
		if out.Len() != 0 {
			t.Errorf("wrote %q", out.String())
		}
		stop()
	})
}

func TestBenchViewOnTerminal(t *testing.T) {
	start := time.Unix(1000, 0)
	for _, c := range []struct {
		name                                              string
		total, released, sent, done, failed, tokens, ttft int64
		width                                             int
		want                                              []string // lines, without the bar
	}{
		{name: "before it begins", total: 10, width: 80, want: []string{"0 of 10 done (0%)", "0 sent   0 in flight"}},
		{name: "number unknown", width: 80, released: 1, sent: 1, want: []string{"0 done", "1 sent   1 in flight   0 tokens/s (mean 0)   2s"}},
		{name: "running", total: 10, released: 8, sent: 8, done: 5, failed: 1, tokens: 4000, ttft: int64(1500 * time.Microsecond), width: 100,
			want: []string{"5 of 10 done (50%), 1 failed", "8 sent   3 in flight   2.00k tokens/s (mean 2.00k)   mean TTFT 1.5ms   2s, 2s left"}},
		{name: "refused before it was sent", total: 2, released: 1, done: 1, failed: 1, width: 80,
			want: []string{"1 of 2 done (50%), 1 failed", "0 sent   0 in flight   0 tokens/s (mean 0)   2s, 2s left"}},
		{name: "narrow", total: 10, width: 9, want: []string{"0 of 10 ", "0 sent  "}},
		{name: "no width yet", total: 10, want: []string{"", ""}},
	} {
		t.Run(c.name, func(t *testing.T) {
			live := &bench.Live{}
			v := &view{live: live, now: start}
			live.Total.Store(c.total)
			live.Released.Store(c.released)
			v.Read(start)
			live.Sent.Store(c.sent)
			live.Done.Store(c.done)
			live.Failed.Store(c.failed)
			live.Tokens.Store(c.tokens)
			if c.ttft > 0 {
				live.First.Store(2)
				live.FirstTime.Store(2 * c.ttft)
			}
			v.Read(start.Add(2 * time.Second))
			lines := strings.Split(v.Draw(c.width), "\n")
			if len(lines) != 2 || !strings.HasSuffix(lines[0], c.want[0]) || lines[1] != c.want[1] {
				t.Errorf("got %q, want lines that end in %q and are %q", lines, c.want[0], c.want[1])
			}
		})
	}
}
