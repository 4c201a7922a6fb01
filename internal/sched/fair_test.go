package sched

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"ossian/internal/runner"
	"ossian/internal/sample"
	"ossian/internal/soak"
)

// A clock drives a scheduler in virtual time with a runner that computes nothing:
// a step takes 10 ms and 0.1 ms per token, every id is 1.
type clock struct {
	t      *testing.T
	s      *Scheduler
	now    time.Time
	next   uint64
	flight []*runner.Batch
	first  map[uint64]time.Duration // from add to the first token
	ended  map[uint64]bool
	added  map[uint64]time.Time
	served map[uint32]int // tokens by tenant
	of     map[uint64]uint32

	started []uint64 // who began in the last step, by its place among all arrivals
}

func newClock(t *testing.T, info runner.Info) *clock {
	t.Helper()
	s, err := New(Config{MaxQueue: 1 << 20}, info)
	if err != nil {
		t.Fatal(err)
	}
	return &clock{t: t, s: s, now: time.Unix(0, 0), first: make(map[uint64]time.Duration), ended: make(map[uint64]bool),
		added: make(map[uint64]time.Time), served: make(map[uint32]int), of: make(map[uint64]uint32)}
}

func (c *clock) add(tenant uint32, prompt, output int) uint64 {
	c.t.Helper()
	c.next++
	tokens := make([]int32, prompt)
	for i, n := 0, c.next; i < prompt; i, n = i+1, n/100 { // no two begin alike
		tokens[i] = int32(n % 100)
	}
	if err := c.s.Add(&Seq{ID: c.next, Tenant: tenant, Tokens: tokens, MaxTokens: output, Params: &sample.Params{}}); err != nil {
		c.t.Fatal(err)
	}
	c.added[c.next], c.of[c.next] = c.now, tenant
	return c.next
}

// step plans as far ahead as the runner goes and finishes one step; false = idle.
func (c *clock) step() bool {
	c.t.Helper()
	c.started = c.started[:0]
	for len(c.flight) < len(c.s.steps) {
		b := c.s.Plan(c.now)
		if b == nil {
			break
		}
		l := &c.s.steps[(c.s.planned-1)%uint64(len(c.s.steps))]
		for i, q := range l.seqs {
			c.served[q.Tenant] += b.Rows[i].Len
			if q.Started.Equal(c.now) {
				c.started = append(c.started, q.arrival)
			}
		}
		c.flight = append(c.flight, b)
	}
	if len(c.flight) == 0 {
		return false
	}
	b := c.flight[0]
	c.flight = c.flight[1:]
	c.now = c.now.Add(10*time.Millisecond + time.Duration(len(b.Tokens))*100*time.Microsecond)
	res := &runner.Result{Tokens: make([][]int32, len(b.Rows))}
	for i := range b.Rows {
		if b.Rows[i].Sample {
			res.Tokens[i] = []int32{1}
		}
	}
	for _, o := range c.s.Commit(b, res, c.now) {
		if _, ok := c.first[o.ID]; !ok {
			c.first[o.ID] = c.now.Sub(c.added[o.ID])
		}
		c.ended[o.ID] = o.Finish != FinishNone
	}
	return true
}

var roomy = runner.Info{Name: "clock", Vocab: 100, BlockSize: 16, Groups: []runner.Group{{Blocks: 2000}, {Blocks: 2000, Window: 128}}, MaxSeqs: 16, MaxTokens: 256, MaxLen: 4096, Depth: 1}

// Tenant 1 always has a thousand long requests waiting; tenant 2 asks for little once
// a second. The limits are virtual times, so the worst case is held to what the p99 may be.
func TestADM6Flood(t *testing.T) {
	t.Parallel()
	asked := soak.Cases(t, 200, 10_000)
	for name, info := range map[string]runner.Info{
		"slots are short":  roomy,
		"blocks are short": func() runner.Info { i := roomy; i.Groups = []runner.Group{{Blocks: 300}}; i.MaxSeqs = 64; return i }(),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			alone := newClock(t, info)
			id := alone.add(2, 100, 20)
			alone.step()
			chunk := 10*time.Millisecond + time.Duration(info.MaxTokens)*100*time.Microsecond
			limit := 3*alone.first[id] + chunk

			c := newClock(t, info)
			var mine []uint64
			for next := c.now.Add(3 * time.Second); len(mine) < asked; c.step() {
				for c.s.Stats().Waiting < 1000 {
					c.add(1, 700, 200)
				}
				if !c.now.Before(next) { // it came while the last step ran
					id := c.add(2, 100, 20)
					c.added[id], next = next, next.Add(time.Second)
					mine = append(mine, id)
				}
			}
			for range 100 {
				c.step()
			}
			var waits []time.Duration
			for _, id := range mine {
				if c.first[id] == 0 {
					t.Fatalf("request %d has no token", id)
				}
				waits = append(waits, c.first[id])
			}
			slices.Sort(waits)
			t.Logf("ADM-6: %d short requests beside %d long ones: first token alone %v, median %v, worst %v, limit %v, %d preemptions",
				asked, len(c.first)-asked, alone.first[id], waits[len(waits)/2], waits[len(waits)-1], limit, c.s.Stats().Preemptions)
			if worst := waits[len(waits)-1]; worst > limit {
				t.Errorf("the first token takes up to %v, want at most %v", worst, limit)
			}
		})
	}
}

