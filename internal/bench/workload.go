package bench

import (
	"encoding/json"
	"fmt"

	"ossian/internal/bench/dataset"
)

// Hash names w, see dataset.Hash. Two runs with the same hash sent the same queries. It
// fails if a query has members that are not JSON.
func (w Workload) Hash() (string, error) {
	for i := range w {
		for _, text := range []json.RawMessage{w[i].Messages, w[i].Body} {
			if len(text) > 0 && !json.Valid(text) {
				return "", fmt.Errorf("query %d: %s is not JSON", i, brief(text))
			}
		}
	}
	return dataset.Hash(w), nil
}
