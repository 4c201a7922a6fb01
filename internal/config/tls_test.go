package config

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// pair returns a certificate and its private key in PEM.
func pair(t *testing.T) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{"llm.example"}, NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, c, c, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})), string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8}))
}

// Files of certificates and keys that fit give HTTPS; any others an error that says which
// file of which flag it is, and shows nothing of a key.
func TestTLS(t *testing.T) {
	t.Chdir(t.TempDir())
	cert, key := pair(t)
	_, other := pair(t)
	for name, text := range map[string]string{"cert": cert, "key": key, "both": key + cert, "other": other, "empty": "", "text": "no PEM",
		"large": strings.Repeat("x", 1<<20+1), "locked": string(pem.EncodeToMemory(&pem.Block{Type: "ENCRYPTED PRIVATE KEY", Bytes: []byte(other)})), "damaged": strings.Replace(key, "M", "N", 1)} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		args, err string // err "" = HTTPS
		clients   tls.ClientAuthType
	}{
		{args: "--ssl-certfile cert --ssl-keyfile key"},
		{args: "--ssl_certfile both"},
		{args: "--ssl-certfile cert --ssl-keyfile key --ssl-ca-certs cert"},
		{args: "--ssl-certfile cert --ssl-keyfile key --ssl-ca-certs cert --ssl-cert-reqs 1", clients: tls.VerifyClientCertIfGiven},
		{args: "--ssl-certfile cert --ssl-keyfile key --ssl-ca-certs both --ssl-cert-reqs 2", clients: tls.RequireAndVerifyClientCert},
		{args: "--ssl-keyfile key", err: "--ssl-keyfile is for HTTPS, and there is no --ssl-certfile"},
		{args: "--ssl-ca-certs cert", err: "--ssl-ca-certs is for HTTPS"},
		{args: "--ssl-cert-reqs 2", err: "--ssl-cert-reqs is for HTTPS"},
		{args: "--ssl-certfile none --ssl-keyfile key", err: "--ssl-certfile: open none: no such file"},
		{args: "--ssl-certfile cert --ssl-keyfile none", err: "--ssl-keyfile: open none: no such file"},
		{args: "--ssl-certfile . --ssl-keyfile key", err: "--ssl-certfile: read .: is a directory"},
		{args: "--ssl-certfile cert", err: "--ssl-certfile cert, which has to hold the private key, too"},
		{args: "--ssl-certfile cert --ssl-keyfile other", err: "--ssl-certfile cert, --ssl-keyfile other: tls: private key does not match public key"},
		{args: "--ssl-certfile key --ssl-keyfile cert", err: "--ssl-certfile key, --ssl-keyfile cert: tls: "},
		{args: "--ssl-certfile cert --ssl-keyfile locked", err: "without a password"},
		{args: "--ssl-certfile cert --ssl-keyfile damaged", err: "--ssl-keyfile damaged: tls: "},
		{args: "--ssl-certfile empty --ssl-keyfile key", err: "--ssl-certfile empty"},
		{args: "--ssl-certfile text --ssl-keyfile key", err: "in PEM"},
		{args: "--ssl-certfile large --ssl-keyfile key", err: "--ssl-certfile large: 1048577 bytes, at most 1048576 expected"},
		{args: "--ssl-certfile both --ssl-cert-reqs 2", err: "there is no --ssl-ca-certs"},
		{args: "--ssl-certfile both --ssl-cert-reqs 1 --ssl-ca-certs none", err: "--ssl-ca-certs: open none"},
		{args: "--ssl-certfile both --ssl-cert-reqs 1 --ssl-ca-certs key", err: "--ssl-ca-certs key: no certificate in it"},
	} {
		settings, err := load(c.args, "")
		if err != nil {
			t.Errorf("%s: %v", c.args, err)
			continue
		}
		got, err := settings.TLS()
		switch {
		case c.err == "" && err != nil, c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)):
			t.Errorf("%s: got %v, want %q", c.args, err, c.err)
		case err != nil && strings.Contains(err.Error(), key[40:60]):
			t.Errorf("%s: the key is shown: %v", c.args, err)
		case err == nil && (got.MinVersion != tls.VersionTLS12 || got.ClientAuth != c.clients || (got.ClientCAs != nil) != (c.clients != 0) || len(got.Certificates) != 1):
			t.Errorf("%s: %+v", c.args, got)
		}
	}
	plain, err := load("", "")
	if err != nil {
		t.Fatal(err)
	}
	if c, err := plain.TLS(); c != nil || err != nil {
		t.Errorf("without flags: %v, %v", c, err)
	}
}

// What is read is what the file holds now.
func TestTLSRenewed(t *testing.T) {
	file := filepath.Join(t.TempDir(), "both")
	settings := &Settings{CertFile: file}
	var last []byte
	for range 2 {
		cert, key := pair(t)
		if err := os.WriteFile(file, []byte(cert+key), 0o600); err != nil {
			t.Fatal(err)
		}
		c, err := settings.TLS()
		if err != nil {
			t.Fatal(err)
		}
		now := c.Certificates[0].Leaf.Raw
		if string(now) == string(last) {
			t.Error("the certificate is the old one")
		}
		last = now
	}
}

// Clients are asked for certificates, or somebody is told that they are not.
func TestTLSNotes(t *testing.T) {
	for args, want := range map[string]int{"--ssl-certfile c --ssl-ca-certs a": 1, "--ssl-certfile c --ssl-ca-certs a --ssl-cert-reqs 1": 0} {
		if c, err := load(args, ""); err != nil || len(c.Notes) != want {
			t.Errorf("%s: %v, notes %q", args, err, c.Notes)
		}
	}
}
