package bench

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"

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

// A sharedWriter lets several goroutines write: a server in this process logs where the
// measurement writes.
type sharedWriter struct {
	mu sync.Mutex // held while to is written to
	to io.Writer
}

// shared returns a writer that several goroutines may use. Files can be used so anyway, and
// what is a terminal has to stay one.
func shared(to io.Writer) io.Writer {
	if _, file := to.(*os.File); file {
		return to
	}
	return &sharedWriter{to: to}
}

// Write implements io.Writer.
func (w *sharedWriter) Write(text []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.to.Write(text)
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
