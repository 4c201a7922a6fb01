// Package serve is ossian serve: settings, port, certificates, stored responses and the
// model of one server, put together and kept until it ends.
package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"ossian/internal/command"
	"ossian/internal/config"
	"ossian/internal/host"
	"ossian/internal/limits"
	"ossian/internal/load"
	"ossian/internal/metrics"
	"ossian/internal/server"
	"ossian/internal/terminal"
	"ossian/internal/tools/registry"
	"ossian/internal/trace"
)

// Command returns the command.
func Command() *cobra.Command {
	cmd := &cobra.Command{
		Use:                "serve [MODEL] [flags]",
		Short:              "Serve a model behind the OpenAI API",
		DisableFlagParsing: true, // flags, environment and --config have one parser
		RunE: func(cmd *cobra.Command, args []string) error {
			src := config.Source{Args: args, Env: os.Environ()}
			cfg, err := config.Load(src)
			if errors.Is(err, config.ErrHelp) {
				return cmd.Help()
			}
			if err != nil {
				return err
			}
			for _, note := range cfg.Notes {
				fmt.Fprintln(cmd.ErrOrStderr(), note)
			}
			if err := checkFirst(cfg, src.Env); err != nil {
				return err
			}
			if cfg.Settings.Explain {
				return explain(cfg, cmd.OutOrStdout())
			}
			outliveReaders()
			defer command.OnSecondSignal(registry.KillAll)()
			listener, err := openPort(cfg)
			if err != nil {
				return err
			}
			return serve(cmd.Context(), cfg, src, listener, cmd.ErrOrStderr(), tell)
		},
	}
	cmd.SetHelpFunc(func(cmd *cobra.Command, _ []string) {
		fmt.Fprintf(cmd.OutOrStdout(), `Serve MODEL behind the OpenAI API: a directory, a GGUF file, or a name already in
the cache; without MODEL the built-in ossian-tiny. Several models, --model NAME=MODEL once
for each, take turns in memory: a request waits for the turn of its model.

Usage:
  ossian %s

/ is a page to chat in and to watch the server; --no-ui leaves it out.

/health, /ready and /ping answer without a key, with a status and nothing else: a request
would be answered, a token has gone through the model lately, the process lives. All other
routes but the page need a key where keys are set. A client that closes its connection, or only
its writing half, has left: its request ends. SIGTERM lets running requests finish, a
second one does not. SIGHUP reads keys, limits and log level again, from --config and
--api-key-file, and the files of certificates: streams go on, settings that are refused
change nothing, and the log names what waits for a restart.

Flags, each also a key of --config FILE.yaml and, in capitals, OSSIAN_NAME in the environment:
%s`, cmd.Use, config.Usage())
	})
	return cmd
}

// checkFirst finds what a start refuses before a port is open, and --explain, too.
func checkFirst(cfg *config.Config, env []string) error {
	if _, err := cfg.TLS(); err != nil {
		return err
	}
	_, _, err := checkOutlets(cfg, command.Version(), env)
	return err
}

// openPort listens where the settings say.
func openPort(cfg *config.Config) (net.Listener, error) {
	for _, model := range cfg.Models {
		if load.BuiltIn(model.Path) {
			continue
		}
		if _, err := load.Resolve(model.Path); err != nil {
			return nil, err // before a port is open: the commonest mistake
		}
	}
	if guesses := cfg.Speculation; guesses != nil && guesses.Draft != "" && !load.BuiltIn(guesses.Draft) {
		if _, err := load.Resolve(guesses.Draft); err != nil {
			return nil, fmt.Errorf("--speculative-config: %w", err)
		}
	}
	if err := load.CheckTemplate(cfg.Template); err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", net.JoinHostPort(cfg.Host, strconv.Itoa(cfg.Port)))
	if err != nil {
		return nil, fmt.Errorf("%w; --port chooses another port, 0 any free one", err)
	}
	return l, nil
}

