package server

import (
	"fmt"
	"hash/maphash"
	"math"
	"slices"
	"strconv"
	"strings"

	"ossian/internal/engine"
	"ossian/internal/host"
	"ossian/internal/limits"
	"ossian/internal/sample"
	"ossian/internal/sched"
	"ossian/internal/token"
	"ossian/internal/wire"
)

// later refuses what this version does not do yet.
func later(q *wire.Sampling) *wire.Error {
	if q.LogprobTokenIDs != nil {
		return wire.Unsupported("logprob_token_ids", "log probabilities of given ids are not supported")
	}
	return nil
}

// request returns what the choices of a request ask of the engine, without prompt.
func (s *Server) request(m *host.Model, q *wire.Sampling, c *caller) (engine.Request, error) {
	if err := checkIDs(m, q); err != nil {
		return engine.Request{}, err
	}
	allowed := s.allowed(m, q.AllowedTokenIDs)
	if q.AllowedTokenIDs != nil && slices.Max(allowed) == 0 {
		return engine.Request{}, wire.Invalid("allowed_token_ids", "none of these ids has a meaning")
	}
	r := engine.Request{Params: s.params(m, q), MinTokens: int(min(q.MinTokens, math.MaxInt32)), Tenant: c.tenant,
		Priority: int(q.Priority), Salt: s.salt(c.tenant, q.CacheSalt), Allowed: allowed,
		Deadline: c.received.Add(s.lim().Time(limits.RequestTime)), StartBy: c.received.Add(s.lim().Time(limits.QueueWait))}
	if !q.IgnoreEOS {
		r.Stops = m.Stops
	}
	if len(q.StopTokenIDs) > 0 {
		r.Stops = append(slices.Clone(r.Stops), q.StopTokenIDs...)
	}
	return r, nil
}

// params merges a request over the model's defaults.
func (s *Server) params(m *host.Model, q *wire.Sampling) sample.Params {
	p := m.Defaults
	set(&p.Temperature, q.Temperature)
	set(&p.TopP, q.TopP)
	if q.TopP != nil && p.TopP == 0 {
		p.TopP = math.SmallestNonzeroFloat32 // the likeliest id alone; 0 would keep all
	}
	set(&p.MinP, q.MinP)
	set(&p.RepetitionPenalty, q.RepetitionPenalty)
	set(&p.FrequencyPenalty, q.FrequencyPenalty)
	set(&p.PresencePenalty, q.PresencePenalty)
	if q.TopK != nil {
		p.TopK = int(max(*q.TopK, 0))
	}
	if len(q.LogitBias) > 0 {
		p.LogitBias = make(map[int32]float32, len(q.LogitBias))
		for id, b := range q.LogitBias {
			p.LogitBias[id] = float32(b)
		}
	}
	switch {
	case q.Seed != nil:
		p.Seed = uint64(*q.Seed)
	case s.cfg.Seed != nil:
		p.Seed = uint64(*s.cfg.Seed)
	default:
		p.Seed = s.cfg.Random()
	}
	return p
}

func set(to *float32, v *float64) {
	if v != nil {
		*to = float32(*v)
	}
}

// checkIDs refuses ids that the model does not have.
func checkIDs(m *host.Model, q *wire.Sampling) *wire.Error {
	if err := inVocab(m, "stop_token_ids", q.StopTokenIDs); err != nil {
		return err
	}
	if err := inVocab(m, "allowed_token_ids", q.AllowedTokenIDs); err != nil {
		return err
	}
	least := int32(math.MaxInt32) // the same error every time
	for id := range q.LogitBias {
		if int(id) >= m.Vocab {
			least = min(least, id)
		}
	}
	if least < math.MaxInt32 {
		return wire.Invalid(fmt.Sprintf("logit_bias.%d", least), fmt.Sprintf("ids from 0 to %d expected", m.Vocab-1))
	}
	return nil
}

func inVocab(m *host.Model, param string, ids []int32) *wire.Error {
	for i, id := range ids {
		if id < 0 || int(id) >= m.Vocab {
			return wire.Invalid(fmt.Sprintf("%s[%d]", param, i), fmt.Sprintf("id %d, expected 0 to %d", id, m.Vocab-1))
		}
	}
	return nil
}

// allowed returns the mask of ids that may be sampled: those that mean something,
// and of these only the given ones unless that is nil.
func (s *Server) allowed(m *host.Model, only []int32) []uint64 {
	if only == nil {
		return s.meaningful(m)
	}
	mask := make([]uint64, (m.Vocab+63)/64)
	for _, id := range only {
		mask[id/64] |= 1 << (id % 64)
	}
	for i, used := range s.meaningful(m) {
		mask[i] &= used
	}
	return mask
}

