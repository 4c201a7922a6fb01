package measure

import (
	"context"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Power of cards is asked for with the driver's own tool, which takes some tens of milliseconds.
const (
	cardsTool  = "nvidia-smi"
	cardsEvery = 250 * time.Millisecond
	cardsLimit = 5 * time.Second // of one answer
)

// cards integrate the power that the driver says of the cards of a run: the trapezoids between samples,
// whose ends count as long as the next sample is away. They sample in a goroutine of their own, so that the
// run is not delayed.
type cards struct {
	begun  time.Time
	used   map[string]bool // cards that processes compute on, by their ids; none: all count
	cancel context.CancelFunc
	ended  chan struct{} // closed when no sample is taken any more

	mu     sync.Mutex // guards what follows
	joules float64    // up to the latest sample
	watts  float64    // of it
	at     time.Time  // of it; zero: there is none
	broken bool       // a card did not tell its power
}

// newCards begins to measure; nil: there is no such tool here.
func newCards() *cards {
	path, err := exec.LookPath(cardsTool)
	if err != nil {
		return nil
	}
	ctx, cancel := context.WithCancel(context.Background())
	c := &cards{begun: time.Now(), cancel: cancel, ended: make(chan struct{})}
	go c.sample(ctx, path)
	return c
}

// sample asks until the run is over.
func (c *cards) sample(ctx context.Context, path string) {
	defer close(c.ended)
	ticker := time.NewTicker(cardsEvery)
	defer ticker.Stop()
	c.used = cardsInUse(ctx, path)
	for ctx.Err() == nil {
		before := time.Now()
		text, err := askCards(ctx, path, "--query-gpu=uuid,power.draw")
		middle := before.Add(time.Since(before) / 2) // when the cards were looked at, as well as can be told
		if ctx.Err() != nil {
			return // cut by the end of the run, which says nothing
		}
		watts, known := readPower(text, c.used)
		c.add(middle, watts, known && err == nil)
		select {
		case <-ctx.Done():
		case <-ticker.C:
		}
	}
}

// add takes in a sample.
func (c *cards) add(at time.Time, watts float64, known bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !known {
		c.broken = true
		return
	}
	if c.at.IsZero() {
		c.joules = watts * at.Sub(c.begun).Seconds()
	} else {
		c.joules += (c.watts + watts) / 2 * at.Sub(c.at).Seconds()
	}
	c.watts, c.at = watts, at
}

// end ends measuring, and returns what was used up to now and whether that is known: from no sample
// nothing is, and with a card that does not tell its power a part would be missing.
func (c *cards) end() (joules float64, known bool) {
	now := time.Now()
	c.cancel()
	<-c.ended
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.broken || c.at.IsZero() {
		return 0, false
	}
	return c.joules + c.watts*max(0, now.Sub(c.at).Seconds()), true
}

// cardsInUse are the ids of cards on which processes compute. Nobody but the server does: a campaign does
// not begin beside others. None where the driver does not say, as of processes in containers.
func cardsInUse(ctx context.Context, path string) map[string]bool {
	text, err := askCards(ctx, path, "--query-compute-apps=gpu_uuid")
	if err != nil {
		return nil
	}
	out := map[string]bool{}
	for line := range strings.Lines(text) {
		if id := strings.TrimSpace(line); strings.HasPrefix(id, "GPU-") {
			out[id] = true
		}
	}
	return out
}

// askCards is an answer of the tool, a line for each card or process.
func askCards(ctx context.Context, path, question string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, cardsLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, question, "--format=csv,noheader,nounits")
	cmd.WaitDelay = time.Second
	text, err := cmd.Output()
	return string(text), err
}

// readPower adds up the watts of cards that are used, from lines of an id and a number; unknown where one of
// them tells none, as virtual cards do.
func readPower(text string, used map[string]bool) (watts float64, known bool) {
	for line := range strings.Lines(text) {
		id, power, ok := strings.Cut(strings.TrimSpace(line), ",")
		if !ok || (len(used) > 0 && !used[strings.TrimSpace(id)]) {
			continue
		}
		value, err := strconv.ParseFloat(strings.TrimSpace(power), 64)
		if err != nil || !(value >= 0 && value < 1e5) {
			return 0, false
		}
		watts, known = watts+value, true
	}
	return watts, known
}
