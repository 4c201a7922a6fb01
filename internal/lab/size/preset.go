package size

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"ossian/internal/lab/predict"
	"ossian/internal/lab/race"
	"ossian/internal/plan"
)

// An Aim is what a preset is for (lab.md 2): an objective, from which its values follow.
type Aim string

// The aims.
const (
	MaxThroughput Aim = "max-throughput" // most tokens per second of a device, however long a user waits
	MinLatency    Aim = "min-latency"    // least time per token for a few users, then least time to the first
	Balanced      Aim = "balanced"       // the knee of the frontier between the two, on logarithmic axes
)

// Aims lists them.
func Aims() []string { return []string{string(MaxThroughput), string(MinLatency), string(Balanced)} }

// A Wish is for which model, machine and users a preset is wanted.
type Wish struct {
	Aim       Aim
	Model     *plan.Model
	Machine   Machine
	Engine    predict.Profile
	Settings  predict.Settings // given ones are kept
	Users     int              // of MinLatency; 0 = 8
	MostUsers int              // of the others; 0 = 1024
	Input     int              // tokens of a prompt; 0 = 1024
	Output    int              // tokens of an answer; 0 = 1024
	Chat      bool
	Strict    bool
	Workers   int // predictions at the same time; 0 = 1
}

// Usual values of a wish.
const (
	DefaultUsers = 8
	mostUsers    = 1024
	usualTokens  = 1024
)

// A Point is a setting under as many users as it lets run at once, each of whom sends the next
// request when the one before is answered.
type Point struct {
	Settings  predict.Settings `json:"settings"`
	Users     int              `json:"users"`
	PerUser   predict.Estimate `json:"output_tokens_per_second_per_user"`
	PerDevice predict.Estimate `json:"total_tokens_per_second_per_device"`
	MeanTPOT  predict.Estimate `json:"mean_tpot_ms"`
	MeanTTFT  predict.Estimate `json:"mean_ttft_ms"`
	Preempted int              `json:"preemptions"`
}

// A Choice is a preset's values with what they rest on.
type Choice struct {
	Aim      Aim      `json:"preset"`
	Point    Point    `json:"choice"`
	Input    int      `json:"input_tokens"` // of the requests that were predicted
	Output   int      `json:"output_tokens"`
	Frontier []Point  `json:"frontier"` // fewest tokens per user first
	Refused  []string `json:"refused,omitempty"`
	Assumed  []string `json:"assumptions"`
	Unknown  []string `json:"unknown,omitempty"`    // kernels: what is predicted is a bound
	Depends  string   `json:"depends_on,omitempty"` // what the choice rests on where the machine has no calibration, and what would change it
}

// A grid is what has been predicted of a wish.
type grid struct {
	wish    Wish
	points  []Point
	refused []string
	assumed []string
	unknown []string
	known   bool // some prediction is more than a bound
}

// Preset predicts numbers of devices and of users and chooses by the aim.
func Preset(ctx context.Context, wish Wish) (*Choice, error) {
	if !slices.Contains(Aims(), string(wish.Aim)) {
		return nil, fmt.Errorf("preset %q: one of %v expected", wish.Aim, Aims())
	}
	wish.Users, wish.MostUsers = cmp.Or(wish.Users, DefaultUsers), cmp.Or(wish.MostUsers, mostUsers)
	wish.Input, wish.Output = cmp.Or(wish.Input, usualTokens), cmp.Or(wish.Output, usualTokens)
	if room := wish.Model.Spec.MaxLen; wish.Input+wish.Output > room { // a model with a shorter context
		wish.Input, wish.Output = max(room/2, 1), max(room/2-1, 1)
	}
	g := &grid{wish: wish}
	if err := g.fill(ctx); err != nil {
		return nil, err
	}
	frontier := g.frontier()
	point, err := g.choose(frontier)
	if err != nil {
		return nil, err
	}
	if point, err = g.batch(ctx, point); err != nil {
		return nil, err
	}
	out := &Choice{Aim: wish.Aim, Point: point, Input: wish.Input, Output: wish.Output, Refused: g.refused, Unknown: g.unknown, Assumed: g.assumptions()}
	for _, place := range frontier.Best {
		out.Frontier = append(out.Frontier, g.points[place])
	}
	return out, nil
}

// fill predicts every number of devices with every number of users, doubling both.
func (g *grid) fill(ctx context.Context) error {
	var all []Point
	for _, tp := range Degrees(g.wish.Model, g.wish.Machine.Machine, g.wish.Settings.TP) {
		settings := g.wish.Settings
		settings.TP = tp
		for _, users := range g.users() {
			all = append(all, Point{Settings: g.limits(settings, users), Users: users})
		}
	}
	return g.predict(ctx, all)
}

