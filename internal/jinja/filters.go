package jinja

import (
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// filter is one entry of the table: the names of its arguments after the
// input, and the function. "..." accepts any.
type filter struct {
	params []string
	fn     func(st *state, in Value, a args) Value
}

// filter applies the filter called name.
func (st *state) filter(name string, in Value, passed args) Value {
	filter, ok := st.tmpl.filters[name]
	if !ok {
		return st.fail("there is no filter %q", name)
	}
	if st.err != nil || !st.work(size(in)) || !st.checkArgs("filter", name, filter.params, passed) {
		return nil
	}
	if !st.enter() {
		return nil
	}
	defer st.leave()
	return filter.fn(st, in, passed)
}

// size is what reading value once costs.
func size(value Value) int {
	switch value := value.(type) {
	case string:
		return len(value)
	case *List:
		return len(value.items) * valueBytes
	case *Dict:
		return len(value.entries) * valueBytes
	}
	return 0
}

// checkArgs refuses arguments that have no parameter.
func (st *state) checkArgs(what, name string, params []string, passed args) bool {
	if len(params) == 1 && params[0] == "..." {
		return true
	}
	if len(passed.pos) > len(params) {
		st.fail("%s %q takes at most %d arguments, got %d", what, name, len(params), len(passed.pos))
	}
	for _, e := range passed.kw {
		if key, _ := e.key.(string); !slices.Contains(params, key) {
			st.fail("%s %q has no argument %q", what, name, key)
		}
	}
	return st.err == nil
}

// bool is the truth of an argument, false if it is absent.
func (a args) bool(i int, name string) bool {
	v, _ := a.get(i, name)
	return truth(v)
}

// filterTable returns the filters by name.
func filterTable() map[string]filter {
	params := func(names ...string) []string { return names }
	text := func(f func(string) string) filter {
		return filter{nil, func(st *state, in Value, a args) Value { return st.convert(st.str(in), f) }}
	}
	escape := text(htmlEscaper().Replace)
	table := map[string]filter{
		"abs":        {nil, abs},
		"batch":      {params("linecount", "fill_with"), batch},
		"capitalize": text(capitalize),
		"default":    {params("default_value", "boolean"), defaultFilter},
		"dictsort":   {params("case_sensitive", "by", "reverse"), dictSort},
		"escape":     escape,
		"first":      {nil, first},
		"float":      {params("default"), floatFilter},
		"groupby":    {params("attribute", "default", "case_sensitive"), groupBy},
		"indent":     {params("width", "first", "blank"), indent},
		"int":        {params("default", "base"), intFilter},
		"items":      {nil, items},
		"join":       {params("d", "attribute"), join},
		"last":       {nil, last},
		"length":     {nil, lengthFilter},
		"list":       {nil, func(st *state, in Value, a args) Value { return st.listOf(st.iterate(in)) }},
		"lower":      text(strings.ToLower),
		"map":        {params("..."), mapFilter},
		"max":        {params("case_sensitive", "attribute"), func(st *state, in Value, a args) Value { return st.extreme(in, a, 1) }},
		"min":        {params("case_sensitive", "attribute"), func(st *state, in Value, a args) Value { return st.extreme(in, a, -1) }},
		"reject":     {params("..."), func(st *state, in Value, a args) Value { return st.choose(in, a, false, false) }},
		"rejectattr": {params("..."), func(st *state, in Value, a args) Value { return st.choose(in, a, true, false) }},
		"replace":    {params("old", "new", "count"), replaceFilter},
		"reverse":    {nil, reverse},
		"round":      {params("precision", "method"), round},
		"safe":       text(strings.Clone),
		"select":     {params("..."), func(st *state, in Value, a args) Value { return st.choose(in, a, false, true) }},
		"selectattr": {params("..."), func(st *state, in Value, a args) Value { return st.choose(in, a, true, true) }},
		"sort":       {params("reverse", "case_sensitive", "attribute"), sortFilter},
		"string":     text(strings.Clone),
		"sum":        {params("attribute", "start"), sum},
		"title":      text(titleFilter),
		"tojson":     {params("ensure_ascii", "indent", "separators", "sort_keys"), toJSON},
		"trim":       {params("chars"), trim},
		"unique":     {params("case_sensitive", "attribute"), unique},
		"upper":      text(upper),
		"wordcount":  {nil, wordCount},
	}
	for alias, name := range map[string]string{"d": "default", "e": "escape", "count": "length"} {
		table[alias] = table[name]
	}
	return table
}

func htmlEscaper() *strings.Replacer {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&#34;", "'", "&#39;")
}

func abs(st *state, in Value, _ args) Value {
	if f, ok := in.(float64); ok {
		return math.Abs(f)
	}
	number, ok := asInt(in)
	if !ok || number == math.MinInt64 {
		return st.fail("abs needs a number, found %s", describe(in))
	}
	return max(number, -number)
}

func defaultFilter(st *state, in Value, passed args) Value {
	if _, missing := in.(undefined); !missing && (truth(in) || !passed.bool(1, "boolean")) {
		return in
	}
	if v, ok := passed.get(0, "default_value"); ok {
		return v
	}
	return ""
}

func floatFilter(st *state, in Value, passed args) Value {
	if u, ok := in.(undefined); ok {
		return st.fail("%s; cannot convert it to a number", u)
	}
	if f, ok := asFloat(in); ok {
		return f
	}
	if s, ok := in.(string); ok {
		if f, ok := parseFloat(s); ok {
			return f
		}
	}
	if value, ok := passed.get(0, "default"); ok {
		return value
	}
	return 0.0
}

// parseFloat is Python's float(text).
func parseFloat(text string) (float64, bool) {
	text = strings.TrimFunc(text, isSpace)
	if strings.ContainsAny(text, "xXpP") || strings.HasPrefix(text, "_") || strings.HasSuffix(text, "_") || strings.Contains(text, "__") {
		return 0, false
	}
	f, err := strconv.ParseFloat(strings.ReplaceAll(text, "_", ""), 64)
	return f, err == nil || math.IsInf(f, 0)
}

func intFilter(st *state, in Value, passed args) Value {
	switch value := in.(type) {
	case undefined:
		return st.fail("%s; cannot convert it to a number", value)
	case bool, int64:
		n, _ := asInt(value)
		return n
	case bigInt:
		return value
	case string: // "1.9" is 1, by way of a float
		if n := parsePythonInt(value, int(passed.int(1, "base", 10))); n != nil {
			return n
		}
		if f, ok := parseFloat(value); ok {
			return truncFloat(st, f, passed)
		}
	case float64:
		return truncFloat(st, value, passed)
	}
	return intDefault(passed)
}

// intDefault is what int gives for what is no number.
func intDefault(passed args) Value {
	if v, ok := passed.get(0, "default"); ok {
		return v
	}
	return int64(0)
}

func truncFloat(_ *state, float float64, passed args) Value {
	if math.IsNaN(float) || math.IsInf(float, 0) {
		return intDefault(passed)
	}
	n, _ := big.NewFloat(float).Int(nil)
	return normalInt(n)
}

// parsePythonInt is Python's int(text, base); nil if text is no integer.
func parsePythonInt(text string, base int) Value {
	text = strings.TrimFunc(text, isSpace)
	digits := strings.TrimLeft(text, "+-")
	if len(text)-len(digits) > 1 || len(text) > maxIntDigits || base < 0 || base > 36 || base == 1 ||
		strings.HasPrefix(digits, "_") || strings.HasSuffix(digits, "_") || strings.Contains(digits, "__") {
		return nil
	}
	sign := text[:len(text)-len(digits)]
	if prefix := map[int]string{2: "0b", 8: "0o", 16: "0x"}[base]; prefix != "" {
		digits = strings.TrimPrefix(strings.ToLower(digits), prefix)
	}
	return parseInt(sign+strings.ReplaceAll(digits, "_", ""), base)
}

func indent(st *state, in Value, passed args) Value {
	pad := "    "
	switch w, ok := passed.get(0, "width"); w := w.(type) {
	case string:
		pad = w
	default:
		if ok {
			pad = st.pad(" ", passed.int(0, "width", 4))
		}
	}
	text, ok := in.(string)
	if !ok {
		return st.fail("indent needs a string, found %s", describe(in))
	}
	if !st.chargeTimes(len(pad)+2*valueBytes, int64(strings.Count(text, "\n")+1)) {
		return nil
	}
	// The reference appends a line break first, so a final one is kept.
	lines := splitLines(text + "\n")
	return st.capture(func() {
		for i, line := range lines {
			if i > 0 {
				st.emit("\n")
			}
			if (i > 0 && (line != "" || passed.bool(2, "blank"))) || (i == 0 && passed.bool(1, "first")) {
				st.emit(pad)
			}
			st.emit(line)
		}
	})
}

func replaceFilter(st *state, in Value, passed args) Value {
	from, ok1 := passed.get(0, "old")
	to, ok2 := passed.get(1, "new")
	if !ok1 || !ok2 {
		return st.fail("replace needs two arguments")
	}
	return st.replace(st.str(in), st.str(from), st.str(to), passed.int(2, "count", -1))
}

// round rounds half to even on the exact decimal expansion, as Python does.
func round(st *state, in Value, a args) Value {
	precision := int(min(max(a.int(0, "precision", 0), -400), 400))
	method, _ := a.text(1, "method", "common")
	integer, isInt := asInt(in)
	float, ok := asFloat(in)
	switch {
	case !ok || (method != "common" && method != "ceil" && method != "floor"):
		return st.fail("round needs a number and the method common, ceil or floor; found %s and %q", describe(in), method)
	case method == "common" && isInt && precision >= 0:
		return integer
	case method == "common" && precision >= 0:
		float, _ = strconv.ParseFloat(strconv.FormatFloat(float, 'f', precision, 64), 64)
		return float
	case method == "common": // to tens, hundreds, …
		scale := math.Pow(10, float64(-precision))
		float = math.RoundToEven(float/scale) * scale
		if isInt {
			return int64(float)
		}
		return float
	}
	scale := math.Pow(10, float64(precision))
	if method == "ceil" {
		return math.Ceil(float*scale) / scale
	}
	return math.Floor(float*scale) / scale
}

// titleFilter capitalises after white space, brackets and hyphens, unlike
// str.title.
func titleFilter(text string) string {
	start := true
	return strings.Map(func(char rune) rune {
		atStart := start
		start = isSpace(char) || strings.ContainsRune("-({[<", char)
		if atStart {
			return unicode.ToUpper(char)
		}
		return unicode.ToLower(char)
	}, text)
}

func toJSON(st *state, in Value, passed args) Value {
	style := jsonStyle{item: ", ", key: ": ", ascii: passed.bool(0, "ensure_ascii"), sorted: passed.bool(3, "sort_keys")}
	switch value, _ := passed.get(1, "indent"); value := value.(type) {
	case nil:
	case string:
		style.indent, style.multiline, style.item = value, true, ","
	default:
		style.indent, style.multiline, style.item = st.pad(" ", passed.int(1, "indent", 0)), true, ","
	}
	if value, _ := passed.get(2, "separators"); value != nil {
		list, ok := value.(*List)
		if !ok || len(list.items) != 2 {
			return st.fail("tojson: separators must be a pair of strings")
		}
		style.item, style.key = st.str(list.items[0]), st.str(list.items[1])
	}
	return st.capture(func() { st.dump(in, style, "\n") })
}

func trim(st *state, in Value, passed args) Value {
	return st.callString(stringMethods["strip"], st.str(in), "trim", args{pos: passed.pos, kw: passed.kw})
}

func wordCount(st *state, in Value, _ args) Value {
	s := st.str(in)
	count, inWord := int64(0), false
	for _, r := range s {
		word := r == '_' || unicode.IsLetter(r) || unicode.IsNumber(r)
		if word && !inWord {
			count++
		}
		inWord = word
	}
	return count
}
