package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// certify writes a certificate for 127.0.0.1 and its private key into dir. It returns a
// client that trusts nothing else, and keeps no connection.
func certify(t *testing.T, dir string, until time.Time) *http.Client {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-2 * time.Hour), NotAfter: until, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	der, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	cert := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	for name, text := range map[string][]byte{"cert.pem": cert, "key.pem": pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(cert)
	return &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, DisableKeepAlives: true}}
}

// A server with a certificate says so in its address and answers there. SIGHUP makes it
// read the files again; those that do not fit change nothing, and neither ends a stream.
func TestServeTLS(t *testing.T) {
	dir := t.TempDir()
	first := certify(t, dir, time.Now().Add(time.Hour))
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	p := serveProcess(t, "--ssl-certfile", cert, "--ssl-keyfile", key)
	if !strings.HasPrefix(p.url, "https://127.0.0.1:") {
		t.Fatalf("address %s", p.url)
	}
	answers := func(c *http.Client, path string) bool {
		r, err := c.Get(p.url + path)
		if err != nil {
			return false
		}
		r.Body.Close()
		return r.StatusCode == http.StatusOK
	}
	p.eventually(2*time.Minute, "it is ready", func() bool { return answers(first, "/ready") })
	stream, err := first.Post(p.url+"/v1/completions", "application/json", strings.NewReader(`{"prompt":"a","max_tokens":2000,"ignore_eos":true,"stream":true}`))
	if err != nil {
		t.Fatal(err)
	}

	if err := os.WriteFile(key, []byte("no key"), 0o600); err != nil {
		t.Fatal(err)
	}
	if line := p.hangUp("the certificate is refused"); !strings.Contains(line, "--ssl-keyfile "+key) {
		t.Errorf("the reason is missing: %s", line)
	}
	if !answers(first, "/health") {
		t.Error("refused files have changed something")
	}
	second := certify(t, dir, time.Now().Add(-time.Hour))
	p.hangUp("settings reloaded")
	if answers(first, "/health") {
		t.Error("the old certificate is still shown")
	}
	if !strings.Contains(p.log.String(), "the certificate has expired") || answers(second, "/health") {
		t.Error("nothing is said of a certificate that has expired, or it is another")
	}
	third := certify(t, dir, time.Now().Add(time.Hour))
	p.hangUp("settings reloaded")
	if !answers(third, "/health") {
		t.Error("the new certificate is not shown")
	}
	if got := listen(stream, nil); !got.done || got.finish != "length" {
		t.Errorf("the stream that went through: %+v", got)
	}
	r, err := http.Get("http" + strings.TrimPrefix(p.url, "https") + "/health")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	if text, _ := io.ReadAll(r.Body); r.StatusCode != http.StatusBadRequest || !strings.Contains(string(text), "HTTPS") {
		t.Errorf("plain HTTP: %s: %s", r.Status, text)
	}
	p.quit(p.terminate)
}
