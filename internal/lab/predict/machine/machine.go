// Package machine says what a kind of machine can do at most: memory, bandwidth, arithmetic and
// links of one accelerator, as the maker publishes them. Users need not know data sheets; how
// much of these bounds a kernel reaches is not here but in a calibration.
package machine

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// An Origin says where a number comes from: no figure without one (lab.md 1).
type Origin string

// The origins of lab.md 5.
const (
	Spec      Origin = "spec"      // the maker's data sheet
	Published Origin = "published" // measured by others
	Fitted    Origin = "fitted"    // by a calibration
	Measured  Origin = "measured"  // here
)

// A Parameter is one number of the predictor with its evidence (lab.md 5).
type Parameter struct {
	Value  float64 `json:"value"`
	Unit   string  `json:"unit"`
	Origin Origin  `json:"origin"`
	SE     float64 `json:"se"` // standard error of the logarithm of Value; 0 = taken as exact
}

// A Machine is one accelerator, or one computer where the processors compute. Every number has a
// record; a Value of 0 means that the machine does not have it.
type Machine struct {
	Name      string    `json:"name"`
	Memory    Parameter `json:"memory"`    // bytes that a program can see
	Bandwidth Parameter `json:"bandwidth"` // bytes of memory read per second
	BF16      Parameter `json:"bf16"`      // dense FLOP/s with 16-bit operands, without sparsity
	FP8       Parameter `json:"fp8"`
	FP4       Parameter `json:"fp4"`
	Link      Parameter `json:"link"`   // bytes per second to the other accelerators, one direction
	Switch    bool      `json:"switch"` // all see each other at the speed of Link; false = through the host
	Most      int       `json:"most"`   // accelerators in one computer
	CPU       bool      `json:"cpu"`    // the processors of a computer: no graph, no link
}

// record is a number of a data sheet.
func record(value float64, unit string) Parameter {
	return Parameter{Value: value, Unit: unit, Origin: Spec}
}

// gpu returns the record of an accelerator: GB that programs see, GB/s, TFLOP/s of BF16, FP8 and
// FP4, GB/s of the link in one direction.
func gpu(name string, memory, bandwidth, bf16, fp8, fp4, link float64, switched bool, most int) Machine {
	return Machine{Name: name, Memory: record(memory*1e9, "B"), Bandwidth: record(bandwidth*1e9, "B/s"),
		BF16: record(bf16*1e12, "FLOP/s"), FP8: record(fp8*1e12, "FLOP/s"), FP4: record(fp4*1e12, "FLOP/s"),
		Link: record(link*1e9, "B/s"), Switch: switched, Most: most}
}

// shipped are the machines of lab.md 5. Arithmetic is without sparsity. Memory is what programs
// are offered, a little less than the name says where error correction or firmware keeps some.
var shipped = []Machine{
	gpu("A100-SXM4-80G", 85.0, 2039, 312, 0, 0, 300, true, 16),
	gpu("A100-SXM4-40G", 42.3, 1555, 312, 0, 0, 300, true, 16),
	gpu("A100-PCIE-80G", 85.0, 1935, 312, 0, 0, 32, false, 8),
	gpu("H100-SXM", 85.5, 3350, 989, 1979, 0, 450, true, 8),
	gpu("H200", 150.0, 4800, 989, 1979, 0, 450, true, 8),
	gpu("H20", 102.6, 4000, 148, 296, 0, 450, true, 8),
	gpu("B200", 191.5, 8000, 2250, 4500, 9000, 900, true, 8),
	gpu("RTX-PRO-6000", 102.0, 1792, 504, 1008, 2015, 64, false, 8),
	gpu("L40S", 47.7, 864, 362, 733, 0, 32, false, 8),
	gpu("MI300X", 206.1, 5300, 1307, 2615, 0, 448, true, 8),
	gpu("MI355X", 309.2, 8000, 2300, 4600, 9200, 538, true, 8),
}

