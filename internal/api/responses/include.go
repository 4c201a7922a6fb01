package responses

import (
	"cmp"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"ossian/internal/api"
	"ossian/internal/tools"
	"ossian/internal/wire/response"
)

// What replies have on request: a POST says it in include, and so does a GET of the response. What
// the POST did not include is kept beside the object, so that a later GET can (trail.Shown). Log
// probabilities are not: they exist where they were asked for, and are in the object then.

// Names of what can be included, besides log probabilities.
const (
	sealedReasoning = "reasoning.encrypted_content"
	codeOutputs     = "code_interpreter_call.outputs"
	searchSources   = "web_search_call.action.sources"
	searchResults   = "web_search_call.results"
)

func urlsOf(sources []tools.Source) []string {
	urls := []string{}
	for _, source := range sources {
		urls = append(urls, source.URL)
	}
	return urls
}

func resultsOf(sources []tools.Source) []response.Source {
	results := []response.Source{}
	for _, source := range sources {
		results = append(results, response.Source{URL: source.URL, Title: source.Title})
	}
	return results
}

// keep remembers what a call gave and its item does not say.
func (m *maker) keep(it *response.Item, gave *tools.Result) {
	var kept withheld
	switch {
	case !m.req.store:
		return
	case it.Type == response.ItemCode && it.Served.Logs == nil:
		text := cmp.Or(gave.Output, gave.Text)
		kept.Logs = &text
	case it.Type == response.ItemWebSearch && (it.Served.Results == nil || it.Served.Action.Sources == nil):
		if gave.Action != nil {
			kept.Sources = gave.Action.Sources
		}
	default:
		return
	}
	if m.trail.Shown == nil {
		m.trail.Shown = map[string]withheld{}
	}
	m.trail.Shown[it.ID] = kept
}

// included returns what the query of a GET names, as clients write lists: include=a&include=b,
// include[]=a, include[0]=a or include=a,b.
func included(query url.Values) (names []string) {
	for _, key := range slices.Sorted(maps.Keys(query)) {
		if key != "include" && !strings.HasPrefix(key, "include[") {
			continue
		}
		for _, value := range query[key] {
			for name := range strings.SplitSeq(value, ",") {
				if name = strings.TrimSpace(name); name != "" && !slices.Contains(names, name) {
					names = append(names, name)
				}
			}
		}
	}
	return names
}

// An inclusion adds to items of a stored response what a GET wants to see of them.
type inclusion struct {
	h     *Handler
	owner string
	names []string // nil = nothing
}

// including returns what a GET of an owner's response includes. Names that nobody knows are named
// as ignored.
func (h *Handler) including(reply *api.Reply, r *http.Request, owner string) (*inclusion, error) {
	in := &inclusion{h: h, owner: owner}
	var unknown []string
	for _, name := range included(r.URL.Query()) {
		if response.Includable(name) {
			in.names = append(in.names, name)
		} else {
			unknown = append(unknown, "include."+name)
		}
	}
	return in, h.front.Ignored(reply, unknown)
}

func (in *inclusion) has(name string) bool { return slices.Contains(in.names, name) }

// object returns the stored object with what is included.
func (in *inclusion) object(rec *record) ([]byte, error) {
	if in.names == nil {
		return rec.object, nil
	}
	parsed, err := response.Parse(rec.object, in.h.front.Limits())
	if err != nil {
		return nil, err
	}
	for i := range parsed.Output {
		in.add(rec, &parsed.Output[i])
	}
	return parsed.Append(nil), nil
}

// events returns stored events with what is included. What their calls gave was stored with them,
// or before.
func (in *inclusion) events(id string, events [][]byte) ([][]byte, error) {
	if in.names == nil || !slices.ContainsFunc(events, response.Tells) {
		return events, nil
	}
	rec, err := in.h.archive.Get(in.owner, id)
	if err != nil {
		return nil, err
	}
	of := unpack(rec.Object)
	events = slices.Clone(events)
	for i, event := range events {
		if events[i], err = response.Revise(event, in.h.front.Limits(), func(it *response.Item) { in.add(&of, it) }); err != nil {
			return nil, err
		}
	}
	return events, nil
}

// add adds to an item what is included.
func (in *inclusion) add(rec *record, it *response.Item) {
	kept, known := rec.Shown[it.ID]
	switch it.Type {
	case response.ItemReasoning:
		if in.has(sealedReasoning) && it.Encrypted == "" && len(it.Content) > 0 && rec.Print != "" {
			it.Encrypted = in.h.seal(strings.Join(it.Content, ""), in.owner, rec.Print)
		}
	case response.ItemCode:
		if in.has(codeOutputs) && it.Served.Logs == nil && kept.Logs != nil {
			it.Served.Logs = []string{*kept.Logs}
		}
	case response.ItemWebSearch:
		if action := &it.Served.Action; in.has(searchSources) && known && action.Type == "search" && action.Sources == nil {
			action.Sources = urlsOf(kept.Sources)
		}
		if in.has(searchResults) && known && it.Served.Results == nil {
			it.Served.Results = resultsOf(kept.Sources)
		}
	}
}
