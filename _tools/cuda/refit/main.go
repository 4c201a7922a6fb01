// Command refit fits the constants of the cost model to times of kernels that a card has shown:
//
//	go run ./_tools/cuda/refit [-out internal/cuda/cost/constants] [-card H100] [-warpgroups=false] [-worst 10] kernels.csv
//
// For each card in the file it writes CARD.json, which the program then carries, and prints what was found,
// predicted over measured by kernel, and the rows that the model misses most. internal/cuda/cost/records.go
// and times.go say what the columns are. Where they do not name the card, card.json beside the file does.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"ossian/internal/cuda/cost"
	"ossian/internal/lab/predict/machine"
)

// worst is how many rows that the model misses most are printed.
var worst = 10

func main() {
	flag.IntVar(&worst, "worst", worst, "how many rows to print that the model misses most")
	out := flag.String("out", "internal/cuda/cost/constants", "`folder` for CARD.json")
	card := flag.String("card", "", "`name` of the card whose times a file has that does not say it; else card.json beside it says it")
	warpgroups := flag.Bool("warpgroups", true, "the times were taken with products by warpgroups, if the card can do them")
	flag.Parse()
	if flag.NArg() != 1 {
		flag.Usage()
		os.Exit(2)
	}
	if err := run(flag.Arg(0), *out, *card, *warpgroups, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "refit:", err)
		os.Exit(1)
	}
}

// cardBeside returns the card that card.json beside a file names; empty = there is none.
func cardBeside(path string) (string, error) {
	text, err := os.ReadFile(filepath.Join(filepath.Dir(path), "card.json"))
	if errors.Is(err, os.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	var is struct{ Name string }
	if err := json.Unmarshal(text, &is); err != nil {
		return "", fmt.Errorf("%s: card.json: %w", filepath.Dir(path), err)
	}
	return is.Name, nil
}

// lookup returns a card by a name such as the driver's.
func lookup(name string) (cost.Card, error) {
	known, err := machine.Lookup(name)
	if err != nil {
		return cost.Card{}, err
	}
	return cost.CardOf(known)
}

// run fits all cards of a file.
func run(path, out, card string, warpgroups bool, report io.Writer) (err error) {
	if card == "" {
		if card, err = cardBeside(path); err != nil {
			return err
		}
	}
	by := cost.Products{}
	if card != "" {
		known, err := lookup(card)
		if err != nil {
			return err
		}
		by.Warpgroups = warpgroups && known.Warpgroups
	}
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	records, err := cost.ReadRecords(file, card, by)
	if err != nil {
		return err
	}
	byCard := map[string][]cost.Record{}
	var names []string
	for _, r := range records {
		if r.Card == "" {
			return fmt.Errorf("%s: of which card are these times? -card NAME, or card.json beside them", path)
		}
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
	card, err := lookup(name)
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
		seconds, _ := r.Seconds(&card, &fitted.Constants)
		return seconds * 1e6 / r.Micros
	}
	byKernel(records, miss, report)
	slices.SortFunc(records, func(a, b cost.Record) int {
		return int(math.Copysign(1, math.Abs(math.Log(miss(&b)))-math.Abs(math.Log(miss(&a)))))
	})
	for i := range records[:min(len(records), worst)] {
		r := &records[i]
		_, by := r.Seconds(&card, &fitted.Constants)
		fmt.Fprintf(report, "%-26s %-40s %6d tokens: %9.1f µs, predicted %.2f of it, by %v\n", r.Kernel, r.Shape, r.Tokens, r.Micros, miss(r), by)
	}
	return nil
}

// byKernel prints predicted over measured of each kernel, and of operations of several: the median, the least
// and the most.
func byKernel(records []cost.Record, miss func(*cost.Record) float64, report io.Writer) {
	ratios := map[string][]float64{}
	for i := range records {
		name := records[i].Kernel
		if works := records[i].Works; len(works) == 1 {
			name = works[0].Kernel
		}
		ratios[name] = append(ratios[name], miss(&records[i]))
	}
	for _, kernel := range slices.Sorted(maps.Keys(ratios)) {
		all := ratios[kernel]
		slices.Sort(all)
		fmt.Fprintf(report, "%-26s %4d rows: predicted over measured %.2f, from %.2f to %.2f\n", kernel, len(all), all[len(all)/2], all[0], all[len(all)-1])
	}
}
