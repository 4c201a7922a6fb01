package verify

// V-ROOF: what memory, bandwidth and FLOPs do not allow, and recipes that a document's own
// list of limitations says run out of memory.

import (
	"fmt"
	"math"
	"strings"

	"ossian/internal/lab/verify/document"
	"ossian/internal/lazyregexp"
)

// roof is V-ROOF.
func (j *judge) roof() {
	j.checkChainMemory()
	j.checkCommands()
	j.checkStatements()
	j.checkBandwidth()
	j.checkLimitations()
	j.checkAgainst()
}

var (
	oneDevice    = lazyregexp.New(`(?i)\b(?:1|one|single)[ -]?(?:x\s?)?(?:gpu|card|device)`)
	deviceCount  = lazyregexp.New(`(?i)\b([0-9]+)\s?(?:x\s?)?(?:gpus?|cards?|devices?)\b`)
	quantisation = lazyregexp.New(`(?i)quanti[sz]|\b(?:mx|nv)?fp[48]\b|int[48]\b|awq|gptq`)
)

// checkChainMemory looks at the first state of a chain: what it holds before a step that
// makes weights smaller must fit its devices.
func (j *judge) checkChainMemory() {
	model, ok := j.doc.Model()
	memory, _ := j.doc.DeviceMemory()
	if !ok || memory <= 0 {
		return
	}
	for _, chain := range j.doc.Chains {
		quantised := -1
		for i, step := range chain {
			if quantisation.MatchString(step.Name) && quantised < 0 {
				quantised = i
			}
		}
		if quantised < 1 {
			continue // the weights are those of the whole chain
		}
		all, _ := model.Billions()
		weights := all * 2 // BF16
		most := 0
		for _, step := range chain[:quantised] {
			count := 0
			if match := deviceCount.FindStringSubmatch(step.Name); match != nil {
				fmt.Sscan(match[1], &count)
			} else if oneDevice.MatchString(step.Name) {
				count = 1
			}
			most = max(most, count)
			first := step.Line == chain[0].Line
			if count == 0 || weights <= float64(count)*memory || !first {
				continue
			}
			// The largest number of devices before the weights become smaller.
			for _, later := range chain[:quantised] {
				if match := deviceCount.FindStringSubmatch(later.Name); match != nil {
					fmt.Sscan(match[1], &count)
					most = max(most, count)
				}
			}
			follows := fmt.Sprintf("%.0f GB in BF16 do not fit one card of %s GB", weights, document.Figure(memory))
			if most > 1 && weights > float64(most)*memory {
				follows = fmt.Sprintf("%.0f GB in BF16 fit neither one card of %s GB nor %s", weights, document.Figure(memory), countWord(most))
			}
			j.find(Wrong, step.Line, step.Name, step.Name+": "+step.Printed, follows, fmt.Sprintf("the weights become smaller only in a later step (%s), so this was not measured", chain[quantised].Name))
		}
	}
}

// countWord is a small number as a word.
func countWord(n int) string {
	if words := []string{"none", "one", "two", "three", "four"}; n < len(words) {
		return words[n]
	}
	return fmt.Sprint(n)
}

// memorySavings is the part of V-PCT on memory: "4x", "75 % saved" beside "70 GB instead of
// 240 GB".
func (j *judge) memorySavings() {
	for _, sizes := range j.doc.Memory {
		if sizes.Old.Value <= 0 || sizes.New.Value <= 0 || sizes.New.Value >= sizes.Old.Value {
			continue
		}
		ratio := sizes.Old.Span().Over(sizes.New.Span())
		exactRatio, saved := sizes.Old.Value/sizes.New.Value, 100*(1-sizes.New.Value/sizes.Old.Value)
		for _, entry := range j.doc.Memory {
			if entry.Old.Value > 0 || !document.SameOption(entry.Option, sizes.Option) {
				continue
			}
			loose, tight := document.Between(100*(1-1/ratio.Low), 100*(1-1/ratio.High)), document.Between(saved-0.5, saved+0.5)
			if entry.Factor {
				loose, tight = ratio, document.Between(exactRatio, exactRatio)
			}
			if tight.Meets(entry.Value.Span()) {
				continue
			}
			severity, why := Wrong, "beyond the rounding of the printed sizes"
			if loose.Meets(entry.Value.Span()) {
				severity, why = Caution, "within the rounding of sizes that are given as about so much, and rounded upwards"
			}
			j.find(severity, entry.Line, entry.Option, clip(entry.Text), fmt.Sprintf("%s → %s GB is %.1f ×, %.0f %%", sizes.Old.Text, sizes.New.Text, exactRatio, saved), why)
		}
	}
}

