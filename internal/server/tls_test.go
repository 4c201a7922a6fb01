package server

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// certified returns what HTTPS is served with, by a certificate for this test.
func certified(t testing.TB) *tls.Config {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	der, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}}, MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}}
}

// trusting is what a client of that server believes.
func trusting(server *tls.Config) *tls.Config {
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificates[0].Leaf)
	return &tls.Config{RootCAs: roots, ServerName: "127.0.0.1"}
}

// HTTPS is HTTP/1.1 over TLS 1.2 or 1.3 with the same answers; who speaks something else
// is told, or refused.
func TestTLS(t *testing.T) {
	u := setup{reply: hello}
	u.cfg.TLS = certified(t)
	g := start(t, u)
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		c := trusting(u.cfg.TLS)
		c.MaxVersion, c.NextProtos = version, []string{"h2", "http/1.1"}
		client := &http.Client{Transport: &http.Transport{TLSClientConfig: c, ForceAttemptHTTP2: true}}
		res, err := client.Post(g.url+"/v1/completions", "application/json", strings.NewReader(`{"prompt":[1],"stream":true}`))
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(res.Body)
		res.Body.Close()
		client.CloseIdleConnections()
		if err != nil || res.ProtoMajor != 1 || res.TLS.Version != version || !strings.HasSuffix(string(text), "data: [DONE]\n\n") {
			t.Errorf("TLS %x: %s, version %x, %v: %s", version, res.Proto, res.TLS.Version, err, text)
		}
	}
	old := trusting(u.cfg.TLS)
	old.MinVersion, old.MaxVersion = tls.VersionTLS10, tls.VersionTLS11
	if c, err := tls.Dial("tcp", g.addr, old); err == nil {
		c.Close()
		t.Error("TLS 1.1 is spoken")
	}
	res, err := http.Get("http://" + g.addr + "/health")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if text, _ := io.ReadAll(res.Body); res.StatusCode != http.StatusBadRequest || !strings.Contains(string(text), "HTTPS server") {
		t.Errorf("plain HTTP: %s: %s", res.Status, text)
	}
}

// The end of a client is noticed through TLS as it is without: also behind bytes that
// nobody has read.
func TestTLSDepartures(t *testing.T) {
	t.Parallel()                                                             // it waits
	u := setup{reply: strings.Repeat("x", 64), cost: 100 * time.Millisecond} // five minutes for a reply
	u.cfg.TLS = certified(t)
	g := start(t, u)
	for _, stream := range []bool{false, true} {
		for how, leave := range map[string]func(*net.TCPConn, *tls.Conn){
			"close":             func(_ *net.TCPConn, c *tls.Conn) { c.Close() },
			"end without alert": func(tcp *net.TCPConn, _ *tls.Conn) { tcp.Close() },
			"half-close":        func(_ *net.TCPConn, c *tls.Conn) { _ = c.CloseWrite() },
			"pipelined request": func(_ *net.TCPConn, c *tls.Conn) { io.WriteString(c, askWho); c.Close() },
		} {
			tcp, err := net.Dial("tcp", g.addr)
			if err != nil {
				t.Fatal(err)
			}
			c := tls.Client(tcp, trusting(u.cfg.TLS))
			body := fmt.Sprintf(`{"prompt":[1],"max_tokens":3000,"ignore_eos":true,"stream":%v}`, stream)
			fmt.Fprintf(c, "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
			eventually(t, time.Minute, "it runs", func() bool { return g.model.Engine.Stats().Running == 1 })
			if stream { // what is unread would make a reset of the end
				if _, err := bufio.NewReader(c).ReadString('\n'); err != nil {
					t.Error(err)
				}
			}
			leave(tcp.(*net.TCPConn), c)
			eventually(t, time.Minute, how+" is noticed", func() bool { return g.model.Engine.Stats().Running == 0 })
			tcp.Close()
		}
	}
}

const askWho = "GET /version HTTP/1.1\r\nHost: localhost\r\n\r\n"

// What a client shows is known before its request; who has to show a certificate and has
// none is sent away.
func TestTLSClients(t *testing.T) {
	u := setup{reply: hello}
	u.cfg.TLS = certified(t)
	u.cfg.TLS.ClientAuth, u.cfg.TLS.ClientCAs = tls.RequireAndVerifyClientCert, x509.NewCertPool()
	u.cfg.TLS.ClientCAs.AddCert(u.cfg.TLS.Certificates[0].Leaf)
	g := start(t, u)
	for _, c := range []struct {
		who   string
		shown []tls.Certificate
		ok    bool
	}{{"known", u.cfg.TLS.Certificates, true}, {"nobody", nil, false}, {"a stranger", certified(t).Certificates, false}} {
		config := trusting(u.cfg.TLS)
		config.Certificates = c.shown
		client := &http.Client{Transport: &http.Transport{TLSClientConfig: config}}
		res, err := client.Get(g.url + "/version")
		if (err == nil) != c.ok {
			t.Errorf("%s: %v %v", c.who, res, err)
		}
		if err == nil {
			res.Body.Close()
		}
		client.CloseIdleConnections()
	}
}
