package lab

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"ossian/internal/lab/ledger"
)

// A book is the ledger of a campaign with what its lines mean: which trials have ended and so are not
// measured again, which decisions stand. The campaign asks the book before it does anything, which is
// why it may be carried out from its beginning any number of times (lab.md 4, 9).
type book struct {
	file      *ledger.Ledger
	now       func() time.Time
	trials    map[string]ledger.Line     // by key: those that ended, but for those that the lab's own end cut
	equality  map[string]ledger.Equality // by id
	decisions map[string]string          // by id without the count of a repeated one: the last one's facts
	times     map[string]int             // by the same: how often it was written
	ready     map[string]float64         // by identity of a server: seconds that its first good start took
	starts    int
	resumed   bool
}

// openBook takes the ledger in dir and closes what an earlier process left open in it.
func openBook(dir string, now func() time.Time) (*book, []ledger.Line, error) {
	file, lines, torn, err := ledger.Open(dir)
	if err != nil {
		return nil, nil, err
	}
	b := &book{file: file, now: now, trials: map[string]ledger.Line{}, equality: map[string]ledger.Equality{},
		decisions: map[string]string{}, times: map[string]int{}, ready: map[string]float64{}, resumed: len(lines) > 0}
	open := map[string]ledger.Line{}
	for _, line := range lines {
		b.take(line)
		if line.Kind != ledger.KindTrial {
			continue
		}
		if line.Trial.State == ledger.StateBegun {
			open[line.ID] = line
		} else {
			delete(open, line.ID)
		}
	}
	if err := b.mend(open, torn); err != nil {
		_ = file.Close()
		return nil, nil, err
	}
	return b, lines, nil
}

// mend says of trials that had begun and not ended that they were cut, and of a torn line that it is
// gone.
func (b *book) mend(open map[string]ledger.Line, torn []byte) error {
	if len(torn) > 0 {
		if err := b.note(fmt.Sprintf("the last line of the ledger had been cut while it was written; its %d bytes were dropped", len(torn))); err != nil {
			return err
		}
	}
	for _, id := range slices.Sorted(maps.Keys(open)) {
		line := open[id]
		trial := *line.Trial
		trial.State, trial.Reason = ledger.StateCut, reasonKilled
		if err := b.append(ledger.Line{Kind: ledger.KindTrial, ID: id, Key: line.Key, Trial: &trial}); err != nil {
			return err
		}
	}
	return nil
}

// take learns from a line, read or just written.
func (b *book) take(line ledger.Line) {
	switch line.Kind {
	case ledger.KindTrial:
		repeated := line.Trial.State == ledger.StateCut && slices.Contains([]string{reasonInterrupted, reasonKilled, reasonMachine}, line.Trial.Reason)
		if line.Trial.State != ledger.StateBegun && !repeated {
			b.trials[line.Key] = line
		}
	case ledger.KindStart:
		b.starts++
		server := serverOf(line.Start.Setting, line.Start.Model)
		if _, known := b.ready[server]; !known && line.Start.State == ledger.StateOK {
			b.ready[server] = line.Start.Seconds
		}
	case ledger.KindEquality:
		b.equality[line.ID] = *line.Equality
	case ledger.KindDecision:
		id, _, _ := strings.Cut(line.ID, ".")
		b.decisions[id] = facts(line.Decision)
		b.times[id]++
	}
}

// append writes a line and learns from it.
func (b *book) append(line ledger.Line) error {
	written, err := b.file.Append(b.now(), line)
	if err != nil {
		return err
	}
	b.take(written)
	return nil
}

func (b *book) note(text string) error {
	return b.append(ledger.Line{Kind: ledger.KindNote, Note: &ledger.Note{Text: text}})
}

// decide writes a decision unless the same one stands already. One that has changed, because the plan
// has, is written beside the old one, with a count in its id: the last counts.
func (b *book) decide(decision ledger.Decision) error {
	id := decision.Stage + "-" + digest(decision.Model, decision.Subject, decision.Workload, decision.Metric)[:10]
	if b.decisions[id] == facts(&decision) {
		return nil
	}
	name := id
	if times := b.times[id]; times > 0 {
		name = fmt.Sprintf("%s.%d", id, times+1)
	}
	return b.append(ledger.Line{Kind: ledger.KindDecision, ID: name, Decision: &decision})
}

// facts are a decision as text, to tell whether it has changed.
func facts(decision *ledger.Decision) string {
	text, err := json.Marshal(decision)
	if err != nil {
		panic(err) // it has no member that JSON lacks: intervals are checked to be finite where they are made
	}
	return string(text)
}

// serverOf names a setting of a model.
func serverOf(setting ledger.Setting, model string) string {
	return model + "\x00" + setting.Engine + "\x00" + printFlags(setting.Flags)
}

// digest is the SHA-256 of parts, which are told apart.
func digest(parts ...string) string {
	sum := sha256.New()
	for _, part := range parts {
		fmt.Fprintf(sum, "%d:%s", len(part), part)
	}
	return hex.EncodeToString(sum.Sum(nil))
}
