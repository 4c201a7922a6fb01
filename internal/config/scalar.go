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

// scalarOf resolves a scalar, which is text if it is quoted; other nodes give the zero value.
func scalarOf(node *yaml.Node) scalarValue {
	if node.Kind != yaml.ScalarNode {
		return scalarValue{}
	}
	text := node.Value
	tag := node.ShortTag()
	quoted := node.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle|yaml.LiteralStyle|yaml.FoldedStyle) != 0
	if node.Style&yaml.TaggedStyle != 0 && tag != "!!str" {
		return scalarValue{err: errors.New("tags such as " + strconv.Quote(tag) + " are not read")}
	}
	if quoted || node.Style&yaml.TaggedStyle != 0 {
		return scalarValue{text: text}
	}
	switch {
	case slices.Contains(yamlNulls, text):
		return scalarValue{null: true}
	case slices.Contains(yamlBools, text):
		yes := slices.Contains([]string{"yes", "true", "on"}, strings.ToLower(text))
		return scalarValue{text: map[bool]string{true: "True", false: "False"}[yes], boolean: true}
	case text == "=":
		return scalarValue{err: errors.New("a plain = is not a value; quote it")}
	case yamlInt.MatchString(text):
		return pythonInt(text)
	case yamlInf.MatchString(text):
		return scalarValue{text: strings.TrimPrefix(strings.ToLower(strings.Replace(text, ".", "", 1)), "+"), number: true}
	case yamlNaN.MatchString(text):
		return scalarValue{text: "nan", number: true}
	case yamlFloat.MatchString(text):
		return pythonFloat(text)
	}
	return scalarValue{text: text}
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
	number := new(big.Int) // 1:30 is 90: base 60, from the left
	for part := range strings.SplitSeq(digits, ":") {
		digit, ok := new(big.Int).SetString(part, base)
		if !ok {
			return bad
		}
		number.Add(number.Mul(number, big.NewInt(60)), digit)
	}
	if negative {
		number.Neg(number)
	}
	return scalarValue{text: number.String(), number: true}
}

// pythonFloat reads decimal and base 60.
func pythonFloat(s string) scalarValue {
	digits := strings.ReplaceAll(s, "_", "")
	sign := 1.0
	if strings.HasPrefix(digits, "-") {
		sign = -1
	}
	number := 0.0
	for part := range strings.SplitSeq(strings.TrimLeft(digits, "+-"), ":") {
		digit, err := strconv.ParseFloat(part, 64)
		if err != nil && !math.IsInf(digit, 0) {
			return scalarValue{err: errors.New(strconv.Quote(s) + " is no number; quote it if it is meant as text")}
		}
		number = number*60 + digit
	}
	return scalarValue{text: pythonRepr(sign * number), number: true}
}

// pythonRepr writes a float as Python does: 1000.0, 1e+16, 1.5e-05.
func pythonRepr(f float64) string {
	switch size := math.Abs(f); {
	case math.IsInf(f, 0):
		return strings.TrimPrefix(strings.ToLower(strconv.FormatFloat(f, 'g', -1, 64)), "+")
	case size != 0 && (size < 1e-4 || size >= 1e16):
		return strconv.FormatFloat(f, 'e', -1, 64)
	}
	text := strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.Contains(text, ".") {
		text += ".0"
	}
	return text
}
