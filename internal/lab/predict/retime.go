package predict

import "math"

// The same schedule with other parameters: which tokens share a step stays, how long it takes
// changes. For a burst of requests that is exact but for the first steps. Duration and means are
// sums of step times with fixed weights, so all their slopes come from one pass; a fit needs no
// differences, and simulates again only between its rounds.

// A knob is a parameter of a clock by its place in slopes.
type knob uint8

const (
	denseRead knob = iota
	denseCompute
	expertRead
	expertCompute
	attentionRead
	attentionCompute
	mixedFactor
	passesRead
	layerGap
	reduceTable
	stepHost
	sequenceHost
	parallelHost
	hiddenHost
	numKnobs
)

// knobNames are the parameters of a clock's knobs.
func (c *costs) knobNames() [numKnobs]string {
	return [numKnobs]string{"dense/" + c.denseName + bandwidthOf, "dense/" + c.denseName + computeOf,
		"experts/" + c.expertName + bandwidthOf, "experts/" + c.expertName + computeOf,
		"attention/" + c.attn + bandwidthOf, "attention/" + c.attn + computeOf, "attention/" + c.attn + "/mixed",
		elementwiseShare, layerTime, reduceScale, hostStep, hostSequence, hostParallel, hostHidden}
}

// slopes returns the seconds of a step and their derivatives by the logarithms of the parameters.
func (c *Clock) slopes(load *Load) (seconds float64, by [numKnobs]float64) {
	times := c.Times(load)
	for _, t := range times {
		seconds += t
	}
	rise := func(class Class, read, compute knob) { // of roofline, whose parts add up in the power 1.5
		if times[class] == 0 {
			return
		}
		reading, computing := load.Bytes[class]/c.rate.bandwidth[class], load.FLOPs[class]/c.rate.compute[class]
		if load.FLOPs[class] == 0 {
			computing = 0
		}
		whole := reading*math.Sqrt(reading) + computing*math.Sqrt(computing)
		by[read] -= times[class] * reading * math.Sqrt(reading) / whole
		by[compute] -= times[class] * computing * math.Sqrt(computing) / whole
	}
	rise(Weights, denseRead, denseCompute)
	rise(Output, denseRead, denseCompute)
	rise(Experts, expertRead, expertCompute)
	rise(Prompt, attentionRead, attentionCompute)
	by[attentionRead] -= times[Decode]
	if load.Mixed {
		extra := c.rate.mixed * (c.shape.grouping - 1)
		by[mixedFactor] = times[Decode] * extra / (1 + extra)
	}
	by[passesRead] = -load.Passes / c.rate.passes
	by[layerGap] = float64(c.shape.layers) * c.rate.layer
	by[reduceTable] = times[AllReduce]
	shown := 1 - c.rate.hidden
	whole := c.rate.step + c.rate.sequence*float64(load.Sequences)
	by[stepHost], by[sequenceHost] = c.rate.step*shown, c.rate.sequence*float64(load.Sequences)*shown
	if c.r.tp > 1 {
		by[parallelHost] = c.rate.parallel * shown
		whole += c.rate.parallel
	}
	if c.r.async {
		by[hiddenHost] = -whole * c.rate.hidden
	}
	return seconds, by
}

// A Timing is what a schedule's metrics are with some parameters, and by how much the logarithm of
// each moves with those of the parameters.
type Timing struct {
	Values map[string]float64
	Slopes map[string]map[string]float64 // [metric][parameter]; duration, means of TTFT and TPOT, median and P99 of ITL
}

// summed are the metrics that are sums over steps.
var summed = [3]string{"duration_s", "mean_ttft_ms", "mean_tpot_ms"}

// weigh returns with which weight a step's time counts in each summed metric.
func (r *run) weigh() (weights [3][]float64) {
	for i := range weights {
		weights[i] = make([]float64, len(r.steps)+1)
	}
	speaking := 0.0
	for _, request := range r.requests {
		if request.tokens > 1 {
			speaking++
		}
	}
	// As differences: a request counts from one step to another.
	all := float64(len(r.requests))
	for _, request := range r.requests {
		weights[1][request.after] += 1e3 / all
		weights[1][request.first+1] -= 1e3 / all
		if request.tokens > 1 {
			share := 1e3 / speaking / float64(request.tokens-1)
			weights[2][request.first+1] += share
			weights[2][request.last+1] -= share
		}
	}
	weights[0][0] = 1
	for i := range weights {
		for at := 1; at < len(weights[i]); at++ {
			weights[i][at] += weights[i][at-1]
		}
	}
	return weights
}

