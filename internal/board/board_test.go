package board

import (
	"fmt"
	"sync"
	"testing"
	"time"
)

var start = time.Unix(1_700_000_000, 0)

func after(ms int) time.Time { return start.Add(time.Duration(ms) * time.Millisecond) }

func add(b *Board, id string, choices, perPrompt int, tools bool) *Request {
	return b.Add(&Request{Label: Label{ID: id}, Received: start, Sequences: make([]Sequence, choices), PerPrompt: perPrompt, Tools: tools})
}

// TestStates: what is done for a request follows from what its sequences say, whatever their
// order.
func TestStates(t *testing.T) {
	var b Board
	plain, tools := add(&b, "plain", 2, 2, false), add(&b, "tools", 1, 1, true)
	one := func(r *Request) *Sequence { return &r.Sequences[0] }
	for _, tt := range []struct {
		do   func()
		want string
	}{
		{func() { one(plain).Queue(10); plain.Sequences[1].Queue(10); one(tools).Queue(7) }, "queued queued"},
		{func() { one(plain).Read(4, 6) }, "prefill queued"},
		{func() { one(plain).Speak(4); one(tools).Read(0, 7) }, "decode prefill"},
		{func() { one(plain).Leave(); one(tools).Speak(0) }, "queued decode"},
		{func() { plain.Sequences[1].Leave(); one(tools).Leave() }, "decode tools"},
		{func() { one(tools).Queue(30) }, "decode queued"},
		{func() { plain.End("stop", 1, 1, 1, after(5)); tools.End("error", 1, 1, 1, after(6)) }, "ended ended"},
	} {
		tt.do()
		got := map[string]string{}
		for _, e := range b.Entries(after(1)) {
			got[e.ID] = e.State
		}
		if states := got["plain"] + " " + got["tools"]; states != tt.want {
			t.Errorf("states %q, want %q", states, tt.want)
		}
	}
	var nobody *Sequence // of a request that nobody looks at
	nobody.Queue(1)
	nobody.Read(0, 1)
	nobody.Speak(0)
	nobody.Leave()
}

// TestNumbers: tokens of prompts count once for all their choices, times begin with the receipt,
// and what is said at the end replaces what was seen before.
func TestNumbers(t *testing.T) {
	var b Board
	r := add(&b, "a", 4, 2, false)
	for i := range r.Sequences {
		r.Sequences[i].Queue(100)
		r.Sequences[i].Read(32, 48)
	}
	r.Output(1, after(250))
	r.Output(4, after(1250))
	e := b.Entries(after(2000))[0]
	want := Entry{Label: Label{ID: "a"}, State: Reading, Progress: Progress{Prompt: 200, Cached: 64, Done: 96}, Output: 5, First: 250 * time.Millisecond, Rate: 4, Age: 2 * time.Second}
	if e != want {
		t.Errorf("got  %+v\nwant %+v", e, want)
	}
	r.End("length", 210, 70, 9, after(3000))
	e = b.Entries(after(9000))[0]
	want = Entry{Label: Label{ID: "a"}, State: Ended, Progress: Progress{Prompt: 210, Cached: 70, Done: 210}, Output: 9, First: 250 * time.Millisecond, Rate: 8, Age: 3 * time.Second, End: "length"}
	if e != want {
		t.Errorf("got  %+v\nwant %+v", e, want)
	}
}

// TestOrder: those that go on come first, in their order; of those that ended the last Kept stay,
// the latest first; what was refused was never there. Before counts who waits.
func TestOrder(t *testing.T) {
	var b Board
	var all []*Request
	for i := range Kept + 20 {
		r := add(&b, fmt.Sprint("ended ", i), 1, 1, false)
		r.End("stop", 1, 0, 1, after(i))
	}
	for i := range 4 {
		r := add(&b, fmt.Sprint("waits ", i), 1, 1, false)
		r.Sequences[0].Queue(5)
		all = append(all, r)
	}
	all[1].Sequences[0].Read(0, 1)
	all[2].Drop()
	other := (&Caller{Label: Label{ID: "other"}, Tenant: 2, Received: start, Board: &b}).Wait("another model")
	if e := b.Entries(after(7))[3]; e != (Entry{Label: Label{ID: "other", Model: "another model"}, State: Waiting, Tenant: 2, Age: after(7).Sub(start)}) {
		t.Errorf("who waits for a model is %+v", e)
	}
	all = append(all, add(&b, "behind", 1, 1, false))
	if before := all[4].Progress().Before; before != 2 {
		t.Errorf("%d wait before one behind another model's, 2 wanted", before)
	}
	other.Drop()
	all[4].Drop()
	if before := all[3].Progress().Before; before != 1 {
		t.Errorf("%d wait before the last, 1 wanted", before)
	}
	entries := b.Entries(after(1000))
	if len(entries) != 3+Kept {
		t.Fatalf("%d entries, %d wanted", len(entries), 3+Kept)
	}
	for i, id := range map[int]string{0: "waits 0", 1: "waits 1", 2: "waits 3", 3: fmt.Sprint("ended ", Kept+19), 2 + Kept: "ended 20"} {
		if entries[i].ID != id {
			t.Errorf("entry %d is %q, %q wanted", i, entries[i].ID, id)
		}
	}
}

// TestTogether has many work and many look at once, for the race detector.
func TestTogether(t *testing.T) {
	var b Board
	var working, looking sync.WaitGroup
	stop := make(chan struct{})
	for range 4 {
		looking.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					if n := len(b.Entries(time.Now())); n > Kept+8 {
						t.Errorf("%d entries", n)
						return
					}
				}
			}
		})
	}
	for w := range 8 {
		working.Go(func() {
			for i := range 100 {
				r := add(&b, fmt.Sprint(w, i), 2, 1, i%2 == 0)
				for k := range r.Sequences {
					r.Sequences[k].Queue(10)
					r.Sequences[k].Read(1, 2)
					r.Sequences[k].Speak(1)
				}
				r.Output(2, time.Now())
				_ = r.Progress()
				r.Sequences[0].Leave()
				r.End("stop", 10, 1, 2, time.Now())
			}
		})
	}
	working.Wait()
	close(stop)
	looking.Wait()
	if n := len(b.Entries(time.Now())); n != Kept {
		t.Errorf("%d entries are left, %d wanted", n, Kept)
	}
}
