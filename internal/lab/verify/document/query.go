package document

// Questions about a document that several rules ask: where a figure is from, what the text is
// about, which rows compare which runs.

import (
	"fmt"
	"sort"
	"strings"

	"ossian/internal/lazyregexp"
)

// ModelOf is the model that a block is of: by its server's command, its client's, else by
// the headings above it.
func (d *Document) ModelOf(block *Block) string {
	if block.Server != nil && block.Server.Model != "" && (block.client == nil || block.client.Line < block.Server.Line || block.client.Model == "") {
		return block.Server.Model
	}
	if block.client != nil && block.client.Model != "" {
		return block.client.Model
	}
	if block.info["model_id"] != "" {
		return block.info["model_id"]
	}
	for _, h := range d.Above(block.Line) {
		if models := ModelsIn(h.Text); len(models) > 0 {
			return models[0].Text
		}
	}
	if models := ModelsIn(d.Title()); len(models) > 0 {
		return models[0].Text
	}
	return ""
}

// BaseWords are how the column or the row is called that others are compared with.
var BaseWords = lazyregexp.New(`(?i)\b(baseline|before|default|original|without|unoptimi[sz]ed|reference|stock|old)\b`)

// RowBase is the figure of the same label that a figure of a column is compared with: that
// of the column called so, else of the only other one, else of the first without a change.
func RowBase(table *Table, row *Row, column int, label string) (TableFigure, bool) {
	// Candidates by how well the table says that they are the base.
	var named, bare, others []TableFigure
	for other := range row.Cells {
		if other == column {
			continue
		}
		for _, figure := range row.Cells[other].Figures {
			if figure.Label != label {
				continue
			}
			others = append(others, figure)
			if BaseWords.MatchString(table.Header[other]) {
				named = append(named, figure)
			}
			if figure.Change == nil {
				bare = append(bare, figure)
			}
		}
	}
	switch {
	case len(named) > 0:
		return named[0], true
	case len(others) == 1:
		return others[0], true
	case len(bare) > 0:
		return bare[0], true
	}
	return TableFigure{}, false
}

// TextAround is what says how a row is to be read: its own line, those right above its table,
// the header, and what stands below the table as a footnote.
func (d *Document) TextAround(table *Table, row *Row) string {
	last := table.Line
	if len(table.Rows) > 0 {
		last = table.Rows[len(table.Rows)-1].Line
	}
	around := append([]string{}, d.Lines[max(0, table.Line-6):min(len(d.Lines), table.Line)]...)
	around = append(around, d.Lines[row.Line-1])
	around = append(around, d.Lines[min(len(d.Lines), last):min(len(d.Lines), last+8)]...)
	return strings.Join(around, "\n")
}

var currentText = lazyregexp.New(`(?i)(?:current|your|now|results?)[^0-9\n]{0,40}?[~≈]?([0-9]+(?:\.[0-9]+)?)\s*(?:tok|tokens)\s?/?(?:s|sec|second)`)

// CurrentRate is the rate that a document gives as that of its final state, else the end of
// the chain.
func (d *Document) CurrentRate(last ChainStep) string {
	for _, line := range d.Lines {
		if !strings.Contains(line, "tok") || len(line) > maxNames {
			continue
		}
		if match := currentText.FindStringSubmatch(Plain(line)); match != nil {
			if value, ok := ParseNumber(match[1]); ok && value.Value >= last.Rate.Low*0.9 && value.Value <= last.Rate.High*1.1 {
				return match[1]
			}
		}
	}
	return Figure(last.Rate.High)
}

// PastFirst is the mean number of requests past their first token: by E2EL − TTFT, else by
// the mean gap between tokens times their number. Never by the mean of TPOT, which weighs
// requests and not tokens.
func (b *Block) PastFirst() (value float64, how string, ok bool) {
	if b.Value("duration") <= 0 || b.Value("completed") <= 0 {
		return 0, "", false
	}
	per := b.Value("completed") / b.Value("duration") / 1000
	switch {
	case b.Has("mean_e2el_ms", "mean_ttft_ms") && b.Value("mean_e2el_ms") >= b.Value("mean_ttft_ms"):
		return per * (b.Value("mean_e2el_ms") - b.Value("mean_ttft_ms")), "by E2EL − TTFT", true
	case b.Has("mean_itl_ms", "total_output_tokens") && b.Value("total_output_tokens") > b.Value("completed"):
		gaps := b.Value("total_output_tokens") - b.Value("completed")
		return gaps * b.Value("mean_itl_ms") / 1000 / b.Value("duration"), "by ITL", true
	}
	return 0, "", false
}

