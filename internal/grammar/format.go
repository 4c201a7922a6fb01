package grammar

import (
	"fmt"
	"sync"

	"ossian/internal/grammar/formats"
	"ossian/internal/grammar/runes"
)

// A format is what a string of that format must be as a whole. It takes in what its
// standard does, with a few bounds of ours so that a model cannot write for ever.
type format struct {
	text  string                                      // a regular expression; "" = build
	build func(*pattern, *budget) (*automaton, error) // of formats with lengths inside of lengths
	most  int                                         // characters; 0 = no limit of its own
	short string                                      // a narrower expression without such a limit, for names of members
}

// knownFormats, by name. Others are annotations, as the standard says: those of languages and
// libraries (int32, binary, password, uuid4), and of the standard's own regex and uri-template,
// on which validators do not agree and the first of which no regular expression describes.
var knownFormats = map[string]format{
	"date":         {text: formats.Date},
	"time":         {text: formats.Time},
	"date-time":    {text: formats.Date + "[Tt]" + formats.Time},
	"duration":     {text: formats.Duration},
	"email":        {build: email, most: maxAddress, short: formats.ShortAtom + `@` + formats.ShortHost},
	"idn-email":    {build: internationalEmail, most: maxInternational, short: formats.ShortAtom + `@` + formats.ShortHost},
	"hostname":     {build: hostname, most: maxHost, short: formats.ShortHost},
	"idn-hostname": {build: internationalHost, most: maxInternational, short: formats.ShortHost},
	"ipv4":         {text: formats.IPv4},
	"ipv6":         {text: formats.IPv6},
	"uuid":         {text: `[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}`},
	"uri":          {text: formats.URI},
	"iri":          {text: formats.IRI},
	// A reference may lack its scheme; then its first segment has no colon.
	"uri-reference":         {text: formats.URIReference},
	"iri-reference":         {text: formats.IRIReference},
	"json-pointer":          {text: formats.JSONPointer},
	"relative-json-pointer": {text: `(?:0|[1-9]\d{0,19})(?:#|` + formats.JSONPointer + `)`},
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
func email(pattern *pattern, budget *budget) (*automaton, error) {
	local, err := pattern.part(budget, `^(?=.{1,%d}$)(?:[A-Za-z0-9!#$%%&'*+/=?^_{|}~\x60-]+(?:\.[A-Za-z0-9!#$%%&'*+/=?^_{|}~\x60-]+)*|"[ !#-[\]-~]*")$`, maxLocal)
	if err != nil {
		return nil, err
	}
	label, err := pattern.part(budget, labels, maxLabel)
	if err != nil {
		return nil, err
	}
	literal, err := pattern.part(budget, `^\[(?:%s|IPv6:%s)\]$`, formats.IPv4, formats.IPv6)
	if err != nil {
		return nil, err
	}
	return simple(cat(local, lit("@"), alt(separated(label, lit(".")), literal)), pattern.quoted, budget)
}

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
	letters := runes.Without(read(`[a-z0-9\p{Ll}\p{Lo}\p{Lm}\p{Mn}\p{Mc}\p{Nd}\x{f0b}\x{3007}]`), runes.Parse(formats.Unstable))
	marks := read(`[\p{M}\x{660}-\x{669}]`)
	right := runes.Parse(formats.RightToLeft)
	for i, chars := range [][]rune{runes.Without(letters, right), runes.Without(letters, runes.Negate(right))} {
		all[i] = script{class(chars...), class(runes.Without(chars, marks)...)}
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
func internationalEmail(pattern *pattern, budget *budget) (*automaton, error) {
	host, err := pattern.internationalHost(budget)
	if err != nil {
		return nil, err
	}
	atom := `[A-Za-z0-9!#$%%&'*+/=?^_{|}~\x60%s-]+`
	local, err := pattern.part(budget, `^(?=.{1,%d}$)`+fmt.Sprintf(atom, "")+`(?:\.`+fmt.Sprintf(atom, "")+`)*$`, maxInternational)
	if err != nil {
		return nil, err
	}
	const letters = `\x{a1}-\x{167f}\x{1681}-\x{1fff}\x{2c00}-\x{2fff}\x{3001}-\x{d7ff}\x{f900}-\x{fdcf}\x{10000}-\x{1fffd}\x{20000}-\x{2fffd}`
	wide, err := pattern.part(budget, `^(?=.{1,%d}$)`+fmt.Sprintf(atom, letters)+`(?:\.`+fmt.Sprintf(atom, letters)+`)*$`, maxLocal/4)
	if err != nil {
		return nil, err
	}
	return simple(cat(alt(local, wide), lit("@"), host), pattern.quoted, budget)
}

// formatted returns the automaton of a format at where, or nil with the error noted; for a
// name of a member a narrower one.
func (c *compiler) formatted(where *value, name string, count int, member bool) *automaton {
	known := knownFormats[name]
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
func isFormat(name string) bool { _, known := knownFormats[name]; return known }

// lengthSpan is span for the lengths of strings: formats have limits of their own.
func lengthSpan(schemas []*value) (lo, hi int) {
	lo, hi = span(schemas, "minLength", "maxLength")
	for _, schema := range schemas {
		keyword := schema.get("format")
		if keyword == nil {
			continue
		}
		if most := knownFormats[keyword.text].most; most > 0 && (hi < 0 || hi > most) {
			hi = most
		}
	}
	return lo, hi
}
