package tensor

import (
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"math"
	"math/rand/v2"
	"os"
	"testing"
)

var floatTypes = []DType{F32, F16, BF16, MXFP4, MXFP4HF, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, IQ4_NL, Q4_K, Q5_K, Q6_K}

// testdata/blocks.json says how it was made.
func TestFloatsGolden(t *testing.T) {
	raw, err := os.ReadFile("testdata/blocks.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Cases []struct{ Type, Data, Floats string }
	}
	if err := json.Unmarshal(raw, &file); err != nil {
		t.Fatal(err)
	}
	byName := map[string]DType{}
	for _, dt := range floatTypes[3:] {
		if dt != MXFP4HF {
			byName[dt.String()] = dt
		}
	}
	if len(file.Cases) != len(byName) {
		t.Fatalf("%d golden types, want %d", len(file.Cases), len(byName))
	}
	for _, c := range file.Cases {
		t.Run(c.Type, func(t *testing.T) {
			data, err1 := hex.DecodeString(c.Data)
			want, err2 := hex.DecodeString(c.Floats)
			if err1 != nil || err2 != nil {
				t.Fatal(err1, err2)
			}
			r := Row{DType: byName[c.Type], Data: data}
			got := make([]float32, r.Len())
			r.Floats(got)
			if len(got) == 0 || len(got)*4 != len(want) {
				t.Fatalf("%d floats, want %d", len(got), len(want)/4)
			}
			for i, v := range got {
				if w := math.Float32frombits(binary.LittleEndian.Uint32(want[4*i:])); v != w {
					t.Fatalf("element %d is %v, want %v", i, v, w)
				}
			}
		})
	}
}

// element is formats.md 4 read once more, one element at a time and in float64.
func element(dt DType, b []byte, scale byte, i int) float64 {
	h := func(at int) float64 { return float64(Half(binary.LittleEndian.Uint16(b[at:]))) }
	e2m1 := func(n byte) float64 {
		v := []float64{0, 0.5, 1, 1.5, 2, 3, 4, 6}[n&7]
		if n&8 != 0 {
			return -v
		}
		return v
	}
	split := func(at int) byte { return b[at+i%16] >> (4 * (i / 16)) & 15 }
	kNibble := func(at int) byte { return b[at+32*(i/64)+i%32] >> (4 * (i / 32 % 2)) & 15 }
	scaleMin := func(t int) (float64, float64) {
		if t < 4 {
			return float64(b[4+t] % 64), float64(b[8+t] % 64)
		}
		return float64(b[8+t]%16 + b[t]/64*16), float64(b[8+t]/16 + b[4+t]/64*16)
	}
	switch dt {
	case MXFP4:
		return e2m1(split(1)) * math.Ldexp(1, int(b[0])-127)
	case MXFP4HF:
		return e2m1(b[i/2]>>(4*(i%2))&15) * math.Ldexp(1, int(scale)-127)
	case Q8_0:
		return float64(int8(b[2+i])) * h(0)
	case Q4_0:
		return (float64(split(2)) - 8) * h(0)
	case Q4_1:
		return float64(split(4))*h(0) + h(2)
	case Q5_0:
		return (float64(split(6)|b[2+i/8]>>(i%8)&1*16) - 16) * h(0)
	case Q5_1:
		return float64(split(8)|b[4+i/8]>>(i%8)&1*16)*h(0) + h(2)
	case IQ4_NL:
		return []float64{-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113}[split(2)] * h(0)
	case Q4_K:
		sc, mn := scaleMin(i / 32)
		return h(0)*sc*float64(kNibble(16)) - h(2)*mn
	case Q5_K:
		sc, mn := scaleMin(i / 32)
		return h(0)*sc*float64(kNibble(48)+b[16+i%32]>>(i/32)&1*16) - h(2)*mn
	case Q6_K:
		half, l := i/128, i%32
		var q byte
		switch i % 128 / 32 {
		case 0:
			q = b[64*half+l]&15 | b[128+32*half+l]&3<<4
		case 1:
			q = b[64*half+l+32]&15 | b[128+32*half+l]>>2&3<<4
		case 2:
			q = b[64*half+l]>>4 | b[128+32*half+l]>>4&3<<4
		case 3:
			q = b[64*half+l+32]>>4 | b[128+32*half+l]>>6<<4
		}
		return h(208) * float64(int8(b[192+i/16])) * (float64(q) - 32)
	}
	panic(dt)
}

