package chart

import (
	"fmt"
	"math"
	"strings"
	"testing"
)

func TestParseFilters(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"none", "", "[]"},
		{"each comparison", "a==1,b!=2,c<=3,d>=4,e<5,f>6", "[a == 1 b != 2 c <= 3 d >= 4 e < 5 f > 6]"},
		{"spaces", " a < 1e3 , b == x y ", "[a < 1e3 b == x y]"},
		{"quotes", `a=='x',b!="y"`, "[a == x b != y]"},
		{"dashes are underscores", "max-num-seqs<=8", "[max_num_seqs <= 8]"},
		{"but not in values", "model_id==gpt-oss", "[model_id == gpt-oss]"},
		{"no bound", "request_rate!=inf,request_rate<inf", "[request_rate != inf request_rate < inf]"},
		{"an operator in the value", "a==b<c", "[a == b<c]"},
		{"an empty text", "a==", "[a == ]"},
		{"empty parts", ",a<1,,", "[a < 1]"},
		{"no operator", "a", `filter "a": want COLUMN, one of == != <= >= < >`},
		{"no column", "<3", `filter "<3": want COLUMN`},
		{"one equals sign", "a=3", `filter "a=3": want COLUMN`},
		{"a text that is less", "a<x", `filter "a<x": "x" is no number; texts can be compared with == and != only`},
		{"not a number", "a>nan", `filter "a>nan": "nan" is no number`},
	} {
		filters, err := ParseFilters(c.text)
		var parts []string
		for _, f := range filters {
			parts = append(parts, fmt.Sprintf("%s %s %s", f.Column, f.Op, f.Value))
		}
		got := fmt.Sprint(parts)
		if err != nil {
			got = err.Error()
		}
		if !strings.HasPrefix(got, c.want) {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

func TestKeeps(t *testing.T) {
	num := func(v float64) *cell { c := numeric(v); return &c }
	text := func(s string) *cell { return &cell{s, math.NaN()} }
	for _, c := range []struct {
		filter string
		cell   *cell // nil = there is none
		want   bool
	}{
		{"a<8", num(7), true}, {"a<8", num(8), false}, {"a<=8", num(8), true}, {"a>8", num(8), false}, {"a>=8", num(8), true},
		{"a==8", num(8), true}, {"a==8.0", num(8), true}, {"a!=8", num(8), false}, {"a!=8", num(9), true},
		{"a==x", text("x"), true}, {"a==x", text("y"), false}, {"a!=x", text("y"), true}, {"a==8", text("8"), true}, {"a<8", text("7"), false},
		{"a==True", text("true"), true}, {"a==x", num(1), false}, {"a==1", text("x"), false},
		{"a<1000", num(math.Inf(1)), false}, {"a==inf", num(math.Inf(1)), true}, {"a<inf", num(5), true},
		{"a<8", nil, false}, {"a==8", nil, false}, {"a!=8", nil, true}, {"a==", nil, false}, {"a!=x", nil, true},
	} {
		f, err := ParseFilters(c.filter)
		if err != nil {
			t.Fatal(err)
		}
		var got cell
		if c.cell != nil {
			got = *c.cell
		}
		if kept := f[0].keeps(got, c.cell != nil); kept != c.want {
			t.Errorf("%s of %+v: %v, want %v", c.filter, got, kept, c.want)
		}
	}
}

func TestParseBins(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"", "[]"}, {"v%10", "[{v 10}]"}, {" max-num-seqs % 0.5 ,b%2", "[{max_num_seqs 0.5} {b 2}]"},
		{"v", `bin "v": want COLUMN%SIZE`}, {"%10", `bin "%10"`}, {"v%", `bin "v%"`}, {"v%0", `bin "v%0"`}, {"v%-1", `bin "v%-1"`},
		{"v%x", `bin "v%x"`}, {"v%inf", `bin "v%inf"`}, {"v%1%2", `bin "v%1%2"`},
	} {
		bins, err := ParseBins(c.text)
		got := fmt.Sprint(bins)
		if err != nil {
			got = err.Error()
		}
		if !strings.HasPrefix(got, c.want) {
			t.Errorf("%q: %s, want %s", c.text, got, c.want)
		}
	}
	for v, want := range map[float64]float64{0: 0, 9.99: 0, 10: 10, 37: 30, -0.5: -10} {
		if got := (&Bin{"v", 10}).of(v); got != want {
			t.Errorf("%v is in bin %v, want %v", v, got, want)
		}
	}
	if got := (&Bin{"v", 0.1}).of(0.3); math.Abs(got-0.3) > 1e-12 {
		t.Errorf("0.3 is in bin %v of 0.1", got)
	}
}

// What is accepted means the same when it is written again, and filters nothing but runs.
func FuzzFilters(f *testing.F) {
	for _, seed := range []string{"", "a<1000,b==x", `a!="x"`, "max-num-seqs>=4", "a==b<c", "a<inf", "v%10", "=", "<", "a==,b"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if filters, err := ParseFilters(text); err == nil {
			for _, flt := range filters {
				again, err := ParseFilters(flt.Column + flt.Op + flt.Value)
				if err != nil || len(again) != 1 || again[0].Column != flt.Column || again[0].Op != flt.Op || again[0].Value != flt.Value {
					t.Fatalf("%q: %+v became %+v: %v", text, flt, again, err)
				}
				for _, c := range []cell{numeric(1), numeric(math.Inf(1)), {"x", math.NaN()}, {flt.Value, math.NaN()}} {
					if flt.Op == "!=" && flt.keeps(c, true) == (&Filter{Column: flt.Column, Op: "==", Value: flt.Value, number: flt.number}).keeps(c, true) {
						t.Fatalf("%q: equal and not equal agree on %+v", text, c)
					}
				}
			}
		}
		if bins, err := ParseBins(text); err == nil {
			for _, b := range bins {
				if v := b.of(1); v > 1+1e-6*b.Size || 1-v >= b.Size {
					t.Fatalf("%q: 1 is in the bin of %v", text, v)
				}
			}
		}
	})
}
