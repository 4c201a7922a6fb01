package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/packages/param"
)

// fails requires that err is the client's error with these fields.
func fails(err error, status int, param, code string) error {
	e, ok := errors.AsType[*openai.Error](err)
	if !ok {
		return fmt.Errorf("no error of the API: %v", err)
	}
	return errors.Join(
		same("status", e.StatusCode, status),
		same("fields", []string{e.Param, e.Code, e.Type}, []string{param, code, "invalid_request_error"}),
		require(e.Message != "" && e.Response.Header.Get("X-Request-Id") != "", "message", e.RawJSON()))
}

func (s *session) badRequest() error {
	var all error
	for _, c := range []struct {
		param, code string
		change      func(*chatParams)
	}{
		{"temperature", "invalid_value", func(p *chatParams) { p.Temperature = openai.Float(5) }},
		{"temperature", "invalid_type", func(p *chatParams) { p.SetExtraFields(map[string]any{"temperature": "warm"}) }},
		{"messages", "invalid_value", func(p *chatParams) { p.Messages = []openai.ChatCompletionMessageParamUnion{} }},
		{"messages[0].role", "invalid_value", func(p *chatParams) {
			p.Messages[0] = param.Override[openai.ChatCompletionMessageParamUnion](map[string]string{"role": "nobody", "content": "x"})
		}},
		{"messages", "context_length_exceeded", func(p *chatParams) { p.Messages[0] = openai.UserMessage(strings.Repeat("x ", 9000)) }},
		{"top_logprobs", "invalid_value", func(p *chatParams) { p.TopLogprobs = openai.Int(3) }},
	} {
		p := hello()
		c.change(&p)
		_, err := s.complete(p)
		_, _, streamed := s.chunks(p)
		all = errors.Join(all, fails(err, 400, c.param, c.code), fails(streamed, 400, c.param, c.code))
	}
	return all
}

func (s *session) notFound() error {
	p := hello()
	p.Model = "nope"
	_, err := s.complete(p)
	_, _, streamed := s.chunks(p)
	_, card := s.client.Models.Get(s.ctx, "nope")
	_, route := s.client.Embeddings.New(s.ctx, openai.EmbeddingNewParams{Model: model, Input: openai.EmbeddingNewParamsInputUnion{OfString: openai.String("x")}})
	return errors.Join(
		fails(err, 404, "model", "model_not_found"), fails(streamed, 404, "model", "model_not_found"),
		fails(card, 404, "model", "model_not_found"), fails(route, 404, "", "not_found"))
}

func (s *session) authentication() error {
	stranger, friend := connect(s.keyedURL, "wrong"), connect(s.keyedURL, s.key)
	_, list := stranger.Models.List(s.ctx)
	_, answer := stranger.Chat.Completions.New(s.ctx, hello())
	_, err := friend.Chat.Completions.New(s.ctx, hello())
	return errors.Join(err, fails(list, 401, "", "invalid_api_key"), fails(answer, 401, "", "invalid_api_key"))
}

// load is how many requests the server works on, aborted how many were given up.
func (s *session) load() (load int, aborted string, err error) {
	body, err := s.get("/load")
	if err != nil {
		return 0, "", err
	}
	if _, err := fmt.Sscanf(body, `{"server_load":%d}`, &load); err != nil {
		return 0, "", fmt.Errorf("/load: %q", body)
	}
	body, err = s.get("/metrics")
	for line := range strings.Lines(body) {
		if strings.HasPrefix(line, "vllm:request_success_total") && strings.Contains(line, `"abort"`) {
			aborted += line
		}
	}
	return load, aborted, errors.Join(err, require(aborted != "", "/metrics", "no aborted requests"))
}

func (s *session) get(path string) (string, error) {
	r, err := http.Get(s.url + path)
	if err != nil {
		return "", err
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	return string(body), err
}

func (s *session) abort() error {
	_, before, err := s.load()
	if err != nil {
		return err
	}
	p := hello()
	p.N, p.MaxTokens = openai.Int(8), openai.Int(3000)
	ctx, cancel := context.WithCancel(s.ctx)
	defer cancel()
	stream := s.client.Chat.Completions.NewStreaming(ctx, p, option.WithJSONSet("ignore_eos", true))
	defer stream.Close()
	for range 3 {
		if !stream.Next() {
			return fmt.Errorf("no chunk: %w", stream.Err())
		}
	}
	load, _, err := s.load()
	if err := errors.Join(err, same("load", load, 1)); err != nil {
		return err
	}
	cancel()
	for deadline := time.Now().Add(5 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		load, aborted, err := s.load()
		if err != nil || (load == 0 && aborted != before) {
			return err
		}
		if time.Now().After(deadline) {
			return errors.New("the server goes on")
		}
	}
}

func (s *session) parallel() error {
	asked := slices.Repeat([]func() chatParams{hello, sum, weather}, 4)
	answers, errs := make([]*openai.ChatCompletion, len(asked)), make([]error, len(asked))
	var wg sync.WaitGroup
	for i, p := range asked {
		wg.Go(func() { answers[i], errs[i] = s.complete(p()) })
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	for i, p := range asked {
		alone, err := s.complete(p())
		if err != nil {
			return err
		}
		got, want := answers[i].Choices[0], alone.Choices[0]
		if len(want.Message.ToolCalls) == 1 {
			_, err = called(got)
		}
		if err := errors.Join(err, same("content", got.Message.Content, want.Message.Content), same("finish_reason", got.FinishReason, want.FinishReason)); err != nil {
			return err
		}
	}
	return nil
}

func (s *session) completions() error {
	p := prompt("Hello")
	p.Logprobs = openai.Int(2)
	r, err := s.client.Completions.New(s.ctx, p)
	if err != nil {
		return err
	}
	if len(r.Choices) != 1 {
		return fmt.Errorf("not one choice: %s", r.RawJSON())
	}
	c := r.Choices[0]
	stream := s.client.Completions.NewStreaming(s.ctx, prompt("Hello"))
	defer stream.Close()
	var text, finished string
	for stream.Next() {
		text += stream.Current().Choices[0].Text
		finished += string(stream.Current().Choices[0].FinishReason)
	}
	p = prompt("Hello", "12+")
	p.N, p.Echo = openai.Int(2), openai.Bool(true)
	both, err := s.client.Completions.New(s.ctx, p)
	if err := errors.Join(err, stream.Err()); err != nil {
		return err
	}
	lp := c.Logprobs
	for i, b := range both.Choices {
		err = errors.Join(err, same("index", b.Index, int64(i)), require(strings.HasPrefix(b.Text, []string{"Hello", "12+"}[i/2]), "echo", b.Text))
	}
	return errors.Join(err,
		same("answer", []string{string(r.Object), string(c.FinishReason), text, finished}, []string{"text_completion", "length", c.Text, "length"}),
		same("completion_tokens", r.Usage.CompletionTokens, 8),
		same("tokens", strings.Join(lp.Tokens, ""), c.Text),
		same("log probabilities", []int{len(lp.TokenLogprobs), len(lp.TopLogprobs), len(lp.TextOffset), len(lp.TopLogprobs[0])}, []int{8, 8, 8, 2}),
		same("choices of two prompts", len(both.Choices), 4))
}