// meaningful returns the mask of ids with a meaning; nil = all. One mask serves all
// requests.
func (s *Server) meaningful(m *host.Model) []uint64 {
	if len(m.Unused) == 0 {
		return nil
	}
	if known := s.masks.Load(); known != nil && known.model == m {
		return known.mask
	}
	mask := slices.Repeat([]uint64{math.MaxUint64}, (m.Vocab+63)/64)
	for _, id := range m.Unused {
		mask[id/64] &^= 1 << (id % 64)
	}
	s.masks.Store(&modelMask{m, mask})
	return mask
}

type modelMask struct {
	model *host.Model
	mask  []uint64
}

// salt separates the prefix caches of keys and of cache_salt.
func (s *Server) salt(tenant uint32, text string) uint64 {
	if tenant == 0 && text == "" {
		return 0
	}
	return maphash.String(s.saltSeed, strconv.Itoa(int(tenant))+" "+text)
}

// badWords returns the constraint that keeps words out of an answer, nil without
// any. Like vLLM it forbids what the tokenizer makes of a word at the start of a
// text and behind a space, not every spelling.
func badWords(m *host.Model, words []string) func() sched.Constraint {
	var bad [][]int32
	longest := 0
	for _, w := range words {
		for _, text := range []string{w, " " + strings.TrimLeft(w, " ")} {
			if ids := m.Tokenizer.Encode(nil, text); len(ids) > 0 {
				bad = append(bad, ids)
				longest = max(longest, len(ids))
			}
		}
	}
	if bad == nil {
		return nil
	}
	return func() sched.Constraint { return &filter{bad: bad, keep: longest - 1} }
}

// A filter keeps id sequences out of an output.
type filter struct {
	bad  [][]int32
	tail []int32 // the output's last ids
	keep int     // how many are needed
}

// Mask implements sched.Constraint.
func (f *filter) Mask(dst []uint64) error {
	for i := range dst {
		dst[i] = math.MaxUint64
	}
	for _, ids := range f.bad {
		n := len(ids) - 1
		if n <= len(f.tail) && slices.Equal(f.tail[len(f.tail)-n:], ids[:n]) {
			dst[ids[n]/64] &^= 1 << (ids[n] % 64)
		}
	}
	return nil
}

// Accept implements sched.Constraint.
func (f *filter) Accept(id int32) error {
	f.tail = append(f.tail, id)
	if len(f.tail) > f.keep {
		f.tail = slices.Delete(f.tail, 0, len(f.tail)-f.keep)
	}
	return nil
}

// plan returns what the answers to a request share.
func (s *Server) plan(m *host.Model, q *wire.Sampling, logprobs *int64) *plan {
	p := &plan{tok: m.Tokenizer, stops: m.Stops, stopIDs: q.StopTokenIDs, minTokens: int(min(q.MinTokens, math.MaxInt32)), keepStop: q.IncludeStop,
		endless: q.IgnoreEOS, showReasoning: true, asIDs: q.TokensAsIDs, keepIDs: q.ReturnTokenIDs, salvaged: func(string) {}}
	if q.IgnoreEOS {
		p.stops = nil
	}
	if m.Metrics != nil {
		p.salvaged = m.Metrics.Salvaged
	}
	if logprobs != nil {
		p.logprobs, p.top = true, int(*logprobs)
		if *logprobs < 0 {
			p.top = m.Vocab
		}
	}
	if n := q.PromptLogprobs; n != nil {
		p.table, p.tableTop = true, int(*n)
		if *n < 0 {
			p.tableTop = m.Vocab
		}
	}
	return p
}

// promptText returns the prompt of a text as it is: names of control tokens in it are
// control tokens (api.md 4).
func promptText(tok *token.BPE, text string, special *bool) *token.Prompt {
	p := tok.Prompt()
	if special == nil || *special {
		p.Begin(text)
	}
	p.Markup(text)
	return p
}

// truncate drops tokens from the start of a prompt (truncate_prompt_tokens) and
// returns how many.
func truncate(ids []int32, keep *int64, room int) ([]int32, int) {
	if keep == nil {
		return ids, 0
	}
	n := int(*keep)
	if *keep < 0 {
		n = room
	}
	dropped := max(len(ids)-n, 0)
	return ids[dropped:], dropped
}

func tokenID(id int32) string { return "token_id:" + strconv.Itoa(int(id)) }
