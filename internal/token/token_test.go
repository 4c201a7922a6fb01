package token

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"
)

// harmony is shared by tests: a BPE is immutable.
var harmony = sync.OnceValues(Harmony)

func mustHarmony(t testing.TB) *BPE {
	t.Helper()
	bpe, err := harmony()
	if err != nil {
		t.Fatal(err)
	}
	return bpe
}

func readFile(t testing.TB, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func mustJSON(t testing.TB, name string) *BPE {
	t.Helper()
	bpe, err := FromJSON(readFile(t, "testdata/"+name))
	if err != nil {
		t.Fatal(err)
	}
	return bpe
}

// toVocab writes a tokenizer.json the way converters to GGUF do.
func toVocab(t testing.TB, name, pre string) Vocab {
	t.Helper()
	f, err := readJSON(readFile(t, "testdata/"+name))
	if err != nil {
		t.Fatal(err)
	}
	v := Vocab{Model: "gpt2", Pre: pre, BOS: -1, EOS: -1}
	set := func(id int32, text string, kind int32) {
		for int(id) >= len(v.Tokens) {
			v.Tokens = append(v.Tokens, fmt.Sprintf("[PAD%d]", len(v.Tokens)))
			v.Types = append(v.Types, 5)
		}
		v.Tokens[id], v.Types[id] = text, kind
	}
	for text, id := range f.Model.Vocab {
		set(id, text, 1)
	}
	for _, a := range f.AddedTokens {
		if a.Special {
			set(a.ID, a.Content, 3)
			continue
		}
		set(a.ID, a.Content, 4)
	}
	for _, m := range f.Model.Merges {
		v.Merges = append(v.Merges, m.left+" "+m.right)
	}
	return v
}

func mustGGUF(t testing.TB, v Vocab) *BPE {
	t.Helper()
	bpe, err := FromGGUF(v)
	if err != nil {
		t.Fatal(err)
	}
	return bpe
}

// row is a line of testdata/strings.jsonl.
type row struct {
	Text   string
	IDs    map[string][]int32
	Pieces map[string][]int
}

func rows(t testing.TB) []row {
	t.Helper()
	var list []row
	lines := bufio.NewScanner(bytes.NewReader(readFile(t, "testdata/strings.jsonl")))
	for lines.Scan() {
		var r row
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			t.Fatal(err)
		}
		list = append(list, r)
	}
	if len(list) != 2000 {
		t.Fatalf("strings.jsonl has %d rows, want 2000", len(list))
	}
	return list
}

func TestEncodeReference(t *testing.T) {
	t.Parallel()
	list := rows(t)
	for _, c := range []struct {
		name, ids string
		bpe       *BPE
	}{
		{"harmony", "o200k", mustHarmony(t)},
		{"qwen3 json", "qwen3", mustJSON(t, "qwen3-cut.json")},
		{"qwen3 gguf", "qwen3", mustGGUF(t, toVocab(t, "qwen3-cut.json", "qwen2"))},
		{"smollm2 json", "smollm2", mustJSON(t, "smollm2-cut.json")},
		{"smollm2 gguf", "smollm2", mustGGUF(t, toVocab(t, "smollm2-cut.json", "smollm"))},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			for _, r := range list {
				if got, want := c.bpe.Encode(nil, r.Text), r.IDs[c.ids]; !slices.Equal(got, want) {
					t.Errorf("%q: got %v, want %v", r.Text, got, want)
				}
				want := r.Text
				if c.bpe.nfc {
					want = nfc(want)
				}
				if got := c.bpe.Decode(c.bpe.Encode(nil, want)); len(c.bpe.Missing()) == 0 && got != want {
					t.Errorf("decoded %q, want %q", got, want)
				}
			}
		})
	}
}

