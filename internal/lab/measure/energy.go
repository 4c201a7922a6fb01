package measure

import (
	"path/filepath"
	"regexp"
	"strconv"
)

// A meter reads the counters of energy that processors have (RAPL: energy_uj of each package). It has
// to be read more often than they turn over, which takes minutes.
type meter struct {
	root    string
	domains []domain
	total   float64 // microjoules since the meter began
	broken  bool    // a counter could not be read any more
}

// A domain is the counter of one package.
type domain struct {
	path string
	last uint64
	wrap uint64 // microjoules after which it begins again with 0
}

// packageName are those of whole packages: parts of them (cores, memory) have one more number.
var packageName = regexp.MustCompile(`^intel-rapl:\d+$`)

// newMeter begins to measure; nil: this machine has no counters, or they may not be read.
func newMeter(root string) *meter {
	m := &meter{root: root}
	paths, _ := filepath.Glob(filepath.Join(root, "sys/class/powercap/intel-rapl:*")) // the pattern is well formed
	for _, path := range paths {
		if !packageName.MatchString(filepath.Base(path)) {
			continue
		}
		now, err := strconv.ParseUint(word(path, "energy_uj"), 10, 64)
		wrap, err2 := strconv.ParseUint(word(path, "max_energy_range_uj"), 10, 64)
		if err != nil || err2 != nil {
			return nil // a part of the machine's energy would be missing
		}
		m.domains = append(m.domains, domain{path: path, last: now, wrap: wrap})
	}
	if len(m.domains) == 0 {
		return nil
	}
	return m
}

// read takes in what was used since it was called last.
func (m *meter) read() {
	for i := range m.domains {
		d := &m.domains[i]
		now, err := strconv.ParseUint(word(d.path, "energy_uj"), 10, 64)
		if err != nil {
			m.broken = true
			continue
		}
		used := now - d.last
		if now < d.last { // it began again
			used = d.wrap - d.last + now
		}
		m.total += float64(used)
		d.last = now
	}
}

// joules is what was used since the meter began, and whether that is known.
func (m *meter) joules() (float64, bool) {
	m.read()
	return m.total / 1e6, !m.broken
}
