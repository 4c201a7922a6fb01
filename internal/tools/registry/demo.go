package registry

import (
	"errors"
	"fmt"

	"ossian/internal/tools"
	"ossian/internal/tools/browser"
	"ossian/internal/tools/browser/source"
	"ossian/internal/tools/outbound"
	"ossian/internal/tools/python"
)

// A Demo says how the program's own tools work. "" = as is usual.
type Demo struct {
	Browser           string // youcom, exa, http or corpus
	Corpus            string // a directory
	Search            string // address of a search endpoint
	ExaKey, YouComKey string

	Python      string // sandbox, wasm, …
	Interpreter string // of the sandbox
	WASM        string // a file
	JupyterFile string
}

// browser makes the browser, or says why there is none and what would help.
func (d *Demo) browser(version string) (tools.Server, error) {
	backend, err := d.source(outbound.Options{Version: version})
	if err != nil {
		return nil, err
	}
	return browser.New(backend, browser.Options{}), nil
}

func (d *Demo) source(client outbound.Options) (source.Backend, error) {
	const local = "--browser-corpus DIR browses files of this machine, --browser-backend http the web"
	switch d.Browser {
	case "corpus":
		if d.Corpus == "" {
			return nil, errors.New("no directory was named: --browser-corpus DIR does")
		}
		return source.Corpus(d.Corpus)
	case "http":
		return source.HTTP(source.HTTPOptions{Search: d.Search, Client: client})
	// A missing key is the usual mistake: the error names what needs none.
	case "exa":
		backend, err := source.Exa(source.KeyOptions{Key: d.ExaKey, Client: client})
		if err != nil {
			return nil, fmt.Errorf("%w; %s", err, local)
		}
		return backend, nil
	case "youcom":
		backend, err := source.YouCom(source.KeyOptions{Key: d.YouComKey, Client: client})
		if err != nil {
			return nil, fmt.Errorf("%w, or EXA_API_KEY with --browser-backend exa; %s", err, local)
		}
		return backend, nil
	}
	return nil, fmt.Errorf("there is no backend %.40q of the browser", d.Browser)
}

// Helper does the work of a helper process of Python's and does not return, where the program was
// started as one.
func Helper(args []string) { python.Helper(args) }

// python makes the interpreter, or says why there is none.
func (d *Demo) python(cfg *Config) (tools.Server, error) {
	return python.New(python.Options{Backend: d.Python, Interpreter: d.Interpreter, WASM: d.WASM, JupyterFile: d.JupyterFile, Limits: cfg.Limits, Log: cfg.Log})
}
