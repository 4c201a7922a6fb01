package cost

import (
	"fmt"
	"strconv"
	"strings"
)

// Times of operations, as TestKernelTimes of package cuda writes them: a row is what a model asks for, which
// may be several kernels, one behind another.
//
//	kernel,shape,tokens,context,median_us,best_us,bytes,gb_per_s,flop,tflop_per_s
//	linear,gpt-oss qkv,8,0,10.49,10.45,29701120,2832.3,235929600,22.50
//
// Of which card they are the file does not say. Where several kernels were compared, shapes end in " /TILE":
// that of products by warpgroups, or -1 for mma.sync; a row without an end is then what was chosen at that
// time, which is one of the others, and is left out.

// timed are the columns of such a file.
var timed = []string{"kernel", "shape", "tokens", "context", "median_us", "bytes"}

// Matrices are the shapes of products in such files by their names.
var Matrices = map[string]Matrix{
	"gpt-oss qkv": {BF16, 5120, 2880}, "gpt-oss o": {BF16, 2880, 4096}, "gpt-oss head": {BF16, 201088, 2880}, "gpt-oss q": {BF16, 4096, 2880},
	"gpt-oss k": {BF16, 512, 2880}, "gpt-oss router": {BF16, 32, 2880}, "qwen3-8b gate-up": {BF16, 24576, 4096},
	"qwen3-8b gate-up q8": {Q8, 24576, 4096}, "qwen3-8b down": {BF16, 4096, 12288},
}

// readTimes reads the rows behind the first line.
func (t *table) readTimes(card string, by Products) ([]Record, error) {
	type operation struct{ kernel, shape, tokens string }
	compared := map[operation]bool{}
	var rows [][]string
	var lines []int
	for {
		row, line, err := t.next()
		if err != nil {
			return nil, err
		}
		if row == nil {
			break
		}
		rows, lines = append(rows, row), append(lines, line)
		if name, tile, ok := cutTile(row[t.at["shape"]]); ok && tile != 0 {
			compared[operation{row[t.at["kernel"]], name, row[t.at["tokens"]]}] = true
		}
	}
	var all []Record
	for i, row := range rows {
		name, tile, _ := cutTile(row[t.at["shape"]])
		if tile == 0 && compared[operation{row[t.at["kernel"]], name, row[t.at["tokens"]]}] {
			continue
		}
		one := Record{Card: card, Kernel: row[t.at["kernel"]], Shape: row[t.at["shape"]]}
		by := Products{by.Warpgroups && tile >= 0, tile}
		if err := t.time(&one, row, "median_us"); err != nil {
			return nil, fmt.Errorf("kernels.csv: line %d: %w", lines[i], err)
		}
		var err error
		if one.Works, err = by.operation(one.Kernel, name, one.Tokens, row[t.at["context"]], row[t.at["bytes"]]); err != nil {
			return nil, fmt.Errorf("kernels.csv: line %d: %w", lines[i], err)
		}
		all = append(all, one)
	}
	return all, nil
}

// cutTile cuts " /TILE" off a shape.
func cutTile(shape string) (name string, tile int, ok bool) {
	name, end, found := strings.Cut(shape, " /")
	if !found {
		return shape, 0, false
	}
	tile, known := map[string]int{"-1": -1, "0": 0, "32": 32, "64": 64, "128": 128}[end]
	if !known {
		return shape, 0, false
	}
	return name, tile, true
}

// operation returns the kernels of a row.
func (p Products) operation(kernel, shape string, tokens int, context, bytes string) ([]Work, error) {
	if tokens < 1 || tokens > 1<<20 {
		return nil, fmt.Errorf("%d tokens: 1 to %d expected", tokens, 1<<20)
	}
	switch kernel {
	case "linear":
		m, ok := Matrices[shape]
		if !ok {
			return nil, fmt.Errorf("matrix %q is not among cost.Matrices", shape)
		}
		return []Work{p.Linear(m, false, tokens)}, nil
	case "experts":
		return p.mixture(shape, tokens)
	case "attend":
		return attended(shape, tokens, context, bytes)
	case "sample greedy", "sample drawn":
		s := parseShape(shape)
		vocab := s.get("vocab")
		return Sample(vocab, tokens, kernel == "sample drawn"), s.err
	case "experts_plan", "experts_combine":
		shape += " hidden=2880 inner=2880" // those that TestKernelTimes has
	case "embed_bf16":
		shape = "rows=1024 " + strings.Replace(shape, "width=", "cols=", 1)
	}
	work, err := ParseWork(kernel, shape, tokens)
	return []Work{work}, err
}

// sizes reads the numbers of a shape such as 32x2880x2880.
func sizes(shape string) (a, b, c int, err error) {
	if n, _ := fmt.Sscanf(shape, "%dx%dx%d", &a, &b, &c); n != 3 || min(a, b, c) < 1 || max(a, b, c) > 1<<20 {
		err = fmt.Errorf("shape %q: three numbers such as 64x8x64 expected", shape)
	}
	return a, b, c, err
}

// mixture is a layer of experts, of which a token has four: EXPERTSxHIDDENxINNER, or that of gpt-oss-20b.
func (p Products) mixture(shape string, tokens int) ([]Work, error) {
	if shape == "experts" {
		shape = "32x2880x2880"
	}
	experts, hidden, inner, err := sizes(shape)
	if err != nil {
		return nil, err
	}
	e := Experts{Up: Matrix{MXFP4, 2 * inner, hidden}, Down: Matrix{MXFP4, hidden, inner}, Count: experts, TopK: 4, Products: p}
	return e.Works(tokens, evenly(tokens, experts, 4)), nil
}

// attended is attention of HEADSxKVxDIM: tokens of rows that see context keys behind their last. How many
// rows there are follows from the bytes of their keys and values.
func attended(shape string, tokens int, context, bytes string) ([]Work, error) {
	heads, kv, dim, err := sizes(shape)
	if err != nil {
		return nil, err
	}
	h := Heads{Heads: heads, KV: kv, Dim: dim}
	keys, err := strconv.Atoi(context)
	if err != nil {
		return nil, fmt.Errorf("context: %w", err)
	}
	read, err := strconv.ParseFloat(bytes, 64)
	if err != nil {
		return nil, fmt.Errorf("bytes: %w", err)
	}
	if !h.Counted() || keys < 1 || keys > 1<<20 {
		return nil, fmt.Errorf("shape %q, context %d: even heads of up to 128 elements and 1 to %d keys expected", shape, keys, 1<<20)
	}
	const block = 16 // of keys, as the cache has them
	each := 2 * float64((keys+block-1)/block*block*kv) * h.vector()
	rows := int(read/each + 0.5)
	if rows < 1 || tokens%rows > 0 || tokens/rows > keys {
		return nil, fmt.Errorf("%v bytes of keys and values, %d each row, for %d tokens: whole rows expected", read, int(each), tokens)
	}
	var all []Row
	for range rows {
		all = append(all, Row{keys - tokens/rows, tokens / rows})
	}
	return h.Attend(all, 0), nil
}
