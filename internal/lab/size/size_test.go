package size

import (
	"context"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"ossian/internal/bench/sweep"
	"ossian/internal/lab/predict"
	"ossian/internal/lab/predict/machine"
)

// A queue is a server of known capacity: requests come as a Poisson process and each takes the
// same time, one after another (M/D/1). Its mean wait is ρS/(2(1−ρ)) at load ρ and service time S,
// by Pollaczek and Khinchine.
type queue struct {
	service  float64 // seconds
	requests int
}

func (q queue) At(_ context.Context, rate float64) (Seen, error) {
	draw := rand.New(rand.NewPCG(1, 2))
	at, free, wait := 0.0, 0.0, 0.0
	for range q.requests {
		at += draw.ExpFloat64() / rate
		begin := math.Max(at, free)
		wait += begin - at
		free = begin + q.service
	}
	one := func(v float64) predict.Estimate { return predict.Estimate{Value: v, Low: 0.9 * v, High: 1.1 * v} }
	return Seen{Metrics: map[string]predict.Estimate{"mean_ttft_ms": one(1e3 * wait / float64(q.requests)), "mean_e2el_ms": one(1e3 * (wait/float64(q.requests) + q.service)),
		"request_throughput": one(float64(q.requests) / free)}, Seconds: at}, nil
}

// Full implements Replica: its error is a tenth of the time.
func (q queue) Full(context.Context) (predict.Estimate, error) {
	most := 1 / q.service
	return predict.Estimate{Value: most, Low: most / 1.1, High: 1.1 * most}, nil
}

// TestQueueOfKnownCapacity: the rate found is the one at which the wait reaches the objective, or
// without one what the server can do at most, within 3 % (lab.md 10, P8).
func TestQueueOfKnownCapacity(t *testing.T) {
	for _, service := range []float64{0.002, 0.1, 3} {
		for _, waits := range []float64{0.5, 1, 2, 4, 0} { // of the service time; 0 = no objective
			want := 1 / service
			sla := sweep.SLA{}
			if waits > 0 {
				want *= 2 * waits / (1 + 2*waits)
				sla = sweep.SLA{{Metric: "mean_ttft_ms", Op: "<=", Target: 1e3 * waits * service}}
			}
			got, violation, err := Capacity(context.Background(), queue{service, 40_000}, sla)
			if err != nil || violation.By > 0 {
				t.Fatal(err, violation)
			}
			// Whatever bounds it, a time of work that is a tenth off is a rate that is at least a tenth off.
			if math.Abs(got.Value/want-1) > 0.03 || got.Low > got.Value/1.09 || got.High < 1.09*got.Value {
				t.Errorf("service %v s, wait of %v services allowed: %+v, want %.4g ± 3 %%, and ends 10 %% away", service, waits, got, want)
			}
		}
	}
}

// TestObjectiveOutOfReach: what no rate keeps names the objective and by how much.
func TestObjectiveOutOfReach(t *testing.T) {
	sla := sweep.SLA{{Metric: "mean_e2el_ms", Op: "<=", Target: 50}}
	got, violation, err := Capacity(context.Background(), queue{0.1, 5000}, sla)
	if err != nil || got.Value != 0 || violation.Metric != "mean_e2el_ms" || violation.By < 0.9 {
		t.Errorf("%+v, %+v, %v", got, violation, err)
	}
}

// TestObjectives: a bound that says nothing is refused with what to write, of every metric and direction.
func TestObjectives(t *testing.T) {
	for _, c := range []struct{ sla, want string }{
		{"mean_tpot_ms<=-4", "not above 0"}, {"mean_tpot_ms<=0", "not above 0"}, {"p99_ttft_ms<0", "not above 0"}, {"output_throughput>=0", "not above 0"},
		{"mean_tpot_ms>=4", "write mean_tpot_ms<=4"}, {"request_throughput<=4", "write request_throughput>=4"},
		{"duration_s<=4", "not predicted"}, {"mean_tpot<=4", "mean_tpot_ms"}, {"p99_ttft_ms<=500,output_throughput<10", "write output_throughput>=10"},
		{"p99_ttft_ms<=500,request_throughput>=2", ""},
	} {
		sla, err := sweep.ParseSLA(c.sla)
		if err != nil {
			t.Fatal(err)
		}
		if err := CheckObjectives(sla); (err == nil) != (c.want == "") || (err != nil && !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", c.sla, err, c.want)
		}
	}
}

