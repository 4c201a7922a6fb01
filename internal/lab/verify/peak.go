package verify

// V-PEAK, V-CHUNK: peaks that no stream can have, stalls, and chunks that hold several
// tokens, so that gaps between chunks are no gaps between tokens.

import (
	"fmt"
	"math"

	"ossian/internal/lab/verify/document"
	"ossian/internal/lazyregexp"
)

// mostPerStream is how many tokens one request gets in a second at most: above any engine's
// speculative best, below what counting chunks of one read gives.
const mostPerStream = 1000

// peaks is V-PEAK.
func (j *judge) peaks() {
	const peak = "max_output_tokens_per_s"
	for _, block := range j.doc.Blocks {
		mean := block.Value("output_throughput")
		if block.Has(peak, "output_throughput", "duration") && block.Value("duration") >= 20 && block.Values[peak].Span().High < 0.95*mean {
			j.find(Wrong, block.LineOf(peak), block.Name, "peak "+block.Values[peak].Text+" tok/s", "the mean is "+block.Values["output_throughput"].Text+" tok/s", "the busiest second is not below the mean of them all: chunks of several tokens were counted as one")
		}
		streams := block.Value("max_concurrent_requests")
		if streams == 0 {
			streams = block.Value("completed")
		}
		if block.Has(peak) && streams > 0 && block.Value(peak) > mostPerStream*streams && block.Value(peak) > 10*mean {
			j.find(Wrong, block.LineOf(peak), block.Name, "peak "+block.Values[peak].Text+" tok/s",
				fmt.Sprintf("the mean is %s; %s requests at once would each have had %.0f tok/s", block.Values["output_throughput"].Text, document.Figure(streams), block.Value(peak)/streams),
				"tokens were counted as they were read, many at once")
		}
		if block.Has("median_itl_ms") && block.Value("median_itl_ms") == 0 && block.Value("mean_itl_ms") > 0 {
			j.find(Caution, block.LineOf("median_itl_ms"), block.Name, "median ITL "+block.Values["median_itl_ms"].Text+" ms", "half of all gaps are 0", "tokens were read many at once: ITL and peaks say nothing here")
		}
		j.checkStalls(block, peak)
	}
}

// checkStalls looks for runs whose mean is that of stalls.
func (j *judge) checkStalls(block *document.Block, peak string) {
	mean, most := block.Value("output_throughput"), block.Value(peak)
	if block.Windows || mean <= 0 || most < 10*mean || most > mostPerStream*block.Value("completed") || !block.Has("p99_tpot_ms") || block.Value("duration") < 20 {
		return
	}
	worst := block.Value("p99_tpot_ms")
	if worst < 10_000 && worst < 5*block.Value("median_tpot_ms") {
		return
	}
	j.find(Caution, block.LineOf(peak), block.Name, fmt.Sprintf("peak %s tok/s, P99 TPOT %s ms", block.Values[peak].Text, block.Values["p99_tpot_ms"].Text),
		fmt.Sprintf("peak %.0f × mean (%s tok/s), P99 TPOT %.0f s", most/mean, block.Values["output_throughput"].Text, worst/1000), "the server stalls; this is not its speed")
}

var streamInterval = lazyregexp.New(`(?i)stream[-_]interval["']?\s*[:= ]\s*([0-9]+)`)

// chunks is V-CHUNK.
func (j *judge) chunks() {
	for _, b := range j.doc.Blocks {
		if !b.Windows {
			j.checkChunks(b)
		}
	}
	// A server that is told to collect tokens.
	seen := map[string]bool{}
	for i, line := range j.doc.Lines {
		match := streamInterval.FindStringSubmatch(line)
		if match == nil || match[1] == "0" || match[1] == "1" || seen[match[1]] {
			continue
		}
		seen[match[1]] = true
		j.find(Caution, i+1, "setting", clip(document.Plain(line)), "ITL is the time of "+match[1]+" tokens, not of one", "the server sends tokens "+match[1]+" at a time; TPOT stays a time per token")
	}
}

// checkChunks looks for gaps that are those of several tokens: by their number, where times
// give it, else by their distribution.
func (j *judge) checkChunks(block *document.Block) {
	if !block.Has("mean_itl_ms", "completed", "total_output_tokens") || block.Value("mean_itl_ms") <= 0 || block.Value("total_output_tokens") <= block.Value("completed") {
		return
	}
	load := j.doc.LoadOf(block)
	completed := block.Value("completed")
	tokens := block.Value("total_output_tokens")/completed - 1
	ratio := math.NaN()
	if median := block.Value("median_itl_ms"); median > 0 && block.Has("p99_itl_ms") {
		ratio = block.Value("p99_itl_ms") / median
	}
	doubled := ratio >= 1.9 && ratio <= 2.1
	signature := fmt.Sprintf("P99 ITL is %.1f × the median", ratio)
	// Gaps per request: the time past the first token by the mean gap.
	gaps := math.NaN()
	switch {
	case block.Has("mean_e2el_ms", "mean_ttft_ms"):
		gaps = (block.Value("mean_e2el_ms") - block.Value("mean_ttft_ms")) / block.Value("mean_itl_ms")
	case load.Equal && block.Has("mean_tpot_ms"):
		gaps = block.Value("mean_tpot_ms") * tokens / block.Value("mean_itl_ms")
	}
	printed := fmt.Sprintf("median ITL %s ms, P99 %s ms", block.Values["median_itl_ms"].Text, block.Values["p99_itl_ms"].Text)
	const why = "chunks hold several tokens: ITL is a time per chunk"
	switch {
	case !math.IsNaN(gaps) && gaps < 0.97*tokens:
		follows := fmt.Sprintf("%.2f gaps per request where tokens have %s", gaps, document.Figure(math.Round(tokens*100)/100))
		if doubled {
			follows = signature + "; " + follows
		}
		j.find(Caution, block.Line, block.Name, printed, follows, why)
	case !math.IsNaN(gaps) && gaps < 1.03*tokens:
		// As many gaps as tokens: one each.
	case doubled:
		j.find(Caution, block.Line, block.Name, printed, signature, why)
	case load.Stated && block.Has("mean_tpot_ms") && tokens+1 > 0.9*load.Output && tokens+1 <= load.Output && math.Abs(block.Value("mean_itl_ms")/block.Value("mean_tpot_ms")-1) > 0.02:
		j.find(Caution, block.Line, block.Name, fmt.Sprintf("mean TPOT %s ms, mean ITL %s ms", block.Values["mean_tpot_ms"].Text, block.Values["mean_itl_ms"].Text),
			fmt.Sprintf("they differ by %+.1f %%, though answers have nearly the same length", 100*(block.Value("mean_itl_ms")/block.Value("mean_tpot_ms")-1)), why)
	}
}
