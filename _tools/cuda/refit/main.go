// Command refit fits the constants of the cost model to times of kernels that a card has shown:
//
//	go run ./_tools/cuda/refit [-out internal/cuda/cost/constants] kernels.csv
//
// For each card in the file it writes CARD.json, which the program then carries, and prints what was
// found and the rows that the model misses most. internal/cuda/cost/records.go says what the columns are.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"ossian/internal/cuda/cost"
	"ossian/internal/lab/predict/machine"
)

func main() {
	out := flag.String("out", "internal/cuda/cost/constants", "`folder` for CARD.json")
	flag.Parse()
	if flag.NArg() != 1 {
		flag.Usage()
		os.Exit(2)
	}
	if err := run(flag.Arg(0), *out, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "refit:", err)
		os.Exit(1)
	}
}

// run fits all cards of a file.
func run(path, out string, report io.Writer) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	records, err := cost.ReadRecords(file)
	if err != nil {
		return err
	}
	byCard := map[string][]cost.Record{}
	var names []string
	for _, r := range records {
		if byCard[r.Card] == nil {
			names = append(names, r.Card)
		}
		byCard[r.Card] = append(byCard[r.Card], r)
	}
	for _, name := range names {
		if err := fit(name, byCard[name], out, report); err != nil {
			return err
		}
	}
	return nil
}

// fit fits one card, writes its file and reports.
func fit(name string, records []cost.Record, out string, report io.Writer) error {
	known, err := machine.Lookup(name)
	if err != nil {
		return err
	}
	card, err := cost.CardOf(known)
	if err != nil {
		return err
	}
	fitted, err := cost.Refit(&card, cost.Assumed(), records)
	if err != nil {
		return err
	}
	text, err := json.MarshalIndent(fitted, "", " ")
	if err != nil {
		return err
	}
	path := filepath.Join(out, strings.ToLower(card.Name)+".json")
	if err := os.WriteFile(path, append(text, '\n'), 0o644); err != nil {
		return err
	}
	fmt.Fprintf(report, "%s: %d kernels, error %.1f %%, written to %s\n%s\n", card.Name, fitted.Kernels, 100*fitted.Error, path, text)
	miss := func(r *cost.Record) float64 {
		seconds, _ := fitted.Constants.Seconds(&card, &r.Work)
		return (seconds + fitted.Constants.Gap) * 1e6 / r.Micros
	}
	slices.SortFunc(records, func(a, b cost.Record) int {
		return int(math.Copysign(1, math.Abs(math.Log(miss(&b)))-math.Abs(math.Log(miss(&a)))))
	})
	for i := range records[:min(len(records), 10)] {
		r := &records[i]
		_, by := fitted.Constants.Seconds(&card, &r.Work)
		fmt.Fprintf(report, "%-26s %-40s %6d tokens: %9.1f µs, predicted %.2f of it, by %v\n", r.Kernel, r.Shape, r.Tokens, r.Micros, miss(r), by)
	}
	return nil
}
