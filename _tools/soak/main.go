// Command soak runs the counted tests of packages with the counts of a release
// and prints what they measured as rows of docs/evidence/reliability.md.
//
//	go run ./_tools/soak [-share 1] -run PATTERN PACKAGE...
//
// A counted test has the id of a requirement in its name (TestADM3Progress) and
// logs its figures in a line that starts with it ("ADM-3: 200 pools, ...").
package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"ossian/internal/soak"
)

// event is one line of go test -json.
type event struct {
	Action, Package, Test, Output string
	Elapsed                       float64 // seconds
}

// figure is one line that a test logged.
type figure struct{ ids, text, test string }

var logged = regexp.MustCompile(`^\s+\S+\.go:\d+: ([A-Z]{3}-\d+(?:(?:, | and )[A-Z]{3}-\d+)*): (.+)\n$`)

func main() {
	share := flag.Float64("share", 1, "of the counts of a release")
	run := flag.String("run", "", "pattern of test names")
	flag.Parse()
	if *run == "" || flag.NArg() == 0 {
		flag.Usage()
		os.Exit(2)
	}
	if err := measure(*share, *run, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
		os.Exit(1)
	}
}

func measure(share float64, pattern string, packages []string) error {
	args := append([]string{"test", "-json", "-count=1", "-p=1", "-timeout=24h", "-run", pattern}, packages...)
	c := exec.Command("go", args...)
	c.Env = append(os.Environ(), soak.Env+"="+strconv.FormatFloat(share, 'g', -1, 64))
	c.Stderr = os.Stderr
	out, err := c.StdoutPipe()
	if err != nil {
		return err
	}
	if err := c.Start(); err != nil {
		return err
	}
	var figures []figure
	elapsed := map[string]float64{}
	for lines := bufio.NewReader(out); ; {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			break
		}
		var e event
		if json.Unmarshal(line, &e) != nil {
			continue
		}
		name := strings.TrimPrefix(e.Package, "ossian/") + " " + e.Test
		switch {
		case e.Action == "output":
			if m := logged.FindStringSubmatch(e.Output); m != nil {
				figures = append(figures, figure{m[1], m[2], name})
			} else if strings.Contains(e.Output, ".go:") || strings.HasPrefix(e.Output, "panic") {
				fmt.Fprint(os.Stderr, e.Output)
			}
		case e.Test != "" && (e.Action == "pass" || e.Action == "fail"):
			elapsed[name] = e.Elapsed
			fmt.Fprintf(os.Stderr, "%s %s %.1f s\n", e.Action, name, e.Elapsed)
		}
	}
	err = c.Wait()
	slices.SortStableFunc(figures, func(a, b figure) int { return cmp.Compare(a.ids, b.ids) })
	fmt.Println("| id | measured | test | s |\n|---|---|---|---|")
	for _, f := range figures {
		fmt.Printf("| %s | %s | `%s` | %.0f |\n", f.ids, f.text, f.test, elapsed[f.test])
	}
	if err == nil && len(figures) == 0 {
		err = errors.New("no test counted anything: see -run")
	}
	return err
}
