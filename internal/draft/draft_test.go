package draft

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// reference is Draft by its definition: every place is compared, every vote counted. texts are
// the outputs that may be copied, the oldest first; of one that may overlap the guesses go on.
func reference(texts [][]int32, overlap bool, tail []int32, n int, by rule) (ids []int32, match int) {
	if n == 0 {
		return nil, 0
	}
	type candidate struct{ text, at int }
	var places []candidate // the newest first
	for t := len(texts) - 1; t >= 0; t-- {
		for at := len(texts[t]) - 1; at >= by.shortest; at-- {
			if same := alikeSlow(texts[t][:at], tail); min(same, by.longest) >= by.shortest {
				places = append(places, candidate{t, at})
			}
		}
	}
	places = places[:min(len(places), mostPlaces)]
	for _, p := range places {
		match = max(match, min(alikeSlow(texts[p.text][:p.at], tail), by.longest))
	}
	places = slices.DeleteFunc(places, func(p candidate) bool {
		return min(alikeSlow(texts[p.text][:p.at], tail), by.longest) < match
	})
	if by.factor > 0 {
		n = min(n, int(by.factor*float64(match)))
	}
	all := len(places)
	for step := range n {
		votes := map[int32]int{}
		id := func(p candidate) (int32, bool) {
			text := texts[p.text]
			if overlap {
				text = slices.Concat(text, ids)
			}
			if p.at+step >= len(text) {
				return 0, false
			}
			return text[p.at+step], true
		}
		best, most := int32(-1), 0
		for _, p := range places {
			if it, ok := id(p); ok {
				votes[it]++
			}
		}
		for _, p := range places { // of as many the newest
			if it, ok := id(p); ok && votes[it] > most {
				best, most = it, votes[it]
			}
		}
		if most == 0 || float64(most) < by.least*float64(all) {
			break
		}
		places = slices.DeleteFunc(places, func(p candidate) bool { it, ok := id(p); return !ok || it != best })
		ids = append(ids, best)
	}
	return ids, match
}

func alikeSlow(a, b []int32) (n int) {
	for n < min(len(a), len(b)) && a[len(a)-1-n] == b[len(b)-1-n] {
		n++
	}
	return n
}

// rules are those that the tests go through.
func ruleOf(seed byte) rule {
	by := newRule(int(seed%4) + 1)
	switch seed / 4 % 4 {
	case 1:
		by.factor, by.least = 1, 0.1
	case 2:
		by.factor, by.least = 2.5, 0.6
	case 3:
		by.longest = by.shortest + int(seed/16%3)
	}
	return by
}

// SPC-6: the index gives what comparing all places gives, at every length of a text.
func checkIndex(t *testing.T, text []int32, by rule, n int) {
	t.Helper()
	index := &Index{rule: by}
	for i, id := range text {
		index.Add(id)
		got, match := index.Draft([]int32{-7}, n)
		want, wantMatch := reference([][]int32{text[:i+1]}, true, text[:i+1], n, by)
		if match != wantMatch || got[0] != -7 || !slices.Equal(got[1:], want) {
			t.Fatalf("rule %+v, behind %v: guessed %v of %d alike, want %v of %d", by, text[:i+1], got[1:], match, want, wantMatch)
		}
	}
}

// idsOf makes bytes into ids of an alphabet that is small, so that much is alike.
func idsOf(text []byte, alphabet int) []int32 {
	ids := make([]int32, 0, len(text))
	for _, b := range text {
		ids = append(ids, int32(int(b)%alphabet))
	}
	return ids
}

func FuzzIndex(f *testing.F) {
	f.Add([]byte("abracadabra abracadabra"), byte(1), byte(5))
	f.Add([]byte("aaaaaaaaaaaaaaaaaaaaaaaa"), byte(5), byte(3))
	f.Add([]byte("one two one three one two"), byte(10), byte(26))
	f.Fuzz(func(t *testing.T, text []byte, seed, alphabet byte) {
		checkIndex(t, idsOf(text[:min(len(text), 200)], int(alphabet%32)+1), ruleOf(seed), int(seed%9))
	})
}

func TestIndexRandom(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 60 {
		text := make([]byte, random.IntN(160))
		for i := range text {
			text[i] = byte(random.Uint32())
		}
		checkIndex(t, idsOf(text, random.IntN(12)+1), ruleOf(byte(random.Uint32())), random.IntN(12))
	}
}

// TestSettingsString: what the server's log says of guesses.
func TestSettingsString(t *testing.T) {
	for want, s := range map[string]Settings{
		"suffix, up to 7 a sequence and step, as many as pay":           {Method: Suffix, Tokens: 7, Adaptive: true},
		"draft_model a/b, up to 3 a sequence and step, all are checked": {Method: Model, Draft: "a/b", Tokens: 3},
	} {
		if got := s.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
