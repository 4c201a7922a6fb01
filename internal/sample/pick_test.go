package sample

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"
)

var (
	inf = float32(math.Inf(1))
	nan = float32(math.NaN())
)

func TestPickGreedy(t *testing.T) {
	negZero := float32(math.Copysign(0, -1))
	long := make([]float32, 100)
	long[37], long[90] = 5, 5
	tests := []struct {
		name   string
		logits []float32
		mask   []uint64
		p      Params
		hist   []int32
		want   int32
	}{
		{name: "largest", logits: []float32{1, 3, 2}, want: 1},
		{name: "ties to the lowest id", logits: []float32{1, 3, 3}, want: 1},
		{name: "ties across blocks", logits: long, want: 37},
		{name: "zeros of both signs tie", logits: []float32{-1, negZero, 0}, want: 1},
		{name: "NaN is never chosen", logits: []float32{nan, -5, nan}, want: 1},
		{name: "+Inf", logits: []float32{1, inf, inf}, want: 1},
		{name: "nothing finite", logits: []float32{-inf, nan}, want: 0},
		{name: "mask", logits: []float32{9, 1, 2}, mask: []uint64{0b110}, want: 2},
		{name: "nothing finite is allowed", logits: []float32{9, nan, -inf}, mask: []uint64{0b110}, want: 1},
		{name: "nothing is allowed", logits: []float32{9, 1}, mask: []uint64{0}, want: 0},
		{name: "mask bits beyond the vocabulary", logits: []float32{9, 1}, mask: []uint64{0b100}, want: 0},
		{name: "short mask", logits: long, mask: []uint64{0}, want: 0},
		{name: "one id", logits: []float32{3}, want: 0},
		{name: "bias", logits: []float32{1, 2}, p: Params{LogitBias: map[int32]float32{0: 1.5, 77: 9, -3: 9}}, want: 0},
		{name: "bias does not lift the mask", logits: []float32{1, 2}, mask: []uint64{1}, p: Params{LogitBias: map[int32]float32{1: 100}}, want: 0},
		{name: "repetition divides positive", logits: []float32{3, 2}, p: Params{RepetitionPenalty: 2}, hist: []int32{0}, want: 1},
		{name: "repetition multiplies negative", logits: []float32{-1, -1.5}, p: Params{RepetitionPenalty: 2}, hist: []int32{0, 0}, want: 1},
		{name: "repetition applies once", logits: []float32{5, 2}, p: Params{RepetitionPenalty: 2}, hist: []int32{0, 0, 0}, want: 0},
		{name: "repetition counts the prompt", logits: []float32{3, 2}, p: Params{RepetitionPenalty: 2, Prompt: 1}, hist: []int32{0}, want: 1},
		{name: "frequency skips the prompt", logits: []float32{3, 2}, p: Params{FrequencyPenalty: 2, Prompt: 1}, hist: []int32{0}, want: 0},
		{name: "frequency counts", logits: []float32{3, 2}, p: Params{FrequencyPenalty: 0.6}, hist: []int32{0, 0}, want: 1},
		{name: "presence does not count", logits: []float32{3, 2}, p: Params{PresencePenalty: 0.6}, hist: []int32{0, 0}, want: 0},
		{name: "presence", logits: []float32{3, 2}, p: Params{PresencePenalty: 1.5}, hist: []int32{1, 0}, want: 0},
		{name: "pending ids are skipped", logits: []float32{3, 2}, p: Params{PresencePenalty: 2}, hist: []int32{-1, 99}, want: 0},
		{name: "bias comes before repetition", logits: []float32{1, 2}, p: Params{LogitBias: map[int32]float32{0: 4}, RepetitionPenalty: 2}, hist: []int32{0}, want: 0},
		{name: "repetition comes before presence", logits: []float32{4, 1.5}, p: Params{RepetitionPenalty: 2, PresencePenalty: 1}, hist: []int32{0}, want: 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := Pick(tt.logits, tt.mask, &tt.p, tt.hist, 0); got != tt.want {
				t.Errorf("got id %d, want %d", got, tt.want)
			}
			tt.p.Temperature, tt.p.TopK = 1, 1
			if got := Pick(tt.logits, tt.mask, &tt.p, tt.hist, 7); got != tt.want {
				t.Errorf("top_k 1: got id %d, want %d", got, tt.want)
			}
		})
	}
}

