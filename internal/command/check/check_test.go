package check

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"ossian/internal/command"
	"ossian/internal/command/commandtest"
	"ossian/internal/command/serve"
	lab "ossian/internal/lab/check"
	"ossian/internal/load"
	"ossian/internal/plan"
)

// server starts the real server in this process and returns its address and the function that ends it.
func server(t *testing.T, args ...string) (address string, end func()) {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	host, ended, err := serve.Start(ctx, append([]string{"--port", "0", "--store", "memory"}, args...), io.Discard)
	if err != nil {
		stop()
		t.Fatal(err)
	}
	for {
		if r, err := http.Get("http://" + host + "/ready"); err == nil {
			r.Body.Close()
			if r.StatusCode == http.StatusOK {
				break
			}
		}
		select {
		case err := <-ended:
			t.Fatalf("%q: %v", args, err)
		case <-time.After(5 * time.Millisecond):
		}
	}
	end = func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("%q: %v", args, err)
		}
	}
	return "http://" + host, end
}

// checked runs the command and returns its report.
func checked(t *testing.T, args ...string) *lab.Report {
	t.Helper()
	out, _, err := commandtest.Run(t, Command(), append(args, "--json")...)
	if err != nil {
		t.Fatal(err)
	}
	report := new(lab.Report)
	if err := json.Unmarshal([]byte(out), report); err != nil {
		t.Fatal(err)
	}
	return report
}

// off are the names of what a report says is off, the host aside, which no option of the server changes.
func off(report *lab.Report) (names []string) {
	for _, row := range report.Rows {
		if row.State == lab.Off && row.Area != "host" {
			names = append(names, row.Name)
		}
	}
	slices.Sort(names)
	return names
}

// C1: each option of the real server held down in turn is named off, and nothing else changes.
func TestEachOptionOff(t *testing.T) {
	t.Chdir(t.TempDir())
	address, end := server(t)
	usual := checked(t, address)
	end()
	// What is off where nobody asked for anything: what costs accuracy or delays tokens, and guesses.
	always := []string{"16-bit weights in 8 bits (lossy)", "keys and values in 8 bits (lossy)", "quiet log", "several tokens to a chunk", "speculation"}
	if got := off(usual); !slices.Equal(got, always) {
		t.Fatalf("off at defaults: %q, want %q", got, always)
	}
	// A share of the memory that is 2 GB, less than the built-in model takes where it may.
	share := ""
	if available := plan.Available(); available > 8e9 {
		share = strconv.FormatFloat(2e9/float64(available), 'f', 4, 64)
	}
	for _, c := range []struct {
		name string // of the row
		args []string
		isa  string
		skip bool
	}{
		{"prefix cache", []string{"--no-enable-prefix-caching"}, "", false},
		{"asynchronous scheduling", []string{"--no-async-scheduling"}, "", false},
		{"sequence limit", []string{"--max-num-seqs", "2"}, "", false},
		{"batch budget", []string{"--max-num-batched-tokens", "300"}, "", false},
		{"threads", []string{"--threads", "1"}, "", runtime.NumCPU() < 2},
		{"vector instructions", nil, "go", load.BestInstructions() == "go"},
		{"integer kernels", []string{"--exact"}, "", false},
		{"activations in 8 bits", []string{"--activation-bits", "16"}, "", false},
		{"packed weights kept for later starts", []string{"--packed-weights", "off"}, "", false},
		{"prompts may fill a step", []string{"--long-prefill-token-threshold", "16"}, "", false},
		{"time of a step beside replies", []string{"--max-step-time", "2ms"}, "", false},
		{"keys and values in 16 bits or fewer", []string{"--kv-cache-dtype", "f32"}, "", false},
		{"KV capacity", []string{"--num-gpu-blocks-override", "300"}, "", false},
		{"KV capacity", []string{"--gpu-memory-utilization", share}, "", share == ""},
	} {
		t.Run(strings.Join(append([]string{c.name}, c.args...), " "), func(t *testing.T) {
			if c.skip {
				t.Skip("this machine has under 8 GB free: no share of it is both enough and less than is taken")
			}
			t.Setenv("OSSIAN_ISA", c.isa)
			address, end := server(t, c.args...)
			defer end()
			report := checked(t, address, "--start", "ossian serve "+strings.Join(c.args, " "))
			want := append([]string{c.name}, always...)
			slices.Sort(want)
			if got := off(report); !slices.Equal(got, want) {
				t.Errorf("off: %q, want %q", got, want)
			}
			for _, row := range report.Missing {
				if row.Name == c.name && row.Command != "ossian serve" && row.Command != "env -u OSSIAN_ISA ossian serve" {
					t.Errorf("the command that turns it on is %q", row.Command)
				}
			}
		})
	}
	// And what is on is on.
	for _, c := range []struct {
		name string
		args []string
	}{
		{"keys and values in 8 bits (lossy)", []string{"--kv-cache-dtype", "fp8"}},
		{"16-bit weights in 8 bits (lossy)", []string{"--cpu-weights", "q8"}},
		{"several tokens to a chunk", []string{"--stream-interval", "8"}},
		{"quiet log", []string{"--no-access-log"}},
		{"quiet log", []string{"--log-level", "warn"}},
	} {
		address, end := server(t, c.args...)
		if got := off(checked(t, address)); slices.Contains(got, c.name) || len(got) != len(always)-1 {
			t.Errorf("%q: off %q", c.args, got)
		}
		end()
	}
}

