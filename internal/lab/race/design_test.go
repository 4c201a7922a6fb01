package race

import (
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"ossian/internal/soak"
)

func options(count int) []string {
	var names []string
	for i := range count {
		names = append(names, string(rune('A'+i)))
	}
	return names
}

// No two of the columns of main effects and pairs go together: that is resolution V.
func TestDesigns(t *testing.T) {
	points := map[int]int{2: 4, 3: 8, 4: 16, 5: 16, 6: 32}
	for count := 2; count <= 6; count++ {
		for code := range 1 << count { // whichever settings won
			winner := make([]bool, count)
			for i := range winner {
				winner[i] = code>>i&1 == 1
			}
			design, err := NewDesign(options(count), winner)
			if err != nil {
				t.Fatal(err)
			}
			if len(design.Points) != points[count] {
				t.Fatalf("%d options: %d points, want %d", count, len(design.Points), points[count])
			}
			seen := map[string]bool{}
			var columns [][]int
			for i := range count {
				for j := i; j < count; j++ {
					columns = append(columns, column(design, i, j))
				}
			}
			for _, point := range design.Points {
				seen[fmt.Sprint(point)] = true
			}
			if len(seen) != len(design.Points) || !seen[fmt.Sprint(winner)] {
				t.Fatalf("%d options, winner %v: points twice, or the winner is not there", count, winner)
			}
			for a := range columns {
				for b := range a {
					if dot(columns[a], columns[b]) != 0 {
						t.Fatalf("%d options: effects %d and %d are mixed up", count, a, b)
					}
				}
			}
		}
	}
}

// column has the signs of a main effect (i = j) or of a pair.
func column(design Design, i, j int) []int {
	var out []int
	for _, point := range design.Points {
		sign := -1
		if point[i] == point[j] && (i != j || point[i]) {
			sign = 1
		}
		out = append(out, sign)
	}
	return out
}

func dot(a, b []int) int {
	sum := 0
	for i := range a {
		sum += a[i] * b[i]
	}
	return sum
}

func TestDesignAround(t *testing.T) {
	design, err := NewDesign(options(8), nil)
	if err != nil || !design.Around || len(design.Points) != 9 {
		t.Fatalf("%+v %v", design, err)
	}
	if name := design.Name(design.Points[1]); name != "B + C + D + E + F + G + H" {
		t.Error(name)
	}
	winner := []bool{true, false, true, false, false, false, false}
	design, _ = NewDesign(options(7), winner)
	if got := design.Name(design.Points[0]) + ", " + design.Name(design.Points[1]) + ", " + design.Name(design.Points[2]); got != "A + C, C, A + B + C" {
		t.Error(got)
	}
	if _, err := design.Interactions(nil, false); err == nil || !strings.Contains(err.Error(), "race with the winner as baseline") {
		t.Error(err)
	}
	for _, c := range []struct {
		options []string
		winner  []bool
		want    string
	}{{options(1), nil, "2 or more"}, {[]string{"A", "A"}, nil, "twice"}, {options(3), []bool{true}, "1 settings for 3"}} {
		if _, err := NewDesign(c.options, c.winner); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v, want %q", c, err, c.want)
		}
	}
}

// A truth says what each point of a design gives: gains of options and of pairs.
type truth struct {
	single map[string]float64
	pair   map[string]float64 // by both letters
}

// value is the objective of a point, 1000 with nothing on.
func (tr truth) value(design Design, point []bool) float64 {
	value := 1000.0
	for i, on := range point {
		if !on {
			continue
		}
		value *= 1 + tr.single[design.Options[i]]
		for j := range i {
			if point[j] {
				value *= 1 + tr.pair[design.Options[j]+design.Options[i]]
			}
		}
	}
	return value
}

// measure simulates blocks of the design.
func (tr truth) measure(design Design, blocks int, noise float64, rng *rand.Rand) []map[int]float64 {
	var out []map[int]float64
	for range blocks {
		block := map[int]float64{}
		shared := 0.05 * rng.NormFloat64()
		for place, point := range design.Points {
			block[place] = tr.value(design, point) * math.Exp(shared+noise*rng.NormFloat64())
		}
		out = append(out, block)
	}
	return out
}

// opposed is L5 of lab.md 10: A +5 %, B +5 %, both -3 %.
var opposed = truth{single: map[string]float64{"A": 0.05, "B": 0.05}, pair: map[string]float64{"AB": 0.97/1.05/1.05 - 1}}

func TestPlantedInteraction(t *testing.T) {
	runs := soak.Cases(t, 200, 2000)
	for count := 2; count <= 6; count++ {
		design, err := NewDesign(options(count), nil)
		if err != nil {
			t.Fatal(err)
		}
		found, reversed, other := 0, 0, 0
		for run := range runs {
			rng := rand.New(rand.NewPCG(uint64(run), 5))
			got, err := design.Interactions(opposed.measure(design, 3, 0.02, rng), false)
			if err != nil {
				t.Fatal(err)
			}
			extra := false
			for _, pair := range got.Pairs {
				switch {
				case pair.Shown && strings.Join(pair.Options, "") == "AB" && pair.Gain < 0:
					found++
				case pair.Shown:
					extra = true
				}
			}
			if extra {
				other++
			}
			if len(got.Reversed) >= 2 && got.Reversed[0].Option == "A" && got.Reversed[0].Beside[0] == "B" {
				reversed++
			}
		}
		t.Logf("%d options, %d points, 3 blocks, 2 %% noise: the pair found in %d of %d, another pair in %d, reversal named in %d", count, len(design.Points), found, runs, other, reversed)
		atMost(t, "other pairs shown", other, runs, 0.05)
		if float64(found) < 0.95*float64(runs) {
			t.Errorf("%d options: the pair was found in %d of %d", count, found, runs)
		}
	}
}

