package chart

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"errors"
	"fmt"
	"html/template"
	"io"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"

	"ossian/internal/bench/report"
)

var (
	//go:embed page/report.html
	pageHTML string
	//go:embed page/report.css
	pageCSS string
	//go:embed page/report.js
	pageJS string
)

// StyleSheet is that of reports, for those of other measurements to look alike.
func StyleSheet() string { return pageCSS }

// What a report shows of its runs, all together. Beyond, it says what it leaves out.
const (
	maxRows    = 240     // requests in timelines
	maxBars    = 40_000  // their bars
	maxGaps    = 120_000 // gaps between tokens that the pointer finds
	maxTable   = 1000    // requests in tables
	maxDetail  = 1_000_000
	maxText    = 8 << 20 // bytes of answers in the raw data
	leastShown = 20      // requests of each run, however many runs there are
)

// The same for the timeline in a file of its own.
const (
	maxOwnRows = 2000
	maxOwnBars = 120_000
	maxOwnGaps = 600_000
	ownRow     = 12 // pixels, as in the style sheet
)

// A page is what the templates show.
type page struct {
	Title, Subtitle string
	Style           template.CSS
	Script          template.JS
	Single          bool
	Columns         []string // of the table of runs
	Figures         []drawing
	Sections        []section
	Timeline        view
	Facts           []pair
	Data            download
}

// A drawing is a figure in a page.
type drawing struct {
	Label string
	SVG   template.HTML
}

// HTML writes a report of runs as one file: verdicts, numbers, figures, timelines with
// details under the pointer, the requests, how it was measured, and the raw data. The
// page runs the script in it and no other, and loads nothing: a policy in its head says
// so to the browser.
func HTML(dst io.Writer, title string, runs []Run) error {
	if len(runs) == 0 {
		return errors.New("chart: a report of no runs: give at least one")
	}
	all := newSeries(runs)
	first := runs[0].Summary                      // as they were given, before they are sorted
	if l := loadOf(overviews(all)); l != noLoad { // a search measures them in another order
		slices.SortStableFunc(all, func(a, b *series) int { return cmp.Compare(l.of(&a.overview), l.of(&b.overview)) })
	}
	content := page{Title: clip(title, 200), Single: len(runs) == 1}
	content.Subtitle = fmt.Sprintf("%d runs, the first begun %s", len(runs), first.Began.Format("2006-01-02 15:04:05 -0700"))
	if content.Single {
		content.Subtitle = fmt.Sprintf("%s, begun %s, %s", clip(all[0].kind, 100), first.Began.Format("2006-01-02 15:04:05 -0700"), clip(first.Setup.URL, 200))
	}
	for i, s := range all {
		sec, err := s.section(i, len(all))
		if err != nil {
			return err
		}
		content.Sections = append(content.Sections, sec)
	}
	if err := content.draw(figures(all)); err != nil {
		return err
	}
	return content.write(dst, "report")
}

// TimelineHTML writes the timeline of a run as a page of its own, a row for each request
// (bench.md 1.9).
func TimelineHTML(dst io.Writer, r Run, limits Thresholds) error {
	run := newSeries([]Run{r})[0]
	timeline := run.timeline(limits, maxOwnRows, maxOwnBars)
	view := timeline.view(run, 0, maxOwnGaps)
	view.Height = ownRow * max(1, len(timeline.rows))
	for _, i := range timeline.rows {
		view.Labels = append(view.Labels, "Req "+strconv.Itoa(i))
	}
	p := page{Title: "Requests over time", Subtitle: clip(run.name, 200), Timeline: view}
	return p.write(dst, "timelinePage")
}

// draw puts figures into the page.
func (p *page) draw(figures []*Figure) error {
	for _, figure := range figures {
		var buffer bytes.Buffer
		if err := figure.SVG(&buffer); err != nil {
			return err
		}
		svg := buffer.Bytes()
		p.Figures = append(p.Figures, drawing{clean(figure.Title), template.HTML(svg[bytes.Index(svg, []byte("<svg")):])})
	}
	return nil
}

// write writes the page by a template. The policy allows the script of this page and no
// other, by its hash.
func (p *page) write(dst io.Writer, name string) error {
	p.Style, p.Script = template.CSS(pageCSS), template.JS(pageJS)
	for _, c := range columns {
		p.Columns = append(p.Columns, c.name)
	}
	hash := sha256.Sum256([]byte(pageJS))
	policy := "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'; script-src 'sha256-" +
		base64.StdEncoding.EncodeToString(hash[:]) + "'"
	templates, err := template.New("").Parse(strings.Replace(pageHTML, "@policy@", policy, 1))
	if err != nil {
		panic("chart: template of the report: " + err.Error())
	}
	if err := templates.ExecuteTemplate(dst, name, p); err != nil {
		return fmt.Errorf("chart: report: %w", err)
	}
	return nil
}

