package cost

import (
	"bytes"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"ossian/internal/lab/predict/machine"
)

func theCard(t *testing.T, name string) Card {
	t.Helper()
	m, err := machine.Lookup(name)
	if err != nil {
		t.Fatal(err)
	}
	card, err := CardOf(m)
	if err != nil {
		t.Fatal(err)
	}
	return card
}

// TestCards: multiprocessors × operations per clock × clock make the data sheet's arithmetic, which says that
// the three belong together; machines that are no CUDA card are refused by name.
func TestCards(t *testing.T) {
	perClock := map[string]float64{"A100-SXM4-80G": 2048, "A100-SXM4-40G": 2048, "A100-PCIE-80G": 2048, "H100-SXM": 4096, "H200": 4096, "B200": 8192, "RTX-PRO-6000": 1024, "L40S": 1024}
	for name := range chips {
		card := theCard(t, name)
		if made := float64(card.Multiprocessors) * card.Clock * perClock[name]; math.Abs(made/card.BF16-1) > 0.01 {
			t.Errorf("%s: its multiprocessors make %v FLOP/s, the data sheet says %v", name, made, card.BF16)
		}
	}
	m, err := machine.Lookup("MI300X")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := CardOf(m); err == nil || !strings.Contains(err.Error(), "MI300X") || !strings.Contains(err.Error(), "H200") {
		t.Errorf("MI300X: %v", err)
	}
	if fitted, measured := ConstantsOf("A100-SXM4-80G"); measured || fitted.Constants != Assumed() {
		t.Error("an A100 counts as measured; no file of constants is there")
	}
	for _, name := range []string{"H200", "H100-SXM"} {
		if fitted, measured := ConstantsOf(name); !measured || fitted.Kernels < 150 || fitted.Error > 0.2 || fitted.Error <= 0 {
			t.Errorf("%s: measured %v, %+v", name, measured, fitted)
		}
	}
}

// TestLimits: each limit is found where a kernel asks for nothing but it, and small grids do not fill a card.
func TestLimits(t *testing.T) {
	card, constants := theCard(t, "H100"), Assumed()
	full := Work{Blocks: 132 * 64, Threads: 128}
	for limit, work := range map[Limit]Work{ByMemory: {Memory: 1e9}, ByCache: {Sectors: 1e9}, ByMMA: {MMA: 1e9}, ByIssue: {Warp: 1e9}, ByShared: {Shared: 1e9}, ByTrips: {Trips: 1e3}} {
		work.Blocks, work.Threads = full.Blocks, full.Threads
		seconds, by := constants.Seconds(&card, &work)
		if by != limit || seconds <= 0 {
			t.Errorf("%v: limited by %v, %v s", limit, by, seconds)
		}
		if limit == ByMemory || limit == ByTrips {
			continue
		}
		work.Blocks = 33 // a quarter of the multiprocessors
		if few, _ := constants.Seconds(&card, &work); math.Abs(few/seconds-4) > 1e-9 {
			t.Errorf("%v: a quarter of the multiprocessors takes %v times as long, want 4", limit, few/seconds)
		}
	}
	again := Work{Blocks: 132, Threads: 128, Memory: 1e6, Again: 1e6, Between: 1e6}
	kept, _ := constants.Seconds(&card, &again)
	again.Between = 1e9
	if lost, _ := constants.Seconds(&card, &again); math.Abs(lost/kept-2) > 1e-9 {
		t.Errorf("what the cache cannot keep is read %v times as long, want 2", lost/kept)
	}
}

// TestExpected: expected covers are the means of drawn ones.
func TestExpected(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	const experts, rounds = 16, 3000
	for _, tokens := range []int{3, 40, 2000} {
		for _, tile := range []int{8, 32} {
			var sum cover
			used := 0.0
			for range rounds {
				counts := make([]int, experts)
				for range tokens {
					counts[rng.IntN(experts)]++
				}
				one, any := exact(counts, tile)
				sum.add(one, 1.0/rounds)
				used += any / rounds
			}
			means := make(Assigned, experts)
			for i := range means {
				means[i] = float64(tokens) / experts
			}
			got, gotUsed := expected(means, tokens, tile)
			for what, pair := range map[string][2]float64{"tiles": {got.tiles, sum.tiles}, "tokens": {got.tokens, sum.tokens}, "pairs": {got.pairs, sum.pairs},
				"fours": {got.fours, sum.fours}, "eights": {got.eights, sum.eights}, "used": {gotUsed, used}} {
				if math.Abs(pair[0]/pair[1]-1) > 0.03 {
					t.Errorf("%d tokens, tiles of %d: %s %.2f, drawn %.2f", tokens, tile, what, pair[0], pair[1])
				}
			}
		}
	}
}

