package libcuda

import (
	"bytes"
	"encoding/binary"
	"errors"
)

// The dynamic loader's cache of libraries, /etc/ld.so.cache, as ldconfig(8) of the GNU C library
// writes it: a header, entries of fixed size, and texts that entries refer to by their distance
// from the header. Since version 2.2 the header is that below; until 2.31 ldconfig wrote a list of
// the older kind before it, which is skipped.
const (
	cacheMagic    = "glibc-ld.so.cache1.1"
	cacheHeader   = 48 // magic, number of entries (uint32), length of texts, flags and room
	cacheEntry    = 24 // flags, name, path (uint32 each), system version, capabilities
	oldCacheMagic = "ld.so-1.7.0\x00"
	oldHeader     = 16
	oldEntry      = 12
)

var errCache = errors.New("not a cache of the dynamic loader, or damaged")

// lookCache returns the paths that a cache has for a library, in its order.
func lookCache(data []byte, soname string) ([]string, error) {
	if bytes.HasPrefix(data, []byte(oldCacheMagic)) && len(data) >= oldHeader {
		skipped := oldHeader + uint64(binary.LittleEndian.Uint32(data[12:]))*oldEntry
		skipped = (skipped + 7) &^ 7
		if skipped > uint64(len(data)) {
			return nil, errCache
		}
		data = data[skipped:]
	}
	if !bytes.HasPrefix(data, []byte(cacheMagic)) || len(data) < cacheHeader {
		return nil, errCache
	}
	count := binary.LittleEndian.Uint32(data[len(cacheMagic):])
	entries := data[cacheHeader:]
	if uint64(count)*cacheEntry > uint64(len(entries)) {
		return nil, errCache
	}
	var paths []string
	for i := range int(count) {
		entry := entries[i*cacheEntry:]
		name, ok := cacheText(data, binary.LittleEndian.Uint32(entry[4:]))
		if !ok {
			return nil, errCache
		}
		if name != soname {
			continue
		}
		path, ok := cacheText(data, binary.LittleEndian.Uint32(entry[8:]))
		if !ok {
			return nil, errCache
		}
		paths = append(paths, path)
	}
	return paths, nil
}

// cacheText returns the text at a distance from the header, which ends with a zero byte.
func cacheText(data []byte, at uint32) (string, bool) {
	if uint64(at) >= uint64(len(data)) {
		return "", false
	}
	text, _, ended := bytes.Cut(data[at:], []byte{0})
	return string(text), ended
}
