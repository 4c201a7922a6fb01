package run

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
)

// keptAnswer is how many tokens an answer of a chat may have so that the next turn
// still finds what was said before it: templates leave reasoning out afterwards.
const keptAnswer = 8192

// chat reads lines and answers them until the input ends or a line is empty.
// Ctrl-C ends an answer; at the prompt it ends the chat.
func (a *answerer) chat(in io.Reader) error {
	// Not the command's context, which the first Ctrl-C ends.
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	interrupt := make(chan os.Signal, 1)
	signal.Notify(interrupt, os.Interrupt)
	defer signal.Stop(interrupt)
	// A read of the terminal cannot be cut short: it goes on behind an answer, and until the
	// process ends.
	lines := make(chan string)
	go func() {
		defer close(lines)
		s := bufio.NewScanner(in)
		s.Buffer(nil, 1<<24)
		for s.Scan() {
			lines <- s.Text()
		}
	}()
	for {
		select {
		case <-interrupt: // it was for the answer, which has ended
		default:
		}
		fmt.Fprint(a.out, "> ")
		var line string // stays empty where the chat ends
		select {
		case line = <-lines:
		case <-interrupt:
		case <-ctx.Done():
		}
		if strings.TrimSpace(line) == "" {
			fmt.Fprintln(a.out)
			return ctx.Err()
		}
		if err := a.reply(ctx, line, interrupt); err != nil {
			return err
		}
	}
}

// reply answers one line of a chat. A line for which the context has no room is
// forgotten: a shorter one may do.
func (a *answerer) reply(ctx context.Context, line string, interrupt <-chan os.Signal) error {
	ids, err := a.talk.ask(line)
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
		_, err = fmt.Fprintln(a.out, err)
		return err
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
