// Package size says how many machines keep a rate of requests within objectives of service, and
// what they cost; and which settings serve an aim best (lab.md 2, `lab size` and presets). Users
// give a model, machines and a load; they need not know how a replica is predicted. Nothing here
// measures: every figure is a prediction with its interval, or a bound and marked as one.
package size

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"

	"ossian/internal/bench/sweep"
	"ossian/internal/lab/predict"
	"ossian/internal/lab/predict/machine"
	"ossian/internal/plan"
)

// A Machine is what can be had, and at what price.
type Machine struct {
	machine.Machine
	Price       float64              // of one device for an hour, in any currency; 0 = not stated
	Calibration *predict.Calibration // nil = the shipped one, if there is one
}

// A Question is what has to be served.
type Question struct {
	Model    *plan.Model
	Engine   predict.Profile
	Machines []Machine
	Rate     float64 // requests per second of all replicas together
	// Load returns that many requests at that rate, 0 = one after another. It must not use what
	// it has returned again.
	Load     func(requests int, rate float64) (predict.Workload, error)
	SLA      sweep.SLA        // CheckObjectives says what may be in it
	Settings predict.Settings // given ones are not varied
	Strict   bool
	Workers  int // predictions at the same time; 0 = 1
}

// An Offer is one way to serve the load.
type Offer struct {
	Machine    string                      `json:"machine"`
	TP         int                         `json:"tp"`
	Settings   predict.Settings            `json:"settings"`
	Capacity   predict.Estimate            `json:"capacity_per_second"` // requests that one replica keeps
	Replicas   int                         `json:"replicas"`
	Fewest     int                         `json:"replicas_low"` // by the better end of the capacity's interval
	Most       int                         `json:"replicas_high"`
	LoadFactor float64                     `json:"load_factor"` // the rate over what all replicas keep
	Devices    int                         `json:"devices"`
	PerHour    *predict.Estimate           `json:"cost_per_hour,omitempty"` // nil = no price was stated
	PerTotal   *predict.Estimate           `json:"cost_per_million_tokens,omitempty"`
	PerOutput  *predict.Estimate           `json:"cost_per_million_output_tokens,omitempty"`
	Metrics    map[string]predict.Estimate `json:"metrics"` // at the rate of one of the replicas
	Bound      bool                        `json:"bound,omitempty"`
	Unknown    []string                    `json:"unknown,omitempty"`
	Assumed    []string                    `json:"assumptions,omitempty"`
	tokens     float64
	output     float64
}

// A Refusal is why a machine with a number of devices is no offer.
type Refusal struct {
	Machine   string     `json:"machine"`
	TP        int        `json:"tp"`
	Reason    string     `json:"reason"`
	Violation *Violation `json:"violation,omitempty"` // nil: it cannot run at all
}

// An Answer has the offers, cheapest first, and what is none.
type Answer struct {
	Offers  []Offer   `json:"offers"`
	Refused []Refusal `json:"refused,omitempty"`
}

// Nearest returns the refusal whose objective is missed by the smallest share; nil = nothing that
// could run was refused.
func (a *Answer) Nearest() *Refusal {
	var nearest *Refusal
	for i := range a.Refused {
		if v := a.Refused[i].Violation; v != nil && (nearest == nil || v.By < nearest.Violation.By) {
			nearest = &a.Refused[i]
		}
	}
	return nearest
}

// Plan answers. Errors are of the question; that nothing fits is an answer.
func Plan(ctx context.Context, question Question) (*Answer, error) {
	switch {
	case !(question.Rate > 0) || question.Rate > fastest:
		return nil, fmt.Errorf("rate %v: requests per second above 0 and up to %.0g expected", question.Rate, fastest)
	case len(question.Machines) == 0:
		return nil, errors.New("no machine is named")
	}
	limiting, err := question.latencies()
	if err != nil {
		return nil, err
	}
	question.SLA = limiting
	answers, failed := make([]Answer, len(question.Machines)), make([]error, len(question.Machines))
	each(len(answers), question.Workers, func(i int) {
		answers[i], failed[i] = question.degrees(ctx, &question.Machines[i])
	})
	answer := &Answer{}
	for _, one := range answers {
		answer.Offers, answer.Refused = append(answer.Offers, one.Offers...), append(answer.Refused, one.Refused...)
	}
	slices.SortStableFunc(answer.Offers, cheaper)
	return answer, errors.Join(failed...)
}

