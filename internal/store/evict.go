package store

import (
	"encoding/binary"
	"time"
)

// evict deletes the oldest finished records until the store, which held used before, is within
// its bounds. It looks at most of them at once: a change of bounds must not hold up the writer.
func (t *txn) evict(cfg *Config, records int, used int64, most int) {
	now := cfg.Now()
	// Numbers grow with time: the first records are the oldest. A record that may not go
	// is passed over.
	cur := t.bucket(data).Cursor()
	key, _ := cur.Seek(numKey(1))
	for range most {
		if len(key) != keyLength {
			return
		}
		num := binary.BigEndian.Uint64(key)
		head, err := t.head(num)
		old := err == nil && now.Sub(time.Unix(0, head.Created)) > cfg.Age
		if !old && records+t.added <= cfg.Records && used-t.freed <= cfg.Bytes {
			return
		}
		switch {
		case err != nil:
			t.removeDamaged(num)
		case head.State == Finished:
			t.remove(num, head.ID, head)
		}
		cur = t.bucket(data).Cursor() // the old one may stand on a deleted page
		key, _ = cur.Seek(numKey(num + 1))
	}
}