// checkCommands looks for servers that are said to have run and cannot hold their weights.
func (j *judge) checkCommands() {
	memory, name := j.doc.DeviceMemory()
	if memory <= 0 {
		return
	}
	ran := map[*document.Command]bool{}
	for _, b := range j.doc.Blocks {
		if b.Server != nil {
			ran[b.Server] = true
		}
	}
	for i := range j.doc.Commands {
		command := &j.doc.Commands[i]
		model, ok := document.ModelIn(command.Model)
		if !ok || !command.Serves || !ran[command] {
			continue
		}
		bits := model.Bits(command.Model + " " + command.Flags["quantization"] + " " + command.Flags["dtype"])
		_, offload := command.Flags["cpu-offload-gb"]
		if bits == 0 || offload || !explicit(command) {
			continue
		}
		all, _ := model.Billions()
		if weights := all * bits / 8; weights > memory*float64(command.Devices()) {
			j.find(Unsupported, command.Line, "command", clip(command.Text), fmt.Sprintf("%.0f GB of weights, %d × %s GB (%s)", weights, command.Devices(), document.Figure(memory), name), "weights that do not fit cannot have been served so")
		}
	}
}

var (
	statedRate    = lazyregexp.New(`([0-9][0-9,]*(?:\.[0-9]+)?)\s?(?:tok/s|tokens/s|tokens per second|tok/sec|t/s)`)
	memorySize    = lazyregexp.New(`\b([0-9]{2,3})\s?GB\b`)
	countBefore   = lazyregexp.New(`(?i)\b([0-9]{1,2})\s?[x×]\s?(?:NVIDIA |AMD )?[A-Z]|\b([0-9]{1,2})\s+(?:NVIDIA |AMD )?(?:gpus?|cards?|[A-Z]+ ?[0-9]+[A-Z]*s)\b`)
	precision     = lazyregexp.New(`(?i)\b(bf16|fp16|bfloat16|float16|fp8|int8|int4|awq|gptq|mxfp4|nvfp4|fp4)\b`)
	denied        = lazyregexp.New(`(?i)\bnot\b|n't|cannot|out[- ]of[- ]memory|\boom\b|fails?\b|error|offload`)
	oneAtATime    = lazyregexp.New(`(?i)\bbatch(?: size)?\s?=?\s?1\b|\bbs\s?=?\s?1\b|single[- ](?:user|stream|request)|concurrency\s?=?\s?1\b|one request at a time`)
	eachOfSeveral = lazyregexp.New(`(?i)specul|eagle|draft|mtp`)
)

// checkStatements looks for lines that give a model, the form of its weights, a device and a
// rate, of which the weights do not fit, or one request is faster than they can be read.
func (j *judge) checkStatements() {
	inBlock := j.doc.BlockLines()
	for i, raw := range j.doc.Lines {
		if len(raw) > maxSentence || inBlock[i+1] || !statedRate.MatchString(raw) || denied.MatchString(raw) {
			continue
		}
		line := document.Plain(raw)
		model, ok := document.ModelIn(line)
		form := precision.FindString(line)
		devices := document.DevicesIn(line)
		if !ok || form == "" || len(devices) != 1 {
			continue
		}
		// Several devices count together, which is more than any of them can do in fact.
		count := 1
		if match := countBefore.FindStringSubmatch(line); match != nil {
			fmt.Sscan(match[1]+match[2], &count)
		}
		memory := devices[0].Memory
		if match := memorySize.FindStringSubmatch(line); match != nil {
			if stated, ok := document.ParseNumber(match[1]); ok && memory == 0 {
				memory = stated.Value
			}
		}
		all, _ := model.Billions()
		if weights := all * model.Bits(form) / 8; memory > 0 && weights > float64(count)*memory {
			j.find(Wrong, i+1, "statement", clip(line), fmt.Sprintf("%.0f GB of weights in %s, %d × %s GB of memory", weights, form, count, document.Figure(memory)), "weights that do not fit cannot have been served so")
			continue
		}
		rate, ok := document.ParseNumber(statedRate.FindStringSubmatch(line)[1])
		reads := model.BytesPerToken(form)
		if bound := devices[0].Bandwidth * float64(count) / reads; ok && bound > 0 && oneAtATime.MatchString(line) && !eachOfSeveral.MatchString(line) && rate.Value > 1.02*bound {
			j.find(Wrong, i+1, "statement", clip(line), fmt.Sprintf("reading %.1f GB per token allows %.0f tok/s on %d × %.2f TB/s", reads, bound, count, devices[0].Bandwidth/1000), "one request at a time cannot be faster than its weights are read")
		}
	}
}

