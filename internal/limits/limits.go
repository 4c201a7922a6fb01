// Package limits is the one table of what a stranger may ask of the server: name,
// default, range, unit, metric and what each limit protects. Code names a limit
// (set[limits.Messages]) and never writes its number.
package limits

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// An ID names a limit.
type ID uint8

// The limits, in the order of the table.
const (
	RequestBody ID = iota
	BodiesInFlight
	HeaderBytes
	HeaderRead
	BodyRead
	IdleKeepAlive
	WriteStall
	PingInterval
	PendingOutput
	ReplyBody
	Replies
	Connections
	Queue
	QueueTokens
	QueueWait
	RequestTime
	ModelTurn
	JSONDepth
	Members
	Messages
	ContentParts
	Prompts
	TokenIDs
	Tools
	ToolBytes
	ToolName
	SchemaBytes
	SchemaDepth
	SchemaNodes
	GrammarBytes
	PatternBytes
	CompileTime
	GrammarCache
	StopStrings
	StopBytes
	LogitBias
	Choices
	TopLogprobs
	PromptLogprobs
	MetadataPairs
	MetadataKey
	MetadataValue
	Chain
	StoredRecords
	StoredBytes
	StoredMemory
	StoredAge
	ToolSteps
	ToolCalls
	ToolParallel
	ToolTime
	ToolWall
	ToolResultTokens
	ToolResultBytes
	PythonProcesses
	PythonCalls
	PythonMemory
	PythonDisk
	PythonIdle
	count
)

// A Unit says what a limit counts and how its value is written.
type Unit uint8

// The units.
const (
	Count    Unit = iota // 1024, 16k
	Bytes                // 32Mi, 256k (vLLM's suffixes: k = 1000, K, Ki = 1024)
	Duration             // kept in milliseconds; 10s, 250ms, 2m
)

// A Limit is one row of the table.
type Limit struct {
	Name              string // in --limit NAME=VALUE, messages and metrics
	Unit              Unit
	Default, Min, Max int64  // Duration: milliseconds
	Metric            string // where it shows
	Protects          string // what breaks without it
}

// Refusals counts requests refused because of a limit; its label is the name.
const Refusals = "ossian_limit_refusals_total"

const (
	ki = 1 << 10
	mi = 1 << 20
	gi = 1 << 30

	second = 1000
	minute = 60 * second
	day    = 24 * 60 * minute
)

