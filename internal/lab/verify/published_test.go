package verify_test

import (
	"os"
	"path/filepath"
	"testing"

	"ossian/internal/lab/verify/verifytest"
)

// What the published tools and this project's own measurements print is not wrong: the
// recorded outputs that package report is tested with.
func TestRecordedOutputs(t *testing.T) {
	var files []string
	for _, pattern := range []string{"console/*.txt", "peers/*/*/console.txt", "peers/*/*/result.*"} {
		found, err := filepath.Glob(filepath.Join("../../bench/report/testdata", pattern))
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, found...)
	}
	if len(files) < 30 {
		t.Fatalf("only %d recorded outputs", len(files))
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		verifytest.Passes(t, file, text)
	}
	t.Logf("%d recorded outputs", len(files))
}
