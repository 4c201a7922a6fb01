// Command wrap breaks the paragraphs and list items of Markdown at 100 columns. Tables,
// code, headings, pictures and what is shorter already stay as they are.
//
//	go run ./_tools/wrap [FILE...]
//
// Without files it reads standard input and writes standard output.
package main

import (
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"unicode/utf8"
)

const columns = 100

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "wrap:", err)
		os.Exit(1)
	}
}

func run(files []string) error {
	if len(files) == 0 {
		text, err := io.ReadAll(os.Stdin)
		if err != nil {
			return err
		}
		_, err = fmt.Print(wrap(string(text)))
		return err
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		if wrapped := wrap(string(text)); wrapped != string(text) {
			if err := os.WriteFile(name, []byte(wrapped), 0o644); err != nil {
				return err
			}
		}
	}
	return nil
}

var (
	item  = regexp.MustCompile(`^\s*([*-]|\d+\.)\s+`)
	fixed = regexp.MustCompile(`^(\||#|<|!\[|    |\s*$|\[[^\]]+\]: )`)
	// What stays on one line if it is short: code, and links.
	whole = regexp.MustCompile("`[^`]*`|\\[[^\\]]*\\]\\([^)]*\\)")
	// What would begin a list or a heading at the start of a line stays behind its neighbour.
	starts = regexp.MustCompile(` (\d+\.|[-+*#>]+)( |$)`)
)

func fence(line string) bool { return strings.HasPrefix(strings.TrimSpace(line), "```") }

// wrap returns text with its long paragraphs broken.
func wrap(text string) string {
	lines := strings.Split(text, "\n")
	var out []string
	for i := 0; i < len(lines); {
		switch line := lines[i]; {
		case fence(line):
			out = append(out, line)
			for i++; i < len(lines); i++ {
				out = append(out, lines[i])
				if fence(lines[i]) {
					i++
					break
				}
			}
		case fixed.MatchString(line):
			out = append(out, line)
			i++
		default:
			first := item.FindString(line)
			rest := strings.Repeat(" ", len(first))
			if first == "" {
				first = line[:len(line)-len(strings.TrimLeft(line, " "))]
				rest = first
			}
			words := []string{strings.TrimPrefix(line, first)}
			for i++; i < len(lines) && !fence(lines[i]) && !item.MatchString(lines[i]) && (!fixed.MatchString(lines[i]) || strings.HasPrefix(lines[i], "    ")); i++ {
				words = append(words, strings.TrimSpace(lines[i]))
			}
			out = append(out, paragraph(strings.Join(words, " "), first, rest)...)
		}
	}
	return strings.Join(out, "\n")
}

// paragraph breaks text at spaces, but not within short pieces of code and links.
func paragraph(text, first, rest string) []string {
	const kept = "\x01" // a space that stays
	text = whole.ReplaceAllStringFunc(text, func(s string) string {
		if utf8.RuneCountInString(s) > 70 {
			return s
		}
		return strings.ReplaceAll(s, " ", kept)
	})
	text = starts.ReplaceAllString(text, kept+"$1$2")
	var out []string
	line, empty := first, true
	for _, word := range strings.Fields(text) {
		if !empty && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > columns {
			out = append(out, line)
			line, empty = rest, true
		}
		if !empty {
			line += " "
		}
		line, empty = line+word, false
	}
	out = append(out, line)
	for i := range out {
		out[i] = strings.ReplaceAll(out[i], kept, " ")
	}
	return out
}
