// Package check is ossian check: the optimisation report of a running server on the command line
// (lab.md 6). What the report says is package lab/check's; here are flags, the question whether
// load may be sent, the load, and the files of models on this machine.
package check

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"ossian/internal/bench"
	"ossian/internal/command"
	"ossian/internal/lab/check"
	"ossian/internal/terminal"
)

// statusUsage is the exit status of what could not begin, as of the lab's commands.
const statusUsage = 2

// options are the flags.
type options struct {
	asJSON, measure, insecure bool
	ask                       bool // whether load may be sent: neither --measure nor its opposite was given
	pid, devices              int
	start, log, model         string
	machine, calibration      string
	bandwidth, bytes          float64 // GB/s of a device, GB of a token; 0 = not given
	compare                   []string
}

// Command returns the command.
func Command() *cobra.Command {
	opts := &options{}
	cmd := &cobra.Command{
		Use:   "check [URL]",
		Short: "Say which optimisations a running server uses, which it lacks, and what that costs",
		Long: `Ask a server of any of seven engines (Ossian, vLLM, SGLang, TensorRT-LLM, llama.cpp, Ollama,
LMDeploy) what it does, and report: where it is, its share of the roofline, a table of optimisations
with evidence, what is missing, the system, next steps, and stored results of the same model.

Without URL the usual ports of this machine are tried. Only GET requests are sent, unless
--measure is given: then at most 60 s of load, too. What was not seen is unknown; there is no figure
without an origin. A key is OPENAI_API_KEY in the environment, for a URL that was named.`,
		Example: "  ossian check\n  ossian check http://127.0.0.1:8000 --measure\n  ossian check http://gpu:8000 --start 'vllm serve openai/gpt-oss-20b' --log start.log --bandwidth 1790",
		Args: func(c *cobra.Command, args []string) error {
			return command.WithStatus(statusUsage, command.Usage(cobra.MaximumNArgs(1))(c, args))
		},
		RunE: func(cmd *cobra.Command, args []string) error { return opts.run(cmd, args) },
	}
	cmd.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return command.WithStatus(statusUsage, command.Suggest(c.Flags(), err))
	})
	flags := cmd.Flags()
	flags.BoolVar(&opts.asJSON, "json", false, "write JSON")
	flags.BoolVar(&opts.measure, "measure", false, "send load for at most 60 s; --measure=false does not ask")
	flags.IntVar(&opts.pid, "pid", 0, "process `N` of this machine is the server: its arguments count")
	flags.StringVar(&opts.start, "start", "", "the `COMMAND` that started the server")
	flags.StringVar(&opts.log, "log", "", "`FILE` with the log of the server's start")
	flags.StringVar(&opts.model, "model", "", "the model's files on this machine, by which is known what a token reads: a folder, a GGUF file, a name in the cache")
	flags.Float64Var(&opts.bandwidth, "bandwidth", 0, "memory bandwidth of one device in `GB/s`")
	flags.StringVar(&opts.machine, "machine", "", "`NAME` of the machine, as H100-SXM: its bandwidth and predictions of gains; without it the card that nvidia-smi names")
	flags.StringVar(&opts.calibration, "calibration", "", "`FILE` of ossian lab calibrate, for predictions of gains")
	flags.Float64Var(&opts.bytes, "bytes-per-token", 0, "`GB` that decoding one token reads, instead of --model")
	flags.IntVar(&opts.devices, "devices", 0, "devices that share a step; 0 = as the server's settings say")
	flags.StringSliceVar(&opts.compare, "compare", nil, "result `FILE`s; those of the same model are shown beside")
	flags.BoolVar(&opts.insecure, "insecure", false, "do not check the server's certificate")
	return cmd
}

// run reports on a server.
func (o *options) run(cmd *cobra.Command, args []string) error {
	if o.bandwidth < 0 || o.bytes < 0 || o.devices < 0 || o.pid < 0 {
		return command.WithStatus(statusUsage, errors.New("--bandwidth, --bytes-per-token, --devices and --pid are numbers from 0"))
	}
	url := ""
	if len(args) > 0 {
		url = args[0]
	}
	asked := check.Options{URL: url, PID: o.pid, Start: o.start, Log: o.log, Compare: o.compare,
		Access: o.access(url), Bytes: o.reads}
	predictor, err := o.predictor()
	if err != nil {
		return command.WithStatus(statusUsage, err)
	}
	asked.Predictor = predictor
	o.ask = !cmd.Flags().Changed("measure") && !o.asJSON && terminal.Is(cmd.InOrStdin()) && terminal.Is(cmd.ErrOrStderr())
	load := &sender{options: o, access: asked.Access, note: cmd.ErrOrStderr()}
	if o.measure || o.ask {
		asked.Measure = func(ctx context.Context, server *check.Server) (check.Load, error) {
			if o.ask && !agreed(cmd, server) {
				return check.Load{}, nil
			}
			return load.measure(ctx, server)
		}
	}
	asked.Hardware = load.hardware
	report, err := check.Run(cmd.Context(), asked)
	if errors.Is(err, check.ErrAddress) {
		return command.WithStatus(statusUsage, err)
	}
	if err != nil {
		return err
	}
	if o.asJSON {
		text, err := report.JSON()
		if err == nil {
			_, err = cmd.OutOrStdout().Write(text)
		}
		return err
	}
	for line := range strings.Lines(report.Text()) { // names come from servers and logs
		if _, err := fmt.Fprintln(cmd.OutOrStdout(), strings.Map(terminal.Printable, strings.TrimSuffix(line, "\n"))); err != nil {
			return err
		}
	}
	return nil
}

// access is how a server is reached: the key is for one that was named, for questions and for load.
func (o *options) access(url string) bench.Access {
	access := bench.Access{Insecure: o.insecure, Proxy: http.ProxyFromEnvironment}
	if url != "" {
		access.Key = os.Getenv("OPENAI_API_KEY")
	}
	return access
}

// agreed asks on the terminal whether load may be sent.
func agreed(cmd *cobra.Command, server *check.Server) bool {
	fmt.Fprintf(cmd.ErrOrStderr(), "Send load to %s for at most %v? [y/N] ", server.URL, loadTime)
	line, _ := bufio.NewReader(cmd.InOrStdin()).ReadString('\n')
	line = strings.ToLower(strings.TrimSpace(line))
	return line == "y" || line == "yes"
}
