package store

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"strings"

	"ossian/internal/store/disk"
)

// The version this program writes. A change that older programs would misread
// raises major, one that they would lose something of raises minor; this one reads
// every minor version up to its own.
const (
	major = 1
	minor = 0
)

const (
	formatName   = "FORMAT"
	databaseName = "responses.db"
	keyName      = "seal.key"
	lockName     = "lock"
)

// keyBytes is the length of Key.
const keyBytes = 32

// format is the store's first line, in a file of its own and in the database.
type format struct {
	major, minor int
	salt         salt
}

// String is the text of the file.
func (f format) String() string {
	line := fmt.Sprintf("ossian-store %d.%d salt=%08x", f.major, f.minor, uint32(f.salt))
	return fmt.Sprintf("%s crc=%08x\n", line, crc32.Checksum([]byte(line), castagnoli))
}

// parseFormat is the inverse of String. A newer version may say more between the
// number and the checksum.
func parseFormat(text string) (format, error) {
	line, crc, ok := strings.Cut(strings.TrimSuffix(text, "\n"), " crc=")
	if !ok || crc != fmt.Sprintf("%08x", crc32.Checksum([]byte(line), castagnoli)) {
		return format{}, fmt.Errorf("store: %s: the checksum does not fit", formatName)
	}
	var parsed format
	if _, err := fmt.Sscanf(line, "ossian-store %d.%d", &parsed.major, &parsed.minor); err != nil {
		return format{}, fmt.Errorf("store: %s: %w", formatName, err)
	}
	if parsed.major != major || parsed.minor > minor {
		return format{}, fmt.Errorf("%w: it has format %d.%d, this program knows %d.0 to %d.%d; use a newer program or another directory",
			ErrVersion, parsed.major, parsed.minor, major, major, minor)
	}
	if _, err := fmt.Sscanf(line, "ossian-store %d.%d salt=%x", &parsed.major, &parsed.minor, (*uint32)(&parsed.salt)); err != nil {
		return format{}, fmt.Errorf("store: %s: %w", formatName, err)
	}
	return parsed, nil
}

// readFormat returns the format of the store in dir. It gives a new one a format,
// and a damaged file the text in the database: note says what was wrong then.
func readFormat(dir string) (found format, note, err error) {
	found, note, err = findFormat(filepath.Join(dir, databaseName))
	if errors.Is(err, os.ErrNotExist) {
		var random [4]byte
		_, _ = rand.Read(random[:]) // it never fails
		found = format{major, minor, salt(binary.LittleEndian.Uint32(random[:]))}
		return found, nil, disk.WriteFile(filepath.Join(dir, formatName), found.String())
	}
	if err != nil || note == nil {
		return found, nil, err
	}
	return found, note, disk.WriteFile(filepath.Join(dir, formatName), found.String())
}

// findFormat reads the format of a database: from the file beside it, or when that is not
// usable from the database: note says why. The error is os.ErrNotExist when neither is there.
func findFormat(path string) (f format, note, err error) {
	text, err := os.ReadFile(filepath.Join(filepath.Dir(path), formatName))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return format{}, nil, fmt.Errorf("store: %w", err)
	}
	if err == nil {
		if f, err = parseFormat(string(text)); err == nil || errors.Is(err, ErrVersion) {
			return f, nil, err
		}
	}
	// The file is missing or damaged. The copy in the database has a checksum without salt.
	note = err
	file, err := os.Open(path)
	if err != nil {
		return format{}, nil, fmt.Errorf("store: %w", err)
	}
	defer file.Close() // read only
	im, _, _, err := survey(file, 0)
	if err != nil {
		return format{}, nil, err
	}
	found := ""
	err = im.elements(func(b bucket, key, value []byte) error {
		if payload, ok := salt(0).open(b, key, value); ok && b == about && string(key) == "format" {
			found = string(payload)
		}
		return nil
	})
	if err != nil {
		return format{}, nil, fmt.Errorf("store: %w", err)
	}
	if f, err = parseFormat(found); err != nil && !errors.Is(err, ErrVersion) {
		err = &DamageError{"", fmt.Sprintf("%s is not usable (%v), and %s does not say it either: without it records cannot be told from garbage", formatName, note, path)}
	}
	return f, note, err
}

// Key returns random bytes that belong to the store, for callers that encrypt what they
// give away. The first call makes them, in one step: a crash leaves all of them or none,
// and no other process has the store at the time.
func (s *Store) Key() (*[keyBytes]byte, error) {
	s.dbMu.Lock() // Close waits: behind it the store may be somebody else's
	defer s.dbMu.Unlock()
	select {
	case <-s.quit:
		return nil, ErrClosed
	default:
	}
	path := filepath.Join(s.cfg.Dir, keyName)
	data, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		data = make([]byte, keyBytes)
		_, _ = rand.Read(data) // it never fails
		err = disk.WriteFile(path, string(data))
	}
	if err != nil {
		return nil, fmt.Errorf("store: key: %w", err)
	}
	if len(data) != keyBytes {
		return nil, fmt.Errorf("store: key %s has %d bytes, expected %d: put back a copy of it, or delete it for a new one, with which nothing can be read that was encrypted before", path, len(data), keyBytes)
	}
	return (*[keyBytes]byte)(data), nil
}
