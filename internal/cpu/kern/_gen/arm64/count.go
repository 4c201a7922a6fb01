package main

import (
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
)

// The instructions of a tile's inner loops, which go over 16 weight rows × 32 elements, are what
// can be said of a kernel without a processor to run it on. What they cost differs, and loads
// that amd64 folds into other instructions are counted with these.

var (
	kernelLine = regexp.MustCompile(`^TEXT ·(\w+)\(SB\)`)
	labelLine  = regexp.MustCompile(`^(\w+):$`)
	branchLine = regexp.MustCompile(`^\s(?:JNZ|JL|BNE)\s+(\w+)$`)
)

// inner counts the instructions of each kernel's innermost loops.
func inner(assembly string) map[string]int {
	counts := map[string]int{}
	kernel, label, count := "", "", 0
	for line := range strings.SplitSeq(assembly, "\n") {
		if match := kernelLine.FindStringSubmatch(line); match != nil {
			kernel, label = match[1], ""
		} else if match := labelLine.FindStringSubmatch(line); match != nil {
			label, count = match[1], 0
		} else if trimmed := strings.TrimSpace(line); trimmed != "" && !strings.HasPrefix(trimmed, "//") {
			count++
			if match := branchLine.FindStringSubmatch(line); match != nil && match[1] == label {
				counts[kernel] += count
				label = ""
			}
		}
	}
	return counts
}

// columns are the kernels that the table compares, by level and activation rows.
var columns = []struct {
	level string
	rows  int
}{{"AVX2", 1}, {"NEON", 1}, {"DotProd", 1}, {"AVX2", 4}, {"DotProd", 4}, {"I8MM", 4}}

// report writes the table of docs: instructions for 32 weights and an activation row.
func report(out io.Writer, amd64 string) error {
	other, err := os.ReadFile(amd64)
	if err != nil {
		return err
	}
	counts := inner(string(kernels().text()))
	for name, count := range inner(string(other)) {
		if strings.HasSuffix(name, "AVX2") {
			counts[name] = count
		}
	}
	fmt.Fprint(out, "| weights |")
	for _, column := range columns {
		fmt.Fprintf(out, " %s × %d |", column.level, column.rows)
	}
	fmt.Fprintf(out, "\n|---|%s\n", strings.Repeat("---:|", len(columns)))
	for _, f := range families {
		fmt.Fprintf(out, "| `%s` |", f.name)
		for _, column := range columns {
			count, has := counts[fmt.Sprintf("%sTile%d%s", f.name, column.rows, column.level)]
			if !has {
				fmt.Fprint(out, " – |")
				continue
			}
			fmt.Fprintf(out, " %.1f |", float64(count)/16/float64(column.rows))
		}
		fmt.Fprintln(out)
	}
	return nil
}
