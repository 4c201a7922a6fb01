package grammar

// formats are regular expressions for the whole of a string. They are stricter than
// the standards where these allow what few programs read, such as quoted local parts
// of addresses. Formats that are in neither list are annotations, as the standard
// says; they come from languages and libraries (int32, binary, password, path).
var formats = map[string]string{
	"date":         date,
	"time":         clock + zone,
	"date-time":    date + "T" + clock + zone,
	"duration":     `P(?:\d{1,4}W|(?:\d{1,4}Y(?:\d{1,4}M(?:\d{1,4}D)?)?|\d{1,4}M(?:\d{1,4}D)?|\d{1,4}D)(?:` + hours + `)?|` + hours + `)`,
	"email":        email,
	"idn-email":    email,
	"hostname":     hostname,
	"idn-hostname": hostname,
	"ipv4":         ipv4,
	"ipv6":         `(?:` + ipv6 + `)`,
	"uuid":         `[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}`,
	"uri":          scheme + rest,
	"iri":          scheme + rest,
	// A reference may lack its scheme; then its first segment has no colon.
	"uri-reference":         `(?:` + scheme + rest + `|` + relative + `)`,
	"iri-reference":         `(?:` + scheme + rest + `|` + relative + `)`,
	"json-pointer":          pointer,
	"relative-json-pointer": `(?:0|[1-9]\d{0,8})(?:#|` + pointer + `)`,
}

// openFormats are standard formats that no regular expression describes.
var openFormats = []string{"regex", "uri-template"}

const (
	leap = `(?:\d\d(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)` // years that 4 divides and 100 does not, or 400 does
	date = `(?:\d{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\d|3[01])|(?:0[469]|11)-(?:0[1-9]|[12]\d|30)|02-(?:0[1-9]|1\d|2[0-8]))|` + leap + `-02-29)`

	clock = `(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d{1,9})?`
	zone  = `(?:Z|[+-](?:[01]\d|2[0-3]):[0-5]\d)`
	hours = `T(?:\d{1,4}H(?:\d{1,4}M(?:\d{1,4}S)?)?|\d{1,4}M(?:\d{1,4}S)?|\d{1,4}S)`

	// Seven labels of 31 stay below the 253 characters of a host name, and six with a
	// local part of 62 below the 254 of an address.
	label    = `[A-Za-z0-9](?:[A-Za-z0-9-]{0,29}[A-Za-z0-9])?`
	hostname = label + `(?:\.` + label + `){0,6}`
	email    = `[A-Za-z0-9_+-]{1,20}(?:\.[A-Za-z0-9_+-]{1,20}){0,2}@` + label + `(?:\.` + label + `){1,5}`

	octet = `(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)`
	ipv4  = octet + `\.` + octet + `\.` + octet + `\.` + octet
	h16   = `[0-9a-fA-F]{1,4}`
	ipv6  = `(?:` + h16 + `:){7}` + h16 +
		`|(?:` + h16 + `:){1,6}:` + h16 + `|(?:` + h16 + `:){1,5}(?::` + h16 + `){1,2}|(?:` + h16 + `:){1,4}(?::` + h16 + `){1,3}` +
		`|(?:` + h16 + `:){1,3}(?::` + h16 + `){1,4}|(?:` + h16 + `:){1,2}(?::` + h16 + `){1,5}|` + h16 + `:(?::` + h16 + `){1,6}` +
		`|:(?::` + h16 + `){1,7}|(?:` + h16 + `:){1,7}:|::`

	pchar    = `(?:[A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9a-fA-F]{2})`
	query    = `(?:\?(?:` + pchar + `|[/?])*)?(?:#(?:` + pchar + `|[/?])*)?`
	scheme   = `[A-Za-z][A-Za-z0-9+.-]*:`
	rest     = `(?://` + label + `(?:\.` + label + `){0,3}(?::[1-9]\d{0,3})?(?:/` + pchar + `*)*|` + pchar + `+(?:/` + pchar + `*)*)` + query
	relative = `(?:/|(?:/?(?:[A-Za-z0-9._~!$&'()*+,;=@-]|%[0-9a-fA-F]{2})+(?:/` + pchar + `*)*)?)` + query
	pointer  = `(?:/(?:[^~/]|~[01])*)*`
)