// users are the numbers of users to look at: of a preset for a few, that number; of the others
// powers of two up to the most, or to what the settings let run at once.
func (g *grid) users() (all []int) {
	most := g.wish.MostUsers
	if g.wish.Settings.MaxSeqs > 0 {
		most = min(most, g.wish.Settings.MaxSeqs)
	}
	for n := 1; n < most; n *= 2 {
		all = append(all, n)
	}
	all = append(all, most)
	if g.wish.Aim == MinLatency && !slices.Contains(all, g.wish.Users) {
		all = append(all, g.wish.Users)
	}
	slices.Sort(all)
	return all
}

// limits lets exactly the users run at once, in steps that have room for them.
func (g *grid) limits(settings predict.Settings, users int) predict.Settings {
	if settings.MaxSeqs == 0 {
		settings.MaxSeqs = users
	}
	if settings.MaxTokens == 0 {
		settings.MaxTokens = max(g.usualBatch(), settings.MaxSeqs)
	}
	return settings
}

// usualBatch is how many tokens a step has while other things are compared.
func (g *grid) usualBatch() int {
	if g.wish.Machine.CPU {
		return plan.DefaultTokens
	}
	return 8192
}

// predict fills points in; what cannot run is refused, and one kind of reason is kept once.
func (g *grid) predict(ctx context.Context, all []Point) error {
	failed := make([]error, len(all))
	predictions := make([]predict.Prediction, len(all))
	each(len(all), g.wish.Workers, func(i int) {
		predictions[i], failed[i] = predict.Run(ctx, g.scenario(&all[i]))
	})
	if err := ctx.Err(); err != nil {
		return err
	}
	g.known = g.known || slices.ContainsFunc(predictions, func(p predict.Prediction) bool { return p.Steps > 0 && len(p.Unknown) == 0 })
	var first error
	for i := range all {
		if failed[i] != nil {
			first = cmp.Or(first, failed[i])
			if reason := failed[i].Error(); !slices.Contains(g.refused, reason) {
				g.refused = append(g.refused, reason)
			}
			continue
		}
		if unknown := predictions[i].Unknown; len(unknown) > 0 && g.known {
			// A bound beside predictions would always win.
			if reason := fmt.Sprintf("tp %d: only a bound is known, of %s", max(all[i].Settings.TP, 1), strings.Join(unknown, ", ")); !slices.Contains(g.refused, reason) {
				g.refused = append(g.refused, reason)
			}
			continue
		}
		point, metrics := &all[i], predictions[i].Metrics
		point.Preempted, point.MeanTPOT, point.MeanTTFT = predictions[i].Preemptions, metrics["mean_tpot_ms"], metrics["mean_ttft_ms"]
		point.PerUser = inverse(point.MeanTPOT)
		devices := float64(max(point.Settings.TP, 1))
		total := metrics["total_token_throughput"]
		point.PerDevice = predict.Estimate{Value: total.Value / devices, Low: total.Low / devices, High: total.High / devices}
		g.points = append(g.points, *point)
		g.note(&predictions[i])
	}
	if len(g.points) == 0 {
		return first
	}
	return nil
}

// note keeps what the prediction assumed and does not know, each once.
func (g *grid) note(p *predict.Prediction) {
	for _, text := range p.Assumptions {
		if !slices.Contains(g.assumed, text) {
			g.assumed = append(g.assumed, text)
		}
	}
	for _, name := range p.Unknown {
		if !slices.Contains(g.unknown, name) {
			g.unknown = append(g.unknown, name)
		}
	}
}

// inverse turns milliseconds per token into tokens per second.
func inverse(e predict.Estimate) predict.Estimate {
	return predict.Estimate{Value: 1e3 / e.Value, Low: 1e3 / e.High, High: 1e3 / e.Low}
}

// scenario is a point's load: the users begin together, and each sends three requests.
func (g *grid) scenario(p *Point) predict.Scenario {
	load := predict.Random(3*p.Users, g.wish.Input, g.wish.Output, 1)
	load.Concurrency, load.Chat = p.Users, g.wish.Chat
	return predict.Scenario{Model: g.wish.Model, Machine: g.wish.Machine.Machine, Engine: g.wish.Engine, Settings: p.Settings, Workload: load,
		Calibration: g.wish.Machine.Calibration, Strict: g.wish.Strict}
}