// Of a device that plays a machine nothing is said that only a processor has.
func TestSimulatedDevice(t *testing.T) {
	t.Chdir(t.TempDir())
	address, end := server(t, "--device", "sim:A100-SXM4-80G,model=gpt-oss-20b,engine=vllm@0.11.0")
	defer end()
	report := checked(t, address)
	// It is judged as what it plays, and started again as that.
	if report.Played == nil || report.Played.Model != "gpt-oss-20b" || report.Played.Machine != "A100-SXM4-80G" || report.Played.Engine != "vllm@0.11.0" {
		t.Errorf("played %+v", report.Played)
	}
	if text := report.Text(); !strings.Contains(text, "it plays gpt-oss-20b on A100-SXM4-80G, vllm@0.11.0") || !strings.Contains(text, "published shape of gpt-oss-20b, which is played") || !strings.Contains(text, "which the server plays") {
		t.Errorf("what is judged is not said:\n%s", text)
	}
	for _, row := range report.Missing {
		if row.Command != "" && !strings.Contains(row.Command, "--device sim:A100-SXM4-80G,model=gpt-oss-20b,engine=vllm@0.11.0") {
			t.Errorf("%s: %s", row.Name, row.Command)
		}
	}
	for _, row := range report.Rows {
		if slices.Contains([]string{"KV capacity", "threads", "vector instructions", "activations in 8 bits", "attention kernels", "graphs", "sampling kernel"}, row.Name) && row.State != lab.Unknown {
			t.Errorf("%s: %s %+v", row.Name, row.State, row.Evidence)
		}
	}
}

// Where nobody tells how the server was started, what is missing still names the flag, and no command
// that would change nothing is given.
func TestRemedies(t *testing.T) {
	t.Chdir(t.TempDir())
	address, end := server(t, "--no-enable-prefix-caching", "--max-num-seqs", "4", "--exact", "--no-async-scheduling", "--access-log")
	defer end()
	want := map[string]string{"prefix cache": "drop --no-enable-prefix-caching", "sequence limit": "drop --max-num-seqs", "integer kernels": "drop --exact",
		"asynchronous scheduling": "drop --no-async-scheduling", "quiet log": "add --no-access-log"}
	report := checked(t, address)
	for _, row := range report.Missing {
		if row.Change != nil && row.Change.Shell == "" && (row.Do == "" || (row.Command != "" && !strings.Contains(row.Command, " --"))) {
			t.Errorf("%s: do %q, command %q", row.Name, row.Do, row.Command)
		}
		if part := want[row.Name]; part != "" {
			delete(want, row.Name)
			if !strings.HasPrefix(row.Do, part) || !strings.Contains(report.Text(), part) {
				t.Errorf("%s: %q, want %q", row.Name, row.Do, part)
			}
		}
	}
	if len(want) > 0 {
		t.Errorf("not missing: %v", want)
	}
}

