package scripted

import "time"

// A Seen is what a client says of one request.
type Seen struct {
	Index int             // the number at the end of its x-request-id
	TTFT  time.Duration   // from the sending of the request to the first event with choices
	Gaps  []time.Duration // between one event with choices and the next
}

// Errors are how far a client's times are from the truth.
type Errors struct {
	Requests int // that both sides know, and agree on the number of events
	Missed   int // that only one side knows, or whose numbers of events differ
	Events   int // of the former
	// TTFT is the client's minus the server's, which counts from the receipt of the
	// request to the first write: so it is what both ways through the network and the
	// client add, and not negative.
	TTFT Spread
	// Gap is the distance of a gap that the client saw from the one that was sent.
	Gap Spread
}

// Compare measures a client by the log of the server.
func (l *Log) Compare(seen []Seen) Errors {
	records := map[int]*Record{}
	for i := range l.Records {
		if truth := &l.Records[i]; truth.Index >= 0 {
			records[truth.Index] = truth
		}
	}
	var errors Errors
	var ttft, gaps []time.Duration
	for i := range seen {
		claim := &seen[i]
		truth := records[claim.Index]
		delete(records, claim.Index)
		// Where the numbers of events differ nobody knows which gap is which.
		if truth == nil || len(truth.Sends) == 0 || len(truth.Sends) != len(claim.Gaps)+1 {
			errors.Missed++
			continue
		}
		errors.Requests++
		errors.Events += len(truth.Sends)
		ttft = append(ttft, claim.TTFT-truth.TTFT())
		for j, gap := range claim.Gaps {
			gaps = append(gaps, (gap - (truth.Sends[j+1].Actual - truth.Sends[j].Actual)).Abs())
		}
	}
	errors.Missed += len(records)
	errors.TTFT, errors.Gap = Spreads(ttft), Spreads(gaps)
	return errors
}
