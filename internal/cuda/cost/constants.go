package cost

import (
	"embed"
	"encoding/json"
	"fmt"
	"io/fs"
	"sync"
)

// A Fitted is the constants of a card that was measured: what _tools/cuda/refit writes of its
// kernels.csv.
type Fitted struct {
	Card      string         `json:"card"` // as package machine names it
	Constants Constants      `json:"constants"`
	Kernels   int            `json:"kernels"` // rows that they were fitted to
	Error     float64        `json:"error"`   // root mean square of the logarithms of predicted over measured
	Rows      map[string]int `json:"rows"`    // by what limited them; a constant without rows is as assumed
}

// Constants of measured cards, in the program.
//
//go:embed constants
var files embed.FS

var fitted = sync.OnceValue(func() map[string]Fitted {
	all := map[string]Fitted{}
	names, err := fs.Glob(files, "constants/*.json")
	if err != nil {
		panic(err) // the pattern is a constant
	}
	for _, name := range names {
		text, err := files.ReadFile(name)
		if err != nil {
			panic(err) // it is part of the program
		}
		var one Fitted
		if err := json.Unmarshal(text, &one); err != nil {
			panic(fmt.Sprintf("%s: %v", name, err)) // a test reads them all
		}
		all[one.Card] = one
	}
	return all
})

// ConstantsOf returns the constants of a card, and whether it has been measured: else they are Assumed.
func ConstantsOf(card string) (constants Fitted, measured bool) {
	if one, ok := fitted()[card]; ok {
		return one, true
	}
	return Fitted{Card: card, Constants: Assumed()}, false
}
