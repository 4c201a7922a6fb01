// Package eval is ossian eval: it asks a server the questions of published evaluations, or asks
// ossian-tiny sums, scores the answers and compares results. Exit statuses: 0 done, 1 a built-in task
// has a score that it must not have, 2 nothing that counts was measured.
package eval

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"ossian/internal/command"
	"ossian/internal/eval"
	"ossian/internal/eval/ask"
	"ossian/internal/eval/report"
	"ossian/internal/eval/task"
	"ossian/internal/hub"
	"ossian/internal/load"
)

// statusInvalid is the exit status of what could not begin, and of scores that do not count.
const statusInvalid = 2

// flags are what the command line says.
type flags struct {
	baseURL, models, efforts, api, tools    string
	datasets, tasks                         []string
	temperature                             float64
	maxTokens, repeats, examples            int
	seed                                    int64
	concurrency, retries                    int
	timeout                                 time.Duration
	out, reference, compat                  string
	resume, keepText, anyData, countRefused bool
}

// Command returns the command. start serves a model in this process, where no server is named.
func Command(start command.Start) *cobra.Command {
	given := &flags{}
	cmd := &cobra.Command{
		Use:   "eval [TASK...]",
		Short: "Ask a server the questions of published evaluations, and say what the scores are worth",
		Long: `Ask a server the questions of published evaluations as these ask them, score the
answers alike, and say how far a score can be trusted. Tasks are gpqa and aime25, whose data
--dataset names, arith and arith5, which need none, and those of --task FILE.yaml. Without a
task the built-in model is served here and asked sums (arith): whether its score is the known one.
The key of the server is OPENAI_API_KEY in the environment.`,
		Example: `  ossian eval
  ossian eval gpqa aime25 --base-url http://127.0.0.1:8000 \
    --dataset gpqa=gpqa_diamond.csv --dataset aime25=hf:opencompass/AIME2025 --out results
  ossian eval compare before after`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error { return given.run(cmd, args, start) },
	}
	cmd.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return command.WithStatus(statusInvalid, command.Suggest(c.Flags(), err))
	})
	given.add(cmd)
	cmd.AddCommand(compareCommand())
	return command.TakesWords(cmd)
}

// add defines the flags.
func (f *flags) add(c *cobra.Command) {
	flags := c.Flags()
	flags.SortFlags = false
	flags.StringVar(&f.baseURL, "base-url", "", "`URL` of the server; without it a server of --model is started here")
	flags.StringArrayVar(&f.datasets, "dataset", nil, "`TASK=SOURCE`: a file, hf:ORG/NAME[@REV][/FILE] or an https address; several of a task are read in order")
	flags.StringArrayVar(&f.tasks, "task", nil, "`FILE.yaml` with a task of your own")
	flags.StringVar(&f.efforts, "reasoning-effort", "low,medium,high", "each is a run of its own")
	flags.StringVar(&f.models, "model", "", "`NAMES` of models, each a run of its own; the only one that the server has. Without --base-url what is served here")
	flags.StringVar(&f.api, "api", string(ask.Responses), "responses or chat")
	flags.Float64Var(&f.temperature, "temperature", 1, "of sampling; for arith and arith5 alone 0")
	flags.IntVar(&f.maxTokens, "max-tokens", 131072, "of an answer")
	flags.IntVar(&f.repeats, "repeats", 8, "how often each question is asked; for arith and arith5 alone once")
	flags.Int64Var(&f.seed, "seed", 0, "a seed is sent with each request, made of this, the question and the repeat; none is sent if not given")
	flags.IntVar(&f.examples, "examples", 0, "ask only so many questions, drawn as the published evaluation draws them; 0 = all")
	flags.IntVar(&f.concurrency, "concurrency", 128, "requests at a time")
	flags.DurationVar(&f.timeout, "timeout", 24*time.Hour, "of a request")
	flags.IntVar(&f.retries, "max-retries", 8, "tries of a request beyond the first")
	flags.StringVar(&f.tools, "tools", "", "tools of the server's own to offer: web_search, code_interpreter, mcp:LABEL; such scores are a column of their own")
	flags.StringVar(&f.out, "out", "", "`DIR` for answers.jsonl, result.json and report.html; default eval-DATE, none for arith and arith5 alone")
	flags.BoolVar(&f.resume, "resume", false, "go on with the run in --out: ask what has no answer")
	flags.BoolVar(&f.keepText, "keep-text", false, "keep prompts and answers too, in texts.jsonl: please do not publish that")
	flags.StringVar(&f.reference, "reference", "", "`FILE` with published scores to compare with")
	flags.BoolVar(&f.anyData, "any-data", false, "take data sets with other numbers of rows, and leave out rows that cannot be asked")
	flags.BoolVar(&f.countRefused, "count-refused", false, "count requests that the server refuses as wrong answers, where the first ends the run")
	flags.StringVar(&f.compat, "compat", "", "gpt-oss: also write the files of the published evaluation")
}

