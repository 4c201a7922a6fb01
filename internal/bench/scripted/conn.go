package scripted

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
)

const recordPath = "/scripted/record"

// A caller is a connection; its goroutine reads the requests and writes what is not a
// stream.
type caller struct {
	srv  *Server
	conn net.Conn
	in   *bufio.Reader
	turn int // requests before this one
}

// converse answers the requests of a connection, one after the other.
func (srv *Server) converse(c net.Conn) {
	d := &caller{srv: srv, conn: c, in: bufio.NewReader(c)}
	for ; ; d.turn++ {
		req, err := http.ReadRequest(d.in)
		if err != nil {
			return
		}
		text, err := io.ReadAll(io.LimitReader(req.Body, maxBody))
		if err != nil {
			return
		}
		received := srv.now()
		if !d.answer(req, text, received) || req.Close {
			return
		}
	}
}

// answer answers one request; false = the connection cannot be used any more.
func (d *caller) answer(req *http.Request, text []byte, received time.Duration) bool {
	call := req.Method + " " + req.URL.Path
	d.srv.mu.Lock()
	d.srv.calls[call]++
	d.srv.mu.Unlock()
	switch call {
	case "POST /v1/completions":
		return d.generate(req, completions, text, received)
	case "POST /v1/chat/completions":
		return d.generate(req, chat, text, received)
	case "POST /v1/responses":
		return d.generate(req, responses, text, received)
	case "GET /v1/models":
		m := quote(d.srv.opt.Model)
		return d.json(http.StatusOK, fmt.Appendf(nil, `{"object":"list","data":[{"id":%s,"object":"model","created":1767225600,"owned_by":"scripted","root":%s,"parent":null,"max_model_len":131072}]}`, m, m))
	case "POST /tokenize", "POST /detokenize":
		if d.srv.opt.Tokenize {
			return d.token(req.URL.Path, text)
		}
	case "GET /metrics":
		return d.reply(http.StatusOK, "text/plain; version=0.0.4; charset=utf-8", d.srv.metrics())
	case "GET " + recordPath:
		d.srv.settle()
		return d.record()
	case "DELETE " + recordPath:
		d.srv.settle() // else the end of a request that a client has seen would be in the next log
		d.srv.Forget()
		return d.reply(http.StatusOK, "text/plain", nil)
	case "GET /health", "POST /reset_prefix_cache", "POST /reset_mm_cache", "POST /reset_encoder_cache",
		"POST /flush_cache", "POST /start_profile", "POST /stop_profile":
		return d.reply(http.StatusOK, "text/plain", nil)
	}
	return d.problem(http.StatusNotFound, call+" is not served here")
}

// generate plays the script of a request.
func (d *caller) generate(req *http.Request, api api, text []byte, received time.Duration) bool {
	a, err := parseAsk(text)
	if err != nil {
		return d.problem(http.StatusBadRequest, err.Error())
	}
	s := d.srv.stream(d.conn, api, req.Header.Get("X-Request-Id"), a)
	s.record.Path, s.record.Turn, s.record.Received = req.URL.Path, d.turn, received
	s.last = req.Close
	s.start(received)
	if !d.pause(received + s.script.Headers) {
		d.srv.end(s, "the server has stopped")
		return false
	}
	switch s.script.Fault.Kind {
	case Refuse:
		s.fate = reset
		d.srv.end(s, "")
		return false
	case Status, HTML:
		ok := d.wrong(s)
		d.srv.end(s, "")
		return ok
	}
	if !a.Stream {
		return d.complete(s)
	}
	return d.stream(s)
}

// wrong answers with a fault that is no stream.
func (d *caller) wrong(s *stream) bool {
	if s.script.Fault.Kind == HTML {
		return d.reply(http.StatusOK, "text/html; charset=utf-8", []byte("<!DOCTYPE html><title>gateway</title><p>the script says so"))
	}
	status := s.script.Fault.Status
	if status == 0 {
		status = http.StatusInternalServerError
	}
	return d.problem(status, "the script says so")
}