// frequencies draws n times, each time with another seed.
func frequencies(logits []float32, p Params, n int) []int {
	var s Sampler
	count := make([]int, len(logits))
	for i := range n {
		p.Seed = uint64(i)
		count[s.Pick(logits, nil, &p, nil, 3)]++
	}
	return count
}

func TestPickKeeps(t *testing.T) {
	log := func(ps ...float64) []float32 {
		var l []float32
		for _, p := range ps {
			l = append(l, float32(math.Log(p)))
		}
		return l
	}
	tests := []struct {
		name   string
		logits []float32
		p      Params
		want   []int // ids that can be drawn
	}{
		{"all", log(.1, .2, .3, .4), Params{}, []int{0, 1, 2, 3}},
		{"top_k", log(.1, .2, .3, .4), Params{TopK: 2}, []int{2, 3}},
		{"top_k of the vocabulary", log(.1, .2, .3, .4), Params{TopK: 9}, []int{0, 1, 2, 3}},
		{"top_k breaks ties by id", log(.25, .25, .25, .25), Params{TopK: 2}, []int{0, 1}},
		{"top_p", log(.1, .2, .3, .4), Params{TopP: .65}, []int{2, 3}},
		{"top_p keeps the id that crosses", log(.1, .2, .3, .4), Params{TopP: .75}, []int{1, 2, 3}},
		{"tiny top_p keeps one", log(.1, .2, .3, .4), Params{TopP: 1e-9}, []int{3}},
		{"top_p breaks ties by id", log(.25, .25, .25, .25), Params{TopP: .4}, []int{0, 1}},
		{"min_p", log(.1, .2, .3, .4), Params{MinP: .6}, []int{2, 3}},
		{"min_p of one keeps the most likely", log(.1, .2, .3, .4), Params{MinP: 1}, []int{3}},
		{"top_p counts what top_k left", log(.1, .2, .3, .4), Params{TopK: 2, TopP: .5}, []int{3}},
		{"top_p counts what min_p left", log(.1, .2, .3, .4), Params{MinP: .6, TopP: .5}, []int{3}},
		{"min_p sees the temperature", log(.1, .2, .3, .4), Params{MinP: .6, Temperature: 2}, []int{1, 2, 3}},
		{"infinities are equal", []float32{inf, 3, inf, -inf, nan}, Params{}, []int{0, 2}},
		{"infinities and top_k", []float32{inf, 3, inf, -inf, nan}, Params{TopK: 4}, []int{0, 2}},
		{"what cannot be is not drawn", []float32{-inf, nan, -3e38, 0}, Params{}, []int{3}},
		{"very hot", []float32{-inf, 5, 2, nan}, Params{Temperature: inf}, []int{1, 2}},
		{"very cold", []float32{1, 1, 1 - 1e-6}, Params{Temperature: 1e-45}, []int{0, 1}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if tt.p.Temperature == 0 {
				tt.p.Temperature = 1
			}
			var got []int
			for id, n := range frequencies(tt.logits, tt.p, 300) {
				if n > 0 {
					got = append(got, id)
				}
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("draws %v, want %v", got, tt.want)
			}
		})
	}
}

// chiSquare fails when 100 000 draws are less likely than 1 in 10 000 to come
// from want; the seeds are fixed, so the test is not random.
func chiSquare(t *testing.T, count []int, want []float64) {
	t.Helper()
	total, stat := 0, 0.0
	for _, n := range count {
		total += n
	}
	for id, p := range want {
		if p == 0 {
			if count[id] != 0 {
				t.Errorf("id %d was drawn %d times, has probability 0", id, count[id])
			}
			continue
		}
		expect := p * float64(total)
		stat += (float64(count[id]) - expect) * (float64(count[id]) - expect) / expect
	}
	const critical = 27.86 // 7 degrees of freedom
	if stat > critical {
		t.Errorf("chi-square %v, want at most %v: counts %v, probabilities %v", stat, critical, count, want)
	}
}

func softmax(logits []float32, t float64) []float64 {
	p, sum := make([]float64, len(logits)), 0.0
	for i, l := range logits {
		p[i] = math.Exp(float64(l) / t)
		sum += p[i]
	}
	for i := range p {
		p[i] /= sum
	}
	return p
}

