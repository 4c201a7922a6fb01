package sweep

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"ossian/internal/bench/jsonstyle"
)

// readRun returns the result in a file, nil if there is no such file.
func readRun(path string) (Object, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	run, err := parseObject(bytes.TrimSpace(plainJSON(text)))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return run, nil
}

// writeWhole writes a file so that whoever reads it, also after a crash, finds either what
// was there before or all of the new.
func writeWhole(path string, text []byte) error {
	part := path + ".part"
	file, err := os.Create(part)
	if err != nil {
		return err
	}
	_, err = file.Write(text)
	if err = errors.Join(err, file.Sync(), file.Close()); err != nil {
		return err
	}
	return os.Rename(part, path)
}

// writeJSON writes compact JSON in lines, as Python's json.dump with an indent.
func writeJSON(path string, compact []byte, indent int) error {
	var indented bytes.Buffer
	if err := json.Indent(&indented, compact, "", strings.Repeat(" ", indent)); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return writeWhole(path, indented.Bytes())
}

// writeRuns writes a list of results.
func writeRuns(path string, runs []Object) error {
	list := []byte{'['}
	for i, run := range runs {
		if i > 0 {
			list = append(list, ',')
		}
		list = run.append(list)
	}
	return writeJSON(path, append(list, ']'), 4)
}

// A failure is what remains of a run, or of a server, that failed.
type failure struct {
	run          *int
	err          error
	serve, bench Object // bench is nil where the server failed
}

// write writes what failed and with which settings, in vLLM's form.
func (f failure) write(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		return err
	}
	kind := "RunError"
	if _, ok := errors.AsType[*ServerError](f.err); ok {
		kind = "ServerError"
	}
	var object Object
	if f.run != nil {
		object = object.With("run_number", jsonInteger(*f.run))
	}
	object = append(object, Member{"error_type", jsonText(kind)}, Member{"error", jsonText(f.err.Error())}, Member{"serve_overrides", f.serve.append(nil)})
	if f.bench != nil {
		object = object.With("bench_overrides", f.bench.append(nil))
	}
	return writeJSON(path, object.append(nil), 2)
}

// ownKey is what ossian's results have beside what vLLM's have: pages of details, which
// are left out of tables.
const ownKey = "ossian"

// table writes runs as CSV, the way pandas writes a frame of them: a column for each
// member of any run, in the order of their first appearance, and the number of the row in
// front.
func table(runs []Object) []byte {
	// Columns come in the order in which the runs first have them.
	var columns []string
	known := map[string]bool{}
	rows := make([]map[string]json.RawMessage, len(runs))
	for i, run := range runs {
		rows[i] = make(map[string]json.RawMessage, len(run))
		for _, member := range run {
			if !known[member.Key] && member.Key != ownKey {
				known[member.Key] = true
				columns = append(columns, member.Key)
			}
			rows[i][member.Key] = member.Value
		}
	}
	var out bytes.Buffer
	for _, column := range columns {
		out.WriteString("," + csvCell(column))
	}
	out.WriteByte('\n')
	// Whether a whole number has a fraction depends on the whole column.
	floats := make([]bool, len(columns))
	for i, column := range columns {
		floats[i] = isFloat(rows, column)
	}
	for i, row := range rows {
		out.WriteString(strconv.Itoa(i))
		for at, column := range columns {
			out.WriteString("," + csvCell(shown(row[column], floats[at])))
		}
		out.WriteByte('\n')
	}
	return out.Bytes()
}

// isFloat reports whether pandas holds a column as floats, so that whole numbers in it get
// a fraction: all of it are numbers, and one has a fraction or is missing.
func isFloat(rows []map[string]json.RawMessage, column string) bool {
	fraction, any := false, false
	for _, row := range rows {
		value, ok := row[column]
		switch {
		case !ok || string(value) == "null":
			fraction = true
		case value[0] == '-' || (value[0] >= '0' && value[0] <= '9'):
			any = true
			fraction = fraction || bytes.ContainsAny(value, ".eE")
		default:
			return false
		}
	}
	return fraction && any
}

// shown is a value in the table.
func shown(value json.RawMessage, float bool) string {
	if value == nil || string(value) == "null" {
		return ""
	}
	if number, err := strconv.ParseFloat(pyStr(value), 64); float && err == nil {
		return jsonstyle.PyFloat(number)
	}
	return pyStr(value)
}

// csvCell is a text in CSV.
func csvCell(text string) string {
	if strings.ContainsAny(text, ",\"\r\n") {
		return `"` + strings.ReplaceAll(text, `"`, `""`) + `"`
	}
	return text
}
