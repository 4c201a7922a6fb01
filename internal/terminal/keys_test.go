package terminal

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	tea "charm.land/bubbletea/v2"
)

// typed returns the names of the keys, and the pastes, that bytes stand for.
func typed(t *testing.T, in io.Reader) (all []string) {
	t.Helper()
	k := &keyboard{in: in}
	for {
		msg, err := k.next(t.Context(), nil)
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		switch msg := msg.(type) {
		case tea.KeyPressMsg:
			all = append(all, msg.Keystroke())
		case tea.PasteMsg:
			all = append(all, "paste "+msg.Content)
		}
	}
}

// Keys are the same whether their bytes come together or one by one.
func TestKeys(t *testing.T) {
	for _, c := range []struct{ bytes, want string }{
		{"aé世", "a|é|世"},
		{"\r\n\t\x7f", "enter|ctrl+j|tab|backspace"},
		{"\x01\x02\x03\x04\x05\x06\x0b\x0c\x0e\x10\x15\x17", "ctrl+a|ctrl+b|ctrl+c|ctrl+d|ctrl+e|ctrl+f|ctrl+k|ctrl+l|ctrl+n|ctrl+p|ctrl+u|ctrl+w"},
		{"\x1b[A\x1b[B\x1b[C\x1b[D\x1b[H\x1b[F\x1b[3~", "up|down|right|left|home|end|delete"},
		{"\x1bOA\x1bOH\x1b[1~\x1b[4~", "up|home|home|end"},
		{"\x1bb\x1bf\x1bd\x1b\x7f\x1b\r", "alt+b|alt+f|alt+d|alt+backspace|alt+enter"},
		{"\x1b[1;5C\x1b[1;5D\x1b[1;3C", "ctrl+right|ctrl+left|alt+right"},
		{"a\x1b[200~b\r\n\x1b[A\tc\x1b[201~d", "a|paste b\r\n\x1b[A\tc|d"},
		{"\x1b[200~\x1b[201~", "paste "},
		{"\x1b", "esc"},
		{"\x1b[?1;2ca", "a"}, // an answer of the terminal is no key
	} {
		for name, in := range map[string]io.Reader{"together": strings.NewReader(c.bytes), "one by one": iotest.OneByteReader(strings.NewReader(c.bytes))} {
			if got := strings.Join(typed(t, in), "|"); got != c.want {
				t.Errorf("%q, %s: %q, expected %q", c.bytes, name, got, c.want)
			}
		}
	}
}

func TestLines(t *testing.T) {
	k := &keyboard{in: iotest.OneByteReader(strings.NewReader("a\r\n\nb"))}
	for _, want := range []string{"a", "", "b"} {
		if got, err := k.line(t.Context(), nil); got != want || err != nil {
			t.Errorf("%q, %v; expected %q", got, err, want)
		}
	}
	if _, err := k.line(t.Context(), nil); err != io.EOF {
		t.Errorf("at the end: %v", err)
	}
}

// endless gives letters for ever.
type endless struct{}

func (endless) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = 'a'
	}
	return len(b), nil
}

// A line, and a paste, without an end are refused before memory is gone.
func TestTypedBound(t *testing.T) {
	k := &keyboard{in: endless{}}
	if _, err := k.line(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "more than 16777216 bytes") {
		t.Errorf("a line: %v", err)
	}
	k = &keyboard{in: io.MultiReader(strings.NewReader("\x1b[200~"), endless{})}
	if _, err := k.next(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "more than 16777216 bytes") {
		t.Errorf("a paste: %v", err)
	}
}

// Any bytes are read to their end, and of plain text nothing is lost.
func FuzzKeys(f *testing.F) {
	for _, seed := range []string{"a\r", "\x1b[A\x1b[200~x\x1b[201~", "\x1b]11;rgb:0/0/0\a", "\xff\x9b\x1b\x1b[", "é世"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 2000 {
			return
		}
		k := &keyboard{in: strings.NewReader(text)}
		plain := !strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || (r >= 0x7f && r < 0xa0) || r == 0xfffd })
		var got strings.Builder
		for count := 0; ; count++ {
			msg, err := k.next(t.Context(), nil)
			if err != nil {
				break
			}
			if key, ok := msg.(tea.KeyPressMsg); ok {
				got.WriteString(key.Text)
			}
			if count > len(text) {
				t.Fatalf("more keys than bytes in %q", text)
			}
		}
		if plain && got.String() != text {
			t.Errorf("%q became %q", text, got.String())
		}
	})
}
