package generate

import (
	"fmt"
	"hash/maphash"
	"math"
	"slices"
	"strconv"

	"ossian/internal/host"
	"ossian/internal/sample"
	"ossian/internal/wire"
)

// Later refuses what this version does not do yet.
func Later(asked *wire.Sampling) *wire.Error {
	if asked.LogprobTokenIDs != nil {
		return wire.Unsupported("logprob_token_ids", "log probabilities of given ids are not supported")
	}
	return nil
}

// Params merges a request over the model's defaults.
func (s *Service) Params(model *host.Model, asked *wire.Sampling) sample.Params {
	params := model.Defaults
	set(&params.Temperature, asked.Temperature)
	set(&params.TopP, asked.TopP)
	if asked.TopP != nil && params.TopP == 0 {
		params.TopP = math.SmallestNonzeroFloat32 // the likeliest id alone; 0 would keep all
	}
	set(&params.MinP, asked.MinP)
	set(&params.RepetitionPenalty, asked.RepetitionPenalty)
	set(&params.FrequencyPenalty, asked.FrequencyPenalty)
	set(&params.PresencePenalty, asked.PresencePenalty)
	if asked.TopK != nil {
		params.TopK = int(max(*asked.TopK, 0))
	}
	if len(asked.LogitBias) > 0 {
		params.LogitBias = make(map[int32]float32, len(asked.LogitBias))
		for id, bias := range asked.LogitBias {
			params.LogitBias[id] = float32(bias)
		}
	}
	switch {
	case asked.Seed != nil:
		params.Seed = uint64(*asked.Seed)
	case s.cfg.Seed != nil:
		params.Seed = uint64(*s.cfg.Seed)
	default:
		params.Seed = s.cfg.Random()
	}
	return params
}

// An InForce is what a model samples with, in the words of the API.
type InForce struct{ Temperature, TopP, Presence, Frequency float64 }

// InForce returns what the model samples with.
func (s *Service) InForce(model *host.Model, asked *wire.Sampling) InForce {
	params := s.Params(model, asked)
	topP := float64(params.TopP)
	switch params.TopP { // see Params
	case 0:
		topP = 1
	case math.SmallestNonzeroFloat32:
		topP = 0
	}
	return InForce{Temperature: float64(params.Temperature), TopP: topP, Presence: float64(params.PresencePenalty), Frequency: float64(params.FrequencyPenalty)}
}

func set(to *float32, value *float64) {
	if value != nil {
		*to = float32(*value)
	}
}

// CheckSampling refuses what Service.Start would refuse of the parameters of sampling.
func CheckSampling(model *host.Model, asked *wire.Sampling) error {
	if err := checkIDs(model, asked); err != nil {
		return err
	}
	return nil
}

// checkIDs refuses ids that the model does not have.
func checkIDs(model *host.Model, asked *wire.Sampling) *wire.Error {
	if err := CheckIDs(model, "stop_token_ids", asked.StopTokenIDs); err != nil {
		return err
	}
	if err := CheckIDs(model, "allowed_token_ids", asked.AllowedTokenIDs); err != nil {
		return err
	}
	least := int32(math.MaxInt32) // the same error every time
	for id := range asked.LogitBias {
		if int(id) >= model.Vocab {
			least = min(least, id)
		}
	}
	if least < math.MaxInt32 {
		return wire.Invalid(fmt.Sprintf("logit_bias.%d", least), fmt.Sprintf("ids from 0 to %d expected", model.Vocab-1))
	}
	return nil
}

// CheckIDs refuses ids of a field that the model does not have.
func CheckIDs(model *host.Model, param string, ids []int32) *wire.Error {
	for i, id := range ids {
		if id < 0 || int(id) >= model.Vocab {
			return wire.Invalid(fmt.Sprintf("%s[%d]", param, i), fmt.Sprintf("id %d, expected 0 to %d", id, model.Vocab-1))
		}
	}
	return nil
}

// allowed returns the mask of ids that may be sampled: those that mean something,
// and of these only the given ones unless that is nil.
func (s *Service) allowed(model *host.Model, only []int32) ([]uint64, error) {
	if only == nil {
		return s.meaningful(model), nil
	}
	mask := make([]uint64, (model.Vocab+63)/64)
	for _, id := range only {
		mask[id/64] |= 1 << (id % 64)
	}
	for i, used := range s.meaningful(model) {
		mask[i] &= used
	}
	if slices.Max(mask) == 0 {
		return nil, wire.Invalid("allowed_token_ids", "none of these ids has a meaning")
	}
	return mask, nil
}

// meaningful returns the mask of ids with a meaning; nil = all. One mask serves all
// requests.
func (s *Service) meaningful(model *host.Model) []uint64 {
	if len(model.Unused) == 0 {
		return nil
	}
	if known := s.masks.Load(); known != nil && known.model == model {
		return known.mask
	}
	mask := slices.Repeat([]uint64{math.MaxUint64}, (model.Vocab+63)/64)
	for _, id := range model.Unused {
		mask[id/64] &^= 1 << (id % 64)
	}
	s.masks.Store(&modelMask{model, mask})
	return mask
}

// A modelMask is what meaningful found out of a model.
type modelMask struct {
	model *host.Model
	mask  []uint64
}

// salt separates the prefix caches of keys and of cache_salt.
func (s *Service) salt(tenant uint32, text string) uint64 {
	if tenant == 0 && text == "" {
		return 0
	}
	return maphash.String(s.saltSeed, strconv.Itoa(int(tenant))+" "+text)
}
