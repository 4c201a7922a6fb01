package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/responses"
	"github.com/openai/openai-go/v3/shared"
)

// A person is what the forms below ask for.
type person struct {
	Name *string
	Age  *float64
	Pets *[]string
}

var personSchema = object(map[string]any{
	"name": map[string]any{"type": "string", "maxLength": 20},
	"age":  map[string]any{"type": "integer", "minimum": 0, "maximum": 150},
	"pets": map[string]any{"type": "array", "maxItems": 3, "items": map[string]any{"enum": []string{"cat", "dog"}}},
})

var timeSchema = object(map[string]any{
	"city": map[string]any{"type": "string", "maxLength": 20},
	"zone": map[string]any{"enum": []string{"UTC", "local"}},
})

// badSchema is one that no output can be held to.
var badSchema = map[string]any{"properties": map[string]any{"x": map[string]any{"contains": map[string]any{}}}}

// questions, the last of which alone needs a tool.
var questions = []string{"Hello!", "12+30", "What is the weather in Paris?"}

// object is a schema of strict mode: all of the properties, and no others.
func object(properties map[string]any) map[string]any {
	names := make([]string, 0, len(properties))
	for name := range properties {
		names = append(names, name)
	}
	slices.Sort(names)
	return map[string]any{"type": "object", "properties": properties, "required": names, "additionalProperties": false}
}

// read decodes text, which has no members but those of into.
func read(text string, into any) error {
	d := json.NewDecoder(strings.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return fmt.Errorf("%q: %w", text, err)
	}
	return require(!d.More(), "more behind the object", text)
}

// isPerson requires that text is of personSchema. What it says may be silly.
func isPerson(text string) error {
	var p person
	if err := read(text, &p); err != nil {
		return err
	}
	if p.Name == nil || p.Age == nil || p.Pets == nil {
		return fmt.Errorf("not all members: %q", text)
	}
	age, pets := *p.Age, *p.Pets
	other := func(s string) bool { return s != "cat" && s != "dog" }
	return require(len([]rune(*p.Name)) <= 20 && age >= 0 && age <= 150 && age == float64(int(age)) && len(pets) <= 3 && !slices.ContainsFunc(pets, other), "not of the schema", text)
}

// isTime requires that text is of timeSchema.
func isTime(text string) error {
	var t struct{ City, Zone *string }
	if err := read(text, &t); err != nil {
		return err
	}
	return require(t.City != nil && len([]rune(*t.City)) <= 20 && t.Zone != nil && (*t.Zone == "UTC" || *t.Zone == "local"), "not of the schema", text)
}

func askPerson(schema map[string]any) chatParams {
	p := ask("name: Ada. age: 36. pets: cat and dog.")
	p.ResponseFormat.OfJSONSchema = &shared.ResponseFormatJSONSchemaParam{
		JSONSchema: shared.ResponseFormatJSONSchemaJSONSchemaParam{Name: "person", Schema: schema, Strict: openai.Bool(true)}}
	p.SetExtraFields(briefly)
	return p
}

// briefly bounds the reasoning: the prompt has the date in it, and on some days the small model would go
// on reasoning until its context ends.
var briefly = map[string]any{"thinking_token_budget": 200}

func (s *session) structured() error {
	p := askPerson(personSchema)
	r, err := s.complete(p)
	if err != nil {
		return err
	}
	want := r.Choices[0]
	_, acc, err := s.chunks(p)
	if err != nil {
		return err
	}
	got := acc.Choices[0]
	err = errors.Join(isPerson(want.Message.Content), same("finish_reason", want.FinishReason, "stop"), require(reasoning(want.Message.RawJSON()) != "", "reasoning", want.Message.RawJSON()),
		same("streamed", got.Message.Content, want.Message.Content), same("finish_reason of the stream", got.FinishReason, "stop"))
	for seed := range int64(3) {
		p.Temperature, p.Seed = openai.Float(1), openai.Int(seed)
		text, wrong := s.content(p)
		err = errors.Join(err, wrong, isPerson(text))
	}
	_, whole := s.complete(askPerson(badSchema))
	_, _, streamed := s.chunks(askPerson(badSchema))
	at := "response_format.json_schema.schema"
	return errors.Join(err, fails(whole, 400, at, "unsupported_schema"), fails(streamed, 400, at, "unsupported_schema"))
}

