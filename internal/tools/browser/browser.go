// Package browser is the tool browser: a model searches, opens pages and finds text in them, and
// reads displays of numbered lines that it can cite (tools.md 2 and 3).
//
// Texts, cursors and cuts are those of the published tool of gpt-oss, which the models were trained
// with; testdata/reference.json is what that tool answers. What is different on purpose is said
// there where it happens. Where pages come from is package source's business, how documents become
// text that of package page.
package browser

import (
	"context"
	"encoding/json"
	"net/url"
	"slices"
	"strings"
	"sync"

	"ossian/internal/token"
	"ossian/internal/tools"
	"ossian/internal/tools/browser/source"
)

// Options are what a server of the browser is made of besides its backend.
type Options struct {
	// Count returns how many tokens a text has. A display shows lines up to 1024 of them. It may be
	// called by any goroutine; nil = tokens of o200k, which are those of gpt-oss. They take some
	// 10 MB from the first display on: who has that tokenizer already gives it.
	Count func(text string) int
}

// New returns the browser on a backend.
func New(backend source.Backend, opts Options) tools.Server {
	if opts.Count == nil {
		opts.Count = o200k
	}
	return &server{backend: backend, count: opts.Count}
}

// harmony is the vocabulary of gpt-oss, made once it is needed.
var harmony = sync.OnceValue(func() *token.BPE {
	tokenizer, err := token.Harmony()
	if err != nil {
		panic(err) // it is part of the program
	}
	return tokenizer
})

func o200k(text string) int { return len(harmony().Encode(nil, text)) }

// A server is the same for all conversations: what one of them has seen is in its session alone.
type server struct {
	backend source.Backend
	count   func(text string) int
	domains []string // whose pages may be seen, in lower case; nil = all
}

// Within returns the same browser for a request that allows pages of some domains, in lower case,
// and of those below them.
func (s *server) Within(domains []string) tools.Server {
	own := *s
	own.domains = domains
	return &own
}

// search asks the backend for pages that may be seen. Of others there are none in its answer, where
// it can be told so; else they are left out, and more are asked for.
func (s *server) search(ctx context.Context, query string, wanted int) ([]source.Hit, error) {
	if s.domains == nil {
		return s.backend.Search(ctx, query, wanted)
	}
	var hits []source.Hit
	var err error
	if told, ok := s.backend.(source.Filterer); ok {
		hits, err = told.SearchWithin(ctx, query, maxHits, s.domains)
	} else {
		hits, err = s.backend.Search(ctx, query, maxHits)
	}
	var seen []source.Hit
	for _, hit := range hits {
		if s.allows(hit.URL) {
			seen = append(seen, hit)
		}
	}
	return seen, err
}

// allows reports whether the page at an address may be seen.
func (s *server) allows(address string) bool {
	if s.domains == nil {
		return true
	}
	at, err := url.Parse(address)
	if err != nil {
		return false
	}
	host := strings.ToLower(strings.TrimSuffix(at.Hostname(), "."))
	return slices.ContainsFunc(s.domains, func(domain string) bool {
		return host == domain || strings.HasSuffix(host, "."+domain)
	})
}

// refused is why a page is not shown.
func (s *server) refused(address string) error {
	return &problem{text: "Error fetching URL `" + shortened(address) + "`: only pages of " + shortened(strings.Join(s.domains, ", ")) + " can be opened here", outcome: tools.Failed}
}

// Name implements tools.Server.
func (s *server) Name() string { return "browser" }

// Namespace implements tools.Server.
func (s *server) Namespace(context.Context) (tools.Namespace, error) { return namespace(), nil }

// Status implements tools.Server.
func (s *server) Status() tools.Status {
	return tools.Status{Name: s.Name(), Kind: "browser", Backend: s.backend.Name(), Works: true, Tools: len(namespace().Tools)}
}

// Empty reports whether the backend has nothing, and knows it.
func (s *server) Empty() bool {
	known, ok := s.backend.(interface{ Empty() bool })
	return ok && known.Empty()
}

// Open implements tools.Server.
func (s *server) Open(chain tools.Chain) tools.Session {
	return &session{server: s, history: restored(chain.State)}
}

// namespace is how the browser is declared; the models were trained on these words.
func namespace() tools.Namespace {
	return tools.Namespace{
		Name: "browser",
		Description: "Tool for browsing.\n" +
			"The `cursor` appears in brackets before each browsing display: `[{cursor}]`.\n" +
			"Cite information from the tool using the following format:\n" +
			"`【{cursor}†L{line_start}(-L{line_end})?】`, for example: `【6†L9-L11】` or `【8†L3】`.\n" +
			"Do not quote more than 10 words directly from the tool output.\n" +
			"sources=web (default: web)",
		Tools: []tools.Tool{{
			Name:        "search",
			Description: "Searches for information related to `query` and displays `topn` results.",
			Parameters:  json.RawMessage(`{"type":"object","properties":{"query":{"type":"string"},"topn":{"type":"number","default":10},"source":{"type":"string"}},"required":["query"]}`),
			ReadOnly:    true,
		}, {
			Name: "open",
			Description: "Opens the link `id` from the page indicated by `cursor` starting at line number `loc`, showing `num_lines` lines.\n" +
				"Valid link ids are displayed with the formatting: `【{id}†.*】`.\n" +
				"If `cursor` is not provided, the most recent page is implied.\n" +
				"If `id` is a string, it is treated as a fully qualified URL associated with `source`.\n" +
				"If `loc` is not provided, the viewport will be positioned at the beginning of the document or centered on the most relevant passage, if available.\n" +
				"Use this function without `id` to scroll to a new location of an opened page.",
			Parameters: json.RawMessage(`{"type":"object","properties":{"id":{"type":["number","string"],"default":-1},"cursor":{"type":"number","default":-1},"loc":{"type":"number","default":-1},"num_lines":{"type":"number","default":-1},"view_source":{"type":"boolean","default":false},"source":{"type":"string"}}}`),
			ReadOnly:   true,
		}, {
			Name:        "find",
			Description: "Finds exact matches of `pattern` in the current page, or the page given by `cursor`.",
			Parameters:  json.RawMessage(`{"type":"object","properties":{"pattern":{"type":"string"},"cursor":{"type":"number","default":-1}},"required":["pattern"]}`),
			ReadOnly:    true,
		}},
	}
}
