package sched

import (
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"time"

	"ossian/internal/draft"
	"ossian/internal/kv"
	"ossian/internal/sample"
)

// A Seq is one sequence to be continued: a request, or one of its n choices.
// From Add until its last Output it belongs to the scheduler; the owner of the
// scheduler may read it between calls.
type Seq struct {
	ID         uint64  // unique among the sequences that have not ended
	Tenant     uint32  // who shares fairly with others: usually one API key
	Priority   int     // within the tenant: the lower number goes first
	Salt       uint64  // sequences share cached prefixes only with those of the same salt
	Tokens     []int32 // prompt, then output; Add makes its own copy
	MaxTokens  int     // output tokens, >= 1
	MinTokens  int     // output tokens before which no id of Stops is chosen, unless Constraint allows no other
	Stops      []int32 // ids that end the sequence; empty = none does (ignore_eos)
	Params     *sample.Params
	Allowed    []uint64   // ids that may ever be chosen, one bit each; nil = all; may be shared, nobody writes to it
	Constraint Constraint // nil = free
	Prediction []int32    // ids, of the vocabulary, that the output may have parts of: they are guessed from; nil = none
	Owner      any        // of whoever called Add: nobody looks at it here
	Deadline   time.Time  // ends with FinishDeadline in the first Commit after it; zero = none
	StartBy    time.Time  // the same, but only until it first has a slot; zero = none
	Probe      bool       // of the server itself: in no total of tokens or rows

	// Written by the scheduler.
	Prompt      int         // tokens of the prompt
	Cached      int         // leading prompt tokens that its first row found in the prefix cache
	Started     time.Time   // when it first had a slot; zero = never
	Scheduled   time.Time   // when it last had one without having output; zero = never
	Preempted   []time.Time // when its blocks were first taken, at most mostPreempted times of them
	Preemptions int         // times its blocks were taken and it was computed again

	// While it runs, committed <= launched <= len(Tokens) + pending. Slot and table have a
	// meaning while it is resident.
	tenant       *tenant
	arrival      uint64 // order of Add
	state        state
	slot         int
	table        *kv.Table
	launched     int            // tokens whose KV is written once all launched rows have run
	mostLaunched int            // tokens launched before, which preemption may have taken back
	committed    int            // tokens whose KV is known to be written
	inFlight     int            // launched rows that are not committed
	pending      int            // of these, rows that sample
	lastStep     uint64         // number of the last step with a row of it, from 1
	mask         []uint64       // what may come next; nil = Allowed
	masks        [][]uint64     // behind guesses: of its last row
	guessed      bool           // a row in flight has guesses
	index        *draft.Index   // of its tokens, as far as they have been looked at; nil = not at all
	offered      []int32        // what the runner has guessed behind Tokens
	missed       int            // tokens of its last rows that were not followed by what guesses
	scored       int            // prompt tokens behind the first whose score is known, with Params.PromptLogprobs
	scores       []sample.Score // of these, until they are given out
	overtaken    int            // later ones admitted since it is blocked
	blocked      time.Time      // since when there are not enough blocks for it; zero = that was not tried
}

// mostPreempted bounds Seq.Preempted: whoever is preempted more often is known to be unlucky.
const mostPreempted = 16

// A Constraint limits what a sequence may say, by ids. The scheduler calls it from
// Add and Commit. A sequence with a constraint gets no row while a sample of it is
// in flight.
type Constraint interface {
	// Mask sets dst to the ids that may come next, one bit each; bits from the
	// vocabulary's size on do not matter. It must allow a stop id where the sequence
	// may end; where it allows nothing else the sequence ends, MinTokens or not. No id
	// at all ends the sequence with FinishError, and so does an error.
	Mask(dst []uint64) error
	// Accept advances by an id that is not a stop id. An error ends the sequence
	// with FinishError.
	Accept(id int32) error
	// Ahead returns how many of the guesses may come one after another, and sets as many of the
	// masks to what Mask gives behind each; the caller sees to it that Mask allows the first. One
	// behind which Mask fails or allows nothing does not count. The state stays as it is.
	Ahead(guesses []int32, masks [][]uint64) int
}

// Finish says why a sequence ended.
type Finish uint8

// FinishNone means that the sequence goes on.
const (
	FinishNone     Finish = iota
	FinishStop            // Output.Token is the stop id that matched
	FinishLength          // MaxTokens reached
	FinishAbort           // for users of this type; Abort gives no Output
	FinishDeadline        // Deadline or StartBy passed
	FinishError           // its constraint failed: Output.Err
)

