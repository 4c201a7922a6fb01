package serve

import (
	"io"
	"log/slog"
	"strings"

	"ossian/internal/config"
	"ossian/internal/terminal"
)

// logger returns the log that is written to out, as text where people read it.
func logger(cfg *config.Config, level *slog.LevelVar, out io.Writer, people bool) *slog.Logger {
	setLevel(level, cfg)
	options := &slog.HandlerOptions{Level: level, ReplaceAttr: clean}
	if cfg.LogFormat == "json" || (cfg.LogFormat == "auto" && !people) {
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
func seconds(groups []string, a slog.Attr) slog.Attr {
	if a.Value.Kind() != slog.KindDuration {
		return clean(groups, a)
	}
	return slog.Float64(a.Key+"_seconds", a.Value.Duration().Seconds())
}

// mostText is how many bytes of one value the log has: a dump of all goroutines has room.
const mostText = 1 << 20

// clean bounds what a line of the log says, and takes out what would steer the terminal
// that shows it: parts of it are from requests and files.
func clean(_ []string, attribute slog.Attr) slog.Attr {
	text := ""
	switch value := attribute.Value.Any().(type) {
	case string:
		text = value
	case error:
		text = value.Error()
	default:
		return attribute
	}
	if len(text) > mostText {
		text = text[:mostText] + "…"
	}
	return slog.String(attribute.Key, strings.Map(terminal.Printable, text))
}
