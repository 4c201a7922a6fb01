package kvevents

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-zeromq/zmq4"
)

// unset is an environment without variables.
func unset(string) (string, bool) { return "", false }

func TestParseConfig(t *testing.T) {
	env := func(name string) (string, bool) {
		value, ok := map[string]string{"POD_IP": "10.0.0.1", "PYTHONHASHSEED": "7"}[name]
		return value, ok
	}
	cfg, err := ParseConfig(`{"enable_kv_cache_events":true,"publisher":"zmq","endpoint":"tcp://*:5556","topic":"kv@${POD_IP}:8000@m","replay_endpoint":"tcp://*:5557"}`, env)
	if err != nil || !cfg.On() || cfg.Topic != "kv@10.0.0.1:8000@m" || cfg.Seed != "7" || cfg.Format != Array || cfg.BufferSteps != 10_000 || cfg.mostBehind() != 100_000 {
		t.Errorf("%+v, %v", cfg, err)
	}
	for _, off := range []string{"", "{}", `{"enable_kv_cache_events":false}`, `{"enable_kv_cache_events":true,"publisher":"null"}`} {
		if cfg, err := ParseConfig(off, env); err != nil || cfg.On() {
			t.Errorf("%q: %+v, %v", off, cfg, err)
		}
	}
	for text, want := range map[string]string{
		`{`: "EOF", `[]`: "array", `{} {}`: "one JSON object", `{"endpont":"x"}`: `"endpont"`, `{"hwm":"x"}`: "hwm", `{"hwm":0}`: "hwm 0", `{"buffer_steps":-1}`: "buffer_steps -1",
		`{"publisher":"kafka"}`: "kafka", `{"format":"json"}`: `"json"`, `{"endpoint":"5556"}`: `"5556"`, `{"endpoint":"tcp://*"}`: "tcp://*", `{"endpoint":"inproc://x"}`: "inproc",
		`{"endpoint":"ipc://"}`: "ipc", `{"replay_endpoint":"udp://*:1"}`: "replay_endpoint", `{"topic":"${NOWHERE}"}`: "NOWHERE", `{"topic":"${"}`: "topic", `{"topic":"` + strings.Repeat("x", 256) + `"}`: "256",
	} {
		if _, err := ParseConfig(text, env); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "--kv-events-config") {
			t.Errorf("%s: %v, want %q in it", text, err, want)
		}
	}
}

func FuzzParseConfig(f *testing.F) {
	f.Add(`{"enable_kv_cache_events":true,"topic":"${A}","endpoint":"tcp://[::]:1"}`)
	f.Fuzz(func(t *testing.T, text string) {
		cfg, err := ParseConfig(text, func(name string) (string, bool) { return name, len(name) > 1 })
		if _, bad := parseEndpoint(cfg.Endpoint); err == nil && bad != nil {
			t.Errorf("%s: %v", text, bad)
		}
	})
}

