package interop

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-zeromq/zmq4"
	"github.com/vmihailenco/msgpack/v5"

	"ossian/internal/command/serve"
)

// ports returns the first of two free ones beside each other.
func ports(t *testing.T) int {
	t.Helper()
	for range 100 {
		first, err := strconv.Atoi(free(t))
		if err != nil {
			t.Fatal(err)
		}
		if l, err := net.Listen("tcp", fmt.Sprintf(":%d", first+1)); err == nil {
			l.Close()
			return first
		}
	}
	t.Fatal("no two free ports beside each other")
	return 0
}

// post asks the server, and returns the reply, which must be 200.
func post(t *testing.T, url, body string) []byte {
	t.Helper()
	reply, err := http.Post(url, "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer reply.Body.Close()
	text, err := io.ReadAll(reply.Body)
	if err != nil || reply.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s %v", reply.Status, text, err)
	}
	return text
}

// heard takes messages until one has an event of the type, and returns that event.
func heard(t *testing.T, sub zmq4.Socket, topic, kind string) []any {
	t.Helper()
	for {
		msg, err := sub.Recv()
		if err != nil {
			t.Fatal(err)
		}
		if string(msg.Frames[0]) != topic {
			t.Fatalf("topic %q, %q expected", msg.Frames[0], topic)
		}
		var batch []any
		if err := msgpack.Unmarshal(msg.Frames[2], &batch); err != nil {
			t.Fatal(err)
		}
		for _, event := range batch[1].([]any) {
			if list := event.([]any); list[0] == kind {
				return list
			}
		}
	}
}

// TestModelsTell: of two models in a server that take turns in memory each tells its own
// subscribers, under its own topic, which blocks it has: those that the render route says a prompt
// begins with; and when it goes out of memory, that nothing is left.
func TestModelsTell(t *testing.T) {
	first := ports(t)
	ctx, stop := context.WithCancel(t.Context())
	log := &bytes.Buffer{}
	address, ended, err := serve.Start(ctx, []string{"--port", "0", "--threads", "1", "--store", "memory", "--max-num-seqs", "2", "--max-model-len", "256", "--model", "a=ossian-tiny", "--model", "b=ossian-tiny", "--models-resident", "1",
		"--kv-events-config", fmt.Sprintf(`{"enable_kv_cache_events":true,"endpoint":"tcp://*:%d","topic":"kv@pod:8000@${MODEL}"}`, first)}, log)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("%v\n%s", err, log)
		}
	}()
	url := "http://" + address
	listeners := map[string]zmq4.Socket{}
	for i, model := range []string{"a", "b"} {
		sub := zmq4.NewSub(t.Context(), zmq4.WithDialerRetry(50*time.Millisecond), zmq4.WithDialerMaxRetries(-1))
		defer sub.Close()
		if err := cmp.Or(sub.SetOption(zmq4.OptionSubscribe, "kv@"), sub.Dial(fmt.Sprintf("tcp://127.0.0.1:%d", first+i))); err != nil {
			t.Fatal(err)
		}
		listeners[model] = sub
	}
	for { // until both are heard
		reply, err := http.Get(url + "/metrics")
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(reply.Body)
		reply.Body.Close()
		if err == nil && strings.Contains(string(text), "\nossian_kv_events_subscribers 2\n") {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	for _, model := range []string{"a", "b", "a"} {
		body := fmt.Sprintf(`{"model":%q,"prompt":%q,"max_tokens":2}`, model, strings.Repeat(model+" prompt of several blocks ", 8))
		post(t, url+"/v1/completions", body)
		var rendered []struct {
			IDs []uint64 `json:"token_ids"`
		}
		if err := json.Unmarshal(post(t, url+"/v1/completions/render", body), &rendered); err != nil {
			t.Fatal(err)
		}
		event := heard(t, listeners[model], "kv@pod:8000@"+model, "BlockStored")
		var ids []uint64
		for _, id := range event[3].([]any) {
			ids = append(ids, number(id))
		}
		if len(ids) < 32 || !slices.Equal(ids, rendered[0].IDs[:len(ids)]) {
			t.Errorf("model %s stores %v, its prompt is %v", model, ids, rendered[0].IDs)
		}
		if model == "b" { // for which a had to leave
			heard(t, listeners["a"], "kv@pod:8000@a", "AllBlocksCleared")
		}
	}
	heard(t, listeners["b"], "kv@pod:8000@b", "AllBlocksCleared")
}