// aliases are other names that people and programs use, as canonical makes them.
var aliases = map[string]string{
	"a100": "A100-SXM4-80G", "a10080g": "A100-SXM4-80G", "a10080gb": "A100-SXM4-80G", "a100sxm480gb": "A100-SXM4-80G", "a100sxm80gb": "A100-SXM4-80G",
	"a10040g": "A100-SXM4-40G", "a10040gb": "A100-SXM4-40G", "a100sxm440gb": "A100-SXM4-40G", "a100pcie80gb": "A100-PCIE-80G",
	"h100": "H100-SXM", "h100sxm5": "H100-SXM", "h10080gbhbm3": "H100-SXM", "h100sxm80g": "H100-SXM", "h100sxm80gb": "H100-SXM",
	"h200sxm": "H200", "rtxpro6000blackwell": "RTX-PRO-6000", "rtx6000pro": "RTX-PRO-6000",
}

// Lookup returns the machine of that name; spelling is free in case, spaces and dashes.
func Lookup(name string) (Machine, error) {
	key := canonical(name)
	if alias, ok := aliases[key]; ok {
		key = canonical(alias)
	}
	for _, machine := range shipped {
		if canonical(machine.Name) == key {
			return machine, nil
		}
	}
	return Machine{}, fmt.Errorf("machine %q is not known; there are %s", name, strings.Join(Names(), ", "))
}

// Names lists the shipped machines.
func Names() []string {
	var names []string
	for _, machine := range shipped {
		names = append(names, machine.Name)
	}
	return names
}

// canonical leaves letters and digits of a name, without the maker.
func canonical(name string) string {
	name = strings.ToLower(name)
	for _, maker := range []string{"nvidia", "amd", "instinct", "geforce"} {
		name = strings.ReplaceAll(name, maker, "")
	}
	return strings.Map(func(r rune) rune {
		if (r >= 'a' && r <= 'z') || (r >= '0' && r <= '9') {
			return r
		}
		return -1
	}, name)
}

// Processors returns the record of a computer whose processors compute: memory in bytes, measured
// bytes and operations per second of all of them together.
func Processors(memory, bandwidth, compute float64) Machine {
	measured := func(value float64, unit string) Parameter { return Parameter{value, unit, Measured, 0.02} }
	return Machine{Name: "cpu", Memory: measured(memory, "B"), Bandwidth: measured(bandwidth, "B/s"),
		BF16: measured(compute, "FLOP/s"), Most: 1, CPU: true}
}

// Compute returns the dense FLOP/s with operands of so many bits; where the machine has no such
// unit the wider one does the work.
func (m *Machine) Compute(bits int) float64 {
	switch {
	case bits <= 4 && m.FP4.Value > 0:
		return m.FP4.Value
	case bits <= 8 && m.FP8.Value > 0:
		return m.FP8.Value
	}
	return m.BF16.Value
}

// The table of an all-reduce. Up to customLimit a kernel that reads its peers does it; above, a
// library that sends around a ring.
const customLimit = 8 << 20

var reduceSizes = []float64{4 << 10, 64 << 10, 512 << 10, 2 << 20, customLimit, 32 << 20, 128 << 20, 1 << 30}

// AllReduce returns the seconds that devices need to add up messages of that many bytes, read
// from a table over size and number (lab.md 5) by interpolating the logarithms.
func (m *Machine) AllReduce(bytes float64, devices int) float64 {
	if devices < 2 || bytes <= 0 {
		return 0
	}
	at, found := slices.BinarySearch(reduceSizes, bytes)
	if found || at == 0 || at == len(reduceSizes) {
		return m.reduceEntry(bytes, devices)
	}
	low, high := reduceSizes[at-1], reduceSizes[at]
	slow, fast := m.reduceEntry(high, devices), m.reduceEntry(low, devices)
	share := math.Log(bytes/low) / math.Log(high/low)
	return fast * math.Pow(slow/fast, share)
}

// reduceEntry is one entry of the table: start-up that grows with the number of devices, and bytes
// over the part of the link that the method reaches.
func (m *Machine) reduceEntry(bytes float64, devices int) float64 {
	n := float64(devices)
	link := m.Link.Value
	switch {
	case !m.Switch: // through the host: the ring shares the bus
		return (20+8*n)*1e-6 + 2*(n-1)/n*bytes/(0.7*link)
	case bytes <= 512<<10: // everyone reads all of everyone
		return (6+n)*1e-6 + (n-1)*bytes/(0.75*link)
	case bytes <= customLimit: // everyone adds up a part and hands it out
		return (10+n)*1e-6 + 2*(n-1)/n*bytes/(0.75*link)
	}
	return (18+4*n)*1e-6 + 2*(n-1)/n*bytes/(0.72*link)
}