func TestEndpoints(t *testing.T) {
	for text, want := range map[string]endpoint{"tcp://*:5556": {"tcp", ":5556", true}, "tcp://[::]:1": {"tcp", "[::]:1", true}, "tcp://router:1": {"tcp", "router:1", false}, "ipc:///tmp/x": {"unix", "/tmp/x", true}} {
		if got, err := parseEndpoint(text); err != nil || got != want {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
}

// opened returns a publisher on a socket file, and another one for replays.
func opened(t *testing.T, change func(*Config)) (p *Publisher, events, replays string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "kv") // paths of sockets are short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	events, replays = filepath.Join(dir, "e"), filepath.Join(dir, "r")
	cfg, err := ParseConfig(fmt.Sprintf(`{"enable_kv_cache_events":true,"endpoint":"ipc://%s","replay_endpoint":"ipc://%s","topic":"t"}`, events, replays), unset)
	if err != nil {
		t.Fatal(err)
	}
	if change != nil {
		change(&cfg)
	}
	if p, err = Open(cfg, slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p, events, replays
}

// Hashes are what Python's hashlib and cbor2 5.7 make of the same blocks:
//
//	parent = sha256(cbor2.dumps("0", canonical=True)).digest()
//	parent = sha256(cbor2.dumps([parent, [0, 23, 24, 300000], None], canonical=True)).digest()
//	parent = sha256(cbor2.dumps([parent, [255, 256, 65535, 65536], None], canonical=True)).digest()
//
// and for the salted block, [parent, [1], ["ff"]] behind the seed.
func TestHashes(t *testing.T) {
	first, scratch := blockDigest(nil, seedDigest(""), []int32{0, 23, 24, 300_000}, 0)
	second, _ := blockDigest(scratch, first, []int32{255, 256, 65_535, 65_536}, 0)
	salted, _ := blockDigest(nil, seedDigest("0"), []int32{1}, 255)
	for i, got := range []uint64{first.hash(), second.hash(), salted.hash()} {
		if want := golden[i]; got != want {
			t.Errorf("hash %d is %d, want %d", i, got, want)
		}
	}
	if seedDigest("1") == seedDigest("0") {
		t.Error("the seed does not count")
	}
}

// Payloads are, but for the time, what Python's msgpack 1.1 packs of the same lists and maps.
func TestPayloads(t *testing.T) {
	at := time.Unix(1_700_000_000, 500_000_000)
	events := []event{
		{kind: stored, hashes: []uint64{1, 1 << 63}, parent: 200, behind: true, tokens: []int32{127, 128, 65_536, 5}, blockSize: 2},
		{kind: stored, hashes: []uint64{7, 8}, tokens: []int32{1, 2}, blockSize: 1, salt: 255},
		{kind: removed, hashes: make([]uint64, 20)}, {kind: allCleared}}
	for _, format := range []Format{Array, Map} {
		if got := hex.EncodeToString(appendPayload(nil, format, at, events)); got != payloads[format] {
			t.Errorf("%s: %s, want %s", format, got, payloads[format])
		}
	}
}

// An endpoint in use ends the start, and its name is in the error; the socket of a process that
// has gone does not.
func TestEndpointInUse(t *testing.T) {
	l, err := net.Listen("tcp", ":0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	_, events, _ := opened(t, nil)
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, endpoint := range []string{"tcp://*:" + port, "ipc://" + events, "ipc://" + file} {
		cfg, err := ParseConfig(`{"enable_kv_cache_events":true,"endpoint":"`+endpoint+`"}`, unset)
		if err != nil {
			t.Fatal(err)
		}
		if p, err := Open(cfg, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), endpoint) {
			t.Errorf("%s: %v", endpoint, err)
			p.Close()
		}
	}
	stale := filepath.Join(filepath.Dir(events), "s")
	gone, err := net.ListenUnix("unix", &net.UnixAddr{Name: stale, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	gone.SetUnlinkOnClose(false)
	gone.Close()
	cfg, _ := ParseConfig(`{"enable_kv_cache_events":true,"endpoint":"ipc://`+stale+`"}`, unset)
	p, err := Open(cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	p.Close()
	p.Close()
}

// say has an observer tell of n blocks, one a message.
func say(o *Observer, from, n int) {
	for i := range n {
		o.Stored(uint64(from+i+1), uint64(from+i), 0, []int32{int32(i), 2})
		o.Flush()
	}
}

// await waits until a condition holds.
func await(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within a minute: %s", what)
		}
	}
}

// A subscriber that does not read keeps nobody: what it misses is counted, others get all, and a
// replay begins at the oldest message that is kept, whatever is asked for.
func TestSlowSubscriber(t *testing.T) {
	p, events, replays := opened(t, func(c *Config) { c.HighWater, c.BufferSteps = 50, 20 })
	slow, err := net.Dial("unix", events)
	if err != nil {
		t.Fatal(err)
	}
	defer slow.Close()
	greeting := append(append([]byte{0xff, 0, 0, 0, 0, 0, 0, 0, 1, 0x7f, 3, 0}, "NULL"...), make([]byte, 48)...)
	ready := []byte("\x05READY\x0bSocket-Type\x00\x00\x00\x03SUB")
	write := func(frames ...[]byte) {
		for _, frame := range frames {
			if _, err := slow.Write(frame); err != nil {
				t.Fatal(err)
			}
		}
	}
	write(greeting, []byte{4, byte(len(ready))}, ready, []byte{0, 1, 1})
	if _, err := io.CopyN(io.Discard, slow, 64); err != nil {
		t.Fatal(err)
	}
	quick := zmq4.NewSub(t.Context())
	defer quick.Close()
	if err := quick.SetOption(zmq4.OptionSubscribe, ""); err != nil {
		t.Fatal(err)
	}
	if err := quick.Dial("ipc://" + events); err != nil {
		t.Fatal(err)
	}
	await(t, "both listen", func() bool { return p.Stats().Subscribers == 2 })
	o, number, sent := p.Observer(), uint64(0), 0
	for ; p.Stats().Dropped == 0 && sent < 100_000; sent += 40 { // the other one is never far behind
		say(o, sent, 40)
		for range 40 {
			msg, err := quick.Recv()
			if err != nil || binary.BigEndian.Uint64(msg.Frames[1]) != number || string(msg.Frames[0]) != "t" {
				t.Fatalf("%v: %v, want %d", err, msg, number)
			}
			number++
		}
		if sent > 20_000 { // its socket is full by now; it reads on, and is far behind
			_, _ = io.CopyN(io.Discard, slow, 100)
		}
	}
	if p.Stats().Dropped == 0 {
		t.Error("nothing was dropped")
	}
	asker := zmq4.NewDealer(t.Context())
	defer asker.Close()
	if err := asker.Dial("ipc://" + replays); err != nil {
		t.Fatal(err)
	}
	for start, want := range map[uint64]uint64{0: number - 20, number - 3: number - 3, number: 0, ^uint64(0): 0, number + 5: 0} {
		if err := asker.SendMulti(zmq4.NewMsgFrom(nil, binary.BigEndian.AppendUint64(nil, start))); err != nil {
			t.Fatal(err)
		}
		n := 0
		for ; ; n++ {
			msg, err := asker.Recv()
			if err != nil {
				t.Fatal(err)
			}
			if bytes.Equal(msg.Frames[1], endOfReplay) {
				break
			}
			if at := binary.BigEndian.Uint64(msg.Frames[1]); at != want+uint64(n) {
				t.Fatalf("from %d: message %d has number %d", start, n, at)
			}
		}
		if want > 0 && uint64(n) != number-want || want == 0 && n != 0 {
			t.Errorf("from %d: %d messages", start, n)
		}
	}
}

// A held connection takes the journal's lock at the end of the handshake.
type held struct {
	net.Conn
	journal *journal
	shaken  chan bool
}

func (h *held) SetDeadline(at time.Time) error {
	if at.IsZero() {
		h.journal.mu.Lock()
		close(h.shaken)
	}
	return h.Conn.SetDeadline(at)
}

// A subscriber gets all that comes from when it is known as one, whatever else is late.
func TestFirstMessage(t *testing.T) {
	p, _, _ := opened(t, nil)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	client, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	conn, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	shaken, served := make(chan bool), make(chan bool)
	go func() {
		defer close(served)
		p.serveSubscriber(&peer{Conn: &held{conn, p.journal, shaken}, server: true})
	}()
	greeting := append(append([]byte{0xff, 0, 0, 0, 0, 0, 0, 0, 1, 0x7f, 3, 0}, "NULL"...), make([]byte, 48)...)
	ready := "\x05READY\x0bSocket-Type\x00\x00\x00\x03SUB"
	if _, err := client.Write(append(greeting, "\x04"+string(rune(len(ready)))+ready+"\x00\x01\x01"...)); err != nil {
		t.Fatal(err)
	}
	<-shaken
	// It must not be known before it is clear where it begins, which takes the lock. That it is not
	// can only be waited for.
	for end := time.Now().Add(20 * time.Millisecond); p.subscribers.Load() == 0 && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	if p.subscribers.Load() > 0 {
		t.Error("it is known before it is clear where it begins")
	}
	p.journal.mu.Unlock()
	await(t, "it listens", func() bool { return p.Stats().Subscribers == 1 })
	p.journal.append([]byte("first"))
	_ = client.SetDeadline(time.Now().Add(time.Minute))
	var got []byte
	for one := make([]byte, 1); !bytes.HasSuffix(got, []byte("first")); got = append(got, one...) {
		if _, err := client.Read(one); err != nil {
			t.Fatalf("%v behind %q", err, got)
		}
	}
	client.Close()
	<-served
}

// What strangers send ends their own connection and nothing else.
func TestStrangers(t *testing.T) {
	p, events, replays := opened(t, nil)
	greeting := append(append([]byte{0xff, 0, 0, 0, 0, 0, 0, 0, 1, 0x7f, 3, 0}, "NULL"...), make([]byte, 48)...)
	huge := []byte{6, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}
	ready := func(kind string) []byte {
		body := "\x05READY\x0bSocket-Type" + string([]byte{0, 0, 0, byte(len(kind))}) + kind
		return append([]byte{4, byte(len(body))}, body...)
	}
	for name, text := range map[string][]byte{
		"HTTP": []byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n" + strings.Repeat("x", 100)), "huge frame in the handshake": append(bytes.Clone(greeting), huge...),
		"another kind": append(bytes.Clone(greeting), ready("PUSH")...), "huge frame": append(append(bytes.Clone(greeting), ready("SUB")...), huge...),
		"frames without end": append(append(bytes.Clone(greeting), ready("SUB")...), bytes.Repeat([]byte{1, 0}, 100)...),
	} {
		for _, path := range []string{events, replays} {
			conn, err := net.Dial("unix", path)
			if err != nil {
				t.Fatal(err)
			}
			_ = conn.SetDeadline(time.Now().Add(time.Minute))
			_, _ = conn.Write(text)
			if _, err := io.ReadAll(conn); err != nil && strings.Contains(err.Error(), "timeout") {
				t.Errorf("%s: the connection stays open: %v", name, err)
			}
			conn.Close()
		}
	}
	say(p.Observer(), 0, 3)
	if n := p.Stats().Published; n != 3 {
		t.Errorf("%d messages", n)
	}
}

// It connects where it does not listen, and again when the other side comes back.
func TestConnects(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	p, _, _ := opened(t, func(c *Config) { c.Endpoint, c.ReplayEndpoint = "tcp://"+address, "" })
	o := p.Observer()
	for round := range 2 {
		sub := zmq4.NewSub(t.Context())
		if err := sub.SetOption(zmq4.OptionSubscribe, "t"); err != nil {
			t.Fatal(err)
		}
		await(t, "the address is free", func() bool { return sub.Listen("tcp://"+address) == nil })
		await(t, "connected", func() bool { return p.Stats().Subscribers == 1 })
		say(o, round, 1)
		if msg, err := sub.Recv(); err != nil || len(msg.Frames) != 3 {
			t.Fatalf("%v: %v", err, msg)
		}
		sub.Close()
		await(t, "gone", func() bool { return p.Stats().Subscribers == 0 })
	}
}

// A loop whose place another one has taken is not heard.
func TestAnotherLoop(t *testing.T) {
	p, _, _ := opened(t, nil)
	first := p.Observer()
	say(first, 0, 2)
	second := p.Observer() // tells that all is gone
	say(first, 2, 5)
	say(second, 0, 1)
	if n := p.Stats().Published; n != 4 {
		t.Errorf("%d messages, want 4", n)
	}
}

var golden = [...]uint64{7807593757778035154, 6002668623297240067, 5496855773891552595}

var payloads = map[Format]string{
	Array: "93cb41d954fc402000009497ab426c6f636b53746f7265649201cf8000000000000000ccc8947fcc80ce000100000502c0a347505599ab426c6f636b53746f726564920708c092010201c0a3475055c09291a26666c093ac426c6f636b52656d6f766564dc00140000000000000000000000000000000000000000a347505591b0416c6c426c6f636b73436c656172656400",
	Map:   "83a27473cb41d954fc40200000a66576656e74739487a474797065ab426c6f636b53746f726564ac626c6f636b5f6861736865739201cf8000000000000000b1706172656e745f626c6f636b5f68617368ccc8a9746f6b656e5f696473947fcc80ce0001000005aa626c6f636b5f73697a6502a76c6f72615f6964c0a66d656469756da347505588a474797065ab426c6f636b53746f726564ac626c6f636b5f686173686573920708b1706172656e745f626c6f636b5f68617368c0a9746f6b656e5f696473920102aa626c6f636b5f73697a6501a76c6f72615f6964c0a66d656469756da3475055aa65787472615f6b6579739291a26666c083a474797065ac426c6f636b52656d6f766564ac626c6f636b5f686173686573dc00140000000000000000000000000000000000000000a66d656469756da347505581a474797065b0416c6c426c6f636b73436c6561726564b2646174615f706172616c6c656c5f72616e6b00",
}

// A stranger is a connection from which prepared bytes come.
type stranger struct {
	net.Conn
	from *bytes.Reader
}

func (s stranger) Read(to []byte) (int, error) { return s.from.Read(to) }

// FuzzReceive: whatever comes is a few small messages, or an error.
func FuzzReceive(f *testing.F) {
	f.Add([]byte{0, 1, 1, 4, 11, 9, 'S', 'U', 'B', 'S', 'C', 'R', 'I', 'B', 'E', 'x'})
	f.Add([]byte{1, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 1})
	f.Add([]byte{2, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, data []byte) {
		p := &peer{Conn: stranger{from: bytes.NewReader(data)}, shaken: true}
		heard := &subscription{topics: map[string]int{}}
		for {
			frames, command, err := p.receive()
			if err != nil {
				return
			}
			if n := len(bytes.Join(frames, nil)); n > mostInbound || len(frames) > mostFrames || len(frames) == 0 {
				t.Fatalf("%d frames of %d bytes", len(frames), n)
			}
			if topic, wanted, ok := said(frames, command); ok {
				heard.change(topic, wanted)
			}
		}
	})
}

// BenchmarkObserver is what the loop pays for a block of 16 tokens, in a message of its own.
func BenchmarkObserver(b *testing.B) {
	cfg, _ := ParseConfig(`{"enable_kv_cache_events":true}`, unset)
	p := &Publisher{cfg: cfg, clock: time.Now, journal: newJournal(cfg.mostMessages(), journalBytes)}
	o := p.Observer()
	tokens := make([]int32, 16)
	for serial := uint64(1); b.Loop(); serial++ {
		tokens[0] = int32(serial)
		o.Stored(serial, 0, 0, tokens)
		o.Flush()
		if serial > 1000 {
			o.Removed(serial - 1000)
		}
	}
}
