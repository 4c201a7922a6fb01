package bench

import (
	"bytes"
	"image/png"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// sweepFolder is the results of two loads.
func sweepFolder(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"a": `[{"max_concurrency":1,"dtype":"x/y","request_throughput":2,"output_throughput":20,"total_token_throughput":30,"p99_e2el_ms":100,"run_number":0}]`,
		"b": `[{"max_concurrency":4,"dtype":"z","request_throughput":5,"output_throughput":50,"total_token_throughput":75,"p99_e2el_ms":300,"run_number":0},
			{"dtype":"z","request_throughput":5,"output_throughput":50}]`,
	} {
		path := filepath.Join(dir, "BENCH--"+name, "summary.json")
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// plot runs one of the commands that draw, and returns what it prints.
func plot(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	all := []*cobra.Command{plotCommand(), paretoCommand()}
	at := slices.IndexFunc(all, func(c *cobra.Command) bool { return c.Name() == args[0] || c.HasAlias(args[0]) })
	if at < 0 {
		t.Fatalf("no command %q", args[0])
	}
	all[at].SetOut(&out)
	all[at].SetArgs(args[1:])
	all[at].SilenceErrors, all[at].SilenceUsage = true, true
	err := all[at].Execute()
	return out.String(), err
}

func TestSweepPlot(t *testing.T) {
	dir := sweepFolder(t)
	for _, c := range []struct {
		name  string
		args  []string
		out   string // DIR stands for the folder
		files []string
	}{
		{"one figure", []string{"plot", dir}, "Skipped 1 runs without request_throughput or p99_e2el_ms.\n" +
			"[BEGIN FIGURE]\nGroup: \nGrid: 1 rows x 1 cols\nOutput file: DIR/FIGURE.png\n[END FIGURE]\n", []string{"FIGURE.png"}},
		{"groups, dry", []string{"plot", dir, "--fig-by", "dtype", "--filter-by", "p99_e2el_ms<1000", "--dry-run", "--html", "none/r.html"},
			"[BEGIN FIGURE]\nGroup: dtype=x/y\nGrid: 1 rows x 1 cols\nOutput file: DIR/FIGURE-dtype=x_y.png\n[END FIGURE]\n" +
				"[BEGIN FIGURE]\nGroup: dtype=z\nGrid: 1 rows x 1 cols\nOutput file: DIR/FIGURE-dtype=z.png\n[END FIGURE]\nReport: none/r.html\n", nil},
		{"names and formats", []string{"plot", dir, "--fig-dir", "f/g", "--fig-name", "N", "--fig-format", "svg,png", "--var-x", "max-concurrency", "--scale-x", "log", "--html", filepath.Join(dir, "r.html")},
			"Skipped 1 runs without max_concurrency or p99_e2el_ms.\n[BEGIN FIGURE]\nGroup: \nGrid: 1 rows x 1 cols\nOutput file: DIR/f/g/N.svg\nOutput file: DIR/f/g/N.png\n[END FIGURE]\nReport: DIR/r.html\n",
			[]string{"f/g/N.svg", "f/g/N.png", "r.html"}},
		{"frontier", []string{"plot_pareto", dir}, "Skipped 1 runs without a user count.\n[BEGIN FIGURE]\nOutput file: DIR/pareto/PARETO.png\n" +
			"Plotted 2 points; Pareto frontier size: 2.\n[END FIGURE]\n", []string{"pareto/PARETO.png"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			out, err := plot(t, c.args...)
			if err != nil {
				t.Fatal(err)
			}
			if got := filepath.ToSlash(strings.ReplaceAll(out, dir, "DIR")); got != c.out {
				t.Errorf("printed\n%s\nwant\n%s", got, c.out)
			}
			for _, name := range c.files {
				text, err := os.ReadFile(filepath.Join(dir, name))
				if err != nil {
					t.Fatal(err)
				}
				switch filepath.Ext(name) {
				case ".png":
					_, err = png.DecodeConfig(bytes.NewReader(text))
				case ".svg", ".html":
					if !bytes.Contains(text, []byte("</svg>")) {
						t.Errorf("%s has no figure", name)
					}
				}
				if err != nil {
					t.Errorf("%s: %v", name, err)
				}
			}
		})
	}
	if _, err := os.Stat("none"); err == nil {
		t.Error("a dry run made a file")
	}
}

func TestSweepPlotErrors(t *testing.T) {
	dir := sweepFolder(t)
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"plot"}, "usage: plot OUTPUT_DIR"},
		{[]string{"plot", dir, "--var-y", "none"}, `the y axis "none": no run has this column; there are: dtype, max_concurrency, output_throughput, p99_e2el_ms`},
		{[]string{"plot", dir, "--var-x", "a,b"}, `--var-x "a,b": want one column`},
		{[]string{"plot", dir, "--scale-y", "cubic"}, `--scale-y "cubic": want linear or log`},
		{[]string{"plot", dir, "--filter-by", "dtype<x"}, "--filter-by: filter"},
		{[]string{"plot", dir, "--bin-by", "dtype"}, "--bin-by: bin"},
		{[]string{"plot", dir, "--fig-format", "pdf"}, `--fig-format "pdf": want png, svg or png,svg`},
		{[]string{"plot", t.TempDir()}, "no summary.json"},
		{[]string{"plot-pareto", dir, "--gpu-count-var", "gpus"}, `users or devices "gpus"`},
		{[]string{"plot-pareto", dir, "--fig-format", ""}, "--fig-format"},
	} {
		if _, err := plot(t, c.args...); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: error %v, want %q", c.args, err, c.want)
		}
	}
}
