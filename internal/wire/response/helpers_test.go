package response

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"strings"
	"testing"

	"ossian/internal/wire"
)

// What follows is what tests of package wire have, too: golden files, and what errors are.

var update = flag.Bool("update", false, "rewrite testdata/*.golden")

const goldenHead = "# Made by: go test ./internal/wire/response -run TestGolden -update\n"

func golden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	gotLines, wantLines := strings.Split(got, "\n"), strings.Split(string(want), "\n")
	for i := range min(len(gotLines), len(wantLines)) {
		if gotLines[i] != wantLines[i] {
			t.Fatalf("%s line %d:\ngot  %s\nwant %s", file, i+1, gotLines[i], wantLines[i])
		}
	}
	if len(gotLines) != len(wantLines) {
		t.Fatalf("%s: %d lines, want %d", file, len(gotLines), len(wantLines))
	}
}

func checkError(t *testing.T, err error, param, code, message string) {
	t.Helper()
	e, ok := errors.AsType[*wire.Error](err)
	if !ok {
		t.Fatalf("got %v, want an *Error", err)
	}
	if e.Param != param || e.Code != code || !strings.Contains(e.Message, message) || e.Type != wire.TypeInvalidRequest {
		t.Errorf("got %+v\nwant param %q, code %q, message with %q", e, param, code, message)
	}
}

// sane requires an *Error whose body is one line of JSON of bounded length.
func sane(t *testing.T, err error) {
	t.Helper()
	if err == nil {
		return
	}
	e, ok := errors.AsType[*wire.Error](err)
	if !ok || e.Type != wire.TypeInvalidRequest || e.Code == "" || len(e.Param) > 20000 || len(e.Message) > 1000 {
		t.Fatalf("error %+v", err)
	}
	if body := wire.AppendError(nil, e); !json.Valid(body) || bytes.ContainsAny(body, "\r\n") {
		t.Fatalf("error body %q", body)
	}
}
