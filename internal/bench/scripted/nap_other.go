//go:build !linux

package scripted

import "time"

// nap sleeps for less than a millisecond, as precisely as the runtime does.
func nap(d time.Duration) { time.Sleep(d) }
