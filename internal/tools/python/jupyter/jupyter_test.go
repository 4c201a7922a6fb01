package jupyter

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// FuzzFrame: a frame is read as it was written, and anything else is an error.
func FuzzFrame(f *testing.F) {
	f.Add(appendFrame(nil, flagMore, []byte("abc")))
	f.Add(appendFrame(nil, 0, make([]byte, 300)))
	f.Add([]byte("\x02\xff\xff\xff\xff\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, sent []byte) {
		flags, body, err := readFrame(bytes.NewReader(sent))
		if err != nil {
			return
		}
		again, text, err := readFrame(bytes.NewReader(appendFrame(nil, flags&^flagLong, body)))
		if err != nil || again&^flagLong != flags&^flagLong || !bytes.Equal(text, body) {
			t.Errorf("%x became %x %v", sent, text, err)
		}
	})
}

// FuzzMessage: nothing passes that does not have the kernel's signature, and nothing panics.
func FuzzMessage(f *testing.F) {
	f.Add([]byte(`{"msg_type":"stream"}`), []byte(`{"name":"stdout","text":"x"}`), true)
	f.Add([]byte(`{"msg_type":"display_data"}`), []byte(`{"data":{"text/plain":1}}`), true)
	f.Add([]byte(`{`), []byte(`[]`), false)
	f.Fuzz(func(t *testing.T, head, content []byte, signed bool) {
		kernel := &Kernel{Key: "key"}
		objects := [][]byte{head, []byte("{}"), []byte("{}"), content}
		signature := kernel.sign(objects)
		if !signed {
			signature = append(signature[:len(signature)-1:len(signature)-1], 'x')
		}
		got, err := kernel.parse(append([][]byte{[]byte("topic"), []byte(delimiter), signature}, objects...))
		if !signed && err == nil {
			t.Error("a wrong signature passes")
		}
		if err == nil {
			var out bytes.Buffer
			got.show(&out, &out)
		}
	})
}

func TestRead(t *testing.T) {
	file := filepath.Join(t.TempDir(), "kernel.json")
	for _, text := range []string{"", "[]", "{}", `{"transport":"tcp","signature_scheme":"none","shell_port":1,"iopub_port":2}`} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Read(file); err == nil || !strings.Contains(err.Error(), file) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// TestSilentKernel: a call whose time ends while it connects says so, and not how the connection broke.
func TestSilentKernel(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		if conn, err := silent.Accept(); err == nil {
			defer conn.Close()
			_, _ = conn.Read(make([]byte, 1)) // it began to connect
			cancel()
			_, _ = io.Copy(io.Discard, conn)
		}
	}()
	kernel := &Kernel{Transport: "tcp", IP: "127.0.0.1", Shell: silent.Addr().(*net.TCPAddr).Port}
	if err := kernel.Run(ctx, "1", io.Discard, io.Discard); !errors.Is(err, context.Canceled) {
		t.Errorf("it ended with %v", err)
	}
}

// TestKernel runs code in ipykernel, which is there where OSSIAN_TEST_IPYKERNEL names a Python that
// has it. Tried with ipykernel 7.
func TestKernel(t *testing.T) {
	python := os.Getenv("OSSIAN_TEST_IPYKERNEL")
	if python == "" {
		t.Skip("OSSIAN_TEST_IPYKERNEL names no Python with ipykernel")
	}
	file := filepath.Join(t.TempDir(), "kernel.json")
	process := exec.CommandContext(t.Context(), python, "-m", "ipykernel_launcher", "-f", file)
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = process.Process.Kill(); _ = process.Wait() }()
	var kernel *Kernel
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		var err error
		if kernel, err = Read(file); err == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
	for _, c := range []struct{ code, printed, complaints string }{
		{"x = 40", "", ""},
		{"print('a'); x + 2", "a\n42\n", ""},
		{"import sys; print('e', file=sys.stderr)", "", "e\n"},
		{"1/0", "", "ZeroDivisionError: division by zero"},
		{"print('ä' * 100000)", strings.Repeat("ä", 100000) + "\n", ""},
		{"display(7)", "7\n", ""},
	} {
		var printed, complaints bytes.Buffer
		if err := kernel.Run(t.Context(), c.code, &printed, &complaints); err != nil || printed.String() != c.printed || !strings.Contains(complaints.String(), c.complaints) || strings.Contains(complaints.String(), "\x1b") {
			t.Errorf("%s: %.100q %.300q %v", c.code, printed.String(), complaints.String(), err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if err := kernel.Run(ctx, "while True: pass", new(bytes.Buffer), new(bytes.Buffer)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a loop: %v", err)
	}
	var printed bytes.Buffer
	if err := kernel.Run(t.Context(), "x", &printed, new(bytes.Buffer)); err != nil || printed.String() != "40\n" {
		t.Errorf("behind it: %q %v", printed.String(), err)
	}
	kernel.Key += "x"
	short, end := context.WithTimeout(t.Context(), 2*time.Second)
	defer end()
	if err := kernel.Run(short, "x", new(bytes.Buffer), new(bytes.Buffer)); err == nil {
		t.Error("a wrong key works")
	}
}