// run is the command.
func (f *flags) run(cmd *cobra.Command, names []string, start command.Start) (err error) {
	ctx, cancel := context.WithCancel(cmd.Context())
	defer cancel()
	status := command.Shared(cmd.ErrOrStderr())
	options, err := f.options(ctx, cmd, names)
	if err != nil {
		return command.WithStatus(statusInvalid, err)
	}
	if f.baseURL == "" {
		base, stop, err := f.serve(ctx, start, status)
		if err != nil {
			return command.WithStatus(statusInvalid, err)
		}
		defer func() {
			cancel()
			err = errors.Join(err, stop())
		}()
		options.Base = base + "/v1"
	}
	server, err := f.look(ctx, options)
	if err != nil {
		return command.WithStatus(statusInvalid, err)
	}
	announce(status, options)
	watch := newWatch(status)
	options.Watch = watch.begin
	out, err := eval.Run(ctx, *options, server)
	watch.end()
	// An evaluation that was cut short is reported too if anything was answered.
	if out != nil && (err == nil || answered(out)) {
		err = errors.Join(err, f.report(cmd.OutOrStdout(), status, options, out))
	}
	switch {
	case errors.Is(err, context.Canceled):
		return err // status 130
	case err != nil:
		return command.WithStatus(statusInvalid, err)
	}
	return judge(out)
}

// answered reports whether there is anything to report.
func answered(out *eval.Result) bool {
	return slices.ContainsFunc(out.Runs, func(r *eval.RunResult) bool { return len(r.Items) > 0 })
}

// judge is the error of a result that does not count, or must not be.
func judge(out *eval.Result) error {
	if !out.Valid {
		return command.WithStatus(statusInvalid, errors.New("the run is not valid: too many answers failed"))
	}
	if !out.InBands() {
		return command.WithStatus(1, errors.New("a built-in task has a score that it must not have: the weights or the computation are wrong, or this is another model"))
	}
	return nil
}

// serve starts a server here.
func (f *flags) serve(ctx context.Context, start command.Start, status io.Writer) (base string, stop func() error, err error) {
	args := slices.Clone(command.Unlimited)
	if strings.Contains(f.models, ",") {
		return "", nil, errors.New("--model: one model is served here; --base-url names a server that has several")
	}
	if f.models != "" {
		args = append([]string{f.models}, args...)
	}
	return start.Ready(ctx, args, status)
}

// look asks the server what it is, and decides on the models.
func (f *flags) look(ctx context.Context, options *eval.Options) (eval.Server, error) {
	server, err := eval.Look(ctx, options.Base, options.Key, options.Client)
	if err != nil {
		return server, err
	}
	asked := words(f.models)
	if f.baseURL == "" { // it was started for the model, whatever it calls it
		asked = server.Models[:1]
	}
	options.Models, err = server.Serves(asked)
	return server, err
}

// words splits a list at commas.
func words(list string) (all []string) {
	for word := range strings.SplitSeq(list, ",") {
		if word = strings.TrimSpace(word); word != "" && !slices.Contains(all, word) {
			all = append(all, word)
		}
	}
	return all
}

