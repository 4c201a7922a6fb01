package kvevents

import (
	"crypto/sha256"
	"encoding/binary"
	"strconv"
)

// A digest is the SHA-256 of a block and, by its parent, of all before it.
type digest [sha256.Size]byte

// hash is how subscribers know a block: the low 64 bits, the digest read as a big-endian number.
func (d digest) hash() uint64 { return binary.BigEndian.Uint64(d[sha256.Size-8:]) }

// seedDigest stands for the parent of first blocks: the digest of the seed as canonical CBOR, as
// vLLM makes it of PYTHONHASHSEED. Without one it is that of 0: hashes are the same after a restart
// and in all replicas.
func seedDigest(seed string) digest {
	if seed == "" {
		seed = "0"
	}
	return sha256.Sum256(append(appendHead(nil, cborText, uint64(len(seed))), seed...))
}

// blockDigest returns the digest of a block: canonical CBOR of [parent, tokens, extra], where extra
// is null, or [salt] as a text. It uses and returns scratch.
func blockDigest(scratch []byte, parent digest, tokens []int32, salt uint64) (digest, []byte) {
	out := appendHead(scratch[:0], cborArray, 3)
	out = append(appendHead(out, cborBytes, uint64(len(parent))), parent[:]...)
	out = appendHead(out, cborArray, uint64(len(tokens)))
	for _, id := range tokens {
		out = appendHead(out, cborUnsigned, uint64(uint32(id)))
	}
	if salt == 0 {
		out = append(out, cborNull)
	} else {
		text := saltText(salt)
		out = append(appendHead(appendHead(out, cborArray, 1), cborText, uint64(len(text))), text...)
	}
	return sha256.Sum256(out), out
}

// saltText is a salt as it is told: a number that says nothing about the text it was made of.
func saltText(salt uint64) string { return strconv.FormatUint(salt, 16) }

// Major types of CBOR (RFC 8949, 3).
const (
	cborUnsigned = 0 << 5
	cborBytes    = 2 << 5
	cborText     = 3 << 5
	cborArray    = 4 << 5
	cborNull     = 7<<5 | 22
)

// appendHead appends the head of an item in its shortest form, as canonical CBOR has it.
func appendHead(out []byte, major byte, n uint64) []byte {
	switch {
	case n < 24:
		return append(out, major|byte(n))
	case n < 1<<8:
		return append(out, major|24, byte(n))
	case n < 1<<16:
		return binary.BigEndian.AppendUint16(append(out, major|25), uint16(n))
	case n < 1<<32:
		return binary.BigEndian.AppendUint32(append(out, major|26), uint32(n))
	}
	return binary.BigEndian.AppendUint64(append(out, major|27), n)
}
