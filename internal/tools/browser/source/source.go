// Package source is where a browser's pages come from: a folder of this machine (Corpus), the web
// itself with a search endpoint of the operator's (HTTP), or a service with a key (Exa, YouCom).
//
// Whatever a source gives was written by strangers. A source reads it within limits and hands it on
// as text; it decides nothing by it. Its errors are for the model: one line, at most 1024
// characters, without addresses of the operator's network.
package source

import "context"

// A Backend finds and gives pages. Any number of goroutines may use it.
type Backend interface {
	// Name is corpus, http, exa or youcom.
	Name() string
	// Search returns at most n pages, the best first; none is no error.
	Search(ctx context.Context, query string, n int) ([]Hit, error)
	// Fetch returns the page at an address.
	Fetch(ctx context.Context, url string) (Document, error)
}

// A Filterer is a backend that finds pages of some domains alone, and of those below them.
type Filterer interface {
	SearchWithin(ctx context.Context, query string, n int, domains []string) ([]Hit, error)
}

// A Hit is a page that was found.
type Hit struct {
	Title   string
	URL     string
	Summary string // what of it is about the query
}

// A Document is a page: HTML or Text, the other is "".
type Document struct {
	Title string // "" = as the page says
	HTML  string
	Text  string
	URL   string // where it is, behind redirects; "" = where it was asked for
}
