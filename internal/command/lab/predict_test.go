package lab

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"ossian/internal/command"
	"ossian/internal/soak"
)

func TestPredictCommand(t *testing.T) {
	out, err := run(t, "predict", "openai/gpt-oss-20b", "--machine", "A100-80G", "--workload", "sharegpt", "--num-prompts", "100")
	if err != nil || strings.Contains(out, "BOUND") || !strings.Contains(out, "Mean TPOT (ms)") || !strings.Contains(out, "95 % interval") || !strings.Contains(out, "shares of the time: ") ||
		!strings.Contains(out, "preemptions") || !strings.Contains(out, "assumed: ShareGPT") {
		t.Errorf("%v\n%s", err, out)
	}
	// Kernels that were never measured: a bound, marked; refused under --strict; lent by assumption.
	bound := []string{"predict", "Qwen3-8B", "--machine", "MI300X", "--num-prompts", "20"}
	if out, err = run(t, bound...); err != nil || !strings.Contains(out, "BOUND ONLY") || !strings.Contains(out, "no server is faster") {
		t.Errorf("%v\n%s", err, out)
	}
	if _, err = run(t, append(slices.Clone(bound), "--strict")...); command.Status(err) != 1 {
		t.Errorf("strict: status %d of %v, want 1", command.Status(err), err)
	}
	if out, err = run(t, append(slices.Clone(bound), "--kernels-as-on", "A100-80G")...); err != nil || strings.Contains(out, "BOUND") || !strings.Contains(out, "assumed: kernels reach the shares of MI300X") {
		t.Errorf("%v\n%s", err, out)
	}
	// The same command, the same bytes.
	again := append(slices.Clone(bound), "--json")
	first, err := run(t, again...)
	second, _ := run(t, again...)
	var decoded predicted
	if err != nil || first != second || json.Unmarshal([]byte(first), &decoded) != nil || !decoded.Bound || decoded.Metrics["duration_s"].Value <= 0 {
		t.Errorf("%v\n%s", err, first)
	}
}

