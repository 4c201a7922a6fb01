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
	f, err := os.Create(part)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(part, path)
}

// writeJSON writes compact JSON in lines, as Python's json.dump with an indent.
func writeJSON(path string, compact []byte, indent int) error {
	var b bytes.Buffer
	if err := json.Indent(&b, compact, "", strings.Repeat(" ", indent)); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return writeWhole(path, b.Bytes())
}

// writeRuns writes a list of results.
func writeRuns(path string, runs []Object) error {
	b := []byte{'['}
	for i, r := range runs {
		if i > 0 {
			b = append(b, ',')
		}
		b = r.append(b)
	}
	return writeJSON(path, append(b, ']'), 4)
}

// A failure is what remains of a run, or of a server, that failed.
type failure struct {
	run          *int
	err          error
	serve, bench Object // bench is nil where the server failed
}

func (f failure) write(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		return err
	}
	kind := "RunError"
	if _, ok := errors.AsType[*ServerError](f.err); ok {
		kind = "ServerError"
	}
	var o Object
	if f.run != nil {
		o = o.With("run_number", integer(*f.run))
	}
	o = append(o, Member{"error_type", quoted(kind)}, Member{"error", quoted(f.err.Error())}, Member{"serve_overrides", f.serve.append(nil)})
	if f.bench != nil {
		o = o.With("bench_overrides", f.bench.append(nil))
	}
	return writeJSON(path, o.append(nil), 2)
}

// ownKey is what ossian's results have beside what vLLM's have: pages of details, which
// are left out of tables.
const ownKey = "ossian"

// table writes runs as CSV, the way pandas writes a frame of them: a column for each
// member of any run, in the order of their first appearance, and the number of the row in
// front.
func table(runs []Object) []byte {
	var columns []string
	known := map[string]bool{}
	rows := make([]map[string]json.RawMessage, len(runs))
	for i, r := range runs {
		rows[i] = make(map[string]json.RawMessage, len(r))
		for _, m := range r {
			if !known[m.Key] && m.Key != ownKey {
				known[m.Key] = true
				columns = append(columns, m.Key)
			}
			rows[i][m.Key] = m.Value
		}
	}
	var b bytes.Buffer
	for _, c := range columns {
		b.WriteString("," + cell(c))
	}
	b.WriteByte('\n')
	floats := make([]bool, len(columns))
	for i, c := range columns {
		floats[i] = isFloat(rows, c)
	}
	for i, row := range rows {
		b.WriteString(strconv.Itoa(i))
		for k, c := range columns {
			b.WriteString("," + cell(shown(row[c], floats[k])))
		}
		b.WriteByte('\n')
	}
	return b.Bytes()
}

// isFloat reports whether pandas holds a column as floats, so that whole numbers in it get
// a fraction: all of it are numbers, and one has a fraction or is missing.
func isFloat(rows []map[string]json.RawMessage, column string) bool {
	fraction, any := false, false
	for _, row := range rows {
		v, ok := row[column]
		switch {
		case !ok || string(v) == "null":
			fraction = true
		case v[0] == '-' || (v[0] >= '0' && v[0] <= '9'):
			any = true
			fraction = fraction || bytes.ContainsAny(v, ".eE")
		default:
			return false
		}
	}
	return fraction && any
}

// shown is a value in the table.
func shown(v json.RawMessage, float bool) string {
	if v == nil || string(v) == "null" {
		return ""
	}
	if f, err := strconv.ParseFloat(str(v), 64); float && err == nil {
		return pyFloat(f)
	}
	return str(v)
}

// cell is a text in CSV.
func cell(text string) string {
	if strings.ContainsAny(text, ",\"\r\n") {
		return `"` + strings.ReplaceAll(text, `"`, `""`) + `"`
	}
	return text
}