// Every byte of a block takes every value; halves that are not finite are skipped.
func TestFloatsEveryByte(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, dt := range floatTypes[3:] {
		t.Run(dt.String(), func(t *testing.T) {
			elems, size := dt.Block()
			b, scales, got := make([]byte, size), []byte{127}, make([]float32, elems)
			for at := range size + 1 { // the last is the separate scale
				for v := range 256 {
					for i := range b {
						b[i] = byte(rng.Uint32())
					}
					if at < size {
						b[at] = byte(v)
					} else {
						scales[0] = byte(v)
					}
					Row{DType: dt, Data: b, Scales: scales}.Floats(got)
					for i, g := range got {
						want := float32(element(dt, b, scales[0], i))
						if (dt == MXFP4 && b[0] == 255) || (dt == MXFP4HF && scales[0] == 255) {
							want = float32(math.NaN())
						}
						if (g != want && !math.IsNaN(float64(want))) || math.IsNaN(float64(want)) != math.IsNaN(float64(g)) {
							t.Fatalf("byte %d = %d: element %d is %v, want %v (block %x)", at, v, i, g, want, b)
						}
					}
				}
			}
		})
	}
}

func TestFloatsMXFP4Orders(t *testing.T) {
	// formats.md 4: scale 1.0 and first byte 0x10.
	data := make([]byte, 17)
	data[0], data[1] = 0x7f, 0x10
	for _, c := range []struct {
		row Row
		at  int // the element that is 0.5
	}{
		{Row{DType: MXFP4, Data: data}, 16},
		{Row{DType: MXFP4HF, Data: data[1:], Scales: data[:1]}, 1},
	} {
		got := make([]float32, 32)
		c.row.Floats(got)
		for i, v := range got {
			if want := map[bool]float32{true: 0.5}[i == c.at]; v != want {
				t.Errorf("element %d is %v, want %v", i, v, want)
			}
		}
	}
}

func TestHalf(t *testing.T) {
	for i := range 1 << 16 {
		h := uint16(i)
		f := Half(h)
		sign, exp, frac := float64(1-2*(i>>15)), i>>10&31, float64(i&0x3ff)
		want := sign * math.Ldexp(1024+frac, exp-25)
		switch {
		case exp == 0:
			want = sign * math.Ldexp(frac, -24)
		case exp == 31 && frac == 0:
			want = math.Inf(int(sign))
		case exp == 31:
			if f == f || ToHalf(f)&0x7c00 != 0x7c00 || ToHalf(f)&0x3ff == 0 {
				t.Fatalf("half %#x is %v and goes back to %#x, want NaN", h, f, ToHalf(f))
			}
			continue
		}
		if float64(f) != want || math.Signbit(float64(f)) != (sign < 0) {
			t.Fatalf("half %#x is %v, want %v", h, f, want)
		}
		if got := ToHalf(f); got != h {
			t.Fatalf("half %#x goes back to %#x", h, got)
		}
		// Between h and the next half: the nearer one, the even one in the middle.
		if next := Half(h + 1); exp < 30 {
			mid := (f + next) / 2
			even := h + h&1
			below, above := math.Nextafter32(mid, f), math.Nextafter32(mid, next)
			if ToHalf(below) != h || ToHalf(above) != h+1 || ToHalf(mid) != even {
				t.Fatalf("around %v: %#x %#x %#x, want %#x %#x %#x", mid, ToHalf(below), ToHalf(mid), ToHalf(above), h, even, h+1)
			}
		}
	}
	if got := ToHalf(65520); got != 0x7c00 {
		t.Errorf("65520 becomes %#x, want infinity", got)
	}
	if got := ToHalf(math.Float32frombits(0x477fefff)); got != 0x7bff {
		t.Errorf("just below 65520 becomes %#x, want 65504", got)
	}
}

