package client

import (
	"context"
	"fmt"
	"runtime"

	"ossian/internal/plan"
)

// environment is what results say of machines and versions. Of a server elsewhere only
// its version is known.
func (c *Client) environment(ctx context.Context) map[string]string {
	host := plan.ThisHost()
	out := map[string]string{
		"client_cpu":     fmt.Sprintf("%s, %d threads", host.CPU, host.Threads),
		"client_system":  runtime.GOOS + "/" + runtime.GOARCH,
		"client_version": "ossian " + c.Version + ", " + runtime.Version(),
	}
	if host.Memory > 0 {
		out["client_memory"] = fmt.Sprintf("%.1f GiB", float64(host.Memory)/(1<<30))
	}
	if v := c.server.Version(ctx); v != "" {
		out["server_version"] = v
	}
	return out
}
