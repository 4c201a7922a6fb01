package local

import (
	"bytes"
	"testing"

	"ossian/internal/lab/predict"
	"ossian/internal/lab/predict/machine"
)

func written(t testing.TB) []byte {
	host := machine.Processors(8e9, 2e10, 1e11)
	var text bytes.Buffer
	c := &predict.Calibration{Machine: host.Name, Engine: "ossian", Parameters: map[string]machine.Parameter{"host/step_ms": {Value: 0.5, Unit: "ms", Origin: machine.Measured}}}
	if err := Write(&text, &File{c, &host}); err != nil {
		t.Fatal(err)
	}
	return text.Bytes()
}

func TestFile(t *testing.T) {
	text := written(t)
	file, err := Read(bytes.NewReader(text))
	if err != nil || file.Host.Bandwidth.Value != 2e10 || file.Parameters["host/step_ms"].Value != 0.5 {
		t.Fatalf("%+v, %v", file, err)
	}
	var again bytes.Buffer
	if err := Write(&again, file); err != nil || !bytes.Equal(again.Bytes(), text) {
		t.Errorf("written again: %v\n%s", err, again.Bytes())
	}
	for _, bad := range []string{"", "{", "{}", `{"machine":"cpu","engine":"ossian","host":{}}`, `{"machine":"cpu","engine":"ossian","parameters":{"host/step_ms":{"value":-1}}}`} {
		if _, err := Read(bytes.NewReader([]byte(bad))); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
}

// FuzzRead: whatever a file holds, reading it ends with a calibration that can be used or an error.
func FuzzRead(f *testing.F) {
	f.Add(written(f))
	f.Add([]byte(`{"machine":"cpu","engine":"ossian"}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		file, err := Read(bytes.NewReader(text))
		if err == nil && (file.Check() != nil || file.Machine == "") {
			t.Errorf("accepted %q", text)
		}
	})
}
