// Package config turns flags, environment and a YAML file into the settings of
// `ossian serve`, remembers where each value came from, and says what flags of
// vLLM mean here. Its users need not know spellings, precedence, vLLM's argument
// language or YAML.
package config

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"ossian/internal/draft"
	"ossian/internal/limits"
	"ossian/internal/wire"
)

// Settings are the values in force. Zero means automatic where a comment says so.
type Settings struct {
	Model       string   // name or path of the first; "" = the default model
	Models      []Named  // all; nil = the default one
	Resident    int      // of these, in memory at once
	Device      string   // auto, cpu, cuda, cuda:N, sim:MACHINE
	ServedNames []string // names that requests may use; nil = the model's own
	Template    string   // file or text of a chat template; "" = the model's own

	Host           string
	Port           int      // 0 = any free one
	APIKeys        []string // of api-key and KeyFile; nil = no key needed
	KeyFile        string   // "" = none
	Insecure       bool     // other machines may connect without a key
	Page           bool     // answer / with the page
	OpenPage       bool     // show it in a browser at the start
	AllowedHosts   []string // of the Host header besides this machine's; "*" = all
	AllowedOrigins []string // CORS; nil = off

	CertFile     string             // with the server's certificate; "" = plain HTTP; see TLS
	CertKeyFile  string             // with its private key; "" = that is in CertFile
	ClientCAFile string             // with who may vouch for clients
	ClientCerts  tls.ClientAuthType // NoClientCert, VerifyClientCertIfGiven, RequireAndVerifyClientCert

	Preset         string        // max-throughput, min-latency, balanced: what chooses the limits that are 0 here; "" = none
	PresetUsers    int           // at once, of min-latency
	Threads        int           // 0 = all
	MaxModelLen    int           // tokens; 0 = the checkpoint's, or what fits
	MaxNumSeqs     int           // sequences per step; 0 = what fits, at most 256
	MaxBatchTokens int           // new tokens per step; 0 = 512
	ChunkLimit     int           // of them of one prompt; 0 = as many as the step has room for
	StepTime       time.Duration // that a step may take while replies are written; 0 = any
	CrowdTime      time.Duration // the same while two requests or more wait for their first token; less than StepTime = as StepTime
	KVBlocks       int           // KV blocks of each group; 0 = what MaxNumSeqs × MaxModelLen needs or what fits
	KVMemory       int64         // bytes that keys and values take at most; 0 = what the memory plan leaves
	KVCacheDType   string        // auto, bf16, f32, fp8
	MemoryShare    float64       // of the available memory that may be planned for; 0 = 0.9
	PrefixCaching  bool
	Overlap        bool   // plan a step while another runs, where the device can
	Activations    int    // bits; 0 = automatic
	Weights        string // auto, bf16, q8: what becomes of 16- and 32-bit matrices
	Packed         string // auto, on, off: whether repacked matrices are kept in a file
	Exact          bool
	Verify         bool // look for damage before use

	StreamInterval    int // tokens per chunk at most, after the first
	Seed              *int64
	CheckpointSampler bool // sampling defaults from the checkpoint's generation config
	ReasoningField    wire.ReasoningField
	Strict            bool // refuse unknown request fields

	ToolServers       []string // demo, and addresses of servers of MCP, with a name before "=" or without; nil = none
	ToolsDefault      []string // types of tools of requests that have no tools
	CitationLinks     bool     // citations of pages become links
	MCPAllow          []string // HOST[:PORT] that requests may name
	BrowserBackend    string   // youcom, exa, http, corpus
	BrowserCorpus     string   // a directory; "" = none
	BrowserSearch     string   // URL with {query}; "" = none
	ExaKey, YouComKey string   // of services; "" = none
	PythonBackend     string   // "" = sandbox, else wasm
	PythonInterpreter string   // "" = python3 in PATH
	PythonWASM        string   // a file; "" = none
	PythonJupyter     string   // a file; "" = none

	Store         string // directory for stored responses; auto, memory
	DrainTimeout  time.Duration
	MetricsPrefix string
	HiddenMetrics bool
	OpenMetrics   bool   // /metrics needs no key
	LogLevel      string // debug, info, warn, error
	LogFormat     string // auto, text, json
	AccessLog     bool

	KVEvents string // JSON of kvevents.Config; "" = off

	Speculation *draft.Settings // guesses that are checked beside tokens; nil = none

	Limits  *limits.Set
	Explain bool // print the settings and end
}

