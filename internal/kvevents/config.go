package kvevents

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// A Format is how events lie in messages.
type Format string

// The formats.
const (
	Array Format = "array" // positional, the tag first: every consumer reads it
	Map   Format = "map"   // by name, the tag under "type": those of newer vLLM
)

// A Config is what an operator may choose: the members of vLLM's --kv-events-config, and the
// format.
type Config struct {
	Enabled        bool   `json:"enable_kv_cache_events"`
	Publisher      string `json:"publisher"`       // zmq or null
	Endpoint       string `json:"endpoint"`        // with * or ::, or ipc:// to listen; else to connect
	ReplayEndpoint string `json:"replay_endpoint"` // to listen; "" = no replay
	Topic          string `json:"topic"`           // first frame of each message; ${NAME} is from the environment, ${MODEL} the model's name
	BufferSteps    int    `json:"buffer_steps"`    // messages that can be replayed
	HighWater      int    `json:"hwm"`             // messages that a subscriber may be behind
	MaxQueue       int    `json:"max_queue_size"`  // the same, as vLLM bounds what is not sent: the less of both counts
	Format         Format `json:"format"`          // array, map
	Seed           string `json:"-"`               // of hashes: PYTHONHASHSEED, as with vLLM; "" = 0
}

// On reports whether events are to be published.
func (c *Config) On() bool { return c.Enabled && c.Publisher != "null" }

// mostBehind is how many messages a subscriber may be behind.
func (c *Config) mostBehind() int { return min(c.HighWater, c.MaxQueue) }

// mostMessages is how many messages are kept: for replays, and for subscribers that are behind.
func (c *Config) mostMessages() int { return max(c.BufferSteps, c.mostBehind()) }

// ParseConfig reads the text of the flag; "" is a configuration that is off. lookup is
// os.LookupEnv.
func ParseConfig(text string, lookup func(string) (string, bool)) (Config, error) {
	cfg := Config{Publisher: "zmq", Endpoint: "tcp://*:5557", BufferSteps: 10_000, HighWater: 100_000, MaxQueue: 100_000, Format: Array}
	cfg.Seed, _ = lookup("PYTHONHASHSEED")
	if text == "" {
		return cfg, nil
	}
	decoder := json.NewDecoder(bytes.NewReader([]byte(text)))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&cfg); err != nil {
		return cfg, fmt.Errorf("--kv-events-config: %s; an object expected, such as {\"enable_kv_cache_events\":true,\"publisher\":\"zmq\",\"endpoint\":\"tcp://*:5557\"}", strings.TrimPrefix(err.Error(), "json: "))
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return cfg, errors.New("--kv-events-config: one JSON object expected, there is more behind it")
	}
	if err := cfg.check(); err != nil {
		return cfg, fmt.Errorf("--kv-events-config: %w", err)
	}
	var err error
	if cfg.Topic, err = expand(cfg.Topic, func(name string) (string, bool) {
		if name == modelName {
			return "${" + modelName + "}", true // Of knows
		}
		return lookup(name)
	}); err != nil {
		return cfg, fmt.Errorf("--kv-events-config: topic: %w", err)
	}
	return cfg, nil
}

// modelName stands in topics for the name of the model.
const modelName = "MODEL"

// Of is the configuration for one of a server's models, each of which has a publisher. An event does
// not say of which model it is: the topic does, and subscribers expect the numbers of one publisher
// from one address. So the second model listens one port above the first, as vLLM's second rank does,
// and so on; sockets of paths get the number behind their name. An address that is connected to is
// the same for all.
func (c *Config) Of(model string, number, models int) (Config, error) {
	own := *c
	if models > 1 && !strings.Contains(c.Topic, "${"+modelName+"}") {
		return own, fmt.Errorf("--kv-events-config: topic %q: subscribers would not know of which of %d models it is; put ${%s} into it, as in kv@${POD_IP}:8000@${%s}", c.Topic, models, modelName, modelName)
	}
	own.Topic = strings.ReplaceAll(c.Topic, "${"+modelName+"}", model)
	if len(own.Topic) > mostTopic {
		return own, fmt.Errorf("--kv-events-config: topic of %d bytes: at most %d expected", len(own.Topic), mostTopic)
	}
	// The first model keeps the addresses as they are.
	for _, text := range []*string{&own.Endpoint, &own.ReplayEndpoint} {
		if *text == "" || number == 0 {
			continue
		}
		moved, err := moved(*text, number)
		if err != nil {
			return own, fmt.Errorf("--kv-events-config: %w", err)
		}
		*text = moved
	}
	return own, nil
}

// mostTopic is the most bytes that a topic may have.
const mostTopic = 255

// mostKept bounds the numbers of messages: memory is bounded by journalBytes anyway.
const mostKept = 10_000_000

// check finds members with values that make no sense.
func (c *Config) check() error {
	switch {
	case c.Publisher != "zmq" && c.Publisher != "null":
		return fmt.Errorf("publisher %q: zmq or null expected", c.Publisher)
	case c.Format != Array && c.Format != Map:
		return fmt.Errorf("format %q: array or map expected", c.Format)
	case len(c.Topic) > mostTopic:
		return fmt.Errorf("topic of %d bytes: at most %d expected", len(c.Topic), mostTopic)
	}
	for name, value := range map[string]int{"buffer_steps": c.BufferSteps, "hwm": c.HighWater, "max_queue_size": c.MaxQueue} {
		if value < 1 || value > mostKept {
			return fmt.Errorf("%s %d: 1 to %d expected", name, value, mostKept)
		}
	}
	// Endpoints are parsed here for their errors alone; they are opened later.
	if _, err := parseEndpoint(c.Endpoint); err != nil {
		return fmt.Errorf("endpoint: %w", err)
	}
	if c.ReplayEndpoint == "" {
		return nil
	}
	if _, err := parseEndpoint(c.ReplayEndpoint); err != nil {
		return fmt.Errorf("replay_endpoint: %w", err)
	}
	return nil
}

// expand puts values of the environment in place of ${NAME}.
func expand(text string, lookup func(string) (string, bool)) (string, error) {
	var out strings.Builder
	for {
		before, rest, found := strings.Cut(text, "${")
		out.WriteString(before)
		if !found {
			return out.String(), nil
		}
		name, behind, closed := strings.Cut(rest, "}")
		value, known := lookup(name)
		if !closed || !known {
			return "", fmt.Errorf("${%s: no such variable in the environment, or no } behind its name", name)
		}
		out.WriteString(value)
		text = behind
	}
}
