package wire

import "strconv"

// Usage counts tokens. Reasoning tokens are among the completion tokens, cached
// ones among the prompt tokens.
type Usage struct {
	Prompt     int               `json:"prompt_tokens"`
	Completion int               `json:"completion_tokens"`
	Total      int               `json:"total_tokens"`
	PromptOf   PromptDetails     `json:"prompt_tokens_details"`
	Details    CompletionDetails `json:"completion_tokens_details"`
	Tools      *ToolUsage        `json:"-"` // of answers with tools of the server; nil = of others
}

// ToolUsage is what the steps took of answers that call tools of the server. A step is what a
// model writes until it calls; its prompt has all before it. The sums are in Usage.
type ToolUsage struct {
	Prompt, Cached, Completion []int // [step], of all choices one behind the other
	Results                    int   // tokens of what calls gave, with the words around it
}

// PromptDetails says where prompt tokens came from.
type PromptDetails struct {
	Cached int `json:"cached_tokens"`
	Audio  int `json:"audio_tokens"`
}

// CompletionDetails says what completion tokens were spent on.
type CompletionDetails struct {
	Reasoning int `json:"reasoning_tokens"`
	Audio     int `json:"audio_tokens"`
	Accepted  int `json:"accepted_prediction_tokens"`
	Rejected  int `json:"rejected_prediction_tokens"`
}

// NewUsage returns the usage of one request.
func NewUsage(prompt, cached, completion, reasoning int) Usage {
	return Usage{Prompt: prompt, Completion: completion, Total: prompt + completion,
		PromptOf: PromptDetails{Cached: cached}, Details: CompletionDetails{Reasoning: reasoning}}
}

func appendUsage(dst []byte, usage *Usage) []byte {
	for _, count := range [...]struct {
		before string
		n      int
	}{
		{`{"prompt_tokens":`, usage.Prompt},
		{`,"completion_tokens":`, usage.Completion},
		{`,"total_tokens":`, usage.Total},
		{`,"prompt_tokens_details":{"cached_tokens":`, usage.PromptOf.Cached},
		{`,"audio_tokens":`, usage.PromptOf.Audio},
	} {
		dst = append(dst, count.before...)
		dst = strconv.AppendInt(dst, int64(count.n), 10)
	}
	// The braces of the two objects of details open and close within these texts.
	for _, count := range [...]struct {
		before string
		n      int
	}{
		{`},"completion_tokens_details":{"reasoning_tokens":`, usage.Details.Reasoning},
		{`,"audio_tokens":`, usage.Details.Audio},
		{`,"accepted_prediction_tokens":`, usage.Details.Accepted},
		{`,"rejected_prediction_tokens":`, usage.Details.Rejected},
	} {
		dst = append(dst, count.before...)
		dst = strconv.AppendInt(dst, int64(count.n), 10)
	}
	dst = usage.Tools.AppendResults(dst)
	return append(usage.Tools.AppendSteps(append(dst, '}')), '}')
}

// AppendResults writes the member that the details of completion tokens have besides; of nil none.
func (u *ToolUsage) AppendResults(dst []byte) []byte {
	if u == nil {
		return dst
	}
	return strconv.AppendInt(append(dst, `,"tool_output_tokens":`...), int64(u.Results), 10)
}

// AppendSteps writes the members of usage that have a number for each step; of nil none. They are
// not among the details, whose members some clients require to be numbers.
func (u *ToolUsage) AppendSteps(dst []byte) []byte {
	if u == nil {
		return dst
	}
	dst = appendInts(append(dst, `,"input_tokens_per_turn":`...), u.Prompt)
	dst = appendInts(append(dst, `,"cached_tokens_per_turn":`...), u.Cached)
	return appendInts(append(dst, `,"output_tokens_per_turn":`...), u.Completion)
}

// TokenLogprob is one generated token of a chat reply with its likeliest
// alternatives.
type TokenLogprob struct {
	Token   string  // as shown: its text, or token_id:N
	Bytes   string  // its bytes, which need not be UTF-8
	Logprob float32 // natural logarithm
	Top     []TokenLogprob
}

