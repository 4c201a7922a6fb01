package mask

import (
	"slices"
	"testing"
)

// ids are the bits of a mask.
func ids(mask []uint64) (all []int32) {
	for id := range int32(len(mask) * 64) {
		if mask[id/64]>>(id%64)&1 == 1 {
			all = append(all, id)
		}
	}
	return all
}

func TestSpelled(t *testing.T) {
	t.Parallel()
	texts := NewSpellings([][]int32{{7, 9}, {7}, {70, 1, 2}, {7, 9}, {7, 8, 100}})
	for _, tt := range []struct {
		read, next []int32
		done       bool
	}{
		{nil, []int32{7, 70}, false},
		{[]int32{7}, []int32{8, 9}, true},
		{[]int32{7, 9}, nil, true},
		{[]int32{7, 8}, []int32{100}, false},
		{[]int32{70, 1, 2}, nil, true},
	} {
		text, dst := Begin(texts), make([]uint64, 2)
		for _, id := range tt.read {
			if !text.Accept(id) {
				t.Fatalf("%v: %d is refused", tt.read, id)
			}
		}
		text.Allow(dst)
		if got := ids(dst); !slices.Equal(got, tt.next) || text.Done() != tt.done {
			t.Errorf("behind %v: %v, done %t; want %v, %t", tt.read, got, text.Done(), tt.next, tt.done)
		}
		if text.Accept(11) {
			t.Errorf("behind %v: 11 is accepted", tt.read)
		}
	}
	dst := make([]uint64, 1)
	if Allow(dst, -1, 64, 5); !slices.Equal(ids(dst), []int32{5}) {
		t.Errorf("%v", ids(dst))
	}
}
