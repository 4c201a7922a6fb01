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

type drawing struct {
	Label string
	SVG   template.HTML
}

// HTML writes a report of runs as one file: verdicts, numbers, figures, timelines with
// details under the pointer, the requests, how it was measured, and the raw data. The
// page runs the script in it and no other, and loads nothing: a policy in its head says
// so to the browser.
func HTML(w io.Writer, title string, runs []Run) error {
	if len(runs) == 0 {
		return errors.New("chart: a report of no runs: give at least one")
	}
	all := read(runs)
	first := runs[0].Summary
	if l := loadOf(overviews(all)); l != noLoad { // a search measures them in another order
		slices.SortStableFunc(all, func(a, b *series) int { return cmp.Compare(l.of(&a.overview), l.of(&b.overview)) })
	}
	p := page{Title: clip(title, 200), Single: len(runs) == 1}
	p.Subtitle = fmt.Sprintf("%d runs, the first begun %s", len(runs), first.Began.Format("2006-01-02 15:04:05 -0700"))
	if p.Single {
		p.Subtitle = fmt.Sprintf("%s, begun %s, %s", clip(all[0].kind, 100), first.Began.Format("2006-01-02 15:04:05 -0700"), clip(first.Setup.URL, 200))
	}
	for i, s := range all {
		sec, err := s.section(i, len(all))
		if err != nil {
			return err
		}
		p.Sections = append(p.Sections, sec)
	}
	if err := p.draw(figures(all)); err != nil {
		return err
	}
	return p.write(w, "report")
}

// TimelineHTML writes the timeline of a run as a page of its own, a row for each request
// (bench.md 1.9).
func TimelineHTML(w io.Writer, r Run, limits Thresholds) error {
	s := read([]Run{r})[0]
	t := s.timeline(limits, maxOwnRows, maxOwnBars)
	v := t.view(s, 0, maxOwnGaps)
	v.Height = ownRow * max(1, len(t.rows))
	for _, i := range t.rows {
		v.Labels = append(v.Labels, "Req "+strconv.Itoa(i))
	}
	p := page{Title: "Requests over time", Subtitle: clip(s.name, 200), Timeline: v}
	return p.write(w, "timelinePage")
}

// draw puts figures into the page.
func (p *page) draw(figures []*Figure) error {
	for _, f := range figures {
		var b bytes.Buffer
		if err := f.SVG(&b); err != nil {
			return err
		}
		svg := b.Bytes()
		p.Figures = append(p.Figures, drawing{clean(f.Title), template.HTML(svg[bytes.Index(svg, []byte("<svg")):])})
	}
	return nil
}

