package wire

import (
	"encoding/json"
	"strconv"
	"strings"
	"unicode/utf8"

	"ossian/internal/limits"
)

// field reads the fields common to chat and text completions.
func (s *Sampling) field(d *decoder, key string) bool {
	switch key {
	case "temperature":
		s.Temperature = ptr(d.number())
	case "top_p":
		s.TopP = ptr(d.number())
	case "top_k":
		s.TopK = ptr(d.integer())
	case "min_p":
		s.MinP = ptr(d.number())
	case "frequency_penalty":
		s.FrequencyPenalty = ptr(d.number())
	case "presence_penalty":
		s.PresencePenalty = ptr(d.number())
	case "repetition_penalty":
		s.RepetitionPenalty = ptr(d.number())
	case "logit_bias":
		s.LogitBias = d.logitBias()
	case "seed":
		s.Seed = ptr(d.integer())
	case "n":
		s.N = ptr(d.integer())
	case "stop":
		s.Stop = d.texts(limits.StopStrings, "stop strings")
	case "include_stop_str_in_output":
		s.IncludeStop = d.boolean()
	case "stop_token_ids":
		s.StopTokenIDs = d.ids(limits.LogitBias)
	case "bad_words":
		s.BadWords = d.texts(limits.LogitBias, "bad words")
	case "allowed_token_ids":
		s.AllowedTokenIDs = d.ids(limits.TokenIDs)
	case "ignore_eos":
		s.IgnoreEOS = d.boolean()
	case "min_tokens":
		s.MinTokens = d.integer()
	case "skip_special_tokens":
		s.SkipSpecial = ptr(d.boolean())
	case "spaces_between_special_tokens":
		s.SpacesBetween = ptr(d.boolean())
	case "prompt_logprobs":
		s.PromptLogprobs = ptr(d.integer())
	case "logprob_token_ids":
		s.LogprobTokenIDs = d.ids(limits.LogitBias)
	case "echo":
		s.Echo = d.boolean()
	case "add_special_tokens":
		s.AddSpecial = ptr(d.boolean())
	case "truncate_prompt_tokens":
		s.TruncatePrompt = ptr(d.integer())
	case "stream":
		s.Stream = d.boolean()
	case "stream_options":
		s.StreamOptions = d.streamOptions()
	case "priority":
		s.Priority = d.integer()
	case "cache_salt":
		s.CacheSalt = d.text()
	case "request_id":
		s.RequestID = d.text()
	case "return_token_ids":
		s.ReturnTokenIDs = d.boolean()
	case "return_tokens_as_token_ids":
		s.TokensAsIDs = d.boolean()
	case "response_format":
		s.ResponseFormat = d.responseFormat()
	case "structured_outputs":
		o := s.structured()
		d.object(func(key string) bool { return o.field(d, key) })
	case "guided_json", "guided_regex", "guided_choice", "guided_grammar", "guided_whitespace_pattern":
		return s.structured().field(d, strings.TrimPrefix(key, "guided_"))
	case "metadata":
		s.Metadata = d.metadata()
	case "user":
		s.User = d.text()
	case "service_tier":
		s.ServiceTier = d.text()
	case "store":
		d.boolean() // chat keeps nothing
	case "safety_identifier", "prompt_cache_key", "verbosity":
		d.text() // nothing here depends on them
	default:
		return false
	}
	return true
}

func (s *Sampling) structured() *Structured {
	if s.Structured == nil {
		s.Structured = new(Structured)
	}
	return s.Structured
}

func (s *Structured) field(d *decoder, key string) bool {
	switch key {
	case "json":
		if d.kind() != '"' && d.kind() != '{' {
			d.unlike("a schema (an object, or a string that holds one)")
		}
		s.JSON = d.schema(d.raw())
	case "regex":
		s.Regex = ptr(d.form(limits.PatternBytes))
	case "choice":
		s.Choice = d.texts(limits.SchemaNodes, "choices")
	case "grammar":
		s.Grammar = ptr(d.form(limits.GrammarBytes))
	case "json_object":
		s.JSONObject = d.boolean()
	case "structural_tag":
		s.Tag = d.schema(d.raw())
	case "whitespace_pattern":
		s.Whitespace = ptr(d.form(limits.PatternBytes))
	default:
		return false
	}
	return true
}

func (d *decoder) streamOptions() *StreamOptions {
	o := new(StreamOptions)
	d.object(func(key string) bool {
		switch key {
		case "include_usage":
			o.IncludeUsage = d.boolean()
		case "continuous_usage_stats":
			o.ContinuousUsage = d.boolean()
		case "include_obfuscation":
			d.boolean() // padding against observers of encrypted lengths: not done
		default:
			return false
		}
		return true
	})
	return o
}

