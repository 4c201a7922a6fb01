package lab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"ossian/internal/lab/ledger"
)

// nearTie is how far apart two log probabilities may be for a choice between them to be a matter of
// rounding, in nats (lab.md 4, item 7).
const nearTie = 0.1

// maxAnswers bounds a file of answers that is read back, in bytes.
const maxAnswers = 64 << 20

// equalityID names the answers of a setting: another version of the engine gives others.
func (c *chapter) equalityID(ctx context.Context, setting ledger.Setting) (string, error) {
	identity, err := c.identity(ctx, setting)
	if err != nil {
		return "", err
	}
	return fileName(setting.Engine) + "-" + digest(serverOf(setting, c.model), identity.Version, strings.Join(identity.Argv, "\x00"), strconv.Itoa(c.plan.Equality.Tokens))[:10], nil
}

// ask has the answers of a setting: from its file if it was asked before, else from a server.
func (c *chapter) ask(ctx context.Context, setting ledger.Setting) ([]Answer, string, error) {
	id, err := c.equalityID(ctx, setting)
	if err != nil {
		return nil, "", err
	}
	file := filepath.ToSlash(filepath.Join("equality", id+".json"))
	var answers []Answer
	if info, err := os.Stat(filepath.Join(c.Dir, file)); err == nil && info.Size() <= maxAnswers {
		if text, err := os.ReadFile(filepath.Join(c.Dir, file)); err == nil && json.Unmarshal(text, &answers) == nil && len(answers) == c.plan.Equality.Prompts {
			return answers, file, nil
		}
	}
	start, err := c.serve(ctx, setting, 0) // answers are no part of the budget
	if err != nil {
		return nil, "", err
	}
	if start != nil && start.State != ledger.StateOK {
		return nil, "", &unansweredError{start.Reason}
	}
	answers, err = c.server.Answers(ctx, c.plan.Equality.Prompts, c.plan.Equality.Tokens)
	switch {
	case ctx.Err() != nil:
		return nil, "", ctx.Err()
	case err != nil:
		return nil, "", &unansweredError{err.Error()}
	}
	text, err := json.Marshal(answers)
	if err != nil {
		return nil, "", err
	}
	return answers, file, ledger.WriteFile(filepath.Join(c.Dir, file), append(text, '\n'))
}

// unansweredError: a server gave no answers, which is an outcome and no end of the campaign.
type unansweredError struct{ why string }

func (e *unansweredError) Error() string { return e.why }

// askBaseline has the answers that all others are compared with.
func (c *chapter) askBaseline(ctx context.Context) error {
	if c.plan.Equality.Prompts == 0 || len(c.all) == 0 {
		return nil
	}
	answers, _, err := c.ask(ctx, c.base)
	var unanswered *unansweredError
	if errors.As(err, &unanswered) {
		return c.book.note("the baseline's answers for the comparison of outputs: " + unanswered.why)
	}
	c.answers = answers
	return err
}

// compareAnswers compares a setting's outputs with the baseline's, writes the line, and says why the
// setting may not win; empty: it may.
func (c *chapter) compareAnswers(ctx context.Context, setting ledger.Setting, lossy bool) (reason string, err error) {
	if c.plan.Equality.Prompts == 0 {
		return "", nil
	}
	id, err := c.equalityID(ctx, setting)
	if err != nil {
		return "", err
	}
	id = "equality-" + id
	line, known := c.book.equality[id]
	if !known {
		line = ledger.Equality{Setting: setting, Model: c.model, Against: c.base, Verdict: ledger.NotComparable, Prompts: c.plan.Equality.Prompts, Lossy: lossy}
		answers, file, err := c.ask(ctx, setting)
		var unanswered *unansweredError
		switch {
		case errors.As(err, &unanswered):
			line.Text = unanswered.why
		case err != nil:
			return "", err
		case c.answers == nil:
			line.Text, line.File = "the baseline gave no answers", file
		default:
			compareAll(&line, c.answers, answers)
			line.File = file
		}
		if err := c.book.append(ledger.Line{Kind: ledger.KindEquality, ID: id, Equality: &line}); err != nil {
			return "", err
		}
	}
	return c.unequal(line, lossy), nil
}

