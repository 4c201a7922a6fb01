package check

// The share of the roofline for this workload: decoding reads weights and cached keys and values
// once a step, so that memory bandwidth bounds it (models.md 6.2). The line is computed from the
// figures beside it, and says what it assumes; there is no praise in it.

import (
	"fmt"
	"math"
	"strings"
)

// Hardware is what reads the weights.
type Hardware struct {
	Bandwidth float64 // bytes per second of one device; 0 = not known
	Devices   int     // that share a step; 0 = 1
	Card      bool    // a device is a card, else this machine
	Origin    string  // of the bandwidth: given, measured, published
}

// Reads says what a decoding step reads.
type Reads struct {
	Step   func(batch, context int) float64 // bytes of a step of batch sequences of context tokens
	Origin string
}

// A Roofline is how near the server is to what memory allows.
type Roofline struct {
	Verdicts []string `json:"verdicts,omitempty"`
	Why      string   `json:"not_known,omitempty"` // there is no verdict
	Figures  []Figure `json:"figures,omitempty"`
	Note     string   `json:"note,omitempty"`
}

// roofline makes the verdicts, one for each measurement; without any the bound alone.
func (s *seen) roofline(options *Options, server *Server, measured []Measurement) (out Roofline) {
	var hardware Hardware
	if options.Hardware != nil {
		hardware = options.Hardware(server)
	}
	hardware.Devices = max(hardware.Devices, s.devices())
	reads, why := Reads{}, "what a token reads is not known: --model names the model's files on this machine, or --bytes-per-token tells it"
	if options.Bytes != nil {
		var err error
		if reads, err = options.Bytes(server); err != nil {
			why = "what a token reads is not known: " + clip(err.Error())
		}
	}
	switch {
	case reads.Step == nil:
		return Roofline{Why: why}
	case hardware.Bandwidth <= 0:
		out.Why = "the memory bandwidth is not known: --bandwidth GB/S tells it for one device, --measure measures that of this machine"
	}
	if len(measured) == 0 {
		measured = []Measurement{{Concurrency: 1}}
	}
	for i := range measured {
		one := &measured[i]
		context := max(int(one.Input+one.Output/2), 1)
		sequences, rate := one.decoding()
		perToken := reads.Step(sequences, context) / float64(sequences)
		out.Figures = append(out.Figures, figure("bytes per token", perToken, "bytes", fmt.Sprintf("%s, %d at once, context of %d tokens", reads.Origin, sequences, context)))
		if rate.Value > 0 {
			out.Figures = append(out.Figures, rate)
		}
		if hardware.Bandwidth > 0 {
			out.Verdicts = append(out.Verdicts, Verdict(perToken, &hardware, rate.Value))
			out.Figures = append(out.Figures, figure("bound", hardware.Bandwidth/perToken, "tok/s", "computed: bandwidth / bytes per token"))
		}
	}
	if hardware.Bandwidth > 0 {
		out.Figures = append(out.Figures, figure("bandwidth", hardware.Bandwidth, "bytes/s", hardware.Origin), figure("devices", float64(hardware.Devices), "", "counted from settings, or given"))
	}
	out.Note = "the bound is that of memory alone: attention, sampling and the host come on top; experts are counted as if each token chose alike often"
	return out
}

// decoding returns how many sequences decode at once, and the tokens a second that they get. One alone
// decodes for all of its time but that of its prompt. Of several, some are at their prompts or wait: how many
// are not is Little's law, and their rate is the throughput; a figure of 0 was not measured.
func (m *Measurement) decoding() (sequences int, rate Figure) {
	tpot, timed := m.value("mean_tpot_ms")
	if !timed || tpot.Value <= 0 {
		return max(m.Concurrency, 1), Figure{}
	}
	if m.Concurrency <= 1 {
		return 1, figure("decode rate", 1000/tpot.Value, "tok/s", "computed: 1000 / mean_tpot_ms, measured")
	}
	throughput, told := m.value("output_throughput")
	if !told {
		return m.Concurrency, Figure{}
	}
	sequences = min(max(int(math.Round(throughput.Value*tpot.Value/1000)), 1), m.Concurrency)
	return sequences, figure("decode rate", throughput.Value, "tok/s", fmt.Sprintf("measured: output_throughput, of %d past their first token by Little's law", sequences))
}

// devices is how many devices share a step, as the settings say.
func (s *seen) devices() int {
	n, ok := s.number("tensor_parallel_size", "tp_size", "tp")
	if !ok || n < 1 {
		return 1
	}
	return int(n)
}

// Verdict is the line of lab.md 6: bytes that decoding reads per token, the bound of one device,
// and the share of it that rate is; a rate of 0 was not measured.
func Verdict(perToken float64, hardware *Hardware, rate float64) string {
	bound := hardware.Bandwidth / perToken
	of := "this machine"
	if hardware.Card {
		of = "one card"
	}
	text := fmt.Sprintf("decode reads %s per token: %s tok/s is the bound of %s at %s/s", scaled(perToken), whole(bound), of, scaled(hardware.Bandwidth))
	if rate <= 0 {
		return text + "; the rate was not measured"
	}
	text += fmt.Sprintf("; %s tok/s is %s %% of it", whole(rate), whole(100*rate/bound))
	if rate > bound*float64(max(hardware.Devices, 1)) {
		return text + ": more than the bound, so that weights stay in caches, or the bandwidth was measured beside other load"
	}
	if hardware.Devices > 1 {
		text += fmt.Sprintf(", %s %% of %s", whole(100*rate/bound/float64(hardware.Devices)), word(hardware.Devices))
	}
	return text
}

// scaled prints bytes with three digits and a unit.
func scaled(bytes float64) string {
	for _, unit := range []struct {
		size float64
		name string
	}{{1e12, "TB"}, {1e9, "GB"}, {1e6, "MB"}, {1e3, "kB"}} {
		if bytes >= unit.size {
			return three(bytes/unit.size) + " " + unit.name
		}
	}
	return three(bytes) + " B"
}

// whole prints a number without a fraction where it has three digits or more before the point, or two
// significant ones.
func whole(value float64) string {
	if value >= 10 {
		return fmt.Sprintf("%.0f", value)
	}
	return strings.TrimSuffix(strings.TrimRight(fmt.Sprintf("%.2f", value), "0"), ".")
}

// word is a small number as a word.
func word(n int) string {
	words := []string{"none", "one", "two", "three", "four", "five", "six", "seven", "eight"}
	if n < len(words) {
		return words[n]
	}
	return fmt.Sprint(n)
}
