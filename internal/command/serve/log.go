package serve

import (
	"io"
	"log/slog"

	"ossian/internal/config"
	"ossian/internal/terminal"
)

func logger(cfg *config.Config, level *slog.LevelVar, out io.Writer) *slog.Logger {
	setLevel(level, cfg)
	options := &slog.HandlerOptions{Level: level}
	if cfg.LogFormat == "json" || (cfg.LogFormat == "auto" && !terminal.Is(out)) {
		options.ReplaceAttr = seconds
		return slog.New(slog.NewJSONHandler(out, options))
	}
	return slog.New(slog.NewTextHandler(out, options))
}

func setLevel(v *slog.LevelVar, cfg *config.Config) {
	_ = v.UnmarshalText([]byte(cfg.LogLevel)) // config knows only slog's names
}

// seconds writes times of JSON logs in that unit, with it in their names: slog's own
// are nanoseconds that do not say so.
func seconds(_ []string, a slog.Attr) slog.Attr {
	if a.Value.Kind() != slog.KindDuration {
		return a
	}
	return slog.Float64(a.Key+"_seconds", a.Value.Duration().Seconds())
}
