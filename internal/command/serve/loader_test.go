package serve

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
)

// What together runs has ended when it returns, and the first one's error ends the second
// and comes before its own.
func TestTogether(t *testing.T) {
	t.Parallel()
	bad, worse := errors.New("bad"), errors.New("worse")
	for _, c := range []struct{ first, second, want error }{
		{nil, nil, nil}, {bad, nil, bad}, {nil, worse, worse}, {bad, worse, bad},
	} {
		var ended atomic.Int32
		began := make(chan bool)
		err := together(t.Context(), func() error {
			<-began
			defer ended.Add(1)
			return c.first
		}, func(ctx context.Context) error {
			close(began)
			if c.first != nil {
				<-ctx.Done()
			}
			ended.Add(1)
			return c.second
		})
		if err != c.want || ended.Load() != 2 {
			t.Errorf("%v and %v gave %v after %d had ended", c.first, c.second, err, ended.Load())
		}
	}
}
