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
	p := page{Title: clip(title, 200), Single: len(runs) == 1}
	first := runs[0].Summary
	p.Subtitle = fmt.Sprintf("%d runs, the first begun %s", len(runs), first.Began.Format("2006-01-02 15:04:05 -0700"))
	if p.Single {
		p.Subtitle = fmt.Sprintf("%s, begun %s, %s", clip(all[0].name, 100), first.Began.Format("2006-01-02 15:04:05 -0700"), clip(first.Setup.URL, 200))
	}
	for _, c := range runColumns {
		p.Columns = append(p.Columns, c.name)
	}
	for i, s := range all {
		sec, err := s.section(i, len(all))
		if err != nil {
			return err
		}
		p.Sections = append(p.Sections, sec)
	}
	for _, f := range figures(all, loadOf(runs)) {
		d, err := inline(f)
		if err != nil {
			return err
		}
		p.Figures = append(p.Figures, d)
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

func (p *page) write(w io.Writer, name string) error {
	p.Style, p.Script = template.CSS(pageCSS), template.JS(pageJS)
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

// inline returns a figure as it stands in a page.
func inline(f *Figure) (drawing, error) {
	var b bytes.Buffer
	if err := f.SVG(&b); err != nil {
		return drawing{}, err
	}
	svg := b.Bytes()
	return drawing{f.Title, template.HTML(svg[bytes.Index(svg, []byte("<svg")):])}, nil
}

// A section is what a report shows of one run.
type section struct {
	ID          int
	Name        string
	Verdict     string // good, warn, bad
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
	File        string
	Data        template.URL
	Size        string
	DataNote    string
}

type pair struct{ Key, Value string }

// section describes run i of n.
func (s *series) section(i, n int) (section, error) {
	sum := s.Summary
	sec := section{ID: i, Name: clip(s.name, 100), Cards: s.cards(), Command: clean(command(sum.Setup.Args)), Facts: s.facts(),
		Console: clean(sum.Console() + "\n" + sum.OssianConsole())}
	sec.verdict(sum)
	for _, c := range runColumns {
		sec.Values = append(sec.Values, c.value(s))
	}
	sec.Stats, sec.Metrics, sec.Uncertain = latencies(sum)
	t := s.timeline(DefaultThresholds, max(leastShown, maxRows/n), max(leastShown, maxBars/n))
	sec.Timeline = t.view(s, i, maxGaps/n)
	sec.Table = s.table(max(leastShown, maxTable/n))
	return sec, sec.embed(sum, n)
}

// verdict says whether the numbers may be quoted.
func (sec *section) verdict(s *report.Summary) {
	for _, f := range s.Ossian.Findings {
		kind := "invalid: "
		if f.Warning {
			kind = "warning: "
		}
		sec.Findings = append(sec.Findings, fmt.Sprintf("%s%s %s (bound %s)", kind, short(f.Measured), clean(f.What), short(f.Bound)))
	}
	switch {
	case !s.Ossian.Valid:
		sec.Verdict, sec.Short, sec.VerdictText = "bad", "not valid", "Not valid: do not quote these numbers"
	case len(sec.Findings) > 0:
		sec.Verdict, sec.Short, sec.VerdictText = "warn", "warnings", "Valid, with warnings"
	default:
		sec.Verdict, sec.Short, sec.VerdictText = "good", "valid", "Valid: no fault was found"
	}
}

// embed puts the raw data into the page: the result file with all values where these are
// few enough, compressed.
func (sec *section) embed(s *report.Summary, runs int) error {
	bytesOfText := 0
	for i := range s.Requests {
		bytesOfText += len(s.Requests[i].Text)
	}
	detailed := s.ITL.N <= maxDetail/runs && bytesOfText <= maxText/runs
	if !detailed {
		sec.DataNote = "Values of single tokens and texts are left out here for their size; the result file of --save-detailed has them."
	}
	text, err := s.JSON(detailed)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write(text); err != nil {
		return err
	}
	if err := z.Close(); err != nil {
		return err
	}
	sec.Data = template.URL("data:application/gzip;base64," + base64.StdEncoding.EncodeToString(b.Bytes()))
	name := path.Base(strings.ReplaceAll(s.FileName(), `\`, "/"))
	sec.File = clip(strings.TrimSuffix(name, path.Ext(name)), 120) + ".json.gz"
	sec.Size = fmt.Sprintf("JSON, %d kB compressed", (b.Len()+999)/1000)
	return nil
}

// A view is a timeline in a page.
type view struct {
	ID     int
	Span   int64
	Rows   int
	Height int // pixels
	Legend []key
	Paths  []key
	Ticks  []tick
	Labels []string // of the rows; nil = none
	Note   string
	Hover  []hover
}

// A key is a class of bars: Name in the legend, D its path.
type key struct{ Class, Name, D string }

type tick struct {
	Left  float64 // percent
	Label string
}

// view returns t as the page shows it; at most gaps gaps are found by the pointer.
func (t *timeline) view(s *series, id, gaps int) view {
	all := len(s.Summary.Requests)
	v := view{ID: id, Span: max(1, t.end), Rows: max(1, len(t.rows)), Height: min(max(90, 6*len(t.rows)), 640), Hover: t.hovers(s, gaps),
		Note: shown(len(t.rows), all) + ". Point at a bar for its times; drag to zoom, double-click to go back."}
	styles := [classes]string{fast: "fast", first: "first", slow: "slow", slowest: "slowest", failed: "lost"}
	names := t.classNames()
	for _, class := range t.legend() {
		v.Legend = append(v.Legend, key{Class: styles[class], Name: names[class]})
		v.Paths = append(v.Paths, key{Class: styles[class], D: t.path(class)})
	}
	for _, mark := range linearTicks(0, max(t.seconds(), 1.0/ticks)) {
		v.Ticks = append(v.Ticks, tick{100 * mark.Value * ticks / float64(v.Span), mark.Label + " s"})
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

// command writes the arguments as one would type them.
func command(args []string) string {
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
	Rows    []row
}

type row struct {
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

func (s *series) row(i int) row {
	q := &s.Summary.Requests[i]
	start, _, _ := s.bounds(i)
	r := row{Failed: !q.OK, Text: reason(q), Numbers: []string{strconv.Itoa(i), fmt.Sprintf("%.3f", start), inMS(q.Queue)}}
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

func inMS(seconds float64) string { return fmt.Sprintf("%.2f", seconds*1000) }
