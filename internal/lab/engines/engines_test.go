package engines

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"ossian/internal/lab/planfile"
	"ossian/internal/lazyregexp"
)

// TestMain makes this program a server where a test starts it as one.
func TestMain(m *testing.M) {
	if os.Getenv("ENGINES_TEST_SERVER") == "" {
		os.Exit(m.Run())
	}
	switch os.Args[1] {
	case "serve":
		http.HandleFunc("/health", func(http.ResponseWriter, *http.Request) {})
		http.HandleFunc("/version", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"version":"7.8"}`) })
		http.HandleFunc("/die", func(http.ResponseWriter, *http.Request) { fmt.Println("CUDA out of memory"); os.Exit(3) })
		fmt.Println("secret is", len(os.Getenv("A_SECRET")))
		panic(http.ListenAndServe("127.0.0.1:"+os.Args[2], nil))
	case "fail":
		fmt.Fprintln(os.Stderr, "loading…\nNotImplementedError: WFP4A16 MoE is unsupported on SM80.\n\nbye")
		os.Exit(1)
	case "sleep":
		time.Sleep(time.Minute)
	case "parent": // leaves a child of its own behind
		child := exec.Command(os.Args[0], "sleep")
		child.Env = os.Environ()
		if err := child.Start(); err != nil {
			panic(err)
		}
	}
	os.Exit(0)
}

// testEngine is this program in one of its roles.
func testEngine(words ...string) *planfile.Engine {
	return &planfile.Engine{
		Name: "test", Start: append([]string{os.Args[0]}, words...), Ready: "/health", ReadyTimeout: time.Minute,
		Env: map[string]string{"ENGINES_TEST_SERVER": "1"}, Dialect: VLLM,
	}
}

// TestDescriptions reads a plan that names every kind.
func TestDescriptions(t *testing.T) {
	text := "model: m\nworkloads: {w: {input_len: 8, output_len: 4}}\nengines:\n"
	for kind := range Kinds() {
		text += "  " + kind + ": {}\n"
	}
	plan, err := planfile.Read([]byte(text), planfile.Options{Kinds: Kinds()})
	if err != nil || len(plan.Engines) != 6 {
		t.Fatalf("%v, %+v", err, plan)
	}
	for _, engine := range plan.Engines {
		argv, env := Command(&engine, "the model", 4711, nil)
		if all := strings.Join(argv, " ") + env["OLLAMA_HOST"]; !strings.Contains(all, "4711") || strings.Contains(all, "{") {
			t.Errorf("%s starts as %q with %v", engine.Name, argv, env)
		}
	}
}

func TestCommand(t *testing.T) {
	flags := map[string]string{"max-num-seqs": "8", "async": "true", "chunked": "false", "o.a": `{"b": 1}`}
	for _, tt := range []struct {
		engine planfile.Engine
		flags  map[string]string
		want   string
	}{
		{planfile.Engine{Dialect: VLLM}, flags, `x m 9 --async --no-chunked --max-num-seqs 8 --o.a {"b": 1}`},
		{planfile.Engine{Dialect: SGLang}, flags, `x m 9 --async --max-num-seqs 8 --o.a {"b": 1}`},
		{planfile.Engine{Dialect: LlamaCpp}, map[string]string{"c": "4096", "ngl": "99", "fa": "on", "no-mmap": "false"}, "x m 9 -c 4096 -fa on -ngl 99 --mmap"},
		{planfile.Engine{Dialect: VLLM, Flags: map[string]string{"a": "1", "bb": "2"}}, map[string]string{"bb": "3"}, "x m 9 -a 1 --bb 3"},
		{planfile.Engine{Dialect: VLLM, Shell: true}, map[string]string{"bb": "it's"}, `sh -c x m 9 --bb 'it'\''s'`},
		{planfile.Engine{Dialect: VLLM, Shell: true}, map[string]string{"bb": "a-b_c.1"}, `sh -c x m 9 --bb a-b_c.1`},
	} {
		tt.engine.Start = []string{"x", "{model}", "{port}", "{flags}"}
		argv, env := Command(&tt.engine, "m", 9, tt.flags)
		if got := strings.Join(argv, " "); got != tt.want || len(env) > 0 {
			t.Errorf("%s: %q, want %q; %v", tt.engine.Dialect, got, tt.want, env)
		}
	}
	ollama := Kinds()[Ollama]
	argv, env := Command(&ollama, "m", 9, map[string]string{"OLLAMA_NUM_PARALLEL": "4"})
	if len(argv) != 2 || env["OLLAMA_NUM_PARALLEL"] != "4" || env["OLLAMA_HOST"] != "127.0.0.1:9" {
		t.Errorf("ollama: %q %v", argv, env)
	}
}

