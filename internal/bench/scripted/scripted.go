// Package scripted is a server that measures its clients: it plays prescribed streams of
// OpenAI's APIs and keeps when it sent each event, so that what a client reports can be
// compared with what happened (bench.md 6, item 11). No model is involved.
//
// It costs less than what it measures: one goroutine sends for all streams, from a heap
// of due times, with one system call per write and no allocation.
//
// A connection has a goroutine of its own, a handler, which reads requests and answers what
// is no stream. A stream goes handler → sender → handler: while it is played the sender's
// goroutine owns it.
package scripted

// Options say what a server plays. The zero value answers every request in the form of
// vLLM with as many tokens as it asks for, all at once.
type Options struct {
	Model    string             // id in /v1/models and in answers; "" = scripted
	Dialect  Dialect            // of the streams
	Scripts  []Script           // request i plays Scripts[i mod len]; none = one zero Script
	Seed     uint64             // of the jitter
	Senders  int                // goroutines that send; 0 = 1
	Tokenize bool               // serve /tokenize and /detokenize, with code points as ids
	Counters map[string]float64 // series of /metrics besides the server's own, with their first values
}
