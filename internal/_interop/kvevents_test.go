package interop

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-zeromq/zmq4"
	"github.com/vmihailenco/msgpack/v5"

	"ossian/internal/kv"
	"ossian/internal/kvevents"
	"ossian/internal/runner"
	"ossian/internal/soak"
)

const blockSize = 4

// A prefix is a path of blocks as text, from the first one on, behind its salt.
type prefix = string

// An index is what a router makes of events: prefixes by the hash of their last block.
type index struct {
	blocks map[uint64]prefix
	next   uint64 // number of the message that is expected
}

// apply takes a message. What contradicts the index is an error.
func (x *index) apply(payload []byte) error {
	var batch any
	if err := msgpack.Unmarshal(payload, &batch); err != nil {
		return err
	}
	var events []any
	switch batch := batch.(type) {
	case []any: // [timestamp, events, rank]
		if at, ok := batch[0].(float64); !ok || at < 1e9 {
			return fmt.Errorf("timestamp %v", batch[0])
		}
		events = batch[1].([]any)
	case map[string]any:
		events = batch["events"].([]any)
	}
	for _, event := range events {
		if err := x.event(event); err != nil {
			return fmt.Errorf("%v: %w", event, err)
		}
	}
	return nil
}

// members are those of an event by position, the tag first.
var members = map[string][]string{
	"BlockStored":      {"type", "block_hashes", "parent_block_hash", "token_ids", "block_size", "lora_id", "medium", "lora_name", "extra_keys"},
	"BlockRemoved":     {"type", "block_hashes", "medium"},
	"AllBlocksCleared": {"type"},
}

func (x *index) event(event any) error {
	named, ok := event.(map[string]any)
	if list, positional := event.([]any); positional {
		named, ok = map[string]any{}, true
		for i, value := range list {
			named[members[list[0].(string)][i]] = value
		}
	}
	if !ok {
		return fmt.Errorf("a %T", event)
	}
	switch named["type"] {
	case "BlockStored":
		return x.stored(named)
	case "BlockRemoved":
		for _, hash := range named["block_hashes"].([]any) {
			if _, known := x.blocks[number(hash)]; !known {
				return fmt.Errorf("removes %v, which is not there", hash)
			}
			delete(x.blocks, number(hash))
		}
		return nil
	case "AllBlocksCleared":
		clear(x.blocks)
		return nil
	}
	return fmt.Errorf("unknown type %v", named["type"])
}

func (x *index) stored(event map[string]any) error {
	at := ""
	if parent := event["parent_block_hash"]; parent != nil {
		found, known := x.blocks[number(parent)]
		if !known {
			return fmt.Errorf("parent %v is not there", parent)
		}
		at = found
	} else if extra, _ := event["extra_keys"].([]any); extra != nil {
		at = fmt.Sprint(extra[0])
	}
	hashes, ids := event["block_hashes"].([]any), event["token_ids"].([]any)
	if number(event["block_size"]) != blockSize || len(ids) != blockSize*len(hashes) || event["medium"] != "GPU" {
		return fmt.Errorf("%d ids for %d blocks", len(ids), len(hashes))
	}
	for i, hash := range hashes {
		for _, id := range ids[i*blockSize:][:blockSize] {
			at += fmt.Sprintf(" %d", number(id))
		}
		if was, known := x.blocks[number(hash)]; known {
			return fmt.Errorf("%v is there already, as %s", hash, was)
		}
		x.blocks[number(hash)] = at
	}
	return nil
}

// number is an integer of whatever width the decoder found.
func number(value any) uint64 {
	switch n := value.(type) {
	case int8:
		return uint64(n)
	case uint8:
		return uint64(n)
	case uint16:
		return uint64(n)
	case uint32:
		return uint64(n)
	case uint64:
		return n
	}
	panic(fmt.Sprintf("%T is no unsigned integer", value))
}

// cached lists the prefixes that a pool would find: those whose parents are all there.
func cached(m *kv.Manager) []prefix {
	type block struct {
		parent, salt uint64
		ids          string
	}
	blocks := map[uint64]block{}
	m.Prefixes(func(serial, parent, salt uint64, tokens []int32) {
		ids := ""
		for _, id := range tokens {
			ids += fmt.Sprintf(" %d", id)
		}
		blocks[serial] = block{parent, salt, ids}
	})
	var all []prefix
	for serial := range blocks {
		path, salt, at := "", uint64(0), serial
		for at != 0 {
			found, ok := blocks[at]
			if !ok {
				break
			}
			path, salt, at = found.ids+path, found.salt, found.parent
		}
		if at == 0 {
			if salt != 0 {
				path = fmt.Sprintf("[%x]", salt) + path
			}
			all = append(all, path)
		}
	}
	slices.Sort(all)
	return all
}

func free(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).String()[len("127.0.0.1:"):]
}

// A load is a pool under random use.
type load struct {
	rng    *rand.Rand
	pool   *kv.Manager
	events *kvevents.Observer
	open   []*sequence
}

type sequence struct {
	table  *kv.Table
	tokens []int32
	done   int
}