// TestRateObjectives: rates are of all replicas together, so that the question's rate decides and no
// number of machines.
func TestRateObjectives(t *testing.T) {
	question := oneAtATime(t, 5) // answers of 16 tokens to prompts of 256
	for _, c := range []struct {
		sla  string
		want string
	}{
		{"output_throughput>=1", ""}, {"output_throughput>=80", ""}, {"request_throughput>=5", ""}, {"total_token_throughput>=1360", ""},
		{"output_throughput>80", "80.0/s"}, {"output_throughput>=160", "a rate of 10.0 requests/s"}, {"request_throughput>=6", "a rate of 6.00 requests/s"},
		{"total_token_throughput>=2720", "a rate of 10.0 requests/s"},
	} {
		var err error
		if question.SLA, err = sweep.ParseSLA(c.sla + ",mean_tpot_ms<=50"); err != nil {
			t.Fatal(err)
		}
		limiting, err := question.latencies()
		if c.want == "" && (err != nil || len(limiting) != 1 || limiting[0].Metric != "mean_tpot_ms") {
			t.Errorf("%s: %v, %v", c.sla, limiting, err)
		} else if c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", c.sla, err, c.want)
		}
	}
}

// TestWorkOfRate: how many predictions an answer takes, and of how many requests, does not grow with
// how much is wanted, and neither does the capacity.
func TestWorkOfRate(t *testing.T) {
	var requests []int
	var capacities []float64
	for _, rate := range []float64{100, 1e6} {
		question := oneAtATime(t, rate)
		question.Workers = 1
		question.SLA = sweep.SLA{{Metric: "mean_tpot_ms", Op: "<=", Target: 40}}
		load, sum := question.Load, 0
		question.Load = func(n int, rate float64) (predict.Workload, error) {
			sum += n
			return load(n, rate)
		}
		answer, err := Plan(context.Background(), question)
		if err != nil || len(answer.Offers) == 0 {
			t.Fatalf("%+v, %v", answer, err)
		}
		requests, capacities = append(requests, sum), append(capacities, answer.Offers[0].Capacity.Value)
	}
	// One run more or less: that at the rate of one of the replicas.
	if max(requests[1]-requests[0], requests[0]-requests[1]) > mostRequests || capacities[0] != capacities[1] {
		t.Errorf("requests predicted %v, capacities %v", requests, capacities)
	}
}

