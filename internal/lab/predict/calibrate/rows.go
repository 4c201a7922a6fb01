// Package calibrate fits the predictor to rows that somebody measured: which rows tell most, what
// they say about the kernels, and how far the result is off on rows that it has not seen (lab.md
// 5). Users give rows and get a predict.Calibration with its evidence.
package calibrate

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"ossian/internal/lab/predict"
	"ossian/internal/lab/predict/machine"
	"ossian/internal/plan"
)

// A Row is one published or measured run: what was run, and what came out.
type Row struct {
	ID            string `json:"id"`
	Profile       string `json:"profile"`
	Engine        string `json:"engine"`
	EngineVersion string `json:"engine_version"`
	Model         string `json:"model"`
	Hardware      struct {
		GPU   string `json:"gpu"`
		Count int    `json:"count"`
	} `json:"hardware"`
	TP        int `json:"tp"`
	Effective *struct {
		MaxSeqs   int  `json:"max_num_seqs"`
		MaxTokens int  `json:"max_num_batched_tokens"`
		Async     bool `json:"async"`
	} `json:"effective"`
	Endpoint  string `json:"endpoint"`
	IgnoreEOS bool   `json:"ignore_eos"`
	Workload  struct {
		Dataset   string `json:"dataset"`
		InputLen  int    `json:"input_len"`
		OutputLen int    `json:"output_len"`
		Prompts   int    `json:"num_prompts"`
		Rate      any    `json:"request_rate"` // a number, or "inf"
		Most      int    `json:"max_concurrency"`
		Seed      int64  `json:"seed"`
	} `json:"workload"`
	Session string             `json:"session"`
	Metrics map[string]float64 `json:"metrics"`

	scenario *predict.Scenario // what was run, where the fields above do not say it
}

// Measured returns the row of a run whose scenario is at hand: of a model with files, or on a
// machine without a data sheet. Metrics are under the keys of predict.Prediction; times in ms,
// duration_s in seconds.
func Measured(id string, s predict.Scenario, metrics map[string]float64) Row {
	row := Row{ID: id, Engine: s.Engine.Name, EngineVersion: s.Engine.Version, Model: s.Model.Spec.Name, TP: max(s.Settings.TP, 1),
		Metrics: maps.Clone(metrics), scenario: &s}
	row.Hardware.GPU, row.Hardware.Count = s.Machine.Name, row.TP
	in, out := 0, 0
	for _, request := range s.Workload.Requests {
		in, out = in+len(request.Prompt), out+request.Output
	}
	row.Metrics["total_input_tokens"], row.Metrics["total_output_tokens"] = float64(in), float64(out)
	return row
}

// format is the name of the file's form.
const format = "ossian-seed-results-1"

// largest is how many bytes of rows are read.
const largest = 64 << 20

// Read reads rows: a document {"format":"ossian-seed-results-1","rows":[…]}.
func Read(from io.Reader) ([]Row, error) {
	var file struct {
		Format string `json:"format"`
		Rows   []Row  `json:"rows"`
	}
	if err := json.NewDecoder(io.LimitReader(from, largest)).Decode(&file); err != nil {
		return nil, fmt.Errorf("rows: %w", err)
	}
	if file.Format != format {
		return nil, fmt.Errorf("rows: format %q, expected %q", file.Format, format)
	}
	return file.Rows, nil
}

// family names the kernels of a row: rows of one family say something about each other.
func (r *Row) family() string {
	var counted *plan.Model
	if r.scenario != nil {
		counted = r.scenario.Model
	} else if counted, _ = predict.Model(r.Model); counted == nil {
		return "unknown"
	}
	switch {
	case counted.Spec.Sinks:
		return "sinks"
	case counted.Spec.FFN.Experts > 0:
		return "experts"
	}
	return "dense"
}

// decodeHeavy reports whether more tokens were generated than read.
func (r *Row) decodeHeavy() bool {
	return r.Metrics["total_output_tokens"] > 0.8*r.Metrics["total_input_tokens"]
}

// mostTokens is how many tokens the prompts and answers of a row may have together: a file of
// somebody else does not decide how much memory is taken.
const mostTokens = 1 << 27

// workload returns what the client of the row sent.
func (r *Row) workload() (predict.Workload, error) {
	totalIn, totalOut := r.Metrics["total_input_tokens"], r.Metrics["total_output_tokens"]
	asked := float64(r.Workload.Prompts) * (float64(max(r.Workload.InputLen, 4)) + float64(max(r.Workload.OutputLen, 4)))
	var w predict.Workload
	if !(totalIn >= 0 && totalOut >= 0 && totalIn+totalOut <= mostTokens && asked <= mostTokens) {
		return w, fmt.Errorf("row %s: %v and %v tokens, %v as asked for: expected 0 or more, and at most %d together", r.ID, totalIn, totalOut, asked, mostTokens)
	}
	in, out := int(totalIn), int(totalOut)
	switch {
	case r.Workload.Prompts < 1:
		return w, fmt.Errorf("row %s: %d prompts, expected 1 or more", r.ID, r.Workload.Prompts)
	case r.Workload.Dataset == "sharegpt":
		w = predict.ShareGPT(r.Workload.Prompts, in, out, r.Workload.Seed)
	case r.Workload.Dataset == "random" && r.Workload.InputLen > 0 && r.Workload.OutputLen > 0:
		w = predict.Random(r.Workload.Prompts, r.Workload.InputLen, r.Workload.OutputLen, r.Workload.Seed)
		if !r.IgnoreEOS {
			w.Shorten(out, r.Workload.Seed)
		}
	default:
		return w, fmt.Errorf("row %s: data set %q with %d/%d tokens: expected sharegpt, or random with both lengths", r.ID, r.Workload.Dataset, r.Workload.InputLen, r.Workload.OutputLen)
	}
	w.Concurrency = r.Workload.Most
	w.Chat = strings.Contains(r.Endpoint, "chat")
	if rate, ok := r.Workload.Rate.(float64); ok {
		w.Arrive(rate, r.Workload.Seed)
	}
	return w, nil
}

// Scenario returns what a row ran; the rows of its session that stand before it in all come first.
func (r *Row) Scenario(all []Row) (predict.Scenario, error) {
	if r.scenario != nil {
		return *r.scenario, nil
	}
	var s predict.Scenario
	var err error
	if s.Model, err = predict.Model(r.Model); err != nil {
		return s, fmt.Errorf("row %s: %w", r.ID, err)
	}
	if s.Machine, err = machine.Lookup(r.Hardware.GPU); err != nil {
		return s, fmt.Errorf("row %s: %w", r.ID, err)
	}
	if s.Engine, err = predict.Engine(r.Engine, r.EngineVersion); err != nil {
		return s, fmt.Errorf("row %s: %w", r.ID, err)
	}
	s.Settings.TP = r.TP
	if r.Effective != nil {
		s.Settings.MaxSeqs, s.Settings.MaxTokens, s.Settings.Async = r.Effective.MaxSeqs, r.Effective.MaxTokens, &r.Effective.Async
	}
	if s.Workload, err = r.workload(); err != nil {
		return s, err
	}
	if r.Session == "" {
		return s, nil
	}
	at := slices.IndexFunc(all, func(other Row) bool { return other.ID == r.ID })
	for i := range max(at, 0) {
		if all[i].Session == r.Session {
			earlier, err := all[i].workload()
			if err != nil {
				return s, err
			}
			s.Session = append(s.Session, earlier)
		}
	}
	return s, nil
}
