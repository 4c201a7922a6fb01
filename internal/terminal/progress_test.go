package terminal

import (
	"bytes"
	"testing"
	"testing/synctest"
	"time"
)

func TestProgressLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		p := NewProgress(&out, "loading", Bytes, 20e9)
		p.Set(5e9) // resumed: not part of the rate
		for range 21 {
			time.Sleep(time.Second)
			p.Add(100e6)
		}
		p.Done()
		want := "loading:  30%  6.00 GB of 20.0 GB  100 MB/s  2m20s left\n" +
			"loading:  35%  7.00 GB of 20.0 GB  100 MB/s  2m10s left\n"
		if got := out.String(); got != want {
			t.Errorf("got\n%swant\n%s", got, want)
		}
	})
}

func TestProgressShortWorkIsSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		p := NewProgress(&out, "loading", Bytes, 100)
		time.Sleep(viewDelay / 2)
		p.Set(100)
		start := time.Now()
		p.Done()
		p.Done() // idempotent: it is also deferred
		if out.Len() != 0 || time.Since(start) != 0 {
			t.Errorf("wrote %q, took %v", out.String(), time.Since(start))
		}
	})
}

func TestProgressQuiet(t *testing.T) {
	p := NewProgress(nil, "loading", Bytes, 100)
	p.Add(1)
	p.Done()
}

func TestProgressStatus(t *testing.T) {
	start := time.Unix(0, 0)
	for _, c := range []struct {
		name        string
		unit        Unit
		total       int64
		first, last int64
		want        string
	}{
		{"not begun", Bytes, 1000, -1, -1, "  0%  0 B of 1.00 kB"},
		{"stalled", Bytes, 1000, 500, 500, " 50%  500 B of 1.00 kB"},
		{"running", Tokens, 4096, 0, 1024, " 25%  1.02k of 4.10k  512 tokens/s  6s left"},
		{"complete", Bytes, 2000, 0, 2000, "100%  2.00 kB of 2.00 kB  1.00 kB/s"},
		{"total unknown", Bytes, 0, 0, 2e6, "2.00 MB  1.00 MB/s"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := &Meter{}
			m.Add(start, c.first)
			m.Add(start.Add(2*time.Second), c.last)
			p := &Progress{unit: c.unit, total: c.total}
			if got := p.status(m); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestFormat(t *testing.T) {
	for _, c := range []struct {
		n    int64
		want string
	}{
		{0, "0 B"}, {999, "999 B"}, {1000, "1.00 kB"}, {9994, "9.99 kB"}, {9996, "10.0 kB"}, {99960, "100 kB"},
		{999499, "999 kB"}, {999500, "1.00 MB"}, {13761264768, "13.8 GB"}, {1<<63 - 1, "9.22 EB"},
	} {
		if got := FormatBytes(c.n); got != c.want {
			t.Errorf("FormatBytes(%d) = %q, want %q", c.n, got, c.want)
		}
	}
	if got := FormatCount(20914757184); got != "20.9B" {
		t.Errorf("FormatCount = %q, want 20.9B", got)
	}
	if got := FormatDuration(1000 * time.Hour); got != "99h0m0s" {
		t.Errorf("FormatDuration = %q", got)
	}
}
