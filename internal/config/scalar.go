package config

import (
	"errors"
	"math"
	"math/big"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"
)

// scalarValue is a scalar as Python would print it.
type scalarValue struct {
	text                  string
	boolean, number, null bool
	err                   error
}

// YAML 1.1 as PyYAML resolves plain scalars; YAML 1.2, which the library knows,
// reads on, 017 and 1_000 differently.
var (
	yamlBools = []string{"yes", "Yes", "YES", "no", "No", "NO", "true", "True", "TRUE", "false", "False", "FALSE", "on", "On", "ON", "off", "Off", "OFF"}
	yamlNulls = []string{"", "~", "null", "Null", "NULL"}
	yamlInt   = regexp.MustCompile(`^[-+]?(?:0b[01_]+|0[0-7_]+|0x[0-9a-fA-F_]+|0|[1-9][0-9_]*(?::[0-5]?[0-9])*)$`)
	yamlFloat = regexp.MustCompile(`^(?:[-+]?[0-9][0-9_]*\.[0-9_]*(?:[eE][-+][0-9]+)?|\.[0-9][0-9_]*(?:[eE][-+][0-9]+)?|[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+\.[0-9_]*)$`)
	yamlInf   = regexp.MustCompile(`^[-+]?\.(?:inf|Inf|INF)$`)
	yamlNaN   = regexp.MustCompile(`^\.(?:nan|NaN|NAN)$`)
)

func scalarOf(v *yaml.Node) scalarValue {
	if v.Kind != yaml.ScalarNode {
		return scalarValue{}
	}
	s := v.Value
	tag := v.ShortTag()
	quoted := v.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle|yaml.LiteralStyle|yaml.FoldedStyle) != 0
	if v.Style&yaml.TaggedStyle != 0 && tag != "!!str" {
		return scalarValue{err: errors.New("tags such as " + strconv.Quote(tag) + " are not read")}
	}
	if quoted || v.Style&yaml.TaggedStyle != 0 {
		return scalarValue{text: s}
	}
	switch {
	case slices.Contains(yamlNulls, s):
		return scalarValue{null: true}
	case slices.Contains(yamlBools, s):
		yes := slices.Contains([]string{"yes", "true", "on"}, strings.ToLower(s))
		return scalarValue{text: map[bool]string{true: "True", false: "False"}[yes], boolean: true}
	case s == "=":
		return scalarValue{err: errors.New("a plain = is not a value; quote it")}
	case yamlInt.MatchString(s):
		return pythonInt(s)
	case yamlInf.MatchString(s):
		return scalarValue{text: strings.TrimPrefix(strings.ToLower(strings.Replace(s, ".", "", 1)), "+"), number: true}
	case yamlNaN.MatchString(s):
		return scalarValue{text: "nan", number: true}
	case yamlFloat.MatchString(s):
		return pythonFloat(s)
	}
	return scalarValue{text: s}
}

// pythonInt reads decimal, 0b, 0x, 0 octal and base 60 of any size.
func pythonInt(s string) scalarValue {
	bad := scalarValue{err: errors.New(strconv.Quote(s) + " is no number; quote it if it is meant as text")}
	digits := strings.ReplaceAll(s, "_", "")
	negative := strings.HasPrefix(digits, "-")
	digits = strings.TrimLeft(digits, "+-")
	base := 10
	switch {
	case len(digits) > 1000:
		return bad
	case strings.HasPrefix(digits, "0b"):
		base, digits = 2, digits[2:]
	case strings.HasPrefix(digits, "0x"):
		base, digits = 16, digits[2:]
	case len(digits) > 1 && digits[0] == '0':
		base = 8
	}
	n := new(big.Int)
	for part := range strings.SplitSeq(digits, ":") {
		p, ok := new(big.Int).SetString(part, base)
		if !ok {
			return bad
		}
		n.Add(n.Mul(n, big.NewInt(60)), p)
	}
	if negative {
		n.Neg(n)
	}
	return scalarValue{text: n.String(), number: true}
}

func pythonFloat(s string) scalarValue {
	digits := strings.ReplaceAll(s, "_", "")
	sign := 1.0
	if strings.HasPrefix(digits, "-") {
		sign = -1
	}
	f := 0.0
	for part := range strings.SplitSeq(strings.TrimLeft(digits, "+-"), ":") {
		p, err := strconv.ParseFloat(part, 64)
		if err != nil && !math.IsInf(p, 0) {
			return scalarValue{err: errors.New(strconv.Quote(s) + " is no number; quote it if it is meant as text")}
		}
		f = f*60 + p
	}
	return scalarValue{text: pythonRepr(sign * f), number: true}
}

// pythonRepr writes a float as Python does: 1000.0, 1e+16, 1.5e-05.
func pythonRepr(f float64) string {
	switch a := math.Abs(f); {
	case math.IsInf(f, 0):
		return strings.TrimPrefix(strings.ToLower(strconv.FormatFloat(f, 'g', -1, 64)), "+")
	case a != 0 && (a < 1e-4 || a >= 1e16):
		return strconv.FormatFloat(f, 'e', -1, 64)
	}
	s := strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.Contains(s, ".") {
		s += ".0"
	}
	return s
}