// stream writes the head of an answer and hands the rest to a sender.
func (d *caller) stream(s *stream) bool {
	k := &ink{out: head(http.StatusOK, "text/event-stream; charset=utf-8", "transfer-encoding: chunked\r\nx-request-id: "+s.record.ID)}
	now := d.srv.now()
	switch {
	case s.script.Fault.Kind == Nothing:
		if s.api != responses {
			s.end(k)
		}
		k.out = append(k.out, "0\r\n\r\n"...)
		s.fate = whole
	case s.api == responses:
		s.begin(k, now)
	case s.api == chat && s.shape.RoleEarly:
		s.choice(k, choice{role: true}, now)
	}
	var err error
	if s.out, err = newOutlet(d.conn); err == nil {
		_, err = d.conn.Write(k.out)
	}
	if err != nil || s.fate == whole {
		d.srv.end(s, text(err))
		return err == nil
	}
	senders := d.srv.senders
	if !senders[d.srv.streams.Load()%int64(len(senders))].put(s) {
		d.srv.end(s, "the server has stopped")
		return false
	}
	if _, err := d.in.Peek(1); err != nil { // until the next request comes, or the client goes away
		s.gone.Store(true)
	}
	<-s.done
	return s.fate == whole && s.record.Err == ""
}

// text is the text of err, "" of none.
func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// complete answers a request that wants no stream, when its last chunk is due.
func (d *caller) complete(s *stream) bool {
	for s.sent < s.tokens {
		n := min(s.script.of(s.chunk), s.tokens-s.sent)
		s.sent += n
		s.chunk++
		if s.sent < s.tokens {
			s.grid += s.script.Gap
			s.due = max(s.due, s.grid+s.jitter())
		}
	}
	if !d.pause(s.due) {
		d.srv.end(s, "the server has stopped")
		return false
	}
	now := d.srv.now()
	s.sentAt(now, s.tokens)
	s.fate = whole
	ok := d.json(http.StatusOK, s.answer(now))
	d.srv.end(s, "")
	return ok
}

// pause waits until the time at; false = the server has stopped.
func (d *caller) pause(at time.Duration) bool {
	wait := at - d.srv.now()
	if wait <= 0 {
		return true
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-d.srv.stopped:
		return false
	}
}

// token answers /tokenize and /detokenize: the id of a token is a code point.
func (d *caller) token(path string, text []byte) bool {
	var ask struct {
		Prompt string
		Tokens []rune
	}
	if err := json.Unmarshal(text, &ask); err != nil {
		return d.problem(http.StatusBadRequest, "request body: "+err.Error())
	}
	if path == "/detokenize" {
		return d.json(http.StatusOK, fmt.Appendf(nil, `{"prompt":%s}`, quote(string(ask.Tokens))))
	}
	ids := []rune(ask.Prompt)
	list := strings.ReplaceAll(strings.Trim(fmt.Sprint(ids), "[]"), " ", ",")
	return d.json(http.StatusOK, fmt.Appendf(nil, `{"count":%d,"max_model_len":131072,"tokens":[%s],"token_strs":null}`, len(ids), list))
}

// record sends the log. Its length is not known before.
func (d *caller) record() bool {
	if _, err := d.conn.Write(head(http.StatusOK, "application/jsonl", "connection: close")); err != nil {
		return false
	}
	_ = d.srv.Log().write(d.conn) // a client that goes away early has what it wanted
	return false
}

func (d *caller) problem(status int, message string) bool {
	return d.json(status, fmt.Appendf(nil, `{"error":{"message":%s,"type":"scripted","param":null,"code":%d}}`, quote(message), status))
}

func (d *caller) json(status int, body []byte) bool { return d.reply(status, "application/json", body) }

func (d *caller) reply(status int, kind string, body []byte) bool {
	b := head(status, kind, fmt.Sprintf("content-length: %d", len(body)))
	_, err := d.conn.Write(append(b, body...))
	return err == nil
}

// head is the head of an answer; more is one or more header lines.
func head(status int, kind, more string) []byte {
	return fmt.Appendf(nil, "HTTP/1.1 %d %s\r\nserver: scripted\r\ncontent-type: %s\r\n%s\r\n\r\n", status, http.StatusText(status), kind, more)
}
