package measure

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"ossian/internal/lab"
)

const (
	maxReply   = 16 << 20 // bytes of an answer that is read
	topChoices = 5        // log probabilities beside each token: what a near tie is judged by
	answerTime = 10 * time.Minute
)

// form is how a request for an answer is put: servers differ in what they know.
type form struct {
	ids      bool // return_token_ids
	logprobs bool
}

var forms = []form{{true, true}, {false, true}, {false, false}}

// Answers implements lab.Server: greedy completions, one at a time, so that no server puts prompts
// together that another does not.
func (s *server) Answers(ctx context.Context, prompts, tokens int) ([]lab.Answer, error) {
	model, err := s.served(ctx)
	if err != nil {
		return nil, err
	}
	out := make([]lab.Answer, 0, prompts)
	at := 0 // of forms: the richest that the server takes
	for number := range prompts {
		var refused error
		for ; at < len(forms); at++ {
			answer, err := s.complete(ctx, model, promptOf(number), tokens, forms[at])
			var status *statusError
			if errors.As(err, &status) && status.code/100 == 4 { // perhaps a poorer form
				refused = err
				continue
			}
			if err != nil {
				return nil, fmt.Errorf("prompt %d: %w", number+1, err)
			}
			out = append(out, answer)
			break
		}
		if at == len(forms) {
			return nil, fmt.Errorf("prompt %d: %w", number+1, refused)
		}
	}
	return out, nil
}

// served is the name by which the server has its model.
func (s *server) served(ctx context.Context) (string, error) {
	var list struct{ Data []struct{ ID string } }
	if err := s.ask(ctx, http.MethodGet, "/v1/models", nil, &list); err != nil {
		return "", err
	}
	if len(list.Data) == 0 {
		return "", errors.New("GET /v1/models names no model")
	}
	return list.Data[0].ID, nil
}

// complete asks for one answer.
func (s *server) complete(ctx context.Context, model, prompt string, tokens int, form form) (lab.Answer, error) {
	body := map[string]any{"model": model, "prompt": prompt, "max_tokens": tokens, "temperature": 0, "seed": 0}
	if form.ids {
		body["return_token_ids"] = true
	}
	if form.logprobs {
		body["logprobs"] = topChoices
	}
	var reply completion
	if err := s.ask(ctx, http.MethodPost, "/v1/completions", body, &reply); err != nil {
		return lab.Answer{}, err
	}
	return reply.answer()
}

// completion is a reply as far as it is read.
type completion struct {
	Choices []struct {
		Text     string `json:"text"`
		TokenIDs []int  `json:"token_ids"`
		Logprobs *struct {
			Tokens []string             `json:"tokens"`
			Top    []map[string]float64 `json:"top_logprobs"`
		} `json:"logprobs"`
	} `json:"choices"`
}

// answer is what the campaign compares.
func (c *completion) answer() (lab.Answer, error) {
	if len(c.Choices) == 0 {
		return lab.Answer{}, errors.New("a reply without choices")
	}
	choice := c.Choices[0]
	out := lab.Answer{Text: choice.Text}
	count := len(choice.TokenIDs)
	if choice.Logprobs != nil && count == 0 {
		count = len(choice.Logprobs.Tokens)
	}
	for i := range count {
		token := lab.Token{ID: -1}
		if i < len(choice.TokenIDs) {
			token.ID = choice.TokenIDs[i]
		}
		if logprobs := choice.Logprobs; logprobs != nil {
			if i < len(logprobs.Tokens) {
				token.Text = logprobs.Tokens[i]
			}
			if i < len(logprobs.Top) {
				token.Top = logprobs.Top[i]
			}
		}
		out.Tokens = append(out.Tokens, token)
	}
	return out, nil
}

// statusError is a status other than 200.
type statusError struct {
	code int
	text string
}

func (e *statusError) Error() string { return fmt.Sprintf("status %d: %.200s", e.code, e.text) }

// ask sends a request and reads a JSON reply.
func (s *server) ask(ctx context.Context, method, path string, body, reply any) error {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	var payload io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return err
		}
		payload = bytes.NewReader(text)
	}
	request, err := http.NewRequestWithContext(ctx, method, s.running.URL+path, payload)
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	if s.engine.KeyEnv != "" {
		request.Header.Set("Authorization", "Bearer "+s.m.Environ(s.engine.KeyEnv))
	}
	// Nothing but the named server is contacted: no proxy of the environment either.
	answer, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxReply))
	if err != nil {
		return err
	}
	if answer.StatusCode != http.StatusOK {
		return &statusError{answer.StatusCode, string(text)}
	}
	if err := json.Unmarshal(text, reply); err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	return nil
}

// promptOf is one of the fixed prompts of the comparison. They begin differently, so that no cached
// beginning hides a difference, and are the same of every program of this version.
func promptOf(number int) string {
	tasks := []string{"Write the first lines of a story about", "Explain in plain words", "List five facts about", "Write a function that has to do with",
		"Translate into French a sentence about", "Summarise what is known of", "Give the steps for", "Name three questions about"}
	subjects := []string{"the tides of the sea", "sorting a list of numbers", "how bread is made", "the orbit of the moon", "a lighthouse keeper",
		"prime numbers", "the history of paper", "repairing a bicycle", "a garden in winter", "electric motors", "the water cycle"}
	return fmt.Sprintf("%s %s.", tasks[number%len(tasks)], subjects[number%len(subjects)])
}