// The encodings of formats.md §15, made with the reference encoders.
func TestEncodeGolden(t *testing.T) {
	t.Parallel()
	o200k, qwen := mustHarmony(t), mustJSON(t, "qwen3-cut.json")
	for _, c := range []struct {
		text        string
		o200k, qwen []int32
	}{
		{"Hello, world!", []int32{13225, 11, 2375, 0}, []int32{9707, 11, 1879, 0}},
		{"I'll DON'T we'Re  it's", []int32{67504, 153384, 581, 146756, 220, 4275}, []int32{40, 3278, 44273, 17323, 582, 49427, 220, 432, 594}},
		{"  leading and   trailing   ", []int32{220, 8117, 326, 256, 57985, 271}, []int32{220, 6388, 323, 256, 27748, 262}},
		{"a\n\n\nb\r\n\tc", []int32{64, 2499, 65, 370, 2736}, []int32{64, 1406, 65, 319, 1444}},
		{"1234567 3.14159", []int32{7633, 19354, 22, 220, 18, 13, 16926, 4621}, []int32{16, 17, 18, 19, 20, 21, 22, 220, 18, 13, 16, 19, 16, 20, 24}},
		{"日本語テストA한국어", []int32{9048, 40909, 16056, 38236, 32, 114854, 5959}, []int32{101059, 102819, 140592, 32, 23573, 124785, 31079}},
		{"naïve café — “quotes”", []int32{1503, 9954, 737, 30469, 2733, 966, 136724, 693}, []int32{3376, 37572, 586, 51950, 1959, 1036, 53282, 854}},
		{"e\u0301clair", []int32{68, 13430, 49243}, []int32{963, 48172}},
		{"😀👩‍👩‍👧 ok", []int32{84083, 28823, 102, 2524, 28823, 102, 2524, 28823, 100, 4763}, []int32{141334, 145233, 378, 235, 145233, 378, 235, 145665, 5394}},
		{"func main() {\n\tfmt.Println(\"hi\")\n}\n", []int32{5652, 2758, 416, 405, 24728, 28250, 568, 3686, 1896, 739}, []int32{2830, 1887, 368, 341, 11009, 12419, 445, 6023, 1138, 532}},
		{"http://x.y/a/b//c", []int32{2903, 1684, 87, 4486, 23839, 7611, 393, 66}, []int32{1254, 1110, 87, 2384, 14186, 3470, 322, 66}},
		{"\u00a0\u3000x", []int32{5310, 1397, 87}, []int32{4102, 22441, 87}},
	} {
		if got := o200k.Encode(nil, c.text); !slices.Equal(got, c.o200k) {
			t.Errorf("o200k %q: got %v, want %v", c.text, got, c.o200k)
		}
		if got := qwen.Encode(nil, c.text); !slices.Equal(got, c.qwen) {
			t.Errorf("Qwen3 %q: got %v, want %v", c.text, got, c.qwen)
		}
	}
}

// The embedded copy is the published file, bit for bit (formats.md §9).
func TestHarmonyChecksum(t *testing.T) {
	t.Parallel()
	tokens, err := unpackRanks(o200k, o200kBase)
	if err != nil {
		t.Fatal(err)
	}
	h := sha256.New()
	for rank, text := range tokens {
		fmt.Fprintf(h, "%s %d\n", base64.StdEncoding.EncodeToString([]byte(text)), rank)
	}
	const want = "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d"
	if got := fmt.Sprintf("%x", h.Sum(nil)); got != want {
		t.Errorf("sha256 of the rank file: got %s, want %s", got, want)
	}
}

func TestHarmonyTokens(t *testing.T) {
	t.Parallel()
	bpe := mustHarmony(t)
	if got := bpe.Vocab(); got != 200_019 {
		t.Errorf("Vocab() = %d, want 200019", got)
	}
	if list := bpe.Added(); len(list) != 21 || list[0] != (Added{199_998, "<|startoftext|>", true}) {
		t.Errorf("Added() has %d tokens and begins with %v", len(list), list[0])
	}
	for name, want := range map[string]int32{"<|return|>": 200_002, "<|call|>": 200_012, "<|reserved_200017|>": 200_017, "<|endofprompt|>": 200_018} {
		if id, ok := bpe.ID(name); !ok || id != want || bpe.Text(id) != name || !bpe.IsControl(id) {
			t.Errorf("%s is %d (%v), want control token %d", name, id, ok, want)
		}
	}
	if id, ok := bpe.ID("Hello"); ok {
		t.Errorf("Hello is an added token, %d", id)
	}
	for _, id := range []int32{-1, 200_019, 1 << 30} {
		if text := bpe.Text(id); text != "" || bpe.IsControl(id) {
			t.Errorf("id %d outside the vocabulary is %q", id, text)
		}
	}
}

func TestEncodeInvalidUTF8(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, text, want string }{
		{"lone byte", "a\xffb", "a\ufffdb"},
		{"cut character is one", "a\xe6\x97b", "a\ufffdb"},
		{"cut at the end", "a\xf0\x9f\x98", "a\ufffd"},
		{"each stray continuation", "\x80\x80", "\ufffd\ufffd"},
		{"surrogate half", "\xed\xa0\x80", "\ufffd\ufffd\ufffd"},
		{"overlong", "\xc0\xaf", "\ufffd\ufffd"},
		{"two cut characters", "\xe6\x97\xe6\x97\xa5", "\ufffd日"},
	} {
		bpe := mustHarmony(t)
		if got := bpe.Decode(bpe.Encode(nil, c.text)); got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
}

