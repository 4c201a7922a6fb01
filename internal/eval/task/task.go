// Package task knows what is asked: tasks, their data and how their answers are scored. gpqa and
// aime25 ask what the published evaluation of gpt-oss (gpt_oss.evals) asks, in its order and byte
// for byte; arith and arith5 are made here from a seed; others are read from a file. Callers see
// prompts and verdicts; formats of files, their sources, permutations and extraction stay inside.
package task

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"ossian/internal/bench/dataset"
	"ossian/internal/eval/score"
	"ossian/internal/nearest"
)

// A Kind is how answers are compared.
type Kind string

// The kinds of tasks.
const (
	Choice  Kind = "choice"  // the letter of an option
	Integer Kind = "integer" // a whole number in a box
	Exact   Kind = "exact"   // the whole text, without white space around it
	Regex   Kind = "regex"   // the last match of a pattern
)

var kinds = []Kind{Choice, Integer, Exact, Regex}

// A Band is what the score of a built-in task has to be within: shares, ends included.
type Band struct{ Low, High float64 }

// A Task says how questions are made of data, and answers judged.
type Task struct {
	Name string
	Kind Kind
	Band *Band // nil = any score is one

	template string         // of prompts: {field}, {A} for the first option as it is asked
	question string         // the field that identifies a question; "" = all of the prompt
	answer   string         // the field with the right answer
	options  []string       // of Choice: the fields with the options, the right one first
	pattern  *regexp.Regexp // of Regex
	rows     int            // that the data has; 0 = any number
	files    []string       // of its data set at a hub, where none is named
	columns  []string       // the fields that it uses, in the order of their hash
	leading  bool           // of Integer: what follows the digits of an answer is no part of it
	low      int64          // of Integer: strict answers are within low and high; any where low > high
	high     int64
	generate func() []record // built-in tasks; nil = data is read
}

// builtIn are the tasks that gpt-oss deployments are judged by, and those that need no data.
func builtIn() []*Task {
	return []*Task{
		{Name: "gpqa", Kind: Choice, rows: 198, files: []string{"gpqa_diamond.csv"}, question: "Question", answer: "Correct Answer",
			options:  []string{"Correct Answer", "Incorrect Answer 1", "Incorrect Answer 2", "Incorrect Answer 3"},
			columns:  []string{"Question", "Correct Answer", "Incorrect Answer 1", "Incorrect Answer 2", "Incorrect Answer 3"},
			template: "{Question}\n\n(A) {A}\n(B) {B}\n(C) {C}\n(D) {D}\n\nExpress your final answer as the corresponding option 'A', 'B', 'C', or 'D'."},
		{Name: "aime25", Kind: Integer, rows: 30, files: []string{"aime2025-I.jsonl", "aime2025-II.jsonl"}, question: "question", answer: "answer",
			leading: true, high: score.Largest, columns: []string{"question", "answer"},
			template: "\n{question}\nPlease reason step by step, and put your final answer within \\boxed{{}}.\n"},
		arithmetic("arith", 4, Band{0.97, 1}),
		arithmetic("arith5", 5, Band{0, 0.05}),
	}
}

// arithmetic is a task of sums and differences of numbers with so many digits.
func arithmetic(name string, digits int, band Band) *Task {
	return &Task{Name: name, Kind: Exact, Band: &band, question: "question", answer: "answer", columns: []string{"question", "answer"}, template: "{question}",
		generate: func() []record { return sums(digits, digits < 5) }}
}

// sums makes 200 sums of numbers with so many digits, or sums and differences, from the seed 0.
func sums(digits int, differences bool) (rows []record) {
	low := 1
	for range digits - 1 {
		low *= 10
	}
	random := dataset.NewPython(0)
	for i := range 200 {
		a, b := low+random.Below(9*low), low+random.Below(9*low)
		question, answer := fmt.Sprintf("%d+%d", a, b), a+b
		if differences && random.Below(2) == 1 {
			question, answer = fmt.Sprintf("%d-%d", a, b), a-b
		}
		rows = append(rows, record{map[string]string{"question": question, "answer": strconv.Itoa(answer)}, fmt.Sprintf("row %d", i+1)})
	}
	return rows
}

