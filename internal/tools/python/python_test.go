package python

import (
	"bytes"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// TestDescription compares with the published texts: those of the reference implementation's tool,
// copied word for word into testdata, with a line break at the end.
func TestDescription(t *testing.T) {
	for name, kept := range map[string]keeping{"stateful": privateData, "stateless": nothing} {
		want, err := os.ReadFile("testdata/" + name + ".txt")
		if err != nil {
			t.Fatal(err)
		}
		if got := description(kept, 120*time.Second); got+"\n" != string(want) {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if got := description(sharedVariables, 500*time.Millisecond); strings.Contains(got, "/mnt/data") || !strings.Contains(got, "time out after 0.5 seconds. Internet") {
		t.Errorf("without files: %q", got)
	}
}

func TestUnwrapped(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"plain", "print(1)", "print(1)"},
		{"plain with spaces", "  x\n", "  x\n"},
		{"code", `{"code": "print(1)\nx"}`, "print(1)\nx"},
		{"script", ` {"script":"a"} `, "a"},
		{"input", `{"input":"a"}`, "a"},
		{"fenced", "```\nx = 1\n```", "x = 1\n"},
		{"fenced with a language", "```python\nx = 1\nx\n```\n", "x = 1\nx\n"},
		{"fenced on one line", "```x```", "x"},
		{"fenced in JSON", `{"code":"` + "```py\\nx\\n```" + `"}`, "x\n"},
		{"another language", "```bash\nls\n```", "```bash\nls\n```"},
		{"two blocks", "```\na\n```\n```\nb\n```", "```\na\n```\n```\nb\n```"},
		{"a dictionary", `{"code": 1}`, `{"code": 1}`},
		{"two members", `{"code": "a", "x": "b"}`, `{"code": "a", "x": "b"}`},
		{"another member", `{"x": "b"}`, `{"x": "b"}`},
		{"code behind it", `{"code": "a"}["code"]`, `{"code": "a"}["code"]`},
		{"a set", "{1, 2}", "{1, 2}"},
		{"nothing", "", ""},
		{"marks alone", "``````", ""},
		{"five marks", "`````", "`````"},
	} {
		if got := unwrapped(c.in); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// FuzzUnwrapped: what is not wrapped stays as it is, and nothing that is not in a call comes out of
// it, but for the escapes of JSON.
func FuzzUnwrapped(f *testing.F) {
	for _, seed := range []string{"print(1)", `{"code":"x"}`, "```python\nx\n```", "{", "```", `{"code":"\u0000"}`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got := unwrapped(text)
		if !strings.Contains(text, "{") && !strings.Contains(text, "```") && got != text {
			t.Errorf("%q became %q", text, got)
		}
		if !strings.Contains(text, "{") && !strings.Contains(text, got) {
			t.Errorf("%q is not in %q", got, text)
		}
	})
}

func TestCompose(t *testing.T) {
	plain := func(text string) output { return output{head: text} }
	for _, c := range []struct {
		name, printed, complaints, want string
		notes                           []string
	}{
		{"printed", "1\n", "", "1\n", nil},
		{"both", "1\n\n", "wrong\n", "1\nwrong\n", nil},
		{"no line break", "1", "wrong\n", "1\nwrong\n", nil},
		{"wrong alone", "", "wrong\n", "wrong\n", nil},
		{"nothing", "", "", silent, nil},
		{"spaces", " \n", "", silent, nil},
		{"a note", "1\n", "", "1\n[E]", []string{"[E]"}},
		{"a note alone", "", "", "[E]", []string{"[E]"}},
	} {
		if got := compose(plain(c.printed), plain(c.complaints), c.notes...).cut(textHead, textTail); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// TestCut: the beginning and the end are there, and how much is not.
func TestCut(t *testing.T) {
	for _, size := range []int{textHead + textTail, textHead + textTail + 1, 100_000, 3 << 20} {
		for _, piece := range []int{1 << 20, 4096, 977} {
			c := &capture{most: 1 << 20}
			text := strings.Repeat("0123456789abcdef", size/16+1)[:size]
			for rest := text; len(rest) > 0; {
				n := min(piece, len(rest))
				_, _ = c.Write([]byte(rest[:n]))
				rest = rest[n:]
			}
			want := text
			if size > textHead+textTail {
				want = text[:textHead] + "\n…[" + strconv.Itoa(size-textHead-textTail) + " bytes omitted]…\n" + text[size-textTail:]
			}
			if got := c.output().cut(textHead, textTail); got != want {
				t.Errorf("%d bytes in pieces of %d: %d bytes, want %d; %q", size, piece, len(got), len(want), got[:min(len(got), 40)])
			}
		}
	}
	whole := output{head: strings.Repeat("é", 20000)}.cut(textHead-1, textTail-1)
	if !utf8.ValidString(whole) {
		t.Error("a character was cut")
	}
}

// FuzzCut: whatever is printed, what is shown and what is said to be missing are all of it.
func FuzzCut(f *testing.F) {
	f.Add([]byte("abc"), []byte("def"), uint16(2), uint16(3))
	f.Add(bytes.Repeat([]byte("é"), 9000), bytes.Repeat([]byte("x"), 9000), uint16(5000), uint16(100))
	f.Fuzz(func(t *testing.T, first, second []byte, most, head uint16) {
		one, two := &capture{most: int(most)}, &capture{most: int(most)}
		_, _ = one.Write(first)
		_, _ = two.Write(second)
		whole := one.output().followed(two.output())
		if size := int64(len(whole.head)+len(whole.tail)) + whole.omitted; size != int64(len(first)+len(second)) {
			t.Fatalf("%d bytes of %d and %d", size, len(first), len(second))
		}
		text := whole.cut(int(head), textTail)
		if len(text) > len(first)+len(second) && len(text) > int(head)+textTail+64 {
			t.Errorf("%d bytes shown of %d", len(text), len(first)+len(second))
		}
	})
}

// FuzzReply: only the reply that is meant passes, however it is cut.
func FuzzReply(f *testing.F) {
	n := nonce{1, 2, 3}
	right := append([]byte{0, 0, 0, nonceSize}, n[:]...)
	f.Add(right, uint8(3))
	f.Add(right[:7], uint8(1))
	f.Add(append(right[:len(right):len(right)], 0), uint8(200))
	f.Add([]byte("\xff\xff\xff\xff"), uint8(1))
	f.Fuzz(func(t *testing.T, sent []byte, piece uint8) {
		reader, done := newReplyReader(n), false
		var err error
		for rest := sent; len(rest) > 0 && err == nil; {
			k := min(int(piece)+1, len(rest))
			done, err = reader.take(rest[:k])
			rest = rest[k:]
		}
		if prefix := bytes.HasPrefix(right, sent); (err == nil) != prefix || (done && err == nil) != bytes.Equal(sent, right) {
			t.Errorf("%x: done %v, %v", sent, done, err)
		}
	})
}

// TestNew: what cannot be is refused with what would help.
func TestNew(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	for _, c := range []struct {
		opts Options
		want string
	}{
		{Options{Backend: "off"}, "switched off"},
		{Options{Backend: "podman"}, "sandbox, wasm, docker"},
		{Options{Backend: "wasm"}, "--python-wasm"},
		{Options{Backend: "wasm", WASM: "/nowhere/python.wasm"}, "/nowhere/python.wasm"},
		{Options{Backend: "sandbox"}, "--python-interpreter"},
		{Options{}, "--python-interpreter"},
		{Options{WASM: "/nowhere/python.wasm"}, "wasm: "},
		{Options{Interpreter: "/bin/cat"}, "/bin/cat"},
		{Options{Backend: "dangerously_use_local_jupyter"}, "PYTHON_LOCAL_JUPYTER_CONNECTION_FILE"},
		{Options{Backend: "dangerously_use_local_jupyter", JupyterFile: "/nowhere.json"}, "/nowhere.json"},
		{Options{Backend: "docker"}, "needs the program docker"},
		{Options{Backend: "dangerously_use_uv"}, "needs the program uv"},
	} {
		if _, err := New(c.opts); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want it to say %q", c.opts, err, c.want)
		}
	}
	checks := SelfTest(t.Context(), Options{})
	if len(checks) != 1 || checks[0].OK {
		t.Errorf("%+v without Python", checks)
	}
}
