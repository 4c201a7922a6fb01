package document

import "testing"

// FuzzRead: whatever comes in, there is a document or an error, and every block of it has
// figures and a place.
func FuzzRead(f *testing.F) {
	for _, text := range []string{
		"# T\n\n| a | before | after |\n|---|---|---|\n| TPS | 1.0 | 2.0 (+100%) |\n",
		"============ Serving Benchmark Result ============\nSuccessful requests: 10\nBenchmark duration (s): 1.00\n====================\n",
		`{"duration": 1.0, "completed": 10, "request_throughput": 10}`,
		"backend,duration,completed,request_throughput,output_throughput\nvllm,1.0,10,10.0,5\n",
		"```\nvllm serve a/b-7B \\\n --x 1\n```\nNamespace(a='b', c=1)\n",
		"<table><tr><th>a<th>b</tr><tr><td>x<td>Total TPS: 1x2 (+3%)</tr></table>",
		"- **Impact**: 10-20% faster sampling\n├─ a: 1-2 tok/s\n├─ + b: 2 tok/s\n├─ + c: 3 tok/s\n",
		"\xff\xfe", "{", "[[[[", "|||\n|-|\n|||",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		doc, err := Read("x", data)
		if err != nil {
			return
		}
		for _, b := range doc.Blocks {
			if len(b.Values) == 0 || b.Name == "" || b.Line < 0 || b.end > len(doc.Lines) {
				t.Errorf("block %+v", b)
			}
			doc.LoadOf(b)
		}
	})
}
