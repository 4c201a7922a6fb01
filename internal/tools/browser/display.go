package browser

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"unicode"

	"ossian/internal/tools/browser/page"
)

// viewTokens is how many tokens of lines a display shows where the model does not say how many
// lines it wants.
const viewTokens = 1024

// display pushes a sheet and shows it from a line on; lines <= 0 = as many as viewTokens hold.
func (s *session) display(shown *sheet, from, lines integer) (string, error) {
	s.history.push(shown)
	all := shown.lines()
	if from.value >= len(all) {
		s.history.pop()
		return "", misused(fmt.Sprintf("Invalid location parameter: `%s`. Cannot exceed page maximum of %d.", from.text, len(all)-1))
	}
	body, shownLines := s.numbered(all[from.value:], from.value, lines.value)
	header := shown.Title
	if address := shortened(readable(shown.address())); address != "" {
		header += " (" + address + ")"
	}
	return fmt.Sprintf("[%d] %s\n**viewing lines [%d - %d] of %d**\n\n%s", s.history.cursor(), header, from.value, from.value+shownLines-1, len(all)-1, body), nil
}

// numbered joins lines with their numbers: count of them, or those that begin within viewTokens,
// counted with their numbers. A line break ends a token of o200k, so lines are counted one by one.
func (s *session) numbered(lines []string, from, count int) (text string, shown int) {
	var out strings.Builder
	tokens := 0
	for i, line := range lines {
		if (count > 0 && i == count) || (count <= 0 && tokens > viewTokens) {
			break
		}
		line = "L" + strconv.Itoa(from+i) + ": " + line + "\n"
		if count <= 0 {
			tokens += s.server.count(line)
		}
		out.WriteString(line)
		shown++
	}
	return strings.TrimSuffix(out.String(), "\n"), shown
}

// readable is an address without escapes, but for those that would show as something else.
func readable(address string) string {
	var out strings.Builder
	for i := 0; i < len(address); {
		end := i
		for end+2 < len(address) && address[end] == '%' {
			if _, err := url.PathUnescape(address[end : end+3]); err != nil {
				break
			}
			end += 3
		}
		if end == i {
			out.WriteByte(address[i])
			i++
			continue
		}
		bytes, _ := url.PathUnescape(address[i:end]) // was tried
		if strings.ContainsFunc(bytes, func(r rune) bool { return unicode.IsControl(r) || r == '【' || r == '】' }) {
			bytes = address[i:end]
		}
		out.WriteString(strings.ToValidUTF8(bytes, "\ufffd"))
		i = end
	}
	return page.OneLine(out.String())
}
