// Package source is where the browser's pages come from. Who uses a Backend does not know whether
// it asks a service, the web itself, or files of this machine.
package source

import "context"

// A Backend finds and fetches pages. Its methods may be called by any goroutine, and end soon after
// ctx does. Their errors are one line for a model, of at most 1024 characters, without addresses
// that the model could not know.
type Backend interface {
	// Name is which backend it is, as settings have it.
	Name() string
	// Search returns at most n pages, the best first.
	Search(ctx context.Context, query string, n int) ([]Hit, error)
	// Fetch returns the page of an address.
	Fetch(ctx context.Context, url string) (Document, error)
}

// A Hit is a page that was found. Its members are text, not HTML.
type Hit struct{ Title, URL, Summary string }

// A Document is what was fetched: HTML, or text where there is no HTML.
type Document struct{ Title, HTML, Text string }
