package sample

import (
	"flag"
	"fmt"
	"hash/fnv"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite testdata/sequences.golden")

const goldenHeader = `# Made by: go test ./internal/sample -run DET5 -update
# A seed gives the same ids in every release of a major version: changing a line breaks that promise.
# Sequence: first 6 of 64 ids, FNV-1a of all. Logits and parameters are those of goldenSequence.
`

// mix is the output function of splitmix64: cheaper than Draw.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// goldenSequence samples 64 ids from a model whose logits are integers hashed
// from the sequence number and the previous id: no rounding, no library function.
func goldenSequence(s *Sampler, n uint64) []int32 {
	const vocab = 1000
	pick := func(i int) float32 { return []float32{0, 0.3, 0.7, 0.9, 1}[Draw(n, uint64(i)<<32)%5] }
	p := &Params{Temperature: 0.25 + pick(0), TopK: int(Draw(n, 1<<33) % 3 * 20), TopP: pick(2), MinP: pick(3) / 8, Seed: n * 0x9e3779b97f4a7c15}
	if n%4 == 0 {
		p.RepetitionPenalty, p.FrequencyPenalty, p.PresencePenalty = 1+pick(4), pick(5), pick(6)
		p.LogitBias = map[int32]float32{int32(n % vocab): 2, 7: -3}
	}
	mask := []uint64(nil)
	if n%5 == 0 {
		mask = make([]uint64, (vocab+63)/64)
		for i := range mask {
			mask[i] = Draw(n, uint64(i)<<40)
		}
	}
	ids, logits := []int32{int32(n % vocab)}, make([]float32, vocab)
	p.Prompt = 1
	for step := range uint64(64) {
		last := uint64(ids[len(ids)-1])
		for i := range logits {
			r := mix(n<<40 | last<<20 | uint64(i))
			logits[i] = float32(int64(r%4096)+int64(r>>12%4096)+int64(r>>24%4096)-6144) / 256
		}
		ids = append(ids, s.Pick(logits, mask, p, ids, step))
	}
	return ids[1:]
}

// TestDET5Golden: seeded sampling gives what it gave when the file was made.
func TestDET5Golden(t *testing.T) {
	var s Sampler
	var b strings.Builder
	b.WriteString(goldenHeader)
	for n := range uint64(1000) {
		ids := goldenSequence(&s, n)
		h := fnv.New32a()
		for _, id := range ids {
			h.Write([]byte{byte(id), byte(id >> 8)})
		}
		fmt.Fprintf(&b, "%d: %d %08x\n", n, ids[:6], h.Sum32())
	}
	const file = "testdata/sequences.golden"
	if *update {
		if err := os.WriteFile(file, []byte(b.String()), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	got, wanted := strings.Split(b.String(), "\n"), strings.Split(string(want), "\n")
	if len(got) != len(wanted) {
		t.Fatalf("%s has %d lines, want %d", file, len(wanted), len(got))
	}
	differences := 0
	for i := range got {
		if got[i] != wanted[i] {
			differences++
			t.Errorf("line %d:\ngot  %s\nwant %s", i+1, got[i], wanted[i])
		}
	}
	t.Logf("DET-5: 1000 sequences of 64 ids, %d differences", differences)
}
