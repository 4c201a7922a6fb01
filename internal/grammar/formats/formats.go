// Package formats has the regular expressions, in ECMA-262, of formats of strings that JSON Schema
// names. Each matches a whole string and takes in what its standard does, with a few bounds so that
// a model cannot write for ever.
package formats

// What strings of a format are. Of host names and the atoms of addresses the short ones stay below
// the lengths that their standards allow without counting.
const (
	leap = `(?:\d\d(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)` // years that 4 divides and 100 does not, or 400 does
	Date = `(?:\d{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\d|3[01])|(?:0[469]|11)-(?:0[1-9]|[12]\d|30)|02-(?:0[1-9]|1\d|2[0-8]))|` + leap + `-02-29)`

	// RFC 3339 5.6; a leap second ends a day of UTC.
	second = `(?:\.\d{1,20})?`
	Time   = `(?:(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d` + second + `(?:[Zz]|[+-](?:[01]\d|2[0-3]):[0-5]\d)|23:59:60` + second + `(?:[Zz]|[+-]00:00))`
	hours  = `T(?:\d{1,20}H(?:\d{1,20}M(?:\d{1,20}S)?)?|\d{1,20}M(?:\d{1,20}S)?|\d{1,20}S)`

	// Duration is that of RFC 3339, without years and months beside weeks.
	Duration = `P(?:\d{1,20}W|(?:\d{1,20}Y(?:\d{1,20}M(?:\d{1,20}D)?)?|\d{1,20}M(?:\d{1,20}D)?|\d{1,20}D)(?:` + hours + `)?|` + hours + `)`

	octet = `(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)`
	IPv4  = octet + `\.` + octet + `\.` + octet + `\.` + octet
	h16   = `[0-9a-fA-F]{1,4}`
	ls32  = `(?:` + h16 + `:` + h16 + `|` + IPv4 + `)`
	// RFC 3986 3.2.2, by how many groups stand in front of ::.
	IPv6 = `(?:(?:` + h16 + `:){6}` + ls32 + `|::(?:` + h16 + `:){5}` + ls32 + `|(?:` + h16 + `)?::(?:` + h16 + `:){4}` + ls32 +
		`|(?:(?:` + h16 + `:)?` + h16 + `)?::(?:` + h16 + `:){3}` + ls32 + `|(?:(?:` + h16 + `:){0,2}` + h16 + `)?::(?:` + h16 + `:){2}` + ls32 +
		`|(?:(?:` + h16 + `:){0,3}` + h16 + `)?::` + h16 + `:` + ls32 + `|(?:(?:` + h16 + `:){0,4}` + h16 + `)?::` + ls32 +
		`|(?:(?:` + h16 + `:){0,5}` + h16 + `)?::` + h16 + `|(?:(?:` + h16 + `:){0,6}` + h16 + `)?::)`

	JSONPointer = `(?:/(?:[^~/]|~[01])*)*`

	// Seven labels of 31 stay below the characters of a host name, and with a local part of
	// 62 below those of an address.
	shortLabel = `[A-Za-z0-9](?:[A-Za-z0-9]|-[A-Za-z0-9]){0,14}`
	ShortHost  = shortLabel + `(?:\.` + shortLabel + `){0,5}`
	ShortAtom  = `[A-Za-z0-9_+-]{1,20}(?:\.[A-Za-z0-9_+-]{1,20}){0,2}`

	// vocab.Characters beyond ASCII in an IRI (RFC 3987 2.2).
	ucschar = `\u00a0-\ud7ff\uf900-\ufdcf\ufdf0-\uffef\u{10000}-\u{1fffd}\u{20000}-\u{2fffd}\u{30000}-\u{3fffd}`
)

// URIs of RFC 3986 and IRIs of RFC 3987, and references: these may lack the scheme.
var (
	URI          = resources("").absolute()
	IRI          = resources(ucschar).absolute()
	URIReference = resources("").reference()
	IRIReference = resources(ucschar).reference()
)

// resources are the URIs of RFC 3986, or with more characters the IRIs of RFC 3987.
type resources string

