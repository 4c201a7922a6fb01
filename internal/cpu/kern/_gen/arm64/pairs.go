package main

// A pairs is the kernel of 16 weight rows × T with products of two rows by two (USMMLA): a
// register of sums is two weight rows by two activation rows, [r0·t0, r0·t1, r1·t0, r1·t1]. An
// odd activation row is a pair with itself. Quants are unsigned, as they lie.
type pairs struct {
	tile
	count int // of pairs of activation rows
	// For each pair, the elements 8g to 8g+7 of both rows; of q6k those of a half only.
	acts [4][]vec
	// For each quad, for each two of its rows, for each pair.
	acc [4][2][]vec
}

// pairTile writes the kernel of a family; see tileGo.
func (a *assembler) pairTile(f family, T int) {
	a.begin(i8mm, f, T)
	k := &pairs{tile: a.newTile(i8mm, f, T), count: (T + 1) / 2}
	nb := a.param("nb")
	for q := range k.acc {
		for r := range k.acc[q] {
			k.acc[q][r] = a.take(k.count)
			for _, v := range k.acc[q][r] {
				a.zero(v)
			}
		}
	}
	k.constants()
	k.loops(nb, k.block)
	k.write()
}

// block multiplies a block of 32 elements.
func (k *pairs) block() {
	k.prefetches()
	if k.f.kind == k6 {
		for q := range k.acc {
			k.quad6(q)
		}
		return
	}
	k.loadActs(0)
	k.loadActs(1)
	step := 1 // quads at a time
	if k.T == 2 {
		step = 2
	}
	for first := 0; first < len(k.acc); first += step {
		sums := k.sums(first, step, 0, k.f.words(), 36)
		for i := range sums {
			k.use(first+i, sums[i])
		}
	}
	k.freeActs(0)
	k.freeActs(1)
}

// loadActs loads a half of the block of each pair: eight elements of both rows in a register.
func (k *pairs) loadActs(h int) {
	for p := range k.count {
		one, two := k.vec(), vec(-1)
		k.load(one, 16, k.x, 64*p+16*h)
		if 2*p+1 == k.T {
			two = k.vec()
			k.line("VDUP V%d.D[1], V%d.D2", one, two)
			k.line("VDUP V%d.D[0], V%d.D2", one, one)
		} else {
			other := k.vec()
			two = k.vec()
			k.load(other, 16, k.x, 64*p+32+16*h)
			k.zip2("D2", two, one, other)
			k.zip1("D2", one, one, other)
			k.free(other)
		}
		k.acts[2*h], k.acts[2*h+1] = append(k.acts[2*h], one), append(k.acts[2*h+1], two)
	}
}

func (k *pairs) freeActs(h int) {
	for g := 2 * h; g < 2*h+2; g++ {
		k.free(k.acts[g]...)
		k.acts[g] = nil
	}
}

// sums returns the integer sums of the words from..to-1 of n quads, by two of their rows and
// pair.
func (k *pairs) sums(first, n, from, to, offset int) [][2][]vec {
	sums := make([][2][]vec, n)
	for i := range sums {
		for r := range sums[i] {
			sums[i][r] = k.take(k.count)
		}
		k.start(sums[i], offset)
	}
	for z := from; z < to; z += 2 {
		for i := range sums {
			k.words(first+i, z, sums[i])
		}
	}
	return sums
}

// start gives sums the values they start from.
func (k *pairs) start(sums [2][]vec, offset int) {
	for p := range k.count {
		if k.f.minima() {
			k.zero(sums[0][p])
			k.zero(sums[1][p])
			continue
		}
		k.pair(sums[0][p], p, offset)
		k.move(sums[1][p], sums[0][p])
	}
}

// pair loads the words of a pair that the tile has from offset·T on, twice.
func (k *pairs) pair(v vec, p, offset int) {
	at := offset*k.T + 8*p
	if 2*p+1 == k.T {
		k.load(v, 4, k.x, at)
		k.dup(v, v, 0)
		return
	}
	k.load(v, 8, k.x, at)
	k.line("VDUP V%d.D[0], V%d.D2", v, v)
}

