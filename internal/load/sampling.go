package load

import (
	"math"
	"math/rand/v2"

	"ossian/internal/ckpt"
	"ossian/internal/sample"
)

// A Sampling is what a user asks of the choice of tokens. Where the value is -1 the
// checkpoint's advice counts.
type Sampling struct {
	Temperature, TopP, MinP, Repetition float32
	TopK                                int
	Frequency, Presence                 float32 // penalties; checkpoints give no advice on them
	Seed                                int64   // below 0 = another one each time
}

// Advised asks for nothing: the checkpoint's advice counts.
func Advised() Sampling {
	return Sampling{Temperature: -1, TopP: -1, TopK: -1, MinP: -1, Repetition: -1}
}

// Params merges what the user asks for over the checkpoint's advice.
func (s *Sampling) Params(advice ckpt.Generation) sample.Params {
	// Who is asked first: the user, then the checkpoint, then what is usual.
	pick := func(asked float32, advice *float64, otherwise float32) float32 {
		switch {
		case asked != -1: // what makes no sense is refused by Validate
			return asked
		case advice != nil:
			return float32(*advice)
		}
		return otherwise
	}
	otherwise := float32(0)
	if advice.Sample != nil && *advice.Sample {
		otherwise = 1 // what the reference client samples with when no temperature is given
	}
	params := sample.Params{
		Temperature:       pick(s.Temperature, advice.Temperature, otherwise),
		TopP:              pick(s.TopP, advice.TopP, 0),
		MinP:              pick(s.MinP, advice.MinP, 0),
		RepetitionPenalty: pick(s.Repetition, advice.RepetitionPenalty, 0),
		FrequencyPenalty:  s.Frequency,
		PresencePenalty:   s.Presence,
		Seed:              uint64(s.Seed),
	}
	if advice.Sample != nil && !*advice.Sample && s.Temperature == -1 {
		params.Temperature = 0
	}
	if params.TopP == 0 && (s.TopP == 0 || advice.TopP != nil) {
		params.TopP = math.SmallestNonzeroFloat32 // the likeliest id alone, as for a request; 0 would keep all
	}
	if params.TopK = s.TopK; params.TopK == -1 {
		params.TopK = 0
		if advice.TopK != nil {
			params.TopK = max(*advice.TopK, 0) // -1 is all, too
		}
	}
	if s.Seed < 0 {
		params.Seed = rand.Uint64()
	}
	return params
}

// MaskOut returns a mask that allows every id but the given ones; nil when none is given.
func MaskOut(vocab int, ids []int32) []uint64 {
	if len(ids) == 0 {
		return nil
	}
	mask := make([]uint64, (vocab+63)/64)
	for i := range mask {
		mask[i] = math.MaxUint64
	}
	for _, id := range ids {
		mask[id/64] &^= 1 << (id % 64)
	}
	return mask
}