// String returns f in one word.
func (f Finish) String() string {
	return [...]string{"none", "stop", "length", "abort", "deadline", "error"}[f]
}

// NoToken is the Token of an Output that ends a sequence without another token.
const NoToken int32 = -1

// An Output is one more token of a sequence, or its end, or both. Every sequence
// that Add accepted and Abort did not remove gets exactly one Output whose Finish
// is not FinishNone, and none after it.
type Output struct {
	ID       uint64
	Token    int32 // NoToken = none; with FinishStop the stop id
	Finish   Finish
	Logprobs []sample.Logprob // of Token, then of the most likely ids; nil when not asked for; belongs to the runner's Result
	Scores   []sample.Score   // with the first token, when asked for: of each prompt token but the first
	Err      error            // with FinishError
}

// Errors of Add, besides those that describe a Seq that makes no sense.
var (
	ErrQueueFull = errors.New("queue full")          // try again later
	ErrNeverFits = errors.New("sequence never fits") // Capacity says what would
)

// A PrefixObserver is told which prefixes are cached.
type PrefixObserver = kv.Observer

// Config is what an operator may choose. The zero value is a sensible server.
type Config struct {
	MaxQueue       int            // sequences that wait for their first slot, 0 = 1024
	MaxQueueTokens int            // their prompt tokens, 0 = no bound; a lone sequence may exceed it
	ChunkLimit     int            // tokens of a prompt per step and sequence, 0 = what the step has room for
	NoPrefixCache  bool           // compute every prompt in full
	SharedBlocks   int            // blocks that all KV groups have together, 0 = each has its pool for itself
	Observer       PrefixObserver // is told which prefixes are cached; nil = nobody is
	Guesses        *Guesses       // what is guessed with; nil = nothing is guessed
	NoReserve      bool           // admit where the prompt's blocks are there, and keep none for residents that will need more
}

// Stats is a snapshot for metrics. Counters run since New.
type Stats struct {
	Running       int // sequences that hold a slot
	Waiting       int // sequences that do not, preempted ones among them
	WaitingTokens int // prompt tokens of those that never had one: what MaxQueueTokens bounds

	KV     kv.Stats   // of the fullest group
	Groups []kv.Group // valid until the next call of Scheduler.Stats

	Steps        uint64 // batches planned that had more than probes
	Rows         uint64 // rows in them, but for those of probes
	Tokens       uint64 // their tokens
	Sampled      uint64 // rows of them that sample
	Dropped      uint64 // rows whose sequence had ended before they were committed
	Preemptions  uint64
	Recomputed   uint64 // tokens computed again after preemption
	CacheQueries uint64 // prompt tokens of sequences that got their first row, looked up in the prefix cache
	CacheHits    uint64 // of these, found

	Guesses GuessStats
}

// A state says where a sequence stands; the comment of the package has the transitions.
type state uint8

const (
	waiting state = iota // in the queue of its tenant, without slot and blocks
	running              // resident, and planned
	leaving              // preempted; resident until its launched rows are committed, then waiting
	ended                // had its last Output, or was aborted; resident until its launched rows are committed
)

// Computed returns how many leading tokens have keys and values, of a resident sequence.
func (seq *Seq) Computed() int { return min(seq.committed, len(seq.Tokens)) }

// due returns when seq runs out of time; zero = never.
func (seq *Seq) due() time.Time {
	if seq.Started.IsZero() && !seq.StartBy.IsZero() && (seq.Deadline.IsZero() || seq.StartBy.Before(seq.Deadline)) {
		return seq.StartBy
	}
	return seq.Deadline
}

// reusable returns the tokens whose KV may come from the prefix cache. A score is
// found where the token before it is computed, and only there.
func (seq *Seq) reusable() []int32 {
	if seq.unscored() {
		return seq.Tokens[:seq.scored+1]
	}
	return seq.Tokens
}

// unscored reports whether scores are wanted that are not known.
func (seq *Seq) unscored() bool { return seq.Params.PromptLogprobs && seq.scored < seq.Prompt-1 }

// targets returns the prompt tokens that follow those from start to seq.launched, if a
// score of one of them is not known.
func (seq *Seq) targets(start int) []int32 {
	end := min(seq.launched+1, seq.Prompt)
	if !seq.unscored() || end <= max(seq.scored, start)+1 {
		return nil
	}
	return seq.Tokens[start+1 : end]
}

