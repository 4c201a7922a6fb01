package kern

import "ossian/internal/tensor"

// PackedBytes returns the memory that Pack will take for t with these options, told
// by shape and type alone: 0 for matrices that stay where t has them.
func PackedBytes(t *tensor.Tensor, o Options) int64 {
	fam, ok := familyOf(t.DType)
	if o.Q8 && fam >= packed {
		fam = q8
	}
	if !ok || len(t.Shape) < 2 {
		return 0
	}
	out := t.Shape[len(t.Shape)-2]
	if out < 1 {
		return 0
	}
	groups := t.Rows() / out * ((out + groupRows - 1) / groupRows)
	return int64(groups) * int64(fam.repacked(t))
}
