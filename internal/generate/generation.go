package generate

import (
	"math"
	"slices"
	"time"

	"ossian/internal/board"
	"ossian/internal/chat"
	"ossian/internal/draft"
	"ossian/internal/engine"
	"ossian/internal/host"
	"ossian/internal/limits"
	"ossian/internal/token"
	"ossian/internal/wire"
)

// A Generation is what a request of any API asks for, in the same words. Start reads
// it and keeps none of it: while tokens come, the request's body is not needed. With Builtin it
// is kept.
type Generation struct {
	*wire.Sampling
	board.Label // of the request
	Model       *host.Model
	Tenant      uint32    // whose key it is, 0 = nobody's: who shares cached prefixes and a turn in the queue
	Received    time.Time // when the request came: its deadlines count from then
	Prompts     [][]int32
	MaxTokens   *int64             // of output; nil = as many as fit
	Logprobs    *int64             // alternatives per token, -1 = all; nil = none asked for
	BestOf      int                // choices to generate for each prompt, of which n are kept; 0 = n
	Echo        []string           // of each prompt: text that its choices begin with; nil = none
	Parser      func() chat.Parser // of a choice
	Constraint  Constraints        // of a choice: the forms that are asked for; nil = free
	Prediction  []int32            // what answers are expected to have parts of; nil = nothing is

	HideReasoning  bool
	OneCall        bool     // the answer ends behind its first call
	NamedCall      bool     // the request names the tool: its call is no tool_calls (api.md 2.2)
	CustomTools    []string // names of tools whose calls are told apart
	Items          bool     // messages stay apart: deltas say where they begin and end
	TokenIDs       bool     // answers have ids, also where return_token_ids does not ask for them
	HiddenLogprobs bool     // tokens that are not shown have log probabilities, too
	EchoLogprobs   bool     // and so have those of an echoed prompt
	ModelName      string   // as the request names it, "" = not at all
	ReplyID        string   // by which the client knows the reply
	Observer       Observer // is told what becomes of the request; nil = nobody is
	Builtin        *Builtin // what answers may call of the server; nil = nothing. With it there is one prompt
}

// perPrompt is how many choices each prompt has.
func (g *Generation) perPrompt() int { return max(int(g.Choices()), g.BestOf) }

// A choiceSpec is what the choices of one request have in common.
type choiceSpec struct {
	tok            *token.BPE
	modelStops     []int32 // the model's ids that end an answer; nil with ignore_eos
	stopIDs        []int32 // the caller's, which are not part of the text
	minTokens      int     // before which neither those nor stop strings end
	includeStop    bool    // stop strings stay in the text
	ignoreEOS      bool
	showReasoning  bool
	oneCall        bool
	items          bool
	namedCall      bool
	customTools    []string
	logprobs       bool
	topLogprobs    int // alternatives per token
	hiddenLogprobs bool
	echoLogprobs   bool
	promptTable    bool // prompt_logprobs
	promptTableTop int  // alternatives in it
	tokensAsIDs    bool // tokens are shown as token_id:N
	tokenIDs       bool
	prediction     *draft.Index // nil = none
	salvaged       func(rule string)
}

// choiceSpec returns what the answers to a request share.
func (g *Generation) choiceSpec() *choiceSpec {
	model := g.Model
	spec := &choiceSpec{tok: model.Tokenizer, modelStops: model.Stops, stopIDs: g.StopTokenIDs, minTokens: int(min(g.MinTokens, math.MaxInt32)), includeStop: g.IncludeStop,
		ignoreEOS: g.IgnoreEOS, showReasoning: !g.HideReasoning, oneCall: g.OneCall, items: g.Items, namedCall: g.NamedCall, customTools: g.CustomTools,
		hiddenLogprobs: g.HiddenLogprobs, echoLogprobs: g.EchoLogprobs, tokensAsIDs: g.TokensAsIDs, tokenIDs: g.ReturnTokenIDs || g.TokenIDs, salvaged: func(string) {}}
	// The model's ends of answers stop nothing then; ids that the caller names do all the same.
	if g.IgnoreEOS {
		spec.modelStops = nil
	}
	if model.Metrics != nil {
		spec.salvaged = model.Metrics.Salvaged
	}
	if g.Logprobs != nil {
		spec.logprobs, spec.topLogprobs = true, alternatives(*g.Logprobs, model)
	}
	if g.PromptLogprobs != nil {
		spec.promptTable, spec.promptTableTop = true, alternatives(*g.PromptLogprobs, model)
	}
	if len(g.Prediction) > 0 {
		spec.prediction = draft.NewIndex(draft.DefaultShortest)
		spec.prediction.Add(g.Prediction...)
	}
	return spec
}

// alternatives reads a number of alternatives per token, of which -1 is the whole
// vocabulary.
func alternatives(asked int64, model *host.Model) int {
	if asked < 0 {
		return model.Vocab
	}
	return int(asked)
}

// scored returns how many alternatives of each prompt token the engine has to report;
// -1 = no log probabilities of the prompt are asked for.
func (spec *choiceSpec) scored() int {
	most := -1
	if spec.promptTable {
		most = spec.promptTableTop
	}
	if spec.echoLogprobs {
		most = max(most, spec.topLogprobs)
	}
	return most
}

// request returns what the choices of a generation ask of the engine, without their
// prompts, seeds and constraints.
func (s *Service) request(gen *Generation, spec *choiceSpec) (engine.Request, error) {
	model := gen.Model
	if err := checkIDs(model, gen.Sampling); err != nil {
		return engine.Request{}, err
	}
	constraint, allowed, err := s.limit(gen)
	if err != nil {
		return engine.Request{}, err
	}
	lim := s.cfg.Limits()
	req := engine.Request{Params: s.Params(model, gen.Sampling), MinTokens: spec.minTokens, Tenant: gen.Tenant,
		Priority: int(gen.Priority), Salt: s.salt(gen.Tenant, gen.CacheSalt), Allowed: allowed, Constraint: constraint,
		Deadline: gen.Received.Add(lim.Time(limits.RequestTime)), StartBy: gen.Received.Add(lim.Time(limits.QueueWait)), Prediction: gen.Prediction}
	if !gen.IgnoreEOS {
		req.Stops = model.Stops
	}
	if len(gen.StopTokenIDs) > 0 {
		req.Stops = append(slices.Clone(req.Stops), gen.StopTokenIDs...)
	}
	// Which of best_of choices is best, their log probabilities say, asked for or not.
	req.Params.Logprobs, req.Params.TopLogprobs = spec.logprobs || gen.BestOf > int(gen.Choices()), spec.topLogprobs
	req.Params.PromptLogprobs, req.Params.TopPromptLogprobs = spec.scored() >= 0, max(spec.scored(), 0)
	return req, nil
}