// Without noise every quantity is what was planted, in complete designs and in halves,
// whichever way the objective goes, and with failed points.
func TestEffectsAreExact(t *testing.T) {
	planted := truth{single: map[string]float64{"A": 0.05, "B": 0.05, "C": 0.12, "D": -0.02}, pair: map[string]float64{"AB": 0.97/1.05/1.05 - 1, "CD": 0.03}}
	for count := 4; count <= 6; count++ {
		for _, lower := range []bool{false, true} {
			design, _ := NewDesign(options(count), nil)
			blocks := planted.measure(design, 3, 0, rand.New(rand.NewPCG(1, 2)))
			if lower {
				for _, block := range blocks {
					for place := range block {
						block[place] = 1 / block[place]
					}
				}
			}
			delete(blocks[0], 3)
			delete(blocks[1], 7)
			got, err := design.Interactions(append(blocks, map[int]float64{}), lower)
			if err != nil {
				t.Fatal(err)
			}
			equal := func(what string, effect Effect, want float64) {
				if math.Abs(effect.Gain-want) > 1e-9 || !effect.Formed || effect.Interval.Low > want || effect.Interval.High < want {
					t.Errorf("%d options, lower %v: %s is %+v, want %v", count, lower, what, effect, want)
				}
			}
			equal("A", got.Alone[0], 0.05)
			equal("A among all", got.Among[0], 0.97/1.05-1)
			equal("A averaged", got.Main[0], 1.05*math.Sqrt(0.97/1.05/1.05)-1)
			equal("D", got.Alone[3], -0.02)
			equal("pair AB", got.Pairs[0], 0.97/1.05/1.05-1)
			equal("pair AC", got.Pairs[1], 0)
			equal("product", got.Product, 1.05*1.05*1.12*0.98-1)
			equal("joint", got.Joint, 0.97*1.12*0.98*1.03-1)
			var names []string
			for _, reversal := range got.Reversed {
				names = append(names, reversal.Option+" beside "+strings.Join(reversal.Beside, " "))
			}
			beyond := strings.Join(append([]string{""}, options(count)[4:]...), " ") // " E F"
			want := []string{"A beside B", "A beside B C D" + beyond, "B beside A", "B beside A C D" + beyond, "D beside C", "D beside A B C" + beyond}
			if !reflect.DeepEqual(names, want) {
				t.Errorf("%d options: reversed %q, want %q", count, names, want)
			}
		}
	}
}

func TestDesignLacksPoints(t *testing.T) {
	design, _ := NewDesign(options(3), nil)
	blocks := opposed.measure(design, 3, 0.01, rand.New(rand.NewPCG(1, 2)))
	for _, block := range blocks {
		delete(block, 0)
		delete(block, 7) // seven effects need eight points, or seven and no triple
	}
	if _, err := design.Interactions(blocks, false); err == nil || !strings.Contains(err.Error(), "8 points") {
		t.Error(err)
	}
	if _, err := design.Interactions(nil, false); err == nil {
		t.Error("no blocks gave effects")
	}
	if _, err := design.Interactions([]map[int]float64{{9: 1}}, false); err == nil || !strings.Contains(err.Error(), "point 10") {
		t.Error(err)
	}
	half, _ := NewDesign(options(5), nil)
	got, err := half.Interactions(opposed.measure(half, 1, 0.01, rand.New(rand.NewPCG(1, 2))), false)
	if err != nil || got.Joint.Formed || got.Noise != 0 {
		t.Errorf("one block of a half leaves nothing for intervals: %+v %v", got.Joint, err)
	}
}

func TestSuspected(t *testing.T) {
	formed := func(low, gain, high float64, names ...string) Effect {
		effect := Effect{Options: names, Gain: gain, Formed: true}
		effect.Interval.Low, effect.Interval.High = low, high
		return effect
	}
	got := Suspected([]Effect{
		formed(-0.005, 0, 0.005, "A", "B"),
		formed(-0.2, -0.1, -0.02, "C", "D"),
		formed(-0.002, 0.004, 0.02, "A", "D"),
		{Options: []string{"E", "F"}},
		formed(0.5, 0.5, 0.5, "G"),
	}, 0.01)
	if !reflect.DeepEqual(got, []string{"C", "D", "A", "E", "F"}) {
		t.Error(got)
	}
}

func TestProduct(t *testing.T) {
	single := func(name string, low, gain, high float64) Standing {
		standing := Standing{Candidate: Candidate{Name: name}, Gain: gain, Formed: true}
		standing.Interval.Low, standing.Interval.High = low, high
		return standing
	}
	product := Product([]Standing{single("A", 0.02, 0.05, 0.08), single("B", 0.01, 0.1, 0.2)})
	if math.Abs(product.Gain-0.155) > 1e-12 || math.Abs(product.Interval.Low-0.0302) > 1e-12 || math.Abs(product.Interval.High-0.296) > 1e-12 || !product.Shown {
		t.Errorf("%+v", product)
	}
	if product := Product([]Standing{single("A", 0.02, 0.05, 0.08), {Gain: 0.1}}); product.Formed || product.Shown {
		t.Errorf("%+v", product)
	}
}