// words adds the products of words z and z+1 of a quad.
func (k *pairs) words(q, z int, sums [2][]vec) {
	one, high := k.vec(), k.vec()
	k.load(one, 16, k.w, 64*z+16*q)
	k.load(high, 16, k.w, 64*(z+1)+16*q)
	low := k.vec()
	k.zip1("S4", low, one, high)
	k.zip2("S4", high, one, high)
	k.free(one)
	for r, w := range []vec{low, high} {
		if !k.f.nibbles {
			k.times(sums[r], w, z/2)
			k.free(w)
			continue
		}
		nibbles := k.vec()
		k.unpack(nibbles, w)
		k.times(sums[r], nibbles, z/2)
		k.times(sums[r], w, 2+z/2)
		k.free(nibbles, w)
	}
}

// times adds the products of eight elements of two rows with group g of each pair.
func (k *pairs) times(sums []vec, w vec, g int) {
	for p, sum := range sums {
		k.op("usmmla", sum, w, k.acts[g][p])
	}
}

// quad6 multiplies a quad of q6k; see tile.quad6.
func (k *pairs) quad6(q int) {
	var total [2][]vec
	for h := range 2 {
		k.loadActs(h)
		sums := k.sums(q, 1, 4*h, 4*h+4, 36+4*h)[0]
		k.freeActs(h)
		scale := k.vec()
		k.scale6(scale, q, h)
		high := k.vec()
		k.zip2("S4", high, scale, scale)
		k.zip1("S4", scale, scale, scale)
		for r, s := range []vec{scale, high} {
			for p, sum := range sums[r] {
				if h == 0 {
					k.op("mul", sum, sum, s)
				} else {
					k.op("mla", total[r][p], sum, s)
				}
			}
		}
		k.free(scale, high)
		if h == 0 {
			total = sums
		} else {
			k.free(sums[0]...)
			k.free(sums[1]...)
		}
	}
	k.use(q, total)
}

// use adds the integer sums of a quad to acc, as tileGo does, and frees their registers.
func (k *pairs) use(q int, sums [2][]vec) {
	scale := k.doubled(k.scales(q))
	x := k.vec()
	for p := range k.count {
		k.pair(x, p, 32)
		for r := range sums {
			sum, acc := sums[r][p], k.acc[q][r][p]
			k.op("scvtf", sum, sum)
			if k.f.kind == e8m0 {
				k.op("fmul", sum, sum, scale[r])
				k.fmla(acc, sum, x)
				continue
			}
			k.op("fmul", sum, sum, x)
			k.fmla(acc, sum, scale[r])
		}
	}
	k.free(scale[:]...)
	k.free(x)
	if k.f.minima() {
		minimum := k.doubled(k.minimum(q))
		x := k.vec()
		for p := range k.count {
			k.pair(x, p, 40)
			for r := range sums {
				k.fmla(k.acc[q][r][p], minimum[r], x)
			}
		}
		k.free(minimum[:]...)
		k.free(x)
	}
	k.free(sums[0]...)
	k.free(sums[1]...)
}

// doubled turns the factors of a quad into those of sums: each twice, two rows in a register.
func (k *pairs) doubled(v vec) [2]vec {
	high := k.vec()
	k.zip2("S4", high, v, v)
	k.zip1("S4", v, v, v)
	return [2]vec{v, high}
}

// write adds the biases and stores the results.
func (k *pairs) write() {
	bias, y := k.param("bias"), k.param("y")
	for q := range k.acc {
		b, row := k.vec(), k.vec()
		k.load(b, 16, bias, 16*q)
		for t := range k.T {
			take := k.even
			if t%2 == 1 {
				take = k.odd
			}
			take("S4", row, k.acc[q][0][t/2], k.acc[q][1][t/2])
			k.op("fadd", row, row, b)
			k.store(row, 16, y, 64*t+16*q)
		}
		k.free(b, row)
	}
	k.ret()
}
