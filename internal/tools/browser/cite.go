package browser

import (
	"net/url"
	"regexp"
	"strconv"
	"strings"

	"ossian/internal/tools"
	"ossian/internal/tools/browser/page"
)

// Cite implements tools.Citer: a display of a page, or of matches on one, is of that page, and one
// of a search is of the result that the line belongs to.
func (s *session) Cite(cursor, line int) (tools.Source, bool) {
	shown := s.history.shown(cursor)
	if shown == nil {
		return tools.Source{}, false
	}
	switch shown.Kind {
	case ofSearch:
		id, ok := shown.result(line)
		if !ok {
			return tools.Source{}, false
		}
		return titled(shown.Links[id], shown.Titles[id]), true
	case ofFind:
		// Matches are shown without a title: it is that of the page that was searched.
		title := ""
		if within := s.history.find(shown.Within, shown.URL); within != nil {
			title = within.Title
		}
		return titled(shown.URL, title), true
	}
	return titled(shown.URL, shown.Title), true
}

// titled is a source with a title, which is the host where there is none.
func titled(address, title string) tools.Source {
	if link, err := url.Parse(address); title == "" && err == nil {
		title = page.OneLine(link.Host)
	}
	return tools.Source{URL: address, Title: title}
}

// result returns which link of a search a line belongs to: an item begins with its link, and may be
// cut behind its mark.
func (s *sheet) result(line int) (id int, ok bool) {
	lines := s.lines()
	if line < 0 || line >= len(lines) {
		return 0, false
	}
	for ; line > 0 && !strings.HasPrefix(lines[line], item); line-- {
	}
	for _, text := range lines[line:min(line+2, len(lines))] {
		if found := itemLink.FindStringSubmatch(text); found != nil {
			id, err := strconv.Atoi(found[1])
			return id, err == nil && id < len(s.Links)
		}
		if text != item {
			break
		}
	}
	return 0, false
}

const item = "  * "

var itemLink = regexp.MustCompile(`^(?:  \* )?【([0-9]+)†`)
