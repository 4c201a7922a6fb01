// Command ours measures package grammar on schemas with texts: how long compiling takes, and
// each mask with the step behind it, in processor time of one thread. The vocabulary is
// gpt-oss's; -vocab writes it for llguidance_times.py, which does the same with llguidance.
package main

import (
	"bufio"
	"context"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"os"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"ossian/internal/grammar"
	"ossian/internal/token"
)

// A subject is one line of the sample.
type subject struct {
	Name   string          `json:"name"`
	Schema json.RawMessage `json:"schema"`
	Texts  []instance      `json:"texts"`
}

// An instance is a whole output, and whether it meets the schema.
type instance struct {
	Text  string  `json:"text"`
	Valid bool    `json:"valid"`
	IDs   []int32 `json:"ids,omitempty"`
}

// A result is what became of a subject, as llguidance_times.py writes it too. Times are in
// nanoseconds.
type result struct {
	Name    string  `json:"name"`
	Error   string  `json:"error,omitempty"` // why it was not compiled
	Failed  string  `json:"failed,omitempty"`
	Ignored int     `json:"ignored,omitempty"` // keywords that output is not held to
	Compile int64   `json:"compile"`
	Masks   []int64 `json:"masks"`
	Steps   []int64 `json:"steps"`
	Refused int     `json:"refused"` // valid texts that are not admitted
	Taken   int     `json:"taken"`   // texts that are not valid and are
}

func main() {
	vocab := flag.String("vocab", "", "write the vocabulary to this file, tokens in hexadecimal, and the sample with ids beside it, and end")
	flag.Parse()
	if flag.NArg() != 2 {
		log.Fatal("usage: ours [-vocab FILE] SAMPLE RESULTS")
	}
	runtime.LockOSThread()
	tokens, err := token.Harmony()
	if err != nil {
		log.Fatal(err)
	}
	subjects, err := read(flag.Arg(0))
	if err != nil {
		log.Fatal(err)
	}
	if *vocab != "" {
		err = writeVocabulary(*vocab, flag.Arg(1), tokens, subjects)
	} else {
		err = measureAll(flag.Arg(1), tokens, subjects)
	}
	if err != nil {
		log.Fatal(err)
	}
}

func read(path string) (all []subject, err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		var one subject
		if err := json.Unmarshal(lines.Bytes(), &one); err != nil {
			return nil, fmt.Errorf("%s: line %d: %w", path, len(all)+1, err)
		}
		all = append(all, one)
	}
	return all, lines.Err()
}

// writeVocabulary writes what llguidance_times.py needs to be asked the same.
func writeVocabulary(path, sample string, tokens *token.BPE, subjects []subject) error {
	added := map[int32]bool{}
	for _, special := range tokens.Added() {
		added[special.ID] = true
	}
	texts := make([]string, tokens.Vocab())
	for id := range texts {
		if !added[int32(id)] {
			texts[id] = hex.EncodeToString([]byte(tokens.Text(int32(id))))
		}
	}
	if err := writeLines(path, []any{texts}); err != nil {
		return err
	}
	lines := make([]any, len(subjects))
	for i := range subjects {
		for k := range subjects[i].Texts {
			one := &subjects[i].Texts[k]
			one.IDs = tokens.Encode(nil, one.Text)
		}
		lines[i] = subjects[i]
	}
	return writeLines(sample, lines)
}

func writeLines(path string, lines []any) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	out := json.NewEncoder(file)
	for _, line := range lines {
		if err := out.Encode(line); err != nil {
			return err
		}
	}
	return file.Close()
}

// threadTime is the processor time of this thread, in nanoseconds: others on the machine
// take none of it.
func threadTime() int64 {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &now); err != nil {
		return time.Now().UnixNano()
	}
	return now.Nano()
}

func measureAll(path string, tokens *token.BPE, subjects []subject) error {
	vocabulary := grammar.NewVocabulary(tokens)
	lines := make([]any, 0, len(subjects))
	for _, one := range subjects {
		lines = append(lines, measure(one, tokens, vocabulary))
	}
	return writeLines(path, lines)
}

func measure(one subject, tokens *token.BPE, vocabulary *grammar.Vocabulary) result {
	out := result{Name: one.Name}
	from := threadTime()
	form, err := grammar.Compile(context.Background(), grammar.Source{Text: string(one.Schema)}, vocabulary)
	out.Compile = threadTime() - from
	if err != nil {
		out.Error = err.Error()
		return out
	}
	out.Ignored = len(form.Ignored())
	mask := make([]uint64, vocabulary.Words())
	for _, text := range one.Texts {
		matcher := form.Matcher()
		admitted := true
		for _, id := range tokens.Encode(nil, text.Text) {
			from := threadTime()
			err := matcher.Mask(mask)
			masked := threadTime()
			out.Masks = append(out.Masks, masked-from)
			if admitted = err == nil && mask[id/64]>>(id%64)&1 == 1; !admitted {
				if err != nil {
					out.Failed = err.Error()
				}
				break
			}
			from = threadTime()
			err = matcher.Accept(id)
			out.Steps = append(out.Steps, threadTime()-from)
			if err != nil {
				out.Failed, admitted = err.Error(), false
				break
			}
		}
		switch admitted = admitted && matcher.Done(); {
		case text.Valid && !admitted:
			out.Refused++
		case !text.Valid && admitted:
			out.Taken++
		}
	}
	return out
}
