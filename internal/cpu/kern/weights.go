package kern

// Weights is package sample's Weights for as many of the logits x as one of its kernels
// takes, of which it returns the number, how many keys it kept and the sum of their
// weights. keys has room for all of x; code is what stands beside the weight of the
// first one. The bits are those of the loop in that package.
func Weights(l Level, keys []uint64, x []float32, from, scale float64, bound float32, least, code uint64) (done, kept int, total uint64) {
	done = len(x) &^ 7
	if !l.wide() || done == 0 {
		return 0, 0, 0
	}
	_ = keys[done-1]
	kept, total = weightsAsm(&keys[0], &x[0], done, from, scale, bound, least, code)
	return done, kept, total
}