// explicit reports whether a command says how many devices it takes, and nothing else
// decides on it.
func explicit(c *document.Command) bool {
	for _, name := range []string{"config", "data-parallel-size", "enable-expert-parallel", "ep-size"} {
		if _, ok := c.Flags[name]; ok {
			return false
		}
	}
	return true
}

// roofline is the verdict that can be computed from a document: its rate as a share of what
// bandwidth allows one sequence (lab.md 6). "" where model, device or rate are not known.
func (j *judge) roofline() string {
	model, ok := j.doc.Model()
	if !ok || len(j.doc.Chains) == 0 {
		return ""
	}
	var device document.DeviceName
	for _, candidate := range document.DevicesIn(j.doc.HeadText()) {
		if candidate.Bandwidth > 0 {
			device = candidate
			break
		}
	}
	last := j.doc.Chains[0][0]
	for _, step := range j.doc.Chains[0] {
		if !step.Potential {
			last = step
		}
	}
	rate, ok := document.ParseNumber(j.doc.CurrentRate(last))
	if device.Bandwidth == 0 || !ok {
		return ""
	}
	reads := model.BytesPerToken("")
	bound := device.Bandwidth / reads
	return fmt.Sprintf("decode reads %.2f GB per token: %.0f tok/s is the bound of one card at %.2f TB/s; %s tok/s is %.0f %% of it, %.0f %% of two",
		reads, bound, device.Bandwidth/1000, rate.Text, 100*rate.Value/bound, 50*rate.Value/bound)
}

// checkBandwidth looks for blocks whose mean TPOT is below what reading the weights of one
// token takes on all devices together.
func (j *judge) checkBandwidth() {
	devices := document.DevicesIn(j.doc.HeadText())
	if len(devices) != 1 || devices[0].Bandwidth == 0 {
		return
	}
	for _, block := range j.doc.Blocks {
		model, ok := document.ModelIn(j.doc.ModelOf(block))
		if !ok || !block.Has("mean_tpot_ms") || block.Value("mean_tpot_ms") <= 0 || block.Server == nil || !explicit(block.Server) {
			continue
		}
		if strings.Contains(block.Server.Text, "specul") {
			continue // several tokens a step
		}
		bits := model.Bits(block.Server.Text)
		if bits == 0 {
			bits = 8 // the least that an unnamed checkpoint is likely to have
		}
		_, active := model.Billions()
		least := active * bits / 8 / devices[0].Bandwidth * 1000 / float64(block.Server.Devices())
		if block.Values["mean_tpot_ms"].Span().High < 0.9*least {
			j.find(Unsupported, block.LineOf("mean_tpot_ms"), block.Name, "mean TPOT "+block.Values["mean_tpot_ms"].Text+" ms",
				fmt.Sprintf("reading %.1f GB per token takes at least %.1f ms on %d × %s", active*bits/8, least, block.Server.Devices(), devices[0].Text), "tokens were read many at once, or this is not their time")
		}
	}
}

// wholeOnDevices reports whether a server, where one is named, keeps its model on the devices that
// its command counts, and reads it for each token: nothing is known of others.
func wholeOnDevices(server *document.Command) bool {
	if server == nil {
		return true
	}
	_, offload := server.Flags["cpu-offload-gb"]
	return explicit(server) && !offload && !eachOfSeveral.MatchString(server.Text)
}

// sequences is how many sequences a bound is for.
func sequences(count int) string {
	if count == 1 {
		return "one sequence at a time"
	}
	return fmt.Sprintf("%d sequences at once", count)
}