func TestPredictRank(t *testing.T) {
	out, err := run(t, "predict", "Qwen3-8B", "--machine", "A100-80G", "--num-prompts", "200", "--workload", "256/64", "--try", "max-num-seqs=16,64,256", "--try", "tp=1,64", "--json")
	if err != nil {
		t.Fatal(err)
	}
	var got struct{ Settings []candidate }
	if err := json.Unmarshal([]byte(out), &got); err != nil || len(got.Settings) != 6 {
		t.Fatalf("%v\n%s", err, out)
	}
	for i, one := range got.Settings {
		if i < 3 && (one.Rank != i+1 || (i > 0 && one.Objective.Value > got.Settings[i-1].Objective.Value)) {
			t.Errorf("%d: %+v", i, one)
		}
		if i >= 3 && (one.Rank != 0 || one.Failed == "") {
			t.Errorf("64 devices were ranked: %+v", one)
		}
	}
	if !strings.HasPrefix(got.Settings[0].Name, "max-num-seqs=256") {
		t.Errorf("best %q", got.Settings[0].Name)
	}
	file := filepath.Join(t.TempDir(), "settings.json")
	if err := os.WriteFile(file, []byte(`{"few":{"max_num_seqs":8},"many":{"max_num_seqs":128,"async_scheduling":true}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err = run(t, "predict", "Qwen3-8B", "--machine", "A100-80G", "--num-prompts", "50", "--rank", file, "--by", "mean_tpot_ms")
	if err != nil || strings.Index(out, "few") > strings.Index(out, "many") {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestPredictOssian: Ossian's own kernels on a GPU are counted, marked as such everywhere, and a setting that
// there are no kernels for is refused under --strict, however it is spelt.
func TestPredictOssian(t *testing.T) {
	ossian := []string{"predict", "openai/gpt-oss-20b", "--machine", "H100", "--engine", "ossian", "--num-prompts", "20", "--strict"}
	const note = "assumed: kernels of ossian on H100-SXM: from counts, with constants fitted to"
	out, err := run(t, ossian...)
	if err != nil || strings.Contains(out, "BOUND") || !strings.Contains(out, note) {
		t.Errorf("%v\n%s", err, out)
	}
	for _, flag := range []string{"--tp", "--tensor-parallel-size"} {
		if _, err = run(t, append(slices.Clone(ossian), flag, "2")...); command.Status(err) != 1 || !strings.Contains(err.Error(), "allreduce/scale") {
			t.Errorf("%s 2: %v", flag, err)
		}
	}
	out, err = run(t, append(slices.Clone(ossian[:5]), "ossian", "--preset", "max-throughput", "--input-len", "128", "--output-len", "16", "--max-users", "16")...)
	if err != nil || strings.Contains(out, "BOUND") || !strings.Contains(out, note) || !strings.Contains(out, "only a bound is known") || strings.Contains(out, "--tensor-parallel-size 2") {
		t.Errorf("%v\n%s", err, out)
	}
	if soak.Cases(t, 0, 1) == 0 {
		return // sizes take long
	}
	out, err = run(t, "size", "openai/gpt-oss-20b", "--machine", "H100", "--engine", "ossian", "--tp", "1", "--workload", "256/32", "--rate", "2", "--sla", "mean_tpot_ms<=60")
	if err != nil || strings.Contains(out, "BOUND") || !strings.Contains(out, note) {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestPredictPreset(t *testing.T) {
	out, err := run(t, "predict", "openai/gpt-oss-120b", "--machine", "B200", "--preset", "balanced", "--input-len", "128", "--output-len", "16", "--max-users", "64", "--measure")
	if err != nil || !strings.Contains(out, "--max-num-seqs ") || !strings.Contains(out, "> is the choice") || !strings.Contains(out, "BOUND ONLY") || !strings.Contains(out, "depends: vllm 0.11.0 has no calibration on B200") || !strings.Contains(out, "not measured: B200") {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestSizeCommand(t *testing.T) {
	small := []string{"size", "Qwen3-8B", "--machine", "H100,A100-80G", "--workload", "256/32", "--price", "H100=3,A100-80G=1.5"}
	out, err := run(t, append(slices.Clone(small), "--rate", "30", "--sla", "mean_tpot_ms<=60,p99_ttft_ms<=2000")...)
	if err != nil || !strings.Contains(out, "A100-SXM4-80G      1         1") || strings.Index(out, "A100-SXM4-80G") > strings.Index(out, "H100-SXM") {
		t.Errorf("%v\n%s", err, out)
	}
	out, err = run(t, append(slices.Clone(small), "--rate", "5", "--sla", "mean_tpot_ms<=0.1", "--tp", "1")...)
	if command.Status(err) != 1 || !strings.Contains(out, "none fits; nearest: ") || !strings.Contains(out, "mean_tpot_ms<=0.1 is ") {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestCalibrateRows(t *testing.T) {
	file := filepath.Join(t.TempDir(), "h100.json")
	out, err := run(t, "calibrate", "--rows", "../../lab/predict/calibrate/testdata/public.json", "--only", "qwen3-32b-h100", "--max-rows", "3", "-o", file)
	if err != nil || !strings.Contains(out, "fitted to 3 of 5 rows") || !strings.Contains(out, "each chosen row from the others") || !strings.Contains(out, "not identified") {
		t.Fatalf("%v\n%s", err, out)
	}
	if out, err = run(t, "predict", "Qwen3-32B", "--machine", "H100", "--calibration", file, "--num-prompts", "20", "--strict"); err != nil || strings.Contains(out, "BOUND") {
		t.Errorf("%v\n%s", err, out)
	}
	// The built-in model here: steps, whole runs, and a file that predictions find by themselves.
	state := t.TempDir()
	t.Setenv("XDG_STATE_HOME", state)
	if _, err := run(t, "predict", "ossian-tiny", "--workload", "64/8"); command.Status(err) != 2 || !strings.Contains(err.Error(), "lab calibrate") {
		t.Errorf("processors that were not measured: %v", err)
	}
	out, err = run(t, "calibrate", "--seconds", "1", "--threads", "1", "--check", "4x64/8")
	if err != nil || !strings.Contains(out, "decode 1 × 32") || !strings.Contains(out, "4 × 64/8") {
		t.Fatalf("%v\n%s", err, out)
	}
	if out, err = run(t, "predict", "ossian-tiny", "--workload", "64/8", "--num-prompts", "8", "--strict"); err != nil || !strings.Contains(out, "on cpu, ossian") {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestBadRequests: what cannot be asked ends with status 2 and says what to change.
func TestBadRequests(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	for want, args := range map[string][]string{
		"Z80":               {"predict", "Qwen3-8B", "--machine", "Z80"},
		"no shape":          {"predict", "none-of-these", "--machine", "H100"},
		"no profile":        {"predict", "Qwen3-8B", "--machine", "H100", "--engine", "tgi"},
		"sharegpt":          {"predict", "Qwen3-8B", "--machine", "H100", "--workload", "sharegtp"},
		"negative":          {"predict", "Qwen3-8B", "--machine", "H100", "--num-prompts", "-1"},
		"request-rate":      {"predict", "Qwen3-8B", "--machine", "H100", "--request-rate", "-3"},
		"not part":          {"predict", "Qwen3-8B", "--machine", "H100", "--try", "attention-backend=A,B"},
		"FLAG=A,B,C":        {"predict", "Qwen3-8B", "--machine", "H100", "--try", "tp"},
		"one of the two":    {"predict", "Qwen3-8B", "--machine", "H100", "--try", "tp=1", "--rank", "x"},
		"mean_ttft_ms":      {"predict", "Qwen3-8B", "--machine", "H100", "--try", "tp=1", "--by", "mean_tft_ms"},
		"does not fit":      {"predict", "Qwen3-32B", "--machine", "L40S"},
		"fastest":           {"predict", "Qwen3-8B", "--machine", "H100", "--preset", "fastest"},
		"--rate":            {"size", "Qwen3-8B", "--machine", "H100"},
		"--sla":             {"size", "Qwen3-8B", "--machine", "H100", "--rate", "1", "--sla", "fast"},
		"no objective":      {"size", "Qwen3-8B", "--machine", "H100", "--rate", "1", "--sla", " "},
		"--price":           {"size", "Qwen3-8B", "--machine", "H100", "--rate", "1", "--price", "H200=1"},
		"above 0":           {"size", "Qwen3-8B", "--machine", "H100", "--rate", "0"},
		"is not predicted":  {"size", "Qwen3-8B", "--machine", "H100", "--tp", "1", "--rate", "1", "--sla", "p98_ttft_ms<=1"},
		"BATCHxPROMPT":      {"calibrate", "--check", "eight"},
		"--rows FILE":       {"calibrate", "ossian-tiny", "--rows", "x"},
		"no such file":      {"calibrate", "--rows", "none.json"},
		"none.json":         {"predict", "Qwen3-8B", "--machine", "H100", "--calibration", "none.json"},
		"MODEL@MACHINE":     {"verify", "--against", "Qwen3-8B", "predict_test.go"},
		"fixed lengths":     {"predict", "Qwen3-8B", "--machine", "H100", "--preset", "balanced", "--workload", "sharegpt"},
		"no calibration of": {"predict", "Qwen3-8B", "--machine", "H100", "--kernels-as-on", "MI300X", "--engine", "vllm@0.9.0"},
	} {
		if _, err := run(t, args...); command.Status(err) != 2 || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: status %d of %v, want 2 and %q", args, command.Status(err), err, want)
		}
	}
}

// TestSaidAndIgnored: what is given and would say nothing, or is no number to run with, ends with the
// status of usage and names the flag.
func TestSaidAndIgnored(t *testing.T) {
	predict := []string{"predict", "Qwen3-8B", "--machine", "A100-80G"}
	sized := []string{"size", "Qwen3-8B", "--machine", "A100-80G", "--rate", "1"}
	for _, c := range []struct {
		of   []string
		args string
		want string
	}{
		{predict, "--num-prompts 0", "--num-prompts 0"}, {predict, "--request-rate 0", "--request-rate 0"}, {predict, "--input-len 0", "--input-len 0"},
		{predict, "--output-len 0", "--output-len 0"}, {predict, "--max-num-seqs 0", "--max-num-seqs 0"}, {predict, "--try max-num-seqs=0,4", "--max-num-seqs 0"},
		{predict, "--preset balanced --try max-num-seqs=4", "--try"}, {predict, "--preset balanced --num-prompts 3", "--num-prompts"},
		{predict, "--preset balanced --users 3", "--users"}, {predict, "--users 3", "--users"}, {predict, "--by mean_tpot_ms", "--by"},
		{predict, "--try max-num-seqs=4 --measure", "--measure"}, {predict, "--preset balanced --input-len 0", "--input-len 0"},
		{sized, "--max-num-seqs 0", "--max-num-seqs 0"}, {sized, "--gpu-memory-utilization 0", "--gpu-memory-utilization 0"}, {sized, "--input-len 0", "--input-len 0"},
		{sized, "--price H200=2", "--machine A100-80G does not name it"}, {sized, "--price A1000=2", "not known"},
		{sized, "--sla mean_tpot_ms<=-4", "not above 0"}, {sized, "--sla output_throughput>=1000", "1 requests/s of 128 answer tokens"},
	} {
		if _, err := run(t, append(slices.Clone(c.of), strings.Fields(c.args)...)...); command.Status(err) != 2 || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: status %d, %v", c.args, command.Status(err), err)
		}
	}
	// A price goes by any of a machine's names; a long setting has its column.
	out, err := run(t, append(slices.Clone(sized), "--price", "A100-SXM4-80G=2", "--max-num-seqs", "1", "--input-len", "64", "--output-len", "8")...)
	if err != nil || strings.Contains(out, "no price") {
		t.Errorf("%v\n%s", err, out)
	}
	long := "max-num-batched-tokens=2048 max-num-seqs=4 max-model-len=4096 gpu-memory-utilization=0.9"
	args := append(slices.Clone(predict), "--num-prompts", "4")
	for one := range strings.FieldsSeq(long) {
		args = append(args, "--try", one)
	}
	out, err = run(t, args...)
	lines := strings.Split(strings.TrimSpace(out), "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, "rank") && (i+1 >= len(lines) || strings.Index(line, "95 %") != strings.Index(lines[i+1], "[")) {
			t.Errorf("%v\n%s", err, out)
		}
	}
}
