package draft

import "fmt"

// Methods of guessing, as --speculative-config names them.
const (
	NGram  = "ngram"       // an Index with windows of ids, always as many guesses
	Suffix = "suffix"      // an Index and a Store, the longer match the more guesses
	EAGLE3 = "eagle3"      // a head on the target's hidden states
	Model  = "draft_model" // a small model of the same vocabulary
)

// Bounds of settings, and what counts where nothing is said.
const (
	MostTokens      = 31      // of Settings.Tokens
	MostMatch       = 64      // ids that are compared at a place
	DefaultShortest = 2       // of Suffix: with 5, as vLLM's windows, a third less of it is gained
	besideModel     = 8       // ids that have to be alike for text to be a better guess than a model's
	storedIDs       = 1 << 20 // in a Store
)

// Settings are what an operator says about guesses. nil Settings = no guesses.
type Settings struct {
	Method string // NGram, Suffix, EAGLE3, Model
	Tokens int    // guesses behind a sequence, 1 to MostTokens

	Shortest       int     // ids that have to be alike: 2 of Suffix, prompt_lookup_min of NGram
	Longest        int     // ids that count: prompt_lookup_max of NGram; 0 = 64
	Factor         float64 // guesses at most for each id that is alike; 0 = Tokens
	MinTokenProb   float64 // share of the places that has to agree with the guesses, 0 to 1
	CachedRequests int     // in the Store; 0 = there is none

	Adaptive bool         // a Chooser decides how many guesses pay; otherwise all are checked
	Batches  []BatchLimit // in order; sizes that none names have no limit but Tokens

	Draft         string // name of the head or the small model; "" = none. Where Method is "" its files say which it is
	DraftModelLen int    // max_model_len of it; 0 = the target's
	Quantization  string // of it; "" = as stored
	AuxOffset     int    // 0 or 1: added to the layers whose states a head names
}

// A BatchLimit bounds the guesses behind each sequence in steps with From to To sequences.
type BatchLimit struct{ From, To, Tokens int }

// String says in a line what guesses, and how much.
func (s *Settings) String() string {
	by, checked := s.Method, "all are checked"
	if s.Draft != "" {
		by += " " + s.Draft
	}
	if s.Adaptive {
		checked = "as many as pay"
	}
	return fmt.Sprintf("%s, up to %d a sequence and step, %s", by, s.Tokens, checked)
}

// Lookup reports whether guesses come from text, without a model.
func (s *Settings) Lookup() bool { return s.Method == NGram || s.Method == Suffix }

// Sources returns where guesses come from: of a model first the model.
func (s *Settings) Sources() []Source {
	switch {
	case s.Lookup():
		return []Source{FromIndex, FromStore}
	case s.Method == EAGLE3:
		return []Source{FromHead, FromIndex}
	}
	return []Source{FromModel, FromIndex}
}

// NewIndex returns the index of one sequence. Beside a model it has places that are alike for long alone.
func (s *Settings) NewIndex() *Index { return &Index{rule: s.rule()} }

// NewStore returns the store of all sequences, nil where none is wanted.
func (s *Settings) NewStore() *Store {
	if s.CachedRequests == 0 || !s.Lookup() {
		return nil
	}
	store := NewStore(storedIDs, s.CachedRequests)
	store.rule = s.rule()
	return store
}

// NewChooser returns what decides how many guesses there are in a step.
func (s *Settings) NewChooser() *Chooser {
	chooser := NewChooser(s.Adaptive)
	chooser.batches = s.Batches
	return chooser
}

func (s *Settings) rule() rule {
	by := newRule(s.Shortest)
	if !s.Lookup() {
		by = newRule(besideModel)
	}
	if s.Longest > 0 {
		by.longest = min(max(s.Longest, by.shortest), MostMatch)
	}
	by.factor, by.least = s.Factor, s.MinTokenProb
	return by
}