func appendTokenLogprob(dst []byte, token *TokenLogprob, top bool) []byte {
	dst = append(dst, `{"token":`...)
	dst = AppendString(dst, token.Token)
	dst = append(dst, `,"logprob":`...)
	dst = appendLogprob(dst, token.Logprob)
	dst = append(dst, `,"bytes":`...)
	dst = appendBytes(dst, token.Bytes)
	if top {
		dst = append(dst, `,"top_logprobs":[`...)
		for i := range token.Top {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = appendTokenLogprob(dst, &token.Top[i], false)
		}
		dst = append(dst, ']')
	}
	return append(dst, '}')
}

// appendChatLogprobs writes null for nil; an empty list means that they were asked
// for and no token of the content came.
func appendChatLogprobs(dst []byte, tokens []TokenLogprob) []byte {
	if tokens == nil {
		return append(dst, "null"...)
	}
	dst = append(dst, `{"content":[`...)
	for i := range tokens {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendTokenLogprob(dst, &tokens[i], true)
	}
	return append(dst, `],"refusal":null}`...)
}

// PromptLogprob is an id in the place of a prompt token, as vLLM shows it.
type PromptLogprob struct {
	ID      int32
	Token   string // its text
	Logprob float32
	Rank    int // 1 = the most likely id
}

// appendPromptLogprobs writes a member with an object from id to log probability for
// each prompt token, null where there is none; nothing for nil.
func appendPromptLogprobs(dst []byte, table [][]PromptLogprob) []byte {
	if table == nil {
		return dst
	}
	dst = append(dst, `,"prompt_logprobs":[`...)
	for i, row := range table {
		if i > 0 {
			dst = append(dst, ',')
		}
		// Nothing stands before the first token that could make it likely.
		if row == nil {
			dst = append(dst, "null"...)
			continue
		}
		for k := range row {
			// Keys are ids, so that tokens of equal text stay apart.
			dst = append(dst, "{,"[min(k, 1)], '"')
			dst = strconv.AppendInt(dst, int64(row[k].ID), 10)
			dst = append(dst, `":{"logprob":`...)
			dst = appendLogprob(dst, row[k].Logprob)
			dst = append(dst, `,"rank":`...)
			dst = strconv.AppendInt(dst, int64(row[k].Rank), 10)
			dst = append(dst, `,"decoded_token":`...)
			dst = append(AppendString(dst, row[k].Token), '}')
		}
		dst = append(dst, '}')
	}
	return append(dst, ']')
}

// StopReason says what ended a choice besides finish_reason: a stop string or a
// stop token. The zero value is null.
type StopReason struct {
	Text  string
	Token int32
	ByID  bool // Token counts
}

func appendStopReason(dst []byte, reason StopReason) []byte {
	if reason.ByID {
		return strconv.AppendInt(dst, int64(reason.Token), 10)
	}
	return AppendText(dst, Text(reason.Text))
}

// Finish reasons.
const (
	FinishStop      = "stop"
	FinishLength    = "length"
	FinishToolCalls = "tool_calls"
	FinishFunction  = "function_call" // the same where the request has functions in place of tools
	FinishFilter    = "content_filter"
)

// Why a choice has neither text nor calls, its empty_reason: finish_reason alone does
// not tell (reliability.md LIF-8).
const (
	EmptyLengthInReasoning = "length_in_reasoning" // reasoning took all the tokens
	EmptyStopInReasoning   = "stop_in_reasoning"   // the model or a stop id ended it behind the reasoning
	EmptyUnknownTool       = "unknown_tool"        // the model called a tool that was not offered
	EmptyStopString        = "stop_string"         // the text began with one
	EmptyLength            = "length"              // the tokens did not suffice for any message
	EmptyStop              = "stop"                // the model had nothing to say
)

