package jsonstyle

import (
	"math"
	"testing"
)

// TestNumbers: what Python 3's json.dumps and repr, and serde_json, write.
func TestNumbers(t *testing.T) {
	for _, c := range []struct {
		f              float64
		python, serde_ string
	}{
		{0, "0.0", "0.0"}, {math.Copysign(0, -1), "-0.0", "-0.0"}, {10, "10.0", "10.0"}, {0.1, "0.1", "0.1"}, {1e-4, "0.0001", "0.0001"},
		{1.5e-5, "1.5e-05", "0.000015"}, {9.999e-6, "9.999e-06", "9.999e-6"}, {1e15, "1000000000000000.0", "1000000000000000.0"},
		{1e16, "1e+16", "1e16"}, {1.5e16, "1.5e+16", "1.5e16"}, {123456789012345680, "1.2345678901234568e+17", "1.2345678901234568e17"},
		{5e-324, "5e-324", "5e-324"}, {math.MaxFloat64, "1.7976931348623157e+308", "1.7976931348623157e308"}, {1.0 / 3, "0.3333333333333333", "0.3333333333333333"},
		{math.Inf(1), "Infinity", "null"}, {math.Inf(-1), "-Infinity", "null"}, {math.NaN(), "NaN", "null"},
	} {
		if got := string(Style{Python: true}.Encode(c.f)); got != c.python {
			t.Errorf("%v in Python: %s, want %s", c.f, got, c.python)
		}
		if got := string(Style{}.Encode(c.f)); got != c.serde_ {
			t.Errorf("%v in serde_json: %s, want %s", c.f, got, c.serde_)
		}
	}
}

func TestText(t *testing.T) {
	in := "a\"\\/\b\f\n\r\t\x00\x1f\x7fé€😀\u2028\xff"
	if got, want := string(Style{Python: true}.Encode(in)), `"a\"\\/\b\f\n\r\t\u0000\u001f\u007f\u00e9\u20ac\ud83d\ude00\u2028\ufffd"`; got != want {
		t.Errorf("Python: %s, want %s", got, want)
	}
	if got, want := string(Style{}.Encode(in)), "\"a\\\"\\\\/\\b\\f\\n\\r\\t\\u0000\\u001f\x7fé€😀\u2028\ufffd\""; got != want {
		t.Errorf("serde_json: %s, want %s", got, want)
	}
	o := Of("a", []int{1, 2}, "b", nil, "c", []float64(nil), "d", true)
	o.Set("a", "new")
	if got, want := string(Style{Python: true}.Encode(o)), `{"a": "new", "b": null, "c": [], "d": true}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