// announce says what will be asked.
func announce(status io.Writer, options *eval.Options) {
	for _, set := range options.Sets {
		questions := options.Questions(set)
		fmt.Fprintf(status, "%s: %d questions × %d × %d efforts%s = %d answers; data SHA-256 %.12s…\n", set.Task.Name, questions, options.Repeats, len(options.Efforts),
			times(len(options.Models)), questions*options.Repeats*len(options.Efforts)*len(options.Models), set.SHA256)
		for _, note := range set.Notes {
			fmt.Fprintln(status, set.Task.Name+":", note)
		}
	}
	if options.Out != "" {
		fmt.Fprintln(status, "answers are kept in", filepath.Join(options.Out, "answers.jsonl"))
	}
}

func times(models int) string {
	if models == 1 {
		return ""
	}
	return fmt.Sprintf(" × %d models", models)
}

// report writes the result: tables, and files where they are kept.
func (f *flags) report(stdout, status io.Writer, options *eval.Options, out *eval.Result) error {
	err := report.Console(stdout, out)
	for _, note := range out.Notes {
		fmt.Fprintln(status, "note:", note)
	}
	if options.Out == "" {
		return err
	}
	return errors.Join(err, f.files(options, out))
}

// files writes the files of a result.
func (f *flags) files(options *eval.Options, out *eval.Result) error {
	text, err := out.JSON()
	if err != nil {
		return err
	}
	var page strings.Builder
	if err := report.HTML(&page, out); err != nil {
		return err
	}
	files := []report.File{{Name: "result.json", Data: text}, {Name: "report.html", Data: []byte(page.String())}}
	mode := os.FileMode(0o644)
	for _, file := range files {
		if err := write(filepath.Join(options.Out, file.Name), file.Data, mode); err != nil {
			return err
		}
	}
	if f.compat == "" {
		return nil
		// The published evaluation's files have a place for texts; where none are kept it stays
		// empty, and where they are only the owner may read the files.
	}
	texts := func(*eval.RunResult, *eval.Item) (prompt, answer, right string, ok bool) { return }
	if f.keepText {
		texts, mode = eval.Texts(options.Out), 0o600
	}
	for _, run := range out.Runs {
		files, err := report.Compat(out, run, texts)
		if err != nil {
			return err
		}
		for _, file := range files {
			if err := write(filepath.Join(options.Out, file.Name), file.Data, mode); err != nil {
				return err
			}
		}
	}
	return nil
}

// write writes a file whole, or leaves the one that was there.
func write(path string, data []byte, mode os.FileMode) error {
	temp := path + ".incomplete"
	err := os.WriteFile(temp, data, mode)
	if err == nil {
		err = os.Rename(temp, path)
	}
	if err != nil {
		os.Remove(temp)
	}
	return err
}

// client is how servers are asked: by the proxies of the environment, where the server is not here,
// and with as many connections as there are requests.
func client(local bool, concurrency int) *http.Client {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost, transport.MaxIdleConns = concurrency, concurrency
	transport.DisableCompression = true
	if local {
		transport.Proxy = nil
	}
	return &http.Client{Transport: transport}
}

// base is the address of the API: with /v1 behind it, whether it was given or not.
func base(address string) (string, error) {
	at, err := url.Parse(strings.TrimRight(address, "/"))
	if err != nil || (at.Scheme != "http" && at.Scheme != "https") || at.Host == "" {
		return "", fmt.Errorf("--base-url %.200q: expected http://HOST:PORT", address)
	}
	if at.RawQuery != "" || at.Fragment != "" {
		return "", fmt.Errorf("--base-url %.200q: expected no query behind the address", address)
	}
	if !strings.HasSuffix(at.Path, "/v1") {
		at.Path += "/v1"
	}
	return at.String(), nil
}

// sources reads --dataset into the sources of each task.
func (f *flags) sources() (map[string][]string, error) {
	all := map[string][]string{}
	for _, text := range f.datasets {
		name, source, ok := strings.Cut(text, "=")
		if !ok || name == "" || source == "" {
			return nil, fmt.Errorf("--dataset %.200q: expected TASK=FILE, such as gpqa=gpqa_diamond.csv", text)
		}
		all[name] = append(all[name], source)
	}
	return all, nil
}

// from are the places that data may come from.
func from() task.Sources {
	return task.Sources{Hub: func() (hub.Config, error) { return load.HubConfig(os.Getenv) }}
}
