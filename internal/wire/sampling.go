package wire

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"ossian/internal/limits"
)

// Field reads the fields common to chat and text completions.
func (s *Sampling) Field(in *Reader, key string) bool {
	switch key {
	case "temperature":
		s.Temperature = Ptr(in.number())
	case "top_p":
		s.TopP = Ptr(in.number())
	case "top_k":
		s.TopK = Ptr(in.Integer())
	case "min_p":
		s.MinP = Ptr(in.number())
	case "frequency_penalty":
		s.FrequencyPenalty = Ptr(in.number())
	case "presence_penalty":
		s.PresencePenalty = Ptr(in.number())
	case "repetition_penalty":
		s.RepetitionPenalty = Ptr(in.number())
	case "logit_bias":
		s.LogitBias = in.logitBias()
	case "seed":
		s.Seed = Ptr(in.Integer())
	case "n":
		s.N = Ptr(in.Integer())
	case "stop":
		s.Stop = in.texts(limits.StopStrings, "stop strings")
	case "include_stop_str_in_output":
		s.IncludeStop = in.Boolean()
	case "stop_token_ids":
		s.StopTokenIDs = in.ids(limits.LogitBias)
	case "bad_words":
		s.BadWords = in.texts(limits.LogitBias, "bad words")
	case "allowed_token_ids":
		s.AllowedTokenIDs = in.ids(limits.TokenIDs)
	case "ignore_eos":
		s.IgnoreEOS = in.Boolean()
	case "min_tokens":
		s.MinTokens = in.Integer()
	case "skip_special_tokens":
		s.SkipSpecial = Ptr(in.Boolean())
	case "spaces_between_special_tokens":
		s.SpacesBetween = Ptr(in.Boolean())
	case "prompt_logprobs":
		s.PromptLogprobs = Ptr(in.Integer())
	case "logprob_token_ids":
		s.LogprobTokenIDs = in.ids(limits.LogitBias)
	case "echo":
		s.Echo = in.Boolean()
	case "add_special_tokens":
		s.AddSpecial = Ptr(in.Boolean())
	case "truncate_prompt_tokens":
		s.TruncatePrompt = Ptr(in.Integer())
	case "stream":
		s.Stream = in.Boolean()
	case "stream_options":
		s.StreamOptions = in.streamOptions()
	case "priority":
		s.Priority = in.Integer()
	case "cache_salt":
		s.CacheSalt = in.Text()
	case "request_id":
		s.RequestID = in.Text()
	case "return_token_ids":
		s.ReturnTokenIDs = in.Boolean()
	case "return_tokens_as_token_ids":
		s.TokensAsIDs = in.Boolean()
	case "response_format":
		s.ResponseFormat = in.responseFormat()
	case "structured_outputs":
		o := s.structured()
		in.Object(func(key string) bool { return o.field(in, key) })
	case "guided_json", "guided_regex", "guided_choice", "guided_grammar": // of vLLM's past
		s.structured().field(in, strings.TrimPrefix(key, "guided_"))
		s.Structured.Place = key
	case "guided_whitespace_pattern":
		s.structured().field(in, strings.TrimPrefix(key, "guided_"))
	case "metadata":
		s.Metadata = in.metadata()
	case "user":
		s.User = in.Text()
	case "service_tier":
		s.ServiceTier = in.Text()
	case "store":
		in.Boolean() // chat keeps nothing
	case "safety_identifier", "prompt_cache_key", "verbosity":
		in.Text() // nothing here depends on them
	default:
		return s.foreign(in, key)
	}
	return true
}

func (s *Sampling) structured() *Structured {
	if s.Structured == nil {
		s.Structured = new(Structured)
	}
	return s.Structured
}

func (s *Structured) field(in *Reader, key string) bool {
	// vLLM has had two names for each, and other servers have had others: which of them
	// counts would be a guess.
	given := map[string]bool{"json": s.JSON != nil, "regex": s.Regex != nil, "choice": s.Choice != nil, "grammar": s.Grammar != nil, "json_object": s.JSONObject, "structural_tag": s.Tag != nil}
	if given[key] {
		in.Invalid("a form is given twice, under different names")
		return true
	}
	switch key {
	case "json":
		if in.Kind() != '"' && in.Kind() != '{' {
			in.Expected("a schema (an object, or a string that holds one)")
		}
		s.JSON = in.schema(in.Raw())
	case "regex":
		s.Regex = Ptr(in.form(limits.PatternBytes))
	case "choice":
		s.Choice = in.texts(limits.SchemaNodes, "choices")
	case "grammar":
		s.Grammar = Ptr(in.form(limits.GrammarBytes))
	case "json_object":
		s.JSONObject = in.Boolean()
	case "structural_tag":
		s.Tag = in.schema(in.Raw())
	case "whitespace_pattern":
		s.Whitespace, s.space = Ptr(in.form(limits.PatternBytes)), in.Path()
	default:
		if knobs[key] {
			return false
		}
		in.refuseShape("structured_outputs has json, regex, choice, grammar and json_object")
	}
	return true
}

