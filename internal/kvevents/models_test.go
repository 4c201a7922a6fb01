package kvevents

import (
	"strings"
	"testing"
)

// Each of several models has an address and a topic of its own.
func TestOf(t *testing.T) {
	lookup := func(name string) (string, bool) {
		return "10.0.0.9", name == "POD_IP" || name == modelName // which is not asked for
	}
	for _, test := range []struct {
		endpoint, replay, topic string
		number, models          int
		wantAt, wantReplay      string
		want                    string // topic, or part of the error
	}{
		{"tcp://*:5556", "tcp://*:5566", "kv@${POD_IP}:8000@${MODEL}", 0, 1, "tcp://*:5556", "tcp://*:5566", "kv@10.0.0.9:8000@org/m"},
		{"tcp://*:5556", "tcp://*:5566", "kv@${POD_IP}:8000@${MODEL}", 2, 3, "tcp://*:5558", "tcp://*:5568", "kv@10.0.0.9:8000@org/m"},
		{"tcp://[::]:5556", "", "${MODEL}", 1, 2, "tcp://[::]:5557", "", "org/m"},
		{"ipc://events.sock", "ipc://replay.sock", "${MODEL}", 1, 2, "ipc://events.sock.1", "ipc://replay.sock.1", "org/m"},
		{"tcp://router:5556", "tcp://*:5566", "${MODEL}", 1, 2, "tcp://router:5556", "tcp://*:5567", "org/m"},
		{"tcp://*:5556", "", "", 0, 1, "tcp://*:5556", "", ""},
		{"tcp://*:5556", "", "kv@m", 0, 2, "", "", "put ${MODEL} into it"},
		{"tcp://*:65535", "", "${MODEL}", 1, 2, "", "", "tcp://*:65535"},
		{"tcp://*:0", "", "${MODEL}", 1, 2, "", "", "tcp://*:0"},
		{"tcp://*:http", "", "${MODEL}", 1, 2, "", "", "tcp://*:http"},
	} {
		cfg, err := ParseConfig(`{"enable_kv_cache_events":true,"endpoint":"`+test.endpoint+`","replay_endpoint":"`+test.replay+`","topic":"`+test.topic+`"}`, lookup)
		if err != nil {
			t.Fatal(err)
		}
		own, err := cfg.Of("org/m", test.number, test.models)
		if test.wantAt == "" {
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%+v: %v", test, err)
			}
			continue
		}
		if err != nil || own.Endpoint != test.wantAt || own.ReplayEndpoint != test.wantReplay || own.Topic != test.want {
			t.Errorf("%+v: %q, %q, %q, %v", test, own.Endpoint, own.ReplayEndpoint, own.Topic, err)
		}
		if _, err := cfg.Of(strings.Repeat("m", 300), 0, 1); strings.Contains(test.topic, "${MODEL}") != (err != nil) {
			t.Errorf("%s of a name of 300 bytes: %v", test.topic, err)
		}
	}
}
