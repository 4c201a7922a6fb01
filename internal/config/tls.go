package config

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
)

// TLS returns what HTTPS is served with, nil = plain HTTP. It reads the files of the
// settings each time it is called, so that renewed ones can take the place of others.
// Errors name the flag whose file is missing, unreadable or of no use.
func (s *Settings) TLS() (*tls.Config, error) {
	if s.CertFile == "" {
		for _, other := range []struct {
			flag  string
			given bool
		}{{"ssl-keyfile", s.CertKeyFile != ""}, {"ssl-ca-certs", s.ClientCAFile != ""}, {"ssl-cert-reqs", s.ClientCerts != tls.NoClientCert}} {
			if other.given {
				return nil, fmt.Errorf("--%s is for HTTPS, and there is no --ssl-certfile: name the file of the server's certificate, or leave both out for plain HTTP", other.flag)
			}
		}
		return nil, nil
	}
	chain, err := pemFile("ssl-certfile", s.CertFile)
	if err != nil {
		return nil, err
	}
	// The private key may stand in the certificate's file.
	key, from := chain, "--ssl-certfile "+s.CertFile+", which has to hold the private key, too, where there is no --ssl-keyfile"
	if s.CertKeyFile != "" {
		if key, err = pemFile("ssl-keyfile", s.CertKeyFile); err != nil {
			return nil, err
		}
		from = "--ssl-certfile " + s.CertFile + ", --ssl-keyfile " + s.CertKeyFile
	}
	pair, err := tls.X509KeyPair(chain, key)
	if err != nil {
		return nil, fmt.Errorf("%s: %w; expected a certificate, with those that vouch for it behind it, and its private key without a password, in PEM", from, err)
	}
	// As vLLM's server: HTTP/1.1 and nothing else. A second protocol would be a second set of
	// limits and of ways to leave.
	served := &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}}
	if s.ClientCerts == tls.NoClientCert {
		return served, nil
	}
	if s.ClientCAFile == "" {
		return nil, errors.New("--ssl-cert-reqs asks clients for certificates, and there is no --ssl-ca-certs: name the file of those that may vouch for clients")
	}
	vouching, err := pemFile("ssl-ca-certs", s.ClientCAFile)
	if err != nil {
		return nil, err
	}
	served.ClientAuth, served.ClientCAs = s.ClientCerts, x509.NewCertPool()
	if !served.ClientCAs.AppendCertsFromPEM(vouching) {
		return nil, fmt.Errorf("--ssl-ca-certs %s: no certificate in it; expected them in PEM", s.ClientCAFile)
	}
	return served, nil
}

// pemFile reads a file of keys or certificates.
func pemFile(flag, name string) ([]byte, error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("--%s: %w", flag, err)
	}
	if len(data) > maxFile {
		return nil, fmt.Errorf("--%s %s: %d bytes, at most %d expected", flag, name, len(data), maxFile)
	}
	return data, nil
}
