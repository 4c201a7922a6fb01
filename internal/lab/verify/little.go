package verify

// V-LITTLE, V-QUEUE, V-KV: what Little's law says about a block. The mean number of requests
// in some state is their rate times the mean time that they spend in it, whatever the
// distribution; so times, counts and the duration together give concurrencies.

import (
	"fmt"
	"math"
	"strings"

	"ossian/internal/lab/verify/document"
)

// inState is the mean number of requests in a state of the given mean length in
// milliseconds, by Little's law.
func inState(count, milliseconds, seconds document.Span) document.Span {
	return count.Times(milliseconds).Over(seconds.Times(document.Between(1000, 1000)))
}

// atPlaces is a limit of places that blocks of one kind of load ran at.
type atPlaces struct {
	limit   int
	dataset string
	asked   document.Lengths
}

// little is V-LITTLE.
func (j *judge) little() {
	// By limit and kind of load: together they say that one setting explains them all.
	atLimit := map[atPlaces][]*document.Block{}
	var order []atPlaces
	var listed []string
	first := 0
	for _, block := range j.doc.Blocks {
		j.checkLittle(block)
		load := j.doc.LoadOf(block)
		value, how, ok := block.PastFirst()
		if !ok || block.Windows {
			continue
		}
		if first == 0 {
			first = block.Line
		}
		listed = append(listed, fmt.Sprintf("%s %.0f (%s)", block.ShortName(), value, how))
		// At a limit: nearly all places are taken for nearly all of the time.
		for _, limit := range block.LikelyLimits(&load) {
			if value > 0.92*float64(limit) && value < 1.01*float64(limit) && float64(load.Count) > 1.5*float64(limit) {
				places := atPlaces{limit, load.Dataset, load.Asked}
				if atLimit[places] == nil {
					order = append(order, places)
				}
				atLimit[places] = append(atLimit[places], block)
			}
		}
	}
	for _, places := range order {
		j.reportLimit(places.limit, atLimit[places])
	}
	if len(listed) > 0 {
		const most = 12
		if len(listed) > most {
			listed = append(listed[:most], fmt.Sprintf("and %d more", len(listed)-most))
		}
		j.find(Info, first, "blocks", "times, counts and durations", "requests past their first token on average: "+strings.Join(listed, ", "), "Little's law: rate × mean time")
	}
}

// reportLimit reports the blocks that ran at a limit.
func (j *judge) reportLimit(limit int, blocks []*document.Block) {
	if len(blocks) == 0 {
		return
	}
	low, high := math.Inf(1), 0.0
	var lines []string
	for _, b := range blocks {
		value, _, _ := b.PastFirst()
		low, high = min(low, value), max(high, value)
		lines = append(lines, fmt.Sprint(b.Line))
	}
	count := fmt.Sprintf("%.0f–%.0f", low, high)
	if fmt.Sprintf("%.0f", low) == fmt.Sprintf("%.0f", high) {
		count = fmt.Sprintf("%.0f", low)
	}
	const most = 40
	if len(lines) > most {
		lines = append(lines[:most], "…")
	}
	j.find(Info, blocks[0].Line, fmt.Sprintf("%d blocks, lines %s", len(blocks), strings.Join(lines, ", ")), "times, counts and durations",
		count+" requests are past their first token on average", fmt.Sprintf("the limit is %d", limit))
}