var table = [count]Limit{
	RequestBody:    {"request-body", Bytes, 32 * mi, ki, gi, Refusals, "memory of one request"},
	BodiesInFlight: {"bodies-in-flight", Bytes, 256 * mi, ki, 64 * gi, "ossian_bodies_in_flight_bytes", "memory of all bodies being read"},
	HeaderBytes:    {"header-bytes", Bytes, 32 * ki, ki, mi, "http_requests_total", "memory per connection before a key is known"},
	HeaderRead:     {"header-read", Duration, 5 * second, 100, 10 * minute, "ossian_connections", "connections against slow senders"},
	BodyRead:       {"body-read", Duration, 30 * second, 100, 60 * minute, Refusals, "connections against slow senders"},
	IdleKeepAlive:  {"idle-keep-alive", Duration, 120 * second, 100, day, "ossian_connections", "descriptors"},
	WriteStall:     {"write-stall", Duration, 10 * second, 100, 10 * minute, "ossian_streams_cut_total", "memory and KV blocks against readers that stopped"},
	PingInterval:   {"ping-interval", Duration, 15 * second, 100, 10 * minute, "ossian_streams_cut_total", "detection of silent peers"},
	PendingOutput:  {"pending-output", Bytes, 256 * ki, 4 * ki, gi, "ossian_streams_cut_total", "memory per stream"},
	ReplyBody:      {"reply-body", Bytes, 32 * mi, 4 * ki, gi, Refusals, "memory of one reply while it is put together: text that is not streamed, log probabilities"},
	Replies:        {"replies-in-flight", Bytes, 256 * mi, 4 * ki, 64 * gi, "ossian_replies_in_flight_bytes", "memory of all replies that are put together"},
	Connections:    {"connections", Count, 16384, 1, mi, "ossian_connections", "descriptors and memory; 80 % of the process limit, or a thirty-second part of the memory, where that is less"},
	Queue:          {"queue", Count, 1024, 1, mi, "vllm:num_requests_waiting", "waiting time: beyond it 429"},
	QueueTokens:    {"queue-tokens", Count, 4 * mi, 1, 1 << 40, "ossian_queue_tokens", "waiting time and memory of waiting prompts"},
	QueueWait:      {"queue-wait", Duration, 10 * minute, 1, 7 * day, Refusals, "answers that come too late to be wanted"},
	RequestTime:    {"request-time", Duration, day, 1, 365 * day, Refusals, "KV blocks against requests without end"},
	ModelTurn:      {"model-turn", Duration, 10 * second, 1, day, "vllm:num_requests_waiting", "requests that wait for another model; how long the one in memory goes on taking new ones"},
	JSONDepth:      {"json-depth", Count, 64, 8, 1000, Refusals, "the stack"},
	Members:        {"members", Count, 4096, 256, mi, Refusals, "memory; members of one object, unknown ones included"},
	Messages:       {"messages", Count, 4096, 1, mi, Refusals, "rendering time"},
	ContentParts:   {"content-parts", Count, 4096, 1, mi, Refusals, "rendering time"},
	Prompts:        {"prompts", Count, 1024, 1, 65536, Refusals, "the queue against one request"},
	TokenIDs:       {"token-ids", Count, 4 * mi, 1, gi, Refusals, "memory; ids in one list"},
	Tools:          {"tools", Count, 256, 1, 65536, Refusals, "rendering time"},
	ToolBytes:      {"tool-bytes", Bytes, mi, ki, 64 * mi, Refusals, "rendering time; tools and their schemas"},
	ToolName:       {"tool-name", Bytes, 64, 1, 1024, Refusals, "the header constraint's trie"},
	SchemaBytes:    {"schema-bytes", Bytes, 256 * ki, ki, 16 * mi, Refusals, "rendering and compile time of one schema"},
	SchemaDepth:    {"schema-depth", Count, 32, 4, 512, Refusals, "the stack"},
	SchemaNodes:    {"schema-nodes", Count, 10_000, 16, 10_000_000, Refusals, "compile time"},
	GrammarBytes:   {"grammar-bytes", Bytes, 64 * ki, 16, 64 * ki, Refusals, "compile time of one grammar"},
	PatternBytes:   {"pattern-bytes", Bytes, 4 * ki, 1, 4 * ki, Refusals, "compile time of one regular expression"},
	CompileTime:    {"compile-time", Duration, minute, 1, 10 * minute, Refusals, "processors; all forms of one request, with the time they wait for those of others"},
	GrammarCache:   {"grammar-cache", Bytes, 256 * mi, 0, 64 * gi, "ossian_grammar_cache_bytes", "memory of compiled forms, beyond those in use"},
	StopStrings:    {"stop-strings", Count, 16, 1, 1024, Refusals, "work per token"},
	StopBytes:      {"stop-bytes", Bytes, 256, 1, 64 * ki, Refusals, "text held back per stream"},
	LogitBias:      {"logit-bias", Count, 1024, 0, mi, Refusals, "work per token; also entries of stop_token_ids and bad_words"},
	Choices:        {"choices", Count, 128, 1, 128, Refusals, "the queue against one request (n, best_of)"},
	TopLogprobs:    {"top-logprobs", Count, 20, 0, mi, Refusals, "work per token and bytes per chunk"},
	PromptLogprobs: {"prompt-logprobs", Count, 256 * ki, 0, gi, Refusals, "memory of a reply; log probabilities of the prompt tokens of one request"},
	MetadataPairs:  {"metadata-pairs", Count, 16, 0, 1024, Refusals, "memory"},
	MetadataKey:    {"metadata-key", Count, 64, 1, 64 * ki, Refusals, "memory"},
	MetadataValue:  {"metadata-value", Count, 512, 1, mi, Refusals, "memory"},
	Chain:          {"chain", Count, 1024, 1, mi, Refusals, "reading time; responses behind a previous_response_id"},
	StoredRecords:  {"stored-records", Count, 1_000_000, 1, 1 << 40, "ossian_stored_responses", "the start after a crash; responses that are kept, the oldest go"},
	StoredBytes:    {"stored-bytes", Bytes, 10 * gi, mi, 1 << 50, "ossian_stored_bytes", "the disk; responses that are kept in --store, the oldest go"},
	StoredMemory:   {"stored-memory", Bytes, 64 * mi, 64 * ki, 1 << 40, "ossian_stored_bytes", "memory; responses that are kept without a directory, the oldest go"},
	StoredAge:      {"stored-age", Duration, 30 * day, second, 3650 * day, "ossian_stored_responses", "the disk and the privacy of users"},

	ToolSteps:        {"tool-steps", Count, 64, 1, 4096, Refusals, "the engine against answers that call tools without end"},
	ToolCalls:        {"tool-calls", Count, 128, 1, 65536, Refusals, "tools against one request"},
	ToolParallel:     {"tool-parallel", Count, 8, 1, 1024, "ossian_tool_seconds", "tools against one answer; its calls that run side by side"},
	ToolTime:         {"tool-time", Duration, 120 * second, 100, 10 * minute, "ossian_tool_seconds", "requests against tools that hang; one call"},
	ToolWall:         {"tool-wall", Duration, 30 * minute, 1000, day, Refusals, "clients that wait; all steps of an answer with tools"},
	ToolResultTokens: {"tool-result-tokens", Count, 8192, 16, mi, "ossian_tool_results_cut_total", "the context against one result"},
	ToolResultBytes:  {"tool-result-bytes", Bytes, mi, ki, 64 * mi, "ossian_tool_results_cut_total", "memory; what is read of one result"},
	PythonProcesses:  {"python-processes", Count, 16, 1, 4096, "ossian_tool_calls_total", "memory and processors; interpreters at once"},
	PythonCalls:      {"python-calls", Count, 32, 1, 65536, Refusals, "interpreters against one request"},
	PythonMemory:     {"python-memory", Bytes, gi, 64 * mi, 1 << 40, "ossian_tool_calls_total", "memory; one interpreter"},
	PythonDisk:       {"python-disk", Bytes, 256 * mi, mi, 1 << 40, "ossian_tool_calls_total", "disk or memory; the files of one interpreter"},
	PythonIdle:       {"python-idle", Duration, 10 * minute, 1000, day, "ossian_tool_calls_total", "memory; interpreters whose conversation may go on"},
}

