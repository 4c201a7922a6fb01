package verify

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"ossian/internal/soak"
)

// Nothing is wrong in correct reports of every profile and layout (lab.md 10, V2).
func TestCorrectReports(t *testing.T) {
	blocks := 0
	for _, report := range correctReports(soak.Cases(t, 80, 4000)) {
		found := check(t, report.name, report.text)
		blocks += found.Counts.Blocks
		if found.Counts.Blocks != 2 {
			t.Errorf("%s: %d blocks, want 2", report.name, found.Counts.Blocks)
		}
		for i := range found.Findings {
			if f := &found.Findings[i]; f.Severity == Wrong || (f.Severity == Unsupported && f.ID != "V-CLAIM") {
				t.Errorf("%s: nothing is wrong, found %s", report.name, f)
			}
		}
	}
	t.Logf("%d blocks", blocks)
}

// Where a digit can be changed so that it matters: a rate, a count that rates are of, a
// percentage, a cell of a table.
var plantable = []struct {
	kind    string
	pattern *regexp.Regexp
	least   float64 // the relative change that matters whatever the rounding of the others
}{
	{"rate", regexp.MustCompile(`(?:Output|Input|Total) [tT]oken throughput [^:\n]*:\s*([0-9]+\.[0-9]{2})`), 0.004},
	{"request rate", regexp.MustCompile(`Request throughput \(req/s\):\s*([0-9]+\.[0-9]{2})`), 0.02},
	{"total", regexp.MustCompile(`Total (?:input|generated) tokens:\s*([0-9]+)`), 0.02},
	{"total", regexp.MustCompile(`"total_(?:input|output)_tokens":([0-9]+)`), 0.02},
	{"rate", regexp.MustCompile(`"(?:output|total_token|request)_throughput":([0-9]+\.[0-9]+)`), 0.001},
	{"duration", regexp.MustCompile(`Benchmark duration \(s\):\s*([0-9]+\.[0-9]{2})`), 0.01},
	{"percentage", regexp.MustCompile(`\([+-]([0-9]+\.[0-9])%\)`), 0},
	{"percentage", regexp.MustCompile(`\| [+-]([0-9]+\.[0-9])% \|`), 0},
	{"cell", regexp.MustCompile(`(?:TPS|TPOT\(ms\)): ([0-9]+\.[0-9]{2})`), 0},
	{"cell", regexp.MustCompile(`\| ([0-9]+\.[0-9]{2})`), 0},
	{"sentence", regexp.MustCompile(`(?:from|to) ([0-9]+\.[0-9]{2}) tok/s`), 0},
}

// plant changes one digit of one figure; false where the chosen one has none that matters.
func plant(random *rand.Rand, text string) (changed, kind string, line int, ok bool) {
	place := plantable[random.IntN(len(plantable))]
	matches := place.pattern.FindAllStringSubmatchIndex(text, -1)
	if len(matches) == 0 {
		return "", "", 0, false
	}
	match := matches[random.IntN(len(matches))]
	figure := text[match[2]:match[3]]
	before, _ := strconv.ParseFloat(figure, 64)
	for range 20 {
		at := random.IntN(len(figure))
		if figure[at] == '.' {
			continue
		}
		digit := byte('0' + random.IntN(10))
		if digit == figure[at] || (at == 0 && digit == '0') {
			continue
		}
		fresh := figure[:at] + string(digit) + figure[at+1:]
		after, _ := strconv.ParseFloat(fresh, 64)
		difference := after - before
		if difference < 0 {
			difference = -difference
		}
		// Percentages: more than the rounding of one decimal; cells: any digit, the runs have them all.
		if difference <= place.least*before || (place.kind == "percentage" && difference < 0.15) || difference < 0.015 {
			continue
		}
		return text[:match[2]] + fresh + text[match[3]:], place.kind, 1 + strings.Count(text[:match[2]], "\n"), true
	}
	return "", "", 0, false
}

// Every planted error is found: a finding, wrong or unsupported, that the correct report
// does not have (lab.md 10, V2).
func TestPlantedErrors(t *testing.T) {
	reports := correctReports(soak.Cases(t, 160, 2000))
	random := rand.New(rand.NewPCG(3, 5))
	kinds := map[string]int{}
	planted, found, asWrong := 0, 0, 0
	for try := 0; planted < soak.Cases(t, 300, 10_000) && try < 100_000; try++ {
		report := reports[random.IntN(len(reports))]
		text, kind, line, ok := plant(random, report.text)
		if !ok {
			continue
		}
		planted++
		kinds[kind]++
		judged, err := Documents([]Input{{report.name, []byte(text)}})
		if err != nil {
			t.Fatalf("%s: %v", report.name, err)
		}
		hit, wrong := false, false
		for i := range judged.Findings {
			if f := &judged.Findings[i]; f.Severity == Wrong || f.Severity == Unsupported {
				hit, wrong = true, wrong || f.Severity == Wrong
			}
		}
		if !hit {
			t.Errorf("%s: a changed %s in line %d is not found: %s", report.name, kind, line, strings.Split(text, "\n")[line-1])
			continue
		}
		found++
		if wrong {
			asWrong++
		}
	}
	t.Logf("%d of %d planted errors found, %d as wrong: %s", found, planted, asWrong, fmt.Sprint(kinds))
	if planted < 200 {
		t.Errorf("only %d errors planted", planted)
	}
}
