package calibrate

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"
)

func golden(t testing.TB) []Row {
	t.Helper()
	file, err := os.Open("testdata/rows.json")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	rows, err := Read(file)
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(rows, func(row Row) bool { return row.Engine != "vllm" })
}

func TestGolden(t *testing.T) {
	if os.Getenv("OSSIAN_SOAK") == "" {
		t.Skip("minutes: with OSSIAN_SOAK=1")
	}
	begin := time.Now()
	result, err := Fit(context.Background(), golden(t), 7)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range result.All {
		fmt.Println(e)
	}
	fmt.Println(result.Chosen)
	fmt.Println("left out")
	for _, e := range result.LeftOut {
		fmt.Println(e)
	}
	c := result.Calibration
	fmt.Println(c.Spread, c.Left, c.Range)
	for name, p := range c.Parameters {
		fmt.Printf("%-28s %.4f %s ± %.2f\n", name, p.Value, p.Origin, p.SE)
	}
	fmt.Println(time.Since(begin))
}

func FuzzRead(f *testing.F) {
	text, err := os.ReadFile("testdata/rows.json")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add([]byte(`{"format":"ossian-seed-results-1","rows":[{"workload":{"num_prompts":-1}}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		rows, err := Read(bytes.NewReader(text))
		if err != nil {
			return
		}
		for i := range rows {
			rows[i].Workload.Prompts = min(rows[i].Workload.Prompts, 3)
			rows[i].Workload.InputLen, rows[i].Workload.OutputLen = min(rows[i].Workload.InputLen, 99), min(rows[i].Workload.OutputLen, 99)
			_, _ = rows[i].Scenario(rows[:1])
		}
	})
}
