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
	s := sheet{Title: "Evaluation of " + strings.Join(out.Asked.Models, ", "), Style: template.CSS(chart.StyleSheet()), Figure: figure,
		Subtitle: fmt.Sprintf("begun %s at %s", out.Began.Format("2006-01-02 15:04:05 MST"), out.Server.URL),
		Findings: out.Findings, Notes: out.Notes, Scores: show(scores(out)), Outcomes: show(outcomes(out)), Facts: facts(out)}
	s.Verdict, s.Words = verdict(out)
	for _, run := range out.Runs {
		if run.Reference != nil {
			s.Cards = append(s.Cards, pair{run.Label() + ", " + run.Effort, percent(run.Reference.Mean) + " %"})
		}
		s.Questions = append(s.Questions, hardest(run))
	}
	if len(out.Compared) > 0 {
		t := show(published(out))
		s.Published = &t
	}
	if len(s.Cards) > 12 {
		s.Cards = s.Cards[:12]
	}
	return page.Execute(dst, s)
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
	f := chart.Forest{Name: "scores", Title: "Scores by the published rule, with the interval for questions like these", Unit: "%"}
	for _, run := range out.Runs {
		s := run.Reference
		if s == nil {
			continue // nothing was answered
		}
		effect := chart.Effect{Label: chart.Drawable(run.Label() + ", " + run.Effort), Value: 100 * s.Mean, Low: math.NaN(), High: math.NaN(), Kept: true, Text: percent(s.Mean)}
		if s.Sample != nil {
			effect.Low, effect.High = 100*s.Sample.Low, 100*s.Sample.High
			effect.Text += " (" + interval(s.Sample.Interval) + ")"
		}
		f.Effects = append(f.Effects, effect)
	}
	var buffer bytes.Buffer
	if err := f.SVG(&buffer); err != nil {
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
		r := at[item.Question]
		if r == nil {
			r = &row{id: item.ID}
			at[item.Question] = r
			list = append(list, r)
		}
		if item.Outcome == eval.Failed {
			continue
		}
		r.asked++
		r.tokens += max(item.Output, 0)
		if item.ReferenceRight {
			r.right++
		}
		if item.Outcome == eval.Right {
			r.strict++
		}
	}
	slices.SortStableFunc(list, func(a, b *row) int { return a.right - b.right })
	q := questions{Name: fmt.Sprintf("%s, %s, %s: %d questions, those answered rightly least first", run.Label(), run.Model, run.Effort, len(list))}
	for _, r := range list[:min(len(list), mostQuestions)] {
		q.Rows = append(q.Rows, []string{r.id, fmt.Sprintf("%d of %d", r.right, r.asked), fmt.Sprintf("%d of %d", r.strict, r.asked), fmt.Sprint(r.tokens / max(r.asked, 1))})
	}
	return q
}
