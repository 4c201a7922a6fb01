package terminal

import "time"

// rateWindow is the time over which the shown rate is the average.
const rateWindow = 5 * time.Second

// A Meter turns readings into a rate over the last five seconds. Its zero value has none.
type Meter struct {
	done     int64
	readings []reading // oldest first; the first may be older than rateWindow
}

type reading struct {
	at   time.Time
	done int64
}

// Add takes a reading; a negative count means that the operation has not begun.
func (m *Meter) Add(at time.Time, done int64) {
	if done < 0 {
		return
	}
	m.done = done
	m.readings = append(m.readings, reading{at, done})
	for len(m.readings) > 2 && at.Sub(m.readings[1].at) >= rateWindow {
		m.readings = m.readings[1:]
	}
}

// Rate returns units per second, 0 when unknown.
func (m *Meter) Rate() float64 {
	if len(m.readings) < 2 {
		return 0
	}
	first, last := m.readings[0], m.readings[len(m.readings)-1]
	seconds := last.at.Sub(first.at).Seconds()
	if seconds <= 0 || last.done <= first.done {
		return 0
	}
	return float64(last.done-first.done) / seconds
}
