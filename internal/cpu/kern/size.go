package kern

import "ossian/internal/tensor"

// PackedBytes returns the memory that Pack will take for t with these options, told
// by shape and type alone: 0 for matrices that stay where t has them.
func PackedBytes(t *tensor.Tensor, o Options) int64 {
	if len(t.Shape) < 2 {
		return 0
	}
	fam, ok := o.family(t)
	out := t.Shape[len(t.Shape)-2]
	if !ok || out < 1 {
		return 0
	}
	groups := t.Rows() / out * ((out + groupRows - 1) / groupRows)
	return int64(groups) * int64(fam.repacked(t))
}
