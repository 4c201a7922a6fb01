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
func (st *state) filter(name string, in Value, a args) Value {
	f, ok := st.tmpl.filters[name]
	if !ok {
		return st.fail("there is no filter %q", name)
	}
	if st.err != nil || !st.work(size(in)) || !st.checkArgs("filter", name, f.params, a) {
		return nil
	}
	if !st.enter() {
		return nil
	}
	defer st.leave()
	return f.fn(st, in, a)
}

// size is what reading v once costs.
func size(v Value) int {
	switch v := v.(type) {
	case string:
		return len(v)
	case *List:
		return len(v.items) * valueBytes
	case *Dict:
		return len(v.entries) * valueBytes
	}
	return 0
}

func (st *state) checkArgs(what, name string, params []string, a args) bool {
	if len(params) == 1 && params[0] == "..." {
		return true
	}
	if len(a.pos) > len(params) {
		st.fail("%s %q takes at most %d arguments, got %d", what, name, len(params), len(a.pos))
	}
	for _, e := range a.kw {
		if key, _ := e.key.(string); !slices.Contains(params, key) {
			st.fail("%s %q has no argument %q", what, name, key)
		}
	}
	return st.err == nil
}

func (a args) bool(i int, name string) bool {
	v, _ := a.get(i, name)
	return truth(v)
}

func filterTable() map[string]filter {
	p := func(names ...string) []string { return names }
	text := func(f func(string) string) filter {
		return filter{nil, func(st *state, in Value, a args) Value { return st.convert(st.str(in), f) }}
	}
	escape := text(htmlEscaper().Replace)
	table := map[string]filter{
		"abs":        {nil, abs},
		"batch":      {p("linecount", "fill_with"), batch},
		"capitalize": text(capitalize),
		"default":    {p("default_value", "boolean"), defaultFilter},
		"dictsort":   {p("case_sensitive", "by", "reverse"), dictSort},
		"escape":     escape,
		"first":      {nil, first},
		"float":      {p("default"), floatFilter},
		"groupby":    {p("attribute", "default", "case_sensitive"), groupBy},
		"indent":     {p("width", "first", "blank"), indent},
		"int":        {p("default", "base"), intFilter},
		"items":      {nil, items},
		"join":       {p("d", "attribute"), join},
		"last":       {nil, last},
		"length":     {nil, lengthFilter},
		"list":       {nil, func(st *state, in Value, a args) Value { return st.listOf(st.iterate(in)) }},
		"lower":      text(strings.ToLower),
		"map":        {p("..."), mapFilter},
		"max":        {p("case_sensitive", "attribute"), func(st *state, in Value, a args) Value { return st.extreme(in, a, 1) }},
		"min":        {p("case_sensitive", "attribute"), func(st *state, in Value, a args) Value { return st.extreme(in, a, -1) }},
		"reject":     {p("..."), func(st *state, in Value, a args) Value { return st.choose(in, a, false, false) }},
		"rejectattr": {p("..."), func(st *state, in Value, a args) Value { return st.choose(in, a, true, false) }},
		"replace":    {p("old", "new", "count"), replaceFilter},
		"reverse":    {nil, reverse},
		"round":      {p("precision", "method"), round},
		"safe":       text(strings.Clone),
		"select":     {p("..."), func(st *state, in Value, a args) Value { return st.choose(in, a, false, true) }},
		"selectattr": {p("..."), func(st *state, in Value, a args) Value { return st.choose(in, a, true, true) }},
		"sort":       {p("reverse", "case_sensitive", "attribute"), sortFilter},
		"string":     text(strings.Clone),
		"sum":        {p("attribute", "start"), sum},
		"title":      text(titleFilter),
		"tojson":     {p("ensure_ascii", "indent", "separators", "sort_keys"), toJSON},
		"trim":       {p("chars"), trim},
		"unique":     {p("case_sensitive", "attribute"), unique},
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
	n, ok := asInt(in)
	if !ok || n == math.MinInt64 {
		return st.fail("abs needs a number, found %s", describe(in))
	}
	return max(n, -n)
}

func defaultFilter(st *state, in Value, a args) Value {
	if _, missing := in.(undefined); !missing && (truth(in) || !a.bool(1, "boolean")) {
		return in
	}
	if v, ok := a.get(0, "default_value"); ok {
		return v
	}
	return ""
}

func floatFilter(st *state, in Value, a args) Value {
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
	if v, ok := a.get(0, "default"); ok {
		return v
	}
	return 0.0
}

// parseFloat is Python's float(s).
func parseFloat(s string) (float64, bool) {
	s = strings.TrimFunc(s, isSpace)
	if strings.ContainsAny(s, "xXpP") || strings.HasPrefix(s, "_") || strings.HasSuffix(s, "_") || strings.Contains(s, "__") {
		return 0, false
	}
	f, err := strconv.ParseFloat(strings.ReplaceAll(s, "_", ""), 64)
	return f, err == nil || math.IsInf(f, 0)
}

func intFilter(st *state, in Value, a args) Value {
	switch v := in.(type) {
	case undefined:
		return st.fail("%s; cannot convert it to a number", v)
	case bool, int64:
		n, _ := asInt(v)
		return n
	case bigInt:
		return v
	case string:
		if n := parsePythonInt(v, int(a.int(1, "base", 10))); n != nil {
			return n
		}
		if f, ok := parseFloat(v); ok {
			return truncFloat(st, f, a)
		}
	case float64:
		return truncFloat(st, v, a)
	}
	return intDefault(a)
}

func intDefault(a args) Value {
	if v, ok := a.get(0, "default"); ok {
		return v
	}
	return int64(0)
}

func truncFloat(_ *state, f float64, a args) Value {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return intDefault(a)
	}
	n, _ := big.NewFloat(f).Int(nil)
	return normalInt(n)
}

