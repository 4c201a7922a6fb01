package document

// What load a block is of: lengths, count, rate, seed. Blocks say some of it, the commands
// above them the rest, and lists of lengths in the text what the commands leave out.

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"ossian/internal/lazyregexp"
)

// Lengths are the tokens of a request as a document states them.
type Lengths struct{ Input, Output float64 }

var (
	lengthsInWords = lazyregexp.New(`(?i)([0-9][0-9,]*)\s?(k?)\s*(?:input tokens|in\b|input\b)[^0-9]{1,20}([0-9][0-9,]*)\s?(k?)\s*(?:output tokens|out\b|output\b)`)
	lengthsInput   = lazyregexp.New(`(?i)(?:dataset_input_tokens|random[-_]input[-_]len)["']?\s*[:= ]\s*([0-9]+)`)
	lengthsOutput  = lazyregexp.New(`(?i)(?:dataset_output_tokens|random[-_]output[-_]len)["']?\s*[:= ]\s*([0-9]+)`)
)

// maxLengths bounds the stated lengths of a document.
const maxLengths = 500

// findLengths finds the stated lengths of a text.
func (d *Document) findLengths() {
	pending := 0.0 // an input length whose output length is to come within a few lines
	left := 0
	for _, line := range d.Lines {
		if len(d.lengths) >= maxLengths {
			break
		}
		left-- // an input length waits for its output length for a few lines only
		if lower := strings.ToLower(line); !strings.Contains(lower, "out") && !strings.Contains(lower, "input") {
			continue
		}
		for _, match := range lengthsInWords.FindAllStringSubmatch(line, 10) {
			input, okIn := thousands(match[1], match[2])
			output, okOut := thousands(match[3], match[4])
			if okIn && okOut {
				d.lengths = append(d.lengths, Lengths{input, output})
			}
		}
		if match := lengthsInput.FindStringSubmatch(line); match != nil {
			pending, _ = strconv.ParseFloat(match[1], 64)
			left = 3
		}
		if match := lengthsOutput.FindStringSubmatch(line); match != nil && left > 0 {
			output, _ := strconv.ParseFloat(match[1], 64)
			d.lengths = append(d.lengths, Lengths{pending, output})
			left = 0
		}
	}
	for i := range d.Commands {
		if load := d.Commands[i].Load; load != nil && load.Input > 0 && load.Output > 0 {
			d.lengths = append(d.lengths, Lengths{load.Input, load.Output})
		}
	}
}

// thousands is a number, times 1000 where a k follows it.
func thousands(text, k string) (float64, bool) {
	read, ok := ParseNumber(text)
	if k != "" {
		read.Value *= 1000
	}
	return read.Value, ok && read.Value > 0
}

// A Workload is the load of one run.
type Workload struct {
	Dataset string  // random, sharegpt, ...; "" = not stated
	Input   float64 // tokens per request, mean
	Output  float64 // tokens per request, mean
	Count   int     // requests
	Rate    float64 // requests per second; +Inf = all at once
	Limit   int     // requests at the same time; 0 = no limit
	Prefix  float64 // tokens of the input that all requests share
	Seed    *int    // nil = not stated
}

// A Loaded is what is known of a block's load.
type Loaded struct {
	Workload
	Equal  bool    // all answers have the same length
	Stated bool    // the output length is the requested one, not the mean of what came
	Asked  Lengths // as stated; 0 = not stated
}

// near reports whether a mean length can be that of a stated one: templates add some tokens,
// and retokenising takes some away.
func near(mean, stated float64) bool {
	return math.Abs(mean-stated) <= math.Max(0.02*stated, 3) || (mean > stated && mean-stated <= 120 && stated >= 1000)
}

// LoadOf is what is known of the load of a block; it is gathered once.
func (d *Document) LoadOf(block *Block) Loaded {
	if block.load == nil {
		load := d.gatherLoad(block)
		block.load = &load
	}
	return *block.load
}

// gatherLoad gathers what is known of the load of a block.
func (d *Document) gatherLoad(block *Block) Loaded {
	var load Loaded
	load.Rate = math.NaN()
	completed := block.Value("completed")
	load.Count = int(math.Min(completed+block.Value("failed"), 1e9))
	if completed > 0 {
		load.Input, load.Output = block.Value("total_input_tokens")/completed, block.Value("total_output_tokens")/completed
	}
	// Lengths that the text states and that fit what was read.
	if client := block.client; client != nil && client.Load.Input > 0 && near(load.Input, client.Load.Input) && block.Line-client.Line < 100 {
		load.Output, load.Stated = client.Load.Output, client.Load.Output > 0
		load.Asked = Lengths{client.Load.Input, client.Load.Output}
	} else {
		for _, pair := range d.lengths {
			if near(load.Input, pair.Input) {
				load.Output, load.Stated, load.Asked = pair.Output, true, pair
				break
			}
		}
	}
	if completed > 0 && block.Has("total_output_tokens") {
		mean := block.Value("total_output_tokens") / completed
		load.Equal = mean > 1 && mean == math.Trunc(mean) && (!load.Stated || mean == load.Output)
	}
	d.loadClient(block, &load)
	d.loadRate(block, &load)
	if client := block.client; client != nil && client.loads(block, &load) {
		load.Limit, load.Prefix = client.Load.Limit, client.Load.Prefix
	}
	if limit := block.Value("max_concurrency"); limit > 0 && limit < 1e9 {
		load.Limit = int(limit)
	}
	return load
}

