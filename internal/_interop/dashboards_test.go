package interop

// Dashboards: what panels of public Grafana boards ask Prometheus for is asked of Prometheus' own
// engine, over scrapes of a server under load. testdata/dashboards.txt says what that is.

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/util/teststorage"

	"ossian/internal/command/serve"
)

// functions are what panels do with metrics, in PromQL. A and B stand for the metrics with their
// labels, BY for the labels that results have ("by (le) " or nothing), Q for a quantile, and
// LE for a bound. A_sum is the metric with that ending, and so on.
var functions = map[string]string{
	"value":             `A`,
	"sum":               `sum BY(A)`,
	"max":               `max BY(A)`,
	"min":               `min BY(A)`,
	"avg":               `avg BY(A)`,
	"count":             `count BY(A)`,
	"rate":              `sum BY(rate(A[5m]))`,
	"rate of series":    `rate(A[5m])`,
	"increase":          `sum BY(increase(A[5m]))`,
	"rounded increase":  `round(sum BY(increase(A[5m])))`,
	"peak":              `max BY(max_over_time(A[5m]))`,
	"last":              `sum BY(last_over_time(A[5m]))`,
	"newest":            `topk BY(1, A)`,
	"instances":         `count BY(group by (model_name, instance) (last_over_time(A[5m])))`,
	"mean":              `sum BY(rate(A_sum[5m])) / (sum BY(rate(A_count[5m])) > 0)`,
	"mean of series":    `rate(A_sum[5m]) / rate(A_count[5m])`,
	"mean of increases": `sum(increase(A_sum[5m])) / sum(increase(A_count[5m]))`,
	"mean of averages":  `avg(A_sum) / avg(A_count)`,
	"ratio":             `sum BY(rate(A[5m])) / (sum BY(rate(B[5m])) > 0)`,
	"sum over sum":      `sum BY(A) / sum BY(B)`,
	"quantile":          `histogram_quantile(Q, sum BY(rate(A_bucket[5m])))`,
	"share within":      `sum(rate(A_bucket{le="LE"}[5m])) / (sum(rate(A_count[5m])) > 0)`,
	"share of buckets":  `sum by (le) (increase(A_bucket[5m])) / on () group_left () (sum(increase(A_count[5m])) > 0)`,
	"share":             `sum BY(rate(A[5m])) / on () group_left () (sum(rate(A[5m])) > 0)`,
	"share of 5xx":      `(sum(rate(A{status="5xx"}[5m])) or vector(0)) / (sum(rate(A[5m])) > 0)`,
	"share of errors":   `sum BY(rate(A{finished_reason="error"}[5m])) / (sum BY(rate(A[5m])) > 0)`,
	"those at 0":        `count(A == 0) or vector(0)`,
	"status":            `(2 - (max(A{sleep_state="awake"}) == bool 0)) or vector(0)`,
	"sleep level":       `(1 - max BY(A{sleep_state="awake"})) * (1 + max BY(A{sleep_state="discard_all"}))`,

	"seconds since, with the model's name": `max by (model_name, instance) ((time() - A) * on (job, instance) group_left (model_name) group by (job, instance, model_name) (B))`,
	"p50 while it runs":                    `histogram_quantile(0.5, sum by (le) (rate(A_bucket[5m]))) and on () count(B)`,
	"rate over mean while it runs":         `(sum(rate(A[5m])) / (sum(avg_over_time(B[5m])) > 0)) and on () count(B)`,
	"success rate while it runs":           `(1 - (sum(rate(A{finished_reason="error"}[5m])) / (sum(rate(A[5m])) > 0))) and on () count(B)`,
	"per minute while it runs":             `(60 * sum(rate(A[5m]))) and on () count(B)`,
}

// A panel asks for a row of the table.
type panel struct {
	where     string // board and title
	functions []string
	by        []string
	metrics   []string
	labels    []string // names of those that must be there, and name="value"
	absent    string   // why nothing comes; "" = something does
}

