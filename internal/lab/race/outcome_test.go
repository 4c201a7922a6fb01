package race

import (
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
)

func TestScreen(t *testing.T) {
	predictions := []Prediction{
		{Name: "best", Value: 100, Low: 90, High: 110},
		{Name: "near", Value: 80, Low: 70, High: 90},
		{Name: "far", Value: 80, Low: 75, High: 89.9},
		{Name: "kernel", Value: 1, Low: 1, High: 1, Opaque: true},
		{Name: "unsure", Value: 99, Low: 98, High: 99},
	}
	got, err := Screen(predictions, false)
	if err != nil {
		t.Fatal(err)
	}
	for i, dropped := range []bool{false, false, true, false, false} {
		if got[i].Dropped != dropped || got[i].Name != predictions[i].Name || strings.HasPrefix(got[i].Reason, "dropped") != dropped {
			t.Errorf("%+v, want dropped %v", got[i], dropped)
		}
	}
	for i, rank := range []int{1, 3, 4, 0, 2} {
		if got[i].Rank != rank {
			t.Errorf("%s has rank %d, want %d", got[i].Name, got[i].Rank, rank)
		}
	}
	times := []Prediction{{Name: "slow", Value: 9, Low: 8, High: 10}, {Name: "fast", Value: 5, Low: 4, High: 7}, {Name: "fair", Value: 7, Low: 6, High: 9}}
	got, err = Screen(times, true)
	if err != nil || !got[0].Dropped || got[1].Dropped || got[2].Dropped || got[1].Rank != 1 {
		t.Errorf("%+v %v", got, err)
	}
	for _, bad := range []Prediction{{Name: "x", Value: math.NaN()}, {Name: "x", Value: 1, Low: 2, High: 3}, {Name: "x", Value: 1, High: math.Inf(1)}} {
		if _, err := Screen([]Prediction{bad}, false); err == nil {
			t.Errorf("%+v was taken", bad)
		}
	}
	if got, err := Screen(nil, false); err != nil || len(got) != 0 {
		t.Errorf("%v %v", got, err)
	}
}

func TestCertify(t *testing.T) {
	even := func(count int) []float64 { // 1 to count: P99 is near 0.99·count
		var out []float64
		for _, i := range rand.New(rand.NewPCG(1, 1)).Perm(count) {
			out = append(out, float64(i+1))
		}
		return out
	}
	for _, c := range []struct {
		count    int
		p, limit float64
		want     Certainty
	}{
		{661, 99, 1e9, Uncertified}, // nothing is known even where all are far below
		{662, 99, 1e9, Met},
		{662, 99, 1, Violated},
		{662, 99, 656, Open},
		{63, 90, 1e9, Uncertified},
		{64, 90, 1e9, Met},
		{0, 99, 1, Uncertified},
		{10000, 99, 9950, Met},
		{10000, 99, 9850, Violated},
		{10000, 99, 9900, Open},
	} {
		got, err := Certify(even(c.count), c.p, c.limit)
		if err != nil || got.Certainty != c.want || got.Values != c.count {
			t.Errorf("P%v of %d values against %v: %+v %v, want %s", c.p, c.count, c.limit, got, err, c.want)
		}
	}
	if Needed(99) != 662 || Needed(90) != 64 {
		t.Errorf("P99 needs %d, P90 %d", Needed(99), Needed(90))
	}
	if _, err := Certify(even(9), 100, 1); err == nil {
		t.Error("P100 was certified")
	}
	if got := CertifyMean([]float64{40, 41, 40.5}, 45); got.Certainty != Met {
		t.Errorf("%+v", got)
	}
	if got := CertifyMean([]float64{40}, 45); got.Certainty != Uncertified || got.Value != 40 {
		t.Errorf("%+v", got)
	}
	if got := CertifyMean([]float64{40, 41, 40.5}, 40.6); got.Certainty != Open {
		t.Errorf("%+v", got)
	}
}

func TestFrontier(t *testing.T) {
	trials := []Operating{
		{"throughput", 10, 1000}, {"latency", 100, 100}, {"knee", 60, 800}, {"grey", 50, 700},
		{"same as knee", 60, 800}, {"line", 95, 150}, {"failed", 0, 5000}, {"broken", math.NaN(), 1}, {"slower", 10, 900},
	}
	got := NewFrontier(trials)
	want := Frontier{Best: []int{0, 2, 5, 1}, Dominated: []int{3, 4, 6, 7, 8}, Knee: 2, Kneed: true}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	for i := range trials { // other units, same knee
		trials[i].PerUser *= 1e-3
		trials[i].PerDevice *= 7
	}
	if again := NewFrontier(trials); !reflect.DeepEqual(again, want) {
		t.Errorf("in other units %+v", again)
	}
	hollow := NewFrontier([]Operating{{"a", 10, 1000}, {"b", 11, 110}, {"c", 100, 100}})
	if len(hollow.Best) != 3 || hollow.Kneed {
		t.Errorf("%+v", hollow)
	}
	if none := NewFrontier(nil); none.Kneed || none.Best != nil {
		t.Errorf("%+v", none)
	}
}

func TestCostAndEnergy(t *testing.T) {
	// 2.49 an hour at 10,000 tokens/s: 36 million tokens an hour.
	if cost, ok := CostPerMillion(2.49, 1800, 18e6); !ok || math.Abs(cost-2.49/36) > 1e-12 {
		t.Error(cost, ok)
	}
	for _, absent := range [][3]float64{{0, 1, 1}, {1, 0, 1}, {1, 1, 0}, {-1, -1, 1}, {math.NaN(), 1, 1}, {1, math.Inf(1), 1}} {
		if cost, ok := CostPerMillion(absent[0], absent[1], absent[2]); ok {
			t.Errorf("%v cost %v", absent, cost)
		}
	}
	if joules, ok := JoulesPerToken(300, 1000); !ok || joules != 0.3 {
		t.Error(joules, ok)
	}
	if _, ok := JoulesPerToken(0, 1000); ok {
		t.Error("energy that was not measured is 0 per token")
	}
	const rapl = 262143328850 // max_energy_range_uj of a common package
	for name, c := range map[string]struct {
		readings []uint64
		wraps    uint64
		want     uint64
		ok       bool
	}{
		"rising":             {[]uint64{5, 9, 30}, 0, 25, true},
		"wrapped":            {[]uint64{rapl - 10, 20}, rapl, 31, true},
		"wrapped twice":      {[]uint64{rapl, 0, rapl, 0}, rapl, rapl + 2, true},
		"reset":              {[]uint64{500, 20}, 0, 0, false},
		"one reading":        {[]uint64{500}, rapl, 0, false},
		"beyond its largest": {[]uint64{5, rapl + 1}, rapl, 0, false},
	} {
		if got, ok := Energy(c.readings, c.wraps); got != c.want || ok != c.ok {
			t.Errorf("%s: %d %v, want %d %v", name, got, ok, c.want, c.ok)
		}
	}
}