func (s *session) required() error {
	for _, q := range questions {
		p := ask(q)
		p.Tools = []openai.ChatCompletionToolUnionParam{openai.ChatCompletionFunctionTool(shared.FunctionDefinitionParam{Name: "get_time", Strict: openai.Bool(true), Parameters: timeSchema})}
		p.ToolChoice.OfAuto = openai.String("required")
		r, err := s.complete(p)
		if err != nil {
			return err
		}
		_, acc, err := s.chunks(p)
		if err != nil {
			return err
		}
		want, got := r.Choices[0], acc.Choices[0]
		if len(want.Message.ToolCalls) != 1 || len(got.Message.ToolCalls) != 1 {
			return fmt.Errorf("%s: not one call: %s, streamed %+v", q, r.RawJSON(), got)
		}
		call := want.Message.ToolCalls[0].Function
		err = errors.Join(isTime(call.Arguments), same("finish_reason", want.FinishReason, "tool_calls"), same("name", call.Name, "get_time"),
			same("streamed", got.Message.ToolCalls[0].Function.Arguments, call.Arguments))
		if err != nil {
			return err
		}
	}
	return nil
}

func respondPerson(schema map[string]any) responseParams {
	p := respond("name: Ada. age: 36. pets: cat and dog.")
	p.Text.Format.OfJSONSchema = &responses.ResponseFormatTextJSONSchemaConfigParam{Name: "person", Schema: schema, Strict: openai.Bool(true)}
	p.SetExtraFields(briefly)
	return p
}

func (s *session) responsesStructured() error {
	p := respondPerson(personSchema)
	want, err := s.client.Responses.New(s.ctx, p)
	if err != nil {
		return err
	}
	all, last, err := events(s.client.Responses.NewStreaming(s.ctx, p), 0)
	if err != nil {
		return err
	}
	text := ""
	for _, e := range all {
		if e.Type == "response.output_text.delta" {
			text += e.Delta
		}
	}
	err = errors.Join(isPerson(want.OutputText()), same("format", []string{want.Text.Format.Type, want.Text.Format.Name}, []string{"json_schema", "person"}),
		require(want.Text.Format.Strict, "strict", want.Text.RawJSON()), same("streamed", plain(last), plain(want)), same("deltas", text, want.OutputText()))
	bad := respondPerson(badSchema)
	_, whole := s.client.Responses.New(s.ctx, bad)
	_, _, streamed := events(s.client.Responses.NewStreaming(s.ctx, bad), 0)
	bad.Background = openai.Bool(true)
	_, queued := s.client.Responses.New(s.ctx, bad)
	for _, refused := range []error{whole, streamed, queued} {
		err = errors.Join(err, fails(refused, 400, "text.format.schema", "unsupported_schema"))
	}
	return err
}

func (s *session) responsesRequired() error {
	for _, q := range questions {
		p := respond(q)
		p.Tools = []responses.ToolUnionParam{{OfFunction: &responses.FunctionToolParam{Name: "get_time", Strict: openai.Bool(true), Parameters: timeSchema}}}
		p.ToolChoice.OfToolChoiceMode = openai.Opt(responses.ToolChoiceOptionsRequired)
		want, err := s.client.Responses.New(s.ctx, p)
		if err != nil {
			return err
		}
		_, last, err := events(s.client.Responses.NewStreaming(s.ctx, p), 0)
		if err != nil {
			return err
		}
		call := want.Output[len(want.Output)-1].AsFunctionCall()
		if err := errors.Join(isTime(call.Arguments), same("name", call.Name, "get_time"), same("streamed", plain(last), plain(want))); err != nil {
			return err
		}
	}
	return nil
}
