package bench

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"ossian/internal/bench"
)

// part reads which part of a run this client has, and when it begins.
func (o *clientOptions) part() error {
	if o.shard == "" {
		if o.startAt != "" {
			return errors.New("--start-at: it is for clients that begin together, --shard I/N says which this one is")
		}
		return nil
	}
	// Merging computes every number anew from the logs, of one run per part.
	if o.log == "" && !o.dryRun {
		return errors.New("--shard: --log FILE keeps what bench merge reads")
	}
	if w := &o.sweep; o.runs != 1 || w.concurrency != "" || w.rates != "" || w.multi || w.preset != "" {
		return errors.New("--shard: it is of one run, want no --num-runs, sweep or preset")
	}
	index, of, ok := strings.Cut(o.shard, "/")
	shard := new(bench.Shard)
	var first, second error
	shard.Index, first = strconv.Atoi(index)
	shard.Of, second = strconv.Atoi(of)
	if !ok || first != nil || second != nil {
		return fmt.Errorf("--shard %q: want I/N, as in 0/4", o.shard)
	}
	o.Shard = shard
	if o.startAt == "" {
		return nil
	}
	var err error
	shard.Start, err = parseMoment(o.startAt)
	return err
}

// parseMoment reads a time as RFC 3339 has it, or in seconds since 1970.
func parseMoment(text string) (time.Time, error) {
	if seconds, err := strconv.ParseFloat(text, 64); err == nil && seconds > 0 && seconds < 1e11 {
		return time.UnixMilli(int64(seconds * 1000)), nil
	}
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return at, fmt.Errorf("--start-at %q: want a time as in 2026-11-26T12:00:00Z, or seconds since 1970", text)
	}
	return at, nil
}