// score records the scores of the tokens that follow those from start on. After a
// preemption some are known.
func (seq *Seq) score(start int, scores []sample.Score) {
	for _, score := range scores[min(seq.scored-start, len(scores)):] {
		seq.scores = append(seq.scores, sample.Score{Rank: score.Rank, Logprobs: slices.Clone(score.Logprobs)})
		seq.scored++
	}
}

// allowed returns the mask of the output token with that number.
func (seq *Seq) allowed(index int) []uint64 {
	if seq.mask == nil || (seq.Constraint == nil && index >= seq.MinTokens) {
		return seq.Allowed
	}
	return seq.mask
}

// restrict prepares the mask of the next token.
func (seq *Seq) restrict(vocab int) error {
	words := (vocab + 63) / 64
	if seq.Allowed != nil && len(seq.Allowed) < words {
		return fmt.Errorf("allowed ids have %d words, vocabulary needs %d", len(seq.Allowed), words)
	}
	mask := seq.Allowed // without a mask of its own
	early := seq.early(0)
	if seq.Constraint != nil || early {
		if seq.mask == nil {
			seq.mask = make([]uint64, words)
		}
		mask = seq.mask
		if err := seq.narrow(vocab, early); err != nil {
			return err
		}
	}
	if mask != nil && slices.Max(mask) == 0 {
		return errors.New("no id may come next")
	}
	return nil
}

// early reports whether no stop id may come so many tokens behind the next one.
func (seq *Seq) early(behind int) bool {
	return len(seq.Tokens)-seq.Prompt+behind < seq.MinTokens && len(seq.Stops) > 0
}

// narrow sets the mask to what constraint, allowed ids and, early, stop ids leave.
func (seq *Seq) narrow(vocab int, early bool) error {
	if seq.Constraint != nil {
		if err := seq.Constraint.Mask(seq.mask); err != nil {
			return err
		}
	} else {
		for i := range seq.mask {
			seq.mask[i] = ^uint64(0)
		}
	}
	seq.limit(seq.mask, vocab, early)
	return nil
}

// limit takes from a mask what allowed ids and, early, stop ids forbid.
func (seq *Seq) limit(mask []uint64, vocab int, early bool) {
	if seq.Allowed != nil {
		for i := range mask {
			mask[i] &= seq.Allowed[i]
		}
	}
	if used := vocab % 64; used > 0 { // bits beyond the vocabulary must not look allowed
		mask[len(mask)-1] &= 1<<used - 1
	}
	// Too early for stop ids, unless the constraint allows nothing else.
	if !early || (seq.Constraint != nil && seq.complete(mask)) {
		return
	}
	for _, id := range seq.Stops {
		if id >= 0 && int(id) < vocab {
			mask[id/64] &^= 1 << (id % 64)
		}
	}
}

// complete reports whether a mask allows stop ids and nothing else: what the
// constraint describes is at its end, MinTokens or not.
func (seq *Seq) complete(mask []uint64) bool {
	left := 0
	for _, word := range mask {
		left += bits.OnesCount64(word)
	}
	if left == 0 || left > len(seq.Stops) {
		return false
	}
	for i, word := range mask {
		for ; word != 0; word &= word - 1 {
			if !slices.Contains(seq.Stops, int32(i*64+bits.TrailingZeros64(word))) {
				return false
			}
		}
	}
	return true
}

// judge decides what the last token of seq, id, means for it. The order matters: a stop
// id is not told to the constraint, and the last token needs no mask behind it, nor does one
// that a guess was right about, for its mask was made.
func (seq *Seq) judge(id int32, vocab int, masked bool) (Finish, error) {
	number := len(seq.Tokens) - seq.Prompt
	if slices.Contains(seq.Stops, id) { // masked before MinTokens
		return FinishStop, nil
	}
	if seq.Constraint != nil {
		if err := seq.Constraint.Accept(id); err != nil {
			return FinishError, fmt.Errorf("sched: sequence %d, output %d: %w", seq.ID, number, err)
		}
	}
	if number == seq.MaxTokens {
		return FinishLength, nil
	}
	if seq.Constraint != nil && !masked {
		if err := seq.restrict(vocab); err != nil {
			return FinishError, fmt.Errorf("sched: sequence %d, output %d: %w", seq.ID, number+1, err)
		}
	}
	return FinishNone, nil
}
