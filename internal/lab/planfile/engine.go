package planfile

import (
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"ossian/internal/bench/sweep"
	"ossian/internal/lazyregexp"
	"ossian/internal/nearest"
)

// Other is the kind of an engine that no built-in description knows.
const Other = "other"

func (r *planReader) engines(e entry) {
	for _, e := range r.entries(e.key, e.node, "a mapping of names to engines expected") {
		r.addEngine(e.name, e)
	}
}

// addEngine reads one engine over the description of its kind; an entry without a node takes all of it.
func (r *planReader) addEngine(name string, e entry) {
	kind := Other
	if _, ok := r.kinds[name]; ok {
		kind = name
	}
	engine, given := r.kinds[kind], Engine{}
	var flags []entry
	before := len(r.errs)
	if e.node != nil && !isNull(e.node) {
		given, flags = r.readEngine(e, &kind)
		engine = r.kinds[kind]
	}
	engine = merge(engine, given)
	engine.Name, engine.Kind, engine.Line = name, kind, e.line
	if engine.Dialect == "" {
		engine.Dialect = kind
	}
	if engine.ReadyTimeout == 0 {
		engine.ReadyTimeout = 10 * time.Minute
	}
	if len(r.errs) == before {
		r.startable(e, &engine)
		for _, e := range flags {
			r.owned(&engine, e)
		}
	}
	r.plan.Engines = append(r.plan.Engines, engine)
}

// readEngine reads what a plan says of one, and returns the entries of its flags too.
func (r *planReader) readEngine(e entry, kind *string) (engine Engine, flags []entry) {
	kinds := append(slices.Sorted(maps.Keys(r.kinds)), Other)
	var start *entry
	r.fields(e.key, e.node, "start, container or url", map[string]func(entry){
		"kind": func(e entry) {
			if text := r.oneOf(e, kinds...); text != "" {
				*kind = text
			}
		},
		"start":         func(e entry) { start = &e },
		"shell":         func(e entry) { engine.Shell = r.boolean(e) },
		"container":     func(e entry) { engine.Container = r.container(e) },
		"url":           func(e entry) { engine.URL = r.url(e) },
		"key_env":       func(e entry) { engine.KeyEnv = r.variable(e) },
		"version":       func(e entry) { engine.Version = r.command(e, false) },
		"ready":         func(e entry) { engine.Ready = r.path(e) },
		"ready_timeout": func(e entry) { engine.ReadyTimeout = r.duration(e) },
		"dialect":       func(e entry) { engine.Dialect = r.oneOf(e, kinds...) },
		"env":           func(e entry) { engine.Env = r.environment(e) },
		"secret_env":    func(e entry) { engine.SecretEnv = r.variables(e) },
		"flags":         func(e entry) { engine.Flags, flags = r.flagValues(e) },
		"devices":       func(e entry) { engine.Devices = r.integer(e, 1, 1024) },
	})
	if start != nil {
		engine.Start = r.command(*start, engine.Shell)
	}
	return engine, flags
}

// merge is a description with what the plan says in its place.
func merge(engine, given Engine) Engine {
	if given.Start != nil || given.Container != nil || given.URL != "" {
		engine.Start, engine.Container, engine.URL = given.Start, given.Container, given.URL
	}
	if given.URL != "" {
		engine.Version = nil // that of a program here says nothing about a server elsewhere
	}
	if given.Version != nil {
		engine.Version = given.Version
	}
	engine.Shell, engine.KeyEnv, engine.SecretEnv, engine.Flags = given.Shell, given.KeyEnv, given.SecretEnv, given.Flags
	if given.Ready != "" {
		engine.Ready = given.Ready
	}
	if given.ReadyTimeout > 0 {
		engine.ReadyTimeout = given.ReadyTimeout
	}
	if given.Dialect != "" {
		engine.Dialect = given.Dialect
	}
	if given.Devices > 0 {
		engine.Devices = given.Devices
	}
	env := maps.Clone(engine.Env)
	if env == nil {
		env = map[string]string{}
	}
	maps.Copy(env, given.Env)
	engine.Env = env
	return engine
}

