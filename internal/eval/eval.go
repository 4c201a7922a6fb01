// Package eval runs evaluations: it asks a server the questions of tasks, in order and as often as
// is asked for, keeps each answer on the disk at once, goes on where a run was cut, and says what
// the scores are worth. Callers give options and get a Result; requests, retries, the log and the
// statistics stay inside. It holds that a question is asked again only if no answer to it was kept,
// and that no text of a question or an answer is written unless that is asked for.
package eval

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"ossian/internal/eval/ask"
	"ossian/internal/eval/task"
)

// Options say what is run.
type Options struct {
	Sets        []*task.Set
	Models      []string // each with each effort and each set is a run
	Efforts     []string
	API         ask.API
	Temperature float64
	MaxTokens   int
	Repeats     int
	Seed        *int64 // nil = none is sent
	Examples    int    // questions drawn of each set; 0 = all
	Tools       []string

	Concurrency  int
	Timeout      time.Duration // of a request
	Retries      int
	CountRefused bool // a request that the server refuses is a wrong answer and does not end the run
	KeepText     bool
	Out          string // folder of log and results; "" = nothing is kept
	Resume       bool

	Base      string // address of the server, with /v1
	Key       string
	Client    *http.Client
	Version   string // of this program
	Published *Published
	Sleep     func(context.Context, time.Duration) error // waits between tries; nil = really
	Watch     func(*Live)                                // gets the run's state before the first question; nil = nobody looks
}

// A refusedError ends a run: the server takes a request for a wrong one.
type refusedError struct{ text string }

// Error implements error.
func (e *refusedError) Error() string {
	return "the server refuses the request, which is no wrong answer of the model: " + e.text + "; --count-refused counts refusals as wrong"
}

// A job is an entry of a run, to be asked.
type job struct {
	run   int
	entry *task.Entry
}

// A runner is an evaluation on its way.
type runner struct {
	o     Options
	plan  []plannedRun
	log   *journal  // nil = nothing is kept
	texts *textFile // nil = no texts are kept
	live  *Live
	mu    sync.Mutex // guards items
	items [][]Item   // by run; in the order in which answers came
}

// A plannedRun is one combination of set, model and effort.
type plannedRun struct {
	set           *task.Set
	model, effort string
	entries       []task.Entry
}

// plans are the runs in the order of the published evaluation: each model with each effort, and
// for each the tasks.
func (o *Options) plans() (all []plannedRun) {
	for _, model := range o.Models {
		for _, effort := range o.Efforts {
			for _, set := range o.Sets {
				all = append(all, plannedRun{set, model, effort, set.Entries(o.Repeats, o.Examples)})
			}
		}
	}
	return all
}

// Run asks what the options say and returns the result. A run that was interrupted gives what there
// is, with the error; one that cannot begin gives none.
func Run(ctx context.Context, options Options, server Server) (*Result, error) {
	running := &runner{o: options, plan: options.plans()}
	running.items = make([][]Item, len(running.plan))
	began, err := running.open(server)
	if err != nil {
		return nil, err
	}
	// A run that goes on asks only what has no answer yet.
	done := running.done()
	var jobs []job
	for i := range running.plan {
		for e := range running.plan[i].entries {
			if entry := &running.plan[i].entries[e]; !done[key{i, entry.Question, entry.Repeat}] {
				jobs = append(jobs, job{i, entry})
			}
		}
	}
	running.live = newLive(running.total(), running.total()-len(jobs), options.Concurrency)
	if options.Watch != nil {
		options.Watch(running.live)
	}
	asked := running.askAll(ctx, jobs)
	if running.log != nil {
		asked = errors.Join(asked, running.log.close(), running.texts.close())
	}
	// The server is looked at again: it may have been replaced while it was asked.
	after := server
	if len(jobs) > 0 {
		look, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		if now, err := Look(look, options.Base, options.Key, options.Client); err == nil {
			after = now
		}
	}
	return running.result(began, server, after, asked), asked
}

// total is how many answers the whole evaluation has.
func (r *runner) total() (n int) {
	for i := range r.plan {
		n += len(r.plan[i].entries)
	}
	return n
}

// open opens the log, and takes in what an earlier run has left there.
func (r *runner) open(server Server) (began time.Time, err error) {
	began = time.Now()
	if r.o.Out == "" {
		return began, nil
	}
	head := header{Schema: schema, Began: began, Asked: r.o.identity(), Server: server}
	log, kept, err := openJournal(r.o.Out, head, r.o.Resume)
	if err != nil {
		return began, err
	}
	r.log = log
	// A resumed run began when it first did; answers of runs that the plan does not have are of
	// another plan.
	if kept != nil {
		began = kept.head.Began
		for _, item := range kept.items {
			if item.Run < 0 || item.Run >= len(r.plan) {
				return began, errors.Join(fmt.Errorf("%s: an answer of run %d, of which there are %d", filepath.Join(r.o.Out, logName), item.Run, len(r.plan)), log.close())
			}
			r.items[item.Run] = append(r.items[item.Run], item)
		}
	}
	if r.o.KeepText {
		if r.texts, err = openTexts(r.o.Out); err != nil {
			return began, errors.Join(err, log.close())
		}
	}
	return began, nil
}

