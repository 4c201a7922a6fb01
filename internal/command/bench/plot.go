package bench

import (
	"cmp"
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

// plotCommand is ossian bench sweep plot.
func plotCommand() *cobra.Command {
	opts := &plotOptions{}
	cmd := &cobra.Command{
		Use:   "plot OUTPUT_DIR",
		Short: "Draw curves from the results of a sweep",
		Long: `Draw curves from the results of a sweep: of every summary.json in a folder and below it.
What can be drawn, compared and grouped by is any member of the results that is a number
or a text, parameters included. Runs that repeat a measurement are drawn as one point, at
their mean, with a bar from the least to the most.`,
		Args: command.Usage(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error { return opts.run(cleaner{cmd.OutOrStdout()}, args[0]) },
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVar(&opts.x, "var-x", "request_throughput", "`COLUMN` along the x axis")
	flags.StringVar(&opts.y, "var-y", "p99_e2el_ms", "`COLUMN` along the y axis")
	flags.StringVar(&opts.figures, "fig-by", "", "`COLUMNS`, separated by commas: a figure for each combination of their values")
	flags.StringVar(&opts.rows, "row-by", "", "`COLUMNS`: a row of panels for each")
	flags.StringVar(&opts.columns, "col-by", "", "`COLUMNS`: a column of panels for each")
	flags.StringVar(&opts.curves, "curve-by", "", "`COLUMNS`: a curve for each")
	flags.StringVar(&opts.filters, "filter-by", "", "`CONDITIONS` of runs to draw, such as 'max_concurrency<1000,model_id==x'")
	flags.StringVar(&opts.bins, "bin-by", "", "`COLUMN%SIZE,...`: numbers rounded down to multiples, such as 'request_throughput%10'")
	flags.StringVar(&opts.scaleX, "scale-x", "linear", "linear or log")
	flags.StringVar(&opts.scaleY, "scale-y", "linear", "linear or log")
	flags.StringVar(&opts.figDir, "fig-dir", "", "`FOLDER` of the figures, relative to OUTPUT_DIR")
	flags.StringVar(&opts.figName, "fig-name", "FIGURE", "how the names of the figures begin")
	flags.StringVar(&opts.formats, "fig-format", "png", "png, svg or both: png,svg")
	flags.StringVar(&opts.html, "html", "", "`FILE` for a report of the whole sweep that opens in any browser")
	flags.BoolVar(&opts.dry, "dry-run", false, "say what would be drawn, and draw nothing")
	return cmd
}

// run draws the figures of the sweep in dir. Everything asked for is checked first; what is
// printed is what vLLM prints.
func (o *plotOptions) run(out io.Writer, dir string) error {
	plot, err := o.config()
	if err != nil {
		return err
	}
	formats, err := chart.ParseFormats(o.formats)
	if err != nil {
		return err
	}
	// A relative folder is within the sweep's, as vLLM has it, and not within that of the caller.
	folder := o.figDir
	if !filepath.IsAbs(folder) {
		folder = filepath.Join(dir, folder)
	}
	if !o.dry {
		if err := cmp.Or(command.OutputFolder("--fig-dir", folder), command.OutputFile("--html", o.html)); err != nil {
			return err
		}
	}
	sweep, err := chart.ReadSweep(dir)
	if err != nil {
		return err
	}
	sayFailures(out, sweep)
	figures, skipped, err := sweep.Plot(plot)
	if err != nil {
		return err
	}
	if skipped > 0 {
		fmt.Fprintf(out, "Skipped %d runs without %s or %s.\n", skipped, plot.X, plot.Y)
	}
	for _, figure := range figures {
		fmt.Fprintf(out, "[BEGIN FIGURE]\nGroup: %s\nGrid: %d rows x %d cols\n", figure.Title, len(figure.Panels), len(figure.Panels[0]))
		if err := saveFigure(out, figure, folder, formats, o.dry); err != nil {
			return err
		}
		fmt.Fprintln(out, "[END FIGURE]")
	}
	if o.html == "" {
		return nil
	}
	fmt.Fprintf(out, "Report: %s\n", o.html)
	if o.dry {
		return nil
	}
	name, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	return writeTo(o.html, func(out io.Writer) error { return sweep.HTML(out, filepath.Base(name), figures) })
}

// sayFailures names what of a sweep failed.
func sayFailures(out io.Writer, sweep *chart.Sweep) {
	for _, failure := range sweep.Failures() {
		fmt.Fprintf(out, "Failed: %s: %s\n", failure.Name, failure.Reason)
	}
}

// config reads what the flags say of the figures.
func (o *plotOptions) config() (plot chart.PlotConfig, err error) {
	plot = chart.PlotConfig{Name: o.figName, Figures: chart.Columns(o.figures), Rows: chart.Columns(o.rows), Columns: chart.Columns(o.columns), Curves: chart.Columns(o.curves)}
	if plot.Filters, err = chart.ParseFilters(o.filters); err != nil {
		return plot, fmt.Errorf("--filter-by: %w", err)
	}
	if plot.Bins, err = chart.ParseBins(o.bins); err != nil {
		return plot, fmt.Errorf("--bin-by: %w", err)
	}
	// An axis is one column, where everything else may be several.
	for _, axis := range []struct {
		flag, text string
		column     *string
	}{{"--var-x", o.x, &plot.X}, {"--var-y", o.y, &plot.Y}} {
		names := chart.Columns(axis.text)
		if len(names) != 1 {
			return plot, fmt.Errorf("%s %q: want one column", axis.flag, axis.text)
		}
		*axis.column = names[0]
	}
	for _, scale := range []struct {
		flag, text string
		log        *bool
	}{{"--scale-x", o.scaleX, &plot.LogX}, {"--scale-y", o.scaleY, &plot.LogY}} {
		if scale.text != "log" && scale.text != "linear" {
			return plot, fmt.Errorf("%s %q: want linear or log", scale.flag, scale.text)
		}
		*scale.log = scale.text == "log"
	}
	return plot, nil
}

// saveFigure writes a figure in each format, or says only where it would.
func saveFigure(w io.Writer, figure *chart.Figure, folder string, formats []string, dry bool) error {
	for _, format := range formats {
		path := filepath.Join(folder, figure.Name+"."+format)
		fmt.Fprintf(w, "Output file: %s\n", path)
		if dry {
			continue
		}
		if err := os.MkdirAll(folder, 0o777); err != nil {
			return err
		}
		if err := figure.Save(path); err != nil {
			return err
		}
	}
	return nil
}

// paretoCommand is ossian bench sweep plot-pareto.
func paretoCommand() *cobra.Command {
	var users, devices, format string
	var dry bool
	cmd := &cobra.Command{
		Use:     "plot-pareto OUTPUT_DIR",
		Aliases: []string{"plot_pareto"},
		Short:   "Draw what users get against what devices give",
		Long: `Draw output throughput per device over output throughput per user for every run of a
sweep, and the frontier: the runs of which none is better in both. The figure is written to
the folder pareto in OUTPUT_DIR.`,
		Args: command.Usage(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			out := cleaner{cmd.OutOrStdout()}
			formats, err := chart.ParseFormats(format)
			if err != nil {
				return err
			}
			folder := filepath.Join(args[0], "pareto")
			if !dry {
				if err := command.OutputFolder("OUTPUT_DIR", folder); err != nil {
					return err
				}
			}
			sweep, err := chart.ReadSweep(args[0])
			if err != nil {
				return err
			}
			sayFailures(out, sweep)
			frontier, err := sweep.Pareto(users, devices)
			if err != nil {
				return err
			}
			if frontier.Skipped > 0 {
				fmt.Fprintf(out, "Skipped %d runs without a user count.\n", frontier.Skipped)
			}
			fmt.Fprintln(out, "[BEGIN FIGURE]")
			if err := saveFigure(out, frontier.Figure, folder, formats, dry); err != nil {
				return err
			}
			fmt.Fprintf(out, "Plotted %d points; Pareto frontier size: %d.\n[END FIGURE]\n", frontier.Points, frontier.Best)
			return nil
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVar(&users, "user-count-var", "", "`COLUMN` with the number of users; default max_concurrency, else request_rate, else max_concurrent_requests")
	flags.StringVar(&devices, "gpu-count-var", "", "`COLUMN` with the number of devices; default the product of tensor, pipeline and data parallel sizes")
	flags.StringVar(&format, "fig-format", "png", "png, svg or both: png,svg")
	flags.BoolVar(&dry, "dry-run", false, "say what would be drawn, and draw nothing")
	return cmd
}
