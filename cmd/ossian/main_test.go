package main

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"ossian/internal/ckpt"
	"ossian/internal/config"
)

// An interrupt hides no other error that came with it.
func TestBeyondInterrupt(t *testing.T) {
	full, cut := errors.New("disk full"), fmt.Errorf("request 3: %w", context.Canceled)
	for _, c := range []struct {
		err  error
		want string
	}{
		{cut, ""},
		{errors.Join(cut, context.Canceled), ""},
		{errors.Join(cut, full), "disk full"},
		{fmt.Errorf("run 2: %w", errors.Join(full, cut)), "disk full"},
		{fmt.Errorf("%w; %w", cut, errors.New("--resume goes on")), "--resume goes on"},
	} {
		got := ""
		if err := beyondInterrupt(c.err); err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%v: %q remains, want %q", c.err, got, c.want)
		}
	}
}

// A checkpoint whose advice is top_k -1, as vLLM spells all tokens, is served with all.
func TestTopKOfAll(t *testing.T) {
	all := -1
	p := samplingDefaults(&config.Config{Settings: config.Settings{CheckpointSampler: true}}, ckpt.Generation{TopK: &all})
	if err := p.Validate(100); err != nil || p.TopK != 0 {
		t.Errorf("top_k %d, %v", p.TopK, err)
	}
}
