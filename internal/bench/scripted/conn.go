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

// A handler is the goroutine of a connection: it reads the requests and writes what is not a
// stream.
type handler struct {
	srv      *Server
	conn     net.Conn
	in       *bufio.Reader
	requests int // requests before this one
}

// converse answers the requests of a connection, one after the other.
func (srv *Server) converse(conn net.Conn) {
	handling := &handler{srv: srv, conn: conn, in: bufio.NewReader(conn)}
	for ; ; handling.requests++ {
		req, err := http.ReadRequest(handling.in)
		if err != nil {
			return
		}
		text, err := io.ReadAll(io.LimitReader(req.Body, maxBody))
		if err != nil {
			return
		}
		received := srv.now()
		if !handling.answer(req, text, received) || req.Close {
			return
		}
	}
}

// answer answers one request; false = the connection cannot be used any more.
func (h *handler) answer(req *http.Request, text []byte, received time.Duration) bool {
	call := req.Method + " " + req.URL.Path
	h.srv.mu.Lock()
	h.srv.calls[call]++
	h.srv.mu.Unlock()
	switch call {
	case "POST /v1/completions":
		return h.generate(req, completions, text, received)
	case "POST /v1/chat/completions":
		return h.generate(req, chat, text, received)
	case "POST /v1/responses":
		return h.generate(req, responses, text, received)
	case "GET /v1/models":
		model := quote(h.srv.opt.Model)
		return h.json(http.StatusOK, fmt.Appendf(nil, `{"object":"list","data":[{"id":%s,"object":"model","created":1767225600,"owned_by":"scripted","root":%s,"parent":null,"max_model_len":131072}]}`, model, model))
	case "POST /tokenize", "POST /detokenize":
		if h.srv.opt.Tokenize {
			return h.tokenize(req.URL.Path, text)
		}
	case "GET /metrics":
		return h.reply(http.StatusOK, "text/plain; version=0.0.4; charset=utf-8", h.srv.metrics())
	case "GET " + recordPath:
		h.srv.settle()
		return h.record()
	case "DELETE " + recordPath:
		h.srv.settle() // else the end of a request that a client has seen would be in the next log
		h.srv.Forget()
		return h.reply(http.StatusOK, "text/plain", nil)
	case "GET /health", "POST /reset_prefix_cache", "POST /reset_mm_cache", "POST /reset_encoder_cache",
		"POST /flush_cache", "POST /start_profile", "POST /stop_profile":
		return h.reply(http.StatusOK, "text/plain", nil)
	}
	return h.problem(http.StatusNotFound, call+" is not served here")
}

// generate plays the script of a request.
func (h *handler) generate(req *http.Request, api api, text []byte, received time.Duration) bool {
	asked, err := parseAsk(text)
	if err != nil {
		return h.problem(http.StatusBadRequest, err.Error())
	}
	playing := h.srv.newStream(h.conn, api, req.Header.Get("X-Request-Id"), asked)
	playing.record.Path, playing.record.Turn, playing.record.Received = req.URL.Path, h.requests, received
	playing.closeAfter = req.Close
	playing.start(received)
	if !h.pause(received + playing.script.Headers) {
		h.srv.finish(playing, "the server has stopped")
		return false
	}
	// Faults that are no stream; what goes wrong within one is the stream's.
	switch playing.script.Fault.Kind {
	case Refuse:
		playing.fate = resetting
		h.srv.finish(playing, "")
		return false
	case Status, HTML:
		ok := h.answerFault(playing)
		h.srv.finish(playing, "")
		return ok
	}
	if !asked.Stream {
		return h.complete(playing)
	}
	return h.startStream(playing)
}

// answerFault answers with a fault that is no stream.
func (h *handler) answerFault(s *stream) bool {
	if s.script.Fault.Kind == HTML {
		return h.reply(http.StatusOK, "text/html; charset=utf-8", []byte("<!DOCTYPE html><title>gateway</title><p>the script says so"))
	}
	status := s.script.Fault.Status
	if status == 0 {
		status = http.StatusInternalServerError
	}
	return h.problem(status, "the script says so")
}

