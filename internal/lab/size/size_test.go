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
	return Seen{Metrics: map[string]predict.Estimate{"mean_ttft_ms": one(1e3 * wait / float64(q.requests)),
		"request_throughput": one(float64(q.requests) / free)}, Seconds: at}, nil
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
			for _, guess := range []float64{want / 300, want * 3, 1} {
				got, violation, err := Capacity(context.Background(), queue{service, 40_000}, sla, guess)
				if err != nil || violation.By > 0 {
					t.Fatal(err, violation)
				}
				if math.Abs(got.Value/want-1) > 0.03 || !(got.Low <= got.Value && got.Value <= got.High) {
					t.Errorf("service %v s, wait of %v services allowed, from %.3g/s: %+v, want %.4g ± 3 %%", service, waits, guess, got, want)
				}
			}
		}
	}
}

// TestObjectiveOutOfReach: what no rate keeps names the objective and by how much.
func TestObjectiveOutOfReach(t *testing.T) {
	sla := sweep.SLA{{Metric: "request_throughput", Op: ">=", Target: 20}}
	got, violation, err := Capacity(context.Background(), queue{0.1, 5000}, sla, 5)
	if err != nil || got.Value != 0 || violation.Metric != "request_throughput" || violation.By < 0.9 {
		t.Errorf("%+v, %+v, %v", got, violation, err)
	}
	if _, _, err := Capacity(context.Background(), queue{0.1, 50}, sweep.SLA{{Metric: "nothing", Op: "<=", Target: 1}}, 5); err == nil {
		t.Error("an unknown metric was accepted")
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
