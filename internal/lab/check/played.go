package check

// A server that plays a machine: what it is judged as is what it plays, and not the model whose
// tokenizer it borrows.

import "strings"

// simulated begins the device of an Ossian that plays a machine: sim:MACHINE[,KEY=VALUE…].
const simulated = "sim:"

// Played is what a simulated device plays.
type Played struct {
	Machine string `json:"machine"`
	Model   string `json:"model,omitempty"`  // empty: the server's own
	Engine  string `json:"engine,omitempty"` // NAME@VERSION; empty: the server's own
}

// played reads the device that the server names; nil = it computes.
func (s *seen) played() *Played {
	device, told := s.get("device")
	text, plays := strings.CutPrefix(device.value, simulated)
	if !told || !plays {
		return nil
	}
	name, rest, _ := strings.Cut(text, ",")
	out := &Played{Machine: clip(name)}
	for option := range strings.SplitSeq(rest, ",") {
		switch key, value, _ := strings.Cut(option, "="); key {
		case "model":
			out.Model = clip(value)
		case "engine":
			out.Engine = clip(value)
		}
	}
	return out
}

// String says what is played.
func (p *Played) String() string {
	text := p.Machine
	if p.Model != "" {
		text = p.Model + " on " + text
	}
	if p.Engine != "" {
		text += ", " + p.Engine
	}
	return text
}