// Open reports whether other machines may use the server without a key or a certificate.
func (s *Settings) Open() bool {
	return !loopback(s.Host) && len(s.APIKeys) == 0 && !s.Vouched()
}

// Vouched reports whether every client has to show a certificate.
func (s *Settings) Vouched() bool {
	return s.CertFile != "" && s.ClientCerts == tls.RequireAndVerifyClientCert
}

// Config is what Load found.
type Config struct {
	Settings
	Notes []string // lines to print: warnings, and what accepted flags mean here

	rows     []row             // all settings, in the order of Explain
	values   map[string]*value // by name; there is one for every row
	resolved []limits.ID       // limits that came out of facts, not of what was given
}

// value is the text of one setting with its origin.
type value struct {
	texts  []string // one, or the items of a list
	origin string   // "default", "command line", "file tuned.yaml", "environment OSSIAN_PORT"
	reason string   // why it is so; for the default the row's
}

// Source is where settings come from. Later ones win: defaults, File named by
// --config, Env, Args.
type Source struct {
	Args     []string                          // behind the subcommand
	Env      []string                          // as os.Environ returns it
	ReadFile func(name string) ([]byte, error) // reads the files of --config and --api-key-file; nil = os.ReadFile
}

// ErrHelp is returned by Load for --help and -h.
var ErrHelp = errors.New("help requested")

// Load reads, merges and checks the settings. Nothing is applied when it returns
// an error.
func Load(src Source) (*Config, error) {
	loaded := &Config{rows: rows(), values: map[string]*value{}}
	given, err := loaded.arguments(src.Args)
	if err != nil {
		return nil, err
	}
	fromFile := map[string]*value{}
	if src.ReadFile == nil {
		src.ReadFile = os.ReadFile
	}
	if file := given["config"]; file != nil {
		if fromFile, err = loaded.file(file.texts[0], src.ReadFile); err != nil {
			return nil, err
		}
	}
	if err := groupComplete(src.Env); err != nil {
		return nil, err
	}
	// For each row the last source that names it, else its default.
	fromEnv := loaded.environment(src.Env)
	for i := range loaded.rows {
		row := &loaded.rows[i]
		chosen := &value{texts: row.def, origin: "default", reason: row.why}
		for _, source := range []map[string]*value{fromFile, fromEnv, given} { // the last wins
			if found := source[row.name]; found != nil {
				chosen = found
			}
		}
		loaded.values[row.name] = chosen
		if err := loaded.apply(row, chosen); err != nil {
			return nil, err
		}
	}
	if err := loaded.keyFile(src.ReadFile); err != nil {
		return nil, err
	}
	if err := loaded.check(); err != nil {
		return nil, err
	}
	return loaded, nil
}

// groupComplete returns an error if some of the variables of a group are set and others are not:
// the pod is not what LeaderWorkerSet makes, and nobody knows which member of what it is.
func groupComplete(env []string) error {
	var missing []string
	for _, name := range groupVariables {
		if !slices.ContainsFunc(env, func(kv string) bool { return strings.HasPrefix(kv, name+"=") && len(kv) > len(name)+1 }) {
			missing = append(missing, name)
		}
	}
	if len(missing) == 0 || len(missing) == len(groupVariables) {
		return nil
	}
	return fmt.Errorf("%s is not set, others of a group are: set all of %s, or none", missing[0], strings.Join(groupVariables[:], ", "))
}

// keyFile adds the keys of --api-key-file: one a line, without empty lines and lines
// that begin with #.
func (c *Config) keyFile(read func(string) ([]byte, error)) error {
	if c.KeyFile == "" {
		return nil
	}
	data, err := read(c.KeyFile)
	if err != nil {
		return fmt.Errorf("--api-key-file: %w", err)
	}
	if len(data) > maxFile {
		return fmt.Errorf("--api-key-file %s: %d bytes, at most %d expected", c.KeyFile, len(data), maxFile)
	}
	before := len(c.APIKeys)
	for line := range strings.Lines(string(data)) {
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		if _, err := keys(one(line)); err != nil {
			return fmt.Errorf("--api-key-file %s: %w", c.KeyFile, err)
		}
		c.APIKeys = append(slices.Clip(c.APIKeys), line)
	}
	if len(c.APIKeys) == before { // else an empty file would open the server
		return fmt.Errorf("--api-key-file %s: no key in it; expected one on each line", c.KeyFile)
	}
	return nil
}