func (d *decoder) responseFormat() *ResponseFormat {
	f := new(ResponseFormat)
	if d.kind() == '{' {
		at := d.pos
		f.Tag = d.raw()
		d.pos = at
	}
	d.object(func(key string) bool {
		switch key {
		case "type":
			f.Type = d.text()
		case "json_schema":
			f.JSONSchema = new(JSONSchema)
			d.object(func(key string) bool { return f.JSONSchema.field(d, key) })
		case "structures", "triggers", "format": // structural_tag, both forms
			d.skip()
		default:
			return false
		}
		return true
	})
	if f.Type != "structural_tag" {
		f.Tag = nil
	}
	return f
}

func (s *JSONSchema) field(d *decoder, key string) bool {
	switch key {
	case "name":
		s.Name = d.text()
	case "description":
		s.Description = d.text()
	case "schema":
		s.Schema = d.schema(d.rawObject())
	case "strict":
		s.Strict = d.boolean()
	default:
		return false
	}
	return true
}

// schema refuses a schema beyond the limits, which may be the text of one in a string, and
// returns it.
func (d *decoder) schema(raw []byte) []byte {
	if d.err != nil || !d.within(len(raw), limits.SchemaBytes, "bytes of schema") {
		return nil
	}
	seen := raw
	if text := ""; len(raw) > 0 && raw[0] == '"' && json.Unmarshal(raw, &text) == nil {
		seen = []byte(text)
	}
	if tooDeep(seen, d.lim[limits.SchemaDepth]) >= 0 {
		d.within(int(d.lim[limits.SchemaDepth])+1, limits.SchemaDepth, "levels of schema")
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
	if !d.within(nodes, limits.SchemaNodes, "nodes of schema") {
		return nil
	}
	return raw
}

// form reads the text of a grammar or a regular expression.
func (d *decoder) form(id limits.ID) string {
	text := d.text()
	d.within(len(text), id, "bytes")
	return text
}

// texts reads a string or an array of strings.
func (d *decoder) texts(id limits.ID, what string) []string {
	if d.kind() == '"' {
		return []string{d.text()}
	}
	if d.kind() != '[' {
		d.unlike("a string or an array of strings")
	}
	out := []string{}
	d.array(id, what, func(int) { out = append(out, d.text()) })
	return out
}

func (d *decoder) logitBias() map[int32]float64 {
	out := map[int32]float64{}
	d.members(func(key string) {
		id, err := strconv.ParseInt(key, 10, 32)
		if err != nil || id < 0 {
			d.invalid("%.40q is no token id", key)
			return
		}
		if _, twice := out[int32(id)]; twice { // "7" and "07"
			d.invalid("given twice")
		}
		out[int32(id)] = d.number()
		d.within(len(out), limits.LogitBias, "entries")
	})
	return out
}

func (d *decoder) metadata() map[string]string {
	out := map[string]string{}
	d.members(func(key string) {
		d.within(utf8.RuneCountInString(key), limits.MetadataKey, "characters in a key")
		value := d.text()
		d.within(utf8.RuneCountInString(value), limits.MetadataValue, "characters")
		out[key] = value
		d.within(len(out), limits.MetadataPairs, "pairs")
	})
	return out
}

// field reads the fields of a completion request.
func (r *CompletionRequest) field(d *decoder, key string) bool {
	switch key {
	case "model":
		r.Model = d.text()
	case "prompt":
		r.Prompts = d.prompts()
	case "max_tokens":
		r.MaxTokens = ptr(d.integer())
	case "logprobs":
		r.Logprobs = ptr(d.integer())
	case "best_of":
		r.BestOf = ptr(d.integer())
	case "suffix":
		r.Suffix = d.text()
	default:
		return r.Sampling.field(d, key)
	}
	return true
}

// prompts reads a string, a list of strings, a list of ids or a list of such lists.
func (d *decoder) prompts() []Prompt {
	const forms = "a string, an array of strings, of token ids or of arrays of token ids"
	switch d.kind() {
	case '"':
		return []Prompt{{Text: d.text()}}
	case '[':
	default:
		d.unlike(forms)
		return nil
	}
	start := d.pos
	d.pos++
	first := d.kind()
	d.pos = start
	if first == '0' {
		return []Prompt{{IDs: d.ids(limits.TokenIDs)}}
	}
	out := []Prompt{}
	d.array(limits.Prompts, "prompts", func(int) {
		switch {
		case d.kind() != first || (first != '"' && first != '['):
			d.unlike(forms)
		case first == '"':
			out = append(out, Prompt{Text: d.text()})
		default:
			out = append(out, Prompt{IDs: d.ids(limits.TokenIDs)})
		}
	})
	return out
}