// parsePythonInt is Python's int(s, base); nil if s is no integer.
func parsePythonInt(s string, base int) Value {
	s = strings.TrimFunc(s, isSpace)
	digits := strings.TrimLeft(s, "+-")
	if len(s)-len(digits) > 1 || len(s) > maxIntDigits || base < 0 || base > 36 || base == 1 ||
		strings.HasPrefix(digits, "_") || strings.HasSuffix(digits, "_") || strings.Contains(digits, "__") {
		return nil
	}
	sign := s[:len(s)-len(digits)]
	if prefix := map[int]string{2: "0b", 8: "0o", 16: "0x"}[base]; prefix != "" {
		digits = strings.TrimPrefix(strings.ToLower(digits), prefix)
	}
	return parseInt(sign+strings.ReplaceAll(digits, "_", ""), base)
}

func indent(st *state, in Value, a args) Value {
	pad := "    "
	switch w, ok := a.get(0, "width"); w := w.(type) {
	case string:
		pad = w
	default:
		if ok {
			pad = st.pad(" ", a.int(0, "width", 4))
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
			if (i > 0 && (line != "" || a.bool(2, "blank"))) || (i == 0 && a.bool(1, "first")) {
				st.emit(pad)
			}
			st.emit(line)
		}
	})
}

func replaceFilter(st *state, in Value, a args) Value {
	from, ok1 := a.get(0, "old")
	to, ok2 := a.get(1, "new")
	if !ok1 || !ok2 {
		return st.fail("replace needs two arguments")
	}
	return st.replace(st.str(in), st.str(from), st.str(to), a.int(2, "count", -1))
}

// round rounds half to even on the exact decimal expansion, as Python does.
func round(st *state, in Value, a args) Value {
	precision := int(min(max(a.int(0, "precision", 0), -400), 400))
	method, _ := a.text(1, "method", "common")
	n, isInt := asInt(in)
	f, ok := asFloat(in)
	switch {
	case !ok || (method != "common" && method != "ceil" && method != "floor"):
		return st.fail("round needs a number and the method common, ceil or floor; found %s and %q", describe(in), method)
	case method == "common" && isInt && precision >= 0:
		return n
	case method == "common" && precision >= 0:
		f, _ = strconv.ParseFloat(strconv.FormatFloat(f, 'f', precision, 64), 64)
		return f
	case method == "common":
		scale := math.Pow(10, float64(-precision))
		f = math.RoundToEven(f/scale) * scale
		if isInt {
			return int64(f)
		}
		return f
	}
	scale := math.Pow(10, float64(precision))
	if method == "ceil" {
		return math.Ceil(f*scale) / scale
	}
	return math.Floor(f*scale) / scale
}

// titleFilter capitalises after white space, brackets and hyphens, unlike
// str.title.
func titleFilter(s string) string {
	start := true
	return strings.Map(func(r rune) rune {
		atStart := start
		start = isSpace(r) || strings.ContainsRune("-({[<", r)
		if atStart {
			return unicode.ToUpper(r)
		}
		return unicode.ToLower(r)
	}, s)
}

func toJSON(st *state, in Value, a args) Value {
	style := jsonStyle{item: ", ", key: ": ", ascii: a.bool(0, "ensure_ascii"), sorted: a.bool(3, "sort_keys")}
	switch v, _ := a.get(1, "indent"); v := v.(type) {
	case nil:
	case string:
		style.indent, style.multiline, style.item = v, true, ","
	default:
		style.indent, style.multiline, style.item = st.pad(" ", a.int(1, "indent", 0)), true, ","
	}
	if v, _ := a.get(2, "separators"); v != nil {
		l, ok := v.(*List)
		if !ok || len(l.items) != 2 {
			return st.fail("tojson: separators must be a pair of strings")
		}
		style.item, style.key = st.str(l.items[0]), st.str(l.items[1])
	}
	return st.capture(func() { st.dump(in, style, "\n") })
}

func trim(st *state, in Value, a args) Value {
	return st.callString(stringMethods["strip"], st.str(in), "trim", args{pos: a.pos, kw: a.kw})
}

func wordCount(st *state, in Value, _ args) Value {
	s := st.str(in)
	n, inWord := int64(0), false
	for _, r := range s {
		word := r == '_' || unicode.IsLetter(r) || unicode.IsNumber(r)
		if word && !inWord {
			n++
		}
		inWord = word
	}
	return n
}
