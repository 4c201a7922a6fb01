package token

import (
	"cmp"
	_ "embed"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
)

//go:embed testdata/words.txt
var wordList string

// english returns n bytes or a little more of sentences made of wordList. Words
// follow Zipf's law in list order, which is roughly that of their frequency in
// English, or are equally likely if flat is set: then caches help less.
func english(n int, flat bool) string {
	r := rand.New(rand.NewPCG(1, 2))
	words := strings.Fields(wordList)
	pick := func() string {
		if flat {
			return words[r.IntN(len(words))]
		}
		return words[int(math.Pow(float64(len(words)+1), r.Float64()))-1]
	}
	var b strings.Builder
	for b.Len() < n {
		for i, last := 0, 5+r.IntN(20); i <= last; i++ {
			w := pick()
			switch {
			case i == 0:
				w = strings.ToUpper(w[:1]) + w[1:]
			case r.IntN(60) == 0:
				w = fmt.Sprint(r.IntN(3000))
			case r.IntN(80) == 0:
				w = "“" + w + "”"
			}
			b.WriteString(w)
			switch {
			case i == last:
				b.WriteString([]string{". ", ". ", ". ", "? ", ".\n\n"}[r.IntN(5)])
			case r.IntN(12) == 0:
				b.WriteString([]string{", ", ", ", "; ", " — ", ": "}[r.IntN(5)])
			default:
				b.WriteByte(' ')
			}
		}
	}
	return b.String()
}

// tokenSoup returns random entries of the vocabulary side by side: every lookup
// misses the caches and few pieces are whole tokens.
func tokenSoup(bpe *BPE, n int) string {
	r := rand.New(rand.NewPCG(3, 4))
	var b strings.Builder
	for b.Len() < n {
		b.WriteString(bpe.Text(int32(r.IntN(bpe.Vocab()))))
	}
	return toValid(b.String())
}

// benchVocab loads one of the vocabularies that _tools/tokens provides.
func benchVocab(b *testing.B, name string) *BPE {
	data, err := os.ReadFile("../../models/tokens/" + name)
	if err != nil {
		b.Fatalf("%v: see _tools/tokens/README.md", err)
	}
	bpe, err := FromJSON(data)
	if err != nil {
		b.Fatal(err)
	}
	return bpe
}

func BenchmarkEncode(b *testing.B) {
	for _, vocab := range []string{"o200k", "qwen3", "smollm2"} {
		b.Run(vocab, func(b *testing.B) {
			bpe, err := Harmony()
			if err != nil {
				b.Fatal(err)
			}
			if vocab != "o200k" {
				bpe = benchVocab(b, vocab+".json")
			}
			for _, text := range []struct{ name, s string }{
				{"english", english(1<<20, false)},
				{"flat", english(1<<20, true)},
				{"soup", tokenSoup(bpe, 1<<20)},
				{"onechar", strings.Repeat("a", 1<<20)},
			} {
				b.Run(text.name, func(b *testing.B) {
					var ids []int32
					b.SetBytes(int64(len(text.s)))
					b.ReportAllocs()
					for b.Loop() {
						ids = bpe.Encode(ids[:0], text.s)
					}
				})
			}
		})
	}
}

func BenchmarkHarmony(b *testing.B) {
	for b.Loop() {
		if _, err := Harmony(); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkFromJSON reads the tokenizer.json that `ossian synth gpt-oss-20b` writes, or
// any other that OSSIAN_TOKENIZER names.
func BenchmarkFromJSON(b *testing.B) {
	name := cmp.Or(os.Getenv("OSSIAN_TOKENIZER"), "../../models/gpt-oss-20b/tokenizer.json")
	data, err := os.ReadFile(name)
	if err != nil {
		b.Skip(err)
	}
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		if _, err := FromJSON(data); err != nil {
			b.Fatal(err)
		}
	}
}
