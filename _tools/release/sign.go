package main

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// What ssh-keygen -Y has to be told (PROTOCOL.sshsig of OpenSSH): a signature is one of a purpose,
// so that it cannot be passed off as one of another.
const (
	purpose        = "ossian-release"
	signer         = "release@ossian"
	allowedSigners = "_tools/release/allowed_signers"
	checksums      = "SHA256SUMS"
)

// sign signs the checksums in a folder with a private key; without one nobody does, and an old
// signature goes.
func sign(dir, key string) error {
	sums := filepath.Join(dir, checksums)
	if err := os.Remove(sums + ".sig"); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if key == "" {
		return nil
	}
	return keygen(nil, "-Y", "sign", "-q", "-f", key, "-n", purpose, sums)
}

// verify returns an error unless somebody in the file of allowed signers has signed the checksums
// in a folder, and its files have them.
func verify(dir, signers string) error {
	sums, err := os.ReadFile(filepath.Join(dir, checksums))
	if err != nil {
		return err
	}
	if err := someSigner(signers); err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(dir, checksums+".sig")); errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("%s has no %s.sig: it was made without a key; make release KEY=FILE signs", dir, checksums)
	}
	if err := keygen(sums, "-Y", "verify", "-q", "-f", signers, "-I", signer, "-n", purpose, "-s", filepath.Join(dir, checksums+".sig")); err != nil {
		return fmt.Errorf("%s is not signed by anybody in %s: %w", checksums, signers, err)
	}
	for lines := bufio.NewScanner(bytes.NewReader(sums)); lines.Scan(); {
		want, name, ok := strings.Cut(lines.Text(), "  ")
		if !ok || name != filepath.Base(name) {
			return fmt.Errorf("%s: line %q", checksums, lines.Text())
		}
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return err
		}
		if sum := sha256.Sum256(data); hex.EncodeToString(sum[:]) != want {
			return fmt.Errorf("%s: checksum %x, %s expected", name, sum, want)
		}
	}
	return nil
}

// someSigner returns an error where a file of allowed signers names nobody, with what to do.
func someSigner(signers string) error {
	text, err := os.ReadFile(signers)
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			return nil
		}
	}
	return fmt.Errorf(`%s names no key, so no signature can be accepted: the publisher makes one (ssh-keygen -t ed25519 -f KEY), adds the line %s namespaces="%s" and KEY.pub behind it, and signs by make release KEY=KEY`, signers, signer, purpose)
}

// signed says in a line what became of the signature of a folder: that there is none, or why verify
// would refuse it.
func signed(dir, key, signers string) string {
	if key == "" {
		return checksums + " is not signed: make release KEY=FILE signs it with a private key of ssh-keygen"
	}
	if err := verify(dir, signers); err != nil {
		return checksums + " is signed, but make verify refuses that: " + err.Error()
	}
	return checksums + " is signed, and make verify accepts it"
}

// keygen runs ssh-keygen.
func keygen(input []byte, args ...string) error {
	cmd := exec.Command("ssh-keygen", args...)
	cmd.Stdin = bytes.NewReader(input)
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("ssh-keygen: %w: %s", err, bytes.TrimSpace(text))
	}
	return nil
}
