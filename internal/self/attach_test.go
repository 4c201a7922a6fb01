package self

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
)

// forms returns two programs that have much in common, which does not compress.
func forms() (static, dynamic []byte) {
	source := rand.NewChaCha8([32]byte{1})
	shared := make([]byte, 2*blockSize)
	source.Read(shared)
	static = append([]byte("static form "), shared...)
	dynamic = append(bytes.Repeat([]byte("dynamic "), blockSize/8), shared...)
	return static, append(dynamic, "and a rest"...)
}

func TestAttach(t *testing.T) {
	static, dynamic := forms()
	tail, err := Attach(static, dynamic, "v1")
	if err != nil {
		t.Fatal(err)
	}
	if len(tail) > 4<<10 {
		t.Errorf("%d bytes behind the static form; what both forms have should not be there twice", len(tail))
	}
	again, err := Attach(static, dynamic, "v1")
	if err != nil || !bytes.Equal(tail, again) {
		t.Errorf("the same forms give other bytes (%v)", err)
	}
	file := append(bytes.Clone(static), tail...)
	described, err := describe(bytes.NewReader(file), int64(len(file)))
	if err != nil {
		t.Fatal(err)
	}
	form, err := described.unpack(bytes.NewReader(file))
	if err != nil || !bytes.Equal(form, dynamic) || described.Version != "v1" {
		t.Errorf("%d bytes of version %s, %v; want %d of v1", len(form), described.Version, err, len(dynamic))
	}
	if _, err := Attach(file, dynamic, "v1"); err == nil {
		t.Error("a second form behind a second form: no error")
	}
	if _, err := Attach(static, nil, "v1"); err == nil {
		t.Error("an empty form: no error")
	}
	if _, err := describe(bytes.NewReader(static), int64(len(static))); !errors.Is(err, errNone) {
		t.Errorf("a file with one form: %v", err)
	}
}

// Damage anywhere in what the second form is made of is found before it is used.
func TestDamage(t *testing.T) {
	static, dynamic := forms()
	tail, err := Attach(static, dynamic, "v1")
	if err != nil {
		t.Fatal(err)
	}
	whole := append(bytes.Clone(static), tail...)
	read := func(file []byte) error {
		described, err := describe(bytes.NewReader(file), int64(len(file)))
		if err != nil {
			return err
		}
		_, err = described.unpack(bytes.NewReader(file))
		return err
	}
	if err := read(whole); err != nil {
		t.Fatal(err)
	}
	// In what blocks are like and in what is packed; the first bytes are in no block.
	places := []int{20, len(static) / 2, len(static) - 1, len(static), len(static) + 100}
	for _, at := range places {
		file := bytes.Clone(whole)
		file[at] ^= 0x10
		if err := read(file); err == nil || !strings.Contains(err.Error(), "damaged") {
			t.Errorf("byte %d of %d changed: %v", at, len(file), err)
		}
	}
	for cut := 1; cut < len(tail); cut += 7 {
		if err := read(whole[:len(whole)-cut]); err == nil {
			t.Errorf("%d bytes cut off the end: no error", cut)
		}
		if err := read(append(bytes.Clone(static), tail[cut:]...)); err == nil {
			t.Errorf("%d bytes cut out behind the static form: no error", cut)
		}
	}
}

// described puts a description behind some bytes, as Attach does.
func described(before []byte, text string) []byte {
	file := append(bytes.Clone(before), text...)
	return append(binary.LittleEndian.AppendUint64(file, uint64(len(text))), magic...)
}

// What a description says is checked before it is followed.
func TestDescriptions(t *testing.T) {
	for name, text := range map[string]string{
		"no JSON":             "{",
		"another format":      `{"format":1}`,
		"nothing":             `{"format":2,"static":4}`,
		"a block too large":   `{"format":2,"static":4,"size":1000000,"blocks":[{"size":1000000,"packed":4,"like":1}]}`,
		"like what is beyond": `{"format":2,"static":4,"size":3,"blocks":[{"size":3,"packed":4,"like":4}]}`,
		"like what is before": `{"format":2,"static":4,"size":3,"blocks":[{"size":3,"packed":4,"like":-1}]}`,
		"packed from beyond":  `{"format":2,"static":4,"size":3,"blocks":[{"size":3,"packed":9}]}`,
		"a negative size":     `{"format":2,"static":4,"size":3,"blocks":[{"size":-3,"packed":2},{"size":6,"packed":2}]}`,
		"sizes that differ":   `{"format":2,"static":4,"size":4,"blocks":[{"size":3,"packed":4}]}`,
		"static from beyond":  `{"format":2,"static":9999,"size":1,"blocks":[{"size":1,"packed":1}]}`,
		"a negative static":   `{"format":2,"static":-1,"size":1,"blocks":[{"size":1,"packed":1}]}`,
		"unread bytes":        `{"format":2,"static":4,"size":2,"blocks":[{"size":2,"packed":3}]}`,
	} {
		file := described([]byte("12345678"), text)
		if _, err := describe(bytes.NewReader(file), int64(len(file))); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func FuzzDescribe(f *testing.F) {
	static, dynamic := []byte("static form"), []byte("dynamic form, static form")
	tail, err := Attach(static, dynamic, "v1")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(append(static, tail...))
	f.Add(described([]byte("12345678"), `{"format":2,"static":4,"size":2,"blocks":[{"size":2,"packed":4,"like":1}]}`))
	f.Fuzz(func(t *testing.T, file []byte) {
		d, err := describe(bytes.NewReader(file), int64(len(file)))
		if err != nil {
			return
		}
		if form, err := d.unpack(bytes.NewReader(file)); err == nil && len(form) != d.Size {
			t.Errorf("%d bytes, described are %d", len(form), d.Size)
		}
	})
}
