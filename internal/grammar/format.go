package grammar

import (
	"fmt"
	"slices"
	"strings"
	"sync"
)

// A format is what a string of that format must be as a whole. It takes in what its
// standard does, with a few bounds of ours so that a model cannot write for ever.
type format struct {
	text  string                                      // a regular expression; "" = build
	build func(*pattern, *budget) (*automaton, error) // of formats with lengths inside of lengths
	most  int                                         // characters; 0 = no limit of its own
	short string                                      // a narrower expression without such a limit, for names of members
}

// formats by name. Those that are neither here nor in openFormats are annotations, as the
// standard says; they come from languages and libraries (int32, binary, password, uuid4).
var formats = map[string]format{
	"date":         {text: date},
	"time":         {text: clock},
	"date-time":    {text: date + "[Tt]" + clock},
	"duration":     {text: `P(?:\d{1,20}W|(?:\d{1,20}Y(?:\d{1,20}M(?:\d{1,20}D)?)?|\d{1,20}M(?:\d{1,20}D)?|\d{1,20}D)(?:` + hours + `)?|` + hours + `)`},
	"email":        {build: email, most: maxAddress, short: shortAtom + `@` + shortHost},
	"idn-email":    {build: internationalEmail, most: maxInternational, short: shortAtom + `@` + shortHost},
	"hostname":     {build: hostname, most: maxHost, short: shortHost},
	"idn-hostname": {build: internationalHost, most: maxInternational, short: shortHost},
	"ipv4":         {text: ipv4},
	"ipv6":         {text: ipv6},
	"uuid":         {text: `[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}`},
	"uri":          {text: resources("").absolute()},
	"iri":          {text: resources(ucschar).absolute()},
	// A reference may lack its scheme; then its first segment has no colon.
	"uri-reference":         {text: resources("").reference()},
	"iri-reference":         {text: resources(ucschar).reference()},
	"json-pointer":          {text: pointer},
	"relative-json-pointer": {text: `(?:0|[1-9]\d{0,19})(?:#|` + pointer + `)`},
}

// openFormats are standard formats that output is not held to: validators do not agree on
// them, and no regular expression describes the first.
var openFormats = []string{"regex", "uri-template"}

