package bench

import (
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"ossian/internal/bench/chart"
	"ossian/internal/command"
)

// plotOptions are the flags of `ossian bench sweep plot`. Names and defaults are vLLM's,
// --fig-format and --html apart.
type plotOptions struct {
	figDir, figName, formats       string
	figures, rows, columns, curves string
	x, y, scaleX, scaleY           string
	filters, bins, html            string
	dry                            bool
}

func plotCommand() *cobra.Command {
	o := &plotOptions{}
	c := &cobra.Command{
		Use:   "plot OUTPUT_DIR",
		Short: "Draw curves from the results of a sweep",
		Long: `Draw curves from the results of a sweep: of every summary.json in a folder and below it.
What can be drawn, compared and grouped by is any member of the results that is a number
or a text, parameters included. Runs that repeat a measurement are drawn as one point, at
their mean, with a bar from the least to the most.`,
		Args: command.Usage(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error { return o.run(cmd.OutOrStdout(), args[0]) },
	}
	f := c.Flags()
	f.SortFlags = false
	f.StringVar(&o.x, "var-x", "request_throughput", "`COLUMN` along the x axis")
	f.StringVar(&o.y, "var-y", "p99_e2el_ms", "`COLUMN` along the y axis")
	f.StringVar(&o.figures, "fig-by", "", "`COLUMNS`, separated by commas: a figure for each combination of their values")
	f.StringVar(&o.rows, "row-by", "", "`COLUMNS`: a row of panels for each")
	f.StringVar(&o.columns, "col-by", "", "`COLUMNS`: a column of panels for each")
	f.StringVar(&o.curves, "curve-by", "", "`COLUMNS`: a curve for each")
	f.StringVar(&o.filters, "filter-by", "", "`CONDITIONS` of runs to draw, such as 'max_concurrency<1000,model_id==x'")
	f.StringVar(&o.bins, "bin-by", "", "`COLUMN%SIZE,...`: numbers rounded down to multiples, such as 'request_throughput%10'")
	f.StringVar(&o.scaleX, "scale-x", "linear", "linear or log")
	f.StringVar(&o.scaleY, "scale-y", "linear", "linear or log")
	f.StringVar(&o.figDir, "fig-dir", "", "`FOLDER` of the figures, relative to OUTPUT_DIR")
	f.StringVar(&o.figName, "fig-name", "FIGURE", "how the names of the figures begin")
	f.StringVar(&o.formats, "fig-format", "png", "png, svg or both: png,svg")
	f.StringVar(&o.html, "html", "", "`FILE` for a report of the whole sweep that opens in any browser")
	f.BoolVar(&o.dry, "dry-run", false, "say what would be drawn, and draw nothing")
	return c
}

func (o *plotOptions) run(w io.Writer, dir string) error {
	p, err := o.config()
	if err != nil {
		return err
	}
	formats, err := chart.ParseFormats(o.formats)
	if err != nil {
		return err
	}
	s, err := chart.ReadSweep(dir)
	if err != nil {
		return err
	}
	figures, skipped, err := s.Plot(p)
	if err != nil {
		return err
	}
	if skipped > 0 {
		fmt.Fprintf(w, "Skipped %d runs without %s or %s.\n", skipped, p.X, p.Y)
	}
	folder := o.figDir
	if !filepath.IsAbs(folder) {
		folder = filepath.Join(dir, folder)
	}
	for _, f := range figures {
		fmt.Fprintf(w, "[BEGIN FIGURE]\nGroup: %s\nGrid: %d rows x %d cols\n", f.Title, len(f.Panels), len(f.Panels[0]))
		if err := saveFigure(w, f, folder, formats, o.dry); err != nil {
			return err
		}
		fmt.Fprintln(w, "[END FIGURE]")
	}
	if o.html == "" {
		return nil
	}
	fmt.Fprintf(w, "Report: %s\n", o.html)
	if o.dry {
		return nil
	}
	name, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	return writeTo(o.html, func(w io.Writer) error { return s.HTML(w, filepath.Base(name), figures) })
}

// config reads what the flags say of the figures.
func (o *plotOptions) config() (p chart.PlotConfig, err error) {
	p = chart.PlotConfig{Name: o.figName, Figures: chart.Columns(o.figures), Rows: chart.Columns(o.rows), Columns: chart.Columns(o.columns), Curves: chart.Columns(o.curves)}
	if p.Filters, err = chart.ParseFilters(o.filters); err != nil {
		return p, fmt.Errorf("--filter-by: %w", err)
	}
	if p.Bins, err = chart.ParseBins(o.bins); err != nil {
		return p, fmt.Errorf("--bin-by: %w", err)
	}
	for _, a := range []struct {
		flag, text string
		column     *string
	}{{"--var-x", o.x, &p.X}, {"--var-y", o.y, &p.Y}} {
		names := chart.Columns(a.text)
		if len(names) != 1 {
			return p, fmt.Errorf("%s %q: want one column", a.flag, a.text)
		}
		*a.column = names[0]
	}
	for _, a := range []struct {
		flag, text string
		log        *bool
	}{{"--scale-x", o.scaleX, &p.LogX}, {"--scale-y", o.scaleY, &p.LogY}} {
		if a.text != "log" && a.text != "linear" {
			return p, fmt.Errorf("%s %q: want linear or log", a.flag, a.text)
		}
		*a.log = a.text == "log"
	}
	return p, nil
}

// saveFigure writes a figure in each format, or says only where it would.
func saveFigure(w io.Writer, f *chart.Figure, folder string, formats []string, dry bool) error {
	for _, format := range formats {
		path := filepath.Join(folder, f.Name+"."+format)
		fmt.Fprintf(w, "Output file: %s\n", path)
		if dry {
			continue
		}
		if err := os.MkdirAll(folder, 0o777); err != nil {
			return err
		}
		if err := f.Save(path); err != nil {
			return err
		}
	}
	return nil
}

func paretoCommand() *cobra.Command {
	var users, devices, format string
	var dry bool
	c := &cobra.Command{
		Use:     "plot-pareto OUTPUT_DIR",
		Aliases: []string{"plot_pareto"},
		Short:   "Draw what users get against what devices give",
		Long: `Draw output throughput per device over output throughput per user for every run of a
sweep, and the frontier: the runs of which none is better in both. The figure is written to
the folder pareto in OUTPUT_DIR.`,
		Args: command.Usage(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			w := cmd.OutOrStdout()
			formats, err := chart.ParseFormats(format)
			if err != nil {
				return err
			}
			s, err := chart.ReadSweep(args[0])
			if err != nil {
				return err
			}
			p, err := s.Pareto(users, devices)
			if err != nil {
				return err
			}
			if p.Skipped > 0 {
				fmt.Fprintf(w, "Skipped %d runs without a user count.\n", p.Skipped)
			}
			fmt.Fprintln(w, "[BEGIN FIGURE]")
			if err := saveFigure(w, p.Figure, filepath.Join(args[0], "pareto"), formats, dry); err != nil {
				return err
			}
			fmt.Fprintf(w, "Plotted %d points; Pareto frontier size: %d.\n[END FIGURE]\n", p.Points, p.Best)
			return nil
		},
	}
	f := c.Flags()
	f.SortFlags = false
	f.StringVar(&users, "user-count-var", "", "`COLUMN` with the number of users; default max_concurrency, else request_rate, else max_concurrent_requests")
	f.StringVar(&devices, "gpu-count-var", "", "`COLUMN` with the number of devices; default the product of tensor, pipeline and data parallel sizes")
	f.StringVar(&format, "fig-format", "png", "png, svg or both: png,svg")
	f.BoolVar(&dry, "dry-run", false, "say what would be drawn, and draw nothing")
	return c
}
