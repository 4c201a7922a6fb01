package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"ossian/internal/limits"
)

// kind says how the text of a setting is read.
type kind uint8

const (
	text kind = iota
	boolean
	integer // with vLLM's suffixes
	float
	list
	duration
	object // JSON
)

// row is one setting: everything that is known about it.
type row struct {
	name     string
	kind     kind
	def      []string
	min, max float64  // integer, float
	values   []string // text: what is allowed, nil = anything; integer: words that mean 0
	help     string
	why      string // the reason of the default
	note     string // printed when given: what the flag means here
	accepted bool   // of vLLM, without effect here
	command  bool   // says what to do, not how: not explained
	secret   bool   // never printed
	live     bool   // Reload changes it
	single   bool   // list: each use of the flag gives one item
	takes    string // what --help says that it takes; "" = what is usual for the kind
	env      string // a further name in the environment; OSSIAN_NAME wins
	set      func(*Settings, parsed) error
}

// parsed is the value of a setting by kind.
type parsed struct {
	text string
	list []string
	n    int
	f    float64
	b    bool
	d    time.Duration
}

// parse reads a value by the row's kind and holds it to the row's bounds. No texts are the zero
// value.
func (r *row) parse(texts []string) (p parsed, err error) {
	if r.kind == list {
		p.list = texts
		return p, nil
	}
	if len(texts) == 0 {
		return p, nil
	}
	p.text = texts[0]
	switch r.kind {
	case text:
		if r.values != nil && !slices.Contains(r.values, p.text) {
			return p, fmt.Errorf("%s expected", oneOf(r.values))
		}
	case boolean:
		if p.b, err = strconv.ParseBool(p.text); err != nil {
			return p, errors.New("true or false expected")
		}
	case integer:
		if slices.Contains(r.values, p.text) {
			return p, nil
		}
		n, err := limits.ParseInt(p.text)
		if err != nil {
			return p, err
		}
		p.n = int(n)
		return p, r.within(float64(n))
	case float:
		if p.f, err = strconv.ParseFloat(p.text, 64); err != nil {
			return p, errors.New("a number expected")
		}
		return p, r.within(p.f)
	case duration:
		if p.d, err = time.ParseDuration(p.text); err != nil {
			var seconds float64 // a plain number is seconds, as vLLM's timeouts are
			if seconds, err = strconv.ParseFloat(p.text, 64); err != nil || !(seconds < 1e9) {
				return p, errors.New("a time such as 30s or 2m expected")
			}
			p.d = time.Duration(seconds * float64(time.Second))
		}
		return p, r.within(p.d.Seconds())
	case object:
		if err = json.Unmarshal([]byte(p.text), new(any)); err != nil { // and says what is wrong with it
			return p, fmt.Errorf("JSON expected, such as '{\"key\": 1}', found %.40q: %w", p.text, err)
		}
	}
	return p, nil
}

// within reports a number outside min..max.
func (r *row) within(v float64) error {
	if v >= r.min && v <= r.max {
		return nil
	}
	if r.min == r.max {
		return fmt.Errorf("only %v is possible: %s", r.min, r.note)
	}
	return fmt.Errorf("%s to %s expected", plainNumber(r.min), plainNumber(r.max))
}

// plainNumber writes a bound without an exponent.
func plainNumber(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

// oneOf writes values as "a, b or c".
func oneOf(values []string) string {
	if len(values) == 1 {
		return values[0]
	}
	return strings.Join(values[:len(values)-1], ", ") + " or " + values[len(values)-1]
}

// usage is the flag with what it takes, for --help.
func (r *row) usage() string {
	switch {
	case r.takes != "":
		return r.name + " " + r.takes
	case r.kind == boolean && len(r.def) > 0 && r.def[0] == "true":
		return "[no-]" + r.name
	case r.kind == boolean:
		return r.name
	case r.kind == text && r.values != nil && len(r.values) <= 4:
		return r.name + " " + strings.Join(r.values, "|")
	}
	return r.name + " " + map[kind]string{text: "TEXT", integer: "N", float: "X", list: "A [B …]", duration: "TIME", object: "JSON"}[r.kind]
}

// defaultNote is what --help says of the default, for switches only where it is on.
func (r *row) defaultNote() string {
	switch {
	case len(r.def) == 0 || (r.kind == boolean && r.def[0] == "false"):
		return ""
	case r.kind == boolean:
		return " (default on)"
	}
	return " (default " + strings.Join(r.def, " ") + ")"
}

// loopback reports whether only this machine can reach host.
func loopback(host string) bool {
	if host == "localhost" {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.IsLoopback()
}