// Tenants that always have something waiting get the same number of tokens in every
// minute, whatever the size of their requests.
func TestADM6EqualShares(t *testing.T) {
	t.Parallel()
	minutes := soak.Cases(t, 5, 500)
	c := newClock(t, roomy)
	sizes := [...][2]int{{800, 100}, {40, 30}, {300, 3}, {10, 250}} // [tenant] prompt, output
	for range 12 {
		for tenant, size := range sizes {
			c.add(uint32(tenant), size[0], size[1])
		}
	}
	least, most := 1.0, 0.0
	until := time.Unix(30, 0) // it takes a while until all are under way
	var before [len(sizes)]int
	for minute := 0; minute <= minutes; minute++ {
		for tenant := range sizes {
			before[tenant] = c.served[uint32(tenant)]
		}
		for c.now.Before(until) {
			c.step()
			for id, over := range c.ended {
				if over {
					delete(c.ended, id)
					c.add(c.of[id], sizes[c.of[id]][0], sizes[c.of[id]][1])
				}
			}
		}
		until = until.Add(time.Minute)
		total := 0
		for tenant, n := range before {
			total += c.served[uint32(tenant)] - n
		}
		for tenant, n := range before {
			share := float64(c.served[uint32(tenant)]-n) / float64(total)
			if minute == 0 {
				continue
			}
			least, most = min(least, share), max(most, share)
			if share < 0.225 || share > 0.275 {
				t.Errorf("minute %d: tenant %d gets %.1f %% of the tokens, want 22.5 to 27.5", minute, tenant, 100*share)
			}
		}
	}
	t.Logf("ADM-6: 4 equal tenants got %.1f to %.1f %% of the tokens in each of %d minutes", 100*least, 100*most, minutes)
}

// Small requests keep coming, of the same tenant and of another one. A large one, for
// which there are hardly ever enough blocks, gets in: few that came after it are
// admitted while it waits for them.
func TestADM7LargeAmongSmall(t *testing.T) {
	t.Parallel()
	info := roomy
	info.Groups = []runner.Group{{Blocks: 60}}
	info.MaxLen = 960
	arrivals := soak.Cases(t, 10_000, 1_000_000)
	c := newClock(t, info)
	rng := rand.New(rand.NewPCG(1, 1))
	var large *Seq // the one that waits
	larges, overtaken, most, longest := 0, 0, 0, time.Duration(0)
	step := func() bool {
		blocked := large != nil && !large.blocked.IsZero()
		if !c.step() {
			return false
		}
		switch {
		case large == nil:
		case !large.Started.IsZero():
			most, longest = max(most, overtaken), max(longest, large.Started.Sub(c.added[large.ID]))
			large, overtaken = nil, 0
		case blocked:
			for _, arrival := range c.started {
				if arrival > large.arrival {
					overtaken++
				}
			}
		}
		return true
	}
	for n := range arrivals {
		if large == nil && n%100 == 50 {
			large = c.s.seqs[c.add(1, 850, 50)]
			larges++
		}
		c.add(1+uint32(n%2), 20+rng.IntN(60), 1+rng.IntN(20))
		for c.s.Stats().Waiting > 20 {
			step()
		}
	}
	for step() {
	}
	t.Logf("ADM-7: %d arrivals, %d of them large, overtaken at most %d times, first step after at most %v, 0 starved", arrivals+larges, larges, most, longest)
	if !c.s.Idle() || large != nil || most > maxOvertaken {
		t.Errorf("overtaken up to %d times, want at most %d; at the end %+v", most, maxOvertaken, c.s.Stats())
	}
}

