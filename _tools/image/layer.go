package main

import (
	"archive/tar"
	"bytes"
	"debug/elf"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// user is who the program runs as: nobody's account, as in other images without a system.
const user = 65532

// An entry is one name of the layer.
type entry struct {
	name  string
	mode  int64
	owner int    // user and group
	data  []byte // of a file
}

// entries are what the layer has, folders before what is in them.
func (o *origin) entries(processor, program string) ([]entry, error) {
	binary, err := os.ReadFile(program)
	if err != nil {
		return nil, err
	}
	if err := static(binary, processor); err != nil {
		return nil, err
	}
	licence, err := os.ReadFile(o.licence)
	if err != nil {
		return nil, err
	}
	notices, err := o.noticesText()
	if err != nil {
		return nil, err
	}
	return []entry{
		{name: "etc/", mode: 0o755},
		{name: "etc/group", mode: 0o644, data: fmt.Appendf(nil, "root:x:0:\nossian:x:%d:\n", user)},
		{name: "etc/passwd", mode: 0o644, data: fmt.Appendf(nil, "root:x:0:0:root:/:/sbin/nologin\nossian:x:%d:%[1]d:ossian:/home/ossian:/sbin/nologin\n", user)},
		{name: "etc/ssl/", mode: 0o755},
		{name: "etc/ssl/certs/", mode: 0o755},
		{name: "etc/ssl/certs/ca-certificates.crt", mode: 0o644, data: certificates()},
		{name: "home/", mode: 0o755},
		{name: "home/ossian/", mode: 0o750, owner: user},
		{name: "models/", mode: 0o755},
		{name: "tmp/", mode: 0o1777},
		{name: "usr/", mode: 0o755},
		{name: "usr/local/", mode: 0o755},
		{name: "usr/local/bin/", mode: 0o755},
		{name: "usr/local/bin/ossian", mode: 0o755, data: binary},
		{name: "usr/share/", mode: 0o755},
		{name: "usr/share/licenses/", mode: 0o755},
		{name: "usr/share/licenses/ossian/", mode: 0o755},
		{name: "usr/share/licenses/ossian/LICENSE", mode: 0o644, data: licence},
		{name: "usr/share/licenses/ossian/NOTICES.txt", mode: 0o644, data: notices},
	}, nil
}

// machines are the processors that an image may be for, by the names that Go has for them.
var machines = map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}

// static returns an error unless a program is one for a processor and starts without a loader,
// which the image has not.
func static(program []byte, processor string) error {
	file, err := elf.NewFile(bytes.NewReader(program))
	if err != nil {
		return err
	}
	if want, known := machines[processor]; !known || file.Machine != want {
		return fmt.Errorf("a program for %v, one for %s expected, which has to be amd64 or arm64", file.Machine, processor)
	}
	for _, part := range file.Progs {
		if part.Type == elf.PT_INTERP {
			return errors.New("the program asks for the system's loader; build it with CGO_ENABLED=0 and without the tag cuda")
		}
	}
	return nil
}

// noticesText is what goes with the programs, and with the certificates.
func (o *origin) noticesText() ([]byte, error) {
	var text []byte
	if o.notices != "" {
		var err error
		if text, err = os.ReadFile(o.notices); err != nil {
			return nil, err
		}
	}
	return append(text, strings.Repeat("=", 80)+"\n/etc/ssl/certs/ca-certificates.crt: authorities that Mozilla's NSS trusts, as listed by\ngolang.org/x/crypto/x509roots\n"...), nil
}

// certificates are the authorities that ossian pull trusts, as PEM, each under its name. Those
// that are trusted for certificates of some time only are left out: a file has no word for it.
func certificates() []byte {
	var out bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint != nil {
			continue
		}
		_ = pem.Encode(&out, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}) // a buffer takes everything
	}
	return out.Bytes()
}

// archive returns entries as a tar file whose times are those of the commit.
func (o *origin) archive(entries []entry) ([]byte, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, e := range entries {
		header := &tar.Header{Typeflag: tar.TypeReg, Name: e.name, Mode: e.mode, Uid: e.owner, Gid: e.owner, Size: int64(len(e.data)), ModTime: o.time, Format: tar.FormatUSTAR}
		if strings.HasSuffix(e.name, "/") {
			header.Typeflag = tar.TypeDir
		}
		if err := w.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := w.Write(e.data); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return out.Bytes(), err
}