// A key is what is asked once.
type key struct{ run, question, repeat int }

// done are the entries that have an answer. Those that failed have none: they are dropped, and
// asked again.
func (r *runner) done() map[key]bool {
	done := map[key]bool{}
	for i, items := range r.items {
		r.items[i] = slices.DeleteFunc(items, func(item Item) bool { return item.Outcome == Failed })
		for _, item := range r.items[i] {
			done[key{i, item.Question, item.Repeat}] = true
		}
	}
	return done
}

// askAll asks the jobs, so many at a time, in their order, until ctx ends or one of them ends all.
func (r *runner) askAll(ctx context.Context, jobs []job) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	work := make(chan job)
	var workers sync.WaitGroup
	for range min(r.o.Concurrency, len(jobs)) {
		workers.Go(func() {
			for one := range work {
				if err := r.ask(ctx, one); err != nil {
					stop(err)
				}
			}
		})
	}
	// Sending blocks while all workers ask, so ctx is looked at again before the next job.
	for _, one := range jobs {
		select {
		case work <- one:
		case <-ctx.Done():
		}
		if ctx.Err() != nil {
			break
		}
	}
	close(work)
	workers.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}

// ask asks one question and keeps what becomes of it. The error ends the whole run.
func (r *runner) ask(ctx context.Context, one job) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	plan := &r.plan[one.run]
	c := ask.Config{Base: r.o.Base, Key: r.o.Key, API: r.o.API, Model: plan.model, Effort: plan.effort, Temperature: r.o.Temperature,
		MaxTokens: r.o.MaxTokens, Tools: r.o.Tools, Timeout: r.o.Timeout, Retries: r.o.Retries, Client: r.o.Client, Sleep: r.o.Sleep}
	r.live.begin()
	answer, err := c.Ask(ctx, one.entry.Prompt, r.o.seed(plan, one.entry))
	r.live.end(&answer, err == nil)
	if err != nil {
		return r.redacted(err, one.entry)
	}
	// What ends a run may quote the question, and data sets must not get into logs of errors.
	answer.Error = redact(answer.Error, one.entry.Prompt)
	if answer.Outcome == ask.Refused && !r.o.CountRefused {
		return &refusedError{answer.Error}
	}
	item := newItem(one.run, plan.set, one.entry, &answer)
	if err := r.texts.write(plan, one.entry, &answer); err != nil {
		return err
	}
	if err := r.log.append(&item); err != nil {
		return err
	}
	r.mu.Lock()
	r.items[one.run] = append(r.items[one.run], item)
	r.mu.Unlock()
	return nil
}

// redacted is an error of the server without what it quotes of the question.
func (r *runner) redacted(err error, entry *task.Entry) error {
	if fatal, ok := errors.AsType[*ask.FatalError](err); ok {
		return &ask.FatalError{Text: redact(fatal.Text, entry.Prompt)}
	}
	return err
}

// seed is that of a request: a hash of the run's seed, the question and the repeat, in 31 bits,
// which every server takes.
func (o *Options) seed(plan *plannedRun, entry *task.Entry) *int64 {
	if o.Seed == nil {
		return nil
	}
	var text []byte
	for _, n := range []int64{*o.Seed, int64(entry.Question), int64(entry.Repeat)} {
		text = binary.BigEndian.AppendUint64(text, uint64(n))
	}
	sum := sha256.Sum256(append(text, plan.set.SHA256...))
	seed := int64(binary.BigEndian.Uint32(sum[:]) >> 1)
	return &seed
}

// mostQuoted is how many characters of a question a message may have in one piece.
const mostQuoted = 10

// redact takes out of a server's message what it quotes of a question.
func redact(message, question string) string {
	chars := []rune(message)
	hidden := make([]bool, len(chars))
	// Every stretch of so many characters that stands in the question is hidden, however they
	// overlap.
	for i := 0; i+mostQuoted <= len(chars); i++ {
		if strings.Contains(question, string(chars[i:i+mostQuoted])) {
			for k := i; k < i+mostQuoted; k++ {
				hidden[k] = true
			}
		}
	}
	var out strings.Builder
	for i, char := range chars {
		switch {
		case !hidden[i]:
			out.WriteRune(char)
		case i == 0 || !hidden[i-1]:
			out.WriteRune('…')
		}
	}
	return out.String()
}

// identity is what two runs have to have in common for one to go on where the other ended.
func (o *Options) identity() Asked {
	asked := Asked{Models: o.Models, Efforts: o.Efforts, API: o.API, Temperature: o.Temperature, MaxTokens: o.MaxTokens, Repeats: o.Repeats,
		Seed: o.Seed, Examples: o.Examples, Tools: o.Tools, CountRefused: o.CountRefused}
	for _, set := range o.Sets {
		asked.Tasks = append(asked.Tasks, AskedTask{set.Task.Name, len(set.Questions), set.SHA256})
	}
	return asked
}

// Questions is how many questions of a set are asked.
func (o *Options) Questions(set *task.Set) int {
	return min(cmp.Or(o.Examples, len(set.Questions)), len(set.Questions))
}