// shapes are what a run on a card would record of gpt-oss-20b and Qwen3-8B.
func shapes() (all []Record) {
	add := func(kernel, shape string, tokens ...int) {
		for _, n := range tokens {
			name := kernel
			if strings.HasSuffix(kernel, "_") {
				rows, _ := strconv.Atoi(strings.TrimPrefix(strings.Fields(shape)[0], "rows="))
				name += itoa(tileOf(rows, n))
			}
			all = append(all, Record{Kernel: name, Shape: shape, Tokens: n})
		}
	}
	few, many := []int{1, 2, 4, 8, 16, 32, 64}, []int{128, 256, 512, 1024, 2048, 4096, 8192}
	for _, shape := range []string{"rows=4096 cols=2880", "rows=2880 cols=4096", "rows=24576 cols=4096", "rows=4096 cols=12288", "rows=201088 cols=2880"} {
		add("linear_bf16_", shape, few...)
		add("linear_bf16_", shape, many...)
		add("linear_mxfp4_", shape, few...)
	}
	for _, n := range []int{1, 64, 1024, 8192} {
		add("add_norm", "width=2880", n)
		add("rotate_store", "heads=64 kv=8 dim=64", n)
		add("route", "experts=32 topk=4", n)
	}
	for _, n := range []int{1, 8, 32} {
		add("attend_64_bf16", "heads=64 kv=8 dim=64 context=1000", n)
		add("attend_128_bf16", "heads=32 kv=8 dim=128 context=8000", n)
	}
	add("attend_prefill_64_bf16", "heads=64 kv=8 dim=64", 512, 2048)
	return all
}

// planted times shapes with constants and noise, and returns kernels.csv of that.
func planted(t *testing.T, card *Card, truth *Constants, noise float64) []Record {
	t.Helper()
	rng := rand.New(rand.NewPCG(3, 4))
	records := shapes()
	for i := range records {
		r := &records[i]
		var err error
		r.Works = make([]Work, 1)
		if r.Works[0], err = ParseWork(r.Kernel, r.Shape, r.Tokens); err != nil {
			t.Fatal(err)
		}
		seconds, _ := r.Seconds(card, truth)
		r.Card, r.Micros = card.Name, 1e6*seconds*math.Exp(noise*rng.NormFloat64())
	}
	var text bytes.Buffer
	if err := WriteRecords(&text, card, truth, records); err != nil {
		t.Fatal(err)
	}
	read, err := ReadRecords(&text, "", Products{})
	if err != nil {
		t.Fatal(err)
	}
	return read
}

// TestRefit: times made from known constants and noise give the constants back, through kernels.csv.
func TestRefit(t *testing.T) {
	for _, name := range []string{"A100-80G", "H100", "H200"} {
		card := theCard(t, name)
		truth := Constants{Memory: 0.81, Cache: 0.55, MMA: 0.7, Issue: 0.52, Shared: 0.6, Chain: 1, Trip: 1.1e-6, Gap: 1.7e-6}
		fitted, err := Refit(&card, Assumed(), planted(t, &card, &truth, 0.03))
		if err != nil {
			t.Fatal(err)
		}
		got := fitted.Constants
		t.Logf("%s: %+v, error %.3f, rows %v", name, got, fitted.Error, fitted.Rows)
		if fitted.Error > 0.045 || fitted.Card != card.Name {
			t.Errorf("%s: %.3f is left of the error, 0.03 was planted", fitted.Card, fitted.Error)
		}
		for what, c := range map[string]struct {
			got, want, within float64
			limit             Limit
		}{"memory": {got.Memory, truth.Memory, 0.05, ByMemory}, "cache": {got.Cache, truth.Cache, 0.05, ByCache}, "mma": {got.MMA, truth.MMA, 0.05, ByMMA},
			"issue": {got.Issue, truth.Issue, 0.05, ByIssue}, "trip": {got.Trip, truth.Trip, 0.1, ByTrips}} {
			if fitted.Rows[c.limit.String()] >= 4 && math.Abs(c.got/c.want-1) > c.within {
				t.Errorf("%s: %s is %v, planted was %v", name, what, c.got, c.want)
			}
		}
		if fitted.Rows["memory"] < 5 || fitted.Rows["issue"] < 5 || fitted.Rows["trips"] < 5 {
			t.Errorf("%s: rows %v: shapes that every important limit shows in are expected", name, fitted.Rows)
		}
		if got.Gap < 0.5*truth.Gap || got.Gap > 1.5*truth.Gap {
			t.Errorf("%s: gap %v, planted was %v", name, got.Gap, truth.Gap)
		}
		if got.Shared != Assumed().Shared && fitted.Rows["shared"] < leastRows {
			t.Errorf("%s: the share of shared memory moved to %v by %d rows", name, got.Shared, fitted.Rows["shared"])
		}
	}
}