// Reload reads src again. It returns c with what can change while a server runs: keys,
// limits and the log level. waiting names the other settings that differ from c: they
// count when it starts anew. An error means that nothing changes; c never does.
func (c *Config) Reload(src Source) (next *Config, waiting []string, err error) {
	found, err := Load(src)
	if err != nil {
		return nil, nil, err
	}
	next = &Config{Settings: c.Settings, rows: c.rows, values: maps.Clone(c.values), resolved: c.resolved}
	next.APIKeys, next.KeyFile, next.LogLevel, next.Limits = found.APIKeys, found.KeyFile, found.LogLevel, found.Limits
	for _, row := range c.rows {
		switch {
		case row.live:
			next.values[row.name] = found.values[row.name]
		case !row.command && !slices.Equal(c.values[row.name].texts, found.values[row.name].texts):
			waiting = append(waiting, "--"+row.name)
		}
	}
	// Limits that cannot change while it runs stay. One that came out of facts differs from what
	// was found although nobody has changed it.
	for _, id := range limits.All() {
		if id.Live() || next.Limits[id] == c.Limits[id] {
			continue
		}
		next.Limits[id] = c.Limits[id]
		if !slices.Contains(c.resolved, id) || found.Given(id) {
			waiting = append(waiting, "--limit "+id.String())
		}
	}
	return next, waiting, next.check() // found may be open to this machine only, c not
}

// apply parses a value and stores it, or notes what an accepted flag means.
func (c *Config) apply(r *row, given *value) error {
	parsed, err := r.parse(given.texts)
	if err == nil && r.set != nil {
		err = r.set(&c.Settings, parsed)
	}
	if err != nil {
		return fmt.Errorf("%s (%s): %w", shown(r, given.texts), given.origin, err)
	}
	if given.origin != "default" && r.note != "" {
		c.Notes = append(c.Notes, fmt.Sprintf("%s: %s", shown(r, given.texts), r.note))
	}
	return nil
}

// shown is a flag with its value as it may be printed.
func shown(r *row, texts []string) string {
	switch {
	case r.kind == boolean && texts[0] == "false":
		return "--no-" + r.name
	case r.secret || len(texts) == 0 || (r.kind == boolean && texts[0] == "true"):
		return "--" + r.name
	}
	return "--" + r.name + " " + printable(strings.Join(texts, " "))
}

// check finds values that contradict each other.
func (c *Config) check() error {
	settings := &c.Settings
	if settings.Open() {
		if !settings.Insecure {
			return fmt.Errorf("--host %s lets other machines connect: set --api-key (or OSSIAN_API_KEY), or --insecure if everyone may use this server", settings.Host)
		}
		c.Notes = append(c.Notes, "--insecure: everyone who reaches "+settings.Host+" may use this server")
	}
	if err := c.checkModels(); err != nil {
		return err
	}
	if guesses := c.values["speculative-config"]; len(guesses.texts) > 0 {
		_, notes, _ := speculative(guesses.texts[0])
		c.Notes = append(c.Notes, notes...)
	}
	if settings.ClientCAFile != "" && settings.ClientCerts == tls.NoClientCert {
		c.Notes = append(c.Notes, "--ssl-ca-certs: no client is asked for a certificate; --ssl-cert-reqs 2 demands one of each")
	}
	if err := c.checkBrowser(); err != nil {
		return err
	}
	// Limits with a flag of their own: --limit has been applied last, and wins over a default.
	for _, pair := range []struct {
		flag string
		id   limits.ID
	}{{"max-queue", limits.Queue}, {"max-logprobs", limits.TopLogprobs}} {
		given, now := c.values[pair.flag], c.Limits[pair.id]
		number, _ := limits.ParseInt(given.texts[0])
		switch {
		case number == now || number < 0:
		case given.origin != "default":
			return fmt.Errorf("--%s %d (%s) and --limit %s=%d contradict each other", pair.flag, number, given.origin, pair.id, now)
		default:
			c.values[pair.flag] = &value{texts: one(strconv.FormatInt(now, 10)), origin: c.values["limit"].origin, reason: "--limit"}
		}
	}
	if body, all := settings.Limits[limits.RequestBody], settings.Limits[limits.BodiesInFlight]; body >= all && c.Given(limits.BodiesInFlight) {
		return fmt.Errorf("--limit bodies-in-flight=%d has no room for one body of request-body=%d bytes and its end: raise the one or lower the other", all, body)
	}
	if reply, all := settings.Limits[limits.ReplyBody], settings.Limits[limits.Replies]; reply > all && c.Given(limits.ReplyBody) && c.Given(limits.Replies) {
		return fmt.Errorf("--limit replies-in-flight=%d has no room for one reply of reply-body=%d bytes: raise the one or lower the other", all, reply)
	}
	return nil
}