// ShortName is the label of a block, or its line.
func (b *Block) ShortName() string {
	if b.label != "" {
		return b.label
	}
	return fmt.Sprintf("line %d", b.Line)
}

// Model is the model that a document is about: that of its title, else the first one that
// it names.
func (d *Document) Model() (ModelName, bool) {
	if !d.modelKnown {
		d.modelKnown = true
		texts := append([]string{d.Title()}, d.Lines...)
		for _, text := range texts {
			if d.model, d.hasModel = ModelIn(text); d.hasModel {
				break
			}
		}
	}
	return d.model, d.hasModel
}

var perDevice = lazyregexp.New(`(?i)(?:vram|memory)\s*(?:per|/)\s*(?:gpu|card|device)[^0-9]{0,12}([0-9]{1,4})\s?Gi?B|([0-9]{1,4})\s?Gi?B\s*(?:vram\s*)?(?:per|/|each)\s*(?:gpu|card|device)?`)

// DeviceMemory is the memory of one device in GB as a document states it, else as published,
// and the name of the device; 0 where it is not known.
func (d *Document) DeviceMemory() (gigabytes float64, name string) {
	if !d.memoryKnown {
		d.memoryKnown = true
		d.memoryGB, d.memoryOf = d.findDeviceMemory()
	}
	return d.memoryGB, d.memoryOf
}

var gigabytesText = lazyregexp.New(`([0-9]{2,3})\s?GB`)

// findDeviceMemory looks for the memory of the only device that is named.
func (d *Document) findDeviceMemory() (gigabytes float64, name string) {
	all := DevicesIn(d.HeadText())
	if len(all) == 1 {
		gigabytes, name = all[0].Memory, all[0].Text
	}
	for _, line := range d.Lines {
		if !strings.Contains(line, "B") || len(line) > maxNames {
			continue
		}
		text := Plain(line)
		lower := strings.ToLower(text)
		if strings.Contains(lower, "vram") && !strings.Contains(lower, "model") {
			if match := perDevice.FindStringSubmatch(text); match != nil {
				if value, ok := ParseNumber(match[1] + match[2]); ok {
					return value.Value, name
				}
			}
		}
		if len(all) == 1 && all[0].Memory == 0 && len(DevicesIn(text)) == 1 {
			if match := gigabytesText.FindStringSubmatch(text); match != nil {
				if value, ok := ParseNumber(match[1]); ok {
					gigabytes = value.Value
				}
			}
		}
	}
	return gigabytes, name
}

// maxHead is how many lines on hardware are looked at.
const maxHead = 200

// HeadText is where hardware is stated: title, sections about hardware, lines that say GPU.
func (d *Document) HeadText() string {
	if d.head != "" {
		return d.head
	}
	out := []string{d.Title()}
	next, within := 0, false // the heading below, and whether the section is one about hardware
	for i, line := range d.Lines {
		for ; next < len(d.headings) && d.headings[next].line <= i+1; next++ {
			within = strings.Contains(strings.ToLower(d.headings[next].Text), "hardware")
		}
		if d.Fenced[i] || len(line) > maxNames || len(out) > maxHead {
			continue
		}
		if lower := strings.ToLower(line); within || strings.Contains(lower, "hardware") || strings.Contains(lower, "gpus") {
			out = append(out, line)
		}
	}
	d.head = strings.Join(out, "\n")
	return d.head
}

// A Recipe is a server's settings: a command, with a file of settings where it names one.
type Recipe struct {
	Line  int
	Name  string
	Flags map[string]string
}