// AppendEmpty appends the member that says why there is no text; nothing for "".
func AppendEmpty(dst []byte, reason string) []byte {
	if reason == "" {
		return dst
	}
	return AppendString(append(dst, `,"empty_reason":`...), reason)
}

// ReasoningField says under which name replies carry reasoning (api.md 2.2).
type ReasoningField uint8

// The names.
const (
	FieldReasoning        ReasoningField = iota // reasoning
	FieldReasoningContent                       // reasoning_content
	FieldBoth
)

// ParseReasoningField reads reasoning, reasoning_content or both.
func ParseReasoningField(s string) (ReasoningField, bool) {
	switch s {
	case "reasoning":
		return FieldReasoning, true
	case "reasoning_content":
		return FieldReasoningContent, true
	case "both":
		return FieldBoth, true
	}
	return 0, false
}

// append writes the reasoning member or members, without surrounding commas.
func (f ReasoningField) append(dst []byte, text string) []byte {
	if f != FieldReasoningContent {
		dst = append(dst, `"reasoning":`...)
		dst = AppendString(dst, text)
	}
	if f == FieldBoth {
		dst = append(dst, ',')
	}
	if f != FieldReasoning {
		dst = append(dst, `"reasoning_content":`...)
		dst = AppendString(dst, text)
	}
	return dst
}

// appendFunction writes a function's name and its arguments, and leaves the object open.
func appendFunction(dst []byte, call *ToolCall) []byte {
	dst = AppendString(append(dst, `{"name":`...), call.Name)
	return AppendString(append(dst, `,"arguments":`...), call.Arguments)
}

func appendCall(dst []byte, call *ToolCall) []byte {
	dst = append(dst, `{"id":`...)
	dst = AppendString(dst, call.ID)
	names := [...]string{`,"type":"function","function":{"name":`, `,"arguments":`}
	if call.Custom {
		names = [...]string{`,"type":"custom","custom":{"name":`, `,"input":`}
	}
	dst = append(dst, names[0]...)
	dst = AppendString(dst, call.Name)
	dst = append(dst, names[1]...)
	dst = AppendString(dst, call.Arguments)
	return append(dst, "}}"...)
}

// Head is what every reply and every chunk of one request begins with.
type Head struct {
	ID          string // chatcmpl-…, cmpl-…
	Created     int64  // unix seconds
	Model       string
	Fingerprint string // system_fingerprint; "" = left out
}

func (h *Head) append(dst []byte, object string) []byte {
	dst = append(dst, `{"id":`...)
	dst = AppendString(dst, h.ID)
	dst = append(dst, `,"object":"`...)
	dst = append(dst, object...)
	dst = append(dst, `","created":`...)
	dst = strconv.AppendInt(dst, h.Created, 10)
	dst = append(dst, `,"model":`...)
	dst = AppendString(dst, h.Model)
	if h.Fingerprint != "" {
		dst = append(dst, `,"system_fingerprint":`...)
		dst = AppendString(dst, h.Fingerprint)
	}
	return dst
}

// ChatChoice is one answer of a chat reply.
type ChatChoice struct {
	Content   string // "" = null
	Reasoning string // "" = left out
	Calls     []ToolCall
	Logprobs  []TokenLogprob // nil = not asked for
	Finish    string
	Stop      StopReason
	Empty     string  // why Content and Calls are empty; "" = left out
	TokenIDs  []int32 // nil = not asked for

	Annotations []URLCitation // of Content; none = left out
}

// ChatReply is the reply to a chat request that does not stream.
type ChatReply struct {
	Head
	Choices        []ChatChoice
	Usage          Usage
	Field          ReasoningField
	Legacy         bool              // a call is a function_call, as before there were tools
	PromptIDs      []int32           // nil = not asked for
	PromptLogprobs [][]PromptLogprob // [prompt token]: its own, then other ids, of each id one; nil for the first; nil = not asked for
}

