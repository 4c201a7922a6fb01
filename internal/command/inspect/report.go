package inspect

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"

	"ossian/internal/load"
	"ossian/internal/model"
	"ossian/internal/terminal"
)

// An inspection is what inspect knows about a model; JSON names are its public form.
type inspection struct {
	Name    string `json:"name"`
	Path    string `json:"path"`
	Family  string `json:"family"`
	Format  string `json:"format"`
	Sealed  bool   `json:"sealed"`
	Checked bool   `json:"checked"` // every byte was compared or read

	Params int64      `json:"parameters"`
	Active int64      `json:"active_parameters"` // per token
	Bytes  int64      `json:"bytes"`
	Parts  []partLine `json:"parts"`
	Types  []partLine `json:"types"`

	Layers    int               `json:"layers"`
	Hidden    int               `json:"hidden_size"`
	Heads     int               `json:"heads"`
	KVHeads   int               `json:"kv_heads"`
	HeadDim   int               `json:"head_dim"`
	Inner     int               `json:"feed_forward_size"`
	Experts   int               `json:"experts,omitempty"`
	TopK      int               `json:"experts_per_token,omitempty"`
	Context   int               `json:"context"`
	RoPE      string            `json:"rope"`
	Windows   []windowLine      `json:"attention"`
	Vocab     int               `json:"vocabulary"`
	Tokens    int               `json:"tokenizer_tokens"`
	Template  int               `json:"template_bytes"`
	From      string            `json:"template_from,omitempty"`       // a file of the directory or a key of the GGUF file
	Overruled []string          `json:"templates_overruled,omitempty"` // files with another one, which has no say
	Broken    string            `json:"template_error,omitempty"`      // why there is no chat with it
	Named     []string          `json:"named_templates,omitempty"`
	Unused    []string          `json:"unused_tensors,omitempty"`
	Packed    load.PackedReport `json:"packed_weights,omitzero"`

	Device    string       `json:"device,omitempty"`     // planned for; "" = nobody asked, this machine's processors
	Why       string       `json:"device_why,omitempty"` // it is that one
	Plan      planLine     `json:"plan,omitzero"`
	PlanError string       `json:"plan_error,omitempty"` // why there is no plan
	Card      string       `json:"card,omitempty"`       // whose memory is planned; "" = this machine's
	Bandwidth float64      `json:"bandwidth"`            // bytes per second, measured; of a card what its clock and bus make
	Decode    []decodeLine `json:"decode"`
}

// A partLine is a part of the weights.
type partLine struct {
	Name   string `json:"name"`
	Params int64  `json:"parameters"`
	Bytes  int64  `json:"bytes"`
}

// A windowLine is a group of layers that share a pool of keys and values.
type windowLine struct {
	Window int   `json:"window"` // tokens, 0 = full attention
	Layers int   `json:"layers"`
	KV     int64 `json:"kv_bytes_per_token"`
	Blocks int   `json:"blocks,omitempty"` // planned pool
}

// A planLine is the memory plan, or what there is no room for.
type planLine struct {
	MaxSeqs     int   `json:"max_seqs"`
	MaxLen      int   `json:"max_len"`
	MaxTokens   int   `json:"tokens_per_step"`
	BlockSize   int   `json:"block_size"`
	Weights     int64 `json:"weights_bytes"`
	Mapped      int64 `json:"mapped_bytes"`
	KV          int64 `json:"kv_bytes"`
	Activations int64 `json:"activation_bytes"`
	Runtime     int64 `json:"runtime_bytes"`
	Total       int64 `json:"total_bytes"`
	Available   int64 `json:"available_bytes"`
}

// A decodeLine is what a decoded token costs at a length, in a batch.
type decodeLine struct {
	Batch   int     `json:"batch"`
	Context int     `json:"context"`
	Bytes   int64   `json:"bytes_per_token"`
	Rate    float64 `json:"tokens_per_second"` // of all sequences together, at most
}

// ropeText describes how positions are encoded.
func ropeText(rope *model.RoPE) string {
	base := "base " + strconv.FormatFloat(rope.Base, 'f', -1, 64)
	if rope.Divisors != nil {
		base += ", frequencies divided by the file's factors"
	}
	switch rope.Scaling {
	case model.ScalingLinear:
		return fmt.Sprintf("%s, linear x%g", base, rope.Factor)
	case model.ScalingYaRN:
		return fmt.Sprintf("%s, YaRN x%g from %d tokens", base, rope.Factor, rope.Original)
	case model.ScalingLlama3:
		return fmt.Sprintf("%s, Llama 3 x%g from %d tokens", base, rope.Factor, rope.Original)
	}
	return base
}