// Recipes are the settings that a document recommends.
func (d *Document) Recipes() []Recipe {
	var files []Recipe
	for i := 0; i < len(d.Lines); i++ {
		if !fenceLine.MatchString(d.Lines[i]) || !d.Fenced[i] || i+1 >= len(d.Lines) || !yamlLine.MatchString(d.Lines[i+1]) {
			continue
		}
		file := Recipe{Line: i + 1, Flags: map[string]string{}}
		for k := i - 1; k >= max(0, i-3); k-- {
			if match := yamlName.FindString(d.Lines[k]); match != "" {
				file.Name = match
				break
			}
		}
		for i++; i < len(d.Lines) && !fenceLine.MatchString(d.Lines[i]); i++ {
			if match := yamlLine.FindStringSubmatch(d.Lines[i]); match != nil {
				file.Flags[flagName(match[1])] = strings.Trim(match[2], `'"`)
			}
		}
		files = append(files, file)
	}
	var out []Recipe
	for i := range d.Commands {
		command := &d.Commands[i]
		if !command.Serves || command.engine == "" {
			continue
		}
		config, ok := command.Flags["config"]
		if !ok {
			out = append(out, Recipe{command.Line, command.Text, command.Flags})
			continue
		}
		for _, file := range files {
			// The file that is named, or any where a variable stands for it.
			if file.Name != "" && !strings.Contains(config, "$") && !strings.Contains(config, file.Name) {
				continue
			}
			flags := map[string]string{}
			for name, value := range file.Flags {
				flags[name] = value
			}
			for name, value := range command.Flags {
				flags[name] = value
			}
			out = append(out, Recipe{file.Line, file.Name, flags})
		}
	}
	return out
}

// rateKeys are the metrics that "throughput" may mean.
var rateKeys = []string{"total_token_throughput", "output_throughput", "input_throughput", "request_throughput"}

// KeysOf are the keys of blocks that a figure with a metric may be.
func KeysOf(metric string) []string {
	switch metric {
	case "throughput":
		return rateKeys
	case "token_throughput":
		return rateKeys[:3]
	}
	return []string{metric}
}

// DigitApart reports whether two printed figures differ in exactly one digit.
func DigitApart(a, b Number) bool {
	first, second := strings.ReplaceAll(a.Text, ",", ""), strings.ReplaceAll(b.Text, ",", "")
	if len(first) != len(second) || len(first) < 6 { // fewer digits are alike by chance
		return false
	}
	differ := 0
	for i := range len(first) {
		if first[i] != second[i] {
			differ++
		}
	}
	return differ == 1
}

// BlockLines marks the lines of blocks.
func (d *Document) BlockLines() map[int]bool {
	out := map[int]bool{}
	for _, b := range d.Blocks {
		for line := b.Line; line <= b.end; line++ {
			out[line] = true
		}
	}
	return out
}

// A Pair is a row of a table whose figures are those of two blocks.
type Pair struct {
	Row      *Row
	Old, New *Block
}

// Pairs are the compared runs of a document: rows of tables with a figure and its base, both
// in blocks.
func (d *Document) Pairs() []Pair {
	var out []Pair
	for t := range d.Tables {
		table := &d.Tables[t]
		for r := range table.Rows {
			row := &table.Rows[r]
			for column := range row.Cells {
				for i := range row.Cells[column].Figures {
					figure := row.Cells[column].Figures[i]
					if figure.Change == nil {
						continue
					}
					base, ok := RowBase(table, row, column, figure.Label)
					if !ok {
						continue
					}
					old, fresh := d.Sources(&base), d.Sources(&figure)
					if len(old) > 0 && len(fresh) > 0 {
						out = append(out, Pair{row, old[0], fresh[0]})
					}
				}
			}
		}
	}
	return out
}

// SettingText is the server's setting of a block: its flags in order, and flags of its label.
func (b *Block) SettingText() string {
	if b.Server == nil {
		return ""
	}
	flags := map[string]string{}
	for name, value := range b.Server.Flags {
		flags[name] = value
	}
	if strings.Contains(b.label, "--") {
		label := parseCommand(b.label, "")
		for name, value := range label.Flags {
			flags[name] = value
		}
	}
	var out []string
	for name, value := range flags {
		if name != "port" && name != "host" && name != "model" {
			out = append(out, name+"="+value)
		}
	}
	sort.Strings(out)
	if len(out) == 0 {
		return "no flags"
	}
	return strings.Join(out, " ")
}

// yamlLine is a line of a file of settings.
var yamlLine = lazyregexp.New(`^\s*([a-z][a-z-]{3,40}):\s*(\S.*)$`)

// yamlName is the name of a file of settings.
var yamlName = lazyregexp.New(`([\w.-]+\.ya?ml)`)