// Find returns the built-in task of that name; the error says which there are.
func Find(name string) (*Task, error) {
	all := builtIn()
	var names []string
	for _, t := range all {
		if t.Name == name {
			return t, nil
		}
		names = append(names, t.Name)
	}
	hint := ""
	if meant := nearest.Fold(name, names, len(name)/2); meant != "" {
		hint = ", did you mean " + meant + "?"
	}
	return nil, fmt.Errorf("task %.100q is none of %s%s; --task FILE.yaml describes one of your own", name, strings.Join(names, ", "), hint)
}

// Generated reports whether t makes its questions itself, which may then be shown.
func (t *Task) Generated() bool { return t.generate != nil }

// A Set is the data of a task, checked.
type Set struct {
	Task      *Task
	Questions []Question
	SHA256    string   // of the normalised records: fields joined by 0x1F, records by 0x1E
	Notes     []string // what the user has to know of the data
}

// A Question is a row.
type Question struct {
	ID      string // the first 12 hexadecimal digits of the SHA-256 of its text
	fields  map[string]string
	options []string // the right one first
	answer  string
}

// An Entry is a question as it is asked once.
type Entry struct {
	Question int // of the set
	Repeat   int // from 0
	Prompt   string
	Right    string // the letter, the integer or the text that is right
	Order    []int  // of Choice: which option stands where
}

// newSet checks rows and makes questions of them. With anyData it takes another number of rows, and
// leaves out what cannot be asked.
func (t *Task) newSet(rows []record, anyData bool) (*Set, error) {
	set := &Set{Task: t}
	if t.rows > 0 && len(rows) != t.rows && !anyData {
		return nil, fmt.Errorf("%d rows; %s has %d; --any-data takes it all the same, and the score is then not comparable", len(rows), t.Name, t.rows)
	}
	hash := sha256.New()
	for _, row := range rows {
		question, err := t.newQuestion(row, anyData)
		if err != nil {
			if !anyData {
				return nil, fmt.Errorf("%s: %w", row.where, err)
			}
			set.Notes = append(set.Notes, fmt.Sprintf("%s is left out: %v", row.where, err))
			continue
		}
		// ASCII's separators of records and fields: text moved from one to the next gives another hash.
		if len(set.Questions) > 0 {
			hash.Write([]byte{0x1e})
		}
		for i, column := range t.columns {
			if i > 0 {
				hash.Write([]byte{0x1f})
			}
			hash.Write([]byte(question.normalised(column, t)))
		}
		set.Questions = append(set.Questions, question)
		if cell := readAsMissing(&question, t); cell != "" {
			set.Notes = append(set.Notes, fmt.Sprintf("%s, column %q: the published evaluation reads this text as a missing value and asks with nan in its place", row.where, cell))
		}
	}
	if len(set.Questions) == 0 {
		return nil, fmt.Errorf("no row can be asked: %s", strings.Join(set.Notes[:min(1, len(set.Notes))], ""))
	}
	set.SHA256 = hex.EncodeToString(hash.Sum(nil))
	return set, nil
}

// newQuestion checks a row.
func (t *Task) newQuestion(row record, anyData bool) (question Question, err error) {
	question.fields = row.fields
	for _, column := range t.columns {
		if _, ok := row.fields[column]; !ok {
			return question, t.missingColumn(column, row.fields)
		}
	}
	// By default an option of spaces is refused; with --any-data only one that is missing.
	for _, column := range t.options {
		if text := row.fields[column]; strings.TrimSpace(text) == "" && (!anyData || text == "") {
			return question, fmt.Errorf("column %q: the option is empty", column)
		}
		question.options = append(question.options, row.fields[column])
	}
	question.answer = row.fields[t.answer]
	if t.Kind == Integer {
		read := score.Integer
		if t.leading {
			read = score.LeadingDigits
		}
		if question.answer = read(question.answer); question.answer == "" {
			return question, fmt.Errorf("column %q: the answer is no integer", t.answer)
		}
	}
	// A task without a column for the question has it in its prompt.
	text := row.fields[t.question]
	if t.question == "" {
		text = t.prompt(&question, upTo(len(question.options)))
	}
	if strings.TrimSpace(text) == "" {
		return question, fmt.Errorf("column %q: the question is empty", t.question)
	}
	sum := sha256.Sum256([]byte(text))
	question.ID = hex.EncodeToString(sum[:6])
	return question, nil
}

// normalised is a field as it is hashed: answers as they are compared, others as they are.
func (q *Question) normalised(column string, t *Task) string {
	if column == t.answer && t.Kind == Integer {
		return q.answer
	}
	return q.fields[column]
}