// startStream writes the head of an answer and hands the rest to a sender.
func (h *handler) startStream(stream *stream) bool {
	buf := &eventBuffer{out: head(http.StatusOK, "text/event-stream; charset=utf-8", "transfer-encoding: chunked\r\nx-request-id: "+stream.record.ID)}
	now := h.srv.now()
	switch {
	case stream.script.Fault.Kind == Nothing:
		if stream.api != responses {
			stream.doneEvent(buf)
		}
		buf.out = append(buf.out, "0\r\n\r\n"...)
		stream.fate = finished
	case stream.api == responses:
		stream.beginResponse(buf, now)
	case stream.api == chat && stream.shape.RoleEarly:
		stream.choiceEvent(buf, choice{role: true}, now)
	}
	var err error
	if stream.out, err = newOutlet(h.conn); err == nil {
		_, err = h.conn.Write(buf.out)
	}
	if err != nil || stream.fate == finished {
		h.srv.finish(stream, errText(err))
		return err == nil
	}
	// From here on the stream is the sender's, until done is closed.
	senders := h.srv.senders
	if !senders[h.srv.streams.Load()%int64(len(senders))].put(stream) {
		h.srv.finish(stream, "the server has stopped")
		return false
	}
	if _, err := h.in.Peek(1); err != nil { // until the next request comes, or the client goes away
		stream.gone.Store(true)
	}
	<-stream.done
	return stream.fate == finished && stream.record.Err == ""
}

// errText is the text of err, "" of none.
func errText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// complete answers a request that wants no stream, when its last chunk is due.
func (h *handler) complete(stream *stream) bool {
	for stream.sent < stream.tokens { // as stream.play does, without sending
		tokens := min(stream.script.tokensIn(stream.chunk), stream.tokens-stream.sent)
		stream.sent += tokens
		stream.chunk++
		if stream.sent < stream.tokens {
			stream.grid += stream.script.Gap
			stream.due = max(stream.due, stream.grid+stream.jitter())
		}
	}
	if !h.pause(stream.due) {
		h.srv.finish(stream, "the server has stopped")
		return false
	}
	now := h.srv.now()
	stream.recordSend(now, stream.tokens)
	stream.fate = finished
	ok := h.json(http.StatusOK, stream.answer(now))
	h.srv.finish(stream, "")
	return ok
}

// pause waits until the time at; false = the server has stopped.
func (h *handler) pause(at time.Duration) bool {
	wait := at - h.srv.now()
	if wait <= 0 {
		return true
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-h.srv.stopped:
		return false
	}
}

// tokenize answers /tokenize and /detokenize: the id of a token is a code point.
func (h *handler) tokenize(path string, text []byte) bool {
	var ask struct {
		Prompt string
		Tokens []rune
	}
	if err := json.Unmarshal(text, &ask); err != nil {
		return h.problem(http.StatusBadRequest, "request body: "+err.Error())
	}
	if path == "/detokenize" {
		return h.json(http.StatusOK, fmt.Appendf(nil, `{"prompt":%s}`, quote(string(ask.Tokens))))
	}
	ids := []rune(ask.Prompt)
	list := strings.ReplaceAll(strings.Trim(fmt.Sprint(ids), "[]"), " ", ",")
	return h.json(http.StatusOK, fmt.Appendf(nil, `{"count":%d,"max_model_len":131072,"tokens":[%s],"token_strs":null}`, len(ids), list))
}

// record sends the log. Its length is not known before.
func (h *handler) record() bool {
	if _, err := h.conn.Write(head(http.StatusOK, "application/jsonl", "connection: close")); err != nil {
		return false
	}
	_ = h.srv.Log().write(h.conn) // a client that goes away early has what it wanted
	return false
}

// problem answers with an error object.
func (h *handler) problem(status int, message string) bool {
	return h.json(status, fmt.Appendf(nil, `{"error":{"message":%s,"type":"scripted","param":null,"code":%d}}`, quote(message), status))
}

func (h *handler) json(status int, body []byte) bool {
	return h.reply(status, "application/json", body)
}

// reply answers with a whole body.
func (h *handler) reply(status int, kind string, body []byte) bool {
	message := head(status, kind, fmt.Sprintf("content-length: %d", len(body)))
	_, err := h.conn.Write(append(message, body...))
	return err == nil
}

// head is the head of an answer; more is one or more header lines.
func head(status int, kind, more string) []byte {
	return fmt.Appendf(nil, "HTTP/1.1 %d %s\r\nserver: scripted\r\ncontent-type: %s\r\n%s\r\n\r\n", status, http.StatusText(status), kind, more)
}