// A Set holds the values in force, by ID. A set in use does not change: it is replaced.
type Set [count]int64

// Defaults returns the set that nothing was changed in.
func Defaults() *Set {
	set := new(Set)
	for id, limit := range table {
		set[id] = limit.Default
	}
	return set
}

// All returns the IDs in the order of the table.
func All() []ID {
	ids := make([]ID, count)
	for i := range ids {
		ids[i] = ID(i)
	}
	return ids
}

// Info returns the row of id.
func (id ID) Info() Limit { return table[id] }

// String returns the name.
func (id ID) String() string { return table[id].Name }

// Live reports whether a new value counts at once. The others are read when a server,
// its engine or its model starts, or its memory is planned.
func (id ID) Live() bool {
	switch id {
	case HeaderBytes, HeaderRead, IdleKeepAlive, WriteStall, PendingOutput, Replies, Connections, Queue, QueueTokens, ModelTurn, StoredRecords, StoredBytes, StoredMemory, StoredAge, GrammarCache:
		return false
	}
	return true
}

// Lookup returns the ID of a name; underscores count as hyphens.
func Lookup(name string) (ID, bool) {
	name = strings.ReplaceAll(name, "_", "-")
	for id, limit := range table {
		if limit.Name == name {
			return ID(id), true
		}
	}
	return 0, false
}

