package tools

import (
	"encoding/json"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// displays are the pages that a browser elsewhere has shown, by cursor: one that is called as a
// server of the Model Context Protocol and tells of its pages only in the text for the model
// (tools.md 3.3). What it found is not in there, so searches cannot be cited.
type displays map[int]Source

// maxDisplays is how many displays of a chain are remembered, the latest.
const maxDisplays = 1024

// displaysState is the name of displays among the states of servers, none of which is called so.
const displaysState = "/displays"

// The head of a display, and the page's own address in it, which the head has without escapes.
var (
	displayHead    = regexp.MustCompile(`^\[([0-9]{1,9})\] ([^\n]*?)(?: \(((?:view-source:)?https?://[^\n]+)\))?\n\*\*viewing lines \[`)
	displayAddress = regexp.MustCompile(`\nL1: URL: (https?://\S{1,65})\n`)
	findTitle      = regexp.MustCompile("^Find results for text: `.*` in `(.*)`$")
)

// note remembers what the text of a result displays, and returns what was done; nil = another tool.
func (d displays) note(tool, arguments, text string) *Action {
	var asked map[string]any
	_ = json.Unmarshal([]byte(arguments), &asked) // what cannot be read does not say more
	word := func(name string) string { text, _ := asked[name].(string); return text }
	cursor, shown, ok := readDisplay(text)
	if ok && shown.URL != "" {
		d[cursor] = shown
	} else if ok {
		delete(d, cursor)
	}
	if len(d) > maxDisplays {
		delete(d, slices.Min(slices.Collect(maps.Keys(d))))
	}
	switch tool {
	case "search":
		return &Action{Type: "search", Query: word("query")}
	case "find":
		return &Action{Type: "find_in_page", Pattern: word("pattern"), URL: shown.URL}
	case "open":
		if id := word("id"); strings.Contains(id, "://") {
			shown.URL = strings.TrimPrefix(id, "view-source:")
		}
		return &Action{Type: "open_page", URL: shown.URL}
	}
	return nil
}

// readDisplay reads the head of a display: of what page it is, if it is of one.
func readDisplay(text string) (cursor int, shown Source, ok bool) {
	head := displayHead.FindStringSubmatch(text)
	if head == nil {
		return 0, Source{}, false
	}
	cursor, _ = strconv.Atoi(head[1]) // nine digits
	shown.Title = head[2]
	address := strings.TrimPrefix(head[3], "view-source:")
	if found := findTitle.FindStringSubmatch(head[2]); found != nil {
		shown.Title = found[1]
		if at := strings.LastIndex(address, "/find?pattern="); at >= 0 {
			address = address[:at]
		}
	}
	if own := displayAddress.FindStringSubmatch(text); own != nil {
		address = own[1]
	}
	link, err := url.Parse(strings.ReplaceAll(address, " ", "%20"))
	if err != nil || link.Host == "" || strings.HasSuffix(address, "...") {
		return cursor, Source{}, true
	}
	shown.URL = link.String()
	if shown.Title == "" {
		shown.Title = link.Host
	}
	return cursor, shown, true
}
