package cuda

import (
	"fmt"

	"ossian/internal/cuda/driver"
)

// A memory takes what a device needs, of the card and of pinned host memory, and frees it at
// once. A dry one only counts: its addresses are not 0, and that is all.
type memory struct {
	drv    *driver.Driver // nil = dry
	taken  []driver.Ptr
	pinned [][]byte
	bytes  int64 // of the card, as it hands them out
}

// granularity is in which units a card's memory goes away: a small piece takes one of pieceUnit
// bytes, one of pageUnit/2 and more takes pages.
const pieceUnit, pageUnit = 512, 2 << 20

// card takes bytes of the card's memory, whose contents are undefined.
func (m *memory) card(bytes int64) (driver.Ptr, error) {
	bytes = max(bytes, 1)
	unit := int64(pieceUnit)
	if bytes >= pageUnit/2 {
		unit = pageUnit
	}
	taken := (bytes + unit - 1) / unit * unit
	if m.drv == nil {
		m.bytes += taken
		return driver.Ptr(pieceUnit), nil
	}
	at, err := m.drv.MemAlloc(uint64(bytes))
	if err != nil {
		free, _, _ := m.drv.MemInfo()
		return 0, fmt.Errorf("cuda: %d bytes of the card's memory, of which %d are taken and %d are free: %w; free some of it, or lower --max-model-len, --max-num-seqs or --max-num-batched-tokens", bytes, m.bytes, free, err)
	}
	m.bytes += taken
	m.taken = append(m.taken, at)
	return at, nil
}

// host takes pinned memory of the host.
func (m *memory) host(bytes int) ([]byte, error) {
	if m.drv == nil {
		return make([]byte, 0), nil
	}
	pinned, err := m.drv.MemAllocHost(max(bytes, 1))
	if err != nil {
		return nil, fmt.Errorf("cuda: %d bytes of pinned host memory: %w", bytes, err)
	}
	m.pinned = append(m.pinned, pinned)
	return pinned, nil
}

// close frees everything and returns the first error.
func (m *memory) close() (first error) {
	for _, at := range m.taken {
		if err := m.drv.MemFree(at); err != nil && first == nil {
			first = err
		}
	}
	for _, pinned := range m.pinned {
		if err := m.drv.MemFreeHost(pinned); err != nil && first == nil {
			first = err
		}
	}
	m.taken, m.pinned = nil, nil
	return first
}
