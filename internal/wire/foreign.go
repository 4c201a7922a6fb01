package wire

import (
	"bytes"
	"cmp"
	"encoding/json"
	"strings"

	"ossian/internal/limits"
)

// What other servers call the fields by which an answer is held to a form, or kept from
// one. A field that shapes the answer is honoured or refused with the name that it has
// here, never left out: whoever sends it relies on the form. What only tunes an answer
// may be left out, and is named in x-ossian-ignored.

const (
	ourForms   = "response_format with json_schema, or structured_outputs with json, regex, choice or grammar, does this here"
	ourBans    = "bad_words or logit_bias does this here"
	ourChoices = "n gives several answers, logprobs says how likely each is"
)

// refused are the fields of other servers that shape the answer and that are not taken
// over, with what to send instead.
var refused = map[string]string{
	"schema": ourForms, "response_schema": ourForms, "responseSchema": ourForms, "output_schema": ourForms, "output_format": ourForms, "output_config": ourForms,
	"response_mime_type": ourForms, "json_mode": ourForms, "json_object": ourForms, "text": ourForms, "text_format": ourForms, "structured_output": ourForms,
	"grammar_string": ourForms, "grammar_lazy": ourForms, "grammar_triggers": ourForms, "grammar_type": ourForms, "gbnf": ourForms, "lark": ourForms,
	"structural_tag": ourForms, "regex_pattern": ourForms, "pattern": ourForms, "choice": ourForms, "choices": ourForms, "constraint": ourForms, "constraints": ourForms,
	"guidance": ourForms, "guided_decoding": ourForms, "logits_processors": ourForms, "logits_processor": ourForms,
	"banned_strings": ourBans, "banned_tokens": ourBans, "custom_token_bans": ourBans, "bad_words_ids": ourBans, "suppress_tokens": ourBans,
	"force_words_ids": ourForms,
	"use_beam_search": "there is no beam search here; " + ourChoices,
	"json":            ourForms,
}

// containers are objects in which other servers, or copied examples of clients, have fields
// that stand at the top of a request here.
var containers = map[string]bool{"extra_body": true, "sampling_params": true, "nvext": true, "options": true, "custom_params": true,
	"generationConfig": true, "generation_config": true, "parameters": true}

// foreign reads a field of another server that shapes the answer; false = it is none.
func (s *Sampling) foreign(in *Reader, key string) bool {
	switch key {
	case "json_schema": // llama.cpp and SGLang
		s.borrow(in, key, "json")
	case "regex": // SGLang
		s.borrow(in, key, "regex")
	case "ebnf": // SGLang
		s.borrow(in, key, "grammar")
	case "grammar": // llama.cpp
		s.borrow(in, key, "grammar")
	case "format": // Ollama: a schema, or "json"
		s.format(in, key)
	case "guided_json_object":
		s.borrow(in, key, "json_object")
	case "best_of":
		if in.Integer() != 1 {
			in.Fail(Unsupported(key, "only completions have it; "+ourChoices))
		}
	case "num_beams":
		if in.Integer() != 1 {
			in.Fail(Unsupported(key, refused["use_beam_search"]))
		}
	case "truncation_side":
		if side := in.Text(); side != "left" && in.err == nil {
			in.Fail(Unsupported(key, "left expected: truncate_prompt_tokens keeps the end of the prompt"))
		}
	default:
		if member := in.formWithin(key); member != "" {
			in.Fail(Unsupported(key+"."+member, "fields of an answer's form stand at the top of a request: send "+member+" there"))
			return true
		}
		ours, shapes := refused[key]
		if !shapes && soundsLikeForm(key) {
			ours, shapes = ourForms, true
		}
		if key == "text" && !bytes.Contains(in.Peek(), []byte(`"format"`)) {
			return false // of responses, without a form
		}
		if shapes && !in.skipNeutral() {
			in.Fail(Unsupported(key, "not a field of this server; "+ours))
		}
		return shapes
	}
	return true
}

// formWithin returns the first member of a container by which an answer is held to a form,
// "" if there is none: what is in a container is left out otherwise.
func (in *Reader) formWithin(key string) (found string) {
	if !containers[key] || in.Kind() != '{' {
		return ""
	}
	ahead := in.Ahead()
	ahead.Members(func(name string) {
		shapes := refused[name] == ourForms || soundsLikeForm(name) || name == "structured_outputs" || name == "response_format" || name == "ebnf" || name == "format"
		if shapes && ahead.skipNeutral() {
			return
		}
		if shapes && found == "" {
			found = name
		}
		ahead.Skip()
	})
	return found
}

// soundsLikeForm reports whether a field that nobody here knows is likely to shape the
// answer.
func soundsLikeForm(key string) bool {
	key = strings.ToLower(key)
	for _, word := range []string{"grammar", "schema", "regex", "guided_"} {
		if strings.Contains(key, word) {
			return !strings.HasPrefix(key, "guided_decoding_") // how, not to what
		}
	}
	return false
}

// skipNeutral passes a value with which clients say that they ask for nothing.
func (in *Reader) skipNeutral() bool {
	switch string(in.Peek()) {
	case "false", `""`, "[]", "{}", "0":
		in.Skip()
		return true
	}
	return false
}

