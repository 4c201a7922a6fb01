// Package report writes what a campaign of the lab found: Markdown in the layout of published tuning
// reports, one HTML page, and figures as SVG and PNG (lab.md 8, bench.md 5). It reads the ledger and
// nothing else: the same ledger gives the same bytes.
package report

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"ossian/internal/bench/chart"
	"ossian/internal/lab/ledger"
)

// Names of the two forms of a report.
const (
	MarkdownName = "report.md"
	HTMLName     = "report.html"
)

// A Report is one that is written, but not yet to files.
type Report struct {
	Markdown []byte
	HTML     []byte
	Figures  map[string][]byte // by file name
}

// Write writes the report of the ledger in dir beside it, and returns the path of the Markdown. A ledger
// that is broken is reported as far as it is whole; the error says where it breaks, and the report as well.
func Write(dir string) (string, error) {
	lines, err := ledger.Read(dir)
	var broken *ledger.BrokenError
	if err != nil && !errors.As(err, &broken) {
		return "", err
	}
	made, makeErr := Make(lines, broken)
	if makeErr != nil {
		return "", errors.Join(err, makeErr)
	}
	files := map[string][]byte{MarkdownName: made.Markdown, HTMLName: made.HTML}
	for name, data := range made.Figures {
		files[name] = data
	}
	for name, data := range files {
		if writeErr := ledger.WriteFile(filepath.Join(dir, name), data); writeErr != nil {
			return "", errors.Join(err, writeErr)
		}
	}
	return filepath.Join(dir, MarkdownName), err
}

// Make makes the report of a ledger's lines. broken is where the ledger breaks off, nil if it does not.
func Make(lines []ledger.Line, broken *ledger.BrokenError) (*Report, error) {
	f := gather(lines)
	if len(f.campaign.Models) == 0 {
		return nil, errors.New("the ledger has no campaign: nothing was begun")
	}
	whole := &document{}
	var figures []drawing
	several := len(f.campaign.Models) > 1
	if several {
		whole.heading(1, fmt.Sprintf("Optimizing %s on %s", plural(len(f.campaign.Models), "model"), f.hardwareOf()))
		f.warn(whole, broken)
	}
	for i, model := range f.campaign.Models {
		c := newChapter(f, model, "")
		level := 1
		if several {
			c.prefix = fmt.Sprintf("model%d-", i+1)
			level = 2
		}
		c.heading(level, c.title())
		if !several {
			f.warn(&c.document, broken)
		}
		c.write(level + 1)
		whole.parts = append(whole.parts, c.parts...)
		figures = append(figures, c.figures...)
	}
	return publish(whole, figures)
}

// write writes the parts of a chapter in the published order, ours behind them.
func (c *chapter) write(level int) {
	c.conclusion(level)
	c.objective(level)
	c.setup(level)
	c.results(level)
	c.summary(level)
	c.service(level)
	c.generalised(level)
	c.behind()
	c.comparedPart(level)
	c.failures(level)
	c.equalities(level)
	c.predictions(level)
	c.frontierPart(level)
	c.cost(level)
	c.steadiness(level)
	c.repeat(level)
}

// warn says what a reader must know before anything else: that the campaign is not over, that the
// ledger is broken, that nothing was measured.
func (f *facts) warn(d *document, broken *ledger.BrokenError) {
	switch {
	case broken != nil:
		d.quote(say(fmt.Sprintf("The ledger breaks off in line %d: %s. What follows rests on the lines before.", broken.Line, broken.Why)))
	case f.end == nil:
		d.quote(say(fmt.Sprintf("This campaign is not finished: %s so far, %d under way. Decisions may change.", plural(len(f.trials), "trial"), f.open)))
	case f.undecidedAll():
		d.quote(say("Nothing could be decided: no engine served the whole workload. What failed says why."))
	case f.end.State != "done":
		d.quote(say(ending(f.end)))
	}
	if f.campaign.Simulated {
		d.quote(say("Simulated: every figure comes from a clock, none from a server."))
	}
}

// undecidedAll reports whether no model has a setting to recommend.
func (f *facts) undecidedAll() bool {
	return !slices.ContainsFunc(f.decisions, func(d ledger.Decision) bool { return d.Stage == ledger.StageWinner && d.Setting != nil })
}

// ending says why a campaign ended before all was decided.
func ending(end *ledger.End) string {
	words := map[string]string{"budget": "The budget was spent before everything was decided.", "interrupted": "The campaign was interrupted; it goes on where it was."}[end.State]
	if words == "" {
		words = "The campaign ended early: " + end.State + "."
	}
	if end.Text != "" {
		words += " " + sentence(end.Text)
	}
	return words
}

// publish writes the forms of a document and its figures.
func publish(d *document, figures []drawing) (*Report, error) {
	page, err := d.html()
	if err != nil {
		return nil, err
	}
	out := &Report{Markdown: d.markdown(), HTML: page, Figures: map[string][]byte{}}
	for _, picture := range figures {
		name := nameOfFigure(picture)
		for _, form := range []struct {
			ending string
			write  func(*bytes.Buffer) error
		}{
			{".svg", func(dst *bytes.Buffer) error { return picture.SVG(dst) }},
			{".png", func(dst *bytes.Buffer) error { return picture.PNG(dst) }},
		} {
			var data bytes.Buffer
			if err := form.write(&data); err != nil {
				return nil, err
			}
			out.Figures[name+form.ending] = data.Bytes()
		}
	}
	return out, nil
}

// nameOfFigure is the name that a picture carries.
func nameOfFigure(picture drawing) string {
	switch picture := picture.(type) {
	case *bars:
		return picture.Name
	case *chart.Forest:
		return picture.Name
	case *chart.Figure:
		return picture.Name
	}
	panic(fmt.Sprintf("report: a picture of type %T has no name", picture))
}
