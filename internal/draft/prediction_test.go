package draft

import "testing"

// How much of a prediction came true: of a text with an edit, of one with words around it, of
// another one.
func TestPrediction(t *testing.T) {
	text := make([]int32, 50)
	for i := range text {
		text[i] = int32(100 + i)
	}
	edited := append(append(append([]int32{}, text[:20]...), 1, 2, 3), text[25:]...)
	for name, c := range map[string]struct {
		prediction, output []int32
		accepted, rejected int
	}{
		"the same":                {text, text, 50, 0},
		"the beginning":           {text, text[:30], 30, 20},
		"behind other words":      {text, append([]int32{1, 2, 3, 4}, text...), 50, 0},
		"an edit":                 {text, edited, 43, 7}, // two ids tell where it goes on
		"another text":            {text, []int32{1, 2, 3, 4, 5}, 0, 50},
		"nothing":                 {text, nil, 0, 50},
		"twice":                   {text, append(append([]int32{}, text...), text...), 50, 0},
		"no prediction":           {nil, text, 0, 0},
		"one id":                  {[]int32{7}, []int32{7, 7}, 1, 0},
		"long before and behind":  {text, append(make([]int32, 1000), append(append([]int32{}, text...), make([]int32, 1000)...)...), 50, 0},
		"the second of two parts": {append(append([]int32{}, text...), edited...), text[30:], 18, 80},
	} {
		var predicted *Index
		if c.prediction != nil {
			predicted = NewIndex(DefaultShortest)
			predicted.Add(c.prediction...)
		}
		p := NewPrediction(predicted)
		for _, id := range c.output {
			p.Push(id)
		}
		if accepted, rejected := p.Counts(); accepted != c.accepted || rejected != c.rejected {
			t.Errorf("%s: %d accepted, %d rejected, want %d and %d", name, accepted, rejected, c.accepted, c.rejected)
		}
	}
}
