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
