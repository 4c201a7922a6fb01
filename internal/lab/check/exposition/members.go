package exposition

import "strings"

// Members reads name=value, … and 'name': value, … as Python prints them; what is inside brackets
// belongs to the value.
func Members(text string) (out [][2]string) {
	depth, begin := 0, 0
	var quoted byte
	member := func(part string) {
		part = strings.TrimSpace(part)
		// Whichever separator comes first: a value may hold the other.
		at := strings.IndexAny(part, "=:")
		if at <= 0 {
			return
		}
		name := strings.Trim(strings.TrimSpace(part[:at]), `'"`)
		if value := strings.Trim(strings.TrimSpace(part[at+1:]), `'"`); !strings.ContainsAny(name, " {[(") && len(value) < 1<<12 {
			out = append(out, [2]string{name, value})
		}
	}
	for i := 0; i < len(text); i++ {
		letter := text[i]
		switch {
		case quoted != 0:
			if letter == '\\' {
				i++
			} else if letter == quoted {
				quoted = 0
			}
		case letter == '\'' || letter == '"':
			quoted = letter
		case strings.IndexByte("([{", letter) >= 0:
			depth++
		case strings.IndexByte(")]}", letter) >= 0:
			depth = max(depth-1, 0)
		case letter == ',' && depth == 0:
			member(text[begin:i])
			begin = i + 1
		}
	}
	member(text[begin:])
	return out
}