func TestPickDistribution(t *testing.T) {
	const draws = 100_000
	logits := []float32{0, 1, -1, 2, 0.5, 1.5, -0.5, 0.25}
	t.Run("seeds", func(t *testing.T) {
		chiSquare(t, frequencies(logits, Params{Temperature: 0.8}, draws), softmax(logits, 0.8))
	})
	t.Run("steps", func(t *testing.T) {
		var s Sampler
		count := make([]int, len(logits))
		for i := range draws {
			count[s.Pick(logits, nil, &Params{Temperature: 1.5, Seed: 42}, nil, uint64(i))]++
		}
		chiSquare(t, count, softmax(logits, 1.5))
	})
	t.Run("top_p", func(t *testing.T) {
		p := softmax(logits, 1)
		p[2], p[6], p[0] = 0, 0, 0 // the least likely three weigh 0.099
		sum := 0.0
		for _, v := range p {
			sum += v
		}
		for i := range p {
			p[i] /= sum
		}
		chiSquare(t, frequencies(logits, Params{Temperature: 1, TopP: 0.88}, draws), p)
	})
}

// naive is Pick as its comment reads: sort, add up, walk. Only weights and the
// random number are shared with the implementation.
func naive(logits []float32, mask []uint64, p *Params, history []int32, step uint64) int32 {
	type cand struct {
		id    int32
		logit float32
		w     uint64
	}
	var cs []cand
	for i, l := range logits {
		id := int32(i)
		if mask != nil && (i/64 >= len(mask) || mask[i/64]>>(i%64)&1 == 0) {
			continue
		}
		l += p.LogitBias[id]
		output := history[min(max(p.Prompt, 0), len(history)):]
		if r := p.RepetitionPenalty; r > 0 && r != 1 && slices.Contains(history, id) {
			if l > 0 {
				l /= r
			} else {
				l *= r
			}
		}
		n := 0
		for _, h := range output {
			if h == id {
				n++
			}
		}
		if n > 0 {
			l -= float32(p.FrequencyPenalty * float32(n))
			l -= p.PresencePenalty
		}
		if l > -inf {
			cs = append(cs, cand{id: id, logit: l})
		}
	}
	if len(cs) == 0 {
		return lowest(mask, len(logits))
	}
	slices.SortStableFunc(cs, func(a, b cand) int { return cmp.Compare(b.logit+0, a.logit+0) }) // by logit, ties by id
	if !(p.Temperature > 0) {
		return cs[0].id
	}
	if p.TopK > 0 && p.TopK < len(cs) {
		cs = cs[:p.TopK]
	}
	top := cs[0].logit
	total := uint64(0)
	for i := range cs {
		cs[i].w = one
		if cs[i].logit != top {
			cs[i].w = weight((float64(cs[i].logit) - float64(top)) * (1 / float64(p.Temperature)))
		}
		if float64(cs[i].w) < min(float64(p.MinP), 1)*one {
			cs[i].w = 0
		}
		total += cs[i].w
	}
	slices.SortStableFunc(cs, func(a, b cand) int { return cmp.Or(cmp.Compare(b.w, a.w), cmp.Compare(a.id, b.id)) })
	if p.TopP > 0 && p.TopP < 1 {
		need, sum := float64(p.TopP)*float64(total), uint64(0)
		for i := range cs {
			sum += cs[i].w
			if i == len(cs)-1 || (sum >= uint64(math.Ceil(need)) && sum > 0) {
				cs, total = cs[:i+1], sum
				break
			}
		}
	}
	slices.SortFunc(cs, func(a, b cand) int { return cmp.Compare(a.id, b.id) })
	at, _ := bits.Mul64(Draw(p.Seed, step), total)
	for _, c := range cs {
		if at < c.w {
			return c.id
		}
		at -= c.w
	}
	return -1
}

