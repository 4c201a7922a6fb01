package metrics

import (
	"strings"
	"testing"
	"time"
)

// Blocks are observed from when they were made to when they were dropped, one in sampled of them.
func TestResidency(t *testing.T) {
	s := New(Config{})
	m := testModel(s)
	now := time.Unix(1, 0)
	r := NewResidency(func() *Model { return m }, func() time.Time { return now })
	wait := func(seconds int) { now = now.Add(time.Duration(seconds) * time.Second) }
	for serial := range uint64(4 * sampled) { // four of them are observed, 0 is none's serial but counts here
		r.Stored(serial, 0, 0, nil)
	}
	wait(1)
	r.Found(sampled)
	wait(2)
	r.Found(sampled)
	r.Found(sampled + 1) // not sampled
	wait(4)
	r.Removed(sampled)
	r.Removed(2 * sampled)
	r.Removed(sampled + 1)
	r.Removed(sampled) // it is gone already
	r.Found(sampled)
	r.Flush()
	if len(r.blocks) != 2 {
		t.Errorf("%d blocks are followed, 2 are left", len(r.blocks))
	}
	text := scrape(t, s, "")
	l := `{engine="0",model_name="tiny"} `
	for _, want := range []string{
		"kv_block_lifetime_seconds_sum" + l + "14", "kv_block_lifetime_seconds_count" + l + "2",
		"kv_block_idle_before_evict_seconds_sum" + l + "11", "kv_block_idle_before_evict_seconds_count" + l + "2",
		"kv_block_reuse_gap_seconds_sum" + l + "3", "kv_block_reuse_gap_seconds_count" + l + "2",
	} {
		if !strings.Contains(text, "vllm:"+want+"\n") {
			t.Errorf("missing: %s", want)
		}
	}
}