// More large requests than are tried in a step wait for blocks. A small one behind them
// is admitted all the same.
func TestADM7SmallBehindManyLarge(t *testing.T) {
	t.Parallel()
	info := roomy
	info.Groups = []runner.Group{{Blocks: 300}}
	c := newClock(t, info)
	c.add(1, 1000, 500)
	c.add(2, 2000, 500) // it was served more
	for range 14 {      // their prompts
		c.step()
	}
	for range 5 * maxFailed {
		c.add(1, 2400, 50)
	}
	small := []uint64{c.add(1, 20, 5), c.add(2, 20, 5)}
	for range 12 {
		c.step()
	}
	for _, id := range small {
		if c.first[id] == 0 {
			t.Errorf("a request of 2 blocks, of tenant %d, waits: %+v", c.of[id], c.s.Stats())
		}
	}
	for c.step() {
	}
	if !c.s.Idle() || len(c.ended) != int(c.next) {
		t.Errorf("at the end %+v, %d of %d requests ended", c.s.Stats(), len(c.ended), c.next)
	}
}

// As many sequences of the largest length as the pool was made for run side by side, and
// one that has to wait leaves the prefix cache as it was.
func TestAdmission(t *testing.T) {
	t.Parallel()
	info := roomy
	info.Groups, info.MaxSeqs = []runner.Group{{Blocks: 512}}, 2
	c := newClock(t, info)
	c.add(1, 4085, 11)
	c.step()
	c.add(1, 4085, 11)
	for range 17 { // the prompt of the first
		c.step()
	}
	if c.s.Stats().Running != 2 {
		t.Errorf("two sequences of 4,096 tokens and blocks for two: %+v", c.s.Stats())
	}

	info.Groups, info.MaxSeqs = []runner.Group{{Blocks: 260}}, 16
	c = newClock(t, info)
	c.add(1, 1600, 1) // ends, and 100 blocks of it can be found
	for c.step() {
	}
	for range 5 {
		c.add(1, 20, 1000)
	}
	c.step()
	before := c.s.Stats().Groups[0].Cached
	large := c.add(1, 3960, 1) // 248 blocks of the 250 that are free or cached, 5 are to remain
	c.step()
	if after := c.s.Stats(); c.first[large] != 0 || after.Waiting != 1 || before != 100 || after.Groups[0].Cached != before {
		t.Errorf("%d of %d blocks are still cached: %+v", after.Groups[0].Cached, before, after)
	}
}

// With a pool of 1.0 to 1.2 requests, each ends within twice its tokens and those of
// all that came before.
func TestADM3Progress(t *testing.T) {
	t.Parallel()
	runs := soak.Cases(t, 1000, 200_000)
	preemptions, all := uint64(0), 0
	for seed := range uint64(runs) {
		rng := rand.New(rand.NewPCG(seed, 4))
		depth := 1 + rng.IntN(3)
		longest := 20 + rng.IntN(40)
		blocks := (longest*(100+rng.IntN(21))/100 + 3) / 4
		c := newClock(t, runner.Info{Name: "clock", Vocab: 100, BlockSize: 4, Groups: []runner.Group{{Blocks: blocks}, {Blocks: blocks, Window: 9}},
			MaxSeqs: 6, MaxTokens: 8, MaxLen: longest, Depth: depth})
		var budget []int // steps until which each request must have ended
		sum := 0
		for range 12 {
			total := 2 + rng.IntN(longest-1)
			prompt := 1 + rng.IntN(total-1)
			c.add(0, prompt, total-prompt)
			sum += total
			budget = append(budget, 2*sum)
		}
		for steps := 1; c.step(); steps++ {
			all++
			for i, limit := range budget {
				if steps > limit && !c.ended[uint64(i+1)] {
					t.Fatalf("seed %d: request %d of %d has not ended after %d steps: %+v", seed, i+1, len(budget), steps, c.s.Stats())
				}
			}
		}
		if len(c.ended) != len(budget) {
			t.Fatalf("seed %d: %d of %d requests ended", seed, len(c.ended), len(budget))
		}
		preemptions += c.s.Stats().Preemptions
	}
	t.Logf("ADM-3: %d pools of 1.0-1.2 requests, 12 requests each, %d steps, %d preemptions, 0 stuck", runs, all, preemptions)
	if preemptions < uint64(runs) {
		t.Errorf("%d preemptions in %d runs: too few to prove anything", preemptions, runs)
	}
}