// readPanels reads the table.
func readPanels(t *testing.T) (all []panel) {
	t.Helper()
	text, err := os.ReadFile("testdata/dashboards.txt")
	if err != nil {
		t.Fatal(err)
	}
	board := ""
	for number, line := range strings.Split(string(text), "\n") {
		if name, is := strings.CutPrefix(line, "board "); is {
			board = name
			continue
		}
		if line == "" || line[0] == '#' {
			continue
		}
		cells := strings.Split(line, "|")
		if len(cells) < 4 || len(cells) > 5 {
			t.Fatalf("line %d has %d cells", number+1, len(cells))
		}
		what, by, _ := strings.Cut(cells[1], " by ")
		row := panel{where: board + ", " + strings.TrimSpace(cells[0]), by: strings.Fields(by), metrics: strings.Fields(cells[2]), labels: strings.Fields(cells[3])}
		if _, whole := functions[strings.TrimSpace(cells[1])]; whole {
			row.functions = []string{strings.TrimSpace(cells[1])}
		} else {
			row.functions = regexp.MustCompile(`\s*,\s*`).Split(strings.TrimSpace(what), -1)
		}
		if len(cells) == 5 {
			row.absent = strings.TrimSpace(cells[4])
		}
		all = append(all, row)
	}
	return all
}

// operand is a metric in a formula: A or B, an ending, and labels.
var operand = regexp.MustCompile(`\b([AB])(_[a-z]+)?(\{[^}]*\})?`)

// query is what a panel asks for with one of its functions.
func (p *panel) query(t *testing.T, function string) string {
	t.Helper()
	formula, by, bound := functions[function], p.by, ""
	quantile, isQuantile := strings.CutPrefix(function, "p")
	within, isShare := strings.CutPrefix(function, "share within ")
	switch {
	case formula != "":
	case isShare:
		formula, bound = functions["share within"], within
	case isQuantile:
		formula, by = functions["quantile"], append([]string{"le"}, by...)
	default:
		t.Fatalf("%s: there is no function %q", p.where, function)
	}
	grouped := ""
	if len(by) > 0 {
		grouped = "by (" + strings.Join(by, ", ") + ") "
	}
	formula = strings.NewReplacer("BY", grouped, "LE", bound, "Q", "0."+quantile).Replace(formula)
	return operand.ReplaceAllStringFunc(formula, func(found string) string {
		parts := operand.FindStringSubmatch(found)
		selectors := strings.FieldsFunc(strings.Trim(parts[3], "{}"), func(r rune) bool { return r == ',' })
		for _, label := range p.labels {
			if !strings.Contains(label, "=") {
				label += `=~".+"`
			}
			selectors = append(selectors, label)
		}
		return p.metrics[parts[1][0]-'A'] + parts[2] + "{" + strings.Join(selectors, ", ") + "}"
	})
}

// A prometheus is the storage and the engine of one, whose scrapes come 15 s apart.
type prometheus struct {
	store  *teststorage.TestStorage
	engine *promql.Engine
	accept string
	now    time.Time
}

func newPrometheus(t *testing.T, accept string) *prometheus {
	return &prometheus{store: teststorage.New(t), accept: accept, now: time.Now().Add(-time.Hour),
		engine: promql.NewEngine(promql.EngineOpts{MaxSamples: 10_000_000, Timeout: time.Minute})}
}

// scrape stores what the server says now, as of 15 s after the scrape before.
func (p *prometheus) scrape(t *testing.T, url string) {
	t.Helper()
	p.now = p.now.Add(15 * time.Second)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Accept", p.accept)
	reply, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer reply.Body.Close()
	text, err := io.ReadAll(reply.Body)
	if err != nil || reply.StatusCode != http.StatusOK {
		t.Fatalf("%s: %v", reply.Status, err)
	}
	parser, err := textparse.New(text, reply.Header.Get("Content-Type"), labels.NewSymbolTable(), textparse.ParserOptions{})
	if err != nil {
		t.Fatal(err)
	}
	appender := p.store.Appender(t.Context())
	for {
		entry, err := parser.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if entry == textparse.EntrySeries {
			var found labels.Labels
			parser.Labels(&found)
			_, _, value := parser.Series()
			p.store1(t, appender, found, value)
		}
	}
	p.store1(t, appender, labels.FromStrings("__name__", "up"), 1)
	if err := appender.Commit(); err != nil {
		t.Fatal(err)
	}
}

// store1 stores a sample with the labels that Prometheus adds.
func (p *prometheus) store1(t *testing.T, appender storage.Appender, found labels.Labels, value float64) {
	t.Helper()
	whole := labels.NewBuilder(found).Set("job", "ossian").Set("instance", "10.0.0.9:8000").Labels()
	if _, err := appender.Append(0, whole, p.now.UnixMilli(), value); err != nil {
		t.Fatalf("%s: %v", whole, err)
	}
}

