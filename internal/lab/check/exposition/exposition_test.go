package exposition

import (
	"math"
	"testing"
)

func TestRead(t *testing.T) {
	metrics := Read([]byte("# HELP a b\n" +
		`a:b{x="1, }\"\\",y="two\nlines"} 3 1700000000000` + "\n" + `a:b{x="2"} 4.5` + "\n" +
		"plain 1e3\nbroken{x=\"1 2\nbroken2 x\nnan NaN\ninf +Inf\n" +
		`h_bucket{le="1"} 2` + "\n" + `h_bucket{le="8"} 5` + "\n" + `h_bucket{le="64"} 5` + "\n" + `h_bucket{le="+Inf"} 5` + "\nh_count 5\nempty_count 0\n"))
	if sum, ok := metrics.Sum("a:b"); sum != 7.5 || !ok {
		t.Errorf("sum %v %v", sum, ok)
	}
	if most, ok := metrics.Most("a:b"); most != 4.5 || !ok {
		t.Errorf("most %v %v", most, ok)
	}
	if labels := metrics.Labels("a:b"); labels["x"] != `1, }"\` || labels["y"] != "two\nlines" {
		t.Errorf("labels %q", labels)
	}
	for _, name := range []string{"broken", "broken2", "nan", "inf", "#"} {
		if _, ok := metrics.Sum(name); ok {
			t.Errorf("%s was read", name)
		}
	}
	if name, value, ok := metrics.First("none", "plain"); name != "plain" || value != 1000 || !ok {
		t.Errorf("first %s %v %v", name, value, ok)
	}
	if !metrics.Has("a:") || metrics.Has("z") {
		t.Error("prefixes")
	}
	if highest := metrics.Highest("h"); highest != 8 {
		t.Errorf("highest %v", highest)
	}
	if highest := metrics.Highest("empty"); highest != 0 {
		t.Errorf("highest of none %v", highest)
	}
	var nothing *Metrics
	if _, ok := nothing.Sum("a"); ok || nothing.Has("") || nothing.Labels("a") != nil || nothing.Highest("a") != 0 {
		t.Error("nil has something")
	}
}

// What is read is finite, whatever the text.
func FuzzRead(f *testing.F) {
	f.Add([]byte("a{b=\"c\\\"\"} 1\n# x\nb 2 3\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		metrics := Read(text)
		for name := range metrics.Names {
			if most, ok := metrics.Most(name); !ok || math.IsNaN(most) || math.IsInf(most, 0) {
				t.Fatalf("%q: %v", name, most)
			}
			metrics.Highest(name)
		}
	})
}