// step is one random operation. Few ids, so that prefixes are shared, and a small pool, so that
// blocks are used again.
func (l *load) step() {
	rng := l.rng
	defer l.events.Flush()
	switch op := rng.IntN(20); {
	case op < 6 && len(l.open) < 12:
		tokens := make([]int32, 1+rng.IntN(40))
		for i := range tokens {
			tokens[i] = int32(rng.IntN(2))
			if i > 12 {
				tokens[i] = int32(rng.IntN(300_000))
			}
		}
		l.open = append(l.open, &sequence{table: l.pool.Open(tokens, uint64(rng.IntN(3))), tokens: tokens})
	case op < 8 && len(l.open) > 0:
		i := rng.IntN(len(l.open))
		l.pool.Close(l.open[i].table)
		l.open = slices.Delete(l.open, i, i+1)
	case op == 8 && rng.IntN(40) == 0:
		l.pool.Forget()
	case len(l.open) > 0:
		s := l.open[rng.IntN(len(l.open))]
		s.done = max(s.done, s.table.Cached)
		n := min(s.done+1+rng.IntN(8), len(s.tokens))
		if !l.pool.Grow(s.table, n, n, 0) {
			return
		}
		s.done = n
		l.pool.Publish(s.table, s.tokens, n)
		if n == len(s.tokens) && rng.IntN(2) == 0 {
			s.tokens = append(s.tokens, int32(rng.IntN(2)))
		}
	}
}

// TestKVEvents has an independent subscriber rebuild the index of a pool from events, in both
// formats: it equals the pool's after any number of random operations, also where messages were
// lost and asked for again, and when a new loop begins.
func TestKVEvents(t *testing.T) {
	for _, format := range []kvevents.Format{kvevents.Array, kvevents.Map} {
		t.Run(string(format), func(t *testing.T) { rebuild(t, format, soak.Cases(t, 4000, 100_000)) })
	}
}

func rebuild(t *testing.T, format kvevents.Format, operations int) {
	port, replay := free(t), free(t)
	cfg, err := kvevents.ParseConfig(fmt.Sprintf(`{"enable_kv_cache_events":true,"endpoint":"tcp://*:%s","replay_endpoint":"tcp://*:%s","topic":"kv@${POD_IP}:8000@m","format":"%s","buffer_steps":1000000,"hwm":1000000,"max_queue_size":1000000}`, port, replay, format),
		func(name string) (string, bool) { return "10.0.0.9", name == "POD_IP" })
	if err != nil {
		t.Fatal(err)
	}
	publisher, err := kvevents.Open(cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer publisher.Close()
	sub := zmq4.NewSub(t.Context())
	defer sub.Close()
	if err := cmp.Or(sub.SetOption(zmq4.OptionSubscribe, "kv@10.0"), sub.Dial("tcp://127.0.0.1:"+port)); err != nil {
		t.Fatal(err)
	}
	asker := zmq4.NewDealer(t.Context())
	defer asker.Close()
	if err := asker.Dial("tcp://127.0.0.1:" + replay); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); publisher.Stats().Subscribers < 1 && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
	rng := rand.New(rand.NewPCG(3, uint64(len(format))))
	made := index{blocks: map[uint64]prefix{}}
	lost, loops := 0, 0
	for range 3 { // loops of an engine: what one had cached is gone with it
		l := &load{rng: rng, pool: kv.New(blockSize, []runner.Group{{Blocks: 80}, {Blocks: 40, Window: 6}}, true), events: publisher.Observer()}
		l.pool.Observe(l.events)
		loops++
		for done := 0; done < operations/3; {
			for range min(1+rng.IntN(500), operations) {
				l.step()
				done++
			}
			lost += made.catchUp(t, rng, sub, asker, publisher.Stats().Published)
			got := make([]prefix, 0, len(made.blocks))
			for _, path := range made.blocks {
				got = append(got, path)
			}
			slices.Sort(got)
			if want := cached(l.pool); !slices.Equal(got, want) {
				t.Fatalf("after %d operations of loop %d the subscriber knows %d prefixes, the pool has %d", done, loops, len(got), len(want))
			}
		}
		if err := l.pool.Check(); err != nil {
			t.Error(err)
		}
	}
	if lost == 0 || made.next < uint64(operations/50) {
		t.Errorf("%d messages, %d lost and asked for again: too little happened", made.next, lost)
	}
	t.Logf("%s: %d operations, %d messages, %d of them lost and had again: the indexes agree", format, operations, made.next, lost)
}

// catchUp takes the messages up to end. Some it loses, and asks for all from there on again.
func (x *index) catchUp(t *testing.T, rng *rand.Rand, sub, asker zmq4.Socket, end uint64) (lost int) {
	take := func(frames [][]byte) {
		if err := x.apply(frames[2]); err != nil {
			t.Fatalf("message %d: %v", x.next, err)
		}
		x.next++
	}
	for x.next < end {
		msg, err := sub.Recv()
		if err != nil || len(msg.Frames) != 3 || !strings.HasPrefix(string(msg.Frames[0]), "kv@10.0.0.9:8000@m") {
			t.Fatalf("%v: %v", err, msg)
		}
		switch at := binary.BigEndian.Uint64(msg.Frames[1]); {
		case at < x.next: // a replay had it
		case at > x.next || rng.IntN(30) == 0:
			lost++
			if err := asker.SendMulti(zmq4.NewMsgFrom(nil, binary.BigEndian.AppendUint64(nil, x.next))); err != nil {
				t.Fatal(err)
			}
			for {
				again, err := asker.Recv()
				if err != nil || len(again.Frames) != 3 || len(again.Frames[0]) != 0 {
					t.Fatalf("%v: %v", err, again)
				}
				if binary.BigEndian.Uint64(again.Frames[1]) == ^uint64(0) {
					break
				}
				if n := binary.BigEndian.Uint64(again.Frames[1]); n != x.next {
					t.Fatalf("replay has %d, %d expected", n, x.next)
				}
				take(again.Frames)
			}
		default:
			take(msg.Frames)
		}
	}
	return lost
}
