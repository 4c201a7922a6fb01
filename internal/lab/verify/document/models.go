package document

// Names of models and of devices in text, and the few facts about them that rules need
// without a predictor: parameters, bytes, memory, bandwidth.

import (
	"regexp"
	"strconv"
	"strings"

	"ossian/internal/lazyregexp"
)

// A ModelName is a model as it is named: family, size in billions of parameters.
type ModelName struct {
	Text   string
	Family string // in small letters, without signs: gptoss, qwen3, llama3.1
	Size   float64
	active float64 // of a mixture, where the name says; 0 = all
}

// modelPattern is a family and a size: "gpt-oss-120b", "Qwen3-30B-A3B", "Llama 3.1 8B".
var modelPattern = lazyregexp.New(`(?i)\b(gpt-?oss|qwen ?[0-9]*(?:\.[0-9]+)?|(?:meta-)?llama[- ]?[0-9]*(?:\.[0-9]+)?|mistral|mixtral|gemma[- ]?[0-9]*|phi[- ]?[0-9]*(?:\.[0-9]+)?|deepseek[- ]?(?:r|v)?[0-9]*(?:\.[0-9]+)?|glm[- ]?[0-9]*(?:\.[0-9]+)?|yi|falcon|internlm[0-9.]*|granite[- ]?[0-9.]*|olmo[0-9-]*|smollm[0-9]*)(?:[- ](?:instruct|chat|distill|coder|next|air|nemo|small|large|mini|vl|it))*[- ]?([0-9]+(?:\.[0-9]+)?) ?b(?:-a([0-9]+(?:\.[0-9]+)?)b)?\b`)

// ModelsIn are the models that a text names.
func ModelsIn(text string) []ModelName {
	var out []ModelName
	if !strings.ContainsAny(text, "bB") || !strings.ContainsAny(text, "0123456789") || len(text) > maxNames {
		return nil
	}
	for _, match := range modelPattern.FindAllStringSubmatch(text, 20) {
		size, err := strconv.ParseFloat(match[2], 64)
		if err != nil {
			continue
		}
		active, _ := strconv.ParseFloat(match[3], 64)
		family := strings.NewReplacer("-", "", " ", "", "meta", "").Replace(strings.ToLower(match[1]))
		out = append(out, ModelName{match[0], family, size, active})
	}
	return out
}

// ModelIn is the first model that a text names.
func ModelIn(text string) (ModelName, bool) {
	if models := ModelsIn(text); len(models) > 0 {
		return models[0], true
	}
	return ModelName{}, false
}

// Matches reports whether two names can be of one model.
func (m ModelName) Matches(other ModelName) bool {
	return m.Family == other.Family && m.Size == other.Size
}

// parameters are the parameters of models in billions, all and those of one token, where
// they differ from what the name says (model cards).
var parameters = map[string]struct{ all, active float64 }{
	"gptoss-20": {20.91, 3.61}, "gptoss-120": {116.83, 5.13}, "qwen3-30": {30.53, 3.35}, "qwen3-235": {235.09, 22.14},
	"deepseekr1-671": {671, 37}, "deepseekv3-671": {671, 37}, "deepseekv3-685": {685, 37}, "deepseekv2-236": {236, 21}, "deepseekv2-16": {15.7, 2.4},
	"glm4.5-355": {355, 32}, "glm4.5-106": {106, 12}, "glm4.6-355": {355, 32},
	"qwen3-8": {8.19, 8.19}, "qwen3-14": {14.77, 14.77}, "qwen3-32": {32.76, 32.76},
}

// Billions are the parameters of a model in billions: all, and those that a token uses.
func (m ModelName) Billions() (all, active float64) {
	if known, ok := parameters[m.Family+"-"+strconv.FormatFloat(m.Size, 'f', -1, 64)]; ok {
		return known.all, known.active
	}
	if m.active > 0 {
		return m.Size, m.active
	}
	return m.Size, m.Size
}

// KnownActive reports whether the parameters of a token are known where they are not all.
func (m ModelName) KnownActive() bool {
	_, known := parameters[m.Family+"-"+strconv.FormatFloat(m.Size, 'f', -1, 64)]
	return known || m.active > 0
}

// bitsOf are the bits of a weight by words in names of checkpoints, smallest first.
var bitsOf = []struct {
	word string
	bits float64
}{{"mxfp4", 4.25}, {"nvfp4", 4.5}, {"fp4", 4.25}, {"int4", 4}, {"awq", 4}, {"gptq", 4}, {"w4a16", 4}, {"q4", 4.5}, {"fp8", 8}, {"int8", 8}, {"w8a8", 8},
	{"bf16", 16}, {"fp16", 16}, {"bfloat16", 16}}

