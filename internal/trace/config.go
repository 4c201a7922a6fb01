package trace

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// A Config is where spans go and which, in the words of OpenTelemetry's environment variables.
type Config struct {
	Endpoint     string // base URL of OTLP over HTTP; "" = off
	Headers      map[string]string
	Sampler      Sampler
	Resource     []Attribute // of whom all spans are
	MetricsEvery time.Duration
	Notes        []string // what of the environment has no effect here
}

// On reports whether anything is sent.
func (c *Config) On() bool { return c.Endpoint != "" }

// FromEnv reads the configuration of a program of that version; lookup is os.LookupEnv. An error
// names the variable.
func FromEnv(version string, lookup func(string) (string, bool)) (Config, error) {
	get := func(name string) string {
		if value, found := lookup(name); found {
			return strings.TrimSpace(value)
		}
		return ""
	}
	cfg := Config{MetricsEvery: time.Minute, Headers: map[string]string{}}
	// Without an endpoint nothing else is looked at: variables of other programs do not fail a
	// start.
	if strings.EqualFold(get("OTEL_SDK_DISABLED"), "true") || get("OTEL_EXPORTER_OTLP_ENDPOINT") == "" {
		return cfg, nil
	}
	endpoint, err := url.Parse(get("OTEL_EXPORTER_OTLP_ENDPOINT"))
	if err != nil || (endpoint.Scheme != "http" && endpoint.Scheme != "https") || endpoint.Host == "" {
		return cfg, fmt.Errorf("OTEL_EXPORTER_OTLP_ENDPOINT=%.100q: http://HOST:4318 expected", get("OTEL_EXPORTER_OTLP_ENDPOINT"))
	}
	cfg.Endpoint = strings.TrimSuffix(endpoint.String(), "/")
	if protocol := get("OTEL_EXPORTER_OTLP_PROTOCOL"); protocol != "" && protocol != "http/json" {
		cfg.Notes = append(cfg.Notes, fmt.Sprintf("OTEL_EXPORTER_OTLP_PROTOCOL=%.40s: traces are sent as http/json, the one protocol spoken here", protocol))
	}
	if cfg.Sampler, err = parseSampler(get("OTEL_TRACES_SAMPLER"), get("OTEL_TRACES_SAMPLER_ARG")); err != nil {
		return cfg, err
	}
	if text := get("OTEL_METRIC_EXPORT_INTERVAL"); text != "" {
		ms, err := strconv.Atoi(text)
		if err != nil || ms < 1 || ms > 86_400_000 {
			return cfg, fmt.Errorf("OTEL_METRIC_EXPORT_INTERVAL=%.40q: milliseconds expected", text)
		}
		cfg.MetricsEvery = time.Duration(ms) * time.Millisecond
	}
	headers, err := pairs("OTEL_EXPORTER_OTLP_HEADERS", get("OTEL_EXPORTER_OTLP_HEADERS"))
	if err != nil {
		return cfg, err
	}
	for _, header := range headers {
		cfg.Headers[header.Key] = header.Value.(string)
	}
	return cfg, cfg.resource(version, get)
}

// resource says of whom the spans are: what has a variable of its own wins.
func (c *Config) resource(version string, get func(string) string) error {
	given, err := pairs("OTEL_RESOURCE_ATTRIBUTES", get("OTEL_RESOURCE_ATTRIBUTES"))
	if err != nil {
		return err
	}
	name := get("OTEL_SERVICE_NAME")
	for _, attribute := range given {
		switch {
		case attribute.Key == "service.name" && name == "":
			name = attribute.Value.(string)
		case attribute.Key != "service.name" && attribute.Key != "service.version":
			c.Resource = append(c.Resource, attribute)
		}
	}
	if name == "" {
		name = "ossian"
	}
	c.Resource = append(c.Resource, Attribute{"service.name", name}, Attribute{"service.version", version})
	return nil
}

// pairs reads name=value,name=value, with values escaped as in URLs.
func pairs(variable, text string) (all []Attribute, err error) {
	for part := range strings.SplitSeq(text, ",") {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		key, value, ok := strings.Cut(part, "=")
		value, err := url.PathUnescape(strings.TrimSpace(value))
		if key = strings.TrimSpace(key); !ok || key == "" || err != nil || strings.ContainsAny(key+value, "\r\n") {
			return nil, fmt.Errorf("%s: name=value, separated by commas, expected", variable) // values may be secrets
		}
		all = append(all, Attribute{key, value})
	}
	return all, nil
}