// Retime times the schedule again with another calibration.
func (sim *Simulation) Retime(calibration *Calibration) Timing {
	clock := newClock(sim.scenario, sim.r, calibration)
	if sim.weights[0] == nil {
		sim.weights = sim.run.weigh()
	}
	again := *sim.run
	again.ends = make([]float64, len(again.steps))
	per := make([][numKnobs]float64, len(again.steps))
	var sums [3][numKnobs]float64
	now := 0.0
	for i := range again.steps {
		seconds, by := clock.slopes(&again.steps[i].load)
		now = math.Max(now, again.steps[i].notStart) + seconds
		again.ends[i], per[i] = now, by
		for metric := range sums {
			if weight := sim.weights[metric][i]; weight != 0 {
				for knob := range by {
					sums[metric][knob] += weight * by[knob]
				}
			}
		}
	}
	timing := Timing{Values: again.quick(sim.run, sim.scenario.Workload.Concurrency > 0), Slopes: map[string]map[string]float64{}}
	names := clock.shape.knobNames()
	for metric, key := range summed {
		timing.Slopes[key] = named(&names, &sums[metric], timing.Values[key])
	}
	again.slopeOfGaps(&timing, per, &names)
	return timing
}

// named gives slopes of a value their names, as slopes of its logarithm.
func named(names *[numKnobs]string, by *[numKnobs]float64, value float64) map[string]float64 {
	slopes := map[string]float64{}
	for knob, slope := range by {
		if slope != 0 && value > 0 {
			slopes[names[knob]] = slope / value
		}
	}
	return slopes
}

// quick returns the metrics of a retimed run that a fit uses; first tokens that the front end of
// the old run held back leave when they did. Where requests are sent as others end, these times
// move too.
func (r *run) quick(old *run, closed bool) map[string]float64 {
	var ttft, tpot, duration, speaking float64
	for _, request := range r.requests {
		early := r.ends[request.first]
		if request.early > old.ends[request.first] {
			early = math.Max(early, request.early)
		}
		end := math.Max(r.ends[request.last], early)
		sent := request.sent
		if closed && request.after > 0 {
			sent += r.ends[request.after-1] - old.ends[request.after-1]
		}
		ttft += early - sent
		duration = math.Max(duration, end)
		if request.tokens > 1 {
			tpot += (end - early) / float64(request.tokens-1)
			speaking++
		}
	}
	return map[string]float64{"duration_s": duration, "mean_ttft_ms": 1e3 * ttft / float64(len(r.requests)), "mean_tpot_ms": 1e3 * tpot / math.Max(speaking, 1)}
}

// band is how many of the gaps around a percentile its slope is the mean of, as a share.
const band = 0.004

// slopeOfGaps adds median and P99 of the gaps between tokens, with the slopes of the steps there.
func (r *run) slopeOfGaps(timing *Timing, per [][numKnobs]float64, names *[numKnobs]string) {
	gaps, count, _ := r.sortedGaps()
	if count == 0 {
		return
	}
	for key, share := range map[string]float64{"median_itl_ms": 0.5, "p99_itl_ms": 0.99} {
		low, high := gapAt(gaps, count, share-band), gapAt(gaps, count, share+band)
		var sum [numKnobs]float64
		for _, gap := range gaps[low : high+1] {
			for knob, slope := range per[gap.step] {
				sum[knob] += 1e3 * slope / float64(high+1-low)
			}
		}
		timing.Values[key] = gaps[gapAt(gaps, count, share)].ms
		timing.Slopes[key] = named(names, &sum, timing.Values[key])
	}
}

// Metrics returns the values of the run, without intervals.
func (sim *Simulation) Metrics() map[string]float64 { return sim.run.metrics() }

// Parameters lists what the scenario's clock asks of a calibration.
func (sim *Simulation) Parameters() []string {
	costs := newCosts(sim.scenario, sim.r)
	return costs.parameters(sim.r)
}

// Covered returns what the run says about the range of a calibration.
func (sim *Simulation) Covered() Range {
	covered := Range{Devices: []int{sim.r.tp}}
	for _, request := range sim.scenario.Workload.Requests {
		covered.Context = math.Max(covered.Context, float64(len(request.Prompt)+request.Output))
	}
	for i := range sim.run.steps {
		covered.Sequences = math.Max(covered.Sequences, float64(sim.run.steps[i].load.Sequences))
	}
	return covered
}