func (p *page) write(w io.Writer, name string) error {
	p.Style, p.Script = template.CSS(pageCSS), template.JS(pageJS)
	for _, c := range columns {
		p.Columns = append(p.Columns, c.name)
	}
	hash := sha256.Sum256([]byte(pageJS))
	policy := "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'; script-src 'sha256-" +
		base64.StdEncoding.EncodeToString(hash[:]) + "'"
	t, err := template.New("").Parse(strings.Replace(pageHTML, "@policy@", policy, 1))
	if err != nil {
		panic("chart: template of the report: " + err.Error())
	}
	if err := t.ExecuteTemplate(w, name, p); err != nil {
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

type pair struct{ Key, Value string }

// A download is a file in a page.
type download struct {
	Name string
	Data template.URL
	Size string
	Note string // what is not in it
}

// section describes run i of n.
func (s *series) section(i, n int) (section, error) {
	sum := s.Summary
	sec := section{ID: i, Name: clip(s.name, 100), Cards: s.cards(), Command: clean(command(sum.Setup.Args)), Facts: s.facts(),
		Values: s.cells(), Console: clean(sum.Console() + "\n" + sum.OssianConsole())}
	sec.judge(&sum.Ossian)
	sec.Stats, sec.Metrics, sec.Uncertain = latencies(sum)
	t := s.timeline(DefaultThresholds, max(leastShown, maxRows/n), max(leastShown, maxBars/n))
	sec.Timeline = t.view(s, i, maxGaps/n)
	sec.Table = s.table(max(leastShown, maxTable/n))
	var err error
	sec.Data, err = s.download(n)
	return sec, err
}

// judge says whether the numbers may be quoted; x nil = they were made by another tool.
func (sec *section) judge(x *report.Extension) {
	if x == nil {
		sec.Short, sec.VerdictText = "–", "Not checked: another tool made these numbers"
		return
	}
	for _, f := range x.Findings {
		kind := "invalid: "
		if f.Warning {
			kind = "warning: "
		}
		sec.Findings = append(sec.Findings, fmt.Sprintf("%s%s %s (bound %s)", kind, short(f.Measured), clean(f.What), short(f.Bound)))
	}
	switch {
	case !x.Valid:
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
	d, err := pack(clip(strings.TrimSuffix(name, path.Ext(name)), 120)+".json", text)
	if !detailed {
		d.Note = "Values of single tokens and texts are left out here for their size; the result file of --save-detailed has them."
	}
	return d, err
}

// pack makes a download of text.
func pack(name string, text []byte) (download, error) {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write(text); err != nil {
		return download{}, err
	}
	if err := z.Close(); err != nil {
		return download{}, err
	}
	return download{Name: name + ".gz", Data: template.URL("data:application/gzip;base64," + base64.StdEncoding.EncodeToString(b.Bytes())),
		Size: fmt.Sprintf("JSON, %d kB compressed", (b.Len()+999)/1000)}, nil
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

// view returns t as the page shows it; at most gaps gaps are found by the pointer.
func (t *timeline) view(s *series, id, gaps int) view {
	all := len(s.Summary.Requests)
	v := view{ID: id, Span: max(1, t.end), Rows: max(1, len(t.rows)), Height: min(max(90, 6*len(t.rows)), 640), Hover: t.hovers(s, gaps),
		Note: shown(len(t.rows), all) + ". Point at a bar for its times; drag to zoom, double-click to go back."}
	styles := [classes]string{fast: "fast", first: "first", slow: "slow", slowest: "slowest", failed: "lost"}
	names := t.classNames()
	for _, class := range t.legend() {
		v.Keys = append(v.Keys, key{styles[class], names[class], t.path(class)})
	}
	return v
}

// short writes a number with four digits.
func short(v float64) string {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return "–"
	}
	if a := math.Abs(v); a >= 10_000 && a < 1e15 {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strconv.FormatFloat(v, 'g', 4, 64)
}

// command writes the arguments as one would type them; flags alone are those of bench serve.
func command(args []string) string {
	if len(args) > 0 && strings.HasPrefix(args[0], "-") {
		args = append([]string{"ossian", "bench", "serve"}, args...)
	}
	quoted := make([]string, len(args))
	for i, a := range args {
		plain := a != "" && !strings.ContainsFunc(a, func(r rune) bool {
			return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_=./:,+@%", r)
		})
		quoted[i] = a
		if !plain {
			quoted[i] = "'" + strings.ReplaceAll(a, "'", `'\''`) + "'"
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

type tableRow struct {
	Numbers []string
	Text    string
	Failed  bool
}

// table lists the requests, of many those that failed or took longest.
func (s *series) table(most int) table {
	all := s.Summary.Requests
	t := table{Title: fmt.Sprintf("%d requests", len(all)), Columns: []string{"request", "start (s)", "queue (ms)", "TTFT (ms)", "TPOT (ms)",
		"longest ITL (ms)", "E2EL (ms)", "prompt tokens", "output tokens", "text or error"}}
	picked := make([]int, len(all))
	for i := range picked {
		picked[i] = i
	}
	if len(all) > most {
		t.Title = fmt.Sprintf("%d of %d requests: those that failed, then the slowest", most, len(all))
		slices.SortStableFunc(picked, func(a, b int) int {
			if all[a].OK != all[b].OK {
				if all[a].OK {
					return 1
				}
				return -1
			}
			return cmp.Compare(all[b].Latency, all[a].Latency)
		})
		picked = picked[:most]
		slices.Sort(picked)
	}
	for _, i := range picked {
		t.Rows = append(t.Rows, s.row(i))
	}
	return t
}

func (s *series) row(i int) tableRow {
	q := &s.Summary.Requests[i]
	start, _, _ := s.bounds(i)
	r := tableRow{Failed: !q.OK, Text: reason(q), Numbers: []string{strconv.Itoa(i), fmt.Sprintf("%.3f", start), inMS(q.Queue)}}
	if !q.OK {
		r.Numbers = append(r.Numbers, "–", "–", "–", "–", strconv.Itoa(q.Input), "–")
		return r
	}
	tpot, longest := "–", "–"
	if q.Output > 1 {
		tpot = inMS((q.Latency - q.TTFT) / float64(q.Output-1)) // bench.md 1.6
	}
	if len(q.ITL) > 0 {
		longest = inMS(slices.Max(q.ITL))
	}
	r.Text = clip(q.Text, 80)
	r.Numbers = append(r.Numbers, inMS(q.TTFT), tpot, longest, inMS(q.Latency), strconv.Itoa(q.Input), strconv.Itoa(q.Output))
	return r
}

func inMS(seconds float64) string { return decimal(seconds*1000, 2) }
