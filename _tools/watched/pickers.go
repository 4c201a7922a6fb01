package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"time"
)

// Pickers are a process of their own with one thread that runs, and ask with next to no code: who
// asks is on another machine as a rule, and should take little from the server on this one. What
// they use is told apart from what the server does.
type pickersProcess struct {
	*exec.Cmd
	begin io.WriteCloser
	out   bytes.Buffer

	took []time.Duration // of each answer
	used time.Duration   // of processors
}

// startPickers starts those of a URL, who wait for their turn.
func startPickers(ctx context.Context, url string) *pickersProcess {
	self, err := os.Executable()
	check(err)
	p := &pickersProcess{Cmd: exec.CommandContext(ctx, self, "-as-pickers", url, "-pickers", strconv.Itoa(*pickers), "-every", every.String(), "-turn", turn.String(), fmt.Sprintf("-plain=%t", *plain))}
	p.Env, p.Stdout, p.Stderr = append(os.Environ(), "GOMAXPROCS=1"), &p.out, os.Stderr
	p.begin, err = p.StdinPipe()
	check(err)
	check(p.Start())
	return p
}

// turn has them ask for a turn.
func (p *pickersProcess) turn() {
	_, err := io.WriteString(p.begin, "\n")
	check(err)
	check(p.Wait())
	p.used = p.ProcessState.UserTime() + p.ProcessState.SystemTime()
	check(json.Unmarshal(p.out.Bytes(), &p.took))
}

// bePickers is that process.
func bePickers(at string) {
	target, err := url.Parse(at)
	check(err)
	encoding := "Accept-Encoding: gzip\r\n"
	if *plain {
		encoding = ""
	}
	request := fmt.Appendf(nil, "GET %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: Go-http-client/1.1\r\n%s\r\n", target.Path, target.Host, encoding)
	_, err = bufio.NewReader(os.Stdin).ReadByte()
	check(err)
	took := make([][]time.Duration, *pickers)
	end := time.Now().Add(*turn)
	var asking sync.WaitGroup
	for picker := range *pickers {
		asking.Go(func() {
			time.Sleep(*every * time.Duration(picker) / time.Duration(*pickers)) // none at the times of another
			took[picker] = pick(target.Host, request, end)
		})
	}
	asking.Wait()
	all := []time.Duration{}
	for _, some := range took {
		all = append(all, some...)
	}
	check(json.NewEncoder(os.Stdout).Encode(all))
}

// pick asks on one connection until a time comes, and returns how long answers took. What they say
// it does not look at.
func pick(host string, request []byte, end time.Time) (took []time.Duration) {
	conn, err := net.Dial("tcp", host)
	check(err)
	defer conn.Close()
	in := bufio.NewReader(conn)
	ticks := time.NewTicker(*every)
	for ; time.Now().Before(end); <-ticks.C {
		began := time.Now()
		_, err := conn.Write(request)
		check(err)
		reply, err := http.ReadResponse(in, nil)
		check(err)
		if reply.StatusCode != http.StatusOK {
			check(fmt.Errorf("status %s", reply.Status))
		}
		_, err = io.Copy(io.Discard, reply.Body)
		check(err)
		took = append(took, time.Since(began))
	}
	return took
}
