package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/responses"
)

type responseParams = responses.ResponseNewParams

func respond(text string) responseParams {
	return responseParams{Model: model, Temperature: openai.Float(0), Input: responses.ResponseNewParamsInputUnion{OfString: openai.String(text)}}
}

func respondWeather() responseParams {
	p := respond("What is the weather in Paris?")
	p.Tools = []responses.ToolUnionParam{{OfFunction: &responses.FunctionToolParam{Name: "get_weather", Description: openai.String("Get the weather in a city."), Strict: openai.Bool(false),
		Parameters: map[string]any{"type": "object", "properties": map[string]any{"city": map[string]any{"type": "string"}}, "required": []string{"city"}}}}}
	return p
}

// plain is the output without what differs between two responses to one request.
func plain(r *responses.Response) string {
	var out struct {
		Output []map[string]any `json:"output"`
	}
	if err := json.Unmarshal([]byte(r.RawJSON()), &out); err != nil {
		return err.Error()
	}
	for _, item := range out.Output {
		delete(item, "id")
		delete(item, "call_id")
	}
	text, err := json.Marshal(out)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// events reads a stream of a response whose first event has the given number, to its end.
func events(stream interface {
	Next() bool
	Current() responses.ResponseStreamEventUnion
	Err() error
	Close() error
}, first int64) (all []responses.ResponseStreamEventUnion, last *responses.Response, err error) {
	defer stream.Close()
	for stream.Next() {
		e := stream.Current()
		if e.SequenceNumber != first+int64(len(all)) {
			return nil, nil, fmt.Errorf("event %d has number %d", len(all), e.SequenceNumber)
		}
		all = append(all, e)
	}
	if err := stream.Err(); err != nil {
		return nil, nil, err
	}
	if len(all) == 0 || all[len(all)-1].Type != "response.completed" {
		return nil, nil, fmt.Errorf("%d events, the last not response.completed", len(all))
	}
	return all, &all[len(all)-1].Response, nil
}

func (s *session) responses() error {
	r, err := s.client.Responses.New(s.ctx, respond("12+30"))
	if err != nil {
		return err
	}
	again, err := s.client.Responses.Get(s.ctx, r.ID, responses.ResponseGetParams{})
	if err != nil {
		return err
	}
	items, err := s.client.Responses.InputItems.List(s.ctx, r.ID, responses.InputItemListParams{})
	if err != nil {
		return err
	}
	p := respond("12+30")
	p.MaxOutputTokens = openai.Int(3)
	short, err := s.client.Responses.New(s.ctx, p)
	if err != nil {
		return err
	}
	p = respond("Hello!")
	p.PreviousResponseID = openai.String(r.ID)
	more, err := s.client.Responses.New(s.ctx, p)
	if err != nil {
		return err
	}
	u := r.Usage
	return errors.Join(
		same("answer", []string{string(r.Status), r.OutputText(), string(r.Object)}, []string{"completed", "42", "response"}),
		same("stored", again.RawJSON(), r.RawJSON()),
		same("input items", []string{items.Data[0].Type, items.Data[0].AsMessage().Content[0].Text}, []string{"message", "12+30"}),
		same("three tokens", []string{string(short.Status), short.IncompleteDetails.Reason}, []string{"incomplete", "max_output_tokens"}),
		require(u.TotalTokens == u.InputTokens+u.OutputTokens && u.OutputTokensDetails.ReasoningTokens > 0, "usage", u.RawJSON()),
		require(more.OutputText() != "" && more.Usage.InputTokensDetails.CachedTokens > 0, "chained", more.RawJSON()),
		s.client.Responses.Delete(s.ctx, r.ID),
		s.deleted(r.ID))
}

func (s *session) deleted(id string) error {
	_, err := s.client.Responses.Get(s.ctx, id, responses.ResponseGetParams{})
	var e *openai.Error
	return require(errors.As(err, &e) && e.StatusCode == http.StatusNotFound && e.Code == "response_not_found", "deleted", err)
}

func (s *session) responsesStream() error {
	for _, p := range []responseParams{respond("Hello!"), respondWeather()} {
		want, err := s.client.Responses.New(s.ctx, p)
		if err != nil {
			return err
		}
		all, last, err := events(s.client.Responses.NewStreaming(s.ctx, p), 0)
		if err != nil {
			return err
		}
		var text, arguments string
		for _, e := range all {
			switch e.Type {
			case "response.output_text.delta":
				text += e.Delta
			case "response.function_call_arguments.delta":
				arguments += e.Delta
			}
		}
		_, kept, err := events(s.client.Responses.GetStreaming(s.ctx, all[0].Response.ID, responses.ResponseGetParams{}, option.WithQuery("stream", "true")), 0)
		if err != nil {
			return err
		}
		whole := ""
		for _, item := range last.Output {
			if item.Type == "function_call" {
				whole += item.AsFunctionCall().Arguments
			}
		}
		err = errors.Join(same("streamed", plain(last), plain(want)), same("text", text, want.OutputText()), same("replayed", kept.RawJSON(), last.RawJSON()),
			same("arguments", arguments, whole))
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *session) responsesTools() error {
	r, err := s.client.Responses.New(s.ctx, respondWeather())
	if err != nil {
		return err
	}
	call := r.Output[len(r.Output)-1].AsFunctionCall()
	p := respondWeather()
	p.PreviousResponseID = openai.String(r.ID)
	p.Input = responses.ResponseNewParamsInputUnion{OfInputItemList: responses.ResponseInputParam{{OfFunctionCallOutput: &responses.ResponseInputItemFunctionCallOutputParam{
		CallID: openai.String(call.CallID), Output: responses.ResponseInputItemFunctionCallOutputOutputUnionParam{OfString: openai.String(`{"temperature":18}`)}}}}}
	answer, err := s.client.Responses.New(s.ctx, p)
	if err != nil {
		return err
	}
	var arguments map[string]string
	return errors.Join(json.Unmarshal([]byte(call.Arguments), &arguments), same("call", call.Name, "get_weather"), same("city", arguments["city"], "Paris"),
		require(strings.HasPrefix(call.CallID, "call_"), "call_id", call.CallID),
		require(strings.Contains(answer.OutputText(), "18"), "answer", answer.RawJSON()))
}

func (s *session) responsesBackground() error {
	for _, p := range []responseParams{respond("Hello!"), respondWeather()} {
		want, err := s.client.Responses.New(s.ctx, p)
		if err != nil {
			return err
		}
		p.Background = openai.Bool(true)
		r, err := s.client.Responses.New(s.ctx, p)
		if err != nil {
			return err
		}
		first := r.Status
		for r.Status == "queued" || r.Status == "in_progress" {
			time.Sleep(10 * time.Millisecond)
			if r, err = s.client.Responses.Get(s.ctx, r.ID, responses.ResponseGetParams{}); err != nil {
				return err
			}
		}
		_, last, err := events(s.client.Responses.GetStreaming(s.ctx, r.ID, responses.ResponseGetParams{StartingAfter: openai.Int(4)}, option.WithQuery("stream", "true")), 5)
		if err != nil {
			return err
		}
		if err := errors.Join(same("accepted as", first, "queued"), same("polled", plain(r), plain(want)), same("resumed", last.RawJSON(), r.RawJSON())); err != nil {
			return err
		}
	}
	p := respond("Hello!")
	p.Background, p.MaxOutputTokens = openai.Bool(true), openai.Int(100_000)
	r, err := s.client.Responses.New(s.ctx, p, option.WithJSONSet("ignore_eos", true))
	if err != nil {
		return err
	}
	r, err = s.client.Responses.Cancel(s.ctx, r.ID)
	return errors.Join(err, same("cancelled", r.Status, "cancelled"))
}
