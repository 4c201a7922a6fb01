package responses

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"fmt"
)

// seal encrypts the reasoning of a response for its owner, to be sent back with the
// next request (api.md 3.8).
func (h *Handler) seal(text, owner, model string) string {
	nonce := make([]byte, h.box.NonceSize())
	_, _ = rand.Read(nonce) // it never fails
	return base64.StdEncoding.EncodeToString(h.box.Seal(nonce, nonce, []byte(text), []byte(owner+"\x00"+model)))
}

// unseal is the inverse of seal.
func (h *Handler) unseal(sealed, owner, model string) (string, bool) {
	data, err := base64.StdEncoding.DecodeString(sealed)
	size := h.box.NonceSize()
	if err != nil || len(data) < size {
		return "", false
	}
	text, err := h.box.Open(nil, data[:size], data[size:], []byte(owner+"\x00"+model))
	return string(text), err == nil
}

// newBox returns the cipher of a key, of a new one for nil.
func newBox(key *[32]byte) cipher.AEAD {
	if key == nil {
		key = new([32]byte)
		_, _ = rand.Read(key[:])
	}
	block, err := aes.NewCipher(key[:])
	if err != nil {
		panic(fmt.Sprintf("server: a key of %d bytes: %v", len(key), err))
	}
	box, err := cipher.NewGCM(block)
	if err != nil {
		panic(fmt.Sprintf("server: AES-GCM: %v", err))
	}
	return box
}
