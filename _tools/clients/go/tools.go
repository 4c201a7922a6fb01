package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/responses"
)

// Checks of a server that runs tools: that of scripted/ with tools.txt and its site.

const (
	harpAsked, sumAsked, weatherAsked = "Of what is the frame of a harp?", "What is six times seven?", "What is the weather?"
	mark, page                        = "【1†L6】", "https://corpus.local/harp.html"
)

func ofTools(s *session) []check {
	return []check{{"tools_responses_search", s.search}, {"tools_responses_code", s.code}, {"tools_responses_mcp", s.mcp}, {"tools_chat", s.chatTools}}
}

// everyForm asks whole, streamed and in the background, and hands each to look.
func (s *session) everyForm(question string, tool responses.ToolUnionParam, look func(*responses.Response) error) error {
	p := respond(question)
	p.Model, p.Tools = "scripted", []responses.ToolUnionParam{tool}
	p.Include = []responses.ResponseIncludable{"web_search_call.action.sources", "code_interpreter_call.outputs"}
	whole, err := s.client.Responses.New(s.ctx, p)
	if err != nil {
		return err
	}
	_, last, err := events(s.client.Responses.NewStreaming(s.ctx, p), 0)
	if err != nil {
		return err
	}
	p.Background = openai.Bool(true)
	later, err := s.client.Responses.New(s.ctx, p)
	for err == nil && (later.Status == responses.ResponseStatusQueued || later.Status == responses.ResponseStatusInProgress) {
		time.Sleep(10 * time.Millisecond)
		later, err = s.client.Responses.Get(s.ctx, later.ID, responses.ResponseGetParams{})
	}
	if err != nil {
		return err
	}
	for _, r := range []*responses.Response{whole, last, later} {
		if err := look(r); err != nil {
			return fmt.Errorf("%w\n%s", err, r.RawJSON())
		}
	}
	return nil
}

// cited requires that a citation, whose places count code points, selects its mark.
func cited(text string, start, end int64, url string) error {
	if letters := []rune(text); end > int64(len(letters)) || string(letters[start:end]) != mark || url != page {
		return fmt.Errorf("%d to %d of %q, %s", start, end, text, url)
	}
	return nil
}

func (s *session) search() error {
	tool := responses.ToolUnionParam{OfWebSearch: &responses.WebSearchToolParam{Type: responses.WebSearchToolTypeWebSearch}}
	return s.everyForm(harpAsked, tool, func(r *responses.Response) error {
		var done []string
		for _, item := range r.Output {
			if item.Type == "web_search_call" {
				done = append(done, item.AsWebSearchCall().Action.Type)
			}
		}
		if got := strings.Join(done, " "); got != "search open_page find_in_page" {
			return errors.New(got)
		}
		part := r.Output[len(r.Output)-1].AsMessage().Content[0]
		note := part.Annotations[0]
		return cited(part.Text, note.StartIndex, note.EndIndex, note.URL)
	})
}

func (s *session) code() error {
	tool := responses.ToolParamOfCodeInterpreter(responses.ToolCodeInterpreterContainerCodeInterpreterContainerAutoParam{})
	return s.everyForm(sumAsked, tool, func(r *responses.Response) error {
		got := r.OutputText()
		for _, item := range r.Output {
			if item.Type == "code_interpreter_call" {
				call := item.AsCodeInterpreterCall()
				got += "; " + call.Code + " gives " + call.Outputs[0].Logs
			}
		}
		if !strings.HasPrefix(got, "It is 42.; x = 6*7 gives ") || !strings.HasSuffix(got, "; print(x) gives 42\n") {
			return errors.New(got)
		}
		return nil
	})
}

func (s *session) mcp() error {
	return s.everyForm(weatherAsked, responses.ToolUnionParam{OfMcp: &responses.ToolMcpParam{ServerLabel: "weather"}}, func(r *responses.Response) error {
		got := r.OutputText()
		for _, item := range r.Output {
			switch item.Type {
			case "mcp_list_tools":
				got += fmt.Sprintf("; %d tools", len(item.AsMcpListTools().Tools))
			case "mcp_call":
				call := item.AsMcpCall()
				got += fmt.Sprintf("; %s %s %s %s", call.Name, call.Arguments, call.Status, call.Output)
			}
		}
		if want := `Now: rain; 2 tools; later {"day":"never"} failed ; now {"city":"Paris"} completed rain`; got != want {
			return fmt.Errorf("%s, want %s", got, want)
		}
		return nil
	})
}

// chatTools sets tools that the client's types do not have.
func (s *session) chatTools() error {
	for question, tool := range map[string]string{harpAsked: `{"type":"web_search"}`, sumAsked: `{"type":"code_interpreter","container":{"type":"auto"}}`, weatherAsked: `{"type":"mcp","server_label":"weather"}`} {
		p := chatParams{Model: "scripted", Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage(question)}}
		own := option.WithJSONSet("tools", []any{json.RawMessage(tool)})
		whole, err := s.client.Chat.Completions.New(s.ctx, p, own)
		if err != nil {
			return err
		}
		message := whole.Choices[0].Message
		var all openai.ChatCompletionAccumulator
		stream := s.client.Chat.Completions.NewStreaming(s.ctx, p, own)
		for stream.Next() {
			if !all.AddChunk(stream.Current()) {
				return errors.New("the accumulator refuses a chunk")
			}
		}
		if err := stream.Err(); err != nil {
			return err
		}
		if got := all.Choices[0].Message; got.Content != message.Content || len(message.ToolCalls)+len(got.ToolCalls) > 0 {
			return fmt.Errorf("streamed %s, whole %s", got.RawJSON(), message.RawJSON())
		}
		if question != harpAsked {
			continue
		}
		if len(message.Annotations) != 1 {
			return errors.New(message.RawJSON())
		}
		note := message.Annotations[0].URLCitation
		if err := cited(message.Content, note.StartIndex, note.EndIndex, note.URL); err != nil {
			return err
		}
	}
	return nil
}
