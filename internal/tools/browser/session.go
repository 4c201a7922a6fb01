package browser

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"net/url"
	"strconv"
	"strings"

	"ossian/internal/tools"
	"ossian/internal/tools/browser/page"
)

const (
	maxHits    = 20 // of a search
	maxMatches = 50 // of a find
	matchLines = 4  // that a match shows, and lines that are shown before one
	viewSource = "view-source:"
)

// A session is the browsing of one answer; its history is that of the conversation.
type session struct {
	server  *server
	history *history
}

// State implements tools.Session.
func (s *session) State() json.RawMessage { return s.history.state() }

// Close implements tools.Session.
func (s *session) Close() {}

// Call implements tools.Session.
func (s *session) Call(ctx context.Context, call tools.Call) tools.Result {
	var action *tools.Action
	var text string
	args, ok := parseArguments(call.Arguments)
	err := jsonError("Invalid function arguments")
	switch {
	case call.Tool != "search" && call.Tool != "open" && call.Tool != "find":
		err = jsonError("Unknown function: " + shortened(call.Tool))
	case !ok:
	case call.Tool == "search":
		action = &tools.Action{Type: "search"}
		text, err = s.search(ctx, args, action)
	case call.Tool == "open":
		action = &tools.Action{Type: "open_page"}
		text, err = s.open(ctx, args, action)
	default:
		action = &tools.Action{Type: "find_in_page"}
		text, err = s.find(ctx, args, action)
	}
	// Errors are answers for the model, in the words of the reference browser.
	result := tools.Result{Text: text, Action: action}
	if why := (*problem)(nil); errors.As(err, &why) {
		result.Text, result.Outcome = why.text, why.outcome
	}
	return result
}

// search shows what the backend finds.
func (s *session) search(ctx context.Context, args arguments, action *tools.Action) (string, error) {
	query, ok := args.string("query")
	if !ok {
		return "", jsonError("Invalid function arguments")
	}
	action.Query = query
	found := &sheet{Kind: ofSearch, Query: query, Wanted: wanted(args)}
	if err := s.fill(ctx, found); err != nil {
		return "", err
	}
	for i, link := range found.Links {
		action.Sources = append(action.Sources, tools.Source{URL: link, Title: found.Titles[i]})
	}
	return s.display(found, integer{}, integer{})
}

// wanted is how many results a search asks for.
func wanted(args arguments) int {
	for _, name := range []string{"topn", "top_n"} {
		if n, err := args.integer(name); err == nil && n.value > 0 {
			return min(n.value, maxHits)
		}
	}
	return 10
}

// open shows a page: that of an address, of a link, or the one that is shown, further down.
func (s *session) open(ctx context.Context, args arguments, action *tools.Action) (string, error) {
	from, lines, err := view(args)
	if err != nil {
		return "", err
	}
	target, line, err := s.target(ctx, args)
	if err != nil {
		return "", err
	}
	action.URL = target.URL
	if target.Kind != ofSearch && !s.server.allows(target.URL) { // perhaps an earlier response showed it
		return "", s.server.refused(target.address())
	}
	if err := s.fill(ctx, target); err != nil {
		return "", err
	}
	if from.value < 0 {
		if line > matchLines {
			line -= matchLines
		}
		from = integer{line, strconv.Itoa(line)}
	}
	return s.display(target, from, lines)
}

// view reads which lines a call wants to see.
func view(args arguments) (from, lines integer, err error) {
	if from, err = args.integer("loc"); err != nil {
		return from, lines, err
	}
	lines, err = args.integer("num_lines")
	return from, lines, err
}

// target returns what a call of open means, empty where it has to be fetched, and the line that
// it is about.
func (s *session) target(ctx context.Context, args arguments) (target *sheet, line int, err error) {
	source := args.isTrue("view_source")
	id, given := args["id"]
	number, isNumber := toInteger(id)
	if text, ok := id.(string); ok && !isNumber && text != "" {
		address, found := strings.CutPrefix(text, viewSource)
		return &sheet{Kind: kind(source || found), URL: address}, 0, nil // fetched again if it was before
	}
	cursor, err := args.integer("cursor")
	if err != nil {
		return nil, 0, err
	}
	current, err := s.history.at(cursor)
	switch {
	case err != nil:
		return nil, 0, err
	case given && id != "" && !isNumber:
		return nil, 0, misused("Invalid link id `" + written(id) + "`.")
	case isNumber && number.value >= 0:
		if current.Text == "" && len(current.Links) == 0 { // it was given up
			if err := s.fill(ctx, current); err != nil {
				return nil, 0, err
			}
		}
		return s.follow(current, number, source)
	case source && current.Kind != ofSource:
		return s.known(ofSource, current.URL), 0, nil
	}
	return current, 0, nil
}

func kind(source bool) string {
	if source {
		return ofSource
	}
	return ofPage
}

// written is a value as the model wrote it.
func written(value any) string {
	text, _ := json.Marshal(value) // was JSON
	return shortened(string(text))
}

// follow returns what a link of a sheet leads to, and the line that it is about.
func (s *session) follow(current *sheet, id integer, source bool) (target *sheet, line int, err error) {
	if id.value >= len(current.Links) {
		return nil, 0, misused("Invalid link id `" + id.text + "`.")
	}
	address := current.Links[id.value]
	if source || current.Within == ofSource {
		return s.known(ofSource, address), lineOf(current, id.value), nil
	}
	return s.known(ofPage, address), lineOf(current, id.value), nil
}

// lineOf is the line that a link of a sheet is about.
func lineOf(current *sheet, id int) int {
	if id < len(current.Lines) {
		return current.Lines[id]
	}
	return 0
}