// unequal is the rule: outputs that differ reject a setting that was not declared lossy. The project's
// own engine computes the same whatever its settings are, so there even a near tie is a fault.
func (c *chapter) unequal(line ledger.Equality, lossy bool) string {
	exact := c.engine.Kind == "ossian"
	switch {
	case lossy:
		return ""
	case line.Verdict == ledger.Different, exact && line.Verdict == ledger.NearTie:
		return fmt.Sprintf("outputs are not the baseline's (%s): %d of %d are the same; %s", line.Verdict, line.Same, line.Prompts, line.Text)
	}
	return ""
}

// compareAll fills in what comparing all answers gives.
func compareAll(line *ledger.Equality, ours, theirs []Answer) {
	line.By = "token ids"
	for i := range ours {
		if len(ours[i].Tokens) == 0 || i >= len(theirs) || len(theirs[i].Tokens) == 0 || ours[i].Tokens[0].ID < 0 || theirs[i].Tokens[0].ID < 0 {
			line.By = "text"
		}
	}
	for i := range ours {
		if i >= len(theirs) {
			line.Differ++
			continue
		}
		verdict, where := compareOne(ours[i], theirs[i], line.By == "text")
		switch verdict {
		case ledger.Identical:
			line.Same++
		case ledger.NearTie:
			line.Near++
		default:
			line.Differ++
		}
		if where != "" && line.Text == "" {
			line.Text = fmt.Sprintf("prompt %d, %s", i+1, where)
		}
	}
	switch {
	case len(ours) == 0:
		line.Verdict = ledger.NotComparable
	case line.Differ > 0:
		line.Verdict = ledger.Different
	case line.Near > 0:
		line.Verdict = ledger.NearTie
	default:
		line.Verdict = ledger.Identical
	}
}

// compareOne compares two answers and says where they part first.
func compareOne(ours, theirs Answer, byText bool) (verdict, where string) {
	if byText && ours.Text == theirs.Text {
		return ledger.Identical, ""
	}
	same := func(a, b Token) bool {
		if byText {
			return a.Text == b.Text
		}
		return a.ID == b.ID
	}
	for i := range min(len(ours.Tokens), len(theirs.Tokens)) {
		a, b := ours.Tokens[i], theirs.Tokens[i]
		if same(a, b) {
			continue
		}
		where = fmt.Sprintf("token %d: %s in place of %s", i+1, nameOf(b), nameOf(a))
		if gap, known := gapOf(a, b); known {
			where += fmt.Sprintf(", %.3g nat apart", gap)
			if gap <= nearTie {
				return ledger.NearTie, where
			}
		}
		return ledger.Different, where
	}
	if !byText && len(ours.Tokens) == len(theirs.Tokens) {
		return ledger.Identical, ""
	}
	return ledger.Different, fmt.Sprintf("%d bytes in place of %d", len(theirs.Text), len(ours.Text))
}

// gapOf is how far apart the log probabilities of two choices are, in the judgement of the server that
// sees them farther from each other: where only one is in doubt, the distributions differ.
func gapOf(a, b Token) (gap float64, known bool) {
	for _, top := range []map[string]float64{a.Top, b.Top} {
		first, has := likelihood(top, a)
		second, too := likelihood(top, b)
		if has && too {
			gap, known = max(gap, math.Abs(first-second)), true
		}
	}
	return gap, known
}

func likelihood(top map[string]float64, token Token) (float64, bool) {
	if value, is := top[token.Text]; is && token.Text != "" {
		return value, true
	}
	value, is := top[strconv.Itoa(token.ID)]
	return value, is
}

func nameOf(token Token) string {
	if token.ID >= 0 {
		return fmt.Sprintf("%d (%q)", token.ID, token.Text)
	}
	return strconv.Quote(token.Text)
}
