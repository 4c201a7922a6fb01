package server

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"ossian/internal/engine"
	"ossian/internal/limits"
	"ossian/internal/runner"
	"ossian/internal/sched"
)

// clientEnv makes the test binary the client of TestCON1: the address and the
// number of streams.
const clientEnv = "OSSIAN_CON1_CLIENT"

// TestCON1 has many streams at once, read by a second process, whose steps all end
// at the same time. -short has 500, CON1_STREAMS another number.
func TestCON1(t *testing.T) {
	if to := os.Getenv(clientEnv); to != "" {
		client(t, to)
		return
	}
	streams, steps := 10_000, 20
	if testing.Short() {
		streams = 500
	}
	if n, err := strconv.Atoi(os.Getenv("CON1_STREAMS")); err == nil {
		streams = n
	}
	var step atomic.Int64
	ended := make([]int64, 1<<12) // [step]: when
	u := setup{cost: time.Second, limits: map[limits.ID]int64{limits.Connections: 1 << 17},
		engine: engine.Config{Sched: sched.Config{MaxQueue: streams, NoPrefixCache: true}}}
	if testing.Short() {
		u.cost = 100 * time.Millisecond
	}
	u.next = func([]int32, uint64) int32 { return 100_000 + int32(step.Load()) }
	u.launch = func(k int) { // its tokens name it, and are there when its time is over
		step.Store(int64(k))
		ended[k%len(ended)] = time.Now().Add(u.cost).UnixNano()
	}
	u.info.MaxSeqs, u.info.MaxTokens, u.info.MaxLen = streams, 4*streams, 256
	u.info.Groups = []runner.Group{{Blocks: 16 * streams}}
	g := start(t, u)
	idle := heap()
	cmd := exec.Command(os.Args[0], "-test.run=^TestCON1$")
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s %d %d", clientEnv, g.addr, streams, steps))
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	most, from := 0, int64(0) // from: the first step that has all streams
	for deadline := time.Now().Add(time.Minute); most < streams && time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		most, from = max(most, g.model.Engine.Stats().Running), step.Load()+1
	}
	full := heap()
	if err := cmd.Wait(); err != nil {
		t.Fatalf("client: %v\n%s", err, out.Bytes())
	}
	if most < streams {
		t.Fatalf("%d of %d streams ran at once", most, streams)
	}
	// The client sends pairs: the step that a chunk's token names, when it came.
	data := out.Bytes()
	data = data[:len(data)-len(data)%16]
	var late []time.Duration
	for ; len(data) > 0; data = data[16:] {
		k, at := int64(binary.LittleEndian.Uint64(data)), int64(binary.LittleEndian.Uint64(data[8:]))
		if k >= from && ended[k%int64(len(ended))] > 0 {
			late = append(late, time.Duration(at-ended[k%int64(len(ended))]))
		}
	}
	if len(late) < streams*steps/2 {
		t.Fatalf("%d chunks of %d are of steps with all streams", len(late), streams*steps)
	}
	slices.Sort(late)
	per := (full - idle) / int64(streams)
	t.Logf("%d streams, %d chunks: %d bytes per stream (runner and engine included); delay p50 %v, p99 %v, most %v",
		streams, len(late), per, late[len(late)/2], late[len(late)*99/100], late[len(late)-1])
	if per > 40<<10 {
		t.Errorf("%d bytes per stream, at most %d wanted", per, 40<<10)
	}
	g.idle()
}

// heap returns the bytes that live objects and stacks take.
func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}

// client reads streams and writes which token came when. Token ids are text here:
// return_token_ids is on.
func client(t *testing.T, to string) {
	var addr string
	var streams, steps int
	if _, err := fmt.Sscan(to, &addr, &streams, &steps); err != nil {
		t.Fatal(err)
	}
	body := fmt.Sprintf(`{"prompt":[1],"max_tokens":%d,"ignore_eos":true,"stream":true,"return_token_ids":true}`, steps)
	request := fmt.Sprintf("POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	var mu sync.Mutex
	w := bufio.NewWriter(os.Stdout)
	var wg sync.WaitGroup
	dialing := make(chan struct{}, 64)
	for range streams {
		wg.Go(func() {
			dialing <- struct{}{}
			c, err := net.Dial("tcp", addr)
			<-dialing
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			io.WriteString(c, request)
			r := bufio.NewReaderSize(c, 1024)
			var own []byte
			done := false
			for {
				line, err := r.ReadString('\n')
				if _, ids, ok := strings.Cut(line, `"token_ids":[`); ok {
					now := uint64(time.Now().UnixNano())
					if n, err := strconv.Atoi(ids[:strings.IndexAny(ids, ",]")]); err == nil {
						own = binary.LittleEndian.AppendUint64(own, uint64(n-100_000))
						own = binary.LittleEndian.AppendUint64(own, now)
					}
				}
				done = done || line == "data: [DONE]\n"
				if err != nil {
					break
				}
			}
			if !done {
				t.Error("a stream did not end with [DONE]")
			}
			mu.Lock()
			w.Write(own)
			mu.Unlock()
		})
	}
	wg.Wait()
	w.Flush()
	if t.Failed() {
		os.Exit(1)
	}
	os.Exit(0) // the test framework's own words are no part of the output
}