// randomCase makes a case in which ties, masks, penalties and extremes are frequent.
func randomCase(rng *rand.Rand) (logits []float32, mask []uint64, p Params, history []int32) {
	v := 1 + rng.IntN(200)
	logits = make([]float32, v)
	spread := []float32{0.5, 4, 40, 1000}[rng.IntN(4)]
	for i := range logits {
		logits[i] = float32(rng.NormFloat64()) * spread
		switch rng.IntN(12) {
		case 0:
			logits[i] = logits[rng.IntN(i+1)] // a tie
		case 1:
			logits[i] = []float32{0, float32(math.Copysign(0, -1)), -inf, nan, 1}[rng.IntN(5)]
		}
	}
	if rng.IntN(50) == 0 {
		logits[rng.IntN(v)] = inf
	}
	if rng.IntN(3) == 0 {
		mask = make([]uint64, (v+63)/64)
		for i := range mask {
			mask[i] = []uint64{0, math.MaxUint64, rng.Uint64(), rng.Uint64() & rng.Uint64() & rng.Uint64()}[rng.IntN(4)]
		}
	}
	some := func(v float32) float32 { return v * float32(rng.IntN(2)) }
	p = Params{
		Temperature: some(rng.Float32() * 2), TopK: rng.IntN(2) * rng.IntN(v+2), TopP: some(rng.Float32()), MinP: some(rng.Float32() * rng.Float32()),
		RepetitionPenalty: some(0.5 + rng.Float32()), FrequencyPenalty: some(rng.Float32()*4 - 2), PresencePenalty: some(rng.Float32()*4 - 2),
		Seed: rng.Uint64(),
	}
	if rng.IntN(3) == 0 {
		p.LogitBias = map[int32]float32{rng.Int32N(int32(v)): rng.Float32()*200 - 100, rng.Int32N(int32(v)): 1}
	}
	history = make([]int32, rng.IntN(40))
	for i := range history {
		history[i] = rng.Int32N(int32(v)+1) - 1
	}
	p.Prompt = rng.IntN(len(history) + 1)
	return logits, mask, p, history
}

func TestPickEqualsNaive(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	var s Sampler
	for i := range 30_000 {
		logits, mask, p, history := randomCase(rng)
		before := slices.Clone(logits)
		got, want := s.Pick(logits, mask, &p, history, uint64(i)), naive(logits, mask, &p, history, uint64(i))
		if got != want {
			t.Fatalf("case %d: got id %d, want %d\nlogits %v\nmask %x\nparams %+v\nhistory %v", i, got, want, logits, mask, p, history)
		}
		for k := range logits {
			if math.Float32bits(logits[k]) != math.Float32bits(before[k]) {
				t.Fatalf("case %d: logit %d was changed", i, k)
			}
		}
	}
}

// The integer weights must mean the probabilities of the textbook: the id's
// interval of the float64 distribution contains the random number.
func TestPickFollowsFloat64(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for i := range 5000 {
		logits := make([]float32, 1+rng.IntN(300))
		for k := range logits {
			logits[k] = float32(rng.NormFloat64() * 3)
		}
		p := Params{Temperature: 0.1 + rng.Float32()*1.9, Seed: rng.Uint64(), TopP: float32(rng.IntN(2)) * rng.Float32()}
		id := Pick(logits, nil, &p, nil, uint64(i))
		prob := softmax(logits, float64(p.Temperature))
		if p.TopP > 0 {
			before := 0.0 // mass of what is more likely
			for k := range prob {
				if prob[k] > prob[id] {
					before += prob[k]
				}
			}
			if before >= float64(p.TopP)+1e-9 {
				t.Fatalf("case %d: id %d is outside top_p %v: %v is more likely", i, id, p.TopP, before)
			}
			continue
		}
		low := 0.0
		for k := range id {
			low += prob[k]
		}
		u := float64(Draw(p.Seed, uint64(i))) / (1 << 64)
		if u < low-1e-9 || u > low+prob[id]+1e-9 {
			t.Fatalf("case %d: id %d has [%v, %v), random number is %v", i, id, low, low+prob[id], u)
		}
	}
}

func TestPickDoesNotAllocate(t *testing.T) {
	logits := make([]float32, 5000)
	rng := rand.New(rand.NewPCG(7, 8))
	for i := range logits {
		logits[i] = float32(rng.NormFloat64() * 3)
	}
	mask := slices.Repeat([]uint64{0xff00ff00}, 80)
	history := []int32{1, 2, 3, 3}
	var s Sampler
	var lps []Logprob
	ps := []Params{{}, {Temperature: 1}, {Temperature: 1, TopP: 0.9}, {Temperature: 1, TopK: 20, MinP: 0.1},
		{Temperature: 1, TopP: 0.9, RepetitionPenalty: 1.1, LogitBias: map[int32]float32{3: 1}}}
	step := func() {
		for i := range ps {
			id := s.Pick(logits, mask, &ps[i], history, 1)
			lps = s.Logprobs(lps[:0], logits, id, 20)
		}
	}
	step()
	if n := testing.AllocsPerRun(20, step); n != 0 {
		t.Errorf("a step allocates %v times, want 0", n)
	}
}

