package source

import (
	"bytes"
	"mime"
	"net/http"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/html/charset"
)

// A kind says what content is for a browser.
type kind uint8

const (
	unreadable kind = iota
	page            // HTML
	plain           // text of any sort
)

// kindOf returns what content of a media type is, and that type; where none is told, or one that
// says nothing, the content shows it.
func kindOf(contentType string, content []byte) (kind, string) {
	media, _, _ := mime.ParseMediaType(contentType) // with parameters that are none it is told too
	if media == "" || media == "application/octet-stream" || media == "binary/octet-stream" {
		media, _, _ = mime.ParseMediaType(http.DetectContentType(content))
		if media == "application/octet-stream" && utf8.Valid(content) && !binary(content) {
			media = "text/plain"
		}
	}
	switch {
	case media == "text/html", media == "application/xhtml+xml":
		return page, media
	case strings.HasPrefix(media, "text/"), strings.HasSuffix(media, "+json"), strings.HasSuffix(media, "+xml"), strings.HasSuffix(media, "+yaml"):
		return plain, media
	}
	switch media {
	case "application/json", "application/xml", "application/x-ndjson", "application/jsonl", "application/yaml", "application/x-yaml", "application/toml",
		"application/javascript", "application/x-javascript", "application/x-sh", "application/sql", "application/x-tex", "application/rtf":
		return plain, media
	}
	return unreadable, media
}

// binary reports whether content cannot be text of 8-bit characters: a NUL among its first bytes.
func binary(content []byte) bool { return bytes.IndexByte(content[:min(len(content), 8<<10)], 0) >= 0 }

// text returns content in UTF-8. Its encoding is what its byte order mark says, else its header,
// else, of HTML, its meta element; else it is UTF-8 where it can be, and windows-1252 where not
// (HTML Living Standard 13.2.3.2).
func text(content []byte, contentType string) string {
	media, _, _ := mime.ParseMediaType(contentType)
	if media == "application/json" || strings.HasSuffix(media, "+json") {
		contentType = "application/json; charset=utf-8" // RFC 8259 8.1, whatever is told
	}
	encoding, name, certain := charset.DetermineEncoding(content, contentType)
	guessed := name == "windows-1252" || (media != "text/html" && media != "application/xhtml+xml")
	decoded := content
	if certain || !guessed || !utf8.Valid(content) {
		if whole, err := encoding.NewDecoder().Bytes(content); err == nil {
			decoded = whole
		}
	}
	return strings.TrimPrefix(strings.ToValidUTF8(string(decoded), "\ufffd"), "\ufeff")
}

// utf16 reports whether content begins with a byte order mark of UTF-16.
func utf16(content []byte) bool {
	return bytes.HasPrefix(content, []byte("\xff\xfe")) || bytes.HasPrefix(content, []byte("\xfe\xff"))
}
