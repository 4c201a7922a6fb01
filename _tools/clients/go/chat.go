package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
)

func (s *session) models() error {
	page, err := s.client.Models.List(s.ctx)
	if err != nil {
		return err
	}
	card, err := s.client.Models.Get(s.ctx, model)
	if err != nil {
		return err
	}
	return errors.Join(
		same("models", len(page.Data), 1),
		same("listed", page.Data[0].RawJSON(), card.RawJSON()),
		same("card", []string{card.ID, string(card.Object), card.OwnedBy}, []string{model, "model", "ossian"}),
		require(card.Created > 0, "created", card.Created))
}

func (s *session) chat() error {
	var response *http.Response
	r, err := s.complete(sum(), option.WithResponseInto(&response))
	if err != nil {
		return err
	}
	p := sum()
	p.MaxCompletionTokens = openai.Int(3)
	short, err := s.complete(p)
	if err != nil {
		return err
	}
	total, err := s.content(ask("4821+3977"))
	c := r.Choices[0]
	return errors.Join(err,
		same("answer", []string{string(r.Object), r.Model, string(c.Message.Role), c.Message.Content, c.FinishReason}, []string{"chat.completion", model, "assistant", "42", "stop"}),
		require(strings.HasPrefix(r.ID, "chatcmpl-"), "id", r.ID),
		require(response.Header.Get("X-Request-Id") != "", "X-Request-Id", response.Header),
		require(math.Abs(float64(r.Created-time.Now().Unix())) < 60, "created", r.Created),
		require(reasoning(c.Message.RawJSON()) != "" && c.Message.Refusal == "" && len(c.Message.ToolCalls) == 0, "message", c.Message.RawJSON()),
		same("choices", len(r.Choices), 1),
		same("long sum", total, "8798"),
		same("finish_reason of 3 tokens", short.Choices[0].FinishReason, "length"),
		same("completion_tokens of 3", short.Usage.CompletionTokens, 3))
}

func (s *session) stream() error {
	want, err := s.complete(hello())
	if err != nil {
		return err
	}
	chunks, _, err := s.chunks(hello())
	if err != nil {
		return err
	}
	var text, thought string
	var roles, contents int
	for i, c := range chunks {
		if len(c.Choices) != 1 || c.ID != chunks[0].ID || c.Created != chunks[0].Created || c.Model != model || c.JSON.Usage.Valid() {
			return fmt.Errorf("chunk %d: %s", i, c.RawJSON())
		}
		d := c.Choices[0].Delta
		text += d.Content
		thought += reasoning(d.RawJSON())
		if d.JSON.Role.Valid() {
			roles += 1 + i // the first chunk alone has it
		}
		if d.Content != "" {
			contents++
		}
		if finished := c.Choices[0].FinishReason; (finished == "stop") != (i == len(chunks)-1) {
			return fmt.Errorf("chunk %d of %d: finish_reason %q", i, len(chunks), finished)
		}
	}
	return errors.Join(
		same("content", text, want.Choices[0].Message.Content),
		same("reasoning", thought, reasoning(want.Choices[0].Message.RawJSON())),
		same("role", roles, 1),
		require(contents > 1, "chunks of content", contents))
}

func (s *session) accumulator() error {
	want, err := s.complete(hello())
	if err != nil {
		return err
	}
	stream := s.client.Chat.Completions.NewStreaming(s.ctx, hello())
	defer stream.Close()
	var acc openai.ChatCompletionAccumulator
	var finished []string
	for stream.Next() {
		if !acc.AddChunk(stream.Current()) {
			return fmt.Errorf("the accumulator refuses %s", stream.Current().RawJSON())
		}
		if text, ok := acc.JustFinishedContent(); ok && text != "" {
			finished = append(finished, text)
		}
	}
	w := want.Choices[0]
	return errors.Join(stream.Err(),
		same("choices", len(acc.Choices), 1),
		same("content", acc.Choices[0].Message.Content, w.Message.Content),
		same("finish_reason", acc.Choices[0].FinishReason, w.FinishReason),
		same("finished", finished, []string{w.Message.Content}))
}

