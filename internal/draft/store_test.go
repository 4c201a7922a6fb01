package draft

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// kept is what a store has to hold, by its definition: the newest outputs that fit beside each
// other in a ring of ids, each in one piece.
type kept struct {
	keys  []uint64
	texts [][]int32
	begin []int // positions, as the ring counts them
	end   int
}

func (k *kept) add(key uint64, ids []int32, size, requests, shortest int) {
	ids = ids[max(len(ids)-size, 0):]
	if len(ids) <= shortest {
		return
	}
	begin := max(k.end, 1)
	if begin%size+len(ids) > size {
		begin += size - begin%size
	}
	k.end = begin + len(ids)
	k.keys, k.texts, k.begin = append(k.keys, key), append(k.texts, ids), append(k.begin, begin)
	for len(k.keys) > requests || k.begin[0] < k.end-size {
		k.keys, k.texts, k.begin = k.keys[1:], k.texts[1:], k.begin[1:]
	}
}

// of returns the outputs with a key.
func (k *kept) of(key uint64) (texts [][]int32) {
	for i := range k.keys {
		if k.keys[i] == key {
			texts = append(texts, k.texts[i])
		}
	}
	return texts
}

// SPC-6: a store gives what comparing all places of all outputs it has to hold gives, and nothing
// of another key. It holds no more than it may.
func checkStore(t *testing.T, random *rand.Rand, text []int32, size, requests int, by rule) (guessed int) {
	t.Helper()
	store, model := NewStore(size, requests), &kept{}
	store.rule = by
	for len(text) > 0 {
		n := min(1+random.IntN(min(2*size, 40)), len(text))
		key := uint64(random.IntN(3))
		store.Add(key, text[:n])
		model.add(key, text[:n], size, requests, by.shortest)
		text = text[n:]
		if held := store.Len(); held != len(model.keys) || held > requests {
			t.Fatalf("%d outputs, want %d, at most %d", held, len(model.keys), requests)
		}
		for range 3 {
			key := uint64(random.IntN(3))
			tail := text[:min(len(text), random.IntN(12))]
			want, wantMatch := reference(model.of(key), false, tail, 6, by)
			got, match := store.Draft(key, tail, []int32{-7}, 6)
			if match != wantMatch || got[0] != -7 || !slices.Equal(got[1:], want) {
				t.Fatalf("rule %+v, size %d, key %d, behind %v: guessed %v of %d alike, want %v of %d\n%v", by, size, key, tail, got[1:], match, want, wantMatch, model.of(key))
			}
			guessed += len(want)
		}
	}
	return guessed
}

func FuzzStore(f *testing.F) {
	f.Add([]byte("abracadabra abracadabra abracadabra"), byte(1), byte(5), uint64(1))
	f.Add([]byte("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"), byte(5), byte(3), uint64(2))
	f.Fuzz(func(t *testing.T, text []byte, seed, alphabet byte, chance uint64) {
		random := rand.New(rand.NewPCG(chance, 7))
		checkStore(t, random, idsOf(text[:min(len(text), 300)], int(alphabet%32)+1), 1+random.IntN(200), 1+random.IntN(9), ruleOf(seed))
	})
}

func TestStoreRandom(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	guessed := 0
	for range 100 {
		text := make([]byte, 200+random.IntN(600))
		for i := range text {
			text[i] = byte(random.Uint32())
		}
		guessed += checkStore(t, random, idsOf(text, 1+random.IntN(9)), 1+random.IntN(200), 1+random.IntN(12), ruleOf(byte(random.Uint32())))
	}
	if guessed < 1000 {
		t.Errorf("%d ids guessed", guessed)
	}
}

// Tenants are apart, even where the hashes of their ids collide: outputs of one key say nothing
// to another, and what was given up says nothing to anybody.
func TestStoreApart(t *testing.T) {
	store := NewStore(64, 4)
	secret, tail := []int32{1, 2, 3, 4, 5, 6, 7, 8}, []int32{1, 2, 3}
	store.Add(1, secret)
	for i := range store.last { // every chain begins at the secret
		store.last[i] = store.end - 5
	}
	for key := range uint64(1000) {
		if ids, match := store.Draft(key, tail, nil, 4); key != 1 && (len(ids) > 0 || match > 0) {
			t.Fatalf("key %d: guessed %v of %d alike from key 1", key, ids, match)
		}
	}
	if ids, match := store.Draft(1, tail, nil, 4); !slices.Equal(ids, []int32{4, 5, 6, 7}) || match != 3 {
		t.Errorf("key 1: guessed %v of %d alike", ids, match)
	}
	for range 4 {
		store.Add(2, []int32{9, 9, 9, 9})
	}
	if ids, match := store.Draft(1, tail, nil, 4); len(ids) > 0 || match > 0 || store.Len() != 4 {
		t.Errorf("given up: guessed %v of %d alike, %d outputs", ids, match, store.Len())
	}
}

// An output is found by one that comes to the same text, to its end and no further.
func TestStoreEnds(t *testing.T) {
	store := NewStore(1000, 10)
	store.Add(5, []int32{1, 2, 3, 4, 5})
	store.Add(5, []int32{6, 7, 8, 9})
	for _, c := range []struct {
		tail, want []int32
		match      int
	}{
		{[]int32{1, 2}, []int32{3, 4, 5}, 2},
		{[]int32{0, 1, 2, 3}, []int32{4, 5}, 3},
		{[]int32{4, 5}, nil, 0}, // nothing came behind them
		{[]int32{5, 6}, nil, 0}, // no output has both
		{[]int32{1}, nil, 0},
		{nil, nil, 0},
	} {
		if ids, match := store.Draft(5, c.tail, nil, 8); !slices.Equal(ids, c.want) || match != c.match {
			t.Errorf("behind %v: %v of %d alike, want %v of %d", c.tail, ids, match, c.want, c.match)
		}
	}
	long := make([]int32, 5000)
	for i := range long {
		long[i] = int32(i)
	}
	store.Add(5, long)
	if ids, _ := store.Draft(5, []int32{4990, 4991}, nil, 2); !slices.Equal(ids, []int32{4992, 4993}) || store.Len() != 1 {
		t.Errorf("of an output that is too long: %v, %d outputs", ids, store.Len())
	}
}