// serve answers on listener until ctx ends, also while the weights are still loaded, so that
// whoever waits for them can see it.
//
// Three goroutines share ctx: this one serves HTTP, one reloads settings, and one has the
// model. Whatever ends a server ends ctx: a signal, a terminal that has closed, a model that
// cannot be loaded. The model outlives ctx, for requests still run while the server drains.
func serve(ctx context.Context, cfg *config.Config, src config.Source, listener net.Listener, status io.Writer, tell teller) error {
	defer listener.Close()
	version := command.Version()
	counters := metrics.New(metrics.Config{Version: version, Revision: command.Revision(), Prefix: cfg.MetricsPrefix, Hidden: cfg.HiddenMetrics})
	level, lines := new(slog.LevelVar), newLogWriter(status, counters.LogDropped)
	defer lines.close()
	log := logger(cfg, level, lines, terminal.Is(status))
	boundClients(cfg)
	fleet, err := newFleet(cfg, version, log, counters)
	if err != nil {
		return err
	}
	models := fleet.host
	kept, err := openArchive(cfg, log)
	if err != nil {
		return err
	}
	defer kept.close(log)
	secure, err := newCertificates(cfg, log)
	if err != nil {
		return err
	}
	shed, err := openTools(cfg, version, log, counters)
	if err != nil {
		return err
	}
	defer shed.close()
	told, err := openOutlets(cfg, version, src.Env, log, counters, fleet)
	if err != nil {
		return err
	}
	defer told.close()
	// SIGHUP is caught before anybody can know the address and send one.
	srv := newServer(cfg, version, models, kept, shed, log, counters, secure, told.tracer)
	hup, outlives := catchHangups()
	defer signal.Stop(hup)
	tell(lines, cfg, secure.scheme(), listener.Addr())
	var reloading sync.WaitGroup
	defer reloading.Wait()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	reloading.Go(func() {
		r := &reloader{cfg: cfg, src: src, server: srv, tools: shed, secure: secure, level: level, log: log, outlives: outlives, bodies: cfg.Limits[limits.BodiesInFlight]}
		r.run(ctx, hup, func() { cancel(nil) })
	})
	reloading.Go(func() { shed.tell(ctx) })
	// The models are loaded, and run, beside the server.
	hostCtx, end := context.WithCancel(context.WithoutCancel(ctx)) // requests go on while the server drains
	defer end()
	hosted := fleet.beside(hostCtx, cancel)
	// Serve returns when ctx has ended and requests have, too, or their time is over.
	err = srv.Serve(ctx, listener)
	end()
	failed := <-hosted
	if ctx.Err() != nil && errors.Is(failed, context.Canceled) {
		failed = nil // told to end while it was loading
	}
	return errors.Join(err, failed)
}

// A teller says where a server is, and its page.
type teller func(lines io.Writer, cfg *config.Config, scheme string, address net.Addr)

// tell is the teller of servers that stay until somebody ends them.
func tell(lines io.Writer, cfg *config.Config, scheme string, address net.Addr) {
	announce(lines, scheme, address, os.Getenv)
	showPage(cfg, scheme, address, lines)
}

// tellPassing is that of servers which end with what they were started for.
func tellPassing(lines io.Writer, _ *config.Config, scheme string, address net.Addr) {
	fmt.Fprintf(lines, "a server of its own, until the run ends; live view: %s\n", pageAddress(scheme, address))
}

// announce tells the address, and that nobody reaches it where it is the loopback of a container:
// whoever publishes its port publishes nothing. The image sets container, as systemd-nspawn and
// Podman do; pods have the address of their cluster.
func announce(lines io.Writer, scheme string, address net.Addr, getenv func(string) string) {
	fmt.Fprintf(lines, "listening on %s://%s\n", scheme, address)
	tcp, ok := address.(*net.TCPAddr)
	if ok && tcp.IP.IsLoopback() && (getenv("container") != "" || getenv("KUBERNETES_SERVICE_HOST") != "") {
		fmt.Fprintln(lines, "nobody outside this container reaches it: --host 0.0.0.0 with --api-key-file lets others connect")
	}
}

// catchHangups returns where SIGHUP arrives, and whether the process was told to outlive its
// terminal.
func catchHangups() (hup chan os.Signal, outlives bool) {
	hup = make(chan os.Signal, 1)
	outlives = signal.Ignored(syscall.SIGHUP) // nohup ossian serve; to be asked before Notify
	signal.Notify(hup, syscall.SIGHUP)
	return hup, outlives
}

// Start serves in this process, as ossian serve would with the arguments and no settings
// from the environment, until ctx ends. It returns the server's address when the port is
// open and the model not yet loaded; ended gets how it ends.
func Start(ctx context.Context, args []string, log io.Writer) (address string, ended <-chan error, err error) {
	src := config.Source{Args: args}
	cfg, err := config.Load(src)
	if err != nil {
		return "", nil, err
	}
	listener, err := openPort(cfg)
	if err != nil {
		return "", nil, err
	}
	end := make(chan error, 1)
	go func() { end <- serve(ctx, cfg, src, listener, log, tellPassing) }()
	return listener.Addr().String(), end, nil
}

// metricsAge is less than the 50 ms between scrapes of an endpoint picker: one alone has what is, of
// several each has what was at most so long ago.
const metricsAge = 40 * time.Millisecond

// newServer returns the HTTP side of the settings.
func newServer(cfg *config.Config, version string, models *host.Host, kept *archive, shed *toolshed, log *slog.Logger, counters *metrics.Server, secure *certificates, tracer *trace.Tracer) *server.Server {
	hosts := cfg.AllowedHosts
	if (cfg.Insecure || cfg.Vouched()) && len(hosts) == 0 {
		hosts = []string{"*"} // other machines are let in under whatever name they know
	}
	return server.New(server.Config{
		Version: version, Revision: command.Revision(), Keys: cfg.APIKeys, AllowedHosts: hosts, AllowedOrigins: cfg.AllowedOrigins,
		StreamInterval: cfg.StreamInterval, Seed: cfg.Seed, ReasoningField: cfg.ReasoningField, Strict: cfg.Strict,
		DrainTimeout: cfg.DrainTimeout, AccessLog: cfg.AccessLog, OpenMetrics: cfg.OpenMetrics, MetricsAge: metricsAge, Limits: cfg.Limits, Archive: kept, SealKey: kept.key, TLS: secure.server(),
		Tracer: tracer, Toolbox: shed.toolbox(), CitationLinks: cfg.CitationLinks, Page: cfg.Page,
	}, models, log, counters)
}