// Time returns a limit whose unit is Duration.
func (s *Set) Time(id ID) time.Duration { return time.Duration(s[id]) * time.Millisecond }

// Parse sets id from text in the form that its unit says. It changes nothing when
// it returns an error.
func (s *Set) Parse(id ID, text string) error {
	limit := table[id]
	value, err := parse(limit.Unit, text)
	if err != nil {
		return fmt.Errorf("limit %s: %q: %w", limit.Name, text, err)
	}
	if value < limit.Min || value > limit.Max {
		return fmt.Errorf("limit %s: %q is outside %s to %s", limit.Name, text, Format(limit.Unit, limit.Min), Format(limit.Unit, limit.Max))
	}
	s[id] = value
	return nil
}

// parse reads text as a number of unit; of a time, in milliseconds.
func parse(unit Unit, text string) (int64, error) {
	if unit != Duration {
		return ParseInt(text)
	}
	duration, err := time.ParseDuration(text)
	if err != nil || duration%time.Millisecond != 0 {
		return 0, errors.New("a time such as 500ms, 10s or 2m expected")
	}
	return duration.Milliseconds(), nil
}

// suffixes as in vLLM's human-readable integers: lower case decimal, upper case
// and i binary.
var suffixes = []struct {
	text string
	mult int64
}{
	{"KiB", ki}, {"MiB", mi}, {"GiB", gi}, {"Ki", ki}, {"Mi", mi}, {"Gi", gi}, {"Ti", 1 << 40},
	{"k", 1e3}, {"m", 1e6}, {"g", 1e9}, {"t", 1e12}, {"K", ki}, {"M", mi}, {"G", gi}, {"T", 1 << 40},
}

// ParseInt reads a whole number as vLLM's flags take it: 1024, 8k = 8000, 8K = 8192,
// 25.6k = 25600; also 8Ki and 8KiB. A fraction is for decimal suffixes only.
func ParseInt(text string) (int64, error) {
	form := errors.New("a whole number such as 8192, 8k (8000) or 8K (8192) expected")
	digits, mult := text, int64(1)
	for _, suffix := range suffixes {
		if cut, ok := strings.CutSuffix(text, suffix.text); ok {
			digits, mult = cut, suffix.mult
			break
		}
	}
	whole, fraction, dotted := strings.Cut(digits, ".")
	value, err := strconv.ParseInt(whole, 10, 64)
	if err != nil || (dotted && (mult%10 != 0 || strings.HasPrefix(whole, "-"))) {
		return 0, form
	}
	if mult > 1 && (value >= math.MaxInt64/mult || value <= math.MinInt64/mult) {
		return 0, errors.New("too large")
	}
	value *= mult
	// Each digit of the fraction counts a tenth of the one before; one too many is no whole number.
	for _, char := range fraction {
		if mult /= 10; mult == 0 || char < '0' || char > '9' {
			return 0, form
		}
		value += int64(char-'0') * mult
	}
	return value, nil
}

// Format writes a value as Parse reads it.
func Format(unit Unit, value int64) string {
	if unit == Duration {
		return (time.Duration(value) * time.Millisecond).String()
	}
	if unit == Bytes {
		for _, suffix := range []struct {
			mult int64
			text string
		}{{gi, "Gi"}, {mi, "Mi"}, {ki, "Ki"}} {
			if value != 0 && value%suffix.mult == 0 {
				return strconv.FormatInt(value/suffix.mult, 10) + suffix.text
			}
		}
	}
	return strconv.FormatInt(value, 10)
}