// missingColumn is the error of a row without one. It names no other column but one that is spelled
// alike: the first line of a file without a header is a question, which errors must not show.
func (t *Task) missingColumn(column string, fields map[string]string) error {
	hint := fmt.Sprintf("found %d others", len(fields))
	if meant := nearest.Fold(column, slices.Sorted(maps.Keys(fields)), len(column)/2); meant != "" {
		hint = fmt.Sprintf("found %q", meant)
	}
	return fmt.Errorf("no column %q, %s; %s needs %s", column, hint, t.Name, strings.Join(t.columns, ", "))
}

// missing are the texts that pandas, which the published evaluation reads CSV with, takes for none.
var missing = []string{"#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>", "N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null"}

// readAsMissing names the column of an option or question whose text pandas takes for none.
func readAsMissing(q *Question, t *Task) string {
	if t.Name != "gpqa" {
		return ""
	}
	for _, column := range t.columns {
		if slices.Contains(missing, q.fields[column]) {
			return column
		}
	}
	return ""
}

// upTo is 0 to count-1.
func upTo(count int) (list []int) {
	for i := range count {
		list = append(list, i)
	}
	return list
}

// prompt is what is asked, with the options in that order.
func (t *Task) prompt(q *Question, order []int) string {
	return expand(t.template, func(name string) string {
		if len(name) == 1 && name[0] >= 'A' && int(name[0]-'A') < len(order) {
			return q.options[order[name[0]-'A']]
		}
		return q.fields[name]
	})
}

// Entries are the questions in the order in which the published evaluation asks them: the list as
// often as there are repeats, then for each entry a permutation of its options, all from one
// generator. Where examples > 0 it draws that many questions first.
func (s *Set) Entries(repeats, examples int) (entries []Entry) {
	random := dataset.NewPython(0)
	list := upTo(len(s.Questions))
	if examples > 0 && examples <= len(list) {
		list = random.Sample(len(list), examples)
	}
	for repeat := range repeats {
		for _, at := range list {
			q := &s.Questions[at]
			entry := Entry{Question: at, Repeat: repeat, Right: q.answer}
			if s.Task.Kind == Choice {
				entry.Order = random.Sample(len(q.options), len(q.options))
				entry.Right = q.letter(entry.Order)
			}
			entry.Prompt = s.Task.prompt(q, entry.Order)
			entries = append(entries, entry)
		}
	}
	return entries
}

// letter is that of the right option; of equal texts the first counts.
func (q *Question) letter(order []int) string {
	for place, option := range order {
		if q.options[option] == q.options[0] {
			return string(rune('A' + place))
		}
	}
	return "" // order is a permutation
}

// A Verdict is what an answer is worth by each of the two rules.
type Verdict struct {
	Reference, Strict           string // what was taken as the answer; "" = nothing
	ReferenceRight, StrictRight bool
}

// Judge scores the text of an answer to an entry.
func (t *Task) Judge(text, right string) (verdict Verdict) {
	switch t.Kind {
	case Choice:
		verdict.Reference, verdict.Strict = score.ReferenceChoice(text), score.StrictChoice(text)
	case Integer:
		verdict.Reference, verdict.Strict = score.ReferenceInteger(text), score.StrictInteger(text, t.low, t.high)
	case Regex:
		verdict.Reference = score.Last(t.pattern, text)
		verdict.Strict = verdict.Reference
	default:
		verdict.Reference = score.Exact(text)
		verdict.Strict = verdict.Reference
		right = score.Exact(right)
	}
	verdict.ReferenceRight, verdict.StrictRight = verdict.Reference == right, verdict.Strict == right
	return verdict
}

// mostShown is how many bytes of an extraction results have.
const mostShown = 40

// Shown is an extraction as results may have it: letters and numbers as they are, texts of models,
// in which the question may stand, as the first 12 hexadecimal digits of their SHA-256.
func (t *Task) Shown(extracted string) string {
	if extracted == "" {
		return ""
	}
	if (t.Kind == Exact || t.Kind == Regex) && (!t.Generated() || len(extracted) > mostShown) {
		sum := sha256.Sum256([]byte(extracted))
		return "sha256:" + hex.EncodeToString(sum[:6])
	}
	return extracted[:min(len(extracted), mostShown)]
}
