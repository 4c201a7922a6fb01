package arith

// Relations say which outcomes of a comparison fulfil it: less, equal, greater, unordered.
var Relations = map[string]uint8{
	"lt": 1, "lo": 1, "eq": 2, "le": 3, "ls": 3, "gt": 4, "hi": 4, "ne": 5, "ge": 6, "hs": 6, "num": 7,
	"nan": 8, "ltu": 9, "equ": 10, "leu": 11, "gtu": 12, "neu": 13, "geu": 14,
}

// Outcome compares values of which none is NaN.
func Outcome[T int32 | uint32 | int64 | uint64 | float64](a, b T) uint8 {
	switch {
	case a < b:
		return 1
	case a == b:
		return 2
	case a > b:
		return 4
	}
	return 8
}
