package serve

import (
	"crypto/tls"
	"log/slog"
	"sync/atomic"
	"time"

	"ossian/internal/config"
)

// certificates are those that new connections are made with; nil = plain HTTP.
type certificates struct {
	now atomic.Pointer[tls.Config]
	log *slog.Logger
}

func newCertificates(cfg *config.Config, log *slog.Logger) (*certificates, error) {
	if cfg.CertFile == "" {
		return nil, nil
	}
	c := &certificates{log: log}
	return c, c.renew(cfg)
}

// renew reads the files again. Connections that are open stay as they are.
func (c *certificates) renew(cfg *config.Config) error {
	if c == nil {
		return nil
	}
	next, err := cfg.TLS()
	if err != nil {
		return err
	}
	if leaf := next.Certificates[0].Leaf; time.Now().After(leaf.NotAfter) {
		c.log.Warn("the certificate has expired: clients will refuse it", "file", cfg.CertFile, "until", leaf.NotAfter)
	}
	c.now.Store(next)
	return nil
}

// server returns what a listener needs.
func (c *certificates) server() *tls.Config {
	if c == nil {
		return nil
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return c.now.Load(), nil }}
}

func (c *certificates) scheme() string {
	if c == nil {
		return "http"
	}
	return "https"
}
