package serve

import (
	"net"
	"strings"
	"testing"

	"ossian/internal/config"
)

func TestPageAddress(t *testing.T) {
	for listened, want := range map[string]string{
		"127.0.0.1:8000": "http://127.0.0.1:8000/", "0.0.0.0:80": "http://localhost:80/", "[::]:80": "http://localhost:80/",
		"[::1]:8000": "http://[::1]:8000/", "192.0.2.1:1": "http://192.0.2.1:1/",
	} {
		addr, err := net.ResolveTCPAddr("tcp", listened)
		if err != nil {
			t.Fatal(err)
		}
		if got := pageAddress("http", addr); got != want {
			t.Errorf("%s: %s, want %s", listened, got, want)
		}
	}
}

// TestShowPage: the address is told, with --no-ui it is not, and where no browser can be
// opened the server goes on.
func TestShowPage(t *testing.T) {
	t.Setenv("PATH", t.TempDir()) // no program that opens addresses
	addr := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 8000}
	for args, want := range map[string]string{
		"":               "chat and live view: https://127.0.0.1:8000/\n",
		"--no-ui":        "",
		"--no-ui --open": "",
		"--open":         "chat and live view: https://127.0.0.1:8000/\nno browser was opened: ",
	} {
		cfg, err := config.Load(config.Source{Args: strings.Fields(args)})
		if err != nil {
			t.Fatal(err)
		}
		var told strings.Builder
		showPage(cfg, "https", addr, &told)
		if got := told.String(); !strings.HasPrefix(got, want) || (want == "" && got != "") {
			t.Errorf("%q: %q, want %q", args, got, want)
		}
	}
}