// Append appends the body.
func (r *ChatReply) Append(dst []byte) []byte {
	dst = r.Head.append(dst, "chat.completion")
	dst = append(dst, `,"service_tier":"default","choices":[`...)
	for i := range r.Choices {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = r.appendChoice(dst, i)
	}
	dst = append(dst, `],"usage":`...)
	dst = appendUsage(dst, &r.Usage)
	dst = appendIDs(dst, `,"prompt_token_ids":`, r.PromptIDs)
	return append(appendPromptLogprobs(dst, r.PromptLogprobs), '}')
}

func (r *ChatReply) appendChoice(dst []byte, index int) []byte {
	choice := &r.Choices[index]
	dst = append(dst, `{"index":`...)
	dst = strconv.AppendInt(dst, int64(index), 10)
	dst = append(dst, `,"message":{"role":"assistant","content":`...)
	dst = AppendText(dst, Text(choice.Content))
	dst = append(dst, `,"refusal":null`...)
	if choice.Reasoning != "" {
		dst = r.Field.append(append(dst, ','), choice.Reasoning)
	}
	if len(choice.Annotations) > 0 {
		dst = appendCitations(append(dst, `,"annotations":`...), choice.Annotations)
	}
	calls := choice.Calls
	if r.Legacy && len(calls) > 0 { // there is one at most
		dst = append(appendFunction(append(dst, `,"function_call":`...), &calls[0]), '}')
		calls = nil
	}
	// Without a call there is no member tool_calls: clients take an empty one for a call.
	for k := range calls {
		if k == 0 {
			dst = append(dst, `,"tool_calls":[`...)
		} else {
			dst = append(dst, ',')
		}
		dst = appendCall(dst, &calls[k])
	}
	if len(calls) > 0 {
		dst = append(dst, ']')
	}
	dst = append(dst, `},"logprobs":`...)
	dst = appendChatLogprobs(dst, choice.Logprobs)
	dst = append(dst, `,"finish_reason":`...)
	dst = AppendText(dst, Text(choice.Finish))
	dst = append(dst, `,"stop_reason":`...)
	dst = appendStopReason(dst, choice.Stop)
	dst = AppendEmpty(dst, choice.Empty)
	dst = appendIDs(dst, `,"token_ids":`, choice.TokenIDs)
	return append(dst, '}')
}

// CompletionLogprobs are those of a text completion: parallel lists. A NaN logprob
// is null: the first token of an echoed prompt has none.
type CompletionLogprobs struct {
	Tokens  []string
	Logprob []float32
	Top     [][]TokenLogprob // nil for a token without; Token and Logprob count
	Offset  []int            // of each token in the text, in code points
}

// append writes the four lists one behind the other: entry i of each is about token i.
func (l *CompletionLogprobs) append(dst []byte) []byte {
	if l == nil {
		return append(dst, "null"...)
	}
	dst = append(dst, `{"tokens":[`...)
	for i, token := range l.Tokens {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = AppendString(dst, token)
	}
	dst = append(dst, `],"token_logprobs":[`...)
	for i, logprob := range l.Logprob {
		if i > 0 {
			dst = append(dst, ',')
		}
		// NaN: nothing stands before the first token that could make it likely.
		if logprob != logprob {
			dst = append(dst, "null"...)
		} else {
			dst = appendLogprob(dst, logprob)
		}
	}
	dst = append(dst, `],"top_logprobs":[`...)
	for i, top := range l.Top {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendTop(dst, top)
	}
	dst = append(dst, `],"text_offset":[`...)
	for i, n := range l.Offset {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = strconv.AppendInt(dst, int64(n), 10)
	}
	return append(dst, "]}"...)
}

// appendTop writes an object from token to logprob, null for nil. Of tokens with
// equal text the likelier, which comes first, stays.
func appendTop(dst []byte, top []TokenLogprob) []byte {
	if top == nil {
		return append(dst, "null"...)
	}
	dst = append(dst, '{')
	for i := range top {
		if seen(top[:i], top[i].Token) {
			continue
		}
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = AppendString(dst, top[i].Token)
		dst = append(dst, ':')
		dst = appendLogprob(dst, top[i].Logprob)
	}
	return append(dst, '}')
}

