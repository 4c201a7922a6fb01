package size

import (
	"context"
	"math"
	"sync"

	"ossian/internal/lab/predict"
)

// A replica is a server that is predicted.
type replica struct {
	question *Question
	machine  *Machine
	settings predict.Settings
	least    int  // requests of a run at least
	thorough bool // the run lasts many times as long as a request

	lone     sync.Once // guards the fields below
	seconds  float64   // of one request on an idle server
	output   float64   // tokens of an answer
	loneFail error
}

const (
	// A thorough run has so many steps, if answers are computed beside each other as on a server that
	// keeps up, and so many answer tokens at most: the mean wait of a queue is an average over few
	// busy times and comes within a few per cent only with many requests, and steps take our time.
	thoroughSteps                   = 50_000
	thoroughTokens                  = 2_000_000
	leastThorough, mostRequests int = 1_000, 30_000
	// Servers that run so few sequences at once queue for long, and get that many times the steps.
	few, longer = 8, 3
	// Nobody queues at the slowest rate, where each of some requests finds the server idle.
	idleRequests = 64
	// lastsRequests is how many times as long as a lone request it sends requests at least: what
	// happens before the server is as full as it gets then counts little.
	lastsRequests = 40
)

// At implements Replica.
func (r *replica) At(ctx context.Context, rate float64) (Seen, error) {
	n := r.least
	if rate <= slowest {
		n = idleRequests
	} else if r.thorough {
		r.lone.Do(func() { r.seconds, r.output, r.loneFail = r.alone(ctx) })
		if r.loneFail != nil {
			return Seen{}, r.loneFail
		}
		beside := math.Max(r.seconds*rate, 1) // requests at once, by Little's law
		steps := float64(thoroughSteps)
		if r.settings.MaxSeqs > 0 && r.settings.MaxSeqs <= few {
			steps *= longer
		}
		wanted := math.Max(math.Min(steps*beside, thoroughTokens)/math.Max(r.output, 1), lastsRequests*beside)
		n = max(n, leastThorough, int(math.Min(wanted, float64(mostRequests))))
	}
	load, err := r.question.Load(n, rate)
	if err != nil {
		return Seen{}, err
	}
	prediction, err := r.run(ctx, load)
	if err != nil {
		return Seen{}, err
	}
	seen := Seen{Metrics: prediction.Metrics, Seconds: float64(n) / rate, Bound: len(prediction.Unknown) > 0, Unknown: prediction.Unknown,
		Assumed: prediction.Assumptions, Settings: r.settings}
	requests := math.Max(prediction.Metrics["completed"].Value, 1)
	seen.Output = prediction.Metrics["total_output_tokens"].Value / requests
	seen.Tokens = seen.Output + prediction.Metrics["total_input_tokens"].Value/requests
	return seen, nil
}

// fullRequests are those of a run that finds out what a replica does at most.
const fullRequests = 1000

// Full implements Replica.
func (r *replica) Full(ctx context.Context) (predict.Estimate, error) {
	load, err := r.question.Load(fullRequests, 0)
	if err != nil {
		return predict.Estimate{}, err
	}
	for i := range load.Requests {
		load.Requests[i].At = 0
	}
	prediction, err := r.run(ctx, load)
	return prediction.Metrics["request_throughput"], err
}

// alone returns how long a request takes on a server that has nothing else to do, and how many
// tokens answer it.
func (r *replica) alone(ctx context.Context) (seconds, output float64, err error) {
	load, err := r.question.Load(8, 0)
	if err != nil {
		return 0, 0, err
	}
	load.Concurrency = 1
	for i := range load.Requests {
		load.Requests[i].At = 0
	}
	prediction, err := r.run(ctx, load)
	return prediction.Metrics["mean_e2el_ms"].Value / 1e3, prediction.Metrics["total_output_tokens"].Value / float64(len(load.Requests)), err
}

func (r *replica) run(ctx context.Context, load predict.Workload) (predict.Prediction, error) {
	return predict.Run(ctx, predict.Scenario{Model: r.question.Model, Machine: r.machine.Machine, Engine: r.question.Engine, Settings: r.settings,
		Workload: load, Calibration: r.machine.Calibration, Strict: r.question.Strict})
}
