package measure

import (
	"context"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// A meter reads the counters of energy that processors have (RAPL: energy_uj of each package). It has
// to be read more often than they turn over, which takes minutes.
type meter struct {
	root    string
	domains []domain
	total   float64 // microjoules since the meter began
	broken  bool    // a counter could not be read any more
}

// wants are what the plan has measured, where the machine tells: of processors, of cards.
func (m *Measurer) wants() (processors, graphics bool) {
	all := m.Power == "auto" || m.Power == ""
	return all || m.Power == "rapl", all || m.Power == "nvml"
}

// meters begin to measure; nil: not that.
func (m *Measurer) meters() (processors *meter, graphics *cards) {
	wantsProcessors, wantsCards := m.wants()
	if wantsProcessors {
		processors = newMeter(sysRoot)
	}
	if wantsCards {
		graphics = newCards()
	}
	return processors, graphics
}

// energyOf ends measuring, and adds up the joules of both; unknown where nothing was measured, or a part
// of it would be missing.
func energyOf(processors *meter, graphics *cards) (joules float64, known bool) {
	known = processors != nil || graphics != nil
	if graphics != nil { // first: what it has gathered ends now
		more, told := graphics.end()
		joules, known = joules+more, known && told
	}
	if processors != nil {
		more, told := processors.joules()
		joules, known = joules+more, known && told
	}
	return joules, known
}

// powerWords are what energy is measured with, or "not measured" and why, for the ledger and the report.
// What energyOf would not know is not promised.
func (m *Measurer) powerWords(ctx context.Context) string {
	var found, missing []string
	wantsProcessors, wantsCards := m.wants()
	if wantsProcessors && newMeter(sysRoot) != nil {
		found = append(found, "rapl")
	} else if wantsProcessors {
		missing = append(missing, "no counters of RAPL that may be read")
	}
	if path, err := exec.LookPath(cardsTool); wantsCards && err == nil {
		text, err := askCards(ctx, path, "--query-gpu=uuid,power.draw")
		if _, known := readPower(text, nil); err != nil || !known {
			return "not measured: " + cardsTool + " tells no power of these cards"
		}
		found = append(found, cardsTool)
	} else if wantsCards {
		missing = append(missing, "no "+cardsTool)
	}
	switch {
	case len(found) > 0:
		return strings.Join(found, " and ")
	case len(missing) == 0:
		return "not measured: the plan wants none"
	}
	return "not measured: " + strings.Join(missing, ", ")
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