func TestDevices(t *testing.T) {
	for _, tt := range []struct {
		dialect string
		flags   map[string]string
		said    int
		want    int
	}{
		{VLLM, map[string]string{"tensor-parallel-size": "4", "data_parallel_size": "2"}, 0, 8},
		{VLLM, map[string]string{"max-num-seqs": "4"}, 2, 2},
		{VLLM, nil, 0, 1},
		{SGLang, map[string]string{"tp": "2"}, 1, 2},
		{TensorRTLLM, map[string]string{"tp-size": "2"}, 0, 2},
		{LlamaCpp, map[string]string{"tp": "2"}, 0, 1},
	} {
		if got := Devices(&planfile.Engine{Dialect: tt.dialect, Devices: tt.said}, tt.flags); got != tt.want {
			t.Errorf("%s %v: %d, want %d", tt.dialect, tt.flags, got, tt.want)
		}
	}
}

// TestDiagnose reads last words as engines print them.
func TestDiagnose(t *testing.T) {
	status := func(n int) *int { return &n }
	for _, tt := range []struct {
		exit *int
		tail string
		want string
	}{
		{status(1), "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\nEngine core initialization failed.", OutOfMemory},
		{status(1), "ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization`", OutOfMemory},
		{status(1), "ggml_backend_cuda_buffer_type_alloc_buffer: allocating 4096.00 MiB on device 0: cudaMalloc failed: out of memory\nmain: error loading model", OutOfMemory},
		{status(1), "model requires more system memory (9.1 GiB) than is available (4.0 GiB)", OutOfMemory},
		{status(2), "ossian: model x does not fit into memory: --max-model-len 131072 with …", OutOfMemory},
		{status(-9), "loading weights", OutOfMemory},
		{status(137), "", OutOfMemory},
		{status(2), "usage: vllm\nvllm: error: unrecognized arguments: --async", Refused},
		{status(2), "api_server.py: error: argument --max-num-seqs: invalid int value: 'x'", Refused},
		{status(1), "error: unknown argument: --foo", Refused},
		{status(1), "OSError: [Errno 98] Address already in use", PortTaken},
		{status(1), "gguf_init_from_file: failed to open: No such file or directory\nllama_load_model_from_file: failed to load model", NoModel},
		{status(1), "NotImplementedError: WFP4A16 MoE is unsupported on SM80.", Unsupported},
		{status(-11), "Fatal Python error: Segmentation fault", Crashed},
		{status(139), "INFO: 200 OK", Crashed},
		{status(0), "", Crashed},
	} {
		reason, line := Diagnose(tt.exit, strings.Split(tt.tail, "\n"))
		if reason != tt.want || (tt.tail != "" && line == "") {
			t.Errorf("%q: %s, %q, want %s", tt.tail, reason, line, tt.want)
		}
	}
}

// TestSignal: what was printed last says little about a program that fell over.
func TestSignal(t *testing.T) {
	status := 139
	if _, line := Diagnose(&status, []string{"INFO: 200 OK"}); line != "ended by signal 11, segmentation fault; last it printed: INFO: 200 OK" {
		t.Error(line)
	}
	status = -6
	if _, line := Diagnose(&status, nil); line != "ended by signal 6, abort" {
		t.Error(line)
	}
}

func TestStartAndStop(t *testing.T) {
	t.Setenv("A_SECRET", "0123456789")
	engine := testEngine("serve", "{port}", "{flags}")
	engine.SecretEnv = []string{"A_SECRET"}
	server, err := Start(t.Context(), engine, "m", map[string]string{"x": "1"}, "word")
	if err != nil {
		t.Fatal(err)
	}
	if got := server.Version(t.Context()); got != "7.8" {
		t.Errorf("version %q", got)
	}
	if err := server.Died(); err != nil {
		t.Error(err)
	}
	if !slices.Equal(server.Env, []string{"A_SECRET", "ENGINES_TEST_SERVER=1"}) {
		t.Errorf("environment in the record: %q", server.Env)
	}
	server.Stop()
	server.Stop()
	if _, err := get(t.Context(), server.URL+"/health"); err == nil {
		t.Error("it answers after it was stopped")
	}
	if tail := server.Log.Tail(20); !slices.Equal(tail, []string{"secret is 10"}) {
		t.Errorf("it printed %q", tail)
	}
}

// TestDies asks a server to end while it is used: the log says why.
func TestDies(t *testing.T) {
	server, err := Start(t.Context(), testEngine("serve", "{port}"), "m", nil, "word")
	if err != nil {
		t.Fatal(err)
	}
	defer server.Stop()
	_, _ = get(t.Context(), server.URL+"/die")
	for server.Died() == nil {
		time.Sleep(10 * time.Millisecond)
	}
	var dead *StartError
	if err := server.Died(); !errors.As(err, &dead) || dead.Reason != OutOfMemory || *dead.Exit != 3 {
		t.Errorf("died of %v", err)
	}
}

