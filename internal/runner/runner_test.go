package runner

import (
	"math"
	"strings"
	"testing"

	"ossian/internal/sample"
)

var info = Info{Vocab: 100, BlockSize: 4, Groups: []Group{{Blocks: 10}, {Blocks: 6, Window: 3}}, MaxSeqs: 3, MaxTokens: 12, MaxLen: 20, Depth: 2}

// batch is right: a prompt of 5, a decode row at 8 whose windowed group has given
// back its first block, and a row whose token is pending.
func batch() *Batch {
	return &Batch{Tokens: []int32{0, 1, 2, 3, 99, 7, Pending}, Rows: []Row{
		{Slot: 2, Len: 5, Tables: [][]BlockID{{0, 1}, {0, 1}}, Targets: []int32{1, 2, 3, 99, 0}, Params: &sample.Params{}},
		{Slot: 0, Start: 8, Len: 1, Tables: [][]BlockID{{2, 3, 9}, {NoBlock, 2, 5}}, Sample: true, Params: &sample.Params{}, Mask: make([]uint64, 2)},
		{Slot: 1, Start: 1, Len: 1, Tables: [][]BlockID{{4}, {4}}, Sample: true, Params: &sample.Params{}},
	}}
}

// guess lets the second row of batch carry two guesses.
func guess(b *Batch, i *Info) {
	b.Tokens = []int32{0, 1, 2, 3, 99, 7, 8, 9, Pending}
	b.Rows[1].Len, b.Rows[1].Guessed, i.Lookahead = 3, 2, 2
}

func TestHeld(t *testing.T) {
	for _, tt := range []struct {
		drawn, guesses []int32
		want           int
	}{{[]int32{5}, nil, 1}, {[]int32{5, 6, 7}, []int32{5, 6}, 3}, {[]int32{5, 6, 7}, []int32{5, 9}, 2}, {[]int32{5, 6, 7}, []int32{9, 6}, 1}} {
		if got := Held(tt.drawn, tt.guesses); got != tt.want {
			t.Errorf("Held(%v, %v) = %d, want %d", tt.drawn, tt.guesses, got, tt.want)
		}
	}
}