// known is the sheet of an address, an empty one where it was never shown.
func (s *session) known(kind, address string) *sheet {
	if found := s.history.find(kind, address); found != nil {
		return found
	}
	return &sheet{Kind: kind, URL: address}
}

// find shows where a pattern is on a page.
func (s *session) find(ctx context.Context, args arguments, action *tools.Action) (string, error) {
	pattern, ok := args.string("pattern")
	if !ok {
		return "", jsonError("Invalid function arguments")
	}
	// What is searched is told even where nothing comes of it.
	action.Pattern = pattern
	cursor, err := args.integer("cursor")
	if err != nil {
		return "", err
	}
	current, err := s.history.at(cursor)
	if err != nil {
		return "", err
	}
	action.URL = current.URL
	if current.Kind == ofSearch || current.Kind == ofFind {
		return "", misused("Cannot run `find` on search results page or find results page")
	}
	if !s.server.allows(current.URL) {
		return "", s.server.refused(current.address())
	}
	found := &sheet{Kind: ofFind, URL: current.URL, Pattern: strings.ToLower(pattern), Within: current.Kind}
	if err := s.fill(ctx, found); err != nil {
		return "", err
	}
	return s.display(found, integer{}, integer{})
}

// fill gets or makes the content of a sheet that has none.
func (s *session) fill(ctx context.Context, empty *sheet) error {
	switch {
	case empty.Text != "":
		return nil
	case empty.Kind == ofSearch:
		return s.fillSearch(ctx, empty)
	case empty.Kind == ofFind:
		within := s.known(empty.Within, empty.URL)
		if err := s.fill(ctx, within); err != nil {
			return err
		}
		empty.matches(within)
		return nil
	}
	return s.fillPage(ctx, empty)
}

func (s *session) fillPage(ctx context.Context, empty *sheet) error {
	document, err := s.server.backend.Fetch(ctx, empty.URL)
	if err != nil {
		return failed(ctx, "Error fetching URL `"+shortened(empty.address())+"`", err)
	}
	if document.URL != "" && !s.server.allows(document.URL) {
		return s.server.refused(document.URL)
	}
	if empty.Kind == ofSource || document.HTML == "" {
		text := cmp.Or(document.HTML, document.Text)
		read := page.FromText(text, empty.address(), titled(empty.URL, document.Title).Title)
		empty.Title, empty.Text = read.Title, read.Text
		return nil
	}
	// Some megabytes of hostile HTML take seconds; the call does not wait for them once it is over.
	done := make(chan page.Page, 1)
	address := empty.URL
	go func() { done <- page.FromHTML(document.HTML, address, document.Title) }()
	select {
	case read := <-done:
		empty.Title, empty.Text, empty.Links = read.Title, read.Text, read.Links
		return nil
	case <-ctx.Done():
		return failed(ctx, "Error fetching URL `"+shortened(empty.address())+"`", ctx.Err())
	}
}

// fillSearch makes the page of what was found as the published backends do: as HTML, with a list.
func (s *session) fillSearch(ctx context.Context, empty *sheet) error {
	wanted := max(1, min(empty.Wanted, maxHits)) // it was stored
	hits, err := s.server.search(ctx, empty.Query, wanted)
	if err != nil {
		return failed(ctx, "Error during search for `"+shortened(empty.Query)+"`", err)
	}
	var list strings.Builder
	titles := map[string]string{}
	for _, hit := range hits[:min(len(hits), wanted)] {
		title := page.OneLine(hit.Title)
		if title == "" {
			title = hit.URL
		}
		if link, err := url.Parse(hit.URL); err == nil && titles[link.String()] == "" {
			titles[link.String()] = title
		}
		fmt.Fprintf(&list, "<li><a href='%s'>%s</a> %s</li>", html.EscapeString(hit.URL), html.EscapeString(title), html.EscapeString(hit.Summary))
	}
	read := page.FromHTML("<h1>Search Results</h1><ul>"+list.String()+"</ul>", "", empty.Query)
	empty.Title, empty.Text, empty.Links, empty.Titles = read.Title, read.Text, read.Links, nil
	for _, link := range read.Links {
		empty.Titles = append(empty.Titles, titles[link])
	}
	return nil
}

// failed is why a backend gave nothing.
func failed(ctx context.Context, what string, err error) error {
	outcome := tools.Failed
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		outcome = tools.TimedOut
	case ctx.Err() != nil:
		outcome = tools.Cancelled
	}
	return &problem{text: what + ": " + shortened(page.OneLine(err.Error())), outcome: outcome}
}

// matches looks for the pattern of a sheet in another, whose lines are compared without links. What
// follows a match closely is not looked at: it is shown with it.
func (s *sheet) matches(within *sheet) {
	s.Title = "Find results for text: `" + page.OneLine(s.Pattern) + "` in `" + within.Title + "`"
	lines := strings.Split(page.WithoutLinks(strings.Join(within.lines(), "\n")), "\n")
	var found []string
	for at := 0; at < len(lines) && len(found) < maxMatches; at++ {
		if !strings.Contains(strings.ToLower(lines[at]), s.Pattern) {
			continue
		}
		shown := lines[at:min(at+matchLines, len(lines))]
		found = append(found, fmt.Sprintf("# 【%d†match at L%d】\n%s", len(found), at, strings.Join(shown, "\n")))
		s.Links, s.Lines = append(s.Links, within.URL), append(s.Lines, at)
		at += matchLines - 1
	}
	s.Text = strings.Join(found, "\n\n")
	if len(found) == 0 {
		s.Text = "No `find` results for pattern: `" + page.OneLine(s.Pattern) + "`"
	}
}
