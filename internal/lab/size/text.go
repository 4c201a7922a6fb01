package size

import (
	"fmt"
	"strings"

	"ossian/internal/lab/predict"
)

// Flags are the settings of a point as flags of a server.
func (p *Point) Flags() string {
	text := fmt.Sprintf("--max-num-seqs %d --max-num-batched-tokens %d", p.Settings.MaxSeqs, p.Settings.MaxTokens)
	if p.Settings.TP > 1 {
		text = fmt.Sprintf("--tensor-parallel-size %d ", p.Settings.TP) + text
	}
	return text
}

// Text is a choice as people read it: the values, the frontier around them, what was assumed.
func (c *Choice) Text() string {
	var out strings.Builder
	fmt.Fprintf(&out, "%s\n\n", c.Point.Flags())
	fmt.Fprintf(&out, "   %3s %6s %16s %18s %12s %12s\n", "tp", "users", "tok/s per user", "tok/s per device", "TPOT ms", "TTFT ms")
	listed := false
	for i := range c.Frontier {
		p := &c.Frontier[i]
		if p.Settings.TP == c.Point.Settings.TP && p.Users == c.Point.Users {
			p, listed = &c.Point, true
		}
		out.WriteString(p.line(p == &c.Point, len(c.Unknown) > 0))
	}
	if !listed {
		out.WriteString(c.Point.line(true, len(c.Unknown) > 0))
	}
	fmt.Fprintf(&out, "> is the choice; the others are the predicted frontier: nothing is better for both a user and a device\n")
	for _, text := range c.Assumed {
		fmt.Fprintf(&out, "assumed: %s\n", text)
	}
	if c.Depends != "" {
		fmt.Fprintf(&out, "depends: %s\n", c.Depends)
	}
	if len(c.Unknown) > 0 {
		fmt.Fprintf(&out, "BOUND ONLY: unknown kernels %s\n", strings.Join(c.Unknown, ", "))
	}
	for _, text := range c.Refused {
		fmt.Fprintf(&out, "left out: %s\n", text)
	}
	return out.String()
}

// line is a point as a line of the table.
func (p *Point) line(chosen, bound bool) string {
	mark := ' '
	if chosen {
		mark = '>'
	}
	text := fmt.Sprintf("%c  %3d %6d %16s %18s %12s %12s", mark, max(p.Settings.TP, 1), p.Users, digits(p.PerUser.Value), digits(p.PerDevice.Value), digits(p.MeanTPOT.Value), digits(p.MeanTTFT.Value))
	if chosen && !bound {
		text += fmt.Sprintf("   per user %s, per device %s", span(p.PerUser), span(p.PerDevice))
	}
	return text + "\n"
}

func span(e predict.Estimate) string { return "[" + digits(e.Low) + ", " + digits(e.High) + "]" }
