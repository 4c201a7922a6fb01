package verify

// V-PEAK, V-CHUNK: peaks that no stream can have, stalls, and chunks that hold several
// tokens, so that gaps between chunks are no gaps between tokens.

import (
	"fmt"
	"math"
	"regexp"

	"ossian/internal/lab/verify/document"
)

// mostPerStream is how many tokens one request gets in a second at most: above any engine's
// speculative best, below what counting chunks of one read gives.
const mostPerStream = 1000

// peaks is V-PEAK.
func peaks(j *judge) {
	const peak = "max_output_tokens_per_s"
	for _, b := range j.doc.Blocks {
		mean := b.Value("output_throughput")
		if b.Has(peak, "output_throughput", "duration") && b.Value("duration") >= 20 && b.Values[peak].Span().High < 0.95*mean {
			j.find(Wrong, b.LineOf(peak), b.Name, "peak "+b.Values[peak].Text+" tok/s", "the mean is "+b.Values["output_throughput"].Text+" tok/s", "the busiest second is not below the mean of them all: chunks of several tokens were counted as one")
		}
		streams := b.Value("max_concurrent_requests")
		if streams == 0 {
			streams = b.Value("completed")
		}
		if b.Has(peak) && streams > 0 && b.Value(peak) > mostPerStream*streams {
			j.find(Wrong, b.LineOf(peak), b.Name, "peak "+b.Values[peak].Text+" tok/s",
				fmt.Sprintf("the mean is %s; %s requests at once would each have had %.0f tok/s", b.Values["output_throughput"].Text, document.Figure(streams), b.Value(peak)/streams),
				"tokens were counted as they were read, many at once")
		}
		if b.Has("median_itl_ms") && b.Value("median_itl_ms") == 0 && b.Value("mean_itl_ms") > 0 {
			j.find(Caution, b.LineOf("median_itl_ms"), b.Name, "median ITL "+b.Values["median_itl_ms"].Text+" ms", "half of all gaps are 0", "tokens were read many at once: ITL and peaks say nothing here")
		}
		j.checkStalls(b, peak)
	}
}

// checkStalls looks for runs whose mean is that of stalls.
func (j *judge) checkStalls(b *document.Block, peak string) {
	mean, most := b.Value("output_throughput"), b.Value(peak)
	if b.Windows || mean <= 0 || most < 10*mean || most > mostPerStream*b.Value("completed") || !b.Has("p99_tpot_ms") || b.Value("duration") < 20 {
		return
	}
	worst := b.Value("p99_tpot_ms")
	if worst < 10_000 && worst < 5*b.Value("median_tpot_ms") {
		return
	}
	j.find(Caution, b.LineOf(peak), b.Name, fmt.Sprintf("peak %s tok/s, P99 TPOT %s ms", b.Values[peak].Text, b.Values["p99_tpot_ms"].Text),
		fmt.Sprintf("peak %.0f × mean (%s tok/s), P99 TPOT %.0f s", most/mean, b.Values["output_throughput"].Text, worst/1000), "the server stalls; this is not its speed")
}

var streamInterval = regexp.MustCompile(`(?i)stream[-_]interval["']?\s*[:= ]\s*([0-9]+)`)

// chunks is V-CHUNK.
func chunks(j *judge) {
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
func (j *judge) checkChunks(b *document.Block) {
	if !b.Has("mean_itl_ms", "completed", "total_output_tokens") || b.Value("mean_itl_ms") <= 0 || b.Value("total_output_tokens") <= b.Value("completed") {
		return
	}
	load := j.doc.LoadOf(b)
	completed := b.Value("completed")
	tokens := b.Value("total_output_tokens")/completed - 1
	ratio := math.NaN()
	if median := b.Value("median_itl_ms"); median > 0 && b.Has("p99_itl_ms") {
		ratio = b.Value("p99_itl_ms") / median
	}
	doubled := ratio >= 1.9 && ratio <= 2.1
	signature := fmt.Sprintf("P99 ITL is %.1f × the median", ratio)
	// Gaps per request: the time past the first token by the mean gap.
	gaps := math.NaN()
	switch {
	case b.Has("mean_e2el_ms", "mean_ttft_ms"):
		gaps = (b.Value("mean_e2el_ms") - b.Value("mean_ttft_ms")) / b.Value("mean_itl_ms")
	case load.Equal && b.Has("mean_tpot_ms"):
		gaps = b.Value("mean_tpot_ms") * tokens / b.Value("mean_itl_ms")
	}
	printed := fmt.Sprintf("median ITL %s ms, P99 %s ms", b.Values["median_itl_ms"].Text, b.Values["p99_itl_ms"].Text)
	const why = "chunks hold several tokens: ITL is a time per chunk"
	switch {
	case !math.IsNaN(gaps) && gaps < 0.97*tokens:
		follows := fmt.Sprintf("%.2f gaps per request where tokens have %s", gaps, document.Figure(math.Round(tokens*100)/100))
		if doubled {
			follows = signature + "; " + follows
		}
		j.find(Caution, b.Line, b.Name, printed, follows, why)
	case !math.IsNaN(gaps) && gaps < 1.03*tokens:
		// As many gaps as tokens: one each.
	case doubled:
		j.find(Caution, b.Line, b.Name, printed, signature, why)
	case load.Stated && b.Has("mean_tpot_ms") && tokens+1 > 0.9*load.Output && tokens+1 <= load.Output && math.Abs(b.Value("mean_itl_ms")/b.Value("mean_tpot_ms")-1) > 0.02:
		j.find(Caution, b.Line, b.Name, fmt.Sprintf("mean TPOT %s ms, mean ITL %s ms", b.Values["mean_tpot_ms"].Text, b.Values["mean_itl_ms"].Text),
			fmt.Sprintf("they differ by %+.1f %%, though answers have nearly the same length", 100*(b.Value("mean_itl_ms")/b.Value("mean_tpot_ms")-1)), why)
	}
}