// checkAgainst asks the predictors what fits and what is possible.
func (j *judge) checkAgainst() {
	for _, predictor := range j.against {
		for _, block := range j.doc.Blocks {
			setting, ok := j.settingOf(block, predictor)
			if !ok || !wholeOnDevices(block.Server) {
				continue
			}
			capacity, err := predictor.Capacity(setting)
			if err != nil {
				continue // V-PRED says what cannot be predicted
			}
			if capacity.MemoryBytes > 0 && capacity.WeightBytes > capacity.MemoryBytes {
				j.find(Wrong, block.Line, block.Name, fmt.Sprintf("a run of %s on %d devices", setting.Model, max(setting.TP, 1)),
					fmt.Sprintf("%.1f GB of weights, %.1f GB of memory on %s", capacity.WeightBytes/1e9, capacity.MemoryBytes/1e9, predictor.Name()), "weights that do not fit cannot have been served")
			}
			if capacity.MostTokens > 0 && block.Values["output_throughput"].Span().Low > capacity.MostTokens {
				j.find(Wrong, block.LineOf("output_throughput"), block.Name, "output "+block.Values["output_throughput"].Text+" tok/s",
					fmt.Sprintf("%s allows %s at most %s tok/s", predictor.Name(), sequences(setting.AtOnce), document.Figure(math.Round(capacity.MostTokens))), "memory, bandwidth and FLOPs bound the rate")
			}
		}
	}
}

var (
	outOfMemory  = lazyregexp.New(`(?i)out[- ]of[- ]memory|\boom\b`)
	limitedTP    = lazyregexp.New(`(?i)(?:tensor[- ]parallel(?:ism)?(?:[- ]size)?\s*(?:of\s*)?|\btp\s?=?\s?)([0-9]+)`)
	hopperWords  = lazyregexp.New(`(?i)hopper|h100|h200|h800`)
	blackwell    = lazyregexp.New(`(?i)blackwell|b200|b300|rtx pro 6000`)
	defaultShare = lazyregexp.New(`(?i)default (?:gpu )?memory`)
)

// checkLimitations compares recipes with sentences that say which settings run out of memory.
func (j *judge) checkLimitations() {
	for i, raw := range j.doc.Lines {
		if len(raw) > maxSentence || !strings.Contains(strings.ToLower(raw), "mem") {
			continue
		}
		line := document.Plain(raw)
		tp := limitedTP.FindStringSubmatch(line)
		if !outOfMemory.MatchString(line) || tp == nil || !defaultShare.MatchString(line) || j.doc.Fenced[i] {
			continue
		}
		// What is advised instead says how much is too much.
		advised := 0
		for k := range j.doc.Commands {
			if c := &j.doc.Commands[k]; c.Line > i+1 && c.Line < i+12 && c.Serves {
				if n, ok := c.Integer("max-num-batched-tokens"); ok {
					advised = n
				}
				break
			}
		}
		for _, r := range j.doc.Recipes() {
			j.checkLimitation(r, line, tp[1], advised, i+1)
		}
	}
}

// checkLimitation compares one recipe with one sentence.
func (j *judge) checkLimitation(recipe document.Recipe, sentence, tp string, advised, line int) {
	command := document.Command{Flags: recipe.Flags}
	size, ok := command.Integer("tensor-parallel-size")
	if !ok {
		size = 1
	}
	batched, known := command.Integer("max-num-batched-tokens")
	_, share := recipe.Flags["gpu-memory-utilization"]
	if fmt.Sprint(size) != tp || share || !known || batched <= advised {
		return
	}
	device := "the card it names"
	if match := document.DevicesIn(sentence); len(match) > 0 {
		device = match[0].Text
	}
	if (hopperWords.MatchString(sentence) && blackwell.MatchString(recipe.Name)) || (blackwell.MatchString(sentence) && hopperWords.MatchString(recipe.Name)) {
		return
	}
	j.find(Unsupported, recipe.Line, recipe.Name, fmt.Sprintf("TP %d, %s batched tokens, default memory share", size, grouped(batched)),
		fmt.Sprintf("line %d says that this runs out of memory on %s", line, device), "a recipe and the document's own limitations contradict each other: "+clip(sentence))
}

// grouped writes a whole number with commas between thousands.
func grouped(n int) string {
	text := fmt.Sprint(n)
	for at := len(text) - 3; at > 0; at -= 3 {
		text = text[:at] + "," + text[at:]
	}
	return text
}