// frontier finds what no other point beats on both axes.
func (g *grid) frontier() race.Frontier {
	var trials []race.Operating
	for _, p := range g.points {
		trials = append(trials, race.Operating{PerUser: p.PerUser.Value, PerDevice: p.PerDevice.Value})
	}
	return race.NewFrontier(trials)
}

// alike is how near two times are that count as equal: 1 %, the zone of indifference of lab.md 4.
const alike = 0.01

// choose takes the point that the aim asks for.
func (g *grid) choose(frontier race.Frontier) (Point, error) {
	switch g.wish.Aim {
	case MaxThroughput:
		return slices.MaxFunc(g.points, func(a, b Point) int { return cmp.Compare(a.PerDevice.Value, b.PerDevice.Value) }), nil
	case Balanced:
		var best []Point
		for _, place := range frontier.Best {
			best = append(best, g.points[place])
		}
		return best[knee(best)], nil
	}
	var few []Point
	for _, p := range g.points {
		if p.Users == g.wish.Users {
			few = append(few, p)
		}
	}
	if len(few) == 0 {
		return Point{}, errors.New("no setting lets as many users run at once: " + fmt.Sprint(g.wish.Users))
	}
	return quickest(few), nil
}

// knee returns the place of the point of a frontier, fewest tokens per user first, that lies farthest
// above the line between its ends where both axes are logarithmic: from it one gives up the more per
// cent of the one for a per cent of the other. On linear axes frontiers sag between their ends, since a
// doubling of the users costs each of them less than half, and no point is above. A frontier that sags on
// these, too, has the point that does so least; of two points it is the one with the larger product.
func knee(frontier []Point) int {
	last := len(frontier) - 1
	product := func(p *Point) float64 { return p.PerUser.Value * p.PerDevice.Value }
	switch {
	case last < 1:
		return 0
	case last == 1:
		if product(&frontier[1]) > product(&frontier[0]) {
			return 1
		}
		return 0
	}
	user := func(i int) float64 { return math.Log(frontier[i].PerUser.Value) }
	device := func(i int) float64 { return math.Log(frontier[i].PerDevice.Value) }
	place, most := 1, math.Inf(-1)
	for i := 1; i < last; i++ {
		above := (user(i)-user(0))/(user(last)-user(0)) + (device(i)-device(last))/(device(0)-device(last))
		if above > most {
			place, most = i, above
		}
	}
	return place
}

// quickest has the least time per token, and of those that are alike the least to the first one.
func quickest(points []Point) Point {
	least := math.Inf(1)
	for _, p := range points {
		least = math.Min(least, p.MeanTPOT.Value)
	}
	best := -1
	for i, p := range points {
		if p.MeanTPOT.Value <= least*(1+alike) && (best < 0 || p.MeanTTFT.Value < points[best].MeanTTFT.Value) {
			best = i
		}
	}
	return points[best]
}

// batch chooses how many tokens a step has, for the point's devices and users, by the same aim.
func (g *grid) batch(ctx context.Context, point Point) (Point, error) {
	if g.wish.Settings.MaxTokens > 0 {
		return point, nil
	}
	var all []Point
	for _, tokens := range []int{128, 256, 512, 1024, 2048, 4096, 8192, 16384} {
		if tokens >= point.Settings.MaxSeqs && tokens != point.Settings.MaxTokens && tokens <= 4*max(g.usualBatch(), point.Settings.MaxSeqs) {
			other := Point{Settings: point.Settings, Users: point.Users}
			other.Settings.MaxTokens = tokens
			all = append(all, other)
		}
	}
	before := len(g.points)
	if err := g.predict(ctx, all); err != nil {
		return point, err
	}
	others := append([]Point{point}, g.points[before:]...)
	g.points = g.points[:before]
	if g.wish.Aim == MinLatency {
		return quickest(others), nil
	}
	// More is kept only if it is worth keeping: larger steps take memory.
	best := point
	for _, p := range others {
		if p.PerDevice.Value > best.PerDevice.Value*(1+alike) {
			best = p
		}
	}
	return best, nil
}

// assumptions are what the choice rests on beside the calibration.
func (g *grid) assumptions() []string {
	out := []string{fmt.Sprintf("users send prompts of %d tokens that share nothing and get answers of %d, each the next when the one before is answered", g.wish.Input, g.wish.Output)}
	if g.wish.Aim == MinLatency {
		out = append(out, fmt.Sprintf("%d users at once", g.wish.Users))
	} else {
		out = append(out, fmt.Sprintf("up to %d users at once", g.wish.MostUsers))
	}
	if len(g.unknown) > 0 {
		out = append(out, "no calibration of these kernels: each reaches what the machine offers, and the host takes no time")
	}
	return append(out, g.assumed...)
}
