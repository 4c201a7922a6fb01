package serve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"time"

	"ossian/internal/chat"
	"ossian/internal/ckpt"
	"ossian/internal/config"
	"ossian/internal/host"
	"ossian/internal/kvevents"
	"ossian/internal/limits"
	"ossian/internal/load"
	"ossian/internal/metrics"
	"ossian/internal/tiny"
)

// A fleet is all models of a server: who brings which into memory, and the host that says when.
type fleet struct {
	host    *host.Host
	loaders map[string]*loader // by the reported name
}

// newFleet returns the models of the settings, none of which is loaded.
func newFleet(cfg *config.Config, version string, log *slog.Logger, counters *metrics.Server) (*fleet, error) {
	models := &fleet{loaders: map[string]*loader{}}
	shared := newRoom(cfg)
	var cards []host.Card
	for _, own := range eachModel(cfg) {
		names := servedNames(own)
		cards = append(cards, host.Card{Names: names, Root: names[0], Created: time.Now(), MaxLen: own.MaxModelLen})
		// The closures ask for the host when they are called: it is made last, of all cards
		// together.
		models.loaders[names[0]] = &loader{cfg: own, log: log, metrics: counters, name: names[0], version: version, room: shared,
			waiting: func() int { return models.host.Waiting(names[0]) }, several: len(cfg.Models) > 1,
			show: func(format chat.Format) { models.host.Show(names[0], format) }}
	}
	var err error
	models.host, err = host.New(host.Config{Resident: cfg.Resident, Turn: cfg.Limits.Time(limits.ModelTurn), Queue: int(cfg.Limits[limits.Queue]), Final: changed, Log: log,
		Check: func(_ context.Context, card *host.Card) (int, error) { return models.loaders[card.Names[0]].check() }}, cards...)
	return models, err
}

// tells has the models tell of their prefixes, by reported name, before any is loaded.
func (f *fleet) tells(events map[string]*kvevents.Publisher) {
	for name, publisher := range events {
		f.loaders[name].events = publisher
	}
}

// beside runs the models in a goroutine, and calls failed where it cannot. The channel gets how that
// ends.
func (f *fleet) beside(ctx context.Context, failed func(error)) <-chan error {
	hosted := make(chan error, 1)
	go func() {
		err := f.host.Run(ctx, f.load)
		if err != nil {
			failed(err)
		}
		hosted <- err
	}()
	return hosted
}

// load is a host.Load.
func (f *fleet) load(ctx context.Context, card *host.Card) (*host.Model, error) {
	return f.loaders[card.Names[0]].load(ctx)
}

// changed is what everybody is told of a model whose engine has ended because a file of it was
// changed while it was served (CKP-7). What was computed since is thrown away, and nothing more
// is: other weights would give other answers without a word.
func changed(err error) string {
	of, ok := errors.AsType[*ckpt.ChangedError](err)
	if !ok {
		return ""
	}
	return fmt.Sprintf("its file %s was changed while it was served; put the right file in its place, and start the server anew", filepath.Base(of.File))
}

// eachModel returns the settings of each model, as if it were the only one, the first first.
func eachModel(cfg *config.Config) (all []*config.Config) {
	if len(cfg.Models) == 0 {
		return []*config.Config{cfg}
	}
	for _, model := range cfg.Models {
		own := *cfg
		own.Model = model.Path
		if model.Name != "" {
			own.ServedNames = []string{model.Name}
		}
		all = append(all, &own)
	}
	return all
}

// servedNames are the names that requests may use for a model.
func servedNames(cfg *config.Config) []string {
	if len(cfg.ServedNames) > 0 {
		return cfg.ServedNames
	}
	return ownNames(cfg.Model)
}

// ownNames are the names of a model to which nobody has given one. A path's last element stands
// before the path, which is nobody's business.
func ownNames(name string) []string {
	if name == "" {
		name = tiny.Name
	}
	if !load.Exists(name) {
		return []string{name}
	}
	abs, err := filepath.Abs(name)
	if err != nil {
		abs = name
	}
	return slices.Compact([]string{filepath.Base(abs), name})
}
