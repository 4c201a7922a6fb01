package check

// Asking a server: GET and nothing else, to the address that was named or to the usual ports of
// this machine, without proxies and without following it elsewhere (lab.md 6, acceptance C4).

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"ossian/internal/bench"
)

// DefaultPorts are those that engines listen on where nobody has said otherwise: vLLM, Ossian and
// TensorRT-LLM, SGLang, llama.cpp, Ollama, LMDeploy.
var DefaultPorts = []int{8000, 30000, 8080, 11434, 23333}

// routes are all that is asked.
var routes = []string{"/health", "/version", "/v1/models", "/metrics", "/props", "/get_server_info", "/api/ps"}

const (
	askTime   = 5 * time.Second // for one answer
	maxAnswer = 16 << 20        // bytes of it
)

// Asked is a question and how it was answered.
type Asked struct {
	Route  string `json:"route"`
	Status int    `json:"status"` // 0 = no answer
	Error  string `json:"error,omitempty"`
	body   []byte
	server string // header Server
}

// An asker asks one server.
type asker struct {
	base   string
	client *http.Client
	header http.Header
}

// ErrAddress is what Run fails with where the URL could be that of no server.
var ErrAddress = errors.New("no address of a server: http://HOST:PORT or https://HOST:PORT expected")

// newAsker checks an address.
func newAsker(base string, access *bench.Access) (*asker, error) {
	if !strings.Contains(base, "://") {
		base = "http://" + base
	}
	at, err := url.Parse(base)
	if err != nil || (at.Scheme != "http" && at.Scheme != "https") || at.Host == "" || at.RawQuery != "" || at.Fragment != "" {
		return nil, fmt.Errorf("%.200q: %w", base, ErrAddress)
	}
	at.Path = strings.TrimSuffix(strings.TrimRight(at.Path, "/"), "/v1") // as clients of OpenAI have it
	out := &asker{base: strings.TrimRight(at.String(), "/"), header: http.Header{}}
	transport := &http.Transport{}
	if access != nil {
		transport.Proxy = access.Proxy
		transport.TLSClientConfig = &tls.Config{InsecureSkipVerify: access.Insecure} //nolint:gosec // asked for by --insecure
		if access.Key != "" {
			out.header.Set("Authorization", "Bearer "+access.Key)
		}
		for _, pair := range access.Header {
			out.header.Set(pair.Key, pair.Value)
		}
	}
	out.client = &http.Client{Transport: transport, Timeout: askTime,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	return out, nil
}

// ask asks for one route.
func (a *asker) ask(ctx context.Context, route string) Asked {
	asked := Asked{Route: route}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, a.base+route, nil)
	if err != nil {
		asked.Error = bench.OneLine(err.Error())
		return asked
	}
	for name, values := range a.header {
		request.Header[name] = values
	}
	reply, err := a.client.Do(request)
	if err != nil {
		asked.Error = bench.OneLine(err.Error())
		return asked
	}
	defer reply.Body.Close()
	asked.Status, asked.server = reply.StatusCode, reply.Header.Get("Server")
	body, err := io.ReadAll(io.LimitReader(reply.Body, maxAnswer+1))
	switch {
	case err != nil:
		asked.Error = bench.OneLine(err.Error())
	case len(body) > maxAnswer:
		asked.Error = fmt.Sprintf("the answer has more than %d bytes", maxAnswer)
	case reply.StatusCode == http.StatusOK:
		asked.body = body
	}
	return asked
}

// all asks for every route, one after another: a server under test is not to be loaded.
func (a *asker) all(ctx context.Context) []Asked {
	defer a.client.CloseIdleConnections()
	var out []Asked
	for _, route := range routes {
		out = append(out, a.ask(ctx, route))
	}
	return out
}

// find returns the addresses at which something answers like a model server, in the order of the
// ports.
func find(ctx context.Context, ports []int) ([]string, error) {
	found := make([]string, len(ports))
	var wait sync.WaitGroup
	for i, port := range ports {
		wait.Go(func() {
			ask, err := newAsker(fmt.Sprintf("http://127.0.0.1:%d", port), nil)
			if err != nil {
				return
			}
			defer ask.client.CloseIdleConnections()
			// One that wants a key answers 401, one without models 404: both are servers.
			if answer := ask.ask(ctx, "/v1/models"); answer.Status == http.StatusOK || answer.Status == http.StatusUnauthorized || answer.Status == http.StatusForbidden {
				found[i] = ask.base
			}
		})
	}
	wait.Wait()
	found = slices.DeleteFunc(found, func(base string) bool { return base == "" })
	if len(found) == 0 {
		return nil, fmt.Errorf("no model server answers at 127.0.0.1, ports %s: name it, as in ossian check http://HOST:PORT", strings.Trim(fmt.Sprint(ports), "[]"))
	}
	return found, nil
}

// local reports whether an address is one of this machine's loopback.
func local(base string) bool {
	at, err := url.Parse(base)
	if err != nil {
		return false
	}
	if at.Hostname() == "localhost" {
		return true
	}
	ip := net.ParseIP(at.Hostname())
	return ip != nil && ip.IsLoopback()
}

// reached says why there is nothing to report on where no route was answered.
func reached(base string, named bool, asked []Asked) error {
	var last string
	for _, one := range asked {
		switch {
		case one.Status == http.StatusUnauthorized || one.Status == http.StatusForbidden:
			last = fmt.Sprintf("%s answers %d: OPENAI_API_KEY in the environment is its key", one.Route, one.Status)
			if !named {
				last += ", which is sent to a server that was named only: ossian check " + base
			}
		case one.Status != 0:
			continue
		case last == "":
			last = one.Error
		}
	}
	for _, one := range asked {
		if one.Status == http.StatusOK {
			return nil
		}
	}
	if last == "" {
		last = "none of " + strings.Join(routes, " ") + " is there"
	}
	return errors.New(base + " does not answer as a model server: " + last)
}