// Bits are the bits of a weight that a text names; those of gpt-oss as published, where it
// names none, and 0 where nothing is said.
func (m ModelName) Bits(text string) float64 {
	text = strings.ToLower(text)
	for _, entry := range bitsOf {
		if strings.Contains(text, entry.word) {
			return entry.bits
		}
	}
	if m.Family == "gptoss" {
		return 4.25
	}
	return 0
}

// A DeviceName is a device with what is published about it.
type DeviceName struct {
	Text      string
	Bandwidth float64 // GB/s
	Memory    float64 // GB, where there is one size only
}

// deviceFacts are published figures of devices: bandwidth in GB/s, memory in GB, 0 where a
// name stands for several sizes. Longer names come first.
var deviceFacts = []DeviceName{
	{"RTX PRO 6000", 1792, 96}, {"RTX 6000 Ada", 960, 48}, {"RTX 5090", 1792, 32}, {"RTX 4090", 1008, 24}, {"RTX 3090", 936, 24},
	{"GB200", 8000, 192}, {"GB300", 8000, 288}, {"B200", 8000, 192}, {"B300", 8000, 288}, {"GH200", 4900, 0}, {"H200", 4800, 141}, {"H100", 3350, 0}, {"H800", 3350, 80}, {"H20", 4000, 96},
	{"A100", 2039, 0}, {"A800", 2039, 80}, {"A6000", 768, 48}, {"A10G", 600, 24}, {"A40", 696, 48}, {"A30", 933, 24}, {"A10", 600, 24}, {"L40S", 864, 48}, {"L40", 864, 48}, {"L20", 864, 48}, {"L4", 300, 24},
	{"V100", 900, 0}, {"T4", 320, 16}, {"MI300X", 5300, 192}, {"MI325X", 6000, 256}, {"MI355X", 8000, 288}, {"MI250X", 3277, 128}, {"MI250", 3277, 128}, {"910B", 1600, 64}, {"DGX Spark", 273, 128},
	{"Gaudi", 2450, 0}, {"TPU", 0, 0}, {"M1 Max", 400, 0}, {"M2 Ultra", 800, 0}, {"M3 Ultra", 819, 0}, {"M4 Max", 546, 0}, {"Xeon", 0, 0}, {"EPYC", 0, 0}, {"Threadripper", 0, 0},
}

// maxNames is how long a text may be that names are looked for in.
const maxNames = 4 << 10

// deviceWords are the first words of the devices' names in capitals.
var deviceWords = func() []string {
	out := make([]string, len(deviceFacts))
	for i, fact := range deviceFacts {
		out[i], _, _ = strings.Cut(strings.ToUpper(fact.Text), " ")
	}
	return out
}()

// devicePatterns find the devices' names as words of their own.
var devicePatterns = func() []*lazyregexp.Regexp {
	out := make([]*lazyregexp.Regexp, len(deviceFacts))
	for i, fact := range deviceFacts {
		out[i] = lazyregexp.New(`(?i)(?:^|[^A-Za-z0-9])` + strings.ReplaceAll(regexp.QuoteMeta(fact.Text), " ", `[ -]?`) + `(?:[^A-Za-z0-9]|x[0-9]|$)`)
	}
	return out
}()

// DevicesIn are the devices that a text names, and where.
func DevicesIn(text string) []DeviceName {
	var out []DeviceName
	upper := strings.ToUpper(text)
	for i, pattern := range devicePatterns {
		// Most texts have no device: the first word of a name is looked for before all of it.
		if strings.Contains(upper, deviceWords[i]) && pattern.MatchString(text) {
			out = append(out, deviceFacts[i])
		}
	}
	return out
}

// BytesPerToken are the bytes in GB that a decoded token reads of a model's weights: all
// layers once, the experts of one token.
func (m ModelName) BytesPerToken(text string) float64 {
	// gpt-oss keeps attention, router and output in BF16: 36 or 24 layers of 26.5 M and 201,088 × 2,880
	// of output at two bytes, four experts of 24.9 M a layer at 4.25 bits.
	if m.Family == "gptoss" && m.Size == 120 {
		return 5.00
	}
	if m.Family == "gptoss" && m.Size == 20 {
		return 3.70
	}
	_, active := m.Billions()
	bits := m.Bits(text)
	if bits == 0 {
		bits = 16
	}
	return active * bits / 8
}
