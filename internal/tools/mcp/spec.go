package mcp

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"path"
	"strconv"
	"strings"
)

// A transport is how messages get to a server and back.
type transport uint8

const (
	streamable transport = iota // one POST per message, since 2025
	events                      // a stream of events and POSTs, of 2024
	stdio                       // a process of our own
)

// String is the transport in words, for messages.
func (t transport) String() string { return [...]string{"streamable HTTP", "HTTP+SSE", "stdio"}[t] }

// A Spec says where a server is. String has no secrets in it.
type Spec struct {
	ways    []way    // in the order in which they are tried
	command []string // of stdio: the program and its arguments; nil = it is another's
	shown   string
}

// A way is one of those in which a server may be spoken to.
type way struct {
	transport transport
	url       string // "" = stdio
	version   string // of the protocol that is asked for; "" = the newest
}

// String is the address for people: without credentials, query or arguments, which may be secrets.
func (s *Spec) String() string { return s.shown }

// ParseSpec reads the address of a server: host:port, host:port/path, a URL of http or https, or
// "stdio:" and a command, in whose words quotes keep spaces. host:port stands for two addresses, that
// of streamable HTTP at /mcp and that of HTTP+SSE at /sse. Errors name the part that is wrong.
func ParseSpec(text string) (*Spec, error) {
	spec, err := parseSpec(text)
	if err != nil {
		return nil, fmt.Errorf("tool server %q: %w", withoutSecrets(text), err)
	}
	return spec, nil
}

func parseSpec(text string) (*Spec, error) {
	command, isCommand := strings.CutPrefix(text, "stdio:")
	// Addresses come from requests too, so each kind is refused in words that help.
	switch {
	case text == "":
		return nil, errors.New("it is empty: want host:port, host:port/path or a URL")
	case strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return nil, errors.New("it has control characters")
	case isCommand:
		words, err := splitWords(command)
		if err != nil {
			return nil, err
		}
		if len(words) == 0 || words[0] == "" {
			return nil, errors.New("the command is missing: stdio:command arguments")
		}
		return &Spec{ways: []way{{transport: stdio}}, command: words, shown: "stdio:" + path.Base(words[0])}, nil
	case strings.Contains(text, "://"):
		return parseURL(text)
	}
	return parseHost(text)
}

func parseURL(text string) (*Spec, error) {
	address, err := url.Parse(text)
	if err != nil {
		var why *url.Error
		if errors.As(err, &why) {
			err = why.Err // without the URL, which may have a password
		}
		return nil, fmt.Errorf("no URL: %w", err)
	}
	if address.Scheme != "http" && address.Scheme != "https" {
		return nil, fmt.Errorf("scheme %q: http or https is wanted", address.Scheme)
	}
	if err := checkHost(address.Hostname(), address.Port()); err != nil && (address.Hostname() == "" || address.Port() != "") {
		return nil, err
	}
	if address.Fragment != "" {
		return nil, fmt.Errorf("fragment %q: a server has none", address.Fragment)
	}
	if address.Path == "" {
		address.Path = "/"
	}
	shown := url.URL{Scheme: address.Scheme, Host: address.Host, Path: address.Path}
	return &Spec{ways: []way{{streamable, address.String(), ""}, {events, address.String(), ""}}, shown: shown.String()}, nil
}

func parseHost(text string) (*Spec, error) {
	address, rest, hasPath := strings.Cut(text, "/")
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		if strings.Contains(err.Error(), "missing port") {
			return nil, errors.New("a port is missing, as in localhost:8000")
		}
		return nil, fmt.Errorf("%q: no host and port", address)
	}
	if err := checkHost(host, port); err != nil {
		return nil, err
	}
	if hasPath {
		return parseURL("http://" + address + "/" + rest)
	}
	base := "http://" + address
	return &Spec{ways: []way{{streamable, base + "/mcp", ""}, {events, base + "/sse", ""}}, shown: address}, nil
}

// checkHost checks both parts of host:port.
func checkHost(host, port string) error {
	if host == "" {
		return errors.New("the host is missing")
	}
	if strings.ContainsAny(host, " \"<>\\^`{|}@?#%") {
		return fmt.Errorf("host %q: no name or address of a host", host)
	}
	if number, err := strconv.Atoi(port); err != nil || number < 1 || number > 65535 {
		return fmt.Errorf("port %q: a number from 1 to 65535 is wanted", port)
	}
	return nil
}

// withoutSecrets is the text of an address as an error may show it.
func withoutSecrets(text string) string {
	if strings.HasPrefix(text, "stdio:") {
		command, _, _ := strings.Cut(text, " ")
		return command
	}
	text, _, _ = strings.Cut(text, "?")
	if scheme, rest, ok := strings.Cut(text, "://"); ok {
		if at := strings.LastIndexByte(rest, '@'); at >= 0 {
			return scheme + "://" + rest[at+1:]
		}
	} else if at := strings.LastIndexByte(text, '@'); at >= 0 {
		return text[at+1:]
	}
	return text
}

// splitWords splits a command at spaces that are not within quotes.
func splitWords(text string) (words []string, err error) {
	var word strings.Builder
	began, quote := false, rune(0)
	for _, char := range text {
		switch {
		// Within quotes the other quote is a character like any.
		case quote != 0 && char == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(char)
		case char == '"' || char == '\'':
			quote, began = char, true
		case char == ' ' && began:
			words, began = append(words, word.String()), false
			word.Reset()
		case char != ' ':
			word.WriteRune(char)
			began = true
		}
	}
	if quote != 0 {
		return nil, fmt.Errorf("a %c in the command has no end", quote)
	}
	if began {
		words = append(words, word.String())
	}
	return words, nil
}