const (
	// roughly is by how much a rough search may be off: that much more a replica may keep at most.
	roughly = 1.15
	// beyondFull is how much more than what a run of a thousand requests shows a replica may keep at
	// most: that run begins and ends with a server that is not full.
	beyondFull = 1.5
)

// degrees considers the numbers of devices of one machine, fewest first, as long as more could be
// cheaper. A replica's capacity does not depend on how much is wanted of all, so neither does the work;
// most of it is the careful search, which is made only where a rough one leaves a chance.
func (q *Question) degrees(ctx context.Context, m *Machine) (out Answer, err error) {
	fewest, with := math.MaxInt, 0
	for _, tp := range Degrees(q.Model, m.Machine, q.Settings.TP) {
		none := func(devices int) {
			out.Refused = append(out.Refused, Refusal{Machine: m.Name, TP: tp, Reason: fmt.Sprintf("it takes %d devices or more, and tp %d takes %d", devices, with, fewest)})
		}
		if tp >= fewest {
			none(tp)
			continue
		}
		best, refusal, err := q.rough(ctx, m, tp, fewest)
		if err != nil {
			return out, err
		}
		if refusal == nil {
			if devices := tp * q.count(best.capacity*roughly); devices >= fewest {
				none(devices)
				continue
			}
			var offer *Offer
			if offer, refusal, err = q.careful(ctx, m, best); err != nil {
				return out, err
			}
			if refusal == nil {
				out.Offers = append(out.Offers, *offer)
				if offer.Devices < fewest {
					fewest, with = offer.Devices, tp
				}
				continue
			}
		}
		out.Refused = append(out.Refused, *refusal)
	}
	return out, nil
}

// cheaper orders offers by price, those without one behind by their number of devices.
func cheaper(a, b Offer) int {
	if (a.PerHour == nil) != (b.PerHour == nil) {
		if a.PerHour != nil {
			return -1
		}
		return 1
	}
	if a.PerHour != nil {
		if byPrice := cmp.Compare(a.PerHour.Value, b.PerHour.Value); byPrice != 0 {
			return byPrice
		}
	}
	return cmp.Or(cmp.Compare(a.Devices, b.Devices), cmp.Compare(a.LoadFactor, b.LoadFactor))
}