func (s *session) usage() error {
	r, err := s.complete(sum())
	if err != nil {
		return err
	}
	p := sum()
	p.StreamOptions.IncludeUsage = openai.Bool(true)
	chunks, _, err := s.chunks(p)
	if err != nil {
		return err
	}
	for i, c := range chunks[:len(chunks)-1] {
		if c.JSON.Usage.Valid() || len(c.Choices) != 1 {
			return fmt.Errorf("chunk %d: %s", i, c.RawJSON())
		}
	}
	last, want := chunks[len(chunks)-1], r.Usage
	thought, cached := want.CompletionTokensDetails.ReasoningTokens, want.PromptTokensDetails.CachedTokens
	counts := func(u openai.CompletionUsage) []int64 {
		return []int64{u.PromptTokens, u.CompletionTokens, u.TotalTokens, u.CompletionTokensDetails.ReasoningTokens}
	}
	return errors.Join(
		same("total_tokens", want.TotalTokens, want.PromptTokens+want.CompletionTokens),
		require(0 < thought && thought < want.CompletionTokens, "reasoning_tokens", thought),
		require(0 <= cached && cached < want.PromptTokens, "cached_tokens", cached),
		same("choices of the usage chunk", len(last.Choices), 0),
		same("streamed", counts(last.Usage), counts(want)))
}

// called returns the one call that the model is to make.
func called(c openai.ChatCompletionChoice) (openai.ChatCompletionMessageToolCallUnion, error) {
	if c.FinishReason != "tool_calls" || c.Message.Content != "" || len(c.Message.ToolCalls) != 1 {
		return openai.ChatCompletionMessageToolCallUnion{}, fmt.Errorf("not one call: %+v", c)
	}
	call := c.Message.ToolCalls[0]
	var args map[string]any
	err := json.Unmarshal([]byte(call.Function.Arguments), &args)
	return call, errors.Join(err,
		same("type", call.Type, "function"),
		require(strings.HasPrefix(call.ID, "call_"), "id", call.ID),
		same("name", call.Function.Name, "get_weather"),
		same("arguments", args, map[string]any{"city": "Paris"}))
}

// replied is the request that brings the result of the call in c.
func replied(c openai.ChatCompletionChoice) (chatParams, error) {
	call, err := called(c)
	p := weather()
	p.Messages = append(p.Messages, c.Message.ToParam(), openai.ToolMessage(`{"temperature":18}`, call.ID))
	return p, err
}

func (s *session) tools() error {
	r, err := s.complete(weather())
	if err != nil {
		return err
	}
	p, err := replied(r.Choices[0])
	if err != nil {
		return err
	}
	answer, err := s.complete(p)
	if err != nil {
		return err
	}
	p = weather()
	p.ToolChoice = openai.ChatCompletionToolChoiceOptionUnionParam{OfAuto: openai.String("none")}
	none, err := s.complete(p)
	if err != nil {
		return err
	}
	a := answer.Choices[0]
	return errors.Join(
		require(!r.Choices[0].Message.JSON.Content.Valid(), "content beside a call", r.RawJSON()),
		require(a.FinishReason == "stop" && strings.Contains(a.Message.Content, "18"), "answer", answer.RawJSON()),
		require(none.Choices[0].FinishReason == "stop" && len(none.Choices[0].Message.ToolCalls) == 0, "tool_choice none", none.RawJSON()))
}

func (s *session) toolsStream() error {
	chunks, acc, err := s.chunks(weather())
	if err != nil {
		return err
	}
	var args string
	var deltas int
	for _, c := range chunks {
		for _, d := range c.Choices[0].Delta.ToolCalls {
			if first := deltas == 0; d.Index != 0 || first != (d.ID != "") || first != (d.Type == "function") || first != (d.Function.Name == "get_weather") {
				return fmt.Errorf("delta %d: %s", deltas, d.RawJSON())
			}
			args += d.Function.Arguments
			deltas++
		}
	}
	p, err := replied(acc.Choices[0])
	if err != nil {
		return err
	}
	_, answer, err := s.chunks(p)
	if err != nil {
		return err
	}
	return errors.Join(
		same("arguments", args, acc.Choices[0].Message.ToolCalls[0].Function.Arguments),
		require(strings.Contains(answer.Choices[0].Message.Content, "18"), "answer", answer.Choices[0].Message.Content))
}