func FuzzPick(f *testing.F) {
	f.Add([]byte{0, 0, 128, 63, 0, 0, 0, 64}, float32(1), float32(0.9), float32(0), 0, float32(1.1), uint64(7))
	f.Add([]byte{0, 0, 128, 127, 0, 0, 128, 127, 0, 0, 192, 127}, float32(0.5), float32(0), float32(1), 2, float32(0), uint64(1))
	f.Add([]byte{0, 0, 128, 255}, float32(math.Inf(1)), nan, nan, -5, nan, uint64(0))
	f.Fuzz(func(t *testing.T, data []byte, temp, topP, minP float32, topK int, rep float32, seed uint64) {
		var logits []float32
		for ; len(data) >= 4; data = data[4:] {
			logits = append(logits, math.Float32frombits(binary.LittleEndian.Uint32(data)))
		}
		if len(logits) == 0 {
			return
		}
		var mask []uint64
		if seed&1 != 0 {
			mask = []uint64{seed}
		}
		p := Params{Temperature: temp, TopP: topP, MinP: minP, TopK: topK, RepetitionPenalty: rep, FrequencyPenalty: minP, Seed: seed,
			LogitBias: map[int32]float32{int32(topK): topP}}
		history := []int32{0, int32(topK), 2, 2}
		got := Pick(logits, mask, &p, history, seed)
		if want := naive(logits, mask, &p, history, seed); got != want {
			t.Errorf("got id %d, want %d", got, want)
		}
		lp := Logprobs(logits, got, len(logits)+1)
		if len(lp) != len(logits)+1 {
			t.Errorf("%d log probabilities, want %d", len(lp), len(logits)+1)
		}
		for _, l := range lp {
			if !(l.Logprob <= 0) {
				t.Errorf("log probability of %d is %v", l.ID, l.Logprob)
			}
		}
	})
}

func BenchmarkPick(b *testing.B) {
	const vocab = 201_088
	rng := rand.New(rand.NewPCG(9, 10))
	logits := make([]float32, vocab)
	for i := range logits { // one clear favourite group over a wide tail, like a language model
		logits[i] = float32(rng.NormFloat64()*2.5 - 4)
	}
	for i := range 40 {
		logits[rng.IntN(vocab)] = 12 - 0.3*float32(i)
	}
	flat := make([]float32, vocab)
	for i := range flat {
		flat[i] = float32(rng.NormFloat64())
	}
	mask := slices.Repeat([]uint64{math.MaxUint64}, vocab/64)
	mask[7], mask[900] = 0xf0f0, 0
	history := make([]int32, 4096)
	for i := range history {
		history[i] = rng.Int32N(vocab)
	}
	for _, bb := range []struct {
		name   string
		logits []float32
		mask   []uint64
		p      Params
	}{
		{"greedy", logits, nil, Params{}},
		{"greedy_mask", logits, mask, Params{}},
		{"greedy_repetition", logits, nil, Params{RepetitionPenalty: 1.1}},
		{"all", logits, nil, Params{Temperature: 1}},
		{"topk20_topp", logits, nil, Params{Temperature: 0.6, TopK: 20, TopP: 0.95}},
		{"topp", logits, nil, Params{Temperature: 1, TopP: 0.95}},
		{"topp_flat", flat, nil, Params{Temperature: 1, TopP: 0.95}},
		{"minp", logits, nil, Params{Temperature: 1, MinP: 0.05}},
	} {
		b.Run(bb.name, func(b *testing.B) {
			var s Sampler
			b.ReportAllocs()
			b.SetBytes(4 * vocab)
			for step := uint64(0); b.Loop(); step++ {
				s.Pick(bb.logits, bb.mask, &bb.p, history, step)
			}
		})
	}
	for _, top := range []int{0, 20} {
		b.Run(fmt.Sprintf("logprobs%d", top), func(b *testing.B) {
			var s Sampler
			var dst []Logprob
			for b.Loop() {
				dst = s.Logprobs(dst[:0], logits, 5, top)
			}
		})
	}
}
