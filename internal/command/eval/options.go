package eval

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"ossian/internal/command"
	"ossian/internal/eval"
	"ossian/internal/eval/ask"
	"ossian/internal/eval/task"
)

// sleep waits between tries; nil = really. Tests do not.
var sleep func(context.Context, time.Duration) error

// efforts are the words that servers know.
var efforts = []string{"none", "minimal", "low", "medium", "high", "xhigh"}

// options makes options of the flags: what is wrong is said before a server is started or asked.
func (f *flags) options(ctx context.Context, cmd *cobra.Command, names []string) (*eval.Options, error) {
	if err := f.check(); err != nil {
		return nil, err
	}
	if err := f.place(); err != nil {
		return nil, err
	}
	sets, err := f.sets(ctx, names)
	if err != nil {
		return nil, err
	}
	// Where all questions are generated the score is known, that of one answer without sampling.
	own := !slices.ContainsFunc(sets, func(set *task.Set) bool { return !set.Task.Generated() })
	if given := cmd.Flags().Changed; own {
		if !given("repeats") {
			f.repeats = 1
		}
		if !given("temperature") {
			f.temperature = 0
		}
	}
	options := &eval.Options{Sets: sets, Efforts: words(f.efforts), API: ask.API(f.api), Temperature: f.temperature, MaxTokens: f.maxTokens, Repeats: f.repeats,
		Examples: f.examples, Tools: words(f.tools), Concurrency: f.concurrency, Timeout: f.timeout, Retries: f.retries, CountRefused: f.countRefused,
		KeepText: f.keepText, Sleep: sleep, Out: f.out, Resume: f.resume, Client: client(f.baseURL == "", f.concurrency), Version: command.Version()}
	if cmd.Flags().Changed("seed") {
		options.Seed = &f.seed
	}
	if f.baseURL != "" {
		if options.Base, err = base(f.baseURL); err != nil {
			return nil, err
		}
		options.Key = os.Getenv("OPENAI_API_KEY")
	}
	if f.reference != "" {
		if options.Published, err = eval.ReadPublished(f.reference); err != nil {
			return nil, fmt.Errorf("--reference: %w", err)
		}
	}
	switch {
	case options.Out != "":
	case f.resume || f.keepText || f.compat != "":
		return nil, errors.New("--resume, --keep-text and --compat need --out DIR, where the run is kept")
	case !own:
		options.Out = "eval-" + time.Now().Format("20060102-150405")
		return options, command.OutputFolder("the default of --out,", options.Out)
	}
	return options, nil
}

// place says why a run cannot be kept where it should.
func (f *flags) place() error {
	if f.out == "" || f.resume {
		return command.OutputFolder("--out", f.out)
	}
	return cmp.Or(command.OutputFolder("--out", f.out), eval.Vacant(f.out))
}

// check says what is wrong with single flags. Conditions are written so that NaN is refused.
func (f *flags) check() error {
	for _, effort := range words(f.efforts) {
		if !slices.Contains(efforts, effort) {
			return fmt.Errorf("--reasoning-effort %.60q: expected some of %s", effort, strings.Join(efforts, ", "))
		}
	}
	for _, tool := range words(f.tools) {
		if err := ask.CheckTool(tool); err != nil {
			return fmt.Errorf("--tools %w", err)
		}
	}
	switch {
	case len(words(f.efforts)) == 0:
		return errors.New("--reasoning-effort: no effort; expected low, medium or high")
	case f.api != string(ask.Responses) && f.api != string(ask.Chat):
		return fmt.Errorf("--api %.60q: expected responses or chat", f.api)
	case f.api == string(ask.Chat) && f.tools != "":
		return errors.New("--tools: the server's own tools are asked for by --api responses")
	case !(f.temperature >= 0 && f.temperature <= 2):
		return fmt.Errorf("--temperature %v: expected 0 to 2", f.temperature)
	case f.maxTokens < 1 || f.maxTokens > math.MaxInt32:
		return fmt.Errorf("--max-tokens %d: expected 1 to %d", f.maxTokens, math.MaxInt32)
	case f.repeats < 1 || f.repeats > 10_000:
		return fmt.Errorf("--repeats %d: expected 1 to 10000", f.repeats)
	case f.examples < 0:
		return fmt.Errorf("--examples %d: expected 1 or more", f.examples)
	case f.concurrency < 1 || f.concurrency > 100_000:
		return fmt.Errorf("--concurrency %d: expected 1 to 100000", f.concurrency)
	case f.retries < 0 || f.retries > 1000:
		return fmt.Errorf("--max-retries %d: expected 0 to 1000", f.retries)
	case f.timeout <= 0:
		return fmt.Errorf("--timeout %v: expected more than 0, such as 24h", f.timeout)
	case f.compat != "" && f.compat != "gpt-oss":
		return fmt.Errorf("--compat %.60q: expected gpt-oss", f.compat)
	}
	return nil
}

// sets reads the tasks and their data.
func (f *flags) sets(ctx context.Context, names []string) (sets []*task.Set, err error) {
	var tasks []*task.Task
	for _, name := range names {
		known, err := task.Find(name)
		if err != nil {
			return nil, err
		}
		tasks = append(tasks, known)
	}
	for _, path := range f.tasks {
		own, err := task.Load(path)
		if err != nil {
			return nil, fmt.Errorf("--task: %w", err)
		}
		tasks = append(tasks, own)
	}
	if len(tasks) == 0 {
		sums, err := task.Find("arith")
		if err != nil {
			return nil, err
		}
		tasks = append(tasks, sums)
	}
	sources, err := f.sources()
	if err != nil {
		return nil, err
	}
	for i, asked := range tasks {
		if slices.ContainsFunc(tasks[:i], func(before *task.Task) bool { return before.Name == asked.Name }) {
			return nil, fmt.Errorf("task %s is named twice", asked.Name)
		}
		set, err := asked.Open(ctx, from(), sources[asked.Name], f.anyData)
		if err != nil {
			return nil, err
		}
		if f.examples > len(set.Questions) {
			return nil, fmt.Errorf("--examples %d: %s has %d questions", f.examples, asked.Name, len(set.Questions))
		}
		delete(sources, asked.Name)
		sets = append(sets, set)
	}
	// Each task took its sources away: what is left was given for a task that nobody asked for.
	for name := range sources {
		return nil, fmt.Errorf("--dataset %.60s: the task is not asked for; name it, as in: ossian eval %.60s --dataset …", name, name)
	}
	return sets, nil
}
