package server

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"time"

	"ossian/internal/api"
	"ossian/internal/engine"
	"ossian/internal/host"
	"ossian/internal/wire"
)

// health answers /health with a status and nothing else: 200 if a request that came now
// would be taken. Whoever starts a server waits for that, as with others.
func (s *Server) health(w *api.Reply, _ *http.Request) error {
	status := http.StatusServiceUnavailable
	if s.host.Available() && !s.draining.Load() {
		status = http.StatusOK
	}
	return probed(w, status)
}

// probed answers a probe.
func probed(w *api.Reply, status int) error {
	if status != http.StatusOK {
		w.Header().Set("Retry-After", "1")
	}
	w.Header().Set("Content-Length", "0")
	w.WriteHeader(status)
	return nil
}

// ping answers /ping with a status and nothing else: the process lives, also while its
// model is loaded, and its engine, once there is one, has not ended. Of several models in
// memory one engine is enough.
func (s *Server) ping(reply *api.Reply, _ *http.Request) error {
	leases := s.host.Resident()
	defer release(leases)
	status := http.StatusServiceUnavailable
	if len(leases) == 0 || slices.ContainsFunc(leases, lives) {
		status = http.StatusOK
	}
	return probed(reply, status)
}

// lives reports whether the engine of a model has not ended.
func lives(lease *host.Lease) bool {
	state := lease.Engine.Health().State
	return state != engine.Restarting && state != engine.Stopped
}

// release gives models back that were looked at.
func release(leases []*host.Lease) {
	for _, lease := range leases {
		lease.Release()
	}
}

// readyTime is how long a probe of the engine may take.
const readyTime = 5 * time.Second

// ready answers /ready with a status and nothing else: a token has lately gone through
// the engine, or does now; of each model in memory. While one of several is being changed for
// another there may be none: requests are taken all the same.
func (s *Server) ready(reply *api.Reply, r *http.Request) error {
	status := http.StatusServiceUnavailable
	leases := s.host.Resident()
	defer release(leases)
	if s.host.Available() && !s.draining.Load() {
		ctx, cancel := context.WithTimeout(r.Context(), readyTime)
		defer cancel()
		if !slices.ContainsFunc(leases, func(lease *host.Lease) bool { return !sound(ctx, lease.Model) }) {
			status = http.StatusOK
		}
	}
	return probed(reply, status)
}

// sound reports whether a model is what it was and a token goes through it.
func sound(ctx context.Context, model *host.Model) bool {
	unchanged := model.Unchanged == nil || model.Unchanged() == nil // also of an engine that rests
	return unchanged && model.Engine.Ready(ctx) == nil
}

// version answers /version: what vLLM tells, and the commit where it is known.
func (s *Server) version(w *api.Reply, _ *http.Request) error {
	build := map[string]string{"version": s.cfg.Version}
	if s.cfg.Revision != "" {
		build["revision"] = s.cfg.Revision
	}
	return w.Send(build)
}

// loadNow answers /load: how many requests are being worked on.
func (s *Server) loadNow(w *api.Reply, _ *http.Request) error {
	w.JSON(http.StatusOK, append(strconv.AppendInt([]byte(`{"server_load":`), s.load.Load(), 10), '}'))
	return nil
}

// resetCache answers POST /reset_prefix_cache, as vLLM does, with a status and nothing
// else: prompts find nothing from now on that was computed for requests that have ended.
// Where there are several keys none may take from the others what they have cached.
func (s *Server) resetCache(reply *api.Reply, r *http.Request) error {
	if len(s.live.Load().keys) > 1 {
		return &wire.Error{Message: "the prefix cache is shared by several keys: none may empty it for all; a cache_salt of its own makes a request find nothing", Type: wire.TypePermission}
	}
	leases := s.host.Resident()
	defer release(leases)
	if len(leases) == 0 && !s.host.Several() {
		return host.ErrLoading
	}
	blocks := 0
	for _, lease := range leases { // a model that is not in memory has no cache
		n, err := lease.Engine.ForgetPrefixes(r.Context())
		if err != nil {
			return err
		}
		blocks += n
	}
	s.log.Info("prefix cache emptied", "req", reply.ID, "blocks", blocks)
	reply.Header().Set("Content-Length", "0")
	reply.WriteHeader(http.StatusOK)
	return nil
}

// scrape answers /metrics.
func (s *Server) scrape(w *api.Reply, r *http.Request) error {
	s.metrics.Ready(s.host.Available() && !s.draining.Load())
	s.scraper.ServeHTTP(w, r)
	return nil
}