// steady returns a scheduler with 256 sequences that speak, and a function that does
// a step.
func steady(tb testing.TB, depth int) (*Scheduler, func()) {
	info := runner.Info{Name: "steady", Vocab: 200000, BlockSize: 16, Groups: []runner.Group{{Blocks: 256 * 130}, {Blocks: 256 * 20, Window: 128}},
		MaxSeqs: 256, MaxTokens: 8192, MaxLen: 1 << 15, Depth: depth}
	s, err := New(Config{}, info)
	if err != nil {
		tb.Fatal(err)
	}
	for id := range uint64(256) {
		tokens := make([]int32, 200+id)
		tokens[0] = int32(id)
		if err := s.Add(&Seq{ID: id, Tenant: uint32(id % 4), Tokens: tokens, MaxTokens: 1 << 14, Stops: []int32{3, 4, 5}, Params: &sample.Params{}}); err != nil {
			tb.Fatal(err)
		}
	}
	all, res := slices.Repeat([][]int32{{7}}, 256), &runner.Result{}
	now := time.Unix(0, 0)
	var flight []*runner.Batch
	step := func() {
		for len(flight) < depth {
			b := s.Plan(now)
			if b == nil {
				break
			}
			flight = append(flight, b)
		}
		b := flight[0]
		flight = append(flight[:0], flight[1:]...)
		res.Tokens = all[:len(b.Rows)]
		out := s.Commit(b, res, now)
		if len(out) > 0 && out[0].Finish != FinishNone {
			tb.Fatalf("%+v", out[0])
		}
	}
	for s.Stats().Waiting > 0 || s.Stats().Sampled < 2*256 {
		step()
	}
	return s, step
}

func TestStepAllocs(t *testing.T) {
	for _, depth := range []int{1, 2, 3} {
		s, step := steady(t, depth)
		before := s.Stats()
		if n := testing.AllocsPerRun(200, step); n != 0 {
			t.Errorf("depth %d: a step allocates %v times", depth, n)
		}
		if st := s.Stats(); st.Sampled-before.Sampled < 200*256 {
			t.Errorf("depth %d: the steps did nothing: %+v", depth, st)
		}
	}
}

// BenchmarkStep256 is a step of 256 sequences that speak: planning and recording,
// without the runner.
func BenchmarkStep256(b *testing.B) {
	for _, depth := range []int{1, 2} {
		b.Run(fmt.Sprint("depth=", depth), func(b *testing.B) {
			_, step := steady(b, depth)
			n := 0
			for b.Loop() {
				if n++; n%10000 == 0 { // they would reach their end
					b.StopTimer()
					_, step = steady(b, depth)
					b.StartTimer()
				}
				step()
			}
		})
	}
}

// BenchmarkChurn is a step when blocks are short and the queue is long: prompts of
// 500 tokens, of which 100 are shared, and answers of 64.
func BenchmarkChurn(b *testing.B) {
	info := runner.Info{Name: "churn", Vocab: 200000, BlockSize: 16, Groups: []runner.Group{{Blocks: 8000}, {Blocks: 4000, Window: 128}},
		MaxSeqs: 256, MaxTokens: 2048, MaxLen: 4096, Depth: 2}
	s, err := New(Config{MaxQueue: 2000}, info)
	if err != nil {
		b.Fatal(err)
	}
	params := &sample.Params{}
	all, res, now, id := slices.Repeat([][]int32{{7}}, 256), &runner.Result{}, time.Unix(0, 0), uint64(0)
	var flight []*runner.Batch
	step := func() {
		for s.queued < 1000 {
			tokens := make([]int32, 500)
			tokens[100], id = int32(id%200000), id+1
			if err := s.Add(&Seq{ID: id, Tenant: uint32(id % 7), Tokens: tokens, MaxTokens: 64, Params: params}); err != nil {
				b.Fatal(err)
			}
		}
		for len(flight) < info.Depth {
			flight = append(flight, s.Plan(now))
		}
		done := flight[0]
		flight = append(flight[:0], flight[1:]...)
		res.Tokens = all[:len(done.Rows)]
		s.Commit(done, res, now)
		now = now.Add(20 * time.Millisecond)
	}
	for range 500 {
		step()
	}
	for b.Loop() {
		step()
	}
	st := s.Stats()
	b.ReportMetric(float64(st.Rows)/float64(st.Steps), "rows/step")
	b.ReportMetric(float64(st.Tokens)/float64(st.Steps), "tokens/step")
}