func TestDoesNotStart(t *testing.T) {
	slow := testEngine("sleep", "{port}")
	slow.ReadyTimeout = 300 * time.Millisecond
	missing := testEngine("serve")
	missing.Start[0] = "/no/such/program"
	for name, tt := range map[string]struct {
		engine *planfile.Engine
		reason string
		line   string
	}{
		"exits":       {testEngine("fail", "{port}"), Unsupported, "NotImplementedError: WFP4A16 MoE is unsupported on SM80."},
		"never ready": {slow, NeverReady, ""},
		"missing":     {missing, NoProgram, "/no/such/program"},
		"no server":   {&planfile.Engine{URL: "http://127.0.0.1:1", Ready: "/health"}, NeverReady, ""},
	} {
		server, err := Start(t.Context(), tt.engine, "m", nil, "word")
		var start *StartError
		if !errors.As(err, &start) || start.Reason != tt.reason || !strings.Contains(start.Line, tt.line) {
			t.Errorf("%s: %v", name, err)
			continue
		}
		server.Stop()
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Start(ctx, testEngine("sleep", "{port}"), "m", nil, "word"); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// TestLeftovers starts a program that leaves another behind, as a killed lab would.
func TestLeftovers(t *testing.T) {
	if _, err := os.Stat("/proc/self/environ"); err != nil {
		t.Skip("this system does not show environments")
	}
	word := fmt.Sprintf("leftover-%d", os.Getpid())
	cmd := exec.Command(os.Args[0], "parent")
	cmd.Env = append(os.Environ(), "ENGINES_TEST_SERVER=1", mark+"="+word)
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	if ended := EndLeftovers(word + "-other"); ended != 0 {
		t.Errorf("%d processes of another campaign were ended", ended)
	}
	if ended := EndLeftovers(word); ended != 1 {
		t.Errorf("%d processes were ended", ended)
	}
}

func TestLog(t *testing.T) {
	log := &Log{}
	fmt.Fprint(log, "first\n\n 10%\r 50%\r100%\r\n\x1b[31mred\x1b[0m\n", strings.Repeat("x", 400), "\nlast")
	tail := log.Tail(4)
	if len(tail) != 4 || tail[0] != "100%" || strings.ContainsRune(tail[1], 0x1b) || len(tail[2]) > 310 || tail[3] != "last" {
		t.Errorf("tail %q", tail)
	}
	for range 3000 {
		fmt.Fprintln(log, strings.Repeat("y", 999))
	}
	path := filepath.Join(t.TempDir(), "log.gz")
	if err := log.Save(path); err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	reader, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(reader)
	if err != nil || len(text) < maxLog || len(text) > maxLog+100 || !strings.HasPrefix(string(text), "[") {
		t.Errorf("%d bytes, %v, %.40q", len(text), err, text)
	}
}

// TestContainer looks at the command alone: images are not everywhere.
func TestContainer(t *testing.T) {
	engine := &planfile.Engine{Dialect: VLLM, Container: &planfile.Container{
		Image: "image:1", Runtime: "podman", Options: []string{"--gpus", "all"},
		Args: []string{"--model", "{model}", "--host", "{host}", "--port", "{port}", "{flags}"},
	}}
	s := &Server{Engine: engine, name: "box", Env: []string{"A=b", "SECRET"}}
	s.Argv, _ = Command(engine, "m", 9, map[string]string{"xx": "1"})
	want := "podman run --rm --init --name box --label OSSIAN_LAB=word --publish 127.0.0.1:9:9 --env A=b --env SECRET --gpus all image:1 --model m --host 0.0.0.0 --port 9 --xx 1"
	if got := strings.Join(s.containerCommand(9, "word"), " "); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// FuzzWords reads what servers print and answer.
func FuzzWords(f *testing.F) {
	f.Add([]byte(`{"version":"1.2"}`), "CUDA out of memory\n")
	f.Fuzz(func(t *testing.T, answer []byte, printed string) {
		if version := saidVersion(answer); len(version) > 4*200 || strings.ContainsRune(version, 0x1b) {
			t.Errorf("version %q", version)
		}
		log := &Log{}
		fmt.Fprint(log, printed)
		if reason, _ := Diagnose(nil, log.Tail(20)); reason == "" {
			t.Error("no reason")
		}
		versionLine(printed)
	})
}

// TestExpressions: an expression that is none would end the program at its first use.
func TestExpressions(t *testing.T) {
	if err := lazyregexp.Check(); err != nil {
		t.Error(err)
	}
}
