// Package jupyter runs code in a Jupyter kernel that is there already. Its users no longer need to
// know the protocol: messages of four JSON objects with a signature, over ZeroMQ
// (jupyter-client.readthedocs.io, "Messaging in Jupyter", version 5.3).
package jupyter

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"regexp"
	"strconv"
	"time"
)

// A Kernel is where one is, and the key of its messages.
type Kernel struct {
	Transport string `json:"transport"`
	IP        string `json:"ip"`
	Shell     int    `json:"shell_port"`
	Control   int    `json:"control_port"`
	Outputs   int    `json:"iopub_port"`
	Scheme    string `json:"signature_scheme"`
	Key       string `json:"key"`
}

// Read reads the connection file that a kernel writes when it starts.
func Read(name string) (*Kernel, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	kernel := new(Kernel)
	if err := json.Unmarshal(text, kernel); err != nil {
		return nil, fmt.Errorf("%s is no connection file of a Jupyter kernel: %w", name, err)
	}
	if kernel.Scheme != "hmac-sha256" || (kernel.Transport != "tcp" && kernel.Transport != "ipc") || kernel.Shell == 0 || kernel.Outputs == 0 {
		return nil, fmt.Errorf("%s: transport %.20q, scheme %.20q, shell_port %d, iopub_port %d; tcp or ipc, hmac-sha256 and two ports expected", name, kernel.Transport, kernel.Scheme, kernel.Shell, kernel.Outputs)
	}
	return kernel, nil
}

// connect opens a socket to a port.
func (k *Kernel) connect(ctx context.Context, port int, kind string) (*socket, error) {
	if k.Transport == "ipc" {
		return dial(ctx, "unix", k.IP+"-"+strconv.Itoa(port), kind)
	}
	return dial(ctx, "tcp", net.JoinHostPort(k.IP, strconv.Itoa(port)), kind)
}

// A message is one of the protocol's.
type message struct {
	Header  header
	Parent  header
	Content json.RawMessage
}

type header struct {
	ID       string `json:"msg_id"`
	Type     string `json:"msg_type"`
	Session  string `json:"session"`
	User     string `json:"username"`
	Date     string `json:"date"`
	Protocol string `json:"version"`
}

// delimiter stands between where a message goes and what it is.
const delimiter = "<IDS|MSG>"

// sign returns the signature of a message's four objects.
func (k *Kernel) sign(objects [][]byte) []byte {
	if k.Key == "" {
		return nil
	}
	sum := hmac.New(sha256.New, []byte(k.Key))
	for _, object := range objects {
		sum.Write(object)
	}
	return hex.AppendEncode(nil, sum.Sum(nil))
}

// request returns the frames of a request and its ID.
func (k *Kernel) request(kind string, content any) (parts [][]byte, id string) {
	var random [16]byte
	_, _ = rand.Read(random[:]) // it does not fail
	id = hex.EncodeToString(random[:])
	head, _ := json.Marshal(header{id, kind, id, "ossian", time.Now().UTC().Format(time.RFC3339Nano), "5.3"})
	body, _ := json.Marshal(content)
	objects := [][]byte{head, []byte("{}"), []byte("{}"), body}
	return append([][]byte{[]byte(delimiter), k.sign(objects)}, objects...), id
}

// parse reads the frames of a message. One that is not signed as it must be is an error.
func (k *Kernel) parse(parts [][]byte) (*message, error) {
	for len(parts) > 0 && string(parts[0]) != delimiter {
		parts = parts[1:]
	}
	if len(parts) < 6 {
		return nil, errors.New("a message without its parts")
	}
	if !hmac.Equal(parts[1], k.sign(parts[2:6])) {
		return nil, errors.New("a message with a wrong signature: is the connection file that of this kernel?")
	}
	got := &message{Content: parts[5]}
	return got, errors.Join(json.Unmarshal(parts[2], &got.Header), json.Unmarshal(parts[3], &got.Parent))
}

// Run runs code, and copies what it prints and shows. Where ctx ends first the kernel is told to
// stop, and the error is that of ctx.
func (k *Kernel) Run(ctx context.Context, code string, printed, complaints io.Writer) error {
	err := k.run(ctx, code, printed, complaints)
	if ctx.Err() != nil {
		return ctx.Err() // whatever was closed for it
	}
	return err
}

