package bench

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"ossian/internal/terminal"
)

// A cleaner writes to another writer what may hold texts of others, of servers and of authors of
// result files: their names, versions and errors must not steer the terminal. Each call of Write
// has whole characters, as those of package fmt.
type cleaner struct{ to io.Writer }

// Write implements io.Writer.
func (c cleaner) Write(text []byte) (int, error) {
	if _, err := io.WriteString(c.to, strings.Map(terminal.Printable, string(text))); err != nil {
		return 0, err
	}
	return len(text), nil
}

// sayCommand is the command line, where the tools show their arguments.
func (m *measurement) sayCommand() {
	words := make([]string, len(m.o.Args))
	for i, word := range m.o.Args {
		if words[i] = word; word == "" || strings.ContainsAny(word, " \t\n\"'\\{}$`*?;&|<>()") {
			words[i] = strconv.Quote(word)
		}
	}
	fmt.Fprintln(m.out, strings.Join(append([]string{"ossian bench serve"}, words...), " "))
}