func TestCheck(t *testing.T) {
	tests := []struct {
		name   string
		change func(*Batch, *Info)
		want   string // "" = right
	}{
		{"right", func(*Batch, *Info) {}, ""},
		{"no rows", func(b *Batch, _ *Info) { b.Rows = nil }, "no rows"},
		{"too many rows", func(_ *Batch, i *Info) { i.MaxSeqs = 2 }, "3 rows, at most 2"},
		{"too many tokens", func(_ *Batch, i *Info) { i.MaxTokens = 6 }, "7 tokens, at most 6"},
		{"negative slot", func(b *Batch, _ *Info) { b.Rows[1].Slot = -1 }, "row 1: slot -1 outside [0, 3)"},
		{"slot too large", func(b *Batch, _ *Info) { b.Rows[1].Slot = 3 }, "row 1: slot 3 outside"},
		{"slot twice", func(b *Batch, _ *Info) { b.Rows[1].Slot = 2 }, "row 1: slot 2 appears twice"},
		{"empty row", func(b *Batch, _ *Info) { b.Rows[0].Len = 0 }, "row 0: 0 tokens at position 0"},
		{"negative position", func(b *Batch, _ *Info) { b.Rows[0].Start = -1 }, "at position -1"},
		{"beyond the longest sequence", func(b *Batch, _ *Info) { b.Rows[1].Start = 20 }, "row 1: 1 tokens at position 20, sequences hold at most 20"},
		{"overflowing position", func(b *Batch, _ *Info) { b.Rows[1].Start = math.MaxInt }, "sequences hold at most 20"},
		{"more tokens in rows than in the batch", func(b *Batch, _ *Info) { b.Rows[2].Len = 2 }, "row 2: 2 tokens from 6 of a batch of 7"},
		{"overflowing row", func(b *Batch, _ *Info) { b.Rows[2].Len = math.MaxInt }, "of a batch of 7"},
		{"fewer tokens in rows than in the batch", func(b *Batch, _ *Info) { b.Rows = b.Rows[:2] }, "rows cover 6 tokens, batch has 7"},
		{"id too large", func(b *Batch, _ *Info) { b.Tokens[4] = 100 }, "row 0: token 4 has id 100, vocabulary has 100"},
		{"negative id", func(b *Batch, _ *Info) { b.Tokens[5] = -2 }, "row 1: token 0 has id -2"},
		{"pending inside a row", func(b *Batch, _ *Info) { b.Tokens[3] = Pending }, "row 0: token 3 has id -1"},
		{"pending at the first position", func(b *Batch, _ *Info) { b.Rows[2].Start = 0 }, "row 2: token 0 has id -1"},
		{"too few tables", func(b *Batch, _ *Info) { b.Rows[0].Tables = b.Rows[0].Tables[:1] }, "row 0: 1 block tables, 2 groups"},
		{"table too short", func(b *Batch, _ *Info) { b.Rows[0].Tables[1] = []BlockID{0} }, "row 0: group 1: table has 1 blocks, 5 tokens need 2"},
		{"guesses", guess, ""},
		{"guesses and masks", func(b *Batch, i *Info) { guess(b, i); b.Rows[1].Masks = [][]uint64{nil, make([]uint64, 2)} }, ""},
		{"guesses of a runner that takes none", func(b *Batch, i *Info) { guess(b, i); i.Lookahead = 0 }, "row 1: 2 of 3 tokens are guesses, at most 0 may be"},
		{"too many guesses", func(b *Batch, i *Info) { guess(b, i); i.Lookahead = 1 }, "row 1: 2 of 3 tokens are guesses, at most 1 may be"},
		{"nothing but guesses", func(b *Batch, i *Info) { guess(b, i); b.Rows[1].Guessed = 3 }, "row 1: 3 of 3 tokens are guesses, at most 2 may be"},
		{"negative guesses", func(b *Batch, _ *Info) { b.Rows[1].Guessed = -1 }, "row 1: -1 of 1 tokens are guesses"},
		{"guesses without sampling", func(b *Batch, i *Info) { guess(b, i); b.Rows[1].Sample = false }, "row 1: 2 guesses in a row that does not sample"},
		{"guesses beside targets", func(b *Batch, i *Info) { guess(b, i); b.Rows[1].Targets = []int32{1} }, "row 1: 1 targets beside 2 guesses"},
		{"a pending guess", func(b *Batch, i *Info) { guess(b, i); b.Tokens[7] = Pending }, "row 1: a guess is pending"},
		{"guesses without a block", func(b *Batch, i *Info) { guess(b, i); b.Rows[1].Start = 11 }, "row 1: group 0: table has 3 blocks, 14 tokens need 4"},
		{"too few masks", func(b *Batch, i *Info) { guess(b, i); b.Rows[1].Masks = [][]uint64{nil} }, "row 1: 1 masks behind 2 guesses"},
		{"short mask behind a guess", func(b *Batch, i *Info) { guess(b, i); b.Rows[1].Masks = [][]uint64{nil, {1}} }, "row 1: mask behind guess 1 has 1 words, vocabulary needs 2"},
		{"block outside the pool", func(b *Batch, _ *Info) { b.Rows[1].Tables[0][2] = 10 }, "row 1: group 0: block 2 is 10, pool has 10"},
		{"no block in a full group", func(b *Batch, _ *Info) { b.Rows[1].Tables[0][0] = NoBlock }, "row 1: group 0: block 0 is -1"},
		{"no block inside the window", func(b *Batch, _ *Info) { b.Rows[1].Tables[1][1] = NoBlock }, "row 1: group 1: block 1 is -1"},
		{"sampling without parameters", func(b *Batch, _ *Info) { b.Rows[2].Params = nil }, "row 2: samples without parameters"},
		{"targets without parameters", func(b *Batch, _ *Info) { b.Rows[0].Params = nil }, "row 0: has targets without parameters"},
		{"more targets than tokens", func(b *Batch, _ *Info) { b.Rows[1].Targets = []int32{1, 2} }, "row 1: 2 targets for 1 tokens"},
		{"pending target", func(b *Batch, _ *Info) { b.Rows[0].Targets[4] = Pending }, "row 0: target 4 has id -1, vocabulary has 100"},
		{"target too large", func(b *Batch, _ *Info) { b.Rows[0].Targets[0] = 100 }, "row 0: target 0 has id 100"},
		{"short mask", func(b *Batch, _ *Info) { b.Rows[1].Mask = b.Rows[1].Mask[:1] }, "row 1: mask has 1 words, vocabulary needs 2"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b, i := batch(), info
			tt.change(b, &i)
			err := Check(b, i)
			if (tt.want == "" && err != nil) || (tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want))) {
				t.Errorf("got error %v, want %q", err, tt.want)
			}
		})
	}
}