const (
	leap = `(?:\d\d(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)` // years that 4 divides and 100 does not, or 400 does
	date = `(?:\d{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\d|3[01])|(?:0[469]|11)-(?:0[1-9]|[12]\d|30)|02-(?:0[1-9]|1\d|2[0-8]))|` + leap + `-02-29)`

	// RFC 3339 5.6; a leap second ends a day of UTC.
	second = `(?:\.\d{1,20})?`
	clock  = `(?:(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d` + second + `(?:[Zz]|[+-](?:[01]\d|2[0-3]):[0-5]\d)|23:59:60` + second + `(?:[Zz]|[+-]00:00))`
	hours  = `T(?:\d{1,20}H(?:\d{1,20}M(?:\d{1,20}S)?)?|\d{1,20}M(?:\d{1,20}S)?|\d{1,20}S)`

	octet = `(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)`
	ipv4  = octet + `\.` + octet + `\.` + octet + `\.` + octet
	h16   = `[0-9a-fA-F]{1,4}`
	ls32  = `(?:` + h16 + `:` + h16 + `|` + ipv4 + `)`
	// RFC 3986 3.2.2, by how many groups stand in front of ::.
	ipv6 = `(?:(?:` + h16 + `:){6}` + ls32 + `|::(?:` + h16 + `:){5}` + ls32 + `|(?:` + h16 + `)?::(?:` + h16 + `:){4}` + ls32 +
		`|(?:(?:` + h16 + `:)?` + h16 + `)?::(?:` + h16 + `:){3}` + ls32 + `|(?:(?:` + h16 + `:){0,2}` + h16 + `)?::(?:` + h16 + `:){2}` + ls32 +
		`|(?:(?:` + h16 + `:){0,3}` + h16 + `)?::` + h16 + `:` + ls32 + `|(?:(?:` + h16 + `:){0,4}` + h16 + `)?::` + ls32 +
		`|(?:(?:` + h16 + `:){0,5}` + h16 + `)?::` + h16 + `|(?:(?:` + h16 + `:){0,6}` + h16 + `)?::)`

	pointer = `(?:/(?:[^~/]|~[01])*)*`

	// Seven labels of 31 stay below the characters of a host name, and with a local part of
	// 62 below those of an address.
	shortLabel = `[A-Za-z0-9](?:[A-Za-z0-9]|-[A-Za-z0-9]){0,14}`
	shortHost  = shortLabel + `(?:\.` + shortLabel + `){0,5}`
	shortAtom  = `[A-Za-z0-9_+-]{1,20}(?:\.[A-Za-z0-9_+-]{1,20}){0,2}`

	// Characters beyond ASCII in an IRI (RFC 3987 2.2).
	ucschar = `\u00a0-\ud7ff\uf900-\ufdcf\ufdf0-\uffef\u{10000}-\u{1fffd}\u{20000}-\u{2fffd}\u{30000}-\u{3fffd}`
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
// empty. A percent sign in a host stands for a byte beyond ASCII.
func (r resources) authority() string {
	return `//(?:` + resources("").segment(":") + `*@)?(?:\[` + ipv6 + `\]|(?:[A-Za-z0-9._~!$&'()*+,;=` + string(r) + `-]|%[89a-fA-F][0-9a-fA-F])*)(?::\d*)?(?:/` + r.segment(":@") + `*)*`
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

// Lengths of names in the DNS and of addresses of mail (RFC 1035 2.3.4, RFC 5321 4.5.3.1).
// Of names beyond ASCII, which count as their Punycode, as many characters as mostly fit.
const (
	maxLabel         = 63
	maxHost          = 253
	maxLocal         = 64
	maxAddress       = 254
	maxInternational = 63
)

// labels are the labels of host names; those of Punycode would have to be decoded.
const labels = `^(?=.{1,%d}$)(?![xX][nN]--)[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?$`

// part compiles one part of a format, a regular expression of ECMA-262.
func (p *pattern) part(b *budget, form string, args ...any) (*expr, error) {
	out, err := compilePattern(fmt.Sprintf(form, args...), pattern{search: true, quoted: p.quoted, own: true}, b)
	if err != nil {
		return nil, err
	}
	return machine(out), nil
}

// separated matches e once or more, with a separator between.
func separated(e, separator *expr) *expr { return cat(e, star(cat(separator, e))) }

// hostname has the names of RFC 1123.
func hostname(p *pattern, b *budget) (*automaton, error) {
	label, err := p.part(b, labels, maxLabel)
	if err != nil {
		return nil, err
	}
	return simple(separated(label, lit(".")), p.quoted, b)
}

// email has the addresses of RFC 5321: atoms or a text in quotes, and a host or an address
// of one.
func email(p *pattern, b *budget) (*automaton, error) {
	local, err := p.part(b, `^(?=.{1,%d}$)(?:[A-Za-z0-9!#$%%&'*+/=?^_{|}~\x60-]+(?:\.[A-Za-z0-9!#$%%&'*+/=?^_{|}~\x60-]+)*|"[ !#-[\]-~]*")$`, maxLocal)
	if err != nil {
		return nil, err
	}
	label, err := p.part(b, labels, maxLabel)
	if err != nil {
		return nil, err
	}
	literal, err := p.part(b, `^\[(?:%s|IPv6:%s)\]$`, ipv4, ipv6)
	if err != nil {
		return nil, err
	}
	return simple(cat(local, lit("@"), alt(separated(label, lit(".")), literal)), p.quoted, b)
}

// unstable are characters beyond ASCII that IDNA leaves out of letters, marks and digits,
// because they change under NFKC and folding of case, or by name (RFC 5892): first and last
// of ranges. The gaps between them have other characters that labels never have.
const unstable = `aa-de 133-133 140-140 149-149 17f-17f 1c6-1cc 1f3-1f3 2b0-2b8 2e0-2e4 340-341 343-345 34f-34f 374-374 37a-37a 3d0-3d6 3f0-3f2 3f5-3f5 587-587 640-640 675-678 7fa-7fa ` +
	`958-95f 9dc-9df a33-a33 a36-a36 a59-a5b a5e-a5e b5c-b5d e33-e33 eb3-eb3 edc-edd f43-f43 f4d-f4d f52-f52 f57-f57 f5c-f5c f69-f69 f73-f73 f75-f79 f81-f81 f93-f93 f9d-f9d fa2-fa2 ` +
	`fa7-fa7 fac-fac fb9-fb9 10fc-10fc 1100-11ff 13f8-13fd 17b4-17b5 180b-180f 1c80-1c8a 1d2c-1d2e 1d30-1d3a 1d3c-1d4d 1d4f-1d6a 1d78-1d78 1d9b-1dbf 1e9a-1e9b 1f71-1f71 1f73-1f73 ` +
	`1f75-1f75 1f77-1f77 1f79-1f79 1f7b-1f7b 1f7d-1fa7 1fb2-1fb4 1fb7-1fc4 1fc7-1fc7 1fd3-1fd3 1fe3-1fe3 1ff2-1ff4 1ff7-2149 2c7c-2c7d 2d6f-2d6f 302e-3006 3008-303b 309f-309f 30ff-30ff ` +
	`3131-318e a69c-a69d a770-a770 a7f1-a7f4 a7f8-a7f9 a960-a97c ab5c-ab5f ab69-abbf d7b0-fa0d fa10-fa10 fa12-fa12 fa15-fa1e fa20-fa20 fa22-fa22 fa25-fa26 fa2a-fb1d fb1f-fe0f fe70-ffdc ` +
	`10781-107ba 1d165-1d7ff 1ee00-1fbf9 2f800-2fa1d e0100-e01ef`

// Scripts from right to left stand in these blocks. The rule of RFC 5893 lets their letters
// into labels of their own.
const rightToLeft = `590-6ef 6fa-8ff 10800-10fff 1e800-1efff`

// ranges reads pairs of hexadecimal numbers.
func ranges(text string) (pairs []rune) {
	for _, pair := range strings.Fields(text) {
		var lo, hi rune
		if n, err := fmt.Sscanf(pair, "%x-%x", &lo, &hi); n == 2 && err == nil && lo <= hi {
			pairs = append(pairs, lo, hi)
		}
	}
	return ordered(pairs)
}

// without is the class a without the characters of b.
func without(a, b []rune) []rune { return negate(ordered(append(negate(a), b...))) }

// A script holds the classes of labels beyond ASCII: all letters, marks and digits, and
// those that a label may begin with.
type script struct{ any, first *expr }

// scripts returns those from left to right and those from right to left.
var scripts = sync.OnceValue(func() (all [2]script) {
	read := func(text string) []rune {
		body, fault := parsePattern(text, false)
		if fault != nil || body.op != opClass {
			return nil
		}
		return body.class
	}
	letters := without(read(`[a-z0-9\p{Ll}\p{Lo}\p{Lm}\p{Mn}\p{Mc}\p{Nd}\x{f0b}\x{3007}]`), ranges(unstable))
	marks := read(`[\p{M}\x{660}-\x{669}]`)
	right := ranges(rightToLeft)
	for i, chars := range [][]rune{without(letters, right), without(letters, negate(right))} {
		all[i] = script{class(chars...), class(without(chars, marks)...)}
	}
	return all
})

// internationalHost has host names with labels of any script (RFC 5890 to 5893), without
// hyphens at two places together, and characters that need a neighbour with that neighbour.
func internationalHost(p *pattern, b *budget) (*automaton, error) {
	body, err := p.internationalHost(b)
	if err != nil {
		return nil, err
	}
	return simple(body, p.quoted, b)
}

func (p *pattern) internationalHost(b *budget) (*expr, error) {
	ascii, err := p.part(b, labels, maxInternational)
	if err != nil {
		return nil, err
	}
	named, err := p.part(b, `^(?=.{1,%d}$)(?![xX][nN]--)[A-Za-z](?:[A-Za-z0-9-]*[A-Za-z0-9])?$`, maxInternational)
	if err != nil {
		return nil, err
	}
	contexts := make(map[string]*expr)
	for name, text := range map[string]string{
		"left":  `l(?:·l)+|͵\p{Greek}|[\p{Devanagari}\p{Bengali}\p{Tamil}\p{Telugu}\p{Kannada}\p{Malayalam}\p{Gujarati}\p{Sinhala}][\x{94d}\x{9cd}\x{bcd}\x{c4d}\x{ccd}\x{d4d}\x{acd}\x{dca}][\x{200c}\x{200d}]|[\p{Hiragana}\p{Katakana}\p{Han}]・+|・+[ぁ-んァ-ヶ一-龥]`,
		"right": `[\x{5d0}-\x{5ea}][׳״]+|[ئبتثجحخسشصضطظعغفقكلمنهيپچکگی]\x{200c}[ئبتثجحخسشصضطظعغفقكلمنهيپچکگیاأدذرزوآ]`,
	} {
		body, fault := parsePattern(text, false)
		if fault != nil {
			return nil, fault
		}
		contexts[name] = body
	}
	all := scripts()
	label := func(of script, context *expr) *expr {
		hyphen := opt(lit("-"))
		return cat(alt(of.first, context), star(cat(hyphen, alt(of.any, context))))
	}
	dot := class('.', '.', '。', '。', '．', '．', '｡', '｡')
	left, right := label(all[0], contexts["left"]), label(all[1], contexts["right"])
	return alt(separated(alt(ascii, left), dot), separated(alt(named, right), dot)), nil
}

// internationalEmail has addresses with any letters in the local part (RFC 6531), which
// counts in bytes: at most 64, so 16 characters where one is beyond ASCII.
func internationalEmail(p *pattern, b *budget) (*automaton, error) {
	host, err := p.internationalHost(b)
	if err != nil {
		return nil, err
	}
	atom := `[A-Za-z0-9!#$%%&'*+/=?^_{|}~\x60%s-]+`
	local, err := p.part(b, `^(?=.{1,%d}$)`+fmt.Sprintf(atom, "")+`(?:\.`+fmt.Sprintf(atom, "")+`)*$`, maxInternational)
	if err != nil {
		return nil, err
	}
	const letters = `\x{a1}-\x{167f}\x{1681}-\x{1fff}\x{2c00}-\x{2fff}\x{3001}-\x{d7ff}\x{f900}-\x{fdcf}\x{10000}-\x{1fffd}\x{20000}-\x{2fffd}`
	wide, err := p.part(b, `^(?=.{1,%d}$)`+fmt.Sprintf(atom, letters)+`(?:\.`+fmt.Sprintf(atom, letters)+`)*$`, maxLocal/4)
	if err != nil {
		return nil, err
	}
	return simple(cat(alt(local, wide), lit("@"), host), p.quoted, b)
}

// formatted returns the automaton of a format at where, or nil with the error noted; for a
// name of a member a narrower one.
func (c *compiler) formatted(where *value, name string, count int, member bool) *automaton {
	known := formats[name]
	text := known.text
	if member && known.short != "" {
		text = known.short
	}
	if text != "" {
		return c.compiled(where, text, pattern{quoted: true, count: count, own: true})
	}
	key := "format " + name
	if out, ok := c.machines[key]; ok {
		return out
	}
	out, err := known.build(&pattern{quoted: true, where: where.path()}, c.budget)
	if err != nil {
		c.fail(located(err, where.path()))
		return nil
	}
	c.machines[key] = out
	return out
}

// isFormat reports whether output is held to a format.
func isFormat(name string) bool { _, known := formats[name]; return known }

// lengthSpan is span for the lengths of strings: formats have limits of their own.
func lengthSpan(schemas []*value) (lo, hi int) {
	lo, hi = span(schemas, "minLength", "maxLength")
	for _, schema := range schemas {
		keyword := schema.get("format")
		if keyword == nil {
			continue
		}
		if most := formats[keyword.text].most; most > 0 && (hi < 0 || hi > most) {
			hi = most
		}
	}
	return lo, hi
}

// isOpenFormat reports whether a format is one of the standard that output is not held to.
func isOpenFormat(name string) bool { return slices.Contains(openFormats, name) }
