package declare

import (
	"math"
	"strconv"
	"strings"

	"ossian/internal/jinja"
)

// JSON is v as JSON without spaces between tokens, keys in their order.
func JSON(value jinja.Value) string {
	var out strings.Builder
	switch typed := value.(type) {
	case *jinja.List:
		out.WriteByte('[')
		for i := range typed.Len() {
			if i > 0 {
				out.WriteByte(',')
			}
			out.WriteString(JSON(typed.At(i)))
		}
		out.WriteByte(']')
	case *jinja.Dict:
		out.WriteByte('{')
		for i := range typed.Len() {
			if i > 0 {
				out.WriteByte(',')
			}
			key, item := typed.Entry(i)
			out.WriteString(JSON(key) + ":" + JSON(item))
		}
		out.WriteByte('}')
	case float64:
		return numberText(typed)
	default:
		text, err := jinja.ToJSON(typed)
		if err != nil {
			return "null" // no value of a JSON text gets here
		}
		out.WriteString(text)
	}
	return out.String()
}

// numberText is a float as the reference library prints it. A number beyond the
// range of floats, which is read as infinite, is the largest one: JSON has no other.
func numberText(v float64) string {
	v = max(min(v, math.MaxFloat64), -math.MaxFloat64)
	if size := math.Abs(v); size != 0 && (size < 1e-5 || size >= 1e16) {
		mantissa, exponent, _ := strings.Cut(strconv.FormatFloat(v, 'e', -1, 64), "e")
		sign := ""
		if exponent[0] == '-' {
			sign = "-"
		}
		return mantissa + "e" + sign + strings.TrimLeft(exponent[1:], "0")
	}
	text := strconv.FormatFloat(v, 'f', -1, 64)
	if !strings.Contains(text, ".") {
		text += ".0"
	}
	return text
}