// ask returns the series of a query, without those that are no number.
func (p *prometheus) ask(t *testing.T, query string) (series int) {
	t.Helper()
	asked, err := p.engine.NewInstantQuery(t.Context(), p.store, nil, query, p.now)
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	defer asked.Close()
	vector, err := asked.Exec(t.Context()).Vector()
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	for _, sample := range vector {
		if !math.IsNaN(sample.F) && !math.IsInf(sample.F, 0) {
			series++
		}
	}
	return series
}

// use has a server answer requests of several kinds at once: prompts with a common beginning, more
// than the KV memory holds, some that are abandoned and some that are refused.
func use(t *testing.T, url string) {
	var users sync.WaitGroup
	for user := range 6 {
		users.Go(func() {
			for i := range 5 {
				ctx, cancel := context.WithCancel(t.Context())
				if i == 3 {
					ctx, cancel = context.WithTimeout(t.Context(), 30*time.Millisecond)
				}
				prompt := strings.Repeat("the same beginning ", 3) + strings.Repeat(fmt.Sprintf("%d ", user), 20*(i%2))
				body := fmt.Sprintf(`{"prompt":%q,"max_tokens":%d,"ignore_eos":true,"temperature":0}`, prompt, 60+20*i)
				if i == 4 {
					body = `{"prompt":`
				}
				request, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v1/completions", strings.NewReader(body))
				if err != nil {
					t.Error(err)
				}
				request.Header.Set("Content-Type", "application/json")
				if reply, err := http.DefaultClient.Do(request); err == nil {
					_, _ = io.Copy(io.Discard, reply.Body) // abandoned ones break off
					reply.Body.Close()
				}
				cancel()
			}
		})
	}
	users.Wait()
}

// TestDashboards evaluates every panel of vLLM's public boards over a server that was scraped while
// it had too much to do, in both text formats: each gives a series, or the table says why not.
func TestDashboards(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	log := &bytes.Buffer{}
	address, ended, err := serve.Start(ctx, []string{"--port", "0", "--threads", "1", "--store", "memory", "--max-num-seqs", "4", "--num-gpu-blocks-override", "30", "--max-model-len", "480", "--show-hidden-metrics"}, log)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("%v\n%s", err, log)
		}
	}()
	url := "http://" + address
	for { // until its model is loaded
		reply, err := http.Get(url + "/ready")
		if err != nil {
			t.Fatal(err)
		}
		reply.Body.Close()
		if reply.StatusCode == http.StatusOK {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	watchers := map[string]*prometheus{
		"text":        newPrometheus(t, "text/plain;version=0.0.4"),
		"OpenMetrics": newPrometheus(t, "application/openmetrics-text;version=1.0.0"),
	}
	scrape := func() {
		for _, watcher := range watchers {
			watcher.scrape(t, url)
		}
	}
	scrape()
	// Load, until it was seen.
	busy := func(w *prometheus) bool {
		return w.ask(t, `max_over_time(vllm:num_requests_running[5m]) > 0`) > 0 && w.ask(t, `vllm:num_preemptions_total > 0`) > 0 && w.ask(t, `vllm:kv_block_lifetime_seconds_count > 0 and vllm:kv_block_reuse_gap_seconds_count > 0`) > 0
	}
	for round := 0; !busy(watchers["text"]) || !busy(watchers["OpenMetrics"]); round++ {
		if round == 20 {
			t.Fatal("no preemptions or evictions, or no requests seen running")
		}
		done := make(chan struct{})
		go func() { defer close(done); use(t, url) }()
		for range 2 {
			time.Sleep(50 * time.Millisecond)
			scrape()
		}
		<-done
	}
	scrape()
	queries := 0
	for format, watcher := range watchers {
		for _, row := range readPanels(t) {
			for _, function := range row.functions {
				queries++
				query := row.query(t, function)
				if series := watcher.ask(t, query); (series == 0) != (row.absent != "") {
					t.Errorf("%s, %s: %d series where the reason is %q: %s", row.where, format, series, row.absent, query)
				}
			}
		}
	}
	t.Logf("%d queries of panels", queries)
}
