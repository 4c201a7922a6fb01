// Package draft guesses what comes next in a sequence without a model: from earlier places of
// the same sequence that end alike (Index), from outputs of finished requests (Store). It also
// learns how many guesses pay (Chooser), those of models that guess among them. Its users need not
// know how text repeats, what a step costs or how often guesses were right.
//
// What is guessed never decides what is answered: a guess is kept where the draw of the target
// model is equal. So all here may be learned, timed and cut short at will.
package draft

// A Source says where guesses come from.
type Source uint8

// The sources of guesses.
const (
	FromIndex Source = iota // earlier places of the same sequence
	FromStore               // outputs of finished requests
	FromHead                // a head on the target's hidden states
	FromModel               // a small model of the same vocabulary
	sources   = iota
)

// String returns s as metrics call it.
func (s Source) String() string { return [...]string{"index", "store", "head", "model"}[s] }

// model reports whether a model guesses.
func (s Source) model() bool { return s == FromHead || s == FromModel }

// A Proposal is what may be guessed behind the tokens of one sequence.
type Proposal struct {
	Source Source
	Match  int // ids that end alike; 0 = a model guesses
	Len    int // guesses offered
}
