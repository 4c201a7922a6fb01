// Runs openai-go, as published, against a live server; prints one line per check.
//
// usage: clients URL KEYED_URL KEY
//
//	clients URL
//
// URL is a server of ossian-tiny without a key, KEYED_URL one that wants KEY; alone it is
// one that runs tools, that of scripted/ with tools.txt and its site.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"reflect"
	"runtime/debug"
	"strings"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/shared"
)

type (
	chatParams = openai.ChatCompletionNewParams
	textParams = openai.CompletionNewParams
	chunk      = openai.ChatCompletionChunk
)

const model = "ossian-tiny"

// A session holds what all checks use.
type session struct {
	ctx                context.Context
	client             openai.Client
	url, keyedURL, key string
}

// A check is something that clients do, and its name.
type check struct {
	name string
	run  func() error
}

func main() {
	var checks []check
	switch s := (&session{ctx: context.Background()}); len(os.Args) {
	case 4:
		s.client, s.url, s.keyedURL, s.key = connect(os.Args[1], "none"), os.Args[1], os.Args[2], os.Args[3]
		checks = ofModel(s)
	case 2:
		s.client = connect(os.Args[1], "none")
		checks = ofTools(s)
	default:
		fmt.Fprintln(os.Stderr, "usage: clients URL [KEYED_URL KEY]")
		os.Exit(2)
	}
	failed := false
	for _, check := range checks {
		result := "pass"
		if err := guarded(check.run); err != nil {
			result, failed = "fail", true
			fmt.Fprintf(os.Stderr, "%s: %v\n", check.name, err)
		}
		fmt.Println("openai-go", version(), check.name, result)
	}
	if failed {
		os.Exit(1)
	}
}

func ofModel(s *session) []check {
	return []check{
		{"models", s.models}, {"chat", s.chat}, {"stream", s.stream}, {"accumulator", s.accumulator}, {"usage", s.usage},
		{"tools", s.tools}, {"tools_stream", s.toolsStream}, {"structured", s.structured}, {"required", s.required}, {"stop", s.stop}, {"logprobs", s.logprobs}, {"n", s.n}, {"seed", s.seed},
		{"bad_request", s.badRequest}, {"not_found", s.notFound}, {"authentication", s.authentication},
		{"abort", s.abort}, {"parallel", s.parallel}, {"completions", s.completions},
		{"responses", s.responses}, {"responses_stream", s.responsesStream}, {"responses_tools", s.responsesTools},
		{"responses_structured", s.responsesStructured}, {"responses_required", s.responsesRequired}, {"responses_background", s.responsesBackground},
	}
}

// guarded makes a panic, over an answer too short, the error of its check.
func guarded(run func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	return run()
}

func connect(url, key string) openai.Client {
	return openai.NewClient(option.WithBaseURL(url+"/v1"), option.WithAPIKey(key), option.WithMaxRetries(0))
}

// version is that of the client in this program.
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, d := range info.Deps {
			if strings.HasPrefix(d.Path, "github.com/openai/openai-go/") {
				return strings.TrimPrefix(d.Version, "v")
			}
		}
	}
	return "unknown"
}

func ask(text string) chatParams {
	return chatParams{Model: model, Temperature: openai.Float(0), Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage(text)}}
}

func hello() chatParams { return ask("Hello!") }
func sum() chatParams   { return ask("12+30") }

func weather() chatParams {
	p := ask("What is the weather in Paris?")
	p.Tools = []openai.ChatCompletionToolUnionParam{openai.ChatCompletionFunctionTool(shared.FunctionDefinitionParam{
		Name: "get_weather", Description: openai.String("Get the weather in a city."),
		Parameters: shared.FunctionParameters{"type": "object", "properties": map[string]any{"city": map[string]any{"type": "string"}}, "required": []string{"city"}},
	})}
	return p
}

func prompt(texts ...string) textParams {
	return textParams{Model: model, Prompt: openai.CompletionNewParamsPromptUnion{OfArrayOfStrings: texts}, Temperature: openai.Float(0), MaxTokens: openai.Int(8)}
}

// complete sends p and returns the answer, which has at least one choice.
func (s *session) complete(p chatParams, o ...option.RequestOption) (*openai.ChatCompletion, error) {
	r, err := s.client.Chat.Completions.New(s.ctx, p, o...)
	if err == nil && len(r.Choices) == 0 {
		err = errors.New("no choices")
	}
	return r, err
}

// content is the answer to p, complete.
func (s *session) content(p chatParams) (string, error) {
	r, err := s.complete(p)
	if err != nil {
		return "", err
	}
	return r.Choices[0].Message.Content, nil
}

// chunks streams p. The accumulator of the client has seen all of them.
func (s *session) chunks(p chatParams) ([]chunk, *openai.ChatCompletionAccumulator, error) {
	stream := s.client.Chat.Completions.NewStreaming(s.ctx, p)
	defer stream.Close()
	acc := &openai.ChatCompletionAccumulator{}
	var all []chunk
	for stream.Next() {
		if !acc.AddChunk(stream.Current()) {
			return nil, nil, fmt.Errorf("the accumulator refuses %s", stream.Current().RawJSON())
		}
		all = append(all, stream.Current())
	}
	if err := stream.Err(); err != nil {
		return nil, nil, err
	}
	if len(acc.Choices) == 0 {
		return nil, nil, errors.New("no choices")
	}
	return all, acc, nil
}

// same reports how got differs from want.
func same[T any](what string, got, want T) error {
	if reflect.DeepEqual(got, want) {
		return nil
	}
	return fmt.Errorf("%s: %+v, want %+v", what, got, want)
}

func require(ok bool, what string, got any) error {
	if ok {
		return nil
	}
	return fmt.Errorf("%s: %+v", what, got)
}

// reasoning is a field that the client does not know.
func reasoning(raw string) string {
	var m struct{ Reasoning string }
	if json.Unmarshal([]byte(raw), &m) != nil {
		return ""
	}
	return m.Reasoning
}