// otherLimit is text of a label or a heading that gives a concurrency of its own.
var otherLimit = lazyregexp.New(`(?i)concurren|parallel|\busers?\b|\bbatch|\bbs\s?=?\s?[0-9]|\bc\s?=\s?[0-9]`)

var wholeNumber = lazyregexp.New(`[0-9]+`)

// loads reports whether a command is that of a block and not an example for many: it is near, what
// it states of counts and lengths is the block's, and no label says at which concurrency the block ran.
func (c *Command) loads(block *Block, load *Loaded) bool {
	if block.Line-c.Line >= 100 {
		return false
	}
	// "concurrency 16" above a block is not the 8 of a command further up.
	about := block.label + " " + block.Section
	if numbers := wholeNumber.FindAllString(about, 20); otherLimit.MatchString(about) && len(numbers) > 0 && !slices.Contains(numbers, strconv.Itoa(c.Load.Limit)) {
		return false
	}
	return (c.Load.Count == 0 || c.Load.Count == load.Count) && (c.Load.Input == 0 || near(load.Input, c.Load.Input+c.Load.Prefix))
}

// AtOnce is how many requests of a block were open at the same time at most, and what says so: all
// of them, the limit of its client, or the peak that its tool counted.
func (d *Document) AtOnce(block *Block) (most float64, why string) {
	most, why = block.Value("completed")+block.Value("failed"), "no more requests were sent"
	load := d.LoadOf(block)
	if limit := float64(load.Limit); limit > 0 && limit < most {
		most, why = limit, "the limit of concurrent requests"
	}
	// Tools count every request that was open in a second, so that this is never too few.
	if peak := block.Value("max_concurrent_requests"); peak > 0 && peak < most {
		most, why = peak, "the peak of concurrent requests that the tool counted"
	}
	return most, why
}

// loadClient takes the data set and the seed from the label, or the command whose lengths fit.
func (d *Document) loadClient(block *Block, load *Loaded) {
	about := strings.ToLower(block.label + " " + block.Section)
	switch {
	case strings.Contains(about, "sharegpt"):
		load.Dataset = "sharegpt"
	case strings.Contains(about, "random"):
		load.Dataset = "random"
	case load.Stated:
		load.Dataset = "random"
	}
	if block.client != nil && block.Line-block.client.Line < 100 && block.client.Load.Dataset != "" {
		load.Dataset = block.client.Load.Dataset
	}
	for i := range d.Commands {
		c := d.Commands[i].Load
		if c == nil || (d.Commands[i].Line > block.Line && load.Seed != nil) {
			continue
		}
		if c.Dataset == load.Dataset || (load.Dataset == "" && near(load.Input, c.Input)) {
			load.Dataset = c.Dataset
			if c.Seed != nil {
				load.Seed = c.Seed
			}
		}
	}
}

// loadRate settles at which rate requests were sent: as the block says, else the command,
// else all at once where all were open at the same time. NaN = not known.
func (d *Document) loadRate(block *Block, load *Loaded) {
	switch {
	case block.Has("request_rate"):
		load.Rate = block.Value("request_rate")
	case block.info["request_rate"] == "inf":
		load.Rate = math.Inf(1)
	case block.client != nil && block.client.engine != "guidellm":
		load.Rate = block.client.Load.Rate
	case block.Value("max_concurrent_requests") >= block.Value("completed") && block.Value("completed") > 1:
		load.Rate = math.Inf(1)
	case block.profile == "lmdeploy" || block.profile == "sglang":
		load.Rate = math.Inf(1) // these write another rate in a row of their own
	}
}

// Burst reports whether all requests were sent at once, as far as a limit let them.
func (l *Loaded) Burst() bool { return math.IsInf(l.Rate, 1) }

// Fitting is a key by which blocks of one load are found.
func (b *Block) Fitting() [2]float64 {
	return [2]float64{b.Value("completed") + b.Value("failed"), b.Value("total_input_tokens")}
}

// ByCommand is the origin of a limit that the command of a server states.
const ByCommand = "by its command"

// SequenceLimit is how many sequences the server of a block runs at once, and where that is
// from; 0 = not known.
func (b *Block) SequenceLimit() (limit int, origin string) {
	engine := "vllm"
	if c := b.Server; c != nil {
		engine = c.engine
		if n, ok := c.Integer("max-num-seqs", "max-running-requests", "max-batch-size"); ok && n > 0 {
			return n, ByCommand
		}
	}
	if b.client != nil && b.client.engine != "" && b.Server == nil {
		engine = b.client.engine
	}
	if engine == "vllm" {
		return 256, "vLLM's default on this class of card; 1024 on newer ones"
	}
	return 0, ""
}

// LikelyLimits are the limits that a block may have run at: its server's, its client's, and
// where neither is stated the defaults of its engine.
func (b *Block) LikelyLimits(load *Loaded) []int {
	limit, origin := b.SequenceLimit()
	switch {
	case load.Limit > 0 && (limit == 0 || origin != ByCommand || load.Limit < limit):
		return []int{load.Limit}
	case origin == ByCommand:
		return []int{limit}
	case limit > 0:
		return []int{256, 1024}
	}
	return nil
}