// A section is what a report shows of one run.
type section struct {
	ID          int
	Name        string
	Verdict     string // good, warn, bad; none = nobody judged
	Short       string // the same in a table
	VerdictText string
	Findings    []string
	Values      []string // of the table of runs
	Cards       []pair
	Stats       []string
	Metrics     []metric
	Uncertain   string
	Timeline    view
	Table       table
	Command     string
	Facts       []pair
	Console     string
	Data        download
}

// A pair is a fact: what it is about, and what it is.
type pair struct{ Key, Value string }

// A download is a file in a page.
type download struct {
	Name string
	Data template.URL
	Size string
	Note string // what is not in it
}

// section describes a run, the one with that index of so many.
func (s *series) section(index, runs int) (section, error) {
	sum := s.Summary
	sec := section{ID: index, Name: clip(s.name, 100), Cards: s.cards(), Command: clean(commandLine(sum.Setup.Args)), Facts: s.facts(),
		Values: s.cells(), Console: clean(sum.Console() + "\n" + sum.OssianConsole())}
	sec.judge(&sum.Ossian)
	sec.Stats, sec.Metrics, sec.Uncertain = latencyTable(sum)
	t := s.timeline(DefaultThresholds, max(leastShown, maxRows/runs), max(leastShown, maxBars/runs))
	sec.Timeline = t.view(s, index, maxGaps/runs)
	sec.Table = s.table(max(leastShown, maxTable/runs))
	var err error
	sec.Data, err = s.download(runs)
	return sec, err
}

// judge says whether the numbers may be quoted; nil = they were made by another tool.
func (sec *section) judge(ext *report.Extension) {
	if ext == nil {
		sec.Short, sec.VerdictText = "–", "Not checked: another tool made these numbers"
		return
	}
	// Findings of both kinds are shown; the worst decides.
	for _, finding := range ext.Findings {
		kind, touched := "invalid: ", "; it touches "+finding.Touched()
		if finding.Warning {
			kind, touched = "warning: ", ""
		}
		sec.Findings = append(sec.Findings, fmt.Sprintf("%s%s %s (bound %s)%s", kind, fourDigits(finding.Measured), clean(finding.What), fourDigits(finding.Bound), clean(touched)))
	}
	switch {
	case !ext.Valid:
		sec.Verdict, sec.Short, sec.VerdictText = "bad", "not valid", "Not valid: do not quote these numbers"
	case len(sec.Findings) > 0:
		sec.Verdict, sec.Short, sec.VerdictText = "warn", "warnings", "Valid, with warnings"
	default:
		sec.Verdict, sec.Short, sec.VerdictText = "good", "valid", "Valid: no fault was found"
	}
}

