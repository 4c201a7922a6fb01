package load

import (
	"testing"
)

// A token that cannot be read matters to pull only.
func TestResolveModelWithoutToken(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("HF_TOKEN", "")
	t.Setenv("HUGGING_FACE_HUB_TOKEN", "")
	t.Setenv("HF_TOKEN_PATH", dir) // a directory
	if path, err := Resolve(dir); err != nil || path != dir {
		t.Errorf("got %q, %v", path, err)
	}
}
