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
		if r := &l.Records[i]; r.Index >= 0 {
			records[r.Index] = r
		}
	}
	var e Errors
	var ttft, gaps []time.Duration
	for i := range seen {
		s := &seen[i]
		r := records[s.Index]
		delete(records, s.Index)
		if r == nil || len(r.Sends) == 0 || len(r.Sends) != len(s.Gaps)+1 {
			e.Missed++
			continue
		}
		e.Requests++
		e.Events += len(r.Sends)
		ttft = append(ttft, s.TTFT-r.TTFT())
		for j, gap := range s.Gaps {
			gaps = append(gaps, (gap - (r.Sends[j+1].Actual - r.Sends[j].Actual)).Abs())
		}
	}
	e.Missed += len(records)
	e.TTFT, e.Gap = Spreads(ttft), Spreads(gaps)
	return e
}