// checkLittle looks for more time than there was.
func (j *judge) checkLittle(block *document.Block) {
	if !block.Has("duration", "completed") || block.Value("duration") <= 0 || block.Windows {
		return
	}
	seconds, count := block.Values["duration"].Span(), block.Values["completed"].Span()
	highest, why := j.doc.AtOnce(block)
	for _, key := range []string{"mean_e2el_ms", "mean_ttft_ms"} {
		if !block.Has(key) {
			continue
		}
		inside := inState(count, block.Values[key].Span(), seconds)
		// Means are of whole runs; 1 % is left for requests that began before the clock did.
		if inside.Low > highest*1.01 {
			j.find(Wrong, block.LineOf(key), block.Name, fmt.Sprintf("%s %s", key, block.Values[key].Text),
				fmt.Sprintf("%s × %s ms / %s s is %.1f requests at once, there were at most %s", block.Values["completed"].Text, block.Values[key].Text, block.Values["duration"].Text, inside.Middle(), document.Figure(highest)), why)
			break
		}
	}
	for _, name := range []string{"ttft", "e2el", "tpot", "itl"} {
		for _, statistic := range append([]string{"mean"}, document.Orders...) {
			key := statistic + "_" + name + "_ms"
			if block.Has(key) && block.Values[key].Span().Low > 1010*seconds.High {
				j.find(Wrong, block.LineOf(key), block.Name, key+" "+block.Values[key].Text, "the whole run took "+block.Values["duration"].Text+" s", "no request is longer than the run")
				return
			}
		}
	}
	if block.Has("mean_e2el_ms", "mean_ttft_ms") && block.Values["mean_e2el_ms"].Span().High < block.Values["mean_ttft_ms"].Span().Low {
		j.find(Wrong, block.LineOf("mean_e2el_ms"), block.Name, "mean_e2el_ms "+block.Values["mean_e2el_ms"].Text, "mean_ttft_ms is "+block.Values["mean_ttft_ms"].Text, "the first token comes before the last")
	}
	if block.Has("concurrency", "mean_e2el_ms") {
		follows := inState(count, block.Values["mean_e2el_ms"].Span(), seconds)
		if !follows.Meets(block.Values["concurrency"].Span()) {
			j.find(Wrong, block.LineOf("concurrency"), block.Name, "concurrency "+block.Values["concurrency"].Text, fmt.Sprintf("completed × mean E2EL / duration is %.2f", follows.Middle()), "the tool prints this quotient")
		}
	}
}

// queue is V-QUEUE.
func (j *judge) queue() {
	var at []*document.Block
	for _, b := range j.doc.Blocks {
		load := j.doc.LoadOf(b)
		if load.Burst() && load.Limit == 0 && load.Count > 1 && b.Has("mean_ttft_ms") {
			at = append(at, b)
		}
	}
	if len(at) == 0 {
		return
	}
	j.find(Info, at[0].LineOf("mean_ttft_ms"), fmt.Sprintf("%d blocks", len(at)), "TTFT, as of "+at[0].Values["mean_ttft_ms"].Text+" ms", "it is the time in the queue of all requests at once",
		"requests were sent at rate inf; a TTFT that users see needs a finite rate")
}

// cache is V-KV.
func (j *judge) cache() {
	for _, block := range j.doc.Blocks {
		load := j.doc.LoadOf(block)
		value, how, ok := block.PastFirst()
		limit, origin := block.SequenceLimit()
		if !ok || block.Windows || limit == 0 || float64(load.Count) < 1.5*float64(limit) || value > 0.65*float64(limit) {
			continue
		}
		// Requests wait, and it is not for prompts to be read: these are short beside the answers.
		waiting := block.Value("completed") * block.Value("mean_ttft_ms") / 1000 / block.Value("duration")
		if waiting < 0.1*float64(limit) || load.Output*4 < load.Input {
			continue
		}
		printed := fmt.Sprintf("%s requests in %s s", block.Values["completed"].Text, block.Values["duration"].Text)
		follows := fmt.Sprintf("%.0f of %d places are taken on average %s, while %.0f requests wait", value, limit, how, waiting)
		why := "the KV cache may be full, or prompts are being read; name a machine to tell (the limit is " + origin + ")"
		severity := Caution
		for _, predictor := range j.against {
			setting, known := j.settingOf(block, predictor)
			if !known {
				continue
			}
			prediction, err := predictor.Predict(setting)
			if err != nil {
				why = predictor.Name() + " cannot be predicted: " + err.Error()
				continue
			}
			if prediction.CacheFull {
				why = fmt.Sprintf("on %s the cache is full: %d preemptions predicted", predictor.Name(), prediction.Preempted)
			} else {
				severity, why = Info, "on "+predictor.Name()+" the cache is not full: prompts are being read"
			}
			break
		}
		j.find(severity, block.Line, block.Name, printed, follows, why)
	}
}
