package exec

import "strings"

// specials are registers that say where a lane is. Those that have axes get one of them. A block is a
// cluster of its own.
var specials = map[string]func(w *Warp, lane, axis int) uint64{
	"%tid": func(w *Warp, lane, axis int) uint64 {
		n, size := uint32(w.ID*32+lane), &w.Block.Size
		switch axis {
		case 0:
			return uint64(n % size[0])
		case 1:
			return uint64(n / size[0] % size[1])
		}
		return uint64(n / size[0] / size[1])
	},
	"%ctaid":   func(w *Warp, _, axis int) uint64 { return uint64(w.Block.At[axis]) },
	"%ntid":    func(w *Warp, _, axis int) uint64 { return uint64(w.Block.Size[axis]) },
	"%nctaid":  func(w *Warp, _, axis int) uint64 { return uint64(w.Block.Grid[axis]) },
	"%laneid":  func(_ *Warp, lane, _ int) uint64 { return uint64(lane) },
	"%warpid":  func(w *Warp, _, _ int) uint64 { return uint64(w.ID) },
	"%nwarpid": func(w *Warp, _, _ int) uint64 { return 64 },
	"%smid": func(w *Warp, _, _ int) uint64 {
		return uint64(w.Block.Index) % uint64(w.Block.Device.Multiprocessors)
	},
	"%nsmid":       func(w *Warp, _, _ int) uint64 { return uint64(w.Block.Device.Multiprocessors) },
	"%gridid":      func(*Warp, int, int) uint64 { return 1 },
	"%lanemask_eq": func(_ *Warp, lane, _ int) uint64 { return 1 << lane },
	"%lanemask_lt": func(_ *Warp, lane, _ int) uint64 { return 1<<lane - 1 },
	"%lanemask_le": func(_ *Warp, lane, _ int) uint64 { return 2<<lane - 1 },
	"%lanemask_gt": func(_ *Warp, lane, _ int) uint64 { return uint64(AllLanes) &^ (2<<lane - 1) },
	"%lanemask_ge": func(_ *Warp, lane, _ int) uint64 { return uint64(AllLanes) &^ (1<<lane - 1) },
	"%clock":       func(w *Warp, _, _ int) uint64 { return uint64(w.Block.Count.Warp) },
	"%clock64":     func(w *Warp, _, _ int) uint64 { return uint64(w.Block.Count.Warp) },
	"%globaltimer": func(w *Warp, _, _ int) uint64 { return uint64(w.Block.Count.Warp) },
	"%dynamic_smem_size": func(w *Warp, _, _ int) uint64 {
		return uint64(len(w.Block.Shared) - w.Block.Kernel.Shared)
	},
	"%total_smem_size": func(w *Warp, _, _ int) uint64 { return uint64(len(w.Block.Shared)) },

	"%clusterid":        func(w *Warp, _, axis int) uint64 { return uint64(w.Block.At[axis]) },
	"%nclusterid":       func(w *Warp, _, axis int) uint64 { return uint64(w.Block.Grid[axis]) },
	"%cluster_ctaid":    func(*Warp, int, int) uint64 { return 0 },
	"%cluster_nctaid":   func(*Warp, int, int) uint64 { return 1 },
	"%cluster_ctarank":  func(*Warp, int, int) uint64 { return 0 },
	"%cluster_nctarank": func(*Warp, int, int) uint64 { return 1 },
}

// SpecialOfLane says whether lanes of a warp have values of their own of a special register.
func SpecialOfLane(name string) bool {
	return name == "%tid" || name == "%laneid" || strings.HasPrefix(name, "%lanemask")
}

// Special returns how a special register is read, of an axis where it has several; nil: there is no such
// register.
func Special(name string, hasAxis bool, axis int) func(w *Warp, lane int) uint64 {
	f := specials[name]
	if f == nil || hasAxis != (strings.HasSuffix(name, "tid") || strings.HasSuffix(name, "ctaid") || strings.HasSuffix(name, "clusterid")) {
		return nil
	}
	return func(w *Warp, lane int) uint64 { return f(w, lane, axis) }
}
