package terminal

import (
	"fmt"
	"time"
)

// FormatBytes writes n with three digits and a decimal unit: "13.8 GB".
func FormatBytes(n int64) string {
	return scaled(n, []string{" B", " kB", " MB", " GB", " TB", " PB", " EB"})
}

// FormatCount writes n with three digits and a decimal suffix: "20.9B" parameters.
func FormatCount(n int64) string { return scaled(n, []string{"", "k", "M", "B", "T", "e15", "e18"}) }

// scaled writes count with three digits and the unit of its power of a thousand.
func scaled(count int64, units []string) string {
	if count < 1000 {
		return fmt.Sprintf("%d%s", count, units[0])
	}
	value, unit := float64(count), 0
	// The limits are where rounding to three digits gives a fourth.
	for ; value >= 999.5 && unit < len(units)-1; unit++ {
		value /= 1000
	}
	digits := 2
	if value >= 9.995 {
		digits = 1
	}
	if value >= 99.95 {
		digits = 0
	}
	return fmt.Sprintf("%.*f%s", digits, value, units[unit])
}

// FormatDuration writes d to the second, at most 99 hours: "1m10s".
func FormatDuration(d time.Duration) string {
	return min(max(d, time.Second), 99*time.Hour).Round(time.Second).String()
}