// TestReadRecords: what is wrong in a file is said with its line.
func TestReadRecords(t *testing.T) {
	const head = "card,kernel,shape,tokens,us\n"
	for text, want := range map[string]string{
		"":                      "first line",
		"card,kernel,tokens,us": `no column "shape"`,
		head + "H100,linear_mxfp4_8,rows=64 cols=64,1,0\n":                          "line 2: 0 us",
		head + "H100,linear_mxfp4_8,rows=64 cols=64,x,1\n":                          "line 2",
		head + "H100,linear_mxfp4_8,rows=64,1,1\n":                                  "cols=NUMBER expected",
		head + "H100,linear_mxfp4_8,rows=64 cols=x,1,1\n":                           "cols=x",
		head + "H100,linear_mxfp4_8,rows=64 cols=64,9,1\n":                          "linear_mxfp4_16",
		head + "H100,linear_q3_8,rows=64 cols=64,9,1\n":                             "linear_q3_8",
		head + "H100,warp_drive,width=64,1,1\n":                                     "warp_drive",
		head + "H100,add_norm,width=64,0,1\n":                                       "0 tokens",
		head + "H100,attend_64_bf16,heads=8 kv=2 dim=512 context=9,1,1\n":           "128 elements",
		head + "H100,attend_128_bf16,heads=8 kv=2 dim=64 context=9,1,1\n":           "attend_64_bf16",
		head + "H100,up_mxfp4_8,hidden=64 inner=64 experts=4,1,1\n":                 "topk=NUMBER",
		head + "H100,add_norm,width=64,1,1\nH100,add_norm,width=64,1\n":             "line 3",
		head + "H100,rotate_store,heads=8 kv=2 dim=64,1,1\nH100,select_rows,,1,1\n": "width=NUMBER",
	} {
		if _, err := ReadRecords(strings.NewReader(text), "H100", Products{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want one with %q", text, err, want)
		}
	}
	card := theCard(t, "H100")
	if _, err := Refit(&card, Assumed(), nil); err == nil {
		t.Error("no rows: fitted")
	}
}

// FuzzReadRecords: whatever a file of times holds, reading it ends with rows whose work can be timed, or
// with an error.
func FuzzReadRecords(f *testing.F) {
	f.Add("card,kernel,shape,tokens,us\nH100,linear_mxfp4_8,rows=64 cols=64,1,3\n")
	f.Add("us,tokens,shape,kernel,card\n1,9,heads=8 kv=2 dim=64 context=700 window=128,attend_prefill_64_bf16,H100\n")
	f.Add("kernel,shape,tokens,context,median_us,bytes\nlinear,gpt-oss o /64,512,0,3,1\nexperts,experts /-1,3,0,9,1\nattend,64x8x64,4,30,9,262144\n")
	f.Add("card,kernel,shape,tokens,us\nH100,down_q8_128,hidden=64 inner=64 experts=4 topk=2,900,3\n")
	card, constants := chips["H100-SXM"], Assumed()
	f.Fuzz(func(t *testing.T, text string) {
		records, err := ReadRecords(strings.NewReader(text), "H100", Products{Warpgroups: true})
		if err != nil {
			return
		}
		for i := range records {
			seconds, _ := records[i].Seconds(&Card{Bandwidth: 3e12, BF16: 1e15, chip: card}, &constants)
			if !(seconds >= 0) || math.IsInf(seconds, 0) {
				t.Errorf("%+v takes %v s", records[i], seconds)
			}
		}
	})
}
