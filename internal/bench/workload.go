package bench

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
)

// Hash names w: the first 16 hex digits of SHA-256 over its queries as JSON lines. Two
// runs with the same hash sent the same queries. It fails if a query has members that
// are not JSON.
func (w Workload) Hash() (string, error) {
	h := sha256.New()
	lines := json.NewEncoder(h)
	for i := range w {
		if err := lines.Encode(&w[i]); err != nil {
			return "", fmt.Errorf("query %d: %w", i, err)
		}
	}
	return hex.EncodeToString(h.Sum(nil))[:16], nil
}