// checkBrowser has the browser read the directory that was named, unless something else was
// asked for as clearly.
func (c *Config) checkBrowser() error {
	backend := c.values["browser-backend"]
	switch {
	case c.BrowserCorpus == "" || c.BrowserBackend == "corpus":
	case backend.origin != "default" && backend.origin != "environment BROWSER_BACKEND":
		return fmt.Errorf("--browser-backend %s (%s) and --browser-corpus contradict each other", c.BrowserBackend, backend.origin)
	default:
		c.BrowserBackend = "corpus"
		c.values["browser-backend"] = &value{texts: one("corpus"), origin: "automatic", reason: "--browser-corpus"}
	}
	return nil
}

// Explain writes each value with its origin and reason.
func (c *Config) Explain(w io.Writer) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "SETTING\tVALUE\tORIGIN\tREASON")
	for i := range c.rows {
		row, given := &c.rows[i], c.values[c.rows[i].name]
		if (row.accepted && given.origin == "default") || row.command {
			continue
		}
		// What there is to say, the most particular first.
		reason := given.reason
		if reason == "" {
			reason = row.note
		}
		if reason == "" {
			reason = row.help
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", row.name, printed(row, given.texts), given.origin, reason)
	}
	for _, id := range limits.All() {
		limit := id.Info()
		origin := "default"
		switch {
		case slices.Contains(c.resolved, id):
			origin = "automatic"
		case c.Given(id) || c.Limits[id] != limit.Default: // some have a flag of their own
			origin = "given"
		}
		fmt.Fprintf(table, "limit %s\t%s\t%s\tprotects %s\n", limit.Name, limits.Format(limit.Unit, c.Limits[id]), origin, limit.Protects)
	}
	return table.Flush()
}

// printed is a value as Explain shows it; of secrets only their number.
func printed(r *row, texts []string) string {
	switch {
	case len(texts) == 0 || (len(texts) == 1 && texts[0] == ""):
		return "-"
	case r.secret:
		return fmt.Sprintf("%d set", len(texts))
	}
	return printable(strings.Join(texts, " "))
}

// printable is s, quoted if a terminal would act on something in it.
func printable(s string) string {
	if strings.ContainsFunc(s, func(r rune) bool { return !strconv.IsPrint(r) }) {
		return strconv.Quote(s)
	}
	return s
}

// Resolve says what an automatic setting came to, for Explain: its value, and
// the fact it follows from.
func (c *Config) Resolve(name, text, reason string) {
	before := c.values[name]
	if before == nil {
		panic(fmt.Sprintf("config: no setting is named %q", name))
	}
	origin := before.origin
	if origin == "default" {
		origin = "automatic"
	}
	c.values[name] = &value{texts: []string{text}, origin: origin, reason: reason}
}

// ResolveLimit sets a limit that nobody gave to what it comes to here.
func (c *Config) ResolveLimit(id limits.ID, n int64) {
	c.Limits[id] = n
	c.resolved = append(c.resolved, id)
}

// Given reports whether --limit names id.
func (c *Config) Given(id limits.ID) bool {
	return slices.ContainsFunc(c.values["limit"].texts, func(text string) bool {
		name, _, _ := strings.Cut(text, "=")
		found, ok := limits.Lookup(name)
		return ok && found == id
	})
}

// Origin returns where a setting comes from: "default", "command line", "file …",
// "environment …".
func (c *Config) Origin(name string) string { return c.values[name].origin }

// Usage returns the flags for --help.
func Usage() string {
	var out strings.Builder
	table := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	all := rows()
	for _, row := range all {
		if !row.accepted {
			fmt.Fprintf(table, "  --%s\t%s%s\n", row.usage(), row.help, row.defaultNote())
		}
	}
	_ = table.Flush()
	// Flags without effect are named only, in lines of about 100 characters.
	var accepted []string
	for _, row := range all {
		if row.accepted {
			accepted = append(accepted, "--"+row.name)
		}
	}
	slices.Sort(accepted)
	out.WriteString("\nAccepted as vLLM has them, with a line that says what they mean here:\n")
	line := " "
	for _, name := range accepted {
		if len(line)+len(name) > 100 {
			out.WriteString(line + "\n")
			line = " "
		}
		line += " " + name
	}
	out.WriteString(line + "\n")
	return out.String()
}
