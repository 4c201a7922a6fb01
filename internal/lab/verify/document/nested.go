package document

// Results within other JSON and in CSV of any columns: ledgers, sweeps, data files. Whatever
// has the keys of a result is one, however deep it lies; other columns are a table.

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"
)

// resultKeys are keys that only results have, in the spellings of those who keep them.
var resultKeys = map[string]string{
	"completed": "completed", "duration": "duration", "duration_s": "duration", "benchmark_duration": "duration",
	"total_input_tokens": "total_input_tokens", "total_output_tokens": "total_output_tokens", "total_output_tokens_retokenized": "total_output_tokens_retokenized",
	"request_throughput": "request_throughput", "input_throughput": "input_throughput", "output_throughput": "output_throughput",
	"total_token_throughput": "total_token_throughput", "total_throughput": "total_token_throughput",
	"peak_output_throughput": "max_output_tokens_per_s", "max_output_tokens_per_s": "max_output_tokens_per_s",
	"peak_concurrent_requests": "max_concurrent_requests", "max_concurrent_requests": "max_concurrent_requests", "failed": "failed", "max_concurrency": "max_concurrency",
}

// Limits of nested JSON.
const (
	maxNested = 200  // deep
	minKeys   = 4    // of a result within others, among them the duration
	maxMember = 4096 // members of an object that may be a result
)

// nestedResults finds results within other JSON.
func (d *Document) nestedResults(data []byte) error {
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	for {
		var value any
		err := decoder.Decode(&value)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("byte %d: %w", decoder.InputOffset(), err)
		}
		d.nested(value, "", 0)
	}
}

// nested looks for results in a value. Names of members that name a result are kept.
func (d *Document) nested(value any, name string, depth int) {
	if depth > maxNested || len(d.Blocks) >= maxBlocks {
		return
	}
	switch value := value.(type) {
	case []any:
		for i, item := range value {
			d.nested(item, fmt.Sprintf("%s[%d]", name, i), depth+1)
		}
	case map[string]any:
		if id, ok := value["id"].(string); ok && id != "" {
			name = id
		}
		if len(d.Tables) < maxTables {
			if found, ok := statisticsTable(value, name); ok {
				d.Tables = append(d.Tables, found)
			}
		}
		if found := nestedBlock(value); found != nil {
			found.number = len(d.Blocks) + 1
			found.Name = "result " + strings.TrimPrefix(name, ".")
			d.Blocks = append(d.Blocks, found)
		}
		for _, key := range slices.Sorted(maps.Keys(value)) {
			d.nested(value[key], name+"."+key, depth+1)
		}
	}
}

// nestedBlock is an object as a result; nil where it is none.
func nestedBlock(object map[string]any) *Block {
	if len(object) > maxMember {
		return nil
	}
	found := &Block{Values: map[string]Number{}, info: map[string]string{}}
	known := 0
	for member, value := range object {
		text, ok := value.(json.Number)
		if !ok {
			continue
		}
		key, ok := resultKeys[member]
		if ok {
			known++
		} else if metric := MetricOf(strings.ReplaceAll(member, "_", " ")); IsTime(metric) && strings.HasSuffix(member, "_ms") {
			key = metric
		} else {
			continue
		}
		if figure, ok := ParseNumber(text.String()); ok {
			found.Values[key] = figure
		}
	}
	if known < minKeys || !found.Has("duration") {
		return nil
	}
	return found
}

// columns reads CSV of any columns as a table; false where it is none.
func (d *Document) columns(data []byte) bool {
	if !strings.EqualFold(filepath.Ext(d.Name), ".csv") {
		return false
	}
	lines := csv.NewReader(bytes.NewReader(data))
	lines.FieldsPerRecord = -1
	header, err := lines.Read()
	if err != nil || len(header) < 2 {
		return false
	}
	found := Table{Line: 1, Header: header[:min(len(header), maxColumns)]}
	for len(found.Rows) < maxRows {
		record, err := lines.Read()
		if err != nil {
			break // what could be read until here
		}
		line, _ := lines.FieldPos(0)
		found.add(record, line)
	}
	if len(found.Rows) > 0 {
		d.Tables = append(d.Tables, found)
	}
	return len(found.Rows) > 0
}

// statisticKeys are members of objects that hold the statistics of one metric, in the order
// in which a table gives them.
var statisticKeys = []string{"avg", "mean", "min", "p25", "p50", "median", "p75", "p90", "p95", "p99", "max"}

// statisticsTable is an object of statistics of one metric as a table with one row; false
// where it is none.
func statisticsTable(object map[string]any, name string) (Table, bool) {
	found, cells := Table{Header: []string{"metric"}}, []string{strings.TrimPrefix(strings.ReplaceAll(name, "_", " "), ".")}
	if len(object) > maxColumns {
		return found, false
	}
	for _, key := range statisticKeys {
		if text, ok := object[key].(json.Number); ok {
			found.Header, cells = append(found.Header, key), append(cells, text.String())
		}
	}
	if len(cells) < 4 {
		return found, false
	}
	if unit, ok := object["unit"].(string); ok {
		cells[0] += " (" + unit + ")"
	}
	found.add(cells, 0)
	return found, true
}