func (k *Kernel) run(ctx context.Context, code string, printed, complaints io.Writer) error {
	shell, err := k.connect(ctx, k.Shell, "DEALER")
	if err != nil {
		return err
	}
	defer shell.conn.Close()
	outputs, err := k.connect(ctx, k.Outputs, "SUB")
	if err != nil {
		return err
	}
	defer outputs.conn.Close()
	stop := context.AfterFunc(ctx, func() { outputs.conn.Close() })
	defer stop()
	if err = outputs.send([]byte{1}); err == nil { // every subject
		err = k.listen(shell, outputs)
	}
	if err == nil {
		err = k.execute(shell, outputs, code, printed, complaints)
	}
	if ctx.Err() != nil {
		k.interrupt()
	}
	return err
}

// knocking is how often a kernel is asked for a sign while the subscription takes effect.
const knocking = 50 * time.Millisecond

// listen waits until outputs come through: what is published before a subscription is known is lost.
func (k *Kernel) listen(shell, outputs *socket) error {
	for {
		parts, _ := k.request("kernel_info_request", struct{}{})
		if err := shell.send(parts...); err != nil {
			return err
		}
		// A whole byte tells that a message comes; none is read in part.
		_ = outputs.conn.SetReadDeadline(time.Now().Add(knocking))
		_, err := outputs.in.Peek(1)
		_ = outputs.conn.SetReadDeadline(time.Time{})
		var late net.Error
		if err == nil || !errors.As(err, &late) || !late.Timeout() {
			return err
		}
	}
}

// execute runs code and reads what is published of it, until the kernel is idle again.
func (k *Kernel) execute(shell, outputs *socket, code string, printed, complaints io.Writer) error {
	parts, id := k.request("execute_request", map[string]any{"code": code, "silent": false, "store_history": true, "user_expressions": struct{}{}, "allow_stdin": false, "stop_on_error": false})
	if err := shell.send(parts...); err != nil {
		return err
	}
	for {
		parts, err := outputs.receive()
		if err != nil {
			return err
		}
		got, err := k.parse(parts)
		if err != nil {
			return err
		}
		if got.Parent.ID != id {
			continue // of other clients, or of what was asked before
		}
		if got.show(printed, complaints) {
			return nil
		}
	}
}

// escapes are sequences by which tracebacks are coloured.
var escapes = regexp.MustCompile("\x1b\\[[0-9;]*m")

// show copies an output, and reports whether it was the last.
func (m *message) show(printed, complaints io.Writer) bool {
	var content struct {
		Name      string         `json:"name"`
		Text      string         `json:"text"`
		Data      map[string]any `json:"data"`
		Traceback []string       `json:"traceback"`
		State     string         `json:"execution_state"`
	}
	if json.Unmarshal(m.Content, &content) != nil {
		return false
	}
	switch m.Header.Type {
	case "stream":
		if content.Name == "stderr" {
			printed = complaints
		}
		_, _ = io.WriteString(printed, content.Text)
	case "execute_result", "display_data":
		if text, ok := content.Data["text/plain"].(string); ok {
			_, _ = io.WriteString(printed, text+"\n")
		}
	case "error":
		for _, line := range content.Traceback {
			_, _ = io.WriteString(complaints, escapes.ReplaceAllString(line, "")+"\n")
		}
	// Idle is the last message that belongs to a request.
	case "status":
		return content.State == "idle"
	}
	return false
}

// interruptTime is how long telling a kernel to stop may take.
const interruptTime = 500 * time.Millisecond

// interrupt tells the kernel to stop what it does.
func (k *Kernel) interrupt() {
	ctx, cancel := context.WithTimeout(context.Background(), interruptTime)
	defer cancel()
	control, err := k.connect(ctx, k.Control, "DEALER")
	if err != nil {
		return
	}
	defer control.conn.Close()
	parts, _ := k.request("interrupt_request", struct{}{})
	if control.send(parts...) == nil {
		_ = control.conn.SetReadDeadline(time.Now().Add(interruptTime))
		_, _ = control.receive()
	}
}
