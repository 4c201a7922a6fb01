package verify

// V-PRED, and what other rules take from predictions: which setting a block is of, and which
// machine a document that names none was measured on.

import (
	"fmt"
	"math"
	"strings"

	"ossian/internal/lab/verify/document"
)

// mostBefore is how many runs before one are told to a predictor.
const mostBefore = 50

// settingOf is the setting of a block for a predictor; false where the block is of another
// model, or where its lengths are not known.
func (j *judge) settingOf(block *document.Block, predictor Predictor) (Setting, bool) {
	load := j.doc.LoadOf(block)
	if load.Count <= 0 || load.Input <= 0 || load.Output <= 0 || math.IsNaN(load.Rate) {
		return Setting{}, false
	}
	name := j.doc.ModelOf(block)
	wanted, _, _ := strings.Cut(predictor.Name(), "@")
	model, ok := document.ModelIn(name)
	want, known := document.ModelIn(wanted)
	if !strings.EqualFold(name, wanted) && !(ok && known && model.Matches(want)) {
		return Setting{}, false
	}
	setting := Setting{Model: name, Load: load.Workload, TP: 1}
	if most, _ := j.doc.AtOnce(block); most >= 1 {
		setting.AtOnce = int(math.Min(math.Ceil(most), 1e9))
	}
	if block.Server != nil {
		setting.TP = block.Server.Devices()
		setting.Flags = strings.Fields(block.Server.Text)
		// What an engine runs at once is less than what clients send where its command says so.
		if places, origin := block.SequenceLimit(); origin == document.ByCommand && setting.AtOnce > 0 {
			setting.AtOnce = min(setting.AtOnce, places)
		}
	}
	// What the same server has met before, where prompts may be shared.
	if load.Dataset == "random" {
		for _, before := range j.doc.Blocks[max(0, block.Number()-1-mostBefore):] {
			if before == block {
				break
			}
			if before.Server == block.Server && j.doc.LoadOf(before).Dataset == "random" {
				setting.Before = append(setting.Before, j.doc.LoadOf(before).Workload)
			}
		}
	}
	return setting, true
}

// predictions is V-PRED.
func (j *judge) predictions() {
	for _, predictor := range j.against {
		for _, block := range j.doc.Blocks {
			setting, ok := j.settingOf(block, predictor)
			if !ok {
				continue
			}
			prediction, err := predictor.Predict(setting)
			if err != nil {
				j.find(Info, block.Line, block.Name, "no prediction on "+predictor.Name(), err.Error(), "not compared")
				continue
			}
			j.checkPrediction(block, predictor, setting, prediction)
		}
	}
}

// checkPrediction compares a block with its prediction.
func (j *judge) checkPrediction(block *document.Block, predictor Predictor, setting Setting, prediction Prediction) {
	for _, entry := range []struct {
		key, label string
		estimate   Estimate
	}{{"duration", "duration (s)", prediction.Duration}, {"mean_ttft_ms", "mean TTFT (ms)", prediction.MeanTTFT}, {"mean_tpot_ms", "mean TPOT (ms)", prediction.MeanTPOT}} {
		if !block.Has(entry.key) || entry.estimate.High <= 0 {
			continue
		}
		printed := block.Values[entry.key].Span()
		var why string
		switch {
		case printed.Meets(document.Between(entry.estimate.Low, entry.estimate.High)):
			continue
		case printed.High < entry.estimate.Low && len(setting.Before) > 0:
			why = "faster than predicted: prompts that the server had seen before, or other hardware"
		case printed.High < entry.estimate.Low:
			why = "faster than predicted: a repeated run with a full prefix cache, or other hardware"
		default:
			why = "slower than predicted: a server that was still starting, a stall, or other hardware"
		}
		j.find(Caution, block.LineOf(entry.key), block.Name, entry.label+" "+block.Values[entry.key].Text,
			fmt.Sprintf("%s predicts %s [%s, %s]", predictor.Name(), document.Figure(round4(entry.estimate.Value)), document.Figure(round4(entry.estimate.Low)), document.Figure(round4(entry.estimate.High))), why)
	}
}

// round4 is a value with four digits.
func round4(value float64) float64 {
	if value == 0 || math.IsInf(value, 0) || math.IsNaN(value) {
		return value
	}
	unit := math.Pow10(int(math.Floor(math.Log10(math.Abs(value)))) - 3)
	return math.Round(value/unit) * unit
}

// mostOff is how far off a machine may be on every row to be named, as a share.
const mostOff = 0.10

// placeHardware names the machines, of those to judge against, that no row contradicts.
func (j *judge) placeHardware() {
	// One row that is further off excludes a machine: speeds differ by factors between them.
	var fit []string
	rows := 0
	for _, predictor := range j.against {
		compared, worst := 0, 0.0
		for _, block := range j.doc.Blocks {
			setting, ok := j.settingOf(block, predictor)
			if !ok || !block.Has("duration") {
				continue
			}
			prediction, err := predictor.Predict(setting)
			if err != nil {
				worst = math.Inf(1)
				continue
			}
			compared++
			worst = max(worst, math.Abs(prediction.Duration.Value/block.Value("duration")-1))
		}
		rows = max(rows, compared)
		if compared > 0 && worst <= mostOff {
			fit = append(fit, fmt.Sprintf("%s (at most %.0f %% off)", predictor.Name(), 100*worst))
		}
	}
	if rows == 0 {
		return
	}
	follows := "no machine that was asked for is within 10 % on all of them"
	if len(fit) > 0 {
		follows = "within 10 % on all of them: " + strings.Join(fit, ", ")
	}
	j.find(Info, j.doc.Blocks[0].Line, "document", fmt.Sprintf("durations of %d rows", rows), follows, "the machine is inferred from speeds, not stated")
}