// segment is a character of a path, or one of more.
func (r resources) segment(more string) string {
	return `(?:[A-Za-z0-9._~!$&'()*+,;=` + more + string(r) + `-]|%[0-9a-fA-F]{2})`
}

// tail is the rest behind the path: query and fragment.
func (r resources) tail() string {
	return `(?:\?` + r.segment(":@/?") + `*)?(?:#` + r.segment(":@/?") + `*)?`
}

// authority is //USER@HOST:PORT, each part but the host perhaps missing and the host perhaps
// empty. A percent sign in a host stands for a byte beyond ASCII. Addresses of later versions
// ([v1.x]) are left out: there are none, and common readers, Go's among them, refuse them.
func (r resources) authority() string {
	return `//(?:` + resources("").segment(":") + `*@)?(?:\[` + IPv6 + `\]|(?:[A-Za-z0-9._~!$&'()*+,;=` + string(r) + `-]|%[89a-fA-F][0-9a-fA-F])*)(?::\d*)?(?:/` + r.segment(":@") + `*)*`
}

// path is one that does not begin with an authority; first is its first segment.
func (r resources) path(first string) string {
	rest := `(?:/` + r.segment(":@") + `*)*`
	return `(?:/(?:` + r.segment(":@") + `+` + rest + `)?|` + first + `+` + rest + `)?`
}

func (r resources) absolute() string {
	return `[A-Za-z][A-Za-z0-9+.-]*:(?:` + r.authority() + `|` + r.path(r.segment(":@")) + `)` + r.tail()
}

func (r resources) reference() string {
	return `(?:` + r.absolute() + `|(?:` + r.authority() + `|` + r.path(r.segment("@")) + `)` + r.tail() + `)`
}

// Unstable are characters beyond ASCII that IDNA leaves out of letters, marks and digits,
// because they change under NFKC and folding of case, or by name (RFC 5892): first and last
// of ranges. The gaps between them have other characters that labels never have.
const Unstable = `aa-de 133-133 140-140 149-149 17f-17f 1c6-1cc 1f3-1f3 2b0-2b8 2e0-2e4 340-341 343-345 34f-34f 374-374 37a-37a 3d0-3d6 3f0-3f2 3f5-3f5 587-587 640-640 675-678 7fa-7fa ` +
	`958-95f 9dc-9df a33-a33 a36-a36 a59-a5b a5e-a5e b5c-b5d e33-e33 eb3-eb3 edc-edd f43-f43 f4d-f4d f52-f52 f57-f57 f5c-f5c f69-f69 f73-f73 f75-f79 f81-f81 f93-f93 f9d-f9d fa2-fa2 ` +
	`fa7-fa7 fac-fac fb9-fb9 10fc-10fc 1100-11ff 13f8-13fd 17b4-17b5 180b-180f 1c80-1c8a 1d2c-1d2e 1d30-1d3a 1d3c-1d4d 1d4f-1d6a 1d78-1d78 1d9b-1dbf 1e9a-1e9b 1f71-1f71 1f73-1f73 ` +
	`1f75-1f75 1f77-1f77 1f79-1f79 1f7b-1f7b 1f7d-1fa7 1fb2-1fb4 1fb7-1fc4 1fc7-1fc7 1fd3-1fd3 1fe3-1fe3 1ff2-1ff4 1ff7-2149 2c7c-2c7d 2d6f-2d6f 302e-3006 3008-303b 309f-309f 30ff-30ff ` +
	`3131-318e a69c-a69d a770-a770 a7f1-a7f4 a7f8-a7f9 a960-a97c ab5c-ab5f ab69-abbf d7b0-fa0d fa10-fa10 fa12-fa12 fa15-fa1e fa20-fa20 fa22-fa22 fa25-fa26 fa2a-fb1d fb1f-fe0f fe70-ffdc ` +
	`10781-107ba 1d165-1d7ff 1ee00-1fbf9 2f800-2fa1d e0100-e01ef`

// RightToLeft: scripts from right to left stand in these blocks. The rule of RFC 5893 lets their letters
// into labels of their own.
const RightToLeft = `590-6ef 6fa-8ff 10800-10fff 1e800-1efff`
