package report

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"math"
	"slices"
	"strings"

	"ossian/internal/bench/chart"
	"ossian/internal/eval"
)

//go:embed page.html
var pageHTML string

var page = template.Must(template.New("page").Parse(pageHTML))

// A sheet is what the page shows.
type sheet struct {
	Title, Subtitle  string
	Style            template.CSS
	Verdict, Words   string
	Findings, Notes  []string
	Cards            []pair
	Figure           template.HTML
	Scores, Outcomes shown
	Published        *shown
	Facts            []pair
	Questions        []questions
}

type pair struct{ Key, Value string }

// A shown is a table in the page.
type shown struct {
	Names []string
	Rows  [][]string
}

// A questions is the table of the questions of a run, the hardest first.
type questions struct {
	Name string
	Rows [][]string
}

// mostQuestions is how many questions of a run the page lists.
const mostQuestions = 250

// HTML writes a result as a page of one file, which runs no script and loads nothing.
func HTML(dst io.Writer, out *eval.Result) error {
	figure, err := forest(out)
	if err != nil {
		return err
	}
	shown := sheet{Title: "Evaluation of " + strings.Join(out.Asked.Models, ", "), Style: template.CSS(chart.StyleSheet()), Figure: figure,
		Subtitle: fmt.Sprintf("begun %s at %s", out.Began.Format("2006-01-02 15:04:05 MST"), out.Server.URL),
		Findings: out.Findings, Notes: out.Notes, Scores: show(scores(out)), Outcomes: show(outcomes(out)), Facts: facts(out)}
	shown.Verdict, shown.Words = verdict(out)
	for _, run := range out.Runs {
		if run.Reference != nil {
			shown.Cards = append(shown.Cards, pair{run.Label() + ", " + run.Effort, percent(run.Reference.Mean) + " %"})
		}
		shown.Questions = append(shown.Questions, hardest(run))
	}
	if len(out.Compared) > 0 {
		table := show(published(out))
		shown.Published = &table
	}
	if len(shown.Cards) > 12 {
		shown.Cards = shown.Cards[:12]
	}
	return page.Execute(dst, shown)
}

func show(t table) shown { return shown{t.names, t.rows} }

// verdict says whether the scores count.
func verdict(out *eval.Result) (class, words string) {
	switch {
	case !out.Valid:
		return "bad", "Not valid: too many answers failed"
	case !out.Complete:
		return "warn", "Not complete: a part of the answers is missing"
	case len(out.Findings) > 0:
		return "warn", "Valid, with findings"
	}
	return "good", "Valid: nothing was found"
}

// forest draws the scores of the runs with their intervals.
func forest(out *eval.Result) (template.HTML, error) {
	figure := chart.Forest{Name: "scores", Title: "Scores by the published rule, with the interval for questions like these", Unit: "%"}
	for _, run := range out.Runs {
		score := run.Reference
		if score == nil {
			continue // nothing was answered
		}
		effect := chart.Effect{Label: chart.Drawable(run.Label() + ", " + run.Effort), Value: 100 * score.Mean, Low: math.NaN(), High: math.NaN(), Kept: true, Text: percent(score.Mean)}
		if score.Sample != nil {
			effect.Low, effect.High = 100*score.Sample.Low, 100*score.Sample.High
			effect.Text += " (" + interval(score.Sample.Interval) + ")"
		}
		figure.Effects = append(figure.Effects, effect)
	}
	var buffer bytes.Buffer
	if err := figure.SVG(&buffer); err != nil {
		return "", err
	}
	svg := buffer.Bytes()
	return template.HTML(svg[bytes.Index(svg, []byte("<svg")):]), nil
}

// facts say how it was done.
func facts(out *eval.Result) []pair {
	asked := out.Asked
	list := []pair{{"Ossian", out.Version}, {"server", out.Server.URL}, {"its version", out.Server.Version},
		{"system_fingerprint", strings.Join(out.Fingerprint, ", ")}, {"API", string(asked.API)}, {"temperature", fmt.Sprint(asked.Temperature)},
		{"max tokens", fmt.Sprint(asked.MaxTokens)}, {"answers a question", fmt.Sprint(asked.Repeats)}, {"tools", strings.Join(asked.Tools, ", ")}}
	if asked.Seed != nil {
		list = append(list, pair{"seed", fmt.Sprint(*asked.Seed)})
	}
	for _, name := range []string{"device", "kv_dtype", "isa", "activation_bits", "max_model_len"} {
		list = append(list, pair{name, out.Server.Engine[name]})
	}
	for _, t := range asked.Tasks {
		list = append(list, pair{"data of " + t.Name, fmt.Sprintf("%d rows, SHA-256 %s", t.Rows, t.SHA256)})
	}
	return slices.DeleteFunc(list, func(p pair) bool { return p.Value == "" })
}

// hardest lists the questions of a run by how often they were answered rightly.
func hardest(run *eval.RunResult) questions {
	type row struct {
		id                   string
		right, strict, asked int
		tokens               int
	}
	at := map[int]*row{}
	var list []*row
	for _, item := range run.Items {
		found := at[item.Question]
		if found == nil {
			found = &row{id: item.ID}
			at[item.Question] = found
			list = append(list, found)
		}
		if item.Outcome == eval.Failed {
			continue
		}
		found.asked++
		found.tokens += max(item.Output, 0)
		if item.ReferenceRight {
			found.right++
		}
		if item.Outcome == eval.Right {
			found.strict++
		}
	}
	// Stable, so that questions alike in that stay in the order of the data set.
	slices.SortStableFunc(list, func(a, b *row) int { return a.right - b.right })
	listed := questions{Name: fmt.Sprintf("%s, %s, %s: %d questions, those answered rightly least first", run.Label(), run.Model, run.Effort, len(list))}
	for _, r := range list[:min(len(list), mostQuestions)] {
		listed.Rows = append(listed.Rows, []string{r.id, fmt.Sprintf("%d of %d", r.right, r.asked), fmt.Sprintf("%d of %d", r.strict, r.asked), fmt.Sprint(r.tokens / max(r.asked, 1))})
	}
	return listed
}
