package run

import (
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"ossian/internal/chat"
	"ossian/internal/load"
	"ossian/internal/soak"
)

// heldTalk returns an answerer of the built-in model, which speaks harmony, at a
// temperature that leaves little of what it has learned.
func heldTalk(t *testing.T) *answerer {
	t.Helper()
	o := &options{}
	flags := pflag.NewFlagSet("run", pflag.ContinueOnError)
	o.addFlags(flags)
	if err := flags.Parse([]string{"--quiet", "--temperature", "2", "--top-p", "1", "--top-k", "0", "--min-p", "0", "--max-tokens", "300", "--threads", "1"}); err != nil {
		t.Fatal(err)
	}
	checkpoint, err := load.OpenModel("")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { checkpoint.Close() })
	a := &answerer{o: o, out: io.Discard, status: io.Discard}
	if _, err := a.begin(checkpoint, "", true); err != nil {
		t.Fatal(err)
	}
	run, err := o.load.Runner(t.Context(), checkpoint, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { run.Close() })
	if err := a.prepare(checkpoint, run); err != nil {
		t.Fatal(err)
	}
	return a
}

// On the terminal answers are held to the format as a server holds them: at a temperature
// of 2 no chat ends without content, calls a tool that nobody offers, or has to be mended.
func TestAnswersAreHeld(t *testing.T) {
	a := heldTalk(t)
	chats, ended := soak.Cases(t, 100, 10_000), 0
	for n := range chats {
		a.talk.restart("", nil)
		a.o.sampling.Seed = int64(n)
		a.o.effort = []string{"", "none", "high"}[n%3]
		if err := a.configure(); err != nil {
			t.Fatal(err)
		}
		ids, err := a.talk.ask(fmt.Sprintf("%d+%d", 10+n%80, 13+n%50))
		if err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		a.out = &out
		turn, err := a.answer(t.Context(), ids)
		if err != nil {
			t.Fatal(err)
		}
		over := false
		parser := a.talk.format.Parser(&a.talk.conv)
		var events []chat.Event
		for _, id := range turn.Output {
			events = parser.Push(events, id)
		}
		for i := range events {
			switch event := &events[i]; {
			case event.Kind == chat.Salvage:
				t.Errorf("chat %d: rule %s was needed: %q", n, event.Rule, a.tok.Decode(turn.Output))
			case event.Kind == chat.Start && event.Part == chat.Hidden:
				t.Errorf("chat %d: a call of a tool that nobody offers: %q", n, a.tok.Decode(turn.Output))
			case event.Kind == chat.TurnEnd:
				over = true
			}
		}
		if !over {
			continue // cut by the limit
		}
		if ended++; turn.Parts[0] == "" || strings.TrimSuffix(out.String(), "\n") != turn.Parts[0] {
			t.Errorf("chat %d: content %q, shown %q: %q", n, turn.Parts[0], out.String(), a.tok.Decode(turn.Output))
		}
	}
	if ended < chats/2 {
		t.Errorf("%d of %d answers ended", ended, chats)
	}
	t.Logf("%d of %d answers ended, all with content", ended, chats)
}
