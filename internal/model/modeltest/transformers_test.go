package modeltest

import (
	"bufio"
	"encoding/json"
	"flag"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"ossian/internal/tensor"
)

var dump = flag.String("dump", "", "folder for the tiny models that testdata/logits.py reads")

// golden names the models of testdata/logits.golden.
var golden = map[string]struct {
	family string
	o      Options
}{
	"gptoss":             {"gpt-oss", Options{Experts: tensor.MXFP4}},
	"qwen3":              {"qwen3", Options{Tied: true}},
	"qwen3moe":           {"qwen3moe", Options{Dense: true}},
	"qwen3moe_no_renorm": {"qwen3moe", Options{NoRenorm: true}},
	"llama":              {"llama", Options{}},
	"llama3":             {"llama", Options{Tied: true, Llama3: true}},
}

// prompt is longer than the windows and than Original of the Llama 3 frequencies.
func prompt() []int32 {
	ids := make([]int32, 60)
	for i := range ids {
		ids[i] = int32(i*i*7+i*3) % 199
	}
	return ids
}

// TestOracleEqualsTransformers compares with an implementation that shares
// nothing with this project. It rounds norms and angles to float32, hence the
// tolerance.
func TestOracleEqualsTransformers(t *testing.T) {
	logits := make(map[string][][]float64)
	for name, m := range golden {
		o, err := NewOracle(Tiny(m.family, m.o))
		if err != nil {
			t.Fatal(err)
		}
		logits[name] = o.Logits(prompt())
		if *dump != "" {
			write(t, filepath.Join(*dump, name+".json"), o)
		}
	}
	f, err := os.Open("testdata/logits.golden")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	seen := make(map[string]bool)
	for lines := bufio.NewScanner(f); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if fields[0] == "#" {
			continue
		}
		numbers := make([]float64, len(fields)-1)
		for i, field := range fields[1:] {
			if numbers[i], err = strconv.ParseFloat(field, 64); err != nil {
				t.Fatal(err)
			}
		}
		if logits[fields[0]] == nil {
			t.Fatalf("no model %q", fields[0])
		}
		got := logits[fields[0]][int(numbers[0])]
		for id, want := range numbers[1:] {
			if !(math.Abs(got[id]-want) <= 1e-4) {
				t.Errorf("%s, position %v: logit %d is %v, want %v", fields[0], numbers[0], id, got[id], want)
			}
		}
		seen[fields[0]] = true
	}
	if len(seen) != len(golden) {
		t.Errorf("golden file has models %v, want %d", seen, len(golden))
	}
}

func write(t *testing.T, file string, o *Oracle) {
	t.Helper()
	type parameter struct {
		Shape []int     `json:"shape"`
		Data  []float32 `json:"data"`
	}
	out := struct {
		IDs    []int32              `json:"ids"`
		Params map[string]parameter `json:"params"`
	}{prompt(), make(map[string]parameter)}
	for name, p := range o.params {
		out.Params[name] = parameter{p.Shape, o.decoded(name)}
	}
	b, err := json.Marshal(out)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, b, 0o666); err != nil {
		t.Fatal(err)
	}
}