// watched counts requests to a server that are not GET.
func watched(t *testing.T, address string) (through string, posts *atomic.Int64) {
	t.Helper()
	behind, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	posts = new(atomic.Int64)
	proxy := httputil.NewSingleHostReverseProxy(behind)
	proxy.FlushInterval = -1
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet {
			posts.Add(1)
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(front.Close)
	return front.URL, posts
}

// C4: without --measure nothing but GET is sent; with it, load is, and where the server is has an
// interval and a workload.
func TestMeasure(t *testing.T) {
	t.Chdir(t.TempDir())
	address, end := server(t)
	defer end()
	through, posts := watched(t, address)
	if report := checked(t, through); posts.Load() != 0 || report.Now.NotMeasured == "" || report.Now.Measured != nil {
		t.Errorf("%d requests were not GET; %+v", posts.Load(), report.Now)
	}
	defer func(load, run time.Duration) { loadTime, runTime = load, run }(loadTime, runTime)
	loadTime, runTime = time.Hour, 200*time.Millisecond
	report := checked(t, through, "--measure", "--bandwidth", "10")
	if posts.Load() == 0 || len(report.Now.Measured) != 2 {
		t.Fatalf("%d requests that were not GET; %+v", posts.Load(), report.Now)
	}
	for _, one := range report.Now.Measured {
		if one.Workload == "" || one.Runs < 5 || one.Requests < 5 {
			t.Errorf("measurement %+v", one)
		}
		for _, value := range one.Values {
			// What a busy machine spoils is left out, and then there may be too few runs for an interval.
			in := value.Interval
			if !strings.HasPrefix(value.Origin, lab.Measured) || (in != nil && !(in[0] <= value.Value && value.Value <= in[1])) || (in == nil && strings.HasSuffix(value.Origin, " 5 runs")) {
				t.Errorf("%+v has no interval of what was measured", value)
			}
		}
	}
	// The real server's prefix cache shows in the difference between prompts that are new and others.
	if len(report.Now.Differences) != 1 || report.Now.Differences[0].Effect.Percent >= 0 || report.Now.Differences[0].Effect.Workload == "" {
		t.Errorf("differences %+v", report.Now.Differences)
	}
	if len(report.Roofline.Verdicts) != 2 || !strings.Contains(report.Roofline.Verdicts[0], "tok/s is the bound of this machine at 10.0 GB/s") {
		t.Errorf("roofline %+v", report.Roofline)
	}
}

// A key goes to a server that was named, and to no other.
func TestAccess(t *testing.T) {
	t.Setenv("OPENAI_API_KEY", "secret")
	if found, named := new(options).access(""), new(options).access("http://named"); found.Key != "" || named.Key != "secret" {
		t.Errorf("keys %q for a server that was found, %q for one that was named", found.Key, named.Key)
	}
}

// Wrong flags end with 2, a server that is not there with 1; the text is for people.
func TestCommand(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, args := range [][]string{{"a", "b"}, {"--pid", "x"}, {"--nothing"}, {"http://127.0.0.1:1", "--bandwidth", "-1"}, {"ftp://x"}, {"http://"}, {"http://x?a=1"}} {
		if _, _, err := commandtest.Run(t, Command(), args...); command.Status(err) != 2 {
			t.Errorf("%q: status %d, %v", args, command.Status(err), err)
		}
	}
	if _, _, err := commandtest.Run(t, Command(), "127.0.0.1:1"); command.Status(err) != 1 || !strings.Contains(err.Error(), "does not answer as a model server") {
		t.Errorf("nobody there: %v", err)
	}
	address, end := server(t)
	defer end()
	out, _, err := commandtest.Run(t, Command(), strings.TrimPrefix(address, "http://"), "--model", "ossian-tiny", "--bandwidth", "15.6")
	if err != nil {
		t.Fatal(err)
	}
	order := []string{"\nwhere you are", "\nshare of the roofline", "\noptimisations", "\nevidence", "\nmissing", "\nsystem", "\nnext steps"}
	at := -1
	for _, heading := range order {
		if i := strings.Index(out, heading); i <= at {
			t.Errorf("%q is not where it belongs", heading)
		} else {
			at = i
		}
	}
	if want := "decode reads 4.14 MB per token: 3772 tok/s is the bound of this machine at 15.6 GB/s; the rate was not measured"; !strings.Contains(out, want) {
		t.Errorf("no %q in\n%s", want, out)
	}
}
