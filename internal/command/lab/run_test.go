package lab

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"ossian/internal/command"
	"ossian/internal/lab/ledger"
)

const simulatedPlan = `
model: gpt-oss-20b
objective: {maximize: total_token_throughput, on: chat}
engines:
  vllm: {}
options:
  - {engine: vllm, name: async, flags: {async-scheduling: [true]}}
  - {engine: vllm, name: batched, flags: {max-num-batched-tokens: [4096, 8192]}}
workloads:
  chat: {input_len: 200, output_len: 100, num_prompts: 300}
equality: {prompts: 2, tokens: 4}
`

// A plan that is simulated decides, writes ledger, report and winner, and goes on where it was.
func TestRunSimulated(t *testing.T) {
	dir := t.TempDir()
	plan, noise, out := filepath.Join(dir, "plan.yaml"), filepath.Join(dir, "noise.yaml"), filepath.Join(dir, "out")
	for path, text := range map[string]string{plan: simulatedPlan, noise: "noise: 0.01\neffects: {async-scheduling=true: 0.12}\n"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	text, err := run(t, "run", plan, "--simulate="+noise, "--out", out)
	if err != nil || !strings.Contains(text, "winner for gpt-oss-20b: vllm with async-scheduling=true") {
		t.Fatalf("%v: %s", err, text)
	}
	for _, name := range []string{"plan.yaml", ledger.FileName, "report.md", "report.html", "winner.yaml"} {
		if _, err := os.Stat(filepath.Join(out, name)); err != nil {
			t.Error(err)
		}
	}
	text, err = run(t, "run", plan, "--simulate="+noise, "--out", out, "--json")
	var got outcome
	if at := strings.Index(text, "\n{"); err != nil || at < 0 || json.Unmarshal([]byte(text[at:]), &got) != nil || got.End.Winner["gpt-oss-20b"].Flags["async-scheduling"] != "true" || strings.Contains(text, "race 1 ") {
		t.Errorf("again: %v: %.600s", err, text)
	}
	if _, err := run(t, "run", plan, "--simulate="+noise, "--out", out, "--set", "budget.trials=100"); command.Status(err) != 2 || !strings.Contains(err.Error(), "+ budget: {trials: 100}") {
		t.Errorf("a changed plan: %v", err)
	}
	if text, err := run(t, "run", plan, "--simulate="+noise, "--out", out, "--set", "budget.trials=100", "--yes"); err != nil {
		t.Errorf("a changed plan that is wanted: %v: %s", err, text)
	}
}

// A simulated campaign for a latency ranks settings as the predictor does: fewer sequences at once give
// faster tokens, although they give fewer of them.
func TestSimulatedLatency(t *testing.T) {
	dir := t.TempDir()
	plan, noise := filepath.Join(dir, "plan.yaml"), filepath.Join(dir, "noise.yaml")
	text := strings.NewReplacer("maximize: total_token_throughput", "minimize: mean_tpot_ms", "name: batched, flags: {max-num-batched-tokens: [4096, 8192]}", "name: seqs, flags: {max-num-seqs: [16]}").Replace(simulatedPlan)
	for path, text := range map[string]string{plan: text, noise: "noise: 0.01\nengines: {vllm: {version: 0.11.0}}\n"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	found, err := run(t, "run", plan, "--simulate="+noise, "--machine", "A100-80G", "--out", filepath.Join(dir, "out"))
	if err != nil || !strings.Contains(found, "winner for gpt-oss-20b: vllm with async-scheduling=true max-num-seqs=16") || strings.Contains(found, "not predicted") {
		t.Errorf("%v: %s", err, found)
	}
	// An engine whose version nobody says is taken to be the one that lab predict takes, which is told.
	found, err = run(t, "run", plan, "--simulate", "--machine", "A100-80G", "--out", filepath.Join(dir, "unknown"))
	if err != nil || strings.Contains(found, "not predicted") || !strings.Contains(found, "assumed: engine vllm is vllm 0.11.0") ||
		!strings.Contains(found, "winner for gpt-oss-20b: vllm with async-scheduling=true max-num-seqs=16") {
		t.Errorf("%v: %s", err, found)
	}
	// Times of what cannot be predicted are not made up: the plan is refused.
	if err := os.WriteFile(noise, []byte("engines: {vllm: {version: 0.5.0}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	found, err = run(t, "run", plan, "--simulate="+noise, "--machine", "A100-80G", "--out", filepath.Join(dir, "old"))
	if command.Status(err) != 2 || !strings.Contains(err.Error(), "mean_tpot_ms of vllm is not predicted there") {
		t.Errorf("%v: %s", err, found)
	}
}

// lab predict and a simulated campaign answer one question alike, and both say which API is asked: chats of
// a plan wait for the front end, lengths of lab predict are completions unless it is said otherwise.
func TestPredictAsSimulated(t *testing.T) {
	dir := t.TempDir()
	for _, api := range []string{"chat", "completions"} {
		plan, out := filepath.Join(dir, api+".yaml"), filepath.Join(dir, api)
		text := "model: Qwen3-8B\nengines: {vllm: {}}\nobjective: {minimize: mean_ttft_ms, on: main}\nworkloads: {main: {input_len: 256, output_len: 32, num_prompts: 300, seed: 42, endpoint: " + api + "}}\nequality: {prompts: 0}\n"
		if err := os.WriteFile(plan, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if said, err := run(t, "run", plan, "--simulate", "--machine", "A100-80G", "--out", out); err != nil && command.Status(err) != 1 || !strings.Contains(said, "(random, "+api+")") {
			t.Fatalf("%v: %s", err, said)
		}
		lines, err := ledger.Read(out)
		if err != nil {
			t.Fatal(err)
		}
		campaign := 0.0
		for _, line := range lines {
			if line.Trial != nil && len(line.Trial.Predicted) > 0 {
				campaign = line.Trial.Predicted["mean_ttft_ms"].Value
			}
		}
		ask := []string{"predict", "Qwen3-8B", "--machine", "A100-80G", "--workload", "256/32", "--num-prompts", "300", "--" + api}
		said, err := run(t, append(ask, "--json")...)
		var found struct {
			API     string                             `json:"api"`
			Metrics map[string]struct{ Value float64 } `json:"metrics"`
		}
		if err != nil || json.Unmarshal([]byte(said), &found) != nil || found.API != api || campaign == 0 || math.Abs(found.Metrics["mean_ttft_ms"].Value/campaign-1) > 0.001 {
			t.Errorf("%s: %v: predicted %v, campaign %v; %.300s", api, err, found, campaign, said)
		}
		if said, err = run(t, ask...); err != nil || !strings.Contains(said, "300 requests, "+api+"\n") {
			t.Errorf("%v: %.200s", err, said)
		}
	}
}

// What is wrong is told with status 2 before anything starts.
func TestRunRefuses(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	good := write("good.yaml", simulatedPlan)
	var numbers []string
	for i := range 2500 {
		numbers = append(numbers, strconv.Itoa(i+1))
	}
	many := write("many.yaml", strings.Replace(simulatedPlan, "[4096, 8192]", "["+strings.Join(numbers, ", ")+"]", 1))
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"no plan":           {[]string{"run"}, "which plan"},
		"a missing plan":    {[]string{"run", filepath.Join(dir, "none.yaml")}, "none.yaml"},
		"a wrong plan":      {[]string{"run", write("bad.yaml", "modle: x\n")}, "model"},
		"a wrong world":     {[]string{"run", good, "--simulate=" + write("noise.yaml", "noize: 1\n")}, "noize"},
		"too many":          {[]string{"run", many, "--simulate"}, "--max-candidates"},
		"a machine":         {[]string{"run", good, "--simulate", "--machine", "Cray-1"}, "Cray-1"},
		"an unknown option": {[]string{"run", good, "--smulate"}, "--simulate"},
		"a ready time":      {[]string{"run", good, "--simulate", "--ready-timeout", "-1s"}, "--ready-timeout -1s: a time above 0"},
		"a comparison":      {[]string{"run", write("compare.yaml", simulatedPlan+"compare: [none.json]\n"), "--simulate"}, "compare.yaml: line 12: compare: a result file or a ledger expected"},
	} {
		if text, err := run(t, append(c.args, "--out", filepath.Join(dir, "out"))...); command.Status(err) != 2 || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: status %d, %v, %.300s", name, command.Status(err), err, text)
		}
	}
	if text, err := run(t, "run", "--example"); err != nil || !strings.Contains(text, "generalise:") {
		t.Errorf("--example: %v, %s", err, text)
	}
	if _, err := os.Stat(filepath.Join(dir, "out")); err == nil {
		t.Error("a directory was made")
	}
}

// A campaign whose baseline does not start decides nothing: status 1, and the ledger says why.
func TestRunDecidesNothing(t *testing.T) {
	dir := t.TempDir()
	plan, noise := filepath.Join(dir, "plan.yaml"), filepath.Join(dir, "noise.yaml")
	for path, text := range map[string]string{plan: simulatedPlan, noise: "engines: {vllm: {fails: 'start: no kernel'}}\n"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	text, err := run(t, "run", plan, "--simulate="+noise, "--out", filepath.Join(dir, "out"))
	if command.Status(err) != 1 || !strings.Contains(text, "no kernel") {
		t.Errorf("%v: %s", err, text)
	}
}

// The table of decisions tells settings apart that are named alike, and gains are above 0 when better.
func TestDecisionTable(t *testing.T) {
	alike := "max-num-batched-tokens-and-more: max-num-batched-tokens="
	text := decisionTable([]ledger.Decision{
		{Stage: ledger.StageSmoke, Subject: alike + "4096", Verdict: ledger.Works},
		{Stage: ledger.StageRace, Subject: alike + "4096", Metric: "mean_tpot_ms", Verdict: ledger.Kept, Effect: &ledger.Interval{Value: -0.1, Low: -0.12, High: -0.08}},
		{Stage: ledger.StageRace, Subject: alike + "8192", Metric: "mean_tpot_ms", Verdict: ledger.Rejected, Effect: &ledger.Interval{Value: 0.1, Low: 0.08, High: 0.12}},
		{Stage: ledger.StageDrift, Subject: "baseline", Metric: "mean_tpot_ms", Verdict: ledger.None, Reason: "the baseline changed", Effect: &ledger.Interval{Value: 0.01, Low: -0.01, High: 0.03}},
	})
	for _, want := range []string{"gain: less mean_tpot_ms", "baseline none - the baseline", "tokens=4096 kept", "tokens=8192 rejected", "+10.0 % [+8.0, +12.0]", "-10.0 % [-12.0, -8.0]"} {
		if !strings.Contains(strings.Join(strings.Fields(text), " "), want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

// Decisions stand in the order of a campaign's stages, whatever was decided again after a cut.
func TestDecisionOrder(t *testing.T) {
	decision := func(stage, model, subject string) ledger.Decision {
		return ledger.Decision{Stage: stage, Model: model, Subject: subject}
	}
	got := inOrder([]ledger.Decision{
		decision(ledger.StageSmoke, "m", "a"), decision(ledger.StageGeneralise, "m", "short"), decision(ledger.StageWinner, "m", "x"), decision(ledger.StageSmoke, "n", "a"),
		decision(ledger.StageRace, "m", "a"), decision(ledger.StageService, "m", "a"), decision(ledger.StageRace, "m", "b"), decision(ledger.StageService, "m", "baseline"),
		decision(ledger.StageInteraction, "m", "a + b"), decision(ledger.StageService, "m", "a + b"), decision(ledger.StageDrift, "m", "baseline"),
	})
	var order []string
	for _, decision := range got {
		order = append(order, decision.Stage+" "+decision.Model+" "+decision.Subject)
	}
	want := "smoke m a, race m a, service m a, race m b, service m baseline, drift m baseline, interaction m a + b, service m a + b, generalise m short, winner m x, smoke n a"
	if strings.Join(order, ", ") != want {
		t.Errorf("%s\nwant %s", strings.Join(order, ", "), want)
	}
}

// A campaign that goes on and comes to another winner has one.
func TestOneWinner(t *testing.T) {
	decision := func(id, subject, reason string) ledger.Line {
		return ledger.Line{Kind: ledger.KindDecision, ID: id, Decision: &ledger.Decision{Stage: ledger.StageWinner, Model: "m", Subject: subject, Reason: reason}}
	}
	got := standing([]ledger.Line{decision("winner-1", "the defaults", ""), decision("winner-2", "an option", ""), decision("winner-1.2", "the defaults", "again")})
	if len(got) != 1 || got[0].Reason != "again" {
		t.Errorf("%+v", got)
	}
}
