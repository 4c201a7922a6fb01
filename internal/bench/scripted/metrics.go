package scripted

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// metrics is the text of /metrics (operations.md 2): the counters of the server under
// vLLM's names, and those that the options and scripts name.
func (srv *Server) metrics() []byte {
	srv.mu.Lock()
	series := maps.Clone(srv.counters)
	srv.mu.Unlock()
	for _, name := range []string{"prompt_tokens", "generation_tokens", "prefix_cache_queries", "prefix_cache_hits"} {
		series["vllm:"+name+"_total"] += 0 // a series is there before it counts
	}
	labels := `engine="0",model_name=` + strconv.Quote(srv.opt.Model)
	out := fmt.Appendf(nil, "# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running{%s} %d\n", labels, srv.running.Load())
	family := ""
	for _, key := range slices.Sorted(maps.Keys(series)) {
		name, own, _ := strings.Cut(key, "{")
		if name != family {
			family = name
			out = fmt.Appendf(out, "# TYPE %s counter\n", name)
		}
		if own = strings.TrimSuffix(own, "}"); own != "" {
			own = "," + own
		}
		out = fmt.Appendf(out, "%s{%s%s} %s\n", name, labels, own, strconv.FormatFloat(series[key], 'g', -1, 64))
	}
	return out
}
