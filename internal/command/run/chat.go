package run

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"ossian/internal/chat"
	"ossian/internal/terminal"
)

// keptAnswer is how many tokens an answer of a chat may have so that the next turn
// still finds what was said before it: templates leave reasoning out afterwards.
const keptAnswer = 8192

// errLeave ends a chat.
var errLeave = errors.New("the chat is over")

// chat answers messages and does what commands say, until the input ends or a command
// ends it. Ctrl-C ends an answer, or clears what is typed.
func (a *answerer) chat(in io.Reader, history *terminal.History) error {
	// Not the command's context, which the first Ctrl-C ends.
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	interrupt := make(chan os.Signal, 1)
	signal.Notify(interrupt, os.Interrupt)
	defer signal.Stop(interrupt)
	a.history = history
	input := terminal.NewInput(in, a.out, history)
	if !a.o.quiet {
		a.say("%s. /? lists commands, Ctrl-D ends the chat.", a.checkpoint.Spec.Name)
	}
	for {
		select {
		case <-interrupt: // it was for the answer, which has ended
		default:
		}
		typed, err := input.Read(ctx, interrupt, unfinished)
		switch {
		case errors.Is(err, terminal.ErrInterrupted):
			a.say("Ctrl-D or /bye ends the chat.")
			continue
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		}
		if err := a.turn(ctx, typed, interrupt); err == errLeave {
			return nil
		} else if err != nil {
			return err
		}
	}
}

// turn does what was typed: a command, a message, or nothing.
func (a *answerer) turn(ctx context.Context, typed string, interrupt <-chan os.Signal) error {
	if strings.TrimSpace(typed) == "" {
		return nil
	}
	a.remember(typed)
	if name, rest, ok := commandOf(typed); ok {
		err := a.obey(name, rest)
		if err != nil && err != errLeave {
			a.say("%v", err)
			err = nil
		}
		return err
	}
	return a.reply(ctx, messageOf(typed), interrupt)
}

// remember keeps what was typed in the history. That it cannot be written is said once.
func (a *answerer) remember(typed string) {
	if a.history == nil || a.forgetful {
		return
	}
	if err := a.history.Add(typed); err != nil {
		a.say("what is typed is not kept for later chats: %v", err)
	}
}

// say writes a line of the program's own to the person in a chat.
func (a *answerer) say(format string, args ...any) {
	fmt.Fprintln(a.out, strings.Map(terminal.Printable, fmt.Sprintf(format, args...)))
}

// reply answers one message of a chat. A message that the template refuses, or for which
// the context has no room, is forgotten: another one may do.
func (a *answerer) reply(ctx context.Context, message string, interrupt <-chan os.Signal) error {
	ids, err := a.talk.ask(message)
	if refused := (*chat.Error)(nil); errors.As(err, &refused) {
		a.say("%v", err)
		return nil
	}
	if err != nil {
		return err
	}
	// Ctrl-C ends this answer, not the chat.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-interrupt:
			cancel()
		case <-ctx.Done():
		}
	}()
	turn, err := a.answer(ctx, ids)
	if errors.Is(err, errContextFull) {
		a.talk.forget()
		a.say("%v; /clear begins anew", err)
		return nil
	}
	if turn.Parts[0] == "" { // stopped before it said anything: templates want turns to alternate
		a.talk.forget()
	} else {
		a.talk.conv.Turns = append(a.talk.conv.Turns, turn)
	}
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// quotes begin and end a message of several lines.
const quotes = `"""`

// unfinished reports whether a typed text goes on in the next line: it ends with a
// backslash, or quotes are open at its beginning or behind the name of a setting.
func unfinished(text string) bool {
	if rest, open := behindQuotes(text); open {
		return !strings.HasSuffix(strings.TrimSpace(rest), quotes)
	}
	slashes := len(text) - len(strings.TrimRight(text, `\`))
	return slashes%2 == 1
}

// behindQuotes returns what stands behind the quotes that open in a text.
func behindQuotes(text string) (rest string, open bool) {
	text = strings.TrimSpace(text)
	if _, value, ok := commandOf(text); ok {
		fields := strings.SplitAfterN(value, " ", 2) // the name of a setting, its value
		text = strings.TrimSpace(fields[len(fields)-1])
	}
	return strings.CutPrefix(text, quotes)
}

// messageOf returns the message that was typed: what is between the quotes, without the
// line breaks beside them, or all of it, with the backslashes at the ends of lines left out.
func messageOf(text string) string {
	if inner, ok := strings.CutPrefix(strings.TrimSpace(text), quotes); ok {
		inner = strings.TrimSuffix(inner, quotes)
		return strings.TrimSuffix(strings.TrimPrefix(inner, "\n"), "\n")
	}
	lines := strings.Split(text, "\n")
	for n, line := range lines {
		if n < len(lines)-1 && unfinished(line) {
			lines[n] = strings.TrimSuffix(line, `\`)
		}
	}
	return strings.Join(lines, "\n")
}

// commandOf takes a command apart: a slash, a word, and what follows. A text that begins
// with a path, as /etc/hosts, is none.
func commandOf(text string) (name, rest string, ok bool) {
	text, ok = strings.CutPrefix(strings.TrimSpace(text), "/")
	if !ok {
		return "", "", false
	}
	end := strings.IndexAny(text, " \t\n")
	if end < 0 {
		end = len(text)
	}
	name, rest = text[:end], strings.TrimSpace(text[end:])
	isWord := !strings.ContainsFunc(name, func(r rune) bool { return !(r == '?' || r == '-' || (r >= 'a' && r <= 'z') || (r >= 'A' && r <= 'Z')) })
	return strings.ToLower(name), rest, isWord && name != ""
}
