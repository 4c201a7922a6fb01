package bench

import (
	"encoding/json"
	"fmt"

	"ossian/internal/bench/dataset"
)

// A Workload is what a run sends.
type Workload []dataset.Query

// Hash names the workload, see dataset.Hash. Two runs with the same hash sent the same queries. It
// fails if a query has members that are not JSON.
func (workload Workload) Hash() (string, error) {
	for i := range workload {
		for _, text := range []json.RawMessage{workload[i].Messages, workload[i].Body} {
			if len(text) > 0 && !json.Valid(text) {
				return "", fmt.Errorf("query %d: %s is not JSON", i, brief(text))
			}
		}
	}
	return dataset.Hash(workload), nil
}