// TestIntervalOfCapacity: without an objective the interval is that of what the server does at most.
func TestIntervalOfCapacity(t *testing.T) {
	question := oneAtATime(t, 100)
	r := &replica{question: &question, machine: &question.Machines[0], settings: question.Settings}
	full, err := r.Full(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	answer, err := Plan(context.Background(), question)
	if err != nil || len(answer.Offers) != 1 {
		t.Fatalf("%+v, %v", answer, err)
	}
	offer := answer.Offers[0]
	if full.Low/full.Value > 0.97 || offer.Capacity.Low/offer.Capacity.Value > full.Low/full.Value || offer.Capacity.High/offer.Capacity.Value < full.High/full.Value {
		t.Errorf("capacity %+v, at most %+v", offer.Capacity, full)
	}
	if offer.Fewest != question.count(offer.Capacity.High) || offer.Most != question.count(offer.Capacity.Low) || offer.Fewest >= offer.Most {
		t.Errorf("%d replicas, %d to %d", offer.Replicas, offer.Fewest, offer.Most)
	}
}

// oneAtATime is a question whose replicas are M/D/1 queues made of the real scheduler: every
// request is alike, and one runs at a time.
func oneAtATime(t *testing.T, rate float64) Question {
	t.Helper()
	model, err := predict.Model("Qwen3-0.6B")
	if err != nil {
		t.Fatal(err)
	}
	a100, err := machine.Lookup("A100-SXM4-80G")
	if err != nil {
		t.Fatal(err)
	}
	engine, err := predict.Engine("vllm", "0.11.0")
	if err != nil {
		t.Fatal(err)
	}
	off := false
	return Question{Model: model, Engine: engine, Machines: []Machine{{Machine: a100, Price: 2}}, Rate: rate, Workers: 2,
		Settings: predict.Settings{TP: 1, MaxSeqs: 1, MaxTokens: 512, PrefixCaching: &off, MaxLen: 4096},
		Load: func(n int, rate float64) (predict.Workload, error) {
			w := predict.Random(n, 256, 16, 3)
			w.Arrive(rate, 5)
			return w, nil
		}}
}

// TestPlanOfKnownCapacity: the same with the predictor behind it, and what replicas cost.
func TestPlanOfKnownCapacity(t *testing.T) {
	question := oneAtATime(t, 1)
	r := &replica{question: &question, machine: &question.Machines[0], settings: question.Settings}
	service, _, err := r.alone(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	wait := 1.0 // services
	load, _ := question.Load(1, 1)
	single, err := r.run(context.Background(), load)
	if err != nil {
		t.Fatal(err)
	}
	first := single.Metrics["mean_ttft_ms"].Value / 1e3
	want := 2 * wait / (1 + 2*wait) / service
	question.Rate = 4.5 * want
	question.SLA = sweep.SLA{{Metric: "mean_ttft_ms", Op: "<=", Target: 1e3 * (first + wait*service)}}
	answer, err := Plan(context.Background(), question)
	if err != nil || len(answer.Offers) != 1 {
		t.Fatalf("%+v, %v", answer, err)
	}
	offer := answer.Offers[0]
	if math.Abs(offer.Capacity.Value/want-1) > 0.03 {
		t.Errorf("capacity %+v, want %.4g ± 3 %%", offer.Capacity, want)
	}
	if offer.Replicas != 5 || math.Abs(offer.LoadFactor-0.9) > 0.03 || offer.PerHour.Value != 10 {
		t.Errorf("%+v", offer)
	}
	if cost := 10 / (question.Rate * 272 * 3600 / 1e6); math.Abs(offer.PerTotal.Value/cost-1) > 1e-9 || math.Abs(offer.PerOutput.Value/offer.PerTotal.Value-17) > 1e-9 {
		t.Errorf("costs %+v %+v, want %v", offer.PerTotal, offer.PerOutput, cost)
	}
}

// TestNothingFits: memory and objectives out of reach are refusals, and the nearest is named.
func TestNothingFits(t *testing.T) {
	question := oneAtATime(t, 10)
	question.Settings = predict.Settings{}
	var err error
	if question.Model, err = predict.Model("Qwen3-32B"); err != nil {
		t.Fatal(err)
	}
	l40s, err := machine.Lookup("L40S")
	if err != nil {
		t.Fatal(err)
	}
	question.Machines = append(question.Machines, Machine{Machine: l40s})
	question.SLA = sweep.SLA{{Metric: "mean_tpot_ms", Op: "<=", Target: 0.5}}
	answer, err := Plan(context.Background(), question)
	if err != nil || len(answer.Offers) != 0 {
		t.Fatalf("%+v, %v", answer, err)
	}
	nearest := answer.Nearest()
	if nearest == nil || nearest.Violation.Metric != "mean_tpot_ms" || nearest.Violation.By <= 0 || nearest.Machine != "A100-SXM4-80G" {
		t.Errorf("nearest %+v of %+v", nearest, answer.Refused)
	}
	memory := 0
	for _, refusal := range answer.Refused {
		if refusal.Violation == nil && refusal.Machine == "L40S" && refusal.TP == 1 {
			memory++
		}
	}
	if memory != 1 {
		t.Errorf("no refusal of one L40S for memory: %+v", answer.Refused)
	}
}

// TestPresets: on a B200 the aims differ as those of the published tuning do: one device and the
// largest batch, several devices and a small batch, something between the two.
func TestPresets(t *testing.T) {
	model, err := predict.Model("gpt-oss-120b")
	if err != nil {
		t.Fatal(err)
	}
	b200, err := machine.Lookup("B200")
	if err != nil {
		t.Fatal(err)
	}
	engine, err := predict.Engine("vllm", "0.11.0")
	if err != nil {
		t.Fatal(err)
	}
	chosen := map[Aim]Point{}
	for _, aim := range Aims() {
		choice, err := Preset(context.Background(), Wish{Aim: Aim(aim), Model: model, Machine: Machine{Machine: b200}, Engine: engine, Workers: 2, Input: 256, Output: 32, MostUsers: 256})
		if err != nil {
			t.Fatal(err)
		}
		chosen[choice.Aim] = choice.Point
		for i, p := range choice.Frontier {
			if i > 0 && !(p.PerUser.Value > choice.Frontier[i-1].PerUser.Value && p.PerDevice.Value < choice.Frontier[i-1].PerDevice.Value) {
				t.Errorf("%s: frontier %+v", aim, choice.Frontier)
			}
		}
	}
	most, least, middle := chosen[MaxThroughput], chosen[MinLatency], chosen[Balanced]
	if most.Settings.TP != 1 || most.Users != 256 || least.Settings.TP < 4 || least.Users != DefaultUsers {
		t.Errorf("most %+v, least %+v", most, least)
	}
	if !(middle.PerUser.Value > most.PerUser.Value && middle.PerUser.Value < least.PerUser.Value && middle.PerDevice.Value > least.PerDevice.Value) {
		t.Errorf("between %+v and %+v: %+v", most, least, middle)
	}
	if _, err := Preset(context.Background(), Wish{Aim: "best", Model: model}); err == nil {
		t.Error("an unknown aim was accepted")
	}
}

// TestKnee: frontiers sag on linear axes, as that predicted of an MI300X does: there the point next to
// an end is the only one above the line between the ends. The knee is that of the logarithms.
func TestKnee(t *testing.T) {
	at := func(user, device float64) Point {
		return Point{PerUser: predict.Estimate{Value: user}, PerDevice: predict.Estimate{Value: device}}
	}
	sagging := []Point{at(23.8, 45942), at(62.6, 30586), at(148.9, 18283), at(311.5, 9684), at(592.2, 4613), at(1012.4, 1984), at(1025.2, 509)}
	for _, c := range []struct {
		frontier []Point
		want     int
	}{
		{sagging, 4},
		{[]Point{at(1, 1000), at(9, 900), at(10, 100)}, 1},
		{[]Point{at(1, 1000), at(90, 90), at(100, 10)}, 1},
		{[]Point{at(1, 1000), at(2, 900), at(2.1, 10)}, 1},
		{[]Point{at(1, 1000), at(2, 100), at(10, 90), at(100, 10)}, 2}, // of those below the line the nearest to it
		{[]Point{at(1, 1000), at(3, 500)}, 1},
		{[]Point{at(1, 1000), at(3, 200)}, 0},
		{[]Point{at(1, 1000)}, 0},
	} {
		if got := knee(c.frontier); got != c.want {
			t.Errorf("knee of %v: %d, want %d", c.frontier, got, c.want)
		}
	}
}

// TestBalancedEverywhere: on every shipped machine balanced is between the ends of the frontier.
func TestBalancedEverywhere(t *testing.T) {
	model, err := predict.Model("gpt-oss-20b")
	if err != nil {
		t.Fatal(err)
	}
	engine, err := predict.Engine("vllm", "0.11.0")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range machine.Names() {
		on, err := machine.Lookup(name)
		if err != nil {
			t.Fatal(err)
		}
		on.Most = 2
		choice, err := Preset(context.Background(), Wish{Aim: Balanced, Model: model, Machine: Machine{Machine: on}, Engine: engine, Workers: 2, Input: 128, Output: 16,
			MostUsers: 256, Settings: predict.Settings{MaxTokens: 8192}})
		if err != nil {
			t.Fatal(err)
		}
		first, last := choice.Frontier[0], choice.Frontier[len(choice.Frontier)-1]
		if users := choice.Point.Users; users <= 1 || users >= 256 || choice.Point.PerUser.Value <= first.PerUser.Value || choice.Point.PerUser.Value >= last.PerUser.Value {
			t.Errorf("%s: %d users of %+v", name, users, choice.Frontier)
		}
	}
}

// TestDepends: of a machine that nobody measured the choice is told with what it rests on: the same preset
// under each other assumption, and which of them makes the difference.
func TestDepends(t *testing.T) {
	model, err := predict.Model("gpt-oss-120b")
	if err != nil {
		t.Fatal(err)
	}
	b200, err := machine.Lookup("B200")
	if err != nil {
		t.Fatal(err)
	}
	engine, err := predict.Engine("vllm", "0.11.0")
	if err != nil {
		t.Fatal(err)
	}
	wish := Wish{Aim: Balanced, Model: model, Machine: Machine{Machine: b200}, Engine: engine, Workers: 2, Input: 128, Output: 128, MostUsers: 256, Settings: predict.Settings{MaxTokens: 8192}}
	var said []string
	for _, lender := range []string{"", "H100-SXM"} {
		if lender != "" {
			wish.Machine.Calibration = predict.Shipped(lender, "vllm", "0.11.0").Lent("B200")
		}
		choice, err := Preset(context.Background(), wish)
		if err != nil {
			t.Fatal(err)
		}
		text, err := Depends(context.Background(), wish, choice, lender)
		if err != nil {
			t.Fatal(err)
		}
		said = append(said, strings.ReplaceAll(text, " (taken here)", ""))
		if !strings.Contains(text, choice.short()+" (taken here)") || !strings.Contains(text, "A100-SXM4-80G: tp ") || !strings.Contains(text, "H100-SXM: tp ") || strings.Count(text, "(taken here)") != 1 {
			t.Errorf("on %q: %s", lender, text)
		}
	}
	if said[0] != said[1] {
		t.Errorf("the answers depend on which is taken:\n%s\n%s", said[0], said[1])
	}
	if !strings.Contains(said[0], "the answer depends on what is assumed") || !strings.Contains(said[0], "the host's time") {
		t.Errorf("%s", said[0])
	}
	wish.Machine.Calibration, wish.Engine.Name = nil, "ossian"
	choice, err := Preset(context.Background(), wish)
	if err != nil {
		t.Fatal(err)
	}
	if text, err := Depends(context.Background(), wish, choice, ""); err != nil || !strings.Contains(text, "nor on another machine") {
		t.Errorf("%v: %s", err, text)
	}
}
