package chart

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"ossian/internal/bench"
)

// An element is a start tag of a page.
type element struct {
	name  string
	attrs map[string]string
	text  string // directly behind it
}

// elements parses a page whose own script and style are known, as XML with the freedoms of HTML.
func elements(t *testing.T, page string) []element {
	t.Helper()
	for _, own := range []string{pageJS, pageCSS} {
		if strings.Count(page, own) != 1 {
			t.Fatal("script or style is not in the page once")
		}
		page = strings.Replace(page, own, "", 1)
	}
	d := xml.NewDecoder(strings.NewReader(page))
	d.Strict, d.AutoClose, d.Entity = false, xml.HTMLAutoClose, xml.HTMLEntity
	var out []element
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		switch token := token.(type) {
		case xml.StartElement:
			e := element{name: token.Name.Local, attrs: map[string]string{}}
			for _, a := range token.Attr {
				e.attrs[a.Name.Local] = a.Value
			}
			out = append(out, e)
		case xml.CharData:
			if len(out) > 0 {
				out[len(out)-1].text += string(token)
			}
		}
	}
}

func pageOf(t *testing.T, runs ...Run) string {
	t.Helper()
	var b bytes.Buffer
	if err := HTML(&b, "Report", runs); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// What a page may be built of. Nothing in it loads anything or calls a handler.
var harmless = strings.Fields(`html head meta title link style body main header h1 h2 h3 p div span i strong ul li table thead tbody tr th td
	section figure svg g path text a details summary pre script`)

func checkHarmless(t *testing.T, page string) {
	t.Helper()
	scripts := 0
	for _, e := range elements(t, page) {
		if !slices.Contains(harmless, e.name) {
			t.Errorf("element <%s>", e.name)
		}
		if e.name == "script" && e.attrs["type"] != "application/json" {
			scripts++
		}
		for name, value := range e.attrs {
			switch {
			case strings.HasPrefix(name, "on"), name == "src", name == "srcdoc", name == "action":
				t.Errorf("<%s %s=%q>", e.name, name, value)
			case name == "href" && value != "data:," && !strings.HasPrefix(value, "#run") && !strings.HasPrefix(value, "data:application/gzip;base64,"):
				t.Errorf("link to %q", value)
			case name == "style" && strings.Contains(value, "url"):
				t.Errorf("style %q", value)
			}
		}
	}
	if scripts != 1 {
		t.Errorf("%d scripts, want 1", scripts)
	}
}

// hostile is what a server or a model may send to take over a page or a figure.
const hostile = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\" onmouseover=\"alert(3)\" '--><!-- ]]> {{.}} \u2028 \x00\x1b[2J \xff javascript:alert(4)"

func TestHostile(t *testing.T) {
	s := usual()
	s.model, s.label, s.text, s.err, s.failed = hostile, hostile, hostile, hostile, 2
	r := s.run()
	set := &r.Recording.Setup
	set.URL, set.Tokenizer, set.Dataset, set.Hash, set.Dialect, set.Backend = hostile, hostile, hostile, hostile, hostile, hostile
	set.Metadata = []bench.Pair{{Key: hostile, Value: hostile}}
	set.Args = append(set.Args, hostile)
	set.Environment = map[string]string{hostile: hostile}
	r.Summary.Setup = *set
	for i := range r.Summary.Ossian.Findings {
		r.Summary.Ossian.Findings[i].What = hostile
	}
	other := r
	other.Name = hostile + "2"
	for name, runs := range map[string][]Run{"one run": {r}, "two runs": {r, other}} {
		t.Run(name, func(t *testing.T) {
			var b bytes.Buffer
			if err := HTML(&b, hostile, runs); err != nil {
				t.Fatal(err)
			}
			checkHarmless(t, b.String())
			for _, f := range figures(newSeries(runs)) {
				svgOf(t, f)
			}
		})
	}
	var b bytes.Buffer
	if err := TimelineHTML(&b, r, DefaultThresholds); err != nil {
		t.Fatal(err)
	}
	checkHarmless(t, b.String())
}

func TestPage(t *testing.T) {
	runs := sweep("tiny", 1, 8, 0)
	s := usual()
	s.failed, s.err, s.concurrency = 30, "connection reset", 32
	runs = append(runs, s.run())
	page := pageOf(t, runs...)
	checkHarmless(t, page)
	all := elements(t, page)
	count := func(name, class string) int {
		n := 0
		for _, e := range all {
			if e.name == name && (class == "" || slices.Contains(strings.Fields(e.attrs["class"]), class)) {
				n++
			}
		}
		return n
	}
	for _, c := range []struct {
		name, class string
		want        int
	}{
		{"section", "", 4}, {"figure", "", 7}, {"div", "timeline", 4}, {"a", "download", 4}, {"tr", "failed", 30}, {"table", "sort", 5},
	} {
		if got := count(c.name, c.class); got != c.want {
			t.Errorf("%d <%s class=%q>, want %d", got, c.name, c.class, c.want)
		}
	}
	for _, want := range []string{"1 at once", "8 at once", "32 at once", "inf at once", "do not quote these numbers", "invalid: 25 ", "connection reset", "ossian bench serve --model tiny",
		"Output throughput of each user", "Time to first token (TTFT)", "Serving Benchmark Result", "median TTFT"} {
		if !strings.Contains(page, want) {
			t.Errorf("no %q in the page", want)
		}
	}
	if page != pageOf(t, runs...) {
		t.Error("the same runs gave another page")
	}
	slices.Reverse(runs) // a search measures in any order
	page = pageOf(t, runs...)
	if one, eight := strings.Index(page, "<h2>1 at once"), strings.Index(page, "<h2>8 at once"); one < 0 || eight < one {
		t.Errorf("run with 1 request at once at %d of the page, with 8 at %d: expected the order of the load", one, eight)
	}
	if err := HTML(io.Discard, "none", nil); err == nil {
		t.Error("a report of no runs")
	}
}

// The browser runs a script only if its hash is the one in the policy.
func TestPolicy(t *testing.T) {
	page := pageOf(t, usual().run())
	hash := sha256.Sum256([]byte(pageJS))
	want := "script-src 'sha256-" + base64.StdEncoding.EncodeToString(hash[:]) + "'"
	for _, e := range elements(t, page) {
		if e.attrs["http-equiv"] == "Content-Security-Policy" {
			if got := e.attrs["content"]; !strings.HasPrefix(got, "default-src 'none';") || !strings.HasSuffix(got, want) {
				t.Errorf("policy %q, want none but %q", got, want)
			}
			if !strings.Contains(page, "<script>"+pageJS+"</script>") {
				t.Error("the script is not what was hashed")
			}
			return
		}
	}
	t.Error("no policy")
}

// The raw data are the result file, and unpack with any tool.
func TestDownload(t *testing.T) {
	r := usual().run()
	want, err := r.Summary.JSON(true)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range elements(t, pageOf(t, r)) {
		if e.attrs["class"] != "download" {
			continue
		}
		packed, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(e.attrs["href"], "data:application/gzip;base64,"))
		if err != nil {
			t.Fatal(err)
		}
		z, err := gzip.NewReader(bytes.NewReader(packed))
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(z)
		if err != nil || !bytes.Equal(got, want) || !json.Valid(got) {
			t.Errorf("%d bytes, want the %d of the result file: %v", len(got), len(want), err)
		}
		if !strings.HasSuffix(e.attrs["download"], ".json.gz") || strings.ContainsAny(e.attrs["download"], `/\`) {
			t.Errorf("file name %q", e.attrs["download"])
		}
		return
	}
	t.Error("no download")
}

// A page has a bound, whatever the run, and says what it leaves out.
func TestPageOfLargeRun(t *testing.T) {
	s := usual()
	s.requests, s.tokens, s.every, s.failed = 20_000, 6, time.Millisecond, 10
	s.text = strings.Repeat("word ", 100)
	page := pageOf(t, s.run())
	if len(page) > 6<<20 {
		t.Errorf("page of %d bytes", len(page))
	}
	for _, want := range []string{"1000 of 20000 requests: those that failed, then the slowest", "240 of 20000 requests", "left out here for their size"} {
		if !strings.Contains(page, want) {
			t.Errorf("page does not say %q", want)
		}
	}
	if n := strings.Count(page, `<tr class="failed">`); n != 10 {
		t.Errorf("%d failed requests in the table, want all 10", n)
	}
}

// The pointer finds what the recording has.
func TestHover(t *testing.T) {
	s := usual()
	s.failed, s.err = 1, "refused"
	r := s.run()
	var b bytes.Buffer
	if err := TimelineHTML(&b, r, DefaultThresholds); err != nil {
		t.Fatal(err)
	}
	labels := 0
	for _, e := range elements(t, b.String()) {
		if strings.HasPrefix(strings.TrimSpace(e.text), "Req ") {
			labels++
		}
		if e.attrs["type"] != "application/json" {
			continue
		}
		var rows []hover
		if err := json.Unmarshal([]byte(e.text), &rows); err != nil {
			t.Fatal(err)
		}
		if len(rows) != s.requests || rows[0].Err != "refused" || rows[0].ITL != nil {
			t.Fatalf("%d rows, the first %+v", len(rows), rows[0])
		}
		q := rows[3] // sent at 150 ms, first token after 39 ms, 18 gaps of 10 ms and one of 70
		if q.Request != 3 || q.Start != 150_000 || q.TTFT != 39_000 || q.End != 439_000 || q.Input != 103 || q.Output != 20 ||
			len(q.ITL) != 19 || q.ITL[0] != 10_000 || q.ITL[18] != 70_000 {
			t.Errorf("row 3 is %+v", q)
		}
	}
	if labels != s.requests {
		t.Errorf("%d rows have a name, want %d", labels, s.requests)
	}
}

func TestTimelineClasses(t *testing.T) {
	limits := Thresholds{25 * time.Millisecond, 50 * time.Millisecond}
	tl := timeline{limits: limits}
	for gap, want := range map[float64]int{0: fast, 0.0249: fast, 0.025: slow, 0.0499: slow, 0.05: slowest, 9: slowest} {
		if got := tl.class(gap); got != want {
			t.Errorf("a gap of %v s is class %d, want %d", gap, got, want)
		}
	}
	if got := strings.Join(tl.classNames(), "|"); got != "ITL below 25 ms|TTFT|ITL 25 to 50 ms|ITL from 50 ms|failed" {
		t.Errorf("names %q", got)
	}
}

func TestMerger(t *testing.T) {
	type step struct {
		class      int
		start, end float64 // ticks
	}
	for _, c := range []struct {
		name  string
		unit  int64
		steps []step
		want  []merged
	}{
		{"neighbours of a class are one", 1, []step{{first, 0, 5}, {fast, 5, 7}, {fast, 7, 9}}, []merged{{first, 0, 5}, {fast, 5, 9}}},
		{"classes stay apart", 1, []step{{fast, 0, 2}, {slow, 2, 4}, {fast, 4, 6}}, []merged{{fast, 0, 2}, {slow, 2, 4}, {fast, 4, 6}}},
		{"nothing vanishes", 1, []step{{slow, 3, 3}}, []merged{{slow, 3, 4}}},
		{"the worse of a unit is shown", 10, []step{{fast, 0, 11}, {slowest, 11, 12}, {fast, 12, 40}}, []merged{{fast, 0, 1}, {slowest, 1, 2}, {fast, 2, 4}}},
		{"all of the better one is covered", 10, []step{{fast, 0, 3}, {slow, 3, 6}, {fast, 6, 9}}, []merged{{slow, 0, 1}}},
		{"two that are covered", 10, []step{{fast, 0, 12}, {first, 12, 14}, {slowest, 14, 16}}, []merged{{fast, 0, 1}, {slowest, 1, 2}}},
	} {
		m := merger{unit: c.unit}
		for _, s := range c.steps {
			m.add(s.class, s.start/ticksPerSecond, s.end/ticksPerSecond)
		}
		if !slices.Equal(m.out, c.want) {
			t.Errorf("%s: %v, want %v", c.name, m.out, c.want)
		}
	}
}

// However few bars are allowed, rows do not overlap in themselves, and each slow gap shows.
func TestTimelineBounds(t *testing.T) {
	s := newSeries([]Run{usual().run()})[0]
	for _, most := range []int{1_000_000, 100, 60} {
		tl := s.timeline(DefaultThresholds, 25, most)
		n := 0
		rows := make([][]bar, 25)
		for _, bars := range tl.bars {
			n += len(bars)
			for _, b := range bars {
				rows[b.row] = append(rows[b.row], b)
			}
		}
		if n > most || len(tl.rows) != 25 || tl.rows[0] != 0 {
			t.Errorf("%d bars in %d rows, want at most %d in 25", n, len(tl.rows), most)
		}
		for row, bars := range rows {
			slices.SortFunc(bars, func(a, b bar) int { return int(a.from - b.from) })
			for i := 1; i < len(bars); i++ {
				if bars[i].from < bars[i-1].to {
					t.Fatalf("row %d: %v and %v overlap", row, bars[i-1], bars[i])
				}
			}
		}
		if len(tl.bars[slowest]) != 25 {
			t.Errorf("with %d bars, %d slow gaps show, want 25", most, len(tl.bars[slowest]))
		}
	}
	if d := (&timeline{bars: [classes][]bar{slow: {{2, 10, 15}, {3, 0, 1}}}}).path(slow); d != "M10 2.5h5M0 3.5h1" {
		t.Errorf("path %q", d)
	}
}

func TestEvenly(t *testing.T) {
	for _, c := range []struct {
		count, n int
		want     string
	}{{0, 5, "[]"}, {3, 5, "[0 1 2]"}, {10, 5, "[0 2 4 6 8]"}, {10, 3, "[0 3 6]"}} {
		if got := fmt.Sprint(evenly(c.count, c.n)); got != c.want {
			t.Errorf("%d of %d: %s, want %s", c.n, c.count, got, c.want)
		}
	}
}

func TestCommand(t *testing.T) {
	got := commandLine([]string{"ossian", "--header", "A=b c", "--extra-body", `{"a":"it's"}`, ""})
	if want := `ossian --header 'A=b c' --extra-body '{"a":"it'\''s"}' ''`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got := commandLine([]string{"--num-prompts", "64"}); got != "ossian bench serve --num-prompts 64" {
		t.Errorf("flags alone: %s", got)
	}
}

func TestShort(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 0.123456: "0.1235", 95: "95", 123456.7: "123457", math.Inf(1): "–"} {
		if got := fourDigits(v); got != want {
			t.Errorf("%v is %q, want %q", v, got, want)
		}
	}
}

func BenchmarkHTML(b *testing.B) {
	s := usual()
	s.requests, s.tokens = 1000, 200
	runs := []Run{s.run()}
	size := 0
	for b.Loop() {
		var out bytes.Buffer
		if err := HTML(&out, "Report", runs); err != nil {
			b.Fatal(err)
		}
		size = out.Len()
	}
	b.ReportMetric(float64(size), "bytes")
}