func (in *Reader) streamOptions() *StreamOptions {
	options := new(StreamOptions)
	in.Object(func(key string) bool {
		switch key {
		case "include_usage":
			options.IncludeUsage = in.Boolean()
		case "continuous_usage_stats":
			options.ContinuousUsage = in.Boolean()
		case "include_tool_events":
			options.ToolEvents = in.Boolean()
		case "include_obfuscation":
			in.Boolean() // padding against observers of encrypted lengths: not done
		default:
			return false
		}
		return true
	})
	// As in vLLM: running usage is a way to include usage, not to ask for it.
	options.ContinuousUsage = options.ContinuousUsage && options.IncludeUsage
	return options
}

// Field reads a member of the schema's envelope.
func (s *JSONSchema) Field(in *Reader, key string) bool {
	switch key {
	case "name":
		s.Name = in.Text()
	case "description":
		s.Description = in.Text()
	case "schema":
		s.Schema = in.schema(in.rawObject())
	case "strict":
		s.Strict = in.Boolean()
	default:
		return false
	}
	return true
}

// schema refuses a schema beyond the limits, which may be the text of one in a string, and
// returns it.
func (in *Reader) schema(raw []byte) []byte {
	if in.err != nil || !in.Within(len(raw), limits.SchemaBytes, "bytes of schema") {
		return nil
	}
	seen := raw
	if text := ""; len(raw) > 0 && raw[0] == '"' && json.Unmarshal(raw, &text) == nil {
		seen = []byte(text)
	}
	if tooDeep(seen, in.lim[limits.SchemaDepth]) >= 0 {
		in.Within(int(in.lim[limits.SchemaDepth])+1, limits.SchemaDepth, "levels of schema")
		return nil
	}
	nodes := 0 // values: the first, one behind each colon in an object, comma or opening bracket in an array
	for i := 0; i < len(seen); i++ {
		switch seen[i] {
		case '"':
			i = stringEnd(seen, i) - 1
		case ',', '{', '[':
			nodes++
		}
	}
	if !in.Within(nodes, limits.SchemaNodes, "nodes of schema") {
		return nil
	}
	return raw
}

// Schema reads a schema, an object.
func (in *Reader) Schema() json.RawMessage { return in.schema(in.rawObject()) }

// form reads the text of a grammar or a regular expression.
func (in *Reader) form(id limits.ID) string {
	// Before it is decoded: an escape has six bytes at most for one of the text.
	if raw := len(in.Peek()); in.Kind() == '"' && !in.Within((raw-2)/6, id, "bytes") {
		return ""
	}
	text := in.Text()
	in.Within(len(text), id, "bytes")
	return text
}

// texts reads a string or an array of strings.
func (in *Reader) texts(id limits.ID, what string) []string {
	if in.Kind() == '"' {
		return []string{in.Text()}
	}
	if in.Kind() != '[' {
		in.Expected("a string or an array of strings")
	}
	out := []string{}
	in.Array(id, what, func(int) { out = append(out, in.Text()) })
	return out
}

func (in *Reader) logitBias() map[int32]float64 {
	out := map[int32]float64{}
	in.Members(func(key string) {
		id, err := strconv.ParseInt(key, 10, 32)
		if err != nil || id < 0 {
			in.Invalid("%.40q is no token id", key)
			return
		}
		if _, twice := out[int32(id)]; twice { // "7" and "07"
			in.Invalid("given twice")
		}
		out[int32(id)] = in.number()
		in.Within(len(out), limits.LogitBias, "entries")
	})
	return out
}

func (in *Reader) metadata() map[string]string {
	out := map[string]string{}
	in.Members(func(key string) {
		in.Within(utf8.RuneCountInString(key), limits.MetadataKey, "characters in a key")
		value := in.Text()
		in.Within(utf8.RuneCountInString(value), limits.MetadataValue, "characters")
		out[key] = value
		in.Within(len(out), limits.MetadataPairs, "pairs")
	})
	return out
}

// field reads the fields of a completion request.
func (r *CompletionRequest) field(in *Reader, key string) bool {
	switch key {
	case "model":
		r.Model = in.Text()
	case "prompt":
		r.Prompts = in.prompts()
	case "max_tokens":
		r.MaxTokens = in.outputTokens(Ptr(int64(math.MaxInt64)))
	case "logprobs":
		r.Logprobs = Ptr(in.Integer())
	case "best_of":
		r.BestOf = Ptr(in.Integer())
	case "suffix":
		r.Suffix = in.Text()
	default:
		return r.Sampling.Field(in, key)
	}
	return true
}

// prompts reads a string, a list of strings, a list of ids or a list of such lists.
func (in *Reader) prompts() []Prompt {
	const forms = "a string, an array of strings, of token ids or of arrays of token ids"
	switch in.Kind() {
	case '"':
		return []Prompt{{Text: in.Text()}}
	case '[':
	default:
		in.Expected(forms)
		return nil
	}
	// What the first element is decides what all have to be: look at it, and go back.
	start := in.pos
	in.pos++
	first := in.Kind()
	in.pos = start
	if first == '0' {
		return []Prompt{{IDs: in.ids(limits.TokenIDs)}}
	}
	out := []Prompt{}
	in.Array(limits.Prompts, "prompts", func(int) {
		switch {
		case in.Kind() != first || (first != '"' && first != '['):
			in.Expected(forms)
		case first == '"':
			out = append(out, Prompt{Text: in.Text()})
		default:
			out = append(out, Prompt{IDs: in.ids(limits.TokenIDs)})
		}
	})
	return out
}
