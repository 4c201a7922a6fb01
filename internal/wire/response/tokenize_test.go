package response

import (
	"errors"
	"slices"
	"testing"

	"ossian/internal/limits"
	"ossian/internal/wire"
)

// The ids that are asked for are those that a completion, a chat or a response would have.
func TestTokenize(t *testing.T) {
	lim := limits.Defaults()
	r, err := DecodeTokenize([]byte(`{"model":"m","prompt":"","add_special_tokens":false,"return_token_strs":true,"q":1}`), lim, true)
	if err != nil || r.Model != "m" || r.Chat != nil || *r.AddSpecial || !r.TokenStrs || !slices.Equal(r.Ignored, []string{"q"}) {
		t.Errorf("%+v, %v", r, err)
	}
	r, err = DecodeTokenize([]byte(`{"input":"hi","tools":[{"type":"namespace","name":"a","tools":[{"type":"function","name":"b"}]}],"tool_choice":{"type":"function","name":"b"}}`), lim, true)
	if err != nil || r.Response == nil || r.Response.ToolChoice.Name != "a__b" {
		t.Errorf("%+v, %v", r, err)
	}
	r, err = DecodeTokenize([]byte(`{"messages":[{"role":"user","content":"x"}],"add_generation_prompt":false}`), lim, true)
	if err != nil || r.Chat == nil || *r.Chat.AddGenerationPrompt || r.Validate(lim) != nil {
		t.Errorf("%+v, %v", r, err)
	}
	r, err = DecodeTokenize([]byte(`{"model":"m","tools":[{"type":"function","name":"f"}],"return_token_strs":true,"input":"x","q":1}`), lim, true)
	if err != nil || r.Model != "m" || r.Chat != nil || r.Response == nil || r.Response.Tools[0].Name != "f" || len(r.Response.Input) != 1 || !r.TokenStrs || !slices.Equal(r.Ignored, []string{"q"}) || r.Validate(lim) != nil {
		t.Errorf("%+v, %v", r, err)
	}
	in, err := wire.DecodeDetokenize([]byte(`{"tokens":[],"model":"m","z":0}`), lim)
	if err != nil || in.Tokens == nil || in.Model != "m" || !slices.Equal(in.Ignored, []string{"z"}) {
		t.Errorf("%+v, %v", in, err)
	}
	for _, tc := range []struct{ body, param string }{
		{`{}`, "prompt"}, {`{"prompt":"a","messages":[]}`, "prompt"}, {`{"prompt":"a","input":"b"}`, "prompt"}, {`{"messages":[],"input":"b"}`, "prompt"}, {`{"input":[{}]}`, "input[0].type"}, {`{"prompt":3}`, "prompt"}, {`{"messages":[{"content":3}]}`, "messages[0].content"},
	} {
		_, err := DecodeTokenize([]byte(tc.body), lim, true)
		if e, ok := errors.AsType[*wire.Error](err); !ok || e.Param != tc.param {
			t.Errorf("%s: %v", tc.body, err)
		}
	}
	for _, body := range []string{`{}`, `{"tokens":null}`, `{"tokens":[-1]}`, `{"tokens":"x"}`, `[]`} {
		if _, err := wire.DecodeDetokenize([]byte(body), lim); err == nil {
			t.Errorf("%s is accepted", body)
		}
	}
}

// FuzzDecodeTokenize: any body gives a request that can be checked, or a *wire.Error.
func FuzzDecodeTokenize(f *testing.F) {
	for _, seed := range []string{``, `{}`, `{"prompt":"a"}`, `{"messages":[{"role":"user","content":"x"}]}`, `{"input":[{}]}`, `{"prompt":"a","input":"b"}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		lim := limits.Defaults()
		lim[limits.JSONDepth] = 20
		r, err := DecodeTokenize(body, lim, true)
		sane(t, err)
		if err == nil {
			sane(t, r.Validate(lim))
		}
	})
}
