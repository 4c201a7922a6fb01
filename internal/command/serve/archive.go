package serve

import (
	"errors"
	"log/slog"
	"path/filepath"
	"strconv"

	"ossian/internal/command"
	"ossian/internal/config"
	"ossian/internal/limits"
	"ossian/internal/server"
	"ossian/internal/store"
)

// inMemory is the value of --store without a directory.
const inMemory = "memory"

// An archive is where a server keeps responses.
type archive struct {
	server.Archive
	end func() error
	key *[32]byte // of encrypted reasoning; nil = one of this run
}

func (a *archive) close(log *slog.Logger) {
	if err := a.end(); err != nil {
		log.Warn("closing the stored responses", "error", err)
	}
}

// archiveDir returns the directory that --store means, or "memory".
func archiveDir(cfg *config.Config) string {
	if cfg.Store != "auto" {
		return cfg.Store
	}
	base := command.StateDir()
	if cfg.Port == 0 || base == "" { // nobody finds the responses of a port that chance chose
		return inMemory
	}
	return filepath.Join(base, "responses-"+strconv.Itoa(cfg.Port))
}

// archiveBytes returns the memory that stored responses take.
func archiveBytes(cfg *config.Config) int64 {
	if archiveDir(cfg) != inMemory {
		return 0
	}
	return cfg.Limits[limits.StoredMemory]
}

// openArchive opens where responses are kept. A directory that nobody named and that
// cannot be used is no reason not to serve.
func openArchive(cfg *config.Config, log *slog.Logger) (*archive, error) {
	if dir := archiveDir(cfg); dir != inMemory {
		if cfg.Store != "auto" {
			if err := command.OutputFolder("--store", dir); err != nil {
				return nil, err
			}
		}
		a, err := openStore(cfg, dir, log)
		if err == nil || cfg.Store != "auto" {
			return a, err
		}
		log.Warn("responses are kept in memory only; --store names another directory", "error", err)
		cfg.Store = inMemory // so that the settings say so
	}
	if cfg.Store == "auto" && cfg.Port != 0 {
		log.Warn("responses are kept in memory only, as no home directory is set; --store names a directory")
	}
	m, err := store.NewMemory(store.Config{Bytes: cfg.Limits[limits.StoredMemory], Records: int(cfg.Limits[limits.StoredRecords]), Age: cfg.Limits.Time(limits.StoredAge)})
	if err != nil {
		return nil, err
	}
	return &archive{Archive: m, end: m.Close}, nil
}

func openStore(cfg *config.Config, dir string, log *slog.Logger) (*archive, error) {
	kept, err := store.Open(store.Config{Dir: dir, Bytes: cfg.Limits[limits.StoredBytes], Records: int(cfg.Limits[limits.StoredRecords]),
		Age: cfg.Limits.Time(limits.StoredAge), Interrupted: server.Interrupted, Log: log})
	if err != nil {
		return nil, err
	}
	key, err := kept.Key()
	if err != nil {
		return nil, errors.Join(err, kept.Close())
	}
	return &archive{Archive: kept, end: kept.Close, key: key}, nil
}
