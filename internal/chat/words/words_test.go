package words

import "testing"

// TestChannel reads channels however they are spelt.
func TestChannel(t *testing.T) {
	for text, want := range map[string]struct {
		name     string
		size     int
		misspelt bool
	}{
		"final":         {Final, 5, false},
		" analysis to=": {Analysis, 9, false},
		"-final":        {Final, 6, true},
		"finally":       {Final, 5, true},
		"comm to=f":     {Commentary, 4, true},
		"Thought":       {Analysis, 7, true},
		"fi":            {"", 0, true},
		" to=f":         {"", 1, false},
		"":              {"", 0, false},
	} {
		if name, size, misspelt := Channel(text); name != want.name || size != want.size || misspelt != want.misspelt {
			t.Errorf("%q: %q, %d bytes, misspelt %t; want %+v", text, name, size, misspelt, want)
		}
	}
}

// TestRecipient ends names where no name goes on.
func TestRecipient(t *testing.T) {
	for text, want := range map[string]int{"to=functions.f<": 14, "to=": 3, "to=é1 x": 6, "from=f": 0} {
		if got := Recipient(text); got != want {
			t.Errorf("%q: %d, want %d", text, got, want)
		}
	}
}
