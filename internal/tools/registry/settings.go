package registry

import (
	"errors"
	"log/slog"

	"ossian/internal/config"
	"ossian/internal/limits"
)

// Open returns the registry that settings name, nil where they name none. limits are those in
// force.
func Open(cfg *config.Config, version string, limits func() *limits.Set, log *slog.Logger) (*Registry, error) {
	if len(cfg.ToolServers) == 0 && len(cfg.MCPAllow) == 0 {
		if len(cfg.ToolsDefault) > 0 {
			return nil, errors.New("--tools-default needs --tool-server, which says what runs these tools")
		}
		return nil, nil
	}
	return New(Config{Servers: cfg.ToolServers, Allow: cfg.MCPAllow, Default: cfg.ToolsDefault, Version: version, Limits: limits, Log: log,
		Demo: Demo{Browser: cfg.BrowserBackend, Corpus: cfg.BrowserCorpus, Search: cfg.BrowserSearch, ExaKey: cfg.ExaKey, YouComKey: cfg.YouComKey,
			Python: cfg.PythonBackend, Interpreter: cfg.PythonInterpreter, WASM: cfg.PythonWASM, JupyterFile: cfg.PythonJupyter}})
}
