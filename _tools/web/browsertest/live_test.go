package browsertest

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// asked is a request as its client logs it.
type asked struct{ input, output, cached int }

// load sends questions to a server, one after another, and returns what the replies say of them.
func load(t testing.TB, s *server, n int) map[string]asked {
	t.Helper()
	log := map[string]asked{}
	for i := range n {
		id := fmt.Sprintf("load-%d", i)
		body := fmt.Sprintf(`{"input":"%d+%d","max_output_tokens":%d}`, 10+i, 20+i, 20+i)
		r, _ := http.NewRequest(http.MethodPost, s.url+"/v1/responses", strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("X-Request-Id", id)
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		var told struct {
			Usage struct {
				Input   int `json:"input_tokens"`
				Output  int `json:"output_tokens"`
				Details struct {
					Cached int `json:"cached_tokens"`
				} `json:"input_tokens_details"`
			}
		}
		if err := json.NewDecoder(answer.Body).Decode(&told); err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		log[id] = asked{told.Usage.Input, told.Usage.Output, told.Usage.Details.Cached}
	}
	return log
}

const requestRows = `[...document.querySelectorAll("[data-testid=request]")].map((row) => [...row.cells].map((cell) => (cell.querySelector(".id") ?? cell).textContent))`

// tile is the note below a tile.
func tile(title string) string {
	return fmt.Sprintf(`[...document.querySelectorAll("[data-testid=tile]")].find((t) => t.querySelector("figcaption").textContent === %q)?.querySelector(".note").textContent`, title)
}

func TestLive(t *testing.T) {
	s := serve(t)
	b := open(t, s.url, "#/live")
	b.allow("503", "ERR_", "Failed to load resource")
	b.until(fmt.Sprintf(`%s === "0 in all"`, tile("Output"))) // figures have come
	const n = 24
	log := load(t, s, n)
	b.until(fmt.Sprintf(`document.querySelectorAll("[data-testid=request][data-state=ended]").length === %d`, n))
	for _, row := range get[[][]string](b, requestRows) {
		client, known := log[row[0]]
		if !known {
			t.Errorf("the table has a request %q that nobody sent", row[0])
			continue
		}
		got := asked{int(number(t, row[3])), int(number(t, row[5])), int(number(t, row[4]))}
		if got != client {
			t.Errorf("%s: the table has %+v, the client %+v", row[0], got, client)
		}
		delete(log, row[0])
	}
	if len(log) > 0 {
		t.Errorf("the table has not %v", log)
	}
	totals(t, b, s)
	percentile(t, b, s)
	watchers(t, b, s)
	restarted(t, b, s)
}

// totals checks all that the view has counted since the server's start against /metrics.
func totals(t testing.TB, b *tab, s *server) {
	t.Helper()
	for title, of := range map[string]struct{ note, name string }{
		"Output": {"%.0f in all", "generation_tokens_total"}, "Prompt": {"%.0f in all", "prompt_tokens_total"},
		"Prefix hits": {"of the last minute; %.0f tokens in all", "prefix_cache_hits_total"}, "Preemptions": {"%.0f in all", "num_preemptions_total"},
	} {
		b.until(fmt.Sprintf(`(%s ?? "").replaceAll(",", "") === %q`, tile(title), fmt.Sprintf(of.note, metric(t, s, of.name))))
	}
	if metric(t, s, "prefix_cache_hits_total") == 0 {
		t.Error("nothing was read from the cache: the load is no test of its total")
	}
	// The table of ends and refusals: a row for each, with the number of its series.
	words := map[string]string{"stop": "stopped", "length": "at the length limit", "abort": "aborted", "error": "failed"}
	for _, row := range metricRows(t, s, "request_success_total", "finished_reason") {
		b.until(fmt.Sprintf(`[...document.querySelectorAll("[data-testid=tallies] tbody tr")].some((r) => [...r.cells].map((c) => c.textContent.replaceAll(",", "")).join("|").match(/^Ended\|%s\|.*\|%.0f$/))`, words[row.label], row.value))
	}
	for _, row := range metricRows(t, s, "http_requests_total", "status") {
		if strings.HasPrefix(row.label, "4") {
			b.until(fmt.Sprintf(`[...document.querySelectorAll("[data-testid=tallies] tbody tr")].some((r) => [...r.cells].map((c) => c.textContent.replaceAll(",", "")).join("|").match(/^Answered by HTTP\|%s\|.*\|%.0f$/))`, row.label, row.value))
		}
	}
}

// TestLiveGuesses: where a server guesses the view says how many of its guesses held, as /metrics does.
func TestLiveGuesses(t *testing.T) {
	s, err := start("--speculative-config", `{"method": "suffix", "num_speculative_tokens": 7, "adaptive": false}`)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.kill)
	b := open(t, s.url, "#/live")
	b.until(fmt.Sprintf(`%s === "where guessed; 0 guesses held in all"`, tile("Tokens a step")))
	body := `{"prompt": "` + strings.Repeat("the cat sat on the mat. ", 6) + `", "max_tokens": 60, "temperature": 0}`
	answer, err := http.Post(s.url+"/v1/completions", "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	held, drafts := metric(t, s, "spec_decode_num_accepted_tokens_total"), metric(t, s, "spec_decode_num_drafts_total")
	if held == 0 {
		t.Fatal("no guess held: the load is no test")
	}
	b.until(fmt.Sprintf(`%s === "where guessed; %.0f guesses held in all"`, tile("Tokens a step"), held))
	b.until(fmt.Sprintf(`[...document.querySelectorAll("[data-testid=tile]")].some((t) => t.textContent.includes("Tokens a step") && t.textContent.includes("%.2f"))`, 1+held/drafts))
	b.until(fmt.Sprintf(`/^of the last minute; by place [0-9]+, /.test(%s)`, tile("Guesses that held")))
}

type labelled struct {
	label string
	value float64
}

// metricRows are the series of a metric, by one of their labels.
func metricRows(t testing.TB, s *server, name, label string) (rows []labelled) {
	t.Helper()
	sums := map[string]float64{}
	for _, found := range series.FindAllStringSubmatch(fetch(t, s.url+"/metrics"), -1) {
		if of := regexp.MustCompile(label + `="([^"]*)"`).FindStringSubmatch(found[3]); found[2] == name && of != nil {
			sums[of[1]] += number(t, found[4])
		}
	}
	if len(sums) == 0 {
		t.Fatalf("/metrics has no %s by %s", name, label)
	}
	for label, value := range sums {
		rows = append(rows, labelled{label, value})
	}
	return rows
}

// percentile checks that the 95th percentile of times to the first token that is shown lies no
// further than a bucket from that of the times themselves.
func percentile(t testing.TB, b *tab, s *server) {
	t.Helper()
	const name = "Time to first token"
	shown := func() string {
		return get[string](b, fmt.Sprintf(`[...document.querySelectorAll("[data-testid=tile]")].find((t) => t.querySelector("figcaption").textContent === %q).querySelectorAll("[data-testid=tile-value]")[1].textContent`, name))
	}
	var text string
	for text = shown(); !regexp.MustCompile(`\d`).MatchString(text); text = shown() {
		load(t, s, 24) // fewer than 20 in a minute: a busy machine
	}
	var value float64
	var unit string
	if _, err := fmt.Sscan(strings.TrimPrefix(text, "< "), &value, &unit); err != nil {
		t.Fatalf("%s: %q: %v", name, text, err)
	}
	value *= map[string]float64{"µs": 1e-6, "ms": 1e-3, "s": 1}[unit]
	var times []float64
	for _, row := range snapshot(t, s).Requests {
		times = append(times, row.TTFT)
	}
	slices.Sort(times)
	exact := times[int(math.Ceil(0.95*float64(len(times))))-1]
	var bounds []float64
	for _, found := range series.FindAllStringSubmatch(fetch(t, s.url+"/metrics"), -1) {
		if le := regexp.MustCompile(`le="([0-9.e+-]+)"`).FindStringSubmatch(found[3]); found[2] == "time_to_first_token_seconds_bucket" && le != nil {
			bounds = append(bounds, number(t, le[1]))
		}
	}
	at := func(seconds float64) int { n, _ := slices.BinarySearch(bounds, seconds); return n }
	if value <= 0 || len(bounds) < 5 || at(value)-at(exact) > 1 || at(exact)-at(value) > 1 {
		t.Errorf("the page has a p95 of %s, the requests one of %v s; bounds %v", text, exact, bounds)
	}
}

// snapshot is the first event of the list of requests.
func snapshot(t testing.TB, s *server) (told struct{ Requests []struct{ TTFT float64 } }) {
	t.Helper()
	answer, err := http.Get(s.url + "/requests")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	line, err := bufio.NewReader(answer.Body).ReadString('\n')
	if err == nil {
		err = json.Unmarshal([]byte(strings.TrimPrefix(line, "data: ")), &told)
	}
	if err != nil {
		t.Fatalf("%.200s: %v", line, err)
	}
	return told
}

// watch asks for the list of requests and reports whether it is given.
func watch(t testing.TB, s *server) (end func(), status int) {
	t.Helper()
	answer, err := http.Get(s.url + "/requests")
	if err != nil {
		t.Fatal(err)
	}
	return func() { answer.Body.Close() }, answer.StatusCode
}

// watchers checks that there are eight, the page among them unless it is hidden.
func watchers(t testing.TB, b *tab, s *server) {
	t.Helper()
	var ends []func()
	defer func() {
		for _, end := range ends {
			end()
		}
	}()
	for len(ends) < 7 {
		end, status := watch(t, s)
		if status == http.StatusServiceUnavailable && !b.late() { // who has gone keeps the place for a moment
			end()
			continue
		}
		if status != http.StatusOK {
			end()
			t.Fatalf("watcher %d is refused with %d", len(ends)+2, status)
		}
		ends = append(ends, end)
	}
	end, status := watch(t, s)
	end()
	if status != http.StatusServiceUnavailable {
		t.Errorf("the ninth watcher gets %d", status)
	}
	hide := func(hidden bool) {
		b.run(evaluate(fmt.Sprintf(`Object.defineProperty(document, "hidden", {configurable: true, get: () => %v}); document.dispatchEvent(new Event("visibilitychange"))`, hidden)))
	}
	// A hidden tab leaves its place to another.
	hide(true)
	for status = 0; status != http.StatusOK && time.Now().Before(b.limit); {
		if end, status = watch(t, s); status != http.StatusOK {
			end()
		}
	}
	if status != http.StatusOK {
		t.Error("a hidden tab goes on watching")
	}
	end()
	before := b.sent("/metrics")
	hide(false)
	for b.sent("/metrics") == before {
		if time.Now().After(b.limit) {
			t.Fatal("a tab that is seen again does not go on")
		}
	}
}

// restarted checks that a server that begins anew is followed.
func restarted(t testing.TB, b *tab, s *server) {
	t.Helper()
	s.kill()
	b.has("live-trouble")
	again := serve(t, "--port", s.url[strings.LastIndex(s.url, ":")+1:])
	load(t, again, 2)
	b.until(`!document.querySelector("[data-testid=live-trouble]")`)
	b.until(`document.querySelectorAll("[data-testid=request]").length === 2`)
	b.until(fmt.Sprintf(`(%s ?? "") === "%.0f in all"`, tile("Output"), metric(t, again, "generation_tokens_total")))
	if text := b.text("live-view"); strings.Contains(text, "NaN") {
		t.Errorf("the figures behind a restart: %.500s", text)
	}
}