// write prints the report for people.
func (r *inspection) write(out io.Writer) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	line := func(name, format string, args ...any) {
		fmt.Fprintf(table, "%s\t%s\n", name, strings.Map(terminal.Printable, fmt.Sprintf(format, args...))) // names come from files
	}
	line("model", "%s (%s, %s)", r.Name, r.Family, r.Format)
	line("path", "%s", r.Path)
	line("integrity", "%s", r.integrity())
	for _, text := range r.Packed.Lines() {
		line("packed weights", "%s", text)
	}
	line("parameters", "%s, %s active per token", terminal.FormatCount(r.Params), terminal.FormatCount(r.Active))
	line("layers", "%d, hidden size %d, %d heads of %d, %d KV heads", r.Layers, r.Hidden, r.Heads, r.HeadDim, r.KVHeads)
	if r.Experts > 0 {
		line("feed-forward", "%d experts of %d, %d per token", r.Experts, r.Inner, r.TopK)
	} else {
		line("feed-forward", "%d", r.Inner)
	}
	line("context", "%d tokens, RoPE %s", r.Context, r.RoPE)
	for _, window := range r.Windows {
		kind := "full"
		if window.Window > 0 {
			kind = fmt.Sprintf("window of %d tokens", window.Window)
		}
		line("attention", "%s in %d layers, %s of keys and values per token", kind, window.Layers, terminal.FormatBytes(window.KV))
	}
	template := "no chat template"
	if r.Template > 0 {
		template = fmt.Sprintf("chat template of %s from %s", terminal.FormatBytes(int64(r.Template)), r.From)
	}
	if len(r.Named) > 0 {
		template += ", others named " + strings.Join(r.Named, ", ")
	}
	line("vocabulary", "%d rows, %d tokens in the tokenizer, %s", r.Vocab, r.Tokens, template)
	if len(r.Overruled) > 0 {
		line("not used", "the chat template of %s, which differs", strings.Join(r.Overruled, " and of "))
	}
	if r.Broken != "" {
		line("no chat", "%s", r.Broken)
	}
	if len(r.Unused) > 0 {
		line("not used", "%d tensors: %s", len(r.Unused), strings.Join(r.Unused[:min(len(r.Unused), 5)], " "))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	return r.writeTables(out)
}

// integrity says how sure it is that the files are whole.
func (r *inspection) integrity() string {
	switch {
	case load.BuiltIn(r.Path):
		return "part of the program"
	case r.Checked && r.Sealed:
		return "every byte is as sealed"
	case r.Checked:
		return "no impossible value; not sealed, so other damage would not show"
	case r.Sealed:
		return "sealed, not compared (--verify does)"
	}
	return "not sealed (--seal does)"
}

// writeTables prints what is made of numbers, right-aligned after the first column.
func (r *inspection) writeTables(out io.Writer) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	row := func(name, format string, args ...any) {
		fmt.Fprintf(table, "%-22s\t%s\t\n", name, fmt.Sprintf(format, args...))
	}
	for i, parts := range [][]partLine{r.Parts, r.Types} {
		fmt.Fprintln(table)
		row([...]string{"weights by role", "weights by type"}[i], "parameters\tbytes\tshare")
		for _, part := range parts {
			row(part.Name, "%s\t%s\t%.1f%%", terminal.FormatCount(part.Params), terminal.FormatBytes(part.Bytes), 100*float64(part.Bytes)/float64(r.Bytes))
		}
		row("all", "%s\t%s", terminal.FormatCount(r.Params), terminal.FormatBytes(r.Bytes))
	}
	if r.Plan.MaxLen == 0 { // what is asked for does not compute the model: the error says so
		return table.Flush()
	}
	r.planRows(table, row)
	if err := table.Flush(); err != nil {
		return err
	}
	r.writePlanned(out)
	if r.Card != "" && r.Bandwidth == 0 {
		return nil // a card that does not tell how fast its memory is
	}
	// The sentence above goes past the table, which is flushed before it.
	fmt.Fprintln(table)
	row("decoding, sequences", "context\tbytes per token\ttokens/s")
	for _, d := range r.Decode {
		row(fmt.Sprint(d.Batch), "%d\t%s\t%.1f", d.Context, terminal.FormatBytes(d.Bytes), d.Rate)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	which := "measured memory bandwidth"
	if r.Card != "" {
		which = "bandwidth that clock and bus of the card's memory make,"
	}
	_, err := fmt.Fprintf(out, "at most, with the %s of %s/s\n", which, terminal.FormatBytes(int64(r.Bandwidth)))
	return err
}

// planRows adds the memory plan to a table by row.
func (r *inspection) planRows(table io.Writer, row func(name, format string, args ...any)) {
	plan := &r.Plan
	fmt.Fprintln(table)
	row("memory plan", "bytes")
	row("weights, copied", "%s", terminal.FormatBytes(plan.Weights))
	if r.Card == "" {
		row("weights, where mapped", "%s", terminal.FormatBytes(plan.Mapped))
	}
	row("keys and values", "%s", terminal.FormatBytes(plan.KV))
	row("activations", "%s", terminal.FormatBytes(plan.Activations))
	if r.Card == "" {
		row("runtime", "%s", terminal.FormatBytes(plan.Runtime))
	}
	row("all", "%s", terminal.FormatBytes(plan.Total))
	if plan.Available > 0 {
		row("available", "%s", terminal.FormatBytes(plan.Available))
	}
}

// writePlanned says what the plan is for, and why it cannot be.
func (r *inspection) writePlanned(out io.Writer) {
	plan := &r.Plan
	fmt.Fprintf(out, "for --max-num-seqs %d --max-model-len %d, %d tokens per step, blocks of %d tokens\n", plan.MaxSeqs, plan.MaxLen, plan.MaxTokens, plan.BlockSize)
	if r.Card != "" {
		fmt.Fprintf(out, "in the memory of %s\n", strings.Map(terminal.Printable, r.Card))
	}
	if r.Device != "" {
		text := "planned for " + r.Device
		if r.Why != "" {
			text += ": " + r.Why
		}
		fmt.Fprintln(out, strings.Map(terminal.Printable, text))
	}
	if r.PlanError != "" {
		fmt.Fprintln(out, strings.Map(terminal.Printable, r.PlanError))
	}
}
