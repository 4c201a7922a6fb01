package grammar

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"sort"
	"testing"
	"time"
)

func TestZZ(t *testing.T) {
	f, _ := os.Open("/tmp/mb/sample.jsonl")
	sc := bufio.NewScanner(f)
	sc.Buffer(nil, 64<<20)
	harmony()
	runtime.LockOSThread()
	type r struct {
		d        time.Duration
		name     string
		n, units int
	}
	var all []r
	for sc.Scan() {
		var one struct {
			Name   string
			Schema json.RawMessage
		}
		json.Unmarshal(sc.Bytes(), &one)
		if only := os.Getenv("ONLY"); only != "" && one.Name != only {
			continue
		}
		b := &budget{left: maxUnits, stop: t.Context().Err}
		from := threadTime()
		g, err := compileWithin(b, Source{Text: string(one.Schema)}, harmony())
		d := threadTime() - from
		if err == nil {
			all = append(all, r{d, one.Name, len(g.automaton.states), maxUnits - b.left})
		} else if os.Getenv("ONLY") != "" {
			fmt.Println(err)
		}
	}
	sort.Slice(all, func(i, j int) bool { return all[i].d < all[j].d })
	for _, q := range []float64{.1, .5, .9, .95, .99, .999, 1} {
		fmt.Println(q, all[int(float64(len(all)-1)*q)])
	}
}
