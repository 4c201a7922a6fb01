package run

import (
	"context"
	"fmt"
	"io"
	"strings"
	"unicode"

	"ossian/internal/load"
	"ossian/internal/terminal"
	"ossian/internal/tiny"
)

// tokenBytes is the length of the longest token of a published vocabulary, o200k's
// run of spaces: no text has fewer tokens than its bytes over this.
const tokenBytes = 128

// promptFrom returns the prompt, its words joined; a last "-" or no words at all
// stand for standard input. With no words and a person at the input, lines of a chat
// follow. Input that cannot fit into maxLen tokens is refused before all of it is read.
func promptFrom(ctx context.Context, in io.Reader, words []string, maxLen int) (prompt string, lines bool, err error) {
	if count := len(words); count > 0 && words[count-1] != "-" {
		return strings.Join(words, " "), false, nil
	} else if count > 1 {
		prompt = strings.Join(words[:count-1], " ") + "\n\n"
	}
	if len(words) == 0 && terminal.Is(in) {
		return "", true, nil
	}
	// The read may wait for ever, and ctx must end the command all the same.
	var all []byte
	var failed error
	read := make(chan struct{})
	go func() {
		defer close(read)
		most := int64(tokenBytes * maxLen)
		all, failed = io.ReadAll(io.LimitReader(in, most+1))
		if int64(len(all)) > most {
			failed = fmt.Errorf("standard input has more than %d bytes, which cannot fit into the %d tokens of the model's context", most, maxLen)
		}
	}()
	select {
	case <-read:
		return prompt + string(all), false, failed
	case <-ctx.Done(): // the read goes on until the process ends
		return "", false, ctx.Err()
	}
}

// namesModel reports whether the first of args can only be meant as a model, so
// that the others are the prompt: an existing path, a path or ORG/NAME that does
// not exist, a GGUF file, an identifier such as gpt-oss-20b, a name of Ollama's library, or
// any bare word with more words behind it. Sums, a word alone and anything with a blank are prompts.
func namesModel(args []string) bool {
	if len(args) == 0 {
		return false
	}
	word := args[0]
	if word == tiny.Name || load.Exists(word) {
		return true
	}
	// What no name of a model has makes a prompt.
	plain := func(r rune) bool {
		return unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune(`-_./\:@~`, r)
	}
	if strings.ContainsFunc(word, func(r rune) bool { return !plain(r) }) || !strings.ContainsFunc(word, unicode.IsLetter) {
		return false
	}
	return (len(args) > 1 && args[1] != "-") || strings.ContainsAny(word, `/\@`) || strings.HasSuffix(word, ".gguf") || load.InLibrary(word) ||
		(strings.Contains(word, "-") && strings.ContainsFunc(word, unicode.IsDigit))
}