func seen(top []TokenLogprob, token string) bool {
	for i := range top {
		if top[i].Token == token {
			return true
		}
	}
	return false
}

// CompletionChoice is one answer of a completion reply.
type CompletionChoice struct {
	Text      string
	Logprobs  *CompletionLogprobs // nil = not asked for
	Finish    string
	Stop      StopReason
	Empty     string  // why there is no text; "" = left out
	TokenIDs  []int32 // nil = not asked for
	PromptIDs []int32 // nil = not asked for

	PromptLogprobs [][]PromptLogprob // as in ChatReply
}

// CompletionReply is the reply to a completion request that does not stream.
type CompletionReply struct {
	Head
	Choices []CompletionChoice
	Usage   Usage
}

// Append appends the body.
func (r *CompletionReply) Append(dst []byte) []byte {
	dst = r.Head.append(dst, "text_completion")
	dst = append(dst, `,"choices":[`...)
	for i := range r.Choices {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendCompletion(dst, i, &r.Choices[i])
	}
	dst = append(dst, `],"usage":`...)
	dst = appendUsage(dst, &r.Usage)
	return append(dst, '}')
}

func appendCompletion(dst []byte, index int, choice *CompletionChoice) []byte {
	dst = append(dst, `{"index":`...)
	dst = strconv.AppendInt(dst, int64(index), 10)
	dst = append(dst, `,"text":`...)
	dst = AppendString(dst, choice.Text)
	dst = append(dst, `,"logprobs":`...)
	dst = choice.Logprobs.append(dst)
	dst = append(dst, `,"finish_reason":`...)
	dst = AppendText(dst, Text(choice.Finish))
	dst = append(dst, `,"stop_reason":`...)
	dst = appendStopReason(dst, choice.Stop)
	dst = AppendEmpty(dst, choice.Empty)
	dst = appendIDs(dst, `,"token_ids":`, choice.TokenIDs)
	dst = appendIDs(dst, `,"prompt_token_ids":`, choice.PromptIDs)
	return append(appendPromptLogprobs(dst, choice.PromptLogprobs), '}')
}

// Model is an entry of /v1/models.
type Model struct {
	ID            string   `json:"id"`
	Object        string   `json:"object"` // model
	Created       int64    `json:"created"`
	OwnedBy       string   `json:"owned_by"`
	Root          string   `json:"root"`
	Parent        Text     `json:"parent"`
	MaxModelLen   int      `json:"max_model_len"`
	ContextWindow int      `json:"context_window"`
	Capabilities  []string `json:"capabilities"`
	Permission    []string `json:"permission"` // []

	Status ModelStatus `json:"status"`
}

// A ModelStatus is where a model stands, as llama.cpp's router tells it: what is not loaded is
// loaded when a request asks for it.
type ModelStatus struct {
	Value  string `json:"value"` // unloaded, loading, loaded, unloading
	Failed bool   `json:"failed,omitempty"`
}

// ModelList is the reply of /v1/models.
type ModelList struct {
	Object string  `json:"object"` // list
	Data   []Model `json:"data"`
}

// TokenizeReply is the reply of /tokenize.
type TokenizeReply struct {
	Count       int      `json:"count"`
	MaxModelLen int      `json:"max_model_len"`
	Tokens      []int32  `json:"tokens"`
	TokenStrs   []string `json:"token_strs"`
}

// Rendered is the prompt of a request in replies of the render routes.
type Rendered struct {
	TokenIDs []int32 `json:"token_ids"`
}

// DetokenizeReply is the reply of /detokenize.
type DetokenizeReply struct {
	Prompt string `json:"prompt"`
}

// AppendTokenLogprobs appends a list of tokens with those that were likeliest there.
func AppendTokenLogprobs(dst []byte, tokens []TokenLogprob) []byte {
	dst = append(dst, '[')
	for i := range tokens {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendTokenLogprob(dst, &tokens[i], true)
	}
	return append(dst, ']')
}
