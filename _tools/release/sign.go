package main

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
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
	_, err := keygen(nil, "-Y", "sign", "-q", "-f", key, "-n", purpose, sums)
	return err
}

// verify tells what it finds: whether the files of a folder have the checksums that are listed, then
// who has signed these. It returns an error unless all have, and somebody in the file of allowed
// signers has.
func verify(dir, signers string, to io.Writer) error {
	sums, err := os.ReadFile(filepath.Join(dir, checksums))
	if err != nil {
		return err
	}
	files, err := checkFiles(dir, sums)
	if err != nil {
		return err
	}
	fmt.Fprintf(to, "checksums: %d of %d files are as %s says\n", files, files, checksums)
	good, err := checkSigner(dir, signers, sums)
	if err != nil {
		return fmt.Errorf("signature: %w", err)
	}
	fmt.Fprintf(to, "signature: %s; %s names this key\n", good, signers)
	return nil
}

// checkFiles returns how many files of a folder the checksums list, or an error about the first that
// is not as they say.
func checkFiles(dir string, sums []byte) (files int, err error) {
	for lines := bufio.NewScanner(bytes.NewReader(sums)); lines.Scan(); files++ {
		want, name, ok := strings.Cut(lines.Text(), "  ")
		if !ok || name != filepath.Base(name) {
			return files, fmt.Errorf("%s: line %q", checksums, lines.Text())
		}
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return files, err
		}
		if sum := sha256.Sum256(data); hex.EncodeToString(sum[:]) != want {
			return files, fmt.Errorf("%s: checksum %x, %s expected", name, sum, want)
		}
	}
	return files, nil
}

// checkSigner returns what ssh-keygen says of the signature of a folder's checksums, or why there is
// none that can be accepted.
func checkSigner(dir, signers string, sums []byte) (good string, err error) {
	nobody := someSigner(signers)
	_, err = os.Stat(filepath.Join(dir, checksums+".sig"))
	switch none := errors.Is(err, os.ErrNotExist); {
	case none && nobody != nil:
		return "", fmt.Errorf("there is none, and no signer is trusted yet: %w", nobody)
	case none:
		return "", fmt.Errorf("there is none: %s has no %s.sig, it was made without a key; make release KEY=FILE signs", dir, checksums)
	case err != nil:
		return "", err
	case nobody != nil:
		return "", fmt.Errorf("there is one, but no signer is trusted yet: %w", nobody)
	}
	good, err = keygen(sums, "-Y", "verify", "-f", signers, "-I", signer, "-n", purpose, "-s", filepath.Join(dir, checksums+".sig"))
	if err != nil {
		return "", fmt.Errorf("%s is not signed by anybody in %s: %w", checksums, signers, err)
	}
	return good, nil
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
	if err := verify(dir, signers, io.Discard); err != nil {
		return checksums + " is signed, but make verify refuses that: " + err.Error()
	}
	return checksums + " is signed, and make verify accepts it"
}

// keygen runs ssh-keygen and returns what it says.
func keygen(input []byte, args ...string) (said string, err error) {
	cmd := exec.Command("ssh-keygen", args...)
	cmd.Stdin = bytes.NewReader(input)
	text, err := cmd.CombinedOutput()
	text = bytes.TrimSpace(text)
	if err != nil {
		return "", fmt.Errorf("ssh-keygen: %w: %s", err, text)
	}
	return string(text), nil
}