func (s *session) stop() error {
	whole, err := s.content(hello())
	if err != nil || len(whole) < 6 {
		return errors.Join(err, require(len(whole) >= 6, "short answer", whole))
	}
	mark := whole[len(whole)/2:][:3]
	want, _, _ := strings.Cut(whole, mark)
	p := hello()
	p.Stop.OfStringArray = []string{mark, "no such words"}
	r, err := s.complete(p)
	if err != nil {
		return err
	}
	p.Stop = openai.ChatCompletionNewParamsStopUnion{OfString: openai.String(mark)}
	_, acc, err := s.chunks(p)
	if err != nil {
		return err
	}
	return errors.Join(
		same("content", r.Choices[0].Message.Content, want),
		same("streamed", acc.Choices[0].Message.Content, want),
		same("finish_reason", r.Choices[0].FinishReason, "stop"),
		same("finish_reason of the stream", acc.Choices[0].FinishReason, "stop"),
		same("stop_reason", r.Choices[0].JSON.ExtraFields["stop_reason"].Raw(), strconv.Quote(mark)))
}

func (s *session) logprobs() error {
	p := hello()
	p.Logprobs, p.TopLogprobs = openai.Bool(true), openai.Int(3)
	r, err := s.complete(p)
	if err != nil {
		return err
	}
	_, acc, err := s.chunks(p)
	if err != nil {
		return err
	}
	want, got := r.Choices[0].Logprobs.Content, acc.Choices[0].Logprobs.Content
	if len(got) != len(want) {
		return fmt.Errorf("%d entries streamed, %d complete", len(got), len(want))
	}
	var text []byte
	for i, e := range want {
		for _, b := range e.Bytes {
			text = append(text, byte(b))
		}
		top := e.TopLogprobs
		sorted := slices.IsSortedFunc(top, func(a, b openai.ChatCompletionTokenLogprobTopLogprob) int {
			return cmp.Compare(b.Logprob, a.Logprob)
		})
		if len(top) != 3 || !sorted || top[0].Token != e.Token || top[0].Logprob != e.Logprob || e.Logprob > 0 {
			return fmt.Errorf("entry %d: %s", i, e.RawJSON())
		}
		if got[i].Token != e.Token || math.Abs(got[i].Logprob-e.Logprob) > 1e-3 {
			return fmt.Errorf("streamed entry %d: %s, want %s", i, got[i].RawJSON(), e.RawJSON())
		}
	}
	return same("bytes", string(text), r.Choices[0].Message.Content)
}

func (s *session) n() error {
	p := hello()
	p.N, p.Temperature, p.Seed = openai.Int(2), openai.Float(1), openai.Int(7)
	r, err := s.complete(p)
	if err != nil {
		return err
	}
	_, acc, err := s.chunks(p)
	if err != nil {
		return err
	}
	if err := errors.Join(same("choices", len(r.Choices), 2), same("streamed choices", len(acc.Choices), 2)); err != nil {
		return err
	}
	for i, c := range r.Choices {
		got := acc.Choices[i]
		err = errors.Join(err, same("index", c.Index, int64(i)), same("streamed index", got.Index, c.Index),
			same("content", got.Message.Content, c.Message.Content), same("finish_reason", got.FinishReason, c.FinishReason))
	}
	return err
}

func (s *session) seed() error {
	distinct := func(seeds ...int64) (int, error) {
		seen := map[string]bool{}
		for _, seed := range seeds {
			p := prompt("Hello")
			p.Temperature, p.MaxTokens, p.Seed = openai.Float(1), openai.Int(32), openai.Int(seed)
			r, err := s.client.Completions.New(s.ctx, p)
			if err != nil {
				return 0, err
			}
			seen[r.Choices[0].Text+r.SystemFingerprint] = true
		}
		return len(seen), nil
	}
	one, err := distinct(1, 1, 1, 1)
	many, err2 := distinct(0, 1, 2, 3)
	return errors.Join(err, err2, same("texts of one seed", one, 1), require(many > 1, "texts of four seeds", many))
}
