package machine

import "testing"

func TestLookup(t *testing.T) {
	for name, want := range map[string]string{"A100": "A100-SXM4-80G", "NVIDIA A100-SXM4-80GB": "A100-SXM4-80G", "h100": "H100-SXM", "NVIDIA H200": "H200",
		"rtx pro 6000": "RTX-PRO-6000", "AMD Instinct MI300X": "MI300X", "A100-SXM4-40GB": "A100-SXM4-40G", "B200": "B200"} {
		if m, err := Lookup(name); err != nil || m.Name != want {
			t.Errorf("%q is %q, %v; expected %q", name, m.Name, err, want)
		}
	}
	if _, err := Lookup("TPU"); err == nil {
		t.Error("a TPU was found")
	}
	for _, name := range Names() {
		m, err := Lookup(name)
		if err != nil || m.Name != name {
			t.Errorf("%s: %v", name, err)
		}
		for _, p := range []Parameter{m.Memory, m.Bandwidth, m.BF16, m.Link} {
			if p.Value <= 0 || p.Origin != Spec || p.Unit == "" {
				t.Errorf("%s: %+v", name, p)
			}
		}
		if m.Compute(8) < m.Compute(16) || m.Compute(4) < m.Compute(8) {
			t.Errorf("%s: narrower operands are slower", name)
		}
	}
}

// TestAllReduce: more bytes take longer, also between entries of the table, and one device none.
func TestAllReduce(t *testing.T) {
	for _, name := range Names() {
		m, _ := Lookup(name)
		for _, devices := range []int{2, 4, 8} {
			last := 0.0
			for bytes := 1024.0; bytes < 2e9; bytes *= 1.3 {
				seconds := m.AllReduce(bytes, devices)
				if seconds <= last || seconds < bytes/m.Link.Value/2 {
					t.Fatalf("%s, %d devices: %v bytes take %v s, fewer took %v", name, devices, bytes, seconds, last)
				}
				last = seconds
			}
		}
		if m.AllReduce(1e6, 1) != 0 {
			t.Errorf("%s: one device adds up with nobody", name)
		}
	}
}
