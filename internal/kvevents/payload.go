package kvevents

import (
	"encoding/binary"
	"math"
	"time"
)

// kind says what an event tells.
type kind uint8

const (
	stored kind = iota
	removed
	allCleared
)

// An event is one of those of vLLM's kv_events.
type event struct {
	kind      kind
	hashes    []uint64
	parent    uint64 // of the first block, if behind
	behind    bool
	tokens    []int32 // of exactly these blocks
	blockSize int
	salt      uint64 // of the first block; 0 = none
	end       *node  // the last block, while the event may become longer
}

// medium is where blocks are. Consumers know no other default, so it is the same on a CPU.
const medium = "GPU"

// appendPayload appends a message: a batch of events.
func appendPayload(out []byte, format Format, at time.Time, events []event) []byte {
	seconds := float64(at.UnixNano()) / 1e9
	if format == Map {
		out = appendText(appendMap(out, 3), "ts")
		out = appendText(appendFloat(out, seconds), "events")
		out = appendArray(out, len(events))
		for i := range events {
			out = events[i].appendMap(out)
		}
		return appendUint(appendText(out, "data_parallel_rank"), 0)
	}
	out = appendArray(appendFloat(appendArray(out, 3), seconds), len(events))
	for i := range events {
		out = events[i].appendArray(out)
	}
	return appendUint(out, 0)
}

// appendArray appends an event by position. What is behind the last member that says something is
// left out.
func (e *event) appendArray(out []byte) []byte {
	switch e.kind {
	case removed:
		out = appendText(appendArray(out, 3), "BlockRemoved")
		return appendText(appendHashes(out, e.hashes), medium)
	case allCleared:
		return appendText(appendArray(out, 1), "AllBlocksCleared")
	}
	members := 7
	if e.salt != 0 {
		members = 9
	}
	out = appendText(appendArray(out, members), "BlockStored")
	out = appendHashes(out, e.hashes)
	out = e.appendParent(out)
	out = appendUint(appendTokens(out, e.tokens), uint64(e.blockSize))
	out = appendText(append(out, packNil), medium) // no adapter; where
	if e.salt != 0 {
		out = e.appendExtra(append(out, packNil)) // no adapter's name; the salt
	}
	return out
}

// appendMap appends an event by name, without members that have their default.
func (e *event) appendMap(out []byte) []byte {
	switch e.kind {
	case removed:
		out = appendHashes(appendText(e.tagged(out, 3, "BlockRemoved"), "block_hashes"), e.hashes)
		return appendText(appendText(out, "medium"), medium)
	case allCleared:
		return e.tagged(out, 1, "AllBlocksCleared")
	}
	members := 7 // those without a default are there, too, when they are nil
	if e.salt != 0 {
		members++
	}
	out = appendHashes(appendText(e.tagged(out, members, "BlockStored"), "block_hashes"), e.hashes)
	out = e.appendParent(appendText(out, "parent_block_hash"))
	out = appendTokens(appendText(out, "token_ids"), e.tokens)
	out = appendUint(appendText(out, "block_size"), uint64(e.blockSize))
	out = append(appendText(out, "lora_id"), packNil)
	out = appendText(appendText(out, "medium"), medium)
	if e.salt != 0 {
		out = e.appendExtra(appendText(out, "extra_keys"))
	}
	return out
}

// tagged begins a map of that many members with its tag.
func (e *event) tagged(out []byte, members int, tag string) []byte {
	return appendText(appendText(appendMap(out, members), "type"), tag)
}

func (e *event) appendParent(out []byte) []byte {
	if !e.behind {
		return append(out, packNil)
	}
	return appendUint(out, e.parent)
}

// appendExtra appends what else than ids is in the hash of each block: of the first its salt.
func (e *event) appendExtra(out []byte) []byte {
	out = appendArray(out, len(e.hashes))
	out = appendText(appendArray(out, 1), saltText(e.salt))
	for range e.hashes[1:] {
		out = append(out, packNil)
	}
	return out
}

func appendHashes(out []byte, hashes []uint64) []byte {
	out = appendArray(out, len(hashes))
	for _, hash := range hashes {
		out = appendUint(out, hash)
	}
	return out
}

func appendTokens(out []byte, tokens []int32) []byte {
	out = appendArray(out, len(tokens))
	for _, id := range tokens {
		out = appendUint(out, uint64(uint32(id)))
	}
	return out
}

// Types of msgpack (its specification's "formats").
const (
	packNil     = 0xc0
	packFloat64 = 0xcb
	packUint8   = 0xcc
	packUint16  = 0xcd
	packUint32  = 0xce
	packUint64  = 0xcf
	packText8   = 0xd9
	packArray16 = 0xdc
	packArray32 = 0xdd
	packFixMap  = 0x80
	packFixList = 0x90
	packFixText = 0xa0
)

func appendUint(out []byte, n uint64) []byte {
	switch {
	case n < 1<<7:
		return append(out, byte(n))
	case n < 1<<8:
		return append(out, packUint8, byte(n))
	case n < 1<<16:
		return binary.BigEndian.AppendUint16(append(out, packUint16), uint16(n))
	case n < 1<<32:
		return binary.BigEndian.AppendUint32(append(out, packUint32), uint32(n))
	}
	return binary.BigEndian.AppendUint64(append(out, packUint64), n)
}

func appendFloat(out []byte, v float64) []byte {
	return binary.BigEndian.AppendUint64(append(out, packFloat64), math.Float64bits(v))
}

// appendText appends a text of at most 255 bytes: names, and salts.
func appendText(out []byte, text string) []byte {
	if len(text) < 32 {
		return append(append(out, packFixText|byte(len(text))), text...)
	}
	return append(append(out, packText8, byte(len(text))), text...)
}

func appendArray(out []byte, n int) []byte {
	switch {
	case n < 16:
		return append(out, packFixList|byte(n))
	case n < 1<<16:
		return binary.BigEndian.AppendUint16(append(out, packArray16), uint16(n))
	}
	return binary.BigEndian.AppendUint32(append(out, packArray32), uint32(n))
}

// appendMap begins a map of fewer than 16 members.
func appendMap(out []byte, n int) []byte { return append(out, packFixMap|byte(n)) }
