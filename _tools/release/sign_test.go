package main

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestSigners: what is missing for a signature to be accepted is said, with what to do: a signature,
// any signer, this signer.
func TestSigners(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	write("file", "text\n")
	write(checksums, "b9e68e1bea3e5b19ca6b2f98b73a54b73daafaa250484902e09982e07a12e733  file\n")
	empty := write("empty", "# Who may sign\n\n  # nobody\n")
	other := write("other", signer+` namespaces="`+purpose+`" ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA`+"\n")
	wants := func(err error, want string) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	wants(verify(dir, empty, io.Discard), "signature: there is none, and no signer is trusted yet: "+empty+" names no key, so no signature can be accepted: the publisher makes one (ssh-keygen -t ed25519 -f KEY), adds the line release@ossian")
	wants(verify(dir, other, io.Discard), "signature: there is none: "+dir+" has no SHA256SUMS.sig, it was made without a key; make release KEY=FILE signs")
	if said := signed(dir, "", empty); !strings.Contains(said, "is not signed: make release KEY=FILE") {
		t.Error(said)
	}
	key := filepath.Join(dir, "key")
	if text, err := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key).CombinedOutput(); err != nil {
		t.Skipf("ssh-keygen is needed to sign: %v %s", err, text)
	}
	if err := sign(dir, key); err != nil {
		t.Fatal(err)
	}
	if said := signed(dir, key, empty); !strings.Contains(said, "make verify refuses that: ") || !strings.Contains(said, "names no key") {
		t.Error(said)
	}
	wants(verify(dir, empty, io.Discard), "signature: there is one, but no signer is trusted yet: ")
	wants(verify(dir, other, io.Discard), "is not signed by anybody in")
	public, err := os.ReadFile(key + ".pub")
	if err != nil {
		t.Fatal(err)
	}
	own := write("own", signer+` namespaces="`+purpose+`" `+string(public))
	if said := signed(dir, key, own); !strings.Contains(said, "make verify accepts it") {
		t.Error(said)
	}
	var told strings.Builder
	if err := verify(dir, own, &told); err != nil {
		t.Error(err)
	}
	for _, want := range []string{"checksums: 1 of 1 files are as SHA256SUMS says\n", `signature: Good "ossian-release" signature for release@ossian with ED25519 key SHA256:`} {
		if !strings.Contains(told.String(), want) {
			t.Errorf("%q, want %q", told.String(), want)
		}
	}
	told.Reset()
	write("file", "texT\n")
	if err := verify(dir, own, &told); err == nil || !strings.Contains(err.Error(), "file: checksum ") || told.Len() > 0 {
		t.Errorf("of a file that was changed %v, %q", err, told.String())
	}
}