// borrow reads a constraint under the name that another server has for it.
func (s *Sampling) borrow(in *Reader, key, member string) {
	if (in.Kind() == '"' && string(in.Peek()) == `""`) || (in.Kind() == 'f' && member == "json_object") {
		in.Skip() // the default of clients that always send the field
		return
	}
	if member == "grammar" && in.Kind() != '"' {
		in.Expected("the text of a grammar")
		return
	}
	structured := s.structured()
	structured.field(in, member)
	structured.Place = key
}

// format reads Ollama's way to ask for a form.
func (s *Sampling) format(in *Reader, key string) {
	if in.Kind() == '{' {
		s.borrow(in, key, "json")
		return
	}
	if in.Kind() != '"' {
		in.Expected(`"json" or a schema`)
		return
	}
	switch text := in.Text(); {
	case in.err != nil || text == "":
	case text != "json":
		in.Invalid(`"json" or a schema expected, found %.40q; response_format does this here`, text)
	case s.Structured != nil && s.Structured.JSONObject:
		in.Invalid("a form is given twice, under different names")
	default:
		structured := s.structured()
		structured.JSONObject, structured.Place = true, key
	}
}

// place returns where the request has its constraint.
func (s *Structured) place() string {
	if s.Place == "" && s.constraints() == 0 && s.space != "" {
		return s.space
	}
	return cmp.Or(s.Place, "structured_outputs")
}

// knobs are members of vLLM's structured_outputs that say how output is held to a form, not
// to which.
var knobs = map[string]bool{"disable_fallback": true, "disable_any_whitespace": true, "disable_additional_properties": true, "backend": true, "_backend": true,
	"_backend_was_auto": true, "enable_in_reasoning": true}

// refuseShape ends the reading at a member of a form that is not known: left out it would
// take its form along.
func (in *Reader) refuseShape(ours string) {
	in.Fail(Unsupported(string(in.path), "not a member of this; "+ours))
}

// responseFormat reads OpenAI's form, with the schema beside the type as other servers have
// it, too.
func (in *Reader) responseFormat() *ResponseFormat {
	format, flat := new(ResponseFormat), new(JSONSchema)
	if in.Kind() == '{' {
		format.Tag = in.Peek()
	}
	in.Object(func(key string) bool {
		switch key {
		case "type":
			format.Type = in.Text()
		case "json_schema":
			format.JSONSchema = new(JSONSchema)
			in.Object(func(key string) bool { return format.JSONSchema.Field(in, key) })
		case "structures", "triggers", "format": // structural_tag, both forms
			in.Skip()
		default:
			if !flat.Field(in, key) {
				in.refuseShape("response_format has type and json_schema")
			}
		}
		return true
	})
	if format.Type != "structural_tag" {
		format.Tag = nil
	}
	in.adopt(format, flat)
	return format
}

// adopt decides what a schema beside the type means, and one that the type does not ask for.
func (in *Reader) adopt(format *ResponseFormat, flat *JSONSchema) {
	at := string(in.path)
	switch {
	case in.err != nil:
	case flat.Schema != nil && format.JSONSchema != nil:
		in.Fail(Invalid(at+".schema", "excludes json_schema, which has a schema of its own"))
	case flat.Schema != nil && (format.Type == "json_object" || format.Type == "json_schema"):
		format.Type, format.JSONSchema, format.Place = "json_schema", flat, at+".schema"
	case flat.Schema != nil && format.Type != "":
		in.Fail(Invalid(at+".schema", "needs type json_schema"))
	case format.JSONSchema != nil && format.Type == "json_object":
		format.Type = "json_schema"
	case format.JSONSchema != nil && format.Type == "text":
		in.Fail(Invalid(at+".json_schema", "needs type json_schema"))
	}
}

// TextFormat reads text.format of a response, which has the members of a schema flat.
func (in *Reader) TextFormat() *ResponseFormat {
	format, schema := new(ResponseFormat), new(JSONSchema)
	in.Object(func(key string) bool {
		switch {
		case key == "type":
			format.Type = in.Text()
		case !schema.Field(in, key):
			in.refuseShape("text.format has type, name, schema, strict and description")
		}
		return true
	})
	switch {
	case in.err != nil:
	case format.Type == "json_schema":
		format.JSONSchema = schema
	case format.Type == "json_object" && schema.Schema != nil: // as other servers have it
		if schema.Name == "" {
			schema.Name = "response"
		}
		format.Type, format.JSONSchema = "json_schema", schema
	case format.Type == "text" && schema.Schema != nil:
		in.Fail(Invalid(string(in.path)+".schema", "needs type json_schema"))
	}
	return format
}

// outputTokens reads how many tokens an answer may have: -1, as other servers write it, is
// no bound.
func (in *Reader) outputTokens(unbounded *int64) *int64 {
	if tokens := in.Integer(); tokens != -1 {
		return &tokens
	}
	return unbounded
}

// OutputTokens reads a bound of an answer, nil for -1: the rest of the context.
func (in *Reader) OutputTokens() *int64 { return in.outputTokens(nil) }

// unquoted says what a string should have been that has a word or a number in it.
func (in *Reader) unquoted(fits func(text string) bool) string {
	var text string
	if in.Kind() != '"' || json.Unmarshal(in.Peek(), &text) != nil || len(text) > int(limits.ToolName.Info().Default) || !fits(text) {
		return ""
	}
	return ": write " + text + " without quotes"
}
