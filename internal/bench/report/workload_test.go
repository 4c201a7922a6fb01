package report

import (
	"fmt"
	"strings"
	"testing"
)

// of is a result of a workload as vLLM's files have it.
func of(prompts, in, out, bound int, model string) Result {
	text := fmt.Sprintf(`{"model_id":%q,"num_prompts":%d,"completed":%d,"duration":2,"request_rate":"inf","total_input_tokens":%d,"total_output_tokens":%d`, model, prompts, prompts, prompts*in, prompts*out)
	if bound > 0 {
		text += fmt.Sprintf(`,"max_concurrency":%d`, bound)
	}
	all, err := Import("x", []byte(text+"}"))
	if err != nil {
		panic(err)
	}
	return all[0]
}

func TestSameWorkload(t *testing.T) {
	base := of(100, 128, 64, 0, "m")
	for _, c := range []struct {
		name string
		b    Result
		same bool
	}{
		{"itself", of(100, 128, 64, 0, "m"), true},
		{"another seed", of(100, 125, 64, 0, "m"), true},
		{"answers that end earlier", of(100, 128, 56, 0, "m"), true},
		{"more prompts", of(200, 128, 64, 0, "m"), false},
		{"longer prompts", of(100, 140, 64, 0, "m"), false},
		{"shorter answers", of(100, 128, 4, 0, "m"), false},
		{"a bound", of(100, 128, 64, 8, "m"), false},
		{"another model", of(100, 128, 64, 0, "n"), true},
	} {
		if got := SameWorkload(&base, &c.b); got != c.same || SameWorkload(&c.b, &base) != c.same {
			t.Errorf("%s: %v", c.name, got)
		}
	}
	bounded, other := of(100, 128, 64, 8, "m"), of(100, 128, 64, 16, "m")
	if SameWorkload(&bounded, &other) {
		t.Error("8 at once are 16 at once")
	}
	var sizes []string
	for _, group := range ByWorkload([]Result{base, of(100, 2000, 64, 0, "m"), of(100, 128, 64, 0, "m"), of(100, 128, 64, 0, "n")}) {
		sizes = append(sizes, fmt.Sprintf("%d x %s", len(group), DescribeWorkload(&group[0])))
	}
	want := "2 x 100 prompts, 128 + 64 tokens, of m | 1 x 100 prompts, 2000 + 64 tokens, of m | 1 x 100 prompts, 128 + 64 tokens, of n"
	if got := strings.Join(sizes, " | "); got != want {
		t.Errorf("groups %s, want %s", got, want)
	}
}

func TestSplitSource(t *testing.T) {
	for name, want := range map[string]string{"a.json#3": "a.json 3", "a.json": "a.json 0", "a#b.json": "a#b.json 0", "a.json#0": "a.json#0 0", "a.json#-1": "a.json#-1 0", "#2": "#2 0",
		"a#1#12": "a#1 12", "a.json#": "a.json# 0", "a.json#+1": "a.json#+1 0", "a.json#1x": "a.json#1x 0"} {
		file, number := SplitSource(name)
		if got := fmt.Sprint(file, " ", number); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}

// BEN-7: answers are compared at equal prompts, and at no others.
func TestBEN7Outputs(t *testing.T) {
	answers := func(source, hash, salt string, texts ...string) Result {
		r := Result{Source: source, Values: map[string]float64{"request_throughput": 1}}
		if hash != "" {
			r.Ossian = &Extension{Valid: true, Workload: Workload{Hash: hash, Salt: salt}}
		}
		for _, text := range texts {
			r.Requests = append(r.Requests, Request{OK: text != "failed", Input: 7, Text: text})
		}
		return r
	}
	for _, c := range []struct {
		name string
		a, b Result
		want string
	}{
		{"the same", answers("a", "h", "", "x", "y", ""), answers("b", "h", "", "x", "y", ""), "a and b: 2 identical, 0 different, 1 without text"},
		{"one differs", answers("a", "h", "s", "x", "y", "z"), answers("b", "h", "s", "x", "Y", "z"), "2 identical, 1 different (the first is request 1)"},
		{"one failed", answers("a", "h", "", "x", "failed"), answers("b", "h", "", "x", "y"), "1 identical, 0 different, 1 failed"},
		{"an end is missing", answers("a", "h", "", "x y"), answers("b", "h", "", "x"), "0 identical, 1 different"},
		{"another workload", answers("a", "h", "", "x"), answers("b", "i", "", "x"), "the prompts are not the same"},
		{"another salt", answers("a", "h", "1", "x"), answers("b", "h", "2", "x"), "the prompts are not the same"},
		{"another number", answers("a", "h", "", "x"), answers("b", "h", "", "x", "y"), "1 requests against 2"},
		{"without texts", answers("a", "h", "", "x"), answers("b", "h", ""), "b has no texts (bench serve --save-detailed"},
		{"of another tool", answers("a", "", "", "x"), answers("b", "h", "", "x"), "1 identical, 0 different; that prompts are equal follows from their lengths only"},
	} {
		compared, err := Compare([]Result{c.a}, []Result{c.b})
		if err != nil {
			t.Fatal(err)
		}
		text := compared.String()
		if !strings.Contains(text, c.want) {
			t.Errorf("%s: no %q in\n%s", c.name, c.want, text)
		}
		if strings.Contains(c.want, " different (") != strings.Contains(text, "WARNING: 1 of 3 outputs differ") {
			t.Errorf("%s: the warning\n%s", c.name, text)
		}
	}
	// Repetitions say what differs without a change.
	side := []Result{answers("a", "h", "", "x", "y"), answers("a2", "h", "", "x", "z")}
	compared, err := Compare(side, []Result{answers("b", "h", "", "x", "y")})
	if err != nil || len(compared.Outputs) != 2 || compared.Outputs[1].Different != 1 || compared.Outputs[1].B != "a2" {
		t.Errorf("%v, %+v", err, compared)
	}
}