func TestFirstBlock(t *testing.T) {
	for _, tt := range []struct{ start, window, size, want int }{
		{100, 0, 4, 0},  // full attention
		{0, 128, 16, 0}, // at the start
		{127, 128, 16, 0},
		{128, 128, 16, 0}, // sees 1 to 128
		{143, 128, 16, 1}, // sees 16 to 143
		{5, 1, 4, 1},      // sees itself
	} {
		if got := FirstBlock(tt.start, tt.window, tt.size); got != tt.want {
			t.Errorf("FirstBlock(%d, %d, %d) = %d, want %d", tt.start, tt.window, tt.size, got, tt.want)
		}
	}
}

// FuzzCheck reads a batch from bytes. Whatever Check accepts, a runner must be
// able to execute: every token and every visible block is looked up.
func FuzzCheck(f *testing.F) {
	f.Add([]byte{2, 0, 5, 2, 0, 1, 2, 0, 1, 0}, []byte{0, 1, 2, 3, 99})
	f.Add([]byte{0, 8, 1, 3, 2, 3, 9, 3, 255, 2, 5, 1, 1, 1, 1, 1, 4, 1, 4, 3}, []byte{7, 255})
	f.Fuzz(func(t *testing.T, rows, tokens []byte) {
		next := func() int {
			if len(rows) == 0 {
				return 0
			}
			v := int(int8(rows[0]))
			rows = rows[1:]
			return v
		}
		b := &Batch{}
		for _, id := range tokens {
			b.Tokens = append(b.Tokens, int32(int8(id)))
		}
		for len(rows) > 0 && len(b.Rows) < 10 {
			r := Row{Slot: next(), Start: next(), Len: next()}
			for range info.Groups {
				table := make([]BlockID, max(next(), 0)%8)
				for k := range table {
					table[k] = BlockID(next())
				}
				r.Tables = append(r.Tables, table)
			}
			flags := next()
			r.Sample = flags&1 != 0
			if flags&2 == 0 {
				r.Params = &sample.Params{}
			}
			r.Guessed = flags >> 5 & 3
			for range flags >> 2 & 7 {
				r.Targets = append(r.Targets, int32(next()))
			}
			b.Rows = append(b.Rows, r)
		}
		info := info
		info.Lookahead = 2
		if Check(b, info) == nil {
			execute(t, b)
		}
	})
}

func execute(t *testing.T, b *Batch) {
	slots := make([]bool, info.MaxSeqs)
	rest := b.Tokens
	for _, r := range b.Rows {
		if slots[r.Slot] || (r.Sample && r.Params == nil) || (r.Guessed > 0 && (!r.Sample || r.Guessed >= r.Len)) {
			t.Fatalf("accepted: %+v", r)
		}
		slots[r.Slot] = true
		for k, id := range r.Targets {
			if k >= r.Len || r.Params == nil || id < 0 || int(id) >= info.Vocab {
				t.Fatalf("accepted: target %d of %+v", k, r)
			}
		}
		for k, id := range rest[:r.Len] {
			if (id == Pending && k != r.Len-1) || (id != Pending && (id < 0 || int(id) >= info.Vocab)) {
				t.Fatalf("accepted: token %d of %+v is %d", k, r, id)
			}
			for g, group := range info.Groups {
				first := 0
				if group.Window > 0 {
					first = max(r.Start+k-group.Window+1, 0)
				}
				for p := first; p <= r.Start+k; p++ {
					if id := r.Tables[g][p/info.BlockSize]; id < 0 || int(id) >= group.Blocks {
						t.Fatalf("accepted: position %d of %+v reads block %d of group %d", p, r, id, g)
					}
				}
			}
		}
		rest = rest[r.Len:]
	}
	if len(rest) > 0 || len(b.Rows) > info.MaxSeqs {
		t.Fatalf("accepted: %d tokens left of %+v", len(rest), b)
	}
}
