package kern

import "fmt"

// A Fetch is how products with one activation row, or few of BF16, ask memory for packed weights.
// Which is the fastest depends on what the processor fetches by itself; what is computed does not.
type Fetch struct {
	Streams int // places that a worker reads side by side, 1 or 2
	Ahead   int // bytes from what a stream multiplies to what it asks for
}

// String returns f as words: "2 streams 1 KiB ahead".
func (f Fetch) String() string {
	plural := "s"
	if f.Streams == 1 {
		plural = ""
	}
	return fmt.Sprintf("%d stream%s %d KiB ahead", f.Streams, plural, f.Ahead>>10)
}

// oneFar and twoNear are what AMD's processors (Zen 5) and Intel's (Granite Rapids) are fastest
// with: the latter fetch within pages by themselves, where requests far ahead are in the way, and
// have more under way with two pages.
var oneFar, twoNear = Fetch{Streams: 1, Ahead: 4096}, Fetch{Streams: 2, Ahead: 1024}

// Fetches returns the ways that are worth a trial, first the one to begin with. A level without
// kernels for one row has one, whose distance these kernels have.
func (l Level) Fetches() []Fetch {
	if !l.hasOneRow(false) {
		return []Fetch{oneFar}
	}
	ways := []Fetch{oneFar, twoNear, {Streams: 2, Ahead: 4096}, {Streams: 1, Ahead: 1024}}
	if fetchesPages {
		ways[0], ways[1] = twoNear, oneFar
	}
	return ways
}

// Fetches returns the ways that are worth a trial with m: one, if its kernels do not ask for weights
// in several.
func (m *Matrix) Fetches() []Fetch {
	if m.halves != nil {
		return m.halves[0].Fetches()
	}
	ways := m.opt.Level.Fetches()
	if vectors := m.quantised() || (m.rounded() && !m.tiled() && !m.inPairs()); !vectors || !m.opt.Level.hasOneRow(m.quantised() && m.opt.Fine) {
		ways = ways[:1]
	}
	return ways
}