func TestBF16(t *testing.T) {
	for i := range 1 << 16 {
		b := uint16(i)
		f := BF16ToFloat(b)
		if f != f {
			if g := BF16ToFloat(ToBF16(f)); g == g {
				t.Fatalf("NaN %#x becomes %v", b, g)
			}
			continue
		}
		if got := ToBF16(f); got != b {
			t.Fatalf("%#x goes back to %#x", b, got)
		}
		if b&0x7f80 == 0x7f80 {
			continue
		}
		bits := uint32(b) << 16
		for _, c := range []struct {
			low  uint32
			want uint16
		}{{0x7fff, b}, {0x8000, b + b&1}, {0x8001, b + 1}} {
			if got := ToBF16(math.Float32frombits(bits | c.low)); got != c.want {
				t.Fatalf("%#x becomes %#x, want %#x", bits|c.low, got, c.want)
			}
		}
	}
	if got := ToBF16(math.Float32frombits(0x7f800001)); got&0x7f == 0 {
		t.Errorf("a NaN of low bits becomes %#x, infinity", got)
	}
}

func TestFloatsRefusesWrongLength(t *testing.T) {
	for name, f := range map[string]func(){
		"short":   func() { Row{DType: F32, Data: make([]byte, 8)}.Floats(make([]float32, 1)) },
		"integer": func() { Row{DType: I64, Data: make([]byte, 8)}.Floats(make([]float32, 1)) },
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			f()
		})
	}
}

func BenchmarkFloats(b *testing.B) {
	for _, dt := range floatTypes {
		b.Run(dt.String(), func(b *testing.B) {
			n := 2880 / 256 * 256
			r := Row{DType: dt, Data: make([]byte, dt.RowBytes(n)), Scales: make([]byte, n/32)}
			dst := make([]float32, n)
			b.SetBytes(int64(len(r.Data)))
			for b.Loop() {
				r.Floats(dst)
			}
		})
	}
}

// e4m3 is the OCP definition once more, in float64.
func e4m3(c byte) float64 {
	sign, exp, frac := float64(1-2*int(c>>7)), int(c>>3&15), float64(c&7)
	switch {
	case c&0x7f == 0x7f:
		return math.NaN()
	case exp == 0:
		return sign * math.Ldexp(frac, -9)
	}
	return sign * math.Ldexp(8+frac, exp-10)
}

func TestE4M3(t *testing.T) {
	for i := range 256 {
		c := byte(i)
		f, want := E4M3ToFloat(c), e4m3(c)
		if want != want {
			if f == f || ToE4M3(f)&0x7f != 0x7f {
				t.Fatalf("code %#x is %v and goes back to %#x, want NaN", c, f, ToE4M3(f))
			}
			continue
		}
		if float64(f) != want || math.Signbit(float64(f)) != (i > 127) {
			t.Fatalf("code %#x is %v, want %v", c, f, want)
		}
		if got := ToE4M3(f); got != c {
			t.Fatalf("code %#x goes back to %#x", c, got)
		}
		// Between c and the next code: the nearer one, the even one in the middle.
		if i&0x7f < 0x7e {
			mid := float32((want + e4m3(c+1)) / 2)
			below, above := math.Nextafter32(mid, f), math.Nextafter32(mid, float32(e4m3(c+1)))
			if ToE4M3(below) != c || ToE4M3(above) != c+1 || ToE4M3(mid) != c+c&1 {
				t.Fatalf("around %v: %#x %#x %#x, want %#x %#x %#x", mid, ToE4M3(below), ToE4M3(mid), ToE4M3(above), c, c+c&1, c+1)
			}
		}
	}
	for _, c := range []struct {
		f    float64
		want byte
	}{{448.1, 0x7e}, {464, 0x7e}, {480, 0x7e}, {-1e30, 0xfe}, {math.Inf(1), 0x7e}, {math.Inf(-1), 0xfe}, {0x1p-10, 0}, {-0x1p-10, 0x80},
		{0x1.000002p-10, 1}, {0x1p-149, 0}, {math.Copysign(0, -1), 0x80}} {
		if got := ToE4M3(float32(c.f)); got != c.want {
			t.Errorf("%v becomes %#x, want %#x", c.f, got, c.want)
		}
	}
}