// startable complains about an engine that could not be started or reached.
func (r *planReader) startable(e entry, engine *Engine) {
	ways := 0
	for _, is := range []bool{len(engine.Start) > 0, engine.Container != nil, engine.URL != ""} {
		if is {
			ways++
		}
	}
	words := engine.words()
	switch {
	case ways == 0:
		r.failAt(e.key, e.line, "one of start, container and url expected"+nearest.Hint(engine.Name, slices.Sorted(maps.Keys(r.kinds))), "")
	case ways > 1:
		r.failAt(e.key, e.line, "only one of start, container and url expected", "")
	case engine.URL == "" && !strings.Contains(words, "{port}"):
		r.failAt(e.key+".start", e.line, "{port} in the command or in a variable of env expected: the lab chooses a free one", strconv.Quote(words))
	case engine.URL == "" && engine.KeyEnv != "":
		r.failAt(e.key+".key_env", e.line, "key_env only beside url expected; variables of a server that the lab starts are handed on with secret_env", "")
	case engine.URL != "" && (len(engine.Env) > 0 || len(engine.SecretEnv) > 0 || len(engine.Flags) > 0):
		r.failAt(e.key+".url", e.line, "no env, secret_env or flags expected: a server that runs already is only measured", "")
	case engine.Ready == "":
		engine.Ready = "/health"
	}
}

// words is all of a command in which words in braces are replaced.
func (e *Engine) words() string {
	words := e.Start
	if e.Container != nil {
		words = e.Container.Args
	}
	return strings.Join(append(slices.Clone(words), slices.Sorted(maps.Values(e.Env))...), " ")
}

func (r *planReader) container(e entry) *Container {
	out := &Container{Runtime: "docker"}
	r.fields(e.key, e.node, "image and args", map[string]func(entry){
		"image":   func(e entry) { out.Image = r.text(e, "the name of an image") },
		"args":    func(e entry) { out.Args = r.command(e, false) },
		"options": func(e entry) { out.Options = r.command(e, false) },
		"runtime": func(e entry) { out.Runtime = r.oneOf(e, "docker", "podman") },
	})
	if out.Image == "" {
		r.failAt(e.key+".image", e.line, "the name of an image expected", "")
	}
	return out
}

func (r *planReader) url(e entry) string {
	text := r.text(e, "the address of a server such as http://10.0.0.7:8000")
	if address, err := url.Parse(text); text != "" && (err != nil || address.Host == "" || address.User != nil || (address.Scheme != "http" && address.Scheme != "https")) {
		r.failAt(e.key, e.node.Line, "an address such as http://10.0.0.7:8000, without a name and password, expected; the key's variable is named by key_env", "")
	}
	return strings.TrimSuffix(text, "/")
}

func (r *planReader) path(e entry) string {
	text := r.text(e, "a path such as /health")
	if text != "" && !strings.HasPrefix(text, "/") {
		r.fail(e.key, e.node, "a path that begins with / expected")
	}
	return text
}

// command reads an argument vector: a list of words, or one text with one level of quotes. With shell it
// stays one text.
func (r *planReader) command(e entry, shell bool) []string {
	if shell || len(e.node.Content) > 0 {
		return r.texts(e, "a command")
	}
	text := r.text(e, "a command")
	words, err := sweep.Split(text)
	if text != "" && err != nil {
		r.fail(e.key, e.node, "a command of words, with quotes around those with spaces, expected")
	}
	return words
}

// envName is what a variable of the environment may be called.
var envName = lazyregexp.New(`^[A-Za-z_][A-Za-z0-9_]*$`)

func (r *planReader) variable(e entry) string {
	text := r.text(e, "the name of a variable of the environment")
	if text != "" && !envName.MatchString(text) {
		// What stands there may be the secret itself: it is not shown.
		r.failAt(e.key, e.node.Line, "the name of a variable of the environment, not its value, expected", "")
	}
	return text
}

func (r *planReader) variables(e entry) []string {
	out := r.texts(e, "names of variables of the environment")
	for _, name := range out {
		if !envName.MatchString(name) {
			r.failAt(e.key, e.node.Line, "names of variables of the environment, not their values, expected", "")
		}
	}
	return out
}

// secretName is a variable that probably holds a secret.
var secretName = lazyregexp.New(`(?i)(token|secret|passw|api_?key|credential)`)

// environment reads variables and values; those that look like secrets belong elsewhere, because the
// plan is copied into the campaign's directory.
func (r *planReader) environment(e entry) map[string]string {
	out := map[string]string{}
	for _, e := range r.entries(e.key, e.node, "a mapping of variables to values expected") {
		switch {
		case !envName.MatchString(e.name):
			r.failAt(e.key, e.line, "the name of a variable of the environment expected", "")
		case secretName.MatchString(e.name):
			r.failAt(e.key, e.line, "no secret in a plan expected: name the variable under secret_env, and set it in the environment", "")
		case e.node.Kind != yaml.ScalarNode:
			r.fail(e.key, e.node, "a text expected")
		default:
			out[e.name] = e.node.Value
		}
	}
	return out
}