// download packs the result file of one of several runs, with all values where these are
// few enough.
func (s *series) download(runs int) (download, error) {
	// The page must open in a browser, so large runs go in without what is largest.
	bytesOfText := 0
	for i := range s.Summary.Requests {
		bytesOfText += len(s.Summary.Requests[i].Text)
	}
	detailed := s.Summary.ITL.N <= maxDetail/runs && bytesOfText <= maxText/runs
	text, err := s.Summary.JSON(detailed)
	if err != nil {
		return download{}, err
	}
	name := path.Base(strings.ReplaceAll(s.Summary.FileName(), `\`, "/"))
	download, err := pack(clip(strings.TrimSuffix(name, path.Ext(name)), 120)+".json", text)
	if !detailed {
		download.Note = "Values of single tokens and texts are left out here for their size; the result file of --save-detailed has them."
	}
	return download, err
}

// pack makes a download of text.
func pack(name string, text []byte) (download, error) {
	var buffer bytes.Buffer
	packed := gzip.NewWriter(&buffer)
	if _, err := packed.Write(text); err != nil {
		return download{}, err
	}
	if err := packed.Close(); err != nil {
		return download{}, err
	}
	return download{Name: name + ".gz", Data: template.URL("data:application/gzip;base64," + base64.StdEncoding.EncodeToString(buffer.Bytes())),
		Size: fmt.Sprintf("JSON, %d kB compressed", (buffer.Len()+999)/1000)}, nil
}

// A view is a timeline in a page.
type view struct {
	ID     int
	Span   int64
	Rows   int
	Height int // pixels
	Keys   []key
	Labels []string // of the rows; nil = none
	Note   string
	Hover  []hover
}

// A key is a class of bars: Name in the legend, Path its bars.
type key struct{ Class, Name, Path string }

// view returns the timeline as the page shows it; at most gaps gaps are found by the pointer.
func (t *timeline) view(s *series, id, gaps int) view {
	all := len(s.Summary.Requests)
	shown := view{ID: id, Span: max(1, t.end), Rows: max(1, len(t.rows)), Height: min(max(90, 6*len(t.rows)), 640), Hover: t.underPointer(s, gaps),
		Note: rowsShown(len(t.rows), all) + ". Point at a bar for its times; drag to zoom, double-click to go back."}
	styles := [classes]string{fast: "fast", first: "first", slow: "slow", slowest: "slowest", failed: "lost"}
	names := t.classNames()
	for _, class := range t.legend() {
		shown.Keys = append(shown.Keys, key{styles[class], names[class], t.path(class)})
	}
	return shown
}

// fourDigits writes a number with four digits.
func fourDigits(value float64) string {
	if math.IsNaN(value) || math.IsInf(value, 0) {
		return "–"
	}
	if a := math.Abs(value); a >= 10_000 && a < 1e15 {
		return strconv.FormatFloat(value, 'f', 0, 64)
	}
	return strconv.FormatFloat(value, 'g', 4, 64)
}

// commandLine writes the arguments as one would type them; flags alone are those of bench serve.
func commandLine(args []string) string {
	if len(args) > 0 && strings.HasPrefix(args[0], "-") {
		args = append([]string{"ossian", "bench", "serve"}, args...)
	}
	quoted := make([]string, len(args))
	for i, arg := range args {
		plain := arg != "" && !strings.ContainsFunc(arg, func(r rune) bool {
			return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_=./:,+@%", r)
		})
		quoted[i] = arg
		if !plain {
			quoted[i] = "'" + strings.ReplaceAll(arg, "'", `'\''`) + "'"
		}
	}
	return strings.Join(quoted, " ")
}

// A table shows single requests.
type table struct {
	Title   string
	Columns []string
	Rows    []tableRow
}

// A tableRow is a request: numbers under the columns, and its text or error.
type tableRow struct {
	Numbers []string
	Text    string
	Failed  bool
}

// table lists the requests, of many those that failed or took longest.
func (s *series) table(most int) table {
	all := s.Summary.Requests
	list := table{Title: fmt.Sprintf("%d requests", len(all)), Columns: []string{"request", "start (s)", "queue (ms)", "TTFT (ms)", "TPOT (ms)",
		"longest ITL (ms)", "E2EL (ms)", "prompt tokens", "output tokens", "text or error"}}
	picked := make([]int, len(all))
	for i := range picked {
		picked[i] = i
	}
	if len(all) > most {
		list.Title = fmt.Sprintf("%d of %d requests: those that failed, then the slowest", most, len(all))
		slices.SortStableFunc(picked, func(left, right int) int {
			if all[left].OK != all[right].OK {
				if all[left].OK {
					return 1
				}
				return -1
			}
			return cmp.Compare(all[right].Latency, all[left].Latency)
		})
		picked = picked[:most]
		slices.Sort(picked) // shown in their order all the same
	}
	for _, i := range picked {
		list.Rows = append(list.Rows, s.row(i))
	}
	return list
}

// row describes a request; of one that failed what is known of it.
func (s *series) row(index int) tableRow {
	request := &s.Summary.Requests[index]
	start, _, _ := s.bounds(index)
	row := tableRow{Failed: !request.OK, Text: reason(request), Numbers: []string{strconv.Itoa(index), fmt.Sprintf("%.3f", start), inMS(request.Queue)}}
	if !request.OK {
		row.Numbers = append(row.Numbers, "–", "–", "–", "–", strconv.Itoa(request.Input), "–")
		return row
	}
	tpot, longest := "–", "–"
	if request.Output > 1 {
		tpot = inMS((request.Latency - request.TTFT) / float64(request.Output-1)) // bench.md 1.6
	}
	if len(request.ITL) > 0 {
		longest = inMS(slices.Max(request.ITL))
	}
	row.Text = clip(request.Text, 80)
	row.Numbers = append(row.Numbers, inMS(request.TTFT), tpot, longest, inMS(request.Latency), strconv.Itoa(request.Input), strconv.Itoa(request.Output))
	return row
}

// inMS writes seconds as milliseconds.
func inMS(seconds float64) string { return decimal(seconds*1000, 2) }