// The heap and the scan for the lowest rank must choose alike; the scan is
// checked against the references, which cut long pieces out of short ones rarely.
func TestMergeLong(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 1))
	for _, bpe := range []*BPE{mustHarmony(t), mustJSON(t, "qwen3-cut.json"), mustJSON(t, "smollm2-cut.json")} {
		for range 300 {
			var b strings.Builder
			for n := 1 + r.IntN(400); b.Len() < n; {
				b.WriteString(bpe.Text(int32(r.IntN(min(bpe.Vocab(), 3000)))))
			}
			var s scratch
			short := bpe.mergeShort(nil, b.String(), bpe.singleBytes(b.String(), &s))
			bpe.singleBytes(b.String(), &s)
			if long := bpe.mergeLong(nil, b.String(), &s); !slices.Equal(short, long) {
				t.Fatalf("%q: heap %v, scan %v", b.String(), long, short)
			}
		}
	}
}

func TestEncodeAllocatesNothing(t *testing.T) {
	text := english(10_000, true) + strings.Repeat("x", 1000) + " 日本語テスト"
	for name, bpe := range map[string]*BPE{"harmony": mustHarmony(t), "qwen3": mustJSON(t, "qwen3-cut.json")} {
		ids := bpe.Encode(nil, text)
		if n := testing.AllocsPerRun(20, func() { ids = bpe.Encode(ids[:0], text) }); n != 0 {
			t.Errorf("%s: Encode allocates %v times", name, n)
		}
	}
}

func TestDetokAllocatesNothing(t *testing.T) {
	d := mustHarmony(t).Detok()
	if n := testing.AllocsPerRun(20, func() { d.Push(13225); d.Push(2375) }); n != 0 {
		t.Errorf("Push allocates %v times", n)
	}
}

// Run with -race, this shows that a BPE is safe for concurrent use.
func TestEncodeConcurrently(t *testing.T) {
	t.Parallel()
	bpe, text := mustHarmony(t), english(20_000, true)+strings.Repeat("ab", 300)
	want := bpe.Encode(nil, text)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if got := bpe.Encode(nil, text); !slices.Equal(got, want) {
				t.Errorf("got %d ids that differ from %d", len(got), len(want))
			}
		})
	}
	wg.Wait()
}

func TestNFC(t *testing.T) {
	t.Parallel()
	zalgo := strings.Repeat("\u0301\u0327\u0316", 30)
	for _, c := range []struct{ name, text, want string }{
		{"ascii", "plain", "plain"},
		{"composes", "e\u0301", "é"},
		{"orders marks", "a\u0301\u0327", "á\u0327"},
		{"hangul", "\u1112\u1161\u11ab", "한"},
		{"excluded from composition", "\u0915\u093c", "\u0915\u093c"},
		{"many marks", "e" + zalgo + "\u1112\u1161\u11ab", "\u0229" + strings.Repeat("\u0327", 29) + strings.Repeat("\u0316", 30) + strings.Repeat("\u0301", 30) + "한"},
		{"many marks already in order", "x" + strings.Repeat("\u0301", 50), "x" + strings.Repeat("\u0301", 50)},
		{"own joiner stays", "x\u034f" + strings.Repeat("\u0301", 50), "x\u034f" + strings.Repeat("\u0301", 50)},
	} {
		if got := nfc(c.text); got != c.want {
			t.Errorf("%s: got %+q, want %+q", c.name, got, c.want)
		}
	}
	// On short runs of marks the slow path equals the library.
	for _, r := range rows(t) {
		if got, want := string(compose(decompose(r.Text))), nfc(r.Text); got != want {
			t.Errorf("%+q: got %+q, want %+q", r.Text, got, want)
		}
	}
}

func FuzzEncode(f *testing.F) {
	for _, s := range []string{"Hello, world!", "  \r\n\t x", "日本語", "a\xff\xe6\x97", "<|end|>", strings.Repeat("'s", 200)} {
		f.Add(s)
	}
	vocabularies := []*BPE{mustHarmony(f), mustJSON(f, "qwen3-cut.json")}
	f.Fuzz(func(t *testing.T, s string) {
		for _, bpe := range vocabularies {
			ids := bpe.Encode(nil, s)
			for _, id := range ids {
				if !bpe.is(id, plain) {
					t.Fatalf("%q gave %d, %q", s, id, bpe.Text(id))
				}
			}
			want := toValid(s)
			if bpe.nfc {
				want = nfc(want)
			}
			if got := bpe.Decode(ids); got != want || !utf8.ValidString(got) {
				t.Fatalf("%q came back as %q", want, got)
			}
		}
	})
}