// each calls work for 0..n-1 on that many goroutines.
func each(n, workers int, work func(int)) {
	next := make(chan int)
	var wait sync.WaitGroup
	for range max(workers, 1) {
		wait.Go(func() {
			for i := range next {
				work(i)
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	wait.Wait()
}

// Degrees are the numbers of devices that can share a model: powers of two up to what one computer
// has that divide the heads; given > 0 is the only one.
func Degrees(model *plan.Model, m machine.Machine, given int) (degrees []int) {
	if given > 0 {
		return []int{given}
	}
	for tp := 1; tp <= max(m.Most, 1) && model.Spec.Heads%tp == 0; tp *= 2 {
		degrees = append(degrees, tp)
	}
	return degrees
}

// variants are settings worth trying with a number of devices, those of the engine first.
func (q *Question) variants(tp int) []predict.Settings {
	base := q.Settings
	base.TP = tp
	all := []predict.Settings{base}
	if base.MaxTokens == 0 {
		for _, tokens := range []int{1024, 4096, 16384} {
			more := base
			more.MaxTokens = tokens
			if more.MaxSeqs == 0 && tokens < 2048 { // every sequence needs a token of a step
				more.MaxSeqs = 256
			}
			all = append(all, more)
		}
	}
	return all
}

// A rough is the best variant of a number of devices by a rough search.
type rough struct {
	settings predict.Settings
	full     predict.Estimate // of the replica
	capacity float64          // requests per second
}

// rough searches each variant roughly; a refusal says why there is none. One that would take as many
// devices as fewest even at what it does at most is not searched: its capacity is then that.
func (q *Question) rough(ctx context.Context, m *Machine, tp, fewest int) (best rough, refusal *Refusal, err error) {
	nearest := Violation{By: math.Inf(1)}
	refusal = &Refusal{Machine: m.Name, TP: tp}
	for i, settings := range q.variants(tp) {
		rate, full, violation, err := q.roughly(ctx, m, settings, func(most float64) bool {
			return most > best.capacity && tp*q.count(most) < fewest
		})
		switch misfit := (*predict.FitError)(nil); {
		case errors.As(err, &misfit):
			refusal.Reason = misfit.Error()
			return best, refusal, nil
		case errors.Is(err, predict.ErrUnknownKernel):
			refusal.Reason = err.Error()
			return best, refusal, nil
		case err != nil && i > 0 && ctx.Err() == nil:
			continue // a variant of ours that does not go with what was given
		case err != nil:
			return best, nil, fmt.Errorf("%s, tp %d: %w", m.Name, tp, err)
		}
		if rate > best.capacity {
			if best = (rough{settings, full, rate}); rate > 1.2*q.Rate { // one replica does it; no variant is cheaper
				break
			}
		} else if rate == 0 && violation.By < nearest.By {
			nearest = violation
		}
	}
	if best.capacity == 0 {
		refusal.Violation, refusal.Reason = &nearest, nearest.String()
		return best, refusal, nil
	}
	return best, nil, nil
}

// roughly is the capacity of a setting within some per cent, from what it does at most on; if that is
// not worth a search it is the capacity.
func (q *Question) roughly(ctx context.Context, m *Machine, settings predict.Settings, worth func(most float64) bool) (rate float64, full predict.Estimate, violation Violation, err error) {
	r := &replica{question: q, machine: m, settings: settings, least: 1000}
	if full, err = r.Full(ctx); err != nil {
		return 0, full, violation, err
	}
	if !worth(full.Value * beyondFull) {
		return full.Value, full, violation, nil
	}
	s := search{replica: r, sla: q.SLA}
	capacity, violation, err := s.capacity(ctx, full, full.Value, coarse)
	return capacity.Value, full, violation, err
}

// careful finds the capacity of the best variant with its interval, and what it takes.
func (q *Question) careful(ctx context.Context, m *Machine, best rough) (*Offer, *Refusal, error) {
	s := search{replica: &replica{question: q, machine: m, settings: best.settings, thorough: true}, sla: q.SLA}
	capacity, violation, err := s.capacity(ctx, best.full, best.capacity, 1)
	if err != nil {
		return nil, nil, err
	}
	if capacity.Value == 0 {
		return nil, &Refusal{Machine: m.Name, TP: best.settings.TP, Violation: &violation, Reason: violation.String()}, nil
	}
	offer, err := q.offer(ctx, &s, m, best.settings, capacity)
	return offer, nil, err
}

// Uncountable stands for a number of replicas where none is known to be enough.
const Uncountable = math.MaxInt32

// count is how many replicas of a capacity keep the rate.
func (q *Question) count(capacity float64) int {
	if capacity <= 0 || q.Rate/capacity > Uncountable {
		return Uncountable
	}
	return max(int(math.Ceil(q.Rate/capacity-1e-9)), 1)
}

// offer counts replicas and costs.
func (q *Question) offer(ctx context.Context, s *search, m *Machine, settings predict.Settings, capacity predict.Estimate) (*Offer, error) {
	out := &Offer{Machine: m.Name, TP: max(settings.TP, 1), Settings: settings, Capacity: capacity,
		Replicas: q.count(capacity.Value), Fewest: q.count(capacity.High), Most: q.count(capacity.Low)}
	out.LoadFactor = q.Rate / (float64(out.Replicas) * capacity.Value)
	out.Devices = out.Replicas * out.TP
	seen, err := s.at(ctx, q.Rate/float64(out.Replicas))
	if err != nil {
		return nil, err
	}
	out.Metrics, out.Bound, out.Unknown, out.Assumed, out.tokens, out.output = seen.Metrics, seen.Bound, seen.Unknown, seen.Assumed, seen.Tokens, seen.Output
	if m.Price <= 0 {
		return out, nil
	}
	hourly := float64(out.TP) * m.Price
	perHour := predict.Estimate{Value: float64(out.Replicas) * hourly, Low: float64(out.Fewest) * hourly, High: float64(out.Most) * hourly}
	// What an hour costs over the tokens of an hour, in millions.
	over := func(tokens float64) *predict.Estimate {
		millions := q.Rate * tokens * 3600 / 1e6
		return &predict.Estimate{Value: perHour.Value / millions, Low: perHour.Low / millions, High: perHour.High / millions}
	}
	out.PerHour, out.PerTotal, out.PerOutput = &perHour, over(out.tokens), over(out.output)
	return out, nil
}
