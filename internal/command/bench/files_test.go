package bench

import (
	"os"
	"strings"
	"testing"

	"ossian/internal/command/commandtest"
)

// Where results cannot be written, or what is named is not there, that is said before anything is read, started or measured, with the
// flag that names it.
func TestOutputsFirst(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, name := range []string{"folder", "bench-throughput.pprof"} {
		if err := os.Mkdir(name, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile("file", nil, 0o644); err != nil {
		t.Fatal(err)
	}
	const folder, file = ": this is a folder; name a file", "file is a file, where a folder is needed; name a "
	for _, c := range []struct{ args, want string }{
		{"serve --num-prompts 1 --log folder", "--log folder" + folder},
		{"serve --num-prompts 1 --log file/x", "--log file/x: " + file},
		{"serve --num-prompts 1 --html folder", "--html folder" + folder},
		{"serve --num-prompts 1 --html file/x", "--html file/x: " + file},
		{"serve --num-prompts 1 --output-file folder", "--output-file folder" + folder},
		{"serve --num-prompts 1 --output-file file/x", "--output-file file/x: " + file},
		{"serve --num-prompts 1 --save-result --result-dir file", "--result-dir file: " + file},
		{"serve --num-prompts 1 --plot-timeline --result-dir file/x", "--result-dir file/x: " + file},
		{"serve --num-prompts 1 --save-detailed --result-filename folder", "--result-filename folder" + folder},
		{"serve --num-prompts 1 --append-result --result-dir folder --result-filename ../file/x", "--result-filename file/x: " + file},
		{"serve --num-prompts 1 --dataset-name sharegpt --dataset-path none", "--dataset-path none: no such file or directory; name a file that is there"},
		{"sweep load --max 1 --num-prompts 1 --dataset-name custom --dataset-path folder", "--dataset-path folder: this is a folder; name the file in it"},
		{"compare none none", "open none: no such file or directory; expected a result of ossian bench serve"},
		{"summarize folder", "folder is a folder; expected a file of results"},
		{"merge none.log none.log", "open none.log: no such file or directory; expected a log of ossian bench serve --shard"},
		{"merge none.log --log folder", "--log folder" + folder},
		{"merge none.log --output file/x", "--output file/x: " + file},
		{"throughput --input-len 4 --output-json folder", "--output-json folder" + folder},
		{"latency --output-json file/x", "--output-json file/x: " + file},
		{"sweep load --max 1 --num-prompts 1 -o file", "--output-dir file/now: " + file},
		{"sweep load --max 1 --num-prompts 1 --html folder", "--html folder" + folder},
		{"sweep serve --serve-cmd none --bench-cmd none -o file", "--output-dir file/now: " + file},
		{"sweep serve-workload --serve-cmd none --bench-cmd none -o file", "--output-dir file/now: " + file},
		{"sweep plot folder --html file/x", "--html file/x: " + file},
		{"sweep plot folder --fig-dir ../file", "--fig-dir file: " + file},
		{"sweep plot-pareto file", "OUTPUT_DIR file/pareto: " + file},
		{"throughput --profile --num-prompts 1 --input-len 4", "--profile bench-throughput.pprof" + folder},
	} {
		args := strings.Fields("bench " + c.args)
		if strings.Contains(c.want, "/now") {
			args = append(args, "-e", "now")
		}
		out, status, err := commandtest.Run(t, root(), args...)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.args, err, c.want)
		}
		if strings.Contains(out+status, "listening") || strings.Contains(out+status, "Starting") {
			t.Errorf("%s: begun before it was said:\n%s%s", c.args, out, status)
		}
	}
}
