package serve

// Where the page is, for whoever started the server.

import (
	"fmt"
	"io"
	"net"
	"os/exec"
	"runtime"

	"ossian/internal/config"
)

// showPage says which address to open for the page and, where that was asked for, has a
// browser open it. A machine without one is no error: the address is there to be read.
func showPage(cfg *config.Config, scheme string, addr net.Addr, status io.Writer) {
	if !cfg.Page {
		return
	}
	address := pageAddress(scheme, addr)
	fmt.Fprintf(status, "chat and live view: %s\n", address)
	if cfg.OpenPage {
		if err := openBrowser(address); err != nil {
			fmt.Fprintf(status, "no browser was opened: %v\n", err)
		}
	}
}

// pageAddress is where this machine's browser finds a server that listens on addr. A server
// on all addresses is reached by the name of this machine.
func pageAddress(scheme string, addr net.Addr) string {
	host, port, err := net.SplitHostPort(addr.String())
	if err != nil {
		return scheme + "://" + addr.String() + "/"
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = "localhost"
	}
	return scheme + "://" + net.JoinHostPort(host, port) + "/"
}

// openBrowser starts the desktop's own program for addresses and does not wait for it.
func openBrowser(address string) error {
	program, args := "xdg-open", []string{address}
	switch runtime.GOOS {
	case "darwin":
		program = "open"
	case "windows":
		program, args = "rundll32", []string{"url.dll,FileProtocolHandler", address}
	}
	cmd := exec.Command(program, args...)
	if err := cmd.Start(); err != nil {
		return err
	}
	go func() { _ = cmd.Wait() }() // whatever it says, the server goes on
	return nil
}
