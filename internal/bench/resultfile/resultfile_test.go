package resultfile

import (
	"errors"
	"math"
	"testing"

	"ossian/internal/lazyregexp"
)

// FuzzRead: any bytes give an error or results whose numbers are finite; an error of the
// caller's is passed on.
func FuzzRead(f *testing.F) {
	f.Add([]byte(`{"backend":"vllm","duration":2,"completed":4,"mean_ttft_ms":NaN,"failed":0}`))
	f.Add([]byte(`[{"request_throughput":1,"steady_state":{"request_throughput":2}},{"request_throughput":Infinity}]`))
	f.Add([]byte("backend,duration,completed,request_throughput,output_throughput\r\nlmdeploy,1,2,2,40\r\n"))
	f.Add([]byte("> | ==== Serving Benchmark Result ==== |\n> Request throughput (req/s): 3.5\n> P99 TTFT (ms): 1,234.5\n> ==========\n"))
	f.Add([]byte("[log] === Serving Benchmark Result ===\nMean ITL (ms): 3\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		found, err := Read(data, func(r *Result) (*Result, error) { return r, nil })
		if (err == nil) != (len(found) > 0) {
			t.Fatalf("%d results with error %v", len(found), err)
		}
		for _, r := range found {
			for key, v := range r.Values {
				if math.IsInf(v, 0) || math.IsNaN(v) {
					t.Fatalf("%s is %v", key, v)
				}
			}
		}
		refused := errors.New("refused")
		if _, again := Read(data, func(*Result) (int, error) { return 0, refused }); err == nil && !errors.Is(again, refused) {
			t.Fatalf("error %v, want the caller's", again)
		}
	})
}

// TestExpressions: an expression that is none would end the program at its first use.
func TestExpressions(t *testing.T) {
	if err := lazyregexp.Check(); err != nil {
		t.Error(err)
	}
}
