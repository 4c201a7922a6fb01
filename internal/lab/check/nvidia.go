package check

// What nvidia-smi says of the cards, where there is one: power, clocks, ECC, the link to the host
// and between cards.

import (
	"context"
	"encoding/xml"
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"ossian/internal/lazyregexp"
)

// smiTime is how long nvidia-smi may take.
const smiTime = 20 * time.Second

// cards is the part of nvidia-smi -q -x that is looked at.
type cards struct {
	Driver string `xml:"driver_version"`
	Cards  []card `xml:"gpu"`
}

type card struct {
	Name        string       `xml:"product_name"`
	Persistence string       `xml:"persistence_mode"`
	ECC         string       `xml:"ecc_mode>current_ecc"`
	Memory      string       `xml:"fb_memory_usage>total"`
	Power       powerReading `xml:"gpu_power_readings"`
	OldPower    powerReading `xml:"power_readings"` // of older drivers
	Clock       string       `xml:"clocks>sm_clock"`
	MaxClock    string       `xml:"max_clocks>sm_clock"`
	Reasons     reasons      `xml:"clocks_event_reasons"`
	OldReasons  reasons      `xml:"clocks_throttle_reasons"`
	Gen         string       `xml:"pci>pci_gpu_link_info>pcie_gen>current_link_gen"`
	MaxGen      string       `xml:"pci>pci_gpu_link_info>pcie_gen>max_link_gen"`
	Width       string       `xml:"pci>pci_gpu_link_info>link_widths>current_link_width"`
	MaxWidth    string       `xml:"pci>pci_gpu_link_info>link_widths>max_link_width"`
}

type powerReading struct {
	Limit    string `xml:"current_power_limit"`
	OldLimit string `xml:"power_limit"`
	Default  string `xml:"default_power_limit"`
	Most     string `xml:"max_power_limit"`
}

type reasons struct {
	All []struct {
		XMLName xml.Name
		Text    string `xml:",chardata"`
	} `xml:",any"`
}

// askCards asks nvidia-smi, "" = that of the path; "" back = there is none.
func askCards(ctx context.Context, program string) (told cards, asked string, err error) {
	if program == "" {
		if program, err = exec.LookPath("nvidia-smi"); err != nil {
			return told, "", nil
		}
	}
	text, err := exec.CommandContext(ctx, program, "-q", "-x").Output()
	if err == nil {
		err = xml.Unmarshal(text, &told)
	}
	return told, program, err
}

// Card is the name of the first card, "" = there is none. The program is as Options.SMI.
func Card(program string) string {
	ctx, cancel := context.WithTimeout(context.Background(), smiTime)
	defer cancel()
	told, _, err := askCards(ctx, program)
	if err != nil || len(told.Cards) == 0 {
		return ""
	}
	return clip(told.Cards[0].Name)
}

// graphics are the facts of all cards.
func (s *seen) graphics(options *Options) []Fact {
	if options.SMI == "-" {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), smiTime)
	defer cancel()
	told, program, err := askCards(ctx, options.SMI)
	if program == "" {
		return nil
	}
	if err != nil {
		return []Fact{{Name: "cards", Value: "nvidia-smi failed: " + clip(err.Error()), Origin: "nvidia-smi -q -x"}}
	}
	s.cards = len(told.Cards)
	var out []Fact
	for i := range told.Cards {
		out = append(out, told.Cards[i].facts(i)...)
	}
	if len(told.Cards) > 1 {
		text, _ := exec.CommandContext(ctx, program, "topo", "-m").Output()
		out = append(out, links(string(text)))
	}
	return out
}

// facts are those of one card.
func (c *card) facts(index int) (out []Fact) {
	const origin = "nvidia-smi -q -x"
	add := func(name, value string, state State, fix string) {
		out = append(out, Fact{Name: fmt.Sprintf("card %d %s", index, name), Value: clip(value), Origin: origin, State: state, Fix: fix})
	}
	add("model", c.Name+", "+c.Memory, "", "")
	power := c.Power
	if power.Limit+power.OldLimit == "" {
		power = c.OldPower
	}
	if power.Limit == "" {
		power.Limit = power.OldLimit
	}
	if limit, ok := leading(power.Limit); ok {
		state, fix := On, ""
		if usual, ok := leading(power.Default); ok && limit < usual {
			state, fix = Off, fmt.Sprintf("nvidia-smi -i %d -pl %s", index, formatNumber(usual))
		}
		add("power limit", fmt.Sprintf("%s, default %s, most %s", power.Limit, power.Default, power.Most), state, fix)
	}
	if c.Clock != "" {
		add("clock", c.Clock+" of "+c.MaxClock, "", "")
	}
	held := append(c.Reasons.active(), c.OldReasons.active()...)
	if len(held) > 0 {
		add("clock held back", strings.Join(held, ", "), "", "")
	}
	if c.ECC != "" && c.ECC != "N/A" {
		add("ECC", c.ECC, "", "")
	}
	if c.MaxWidth != "" && c.MaxWidth != "N/A" {
		state := On
		if c.Width != c.MaxWidth { // generations fall when a card rests, widths do not
			state = Off
		}
		add("PCIe width", fmt.Sprintf("%s of %s, generation %s of %s", c.Width, c.MaxWidth, c.Gen, c.MaxGen), state, "")
	}
	if c.Persistence == "Disabled" {
		add("persistence mode", c.Persistence, Off, fmt.Sprintf("nvidia-smi -i %d -pm 1", index))
	} else if c.Persistence != "" {
		add("persistence mode", c.Persistence, On, "")
	}
	return out
}

// active are the reasons that hold a clock back now, idleness aside.
func (r *reasons) active() (out []string) {
	for _, one := range r.All {
		if strings.TrimSpace(one.Text) == "Active" && !strings.Contains(one.XMLName.Local, "idle") {
			name := strings.TrimPrefix(strings.TrimPrefix(one.XMLName.Local, "clocks_event_reason_"), "clocks_throttle_reason_")
			out = append(out, strings.ReplaceAll(name, "_", " "))
		}
	}
	return out
}

// leading is the number that a text begins with: 400.00 W.
func leading(text string) (float64, bool) {
	first, _, _ := strings.Cut(strings.TrimSpace(text), " ")
	value, err := strconv.ParseFloat(first, 64)
	return value, err == nil
}

// linkMark is how nvidia-smi topo -m marks cards that NVLink joins.
var linkMark = lazyregexp.New(`\bNV\d+\b`)

// links says whether NVLink joins the cards.
func links(topology string) Fact {
	fact := Fact{Name: "cards joined by NVLink", Value: "none", Origin: "nvidia-smi topo -m", State: Unknown}
	found := linkMark.FindAllString(topology, -1)
	switch {
	case len(found) > 0:
		slices.Sort(found)
		fact.Value, fact.State = strings.Join(slices.Compact(found), " "), On
	case strings.Contains(topology, "GPU0"):
		fact.State, fact.Note = Impossible, "the cards are joined by PCIe only"
	}
	return fact
}
